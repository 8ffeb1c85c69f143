"""Calls that the provider ran itself, with requests and results in the content of the message.

Read are the content blocks of the providers (Anthropic, OpenAI's Responses, Google) and LangChain's standard blocks,
also wrapped as `non_standard`. Blocks that ask the client to run something (`function_call`, `computer_call`) are left
out, since LangChain returns them as the message's `tool_calls`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

from langchain_core.messages import AIMessage

from toolgrade.calls import ToolCallType
from toolgrade.capture import ABSENT, Request

_Block: TypeAlias = Mapping[str, Any]

# OpenAI's Responses: by the type of an item, the name of the tool and the fields of its arguments and its result.
_OPENAI: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "web_search_call": ("web_search", ("action",), ""),
    "file_search_call": ("file_search", ("queries",), "results"),
    "code_interpreter_call": ("code_interpreter", ("code", "container_id"), "outputs"),
    "image_generation_call": ("image_generation", ("revised_prompt",), "result"),
    "tool_search_call": ("tool_search", ("arguments",), "result"),
}

_SEPARATE: Final = frozenset({"server_tool_use", "mcp_tool_use", "server_tool_call"})
"""Requests whose results are in blocks of their own."""


class HostedResult(NamedTuple):
    """The result of a call that an earlier message requested, since the provider paused its turn."""

    call_id: str
    output: object
    failure: str | None


def hosted_requests(message: AIMessage) -> dict[int, Request]:
    """Return the calls that the provider ran, each with its result if there is one, by position in the content."""
    blocks = _all_blocks(message)
    if not blocks:
        return {}
    results = _results(blocks)
    is_paused = message.response_metadata.get("stop_reason") == "pause_turn"
    no_block: _Block = {}
    requests: dict[int, Request] = {}
    for index, (block, following) in enumerate(zip_longest(blocks, blocks[1:], fillvalue=no_block)):
        request = _request(block, results, following)
        if request is not None:
            if is_paused and block.get("type") in _SEPARATE and str(block.get("id")) not in results:
                request.result = ABSENT  # it is in the next message
            requests[index] = request
    return requests


def late_results(message: AIMessage) -> list[HostedResult]:
    """Return the results in a message of calls that it does not request itself."""
    blocks = _all_blocks(message)
    if not blocks:
        return []
    requested = {str(block.get("id")) for block in blocks if block.get("type") in _SEPARATE}
    late: list[HostedResult] = []
    for call_id, block in _results(blocks).items():
        if call_id not in requested:
            output = block.get("output", block.get("content"))
            late.append(HostedResult(call_id, output, _failure(block, output)))
    return late


def call_positions(message: AIMessage) -> dict[str, int]:
    """Return the position in the content of each block by its id."""
    positions: dict[str, int] = {}
    for index, block in enumerate(_all_blocks(message)):
        for name in ("id", "call_id"):
            if isinstance(block.get(name), str):
                positions.setdefault(block[name], index)
    return positions


def _all_blocks(message: AIMessage) -> list[_Block]:
    if isinstance(message.content, str) and not message.additional_kwargs:  # most messages
        return []
    return [*_blocks(message.content), *_blocks(message.additional_kwargs.get("tool_outputs"))]


def _results(blocks: Iterable[_Block]) -> dict[str, _Block]:
    """Return the blocks of results by the id of their call."""
    results: dict[str, _Block] = {}
    for block in blocks:
        kind = str(block.get("type"))
        call_id = block.get("tool_call_id" if kind == "server_tool_result" else "tool_use_id")
        if kind.endswith("_tool_result") and call_id is not None:
            results[str(call_id)] = block
    return results


def _failure(answer: _Block, result: object) -> str | None:
    """Return the error in a block of a result, `None` if it reports success."""
    code = None
    if isinstance(result, Mapping) and str(result.get("type")).endswith("_tool_result_error"):
        code = result.get("error_code") or "error"
    if code is None and answer.get("is_error") is not True and answer.get("status") != "error":
        return None
    return str(code) if code is not None else _text(result)


def _text(error: object) -> str:
    return error if isinstance(error, str) else json.dumps(error, default=repr)


def _blocks(content: object) -> Iterator[_Block]:
    items: Iterable[object] = content if isinstance(content, list) else ()
    for block in items:
        if isinstance(block, Mapping):
            inner = block.get("value")
            yield inner if block.get("type") == "non_standard" and isinstance(inner, Mapping) else block


def _request(block: _Block, results: Mapping[str, _Block], following: _Block) -> Request | None:
    kind = block.get("type")
    if kind in _OPENAI:
        return _openai_request(block, *_OPENAI[str(kind)])
    if kind == "mcp_call":
        server = block.get("server_label")
        return _finished(block, block.get("name"), block.get("arguments"), block.get("output"), server=server)
    if kind == "executable_code":
        return _google_request(block, following)
    if kind in _SEPARATE:
        return _with_separate_result(block, results.get(str(block.get("id"))))
    return None


def _openai_request(block: _Block, name: str, fields: Iterable[str], result_field: str) -> Request:
    """Return the request in an item of OpenAI's Responses."""
    action = block.get("action")
    if "action" in fields and isinstance(action, Mapping):
        arguments = {key: value for key, value in action.items() if key != "type"}
    else:
        arguments = {key: block[key] for key in fields if block.get(key) is not None}
    result = block.get(result_field)
    return _finished(block, name, arguments, ABSENT if result is None else result)


def _google_request(block: _Block, following: _Block) -> Request:
    """Return the request in a block of code that Google ran, whose result is the next block."""
    keys = {"code": "executable_code", "language": "language"}
    arguments = {key: block[name] for key, name in keys.items() if name in block}
    is_result = following.get("type") == "code_execution_result"
    output = following.get("code_execution_result") if is_result else ABSENT
    return _finished(block, "code_execution", arguments, output)


def _with_separate_result(block: _Block, answer: _Block | None) -> Request:
    """Return the request in a block of Anthropic or LangChain, whose result is in another block."""
    result = ABSENT if answer is None else answer.get("output", answer.get("content"))
    failure = None if answer is None else _failure(answer, result)
    if failure is not None:
        block = {**block, "error": failure}
    extras = block.get("extras")
    extras = extras if isinstance(extras, Mapping) else {}
    server = block.get("server_name", extras.get("server_label", extras.get("server_name")))
    name = extras.get("tool_name") or block.get("name")
    return _finished(block, name, block.get("args", block.get("input")), result, server=server)


def _readable(arguments: object) -> str | dict[str, Any]:
    """Return arguments as an object; as text, if they are one that is not the text of an object."""
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments) if arguments else {}
        except (ValueError, RecursionError):
            parsed = None
        return parsed if isinstance(parsed, dict) else arguments
    if isinstance(arguments, Mapping):
        return dict(arguments)
    return {} if arguments is None else {"input": arguments}


def _finished(block: _Block, name: object, arguments: object, result: object, *, server: object = None) -> Request:
    """Return a request that the provider has run, with its arguments as an object if they can be read as one."""
    error, call_id = block.get("error"), block.get("id")
    if error is None and block.get("status") == "failed":
        error = "failed"
    failure = None if error is None else _text(error)
    return Request(
        name=str(name or ""),
        arguments=_readable(arguments),
        id=None if call_id is None else str(call_id),
        type=ToolCallType.HOSTED if server is None and block.get("type") != "mcp_tool_use" else ToolCallType.MCP,
        server=None if server is None else str(server),
        result=None if result is ABSENT and error is None else result,
        failure=failure,
    )
