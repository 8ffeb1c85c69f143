"""Reader of the content blocks of one message of a model: texts, calls and results in the order of the model.

A message may also list calls outside of its content, as LangChain's does. Blocks that repeat one of these add what only
they show: where it stands, which call made it, and the reasoning before it.

Sources: those of `anthropic` and `openai_responses`; Gemini API reference, "Part" (`executableCode`); LangChain
documentation, "Messages", section "Standard content blocks"; `langchain_core.messages.block_translators`, which renames
tools of the provider (`remote_mcp`, `mcp_list_tools`) and keeps what it has no field for in `extras`;
`langchain_anthropic`, which collects the arguments of streamed calls in `partial_json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from toolgrade._internal.message_content import (
    Fields,
    first_of,
    is_tool_search,
    object_of,
    part_text,
    parts_of,
    text_of,
)
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.content_parts import with_arguments
from toolgrade.formats.messages.field_readers import (
    id_of,
    list_of,
    output_or_absent,
    plain,
    reasoning_in,
)
from toolgrade.formats.messages.message import Answer
from toolgrade.formats.messages.openai_responses import error_text, read_responses_answer, read_responses_call

_LISTED = frozenset(
    {"tool_use", "tool_call", "invalid_tool_call", "tool_call_chunk", "function_call", "custom_tool_call"}
)
"""Types of blocks that repeat a listed call; the call of one that is in no list was removed by middleware."""

_RUN_BY_PROVIDER = frozenset({"server_tool_use", "mcp_tool_use", "server_tool_call"})
_FAILED = frozenset({"error", "failed", "incomplete", "cancelled"})

_LIST_OF_TOOLS = "mcp_list_tools"
"""LangChain's name of what is no call: a server shows its tools."""

_RENAMING = frozenset({"anthropic", "google_genai"})
"""Providers whose `code_execution` LangChain calls `code_interpreter`."""


class ContentBlocks(NamedTuple):
    """What the content of one message holds.

    Attributes:
        parts: The texts and calls in their order; calls that the content does not show come last. A call that the
            provider ran has its result, if that is in the same message.
        answers: The results of calls of other messages.

    Example:
        >>> from toolgrade.formats import read_content_blocks
        >>> read_content_blocks([{"type": "text", "text": "Hello."}])
        ContentBlocks(parts=['Hello.'], answers=[])
    """

    parts: list[str | Request]
    answers: list[Answer]


def read_content_blocks(
    content: object,
    listed: Iterable[Request] = (),
    *,
    additional: Mapping[str, Any] | None = None,
    provider: str | None = None,
    path: str | None = None,
) -> ContentBlocks:
    """Return the texts, calls and results in the content of a message.

    The blocks have the form of Anthropic, OpenAI's Responses, Google or LangChain, there also wrapped as
    `non_standard`. Others are left out, as are a provider's search for tools and its list of them: no tool is used.

    Args:
        content: The content: a text, or a list of blocks.
        listed: The calls that the message has outside of its content. They are returned as these very objects.
        additional: LangChain's `additional_kwargs`, in which older versions put reasoning and items of OpenAI.
        provider: LangChain's name of the provider (`model_provider`).
        path: The path of the content, from which the calls in it get their `source`.

    Example:
        >>> from toolgrade.formats import read_content_blocks
        >>> use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "cats"}}
        >>> result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": "Cats."}
        >>> [call] = read_content_blocks([use, result]).parts
        >>> print(call.name, call.arguments, call.result)
        web_search {'query': 'cats'} Cats.
    """
    additional = additional or {}
    before = [
        additional.get("reasoning") or {"reasoning": additional.get("reasoning_content")},
        *list_of(additional.get("tool_outputs")),
    ]
    reader = _BlockReader(list(listed), provider)
    for index, block in enumerate([*before, *parts_of(content)], -len(before)):
        reader.add(block, None if path is None or index < 0 else f"{path}[{index}]")
    return reader.result()


class _BlockReader:
    """What the blocks so far hold; `remaining` are the listed calls that no block has repeated yet."""

    def __init__(self, remaining: list[Request], provider: str | None) -> None:
        self._remaining, self._provider = remaining, provider
        self._parts: list[str | Request] = []
        self._answers: list[Answer] = []
        self._reasoning: str | None = None
        """The reasoning before the next call: one thought precedes all calls up to the next thought."""
        self._thought: str | None = None
        """The reasoning in the last block; LangChain divides one thought into several blocks."""

    def add(self, block: object, path: str | None) -> None:
        """Add the next block."""
        fields = _unwrapped(block)
        previous, self._thought = self._thought, reasoning_in(fields)
        if self._thought is not None:
            self._reasoning = "\n".join(filter(None, [previous, self._thought])) or None
        text = block if isinstance(block, str) else part_text(fields)
        request = _take_listed(fields, self._remaining) or _call_in(fields, self._provider)
        if text:
            self._add_text(text)
        elif request is not None:
            request.source = request.source or path
            self._parts.append(self._with_reasoning(request))
        else:
            answer = _answer_in(fields)
            if answer is not None and not _is_set(answer, self._parts):
                self._answers.append(answer)

    def _add_text(self, text: str) -> None:
        if self._parts and isinstance(self._parts[-1], str):
            self._parts[-1] += text
        else:
            self._parts.append(text)

    def _with_reasoning(self, request: Request) -> Request:
        request.reasoning = request.reasoning or self._reasoning
        return request

    def result(self) -> ContentBlocks:
        """Return what all of them hold."""
        parts = [part for part in self._parts if isinstance(part, str) or not _only_shows_tools(part)]
        return ContentBlocks([*parts, *map(self._with_reasoning, self._remaining)], self._answers)


