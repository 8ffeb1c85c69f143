"""Runs read from what the SDK stores of them: the items of a result, and the responses of the model.

Items have the agents, outputs as values, and which calls are handoffs. Responses have the calls that a handoff's filter
removed from the items, and show which calls one message asked for.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toolmark import InvalidDataError, ToolCallType, ToolSpec
from toolmark.capture import ABSENT, Request, RunBuilder
from toolmark.cases import Run, RunStatus
from toolmark.formats import Answer, read_responses_answer, read_responses_call
from toolmark_openai_agents import _errors, _messages, _states
from toolmark_openai_agents._tools import field_of, handoffs_around, listed_tools

_COPIES: Final = frozenset({"tool_approval_item", "mcp_approval_response_item"})
"""Items that repeat a call which has an item of its own."""

_INCOMPLETE: Final = (
    "read from a finished result: a failure that the tool's own function worded, or that an MCP server reported, looks "
    "like a success; calls made inside tools and times are missing"
)
_CUT_SHORT: Final = "read from a run that failed: the calls of the turn in which it failed are missing"

_keys: Final = itertools.count()


def run_from_result(
    result: Any,
    error: BaseException | None = None,
    *,
    input: str | None = None,
    conversation_id: str | None = None,
) -> Run:
    """Return the run that a result of the SDK holds.

    A result holds less than a recording, see the adapter guide; the run's `warnings` list what may be missing.

    Args:
        result: What `Runner.run`, `run_sync` or `run_streamed` returned (a stream must have been read to its end), the
            exception that ended the run, or its `run_data`; `None` with an `error` that has no `run_data`.
        error: The exception that ended the run, unless `result` is that exception.
        input: The text of the user; by default that of the user messages at the end of the result's own input, which
            handoffs may have rewritten.
        conversation_id: The conversation of the run.

    Raises:
        InvalidDataError: `result` is none of these, or a stream that was not read to its end.
    """
    if isinstance(result, BaseException):
        error = error or result
        result = getattr(result, "run_data", None)
    elif result is None and error is not None:
        result = getattr(error, "run_data", None)
    _check_result(result, error)
    builder = RunBuilder(conversation_id=conversation_id)
    builder.started(input if input is not None else _messages.question_of(getattr(result, "input", None)))
    responses = list(getattr(result, "raw_responses", ()) or ())
    items = list(getattr(result, "new_items", ()) or ())
    interrupted = bool(getattr(result, "interruptions", None))
    requests = read_items(
        builder,
        items,
        responses,
        interrupted=interrupted,
        refusals=_states.guardrail_texts(result),
        context=getattr(result, "context_wrapper", None),
    )
    model = _messages.model_name(getattr(result, "last_agent", None), None)
    for response in responses:
        builder.model_used(model, _messages.usage_of(response))
    if requests:
        builder.warn(_INCOMPLETE)
    waits = interrupted or _messages.waits_for_approval(items)
    if error is not None:
        if not isinstance(error, _errors.COMPLETE):
            builder.warn(_CUT_SHORT)
        builder.ended(None, status=_errors.status_of(error), error=_errors.error_text(error))
    elif not waits and hasattr(result, "stream_events") and not _states.has_answer(result):
        builder.ended(None, status=RunStatus.STOPPED, error=_states.stop_reason(result))
    else:
        builder.ended(None if waits else _messages.answer_of(result.final_output), may_wait=waits)
    return builder.build()


def _check_result(result: Any, error: BaseException | None) -> None:
    if hasattr(result, "new_items"):
        if getattr(result, "is_complete", True) is False and error is None:
            raise InvalidDataError("the stream goes on: read `result.stream_events()` to its end first")
    elif result is not None or error is None:
        raise InvalidDataError(
            f"expected a result of `Runner.run`, `run_sync` or `run_streamed`, or the exception of one, got "
            f"{type(result).__name__}"
        )


@dataclass(eq=False)
class _Call:
    request: Request
    agent: str | None
    is_handoff: bool = False
    target: str | None = None


@dataclass(eq=False)
class _Result:
    answer: Answer
    output: Any
    """What the tool returned; `ABSENT` if only its text is stored."""


class _Items:
    """The calls and results in the items of a run."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.messages: list[list[_Call]] = [[]]
        """The calls between two results, which need not be those of one message of the model."""
        self.results: dict[str | None, deque[_Result]] = defaultdict(deque)
        self.tools: list[ToolSpec] = []
        self.targets: dict[str, str] = {}
        for item in items:
            raw, kind = _messages.raw_item(item), getattr(item, "type", None)
            self.tools += listed_tools(raw)
            self.targets.update(handoffs_around(getattr(item, "agent", None)))
            answer = read_responses_answer(raw)
            request = None if kind in _COPIES else read_responses_call(raw)
            if answer is not None:
                # Only the item of a function has the value that it returned; those of other tools have texts.
                is_value = kind == "tool_call_output_item" and field_of(raw, "type") == "function_call_output"
                self._add_result(item, answer, getattr(item, "output", ABSENT) if is_value else ABSENT)
            elif request is not None:
                self._add_call(item, request, is_handoff=kind == "handoff_call_item")

    def _add_result(self, item: Any, answer: Answer, output: Any) -> None:
        self.results[answer.call_id].append(_Result(answer, output))
        target = _messages.agent_name(getattr(item, "target_agent", None))
        if target is not None:
            for call in itertools.chain(*self.messages):
                if call.request.id == answer.call_id:
                    call.is_handoff, call.target = True, target
        self.messages.append([])

    def _add_call(self, item: Any, request: Request, *, is_handoff: bool) -> None:
        server = getattr(getattr(item, "tool_origin", None), "mcp_server_name", None)
        if isinstance(server, str):
            request = replace(request, type=ToolCallType.MCP, server=server)
        agent = _messages.agent_name(getattr(item, "agent", None))
        self.messages[-1].append(_Call(request, agent, is_handoff))

    def by_response(self, responses: Sequence[Any], builder: RunBuilder) -> Iterator[list[_Call]]:
        """Yield the calls of each response, and then those that no response has; warn of repeated ones."""
        unclaimed = list(itertools.chain(*self.messages))
        earlier: list[Request] = []
        for response in responses:
            message: list[_Call] = []
            for request in filter(None, map(read_responses_call, getattr(response, "output", ()))):
                call = next((call for call in unclaimed if _messages.same_call(call.request, request)), None)
                if call is not None:
                    unclaimed.remove(call)
                elif self._ran_once(request, earlier):
                    builder.warn(_messages.repetition_warning(request))
                    continue
                else:
                    target = self.targets.get(request.name)
                    call = _Call(request, message[0].agent if message else None, target is not None, target)
                message.append(call)
                earlier.append(request)
            yield message
        for message in self.messages:
            yield [call for call in message if call in unclaimed]

    def _ran_once(self, request: Request, earlier: Sequence[Request]) -> bool:
        """Return whether the SDK took a call for a repetition: it has no more results than calls before it."""
        count = sum(_messages.same_call(request, other) for other in earlier)
        return _messages.is_repeated(request, earlier) and len(self.results[request.id]) <= count


