"""Which calls of a message did the provider run itself? Their requests and results stand in the message's content.

Read are the providers' own content blocks (Anthropic, OpenAI's Responses, Google) and LangChain's standard blocks, also
where they are wrapped as `non_standard`. Blocks that ask the *client* to do something (`function_call`,
`computer_call`) are no such calls: they come as the message's `tool_calls`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage

from toolmark.calls import ToolCallType
from toolmark.capture import ABSENT, Request

# OpenAI's Responses: the type of an item that the provider ran, its name as a tool, where its arguments and its result
# stand.
_OPENAI: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "web_search_call": ("web_search", ("action",), ()),
    "file_search_call": ("file_search", ("queries",), ("results",)),
    "code_interpreter_call": ("code_interpreter", ("code", "container_id"), ("outputs",)),
    "image_generation_call": ("image_generation", ("revised_prompt",), ("result",)),
    "tool_search_call": ("tool_search", ("arguments",), ("result",)),
}


def hosted_requests(message: AIMessage) -> list[Request]:
    """Return the calls that the provider ran, in the order in which they stand, each with its result if it has one."""
    content = message.content
    extra = message.additional_kwargs.get("tool_outputs")
    blocks = [
        *_unwrapped(content if isinstance(content, list) else ()),
        *_unwrapped(extra if isinstance(extra, list) else ()),
    ]
    results = {str(key): block for block in blocks if (key := _answers(block)) is not None}
    requests: list[Request] = []
    for index, block in enumerate(blocks):
        following = blocks[index + 1] if index + 1 < len(blocks) else {}
        request = _request(block, results, following)
        if request is not None:
            requests.append(request)
    return requests


def _unwrapped(blocks: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    for block in blocks:
        if isinstance(block, Mapping):
            inner = block.get("value")
            yield inner if block.get("type") == "non_standard" and isinstance(inner, Mapping) else block


def _answers(block: Mapping[str, Any]) -> object:
    """Return the id of the call that a block is the result of; None if it is no result."""
    kind = str(block.get("type"))
    if kind == "server_tool_result":
        return block.get("tool_call_id")
    return block.get("tool_use_id") if kind.endswith("_tool_result") else None


def _request(
    block: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]], following: Mapping[str, Any]
) -> Request | None:
    kind = block.get("type")
    if kind in _OPENAI:
        return _openai(block, *_OPENAI[str(kind)])
    if kind == "mcp_call":
        server = block.get("server_label")
        return _finished(block, block.get("name"), block.get("arguments"), block.get("output"), server=server)
    if kind == "executable_code":
        return _google(block, following)
    if kind not in ("server_tool_use", "mcp_tool_use", "server_tool_call"):
        return None
    arguments = block.get("args", block.get("input"))
    answer = results.get(str(block.get("id")))
    result = ABSENT if answer is None else answer.get("output", answer.get("content"))
    failed = answer is not None and (answer.get("is_error") is True or answer.get("status") == "error")
    error = {"error": result} if failed else block
    extras = block.get("extras")
    extras = extras if isinstance(extras, Mapping) else {}
    server = block.get("server_name", extras.get("server_label", extras.get("server_name")))
    name = extras.get("tool_name") or block.get("name")
    return _finished({**block, **error}, name, arguments, result, server=server)


def _openai(block: Mapping[str, Any], name: str, arguments: tuple[str, ...], results: tuple[str, ...]) -> Request:
    action = block.get("action")
    given = (
        {key: value for key, value in action.items() if key != "type"}
        if "action" in arguments and isinstance(action, Mapping)
        else {key: block[key] for key in arguments if block.get(key) is not None}
    )
    result = next((block[key] for key in results if block.get(key) is not None), ABSENT)
    return _finished(block, name, given, result)


def _google(block: Mapping[str, Any], following: Mapping[str, Any]) -> Request:
    answered = following.get("type") == "code_execution_result"
    given = {key: block[name] for key, name in (("code", "executable_code"), ("language", "language")) if name in block}
    result = following.get("code_execution_result") if answered else ABSENT
    return _finished(block, "code_execution", given, result)


def _finished(
    block: Mapping[str, Any], name: object, arguments: object, result: object, *, server: object = None
) -> Request:
    """Return a request that the provider has served, with arguments as an object wherever they can be read as one."""
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments) if arguments else {}
        except (ValueError, RecursionError):
            parsed = arguments
        arguments = parsed if isinstance(parsed, dict) else arguments
    elif not isinstance(arguments, Mapping):
        arguments = {} if arguments is None else {"input": arguments}
    error = block.get("error")
    call_id = block.get("id")
    return Request(
        name=str(name or ""),
        arguments=arguments if isinstance(arguments, str) else dict(arguments),
        id=None if call_id is None else str(call_id),
        type=ToolCallType.HOSTED if server is None and block.get("type") != "mcp_tool_use" else ToolCallType.MCP,
        server=None if server is None else str(server),
        result=None if result is ABSENT and error is None else result,
        failure=None if error is None else error if isinstance(error, str) else json.dumps(error, default=repr),
    )