def _unwrapped(block: object) -> Fields:
    fields = object_of(block)
    return object_of(fields.get("value")) if fields.get("type") == "non_standard" else fields


def _only_shows_tools(request: Request) -> bool:
    is_hosted = request.type is ToolCallType.HOSTED
    return is_hosted and (is_tool_search(request.name) or request.name == _LIST_OF_TOOLS)


def _take_listed(fields: Fields, remaining: list[Request]) -> Request | None:
    """Remove the call that a block repeats from those that remain, and return it with what the block adds."""
    if str(fields.get("type")) not in _LISTED:
        return None
    ids = {id_of(fields.get("id")), id_of(fields.get("call_id"))} - {None}
    request = next((request for request in remaining if request.id in ids), None)
    if request is not None:
        remaining[:] = [other for other in remaining if other is not request]
        request.caller = _caller_in(fields)
        if fields["type"] == "custom_tool_call" and isinstance(fields.get("input"), str):
            request.type, request.arguments = ToolCallType.CUSTOM, {"input": fields["input"]}
    return request


def _caller_in(fields: Fields) -> str | None:
    caller = object_of(fields.get("caller") or object_of(fields.get("extras")).get("caller"))
    return text_of(first_of(caller, "tool_id", "caller_id"))


def _call_in(fields: Fields, provider: str | None) -> Request | None:
    """Return the call in a block that repeats none."""
    kind, extras = str(fields.get("type")), object_of(fields.get("extras"))
    if kind in _LISTED:
        return None
    if kind in _RUN_BY_PROVIDER:
        return _provider_call(fields, extras, provider)
    if kind == "executable_code":  # of Google
        keys = {"code": "executable_code", "language": "language"}
        arguments = {key: fields[name] for key, name in keys.items() if name in fields}
        return Request("code_execution", arguments, id_of(fields.get("id")), ToolCallType.HOSTED, ran=True)
    if kind == "image" and "status" in extras:  # LangChain's form of a call of image generation
        fields = {**extras, "type": "image_generation_call", "id": fields.get("id"), "result": fields.get("base64")}
    return read_responses_call(fields)


def _provider_call(fields: Fields, extras: Fields, provider: str | None) -> Request:
    """Return the call in a block of Anthropic or LangChain, whose result is in a block of its own."""
    name = text_of(extras.get("tool_name")) or text_of(fields.get("name")) or ""
    if name == "code_interpreter" and provider in _RENAMING:
        name = "code_execution"
    server = text_of(fields.get("server_name") or first_of(extras, "server_label", "server_name"))
    is_mcp = (server is not None and name != _LIST_OF_TOOLS) or fields["type"] == "mcp_tool_use"
    request = Request(name, {}, id_of(fields.get("id")), ToolCallType.MCP if is_mcp else ToolCallType.HOSTED, server)
    request.caller, request.replaces = _caller_in(fields), text_of(extras.get("approval_request_id"))
    arguments = fields.get("partial_json") or first_of(fields, "args", "input")
    return with_arguments(request, first_of(extras, "arguments") if arguments is None else arguments)


def _answer_in(fields: Fields) -> Answer | None:
    """Return the result in a block, `None` of any other block and of a search for tools."""
    kind, extras = str(fields.get("type")), object_of(fields.get("extras"))
    if kind == "code_execution_result":  # of Google
        output, failed = fields.get("code_execution_result"), fields.get("outcome", 1) != 1
        error = error_text(output, extras) if failed else None
        return Answer(id_of(fields.get("tool_call_id")), None, output, failed, error, ran=True)
    if not kind.endswith("tool_result"):
        return read_responses_answer(fields)
    if any(map(is_tool_search, (kind, extras.get("block_type"), extras.get("name")))):
        return None
    call_id, output = id_of(first_of(fields, "tool_call_id", "tool_use_id")), first_of(fields, "output", "content")
    details = object_of(output)
    if set(details) == {"sources"}:  # LangChain's form of the result of OpenAI's web search
        output = details["sources"]
    is_error = str(details.get("type")).endswith("_error")
    failed = is_error or fields.get("is_error") is True
    failed |= not _FAILED.isdisjoint([str(fields.get("status")), str(extras.get("status"))])
    output = plain(output if kind == "server_tool_result" and _are_results(output) else output_or_absent(output))
    error = text_of(first_of(details, "error_message", "error_code")) if is_error else None
    error = error or (error_text(output, {"status": "failed", **extras}) if failed else None)
    return Answer(call_id, None, output, failed, error, ran=kind != "tool_result")


def _are_results(output: object) -> bool:
    """Return whether an output is a list of results with texts among their fields, as of a file search: no blocks."""
    items = list_of(output)
    return bool(items) and not any("type" in object_of(item) or isinstance(item, str) for item in items)


def _is_set(answer: Answer, parts: list[str | Request]) -> bool:
    """Give a result to the last call of its id, and return whether there is one; blocks of Google have no ids."""
    request = next((part for part in reversed(parts) if isinstance(part, Request) and part.id == answer.call_id), None)
    if request is None:
        return False
    request.ran, request.result = True, answer.content
    if answer.failed:
        request.failure = answer.error or "failed"
    return True
