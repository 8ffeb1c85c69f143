"""Calls that the provider ran itself, with requests and results in the content of the message.

Read are the content blocks of the providers (Anthropic, OpenAI's Responses, Google) and LangChain's standard blocks,
also wrapped as `non_standard`. Blocks that ask the client to run something (`function_call`, `computer_call`) are left
out, since LangChain returns them as the message's `tool_calls`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from langchain_core.messages import AIMessage

from toolmark.calls import ToolCallType
from toolmark.capture import ABSENT, Request

_Block: TypeAlias = Mapping[str, Any]

# OpenAI's Responses: by the type of an item, the name of the tool and the fields of its arguments and its result.
_OPENAI: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "web_search_call": ("web_search", ("action",), ""),
    "file_search_call": ("file_search", ("queries",), "results"),
    "code_interpreter_call": ("code_interpreter", ("code", "container_id"), "outputs"),
    "image_generation_call": ("image_generation", ("revised_prompt",), "result"),
    "tool_search_call": ("tool_search", ("arguments",), "result"),
}


def hosted_requests(message: AIMessage) -> list[Request]:
    """Return the calls that the provider ran, in order, each with its result if there is one."""
    blocks = [*_blocks(message.content), *_blocks(message.additional_kwargs.get("tool_outputs"))]
    results: dict[str, _Block] = {}
    for block in blocks:
        kind = str(block.get("type"))
        call_id = block.get("tool_call_id" if kind == "server_tool_result" else "tool_use_id")
        if kind.endswith("_tool_result") and call_id is not None:
            results[str(call_id)] = block
    no_block: _Block = {}
    pairs = zip_longest(blocks, blocks[1:], fillvalue=no_block)
    requests = [_request(block, results, following) for block, following in pairs]
    return [request for request in requests if request is not None]


def _blocks(content: object) -> Iterator[_Block]:
    items: Iterable[object] = content if isinstance(content, list) else ()
    for block in items:
        if isinstance(block, Mapping):
            inner = block.get("value")
            yield inner if block.get("type") == "non_standard" and isinstance(inner, Mapping) else block


def _request(block: _Block, results: Mapping[str, _Block], following: _Block) -> Request | None:
    kind = block.get("type")
    if kind in _OPENAI:
        name, fields, result_field = _OPENAI[str(kind)]
        action = block.get("action")
        if "action" in fields and isinstance(action, Mapping):
            arguments = {key: value for key, value in action.items() if key != "type"}
        else:
            arguments = {key: block[key] for key in fields if block.get(key) is not None}
        result = block.get(result_field)
        return _finished(block, name, arguments, ABSENT if result is None else result)
    if kind == "mcp_call":
        server = block.get("server_label")
        return _finished(block, block.get("name"), block.get("arguments"), block.get("output"), server=server)
    if kind == "executable_code":  # Google's, whose result is the next block
        keys = {"code": "executable_code", "language": "language"}
        arguments = {key: block[name] for key, name in keys.items() if name in block}
        is_result = following.get("type") == "code_execution_result"
        output = following.get("code_execution_result") if is_result else ABSENT
        return _finished(block, "code_execution", arguments, output)
    if kind in ("server_tool_use", "mcp_tool_use", "server_tool_call"):
        return _with_separate_result(block, results.get(str(block.get("id"))))
    return None


def _with_separate_result(block: _Block, answer: _Block | None) -> Request:
    """Return the request in a block of Anthropic or LangChain, whose result is in another block."""
    result = ABSENT if answer is None else answer.get("output", answer.get("content"))
    if answer is not None and (answer.get("is_error") is True or answer.get("status") == "error"):
        block = {**block, "error": result}
    extras = block.get("extras")
    extras = extras if isinstance(extras, Mapping) else {}
    server = block.get("server_name", extras.get("server_label", extras.get("server_name")))
    name = extras.get("tool_name") or block.get("name")
    return _finished(block, name, block.get("args", block.get("input")), result, server=server)


def _finished(block: _Block, name: object, arguments: object, result: object, *, server: object = None) -> Request:
    """Return a request that the provider has run, with its arguments as an object if they can be read as one."""
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments) if arguments else {}
        except (ValueError, RecursionError):
            parsed = arguments
        arguments = parsed if isinstance(parsed, dict) else arguments
    elif not isinstance(arguments, Mapping):
        arguments = {} if arguments is None else {"input": arguments}
    error, call_id = block.get("error"), block.get("id")
    failure = error if error is None or isinstance(error, str) else json.dumps(error, default=repr)
    return Request(
        name=str(name or ""),
        arguments=arguments if isinstance(arguments, str) else dict(arguments),
        id=None if call_id is None else str(call_id),
        type=ToolCallType.HOSTED if server is None and block.get("type") != "mcp_tool_use" else ToolCallType.MCP,
        server=None if server is None else str(server),
        result=None if result is ABSENT and error is None else result,
        failure=failure,
    )
