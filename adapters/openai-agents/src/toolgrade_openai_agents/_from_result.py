"""Runs read from what the SDK stores of them: the items of a result, and the responses of the model.

Both are needed. Only items name the agents, hold the values that tools returned, and tell handoffs from other calls.
Only responses show which calls one message of the model requested, and hold the calls that a handoff's filter removed
from the items.

A *result* is what the SDK's runner returns; what a tool returned is an *output*.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final

from toolgrade import InvalidDataError, ToolCallType, ToolSpec
from toolgrade.capture import ABSENT, Request, RunBuilder
from toolgrade.cases import Run, RunStatus
from toolgrade.formats import Answer, read_responses_answer, read_responses_call
from toolgrade_openai_agents import _errors, _messages, _states
from toolgrade_openai_agents._tools import carries_answer, field_of, handoffs_around, listed_tools, refused_target

_COPIES: Final = frozenset({"tool_approval_item", "mcp_approval_response_item"})
"""Items that repeat a call which has an item of its own."""

_INCOMPLETE: Final = (
    "read from a finished result: a failure that the tool's own error function turned into text, or that an MCP server "
    "reported, looks like a success; calls made inside tools and times are missing"
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
        input: The text of the user; by default that of the last user messages of the result's own input, which
            handoffs may have rewritten.
        conversation_id: The conversation of the run.

    Raises:
        InvalidDataError: `result` is none of these, or a stream that was not read to its end.

    Example:
        >>> import asyncio
        >>> from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, RunResult, function_tool
        >>> from openai import AsyncOpenAI
        >>> from toolgrade.testing import AskFor, FakeOpenAI
        >>> from toolgrade_openai_agents import run_from_result
        >>> get_weather = function_tool(lambda city: f"sunny in {city}", name_override="get_weather")
        >>> async def main() -> RunResult:
        ...     with FakeOpenAI([AskFor("get_weather", {"city": "Paris"}, "c1")], "It is sunny.") as server:
        ...         async with AsyncOpenAI(base_url=server.base_url, api_key="any") as client:
        ...             agent = Agent("Weather", model=OpenAIChatCompletionsModel("any", client), tools=[get_weather])
        ...             options = {"run_config": RunConfig(tracing_disabled=True)}
        ...             return await Runner.run(agent, "What is the weather in Paris?", **options)
        >>> run = run_from_result(asyncio.run(main()))
        >>> run.actual_output, [(call.name, call.arguments) for call in run.calls]
        ('It is sunny.', [('get_weather', {'city': 'Paris'})])
    """
    if isinstance(result, BaseException):
        error = error or result
        result = getattr(result, "run_data", None)
    elif result is None and error is not None:
        result = getattr(error, "run_data", None)
    _check_result(result, error)
    builder = RunBuilder(conversation_id=conversation_id)
    user_input = getattr(result, "input", None)
    builder.started(
        _messages.question_of(user_input) if input is None else input, parts=_messages.images_of_question(user_input)
    )
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
    _record_end(builder, result, error, waits=waits)
    return builder.build()


def _record_end(builder: RunBuilder, result: Any, error: BaseException | None, *, waits: bool) -> None:
    """Add how a run ended that may wait for a person."""
    if error is not None:
        if not isinstance(error, _errors.COMPLETE):
            builder.warn(_CUT_SHORT)
        builder.ended(None, status=_errors.status_of(error), error=_errors.error_text(error))
    elif not waits and hasattr(result, "stream_events") and not _states.has_answer(result):
        builder.ended(None, status=RunStatus.STOPPED, error=_states.stop_reason(result))
    else:
        builder.ended(None if waits else _messages.answer_of(result.final_output), may_wait=waits)


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
class _ItemCall:
    request: Request
    agent: str | None
    is_handoff: bool = False
    target: str | None = None


@dataclass(eq=False)
class _ItemOutput:
    answer: Answer
    value: Any
    """What the tool returned; `ABSENT` if only its text is stored."""