def read_items(
    builder: RunBuilder,
    items: Sequence[Any],
    responses: Sequence[Any],
    *,
    scope: int | None = None,
    interrupted: bool = False,
    refusals: Collection[str] = (),
    context: Any = None,
) -> list[Request]:
    """Add the calls and results of a run that was not observed, and return its requests.

    Args:
        builder: The builder to add them to.
        items: The items of the run, in their order.
        responses: The model's responses; without them, results between calls separate the messages.
        scope: The execution inside which the run took place.
        interrupted: The run waits for a person, so that results may be missing.
        refusals: The texts of guardrails that kept calls from running.
        context: The context of the run, which remembers the calls that a person rejected.
    """
    read = _Items(items)
    if read.tools:
        builder.offered(read.tools, scope=scope, all_known=False)
    messages = [message for message in read.by_response(responses, builder) if message]
    for message in messages:
        builder.model_asked([call.request for call in message], scope=scope, agent=message[0].agent)
        for call in message:
            if call.is_handoff:
                builder.handed_off(to=call.target, call_id=call.request.id, scope=scope)
        for call in message:
            results = read.results.get(call.request.id)
            if results:
                result = results.popleft()
                text = result.answer.content
                is_rejected = (
                    result.answer.approved is False
                    or _errors.is_refusal(text)
                    or (isinstance(text, str) and text in refusals)
                    or _is_rejected(context, call.request)
                )
                _add_result(builder, call, result, is_rejected=is_rejected, scope=scope)
    unmatched = sum(len(results) for results in read.results.values())
    if unmatched and not interrupted:
        builder.warn(f"{unmatched} results answer no call of the run; they were left out")
    return [call.request for message in messages for call in message]


def _add_result(builder: RunBuilder, call: _Call, result: _Result, *, is_rejected: bool, scope: int | None) -> None:
    answer, request = result.answer, call.request
    text = answer.content if isinstance(answer.content, str) else None
    unknown_tool = text is not None and text.startswith(f"Tool {request.name!r} not found.")
    error = answer.error if answer.failed else _errors.default_error_text(text)
    succeeded = error is None and not (call.is_handoff or answer.approved)
    ran_locally = not (request.ran or request.type is ToolCallType.HOSTED or unknown_tool or is_rejected)
    if ran_locally and (succeeded or error is not None):
        key = f"read-{next(_keys)}"
        arguments = request.arguments if isinstance(request.arguments, dict) else None
        builder.tool_started(key, request.name, arguments, call_id=request.id, scope=scope)
        if error is not None:
            builder.tool_failed(key, error)
        else:
            output = result.output
            builder.tool_ended(key, answer.content if output is ABSENT else _messages.plain_output(output, text))
    if not answer.approved:
        builder.result_shown(
            answer.content,
            call_id=request.id,
            name=request.name,
            failed=answer.failed or unknown_tool or is_rejected or error is not None,
            error=answer.error,
            unknown_tool=unknown_tool,
            scope=scope,
        )


def _is_rejected(context: Any, request: Request) -> bool:
    """Return whether a person rejected a call, as the context of the run remembers it."""
    is_approved = getattr(context, "is_tool_approved", None)
    if is_approved is None or request.id is None:
        return False
    try:
        return is_approved(request.name, request.id) is False
    except Exception:  # noqa: BLE001 - the signature differs between releases
        return False
