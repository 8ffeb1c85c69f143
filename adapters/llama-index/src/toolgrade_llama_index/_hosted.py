"""Calls that the provider ran itself: LlamaIndex leaves them in the raw reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Literal

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatResponse

from toolgrade.calls import Execution, ToolCall, ToolSpec
from toolgrade.capture import ABSENT, Request
from toolgrade.errors import InvalidDataError
from toolgrade.formats import read
from toolgrade_llama_index._messages import field_of, reply_in

UNREAD_STREAM: Final = (
    "calls that the provider ran itself may be missing: LlamaIndex leaves them out when it streams the answers of this "
    "model; they are recorded with streaming=False"
)

_LEFT_OUT: Final = re.compile(r"(?!function_call$)\w+_call|\w+_tool_use|program|mcp_approval_request")
"""Types of items (OpenAI's Responses) and blocks (Anthropic) with calls that LlamaIndex does not read."""


_BUILT_IN: Final[tuple[tuple[str, str, Literal["openai-responses", "anthropic"]], ...]] = (
    ("built_in_tools", "input", "openai-responses"),
    ("tools", "messages", "anthropic"),
)
"""Attributes of models with tools of the provider, with the key of the messages in its requests and their format."""

_ANY_MESSAGE: Final = [{"role": "user", "content": "-"}]


def with_hosted(
    requests: Sequence[Request], answer: AgentOutput | ChatResponse, warn: Callable[[str], None]
) -> list[Request]:
    """Return the requests in the answer of a model and those that only its raw form shows, in the model's order."""
    left, merged = list(requests), list[Request]()
    for call, caller in _calls_in(reply_in(answer), warn):
        request = next((one for one in left if (one.id, one.name) == (call.id, call.name)), None)
        if request is None:
            request = _request_of(call)
        else:
            left.remove(request)
        request.caller = caller
        merged.append(request)
    return [*merged, *left]


def _calls_in(reply: object, warn: Callable[[str], None]) -> list[tuple[ToolCall, str | None]]:
    """Return all calls in a raw reply, each with the id of the call that made it; none if LlamaIndex shows them all."""
    parts = field_of(reply, "output") or field_of(reply, "content")
    kinds = [str(field_of(part, "type")) for part in parts] if isinstance(parts, list) else []
    if not any(map(_LEFT_OUT.fullmatch, kinds)):
        return []
    try:
        run = read(reply, format="openai-responses" if field_of(reply, "output") else "anthropic").run
    except InvalidDataError as error:
        warn(f"calls that the provider ran may be missing, since its reply could not be read: {error}")
        return []
    calls: list[tuple[ToolCall, str | None]] = []
    for call in run.calls:
        inner = call.execution.children if call.execution else []
        calls += [(call, None), *((one, call.id) for one in inner)]
    return calls


def _request_of(call: ToolCall) -> Request:
    how = call.execution or Execution()
    arguments = call.arguments if how.requested_parameters is None else how.requested_parameters
    request = Request(call.name, arguments, call.id, call.type, how.server, ran=how.executed)
    if how.executed:
        request.failure, request.result = how.error, call.output if call.captured("output") else ABSENT
    return request


def built_in_tools(model: object) -> list[ToolSpec]:
    """Return the provider's own tools that a model was given: of OpenAI's Responses, or of Anthropic."""
    for name, key, form in _BUILT_IN:
        tools = getattr(model, name, None)
        if isinstance(tools, list) and tools:
            with suppress(InvalidDataError):
                return read({key: _ANY_MESSAGE, "tools": tools}, format=form).run.available_tools or []
    return []


def streamed_index(raw: object) -> int | None:
    """Return the place of the call whose arguments a piece of Anthropic's stream continues; `None` for other pieces."""
    is_piece = field_of(field_of(raw, "delta"), "type") == "input_json_delta"
    index = field_of(raw, "index") if is_piece else None
    return index if isinstance(index, int) else None