class _Items:
    """The calls and outputs in the items of a run."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.groups: list[list[_ItemCall]] = [[]]
        """The calls between one output and the next. A group need not be what one message of the model requested."""
        self.outputs: dict[str | None, deque[_ItemOutput]] = defaultdict(deque)
        """The outputs by the id of their call, in order."""
        self.structured: list[Request] = []
        """The calls that carry the structured answer."""
        self.tools: list[ToolSpec] = []
        self.targets: dict[str, str] = {}
        for item in items:
            raw, kind = _messages.raw_item(item), getattr(item, "type", None)
            self.tools += listed_tools(raw)
            self.targets.update(handoffs_around(getattr(item, "agent", None)))
            answer = read_responses_answer(raw)
            request = None if kind in _COPIES else read_responses_call(raw)
            if self._is_answer(item, request, answer):
                continue
            if answer is not None:
                # Only the item of a function has the value that it returned; those of other tools have texts.
                is_value = kind == "tool_call_output_item" and field_of(raw, "type") == "function_call_output"
                self._add_output(item, answer, getattr(item, "output", ABSENT) if is_value else ABSENT)
            elif request is not None:
                self._add_call(item, request, is_handoff=kind == "handoff_call_item")

    def _is_answer(self, item: Any, request: Request | None, answer: Answer | None) -> bool:
        """Return whether an item is a call that carries the structured answer, or the result of one."""
        if request is not None and carries_answer(request.name, getattr(item, "agent", None)):
            self.structured.append(request)
            return True
        return answer is not None and any(request.id == answer.call_id for request in self.structured)

    def _add_output(self, item: Any, answer: Answer, value: Any) -> None:
        self.outputs[answer.call_id].append(_ItemOutput(answer, value))
        target = _messages.agent_name(getattr(item, "target_agent", None))
        if target is not None:
            for call in itertools.chain(*self.groups):
                if call.request.id == answer.call_id:
                    call.is_handoff, call.target = True, target
        self.groups.append([])

    def _add_call(self, item: Any, request: Request, *, is_handoff: bool) -> None:
        server = getattr(getattr(item, "tool_origin", None), "mcp_server_name", None)
        if isinstance(server, str):
            request = replace(request, type=ToolCallType.MCP, server=server)
        agent = getattr(item, "agent", None)
        # The item of a handoff that is not enabled is that of a tool.
        is_function = request.type is ToolCallType.FUNCTION and request.server is None
        target = refused_target(request.name, agent) if is_function and not is_handoff else None
        self.groups[-1].append(
            _ItemCall(request, _messages.agent_name(agent), is_handoff or target is not None, target)
        )

    def by_response(self, responses: Sequence[Any], builder: RunBuilder) -> Iterator[list[_ItemCall]]:
        """Yield the calls of each response, and then the groups of calls that no response has.

        A call of a response may have no item. Either it is a repetition that the SDK did not run again: it is left out,
        with a warning. Or a handoff's filter removed the item, and the call is made from the response alone.
        """
        unclaimed = list(itertools.chain(*self.groups))
        earlier: list[Request] = []
        for response in responses:
            message: list[_ItemCall] = []
            for request in _messages.requests_in(getattr(response, "output", ())):
                if any(_messages.same_call(request, other) for other in self.structured):
                    continue
                call = next((call for call in unclaimed if _messages.same_call(call.request, request)), None)
                if call is not None:
                    unclaimed.remove(call)
                    call.request = replace(call.request, reasoning=request.reasoning)
                elif self._is_skipped_repetition(request, earlier):
                    builder.warn(_messages.repetition_warning(request))
                    continue
                else:
                    call = self._call_without_item(request, message)
                message.append(call)
                earlier.append(request)
            yield message
        for group in self.groups:
            yield [call for call in group if call in unclaimed]

    def _call_without_item(self, request: Request, message: Sequence[_ItemCall]) -> _ItemCall:
        """Return a call from a response alone; its agent is that of the calls before it in the message."""
        agent = message[0].agent if message else None
        target = self.targets.get(request.name)
        return _ItemCall(request, agent, is_handoff=target is not None, target=target)

    def _is_skipped_repetition(self, request: Request, earlier: Sequence[Request]) -> bool:
        """Return whether a call repeats earlier ones and the SDK did not run it again.

        Then there are no more outputs with its id than earlier calls that are the same.
        """
        count = sum(_messages.same_call(request, other) for other in earlier)
        return _messages.is_repeated(request, earlier) and len(self.outputs[request.id]) <= count


def history_of(items: Sequence[Any], responses: Sequence[Any], *, interrupted: bool) -> Run:
    """Return the calls of a run that was not observed, as its items and the model's responses show them."""
    builder = RunBuilder()
    read_items(builder, items, responses, interrupted=interrupted)
    builder.ended(may_wait=interrupted)
    return builder.build()


def read_items(
    builder: RunBuilder,
    items: Sequence[Any],
    responses: Sequence[Any],
    *,
    interrupted: bool = False,
    refusals: Collection[str] = (),
    context: Any = None,
) -> list[Request]:
    """Add the calls and outputs of a run that was not observed, and return its requests.

    Args:
        builder: The builder to add them to.
        items: The items of the run, in their order.
        responses: The model's responses. Without them, the calls between two outputs count as one message.
        interrupted: The run waits for a person. Then outputs without a call are left out without a warning.
        refusals: The texts of guardrails that kept calls from running.
        context: The context of the run, which remembers the calls that a person rejected.
    """
    read = _Items(items)
    builder.offered(read.tools, all_known=False)
    messages = [message for message in read.by_response(responses, builder) if message]
    for message in messages:
        builder.model_asked([call.request for call in message], agent=message[0].agent)
        accepted = _accepted_handoff(message, read, is_last=message is messages[-1])
        for call in filter(attrgetter("is_handoff"), message):
            builder.handed_off(to=call.target, request=call.request, took_place=call is accepted)
        for call in message:
            outputs = read.outputs.get(call.request.id)
            if outputs:
                answer = outputs[0].answer
                is_rejected = _is_refused(answer, refusals) or _is_rejected(context, call.request)
                _record_output(builder, call, outputs.popleft(), is_rejected=is_rejected)
    unmatched = sum(map(len, read.outputs.values()))
    if unmatched and not interrupted:
        builder.warn(f"{unmatched} results answer no call of the run; they were left out")
    return [call.request for call in itertools.chain(*messages)]


def _accepted_handoff(message: Sequence[_ItemCall], read: _Items, *, is_last: bool) -> _ItemCall | None:
    """Return the handoff of a message that took place; `None` if none did."""
    handoffs = [call for call in message if call.is_handoff]
    for call in handoffs:
        outputs = read.outputs.get(call.request.id)
        if outputs and is_accepted_handoff(outputs[0].answer):
            return call
    # Filters of handoffs remove their outputs. The SDK follows the first one, and a message of the other agent follows.
    unanswered = [call for call in handoffs if not read.outputs.get(call.request.id)]
    return unanswered[0] if unanswered and not is_last else None


def _record_output(builder: RunBuilder, call: _ItemCall, output: _ItemOutput, *, is_rejected: bool) -> None:
    """Add the execution of a call, if its tool ran in this process, and what the model was shown of it."""
    answer, request = output.answer, call.request
    text = answer.content if isinstance(answer.content, str) else None
    unknown_tool = _messages.is_of_unknown(answer, request)
    error = answer.error if answer.failed else _errors.default_error_text(text)
    is_local_tool = not any((request.ran, request.type is ToolCallType.HOSTED, unknown_tool, is_rejected))
    # Two outputs without an error come from no tool: that of a handoff, and a person's approval (`approved` is true).
    is_tool_output = error is not None or not (call.is_handoff or answer.approved)
    if is_local_tool and is_tool_output:
        _record_execution(builder, request, output, error)
    if not answer.approved:  # an approval is not an output; that of the call may follow
        builder.result_shown(
            answer.content,
            request=request,
            failed=any((answer.failed, unknown_tool, is_rejected, error is not None)),
            error=answer.error,
            unknown_tool=unknown_tool,
        )


def _record_execution(builder: RunBuilder, request: Request, output: _ItemOutput, error: str | None) -> None:
    """Add the execution of a call whose tool ran in this process."""
    key, content = f"read-{next(_keys)}", output.answer.content
    arguments = request.arguments if isinstance(request.arguments, dict) else None
    builder.tool_started(key, request.name, arguments, request=request)
    if error is not None:
        builder.tool_failed(key, error)
    else:
        text = content if isinstance(content, str) else None
        builder.tool_ended(key, content if output.value is ABSENT else _messages.plain_output(output.value, text))


def _is_refused(answer: Answer, refusals: Collection[str]) -> bool:
    """Return whether an output says that somebody refused the call: a person, the SDK, or a guardrail."""
    text = answer.content
    return answer.approved is False or _errors.is_refusal(text) or (isinstance(text, str) and text in refusals)


def _is_rejected(context: Any, request: Request) -> bool:
    """Return whether a person rejected a call, as the context of the run remembers it."""
    is_approved = getattr(context, "is_tool_approved", None)
    if is_approved is None or request.id is None:
        return False
    try:
        return is_approved(request.name, request.id) is False
    except Exception:  # noqa: BLE001 - the signature differs between releases
        return False


def is_accepted_handoff(answer: Answer) -> bool:
    """Return whether an output is the SDK's answer to a handoff: `{"assistant": "<name>"}`."""
    if not isinstance(answer.content, str) or _errors.is_refusal(answer.content):
        return False
    try:
        value = json.loads(answer.content)
    except ValueError:
        return False
    return isinstance(value, dict) and set(value) == {"assistant"}
