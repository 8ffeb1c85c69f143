"""Runs read from what the SDK kept of them: the items of a result, and the responses of the model.

The items have agents, outputs as values, and which calls are hand-overs; the responses have the calls that a filter of
a hand-over took out of the items, and say which calls one message asked for.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from toolmark import ToolCallType, ToolSpec
from toolmark.calls import read_tool_spec
from toolmark.capture import ABSENT, Request, RunBuilder
from toolmark.formats import Answer, read_responses_answer, read_responses_call
from toolmark_openai_agents import _errors, _sdk

_COPIES: Final = frozenset({"tool_approval_item", "mcp_approval_response_item"})
"""Items that repeat a call which has an item of its own, or that are none."""


@dataclass(eq=False)
class Call:
    """A call as the items have it."""

    request: Request
    agent: str | None
    handoff: bool = False
    to: str | None = None


@dataclass(eq=False)
class Result:
    """What became of a call, as the items have it.

    Attributes:
        answer: What the model was shown.
        output: What the tool returned; `ABSENT` where only the text is known.
    """

    answer: Answer
    output: Any = ABSENT


@dataclass(eq=False)
class Kept:
    """What the SDK kept of a run.

    Attributes:
        calls: The calls, in their order; each entry is one message.
        results: The results, by the id of their call, in their order.
        listed: Tools that hosted MCP servers listed.
        targets: The agents that can be handed over to, by the names of the tools that do it.
        repeated: Calls that a provider repeated, and that were run once.
    """

    calls: list[list[Call]] = field(default_factory=list)
    results: dict[str | None, deque[Result]] = field(default_factory=lambda: defaultdict(deque))
    listed: list[ToolSpec] = field(default_factory=list)
    targets: dict[str, str] = field(default_factory=dict)
    repeated: list[Request] = field(default_factory=list)


def tell(
    builder: RunBuilder,
    items: Sequence[Any],
    responses: Sequence[Any],
    *,
    scope: int | None = None,
    waiting: bool = False,
    refused: Iterable[str] = (),
    rejects: Any = None,  # noqa: ANN401 - a context of the SDK
) -> list[Request]:
    """Tell a builder of a run that was not watched, and return the calls in it.

    Args:
        builder: Is told.
        items: The items of the run, in their order.
        responses: The model's responses; where there are none, messages are told apart by the results between calls.
        scope: The execution inside which the run took place.
        waiting: The run waits for a person, so that calls without a result are no puzzle.
        refused: Texts with which guardrails kept calls from running.
        rejects: The context of the run, which knows the calls that a person rejected.
    """
    kept = _read(items, responses)
    if kept.listed:
        builder.offered(kept.listed, scope=scope, all_known=False)
    texts = frozenset(refused)
    for request in kept.repeated:
        builder.warn(repeats(request))
    for message in kept.calls:
        builder.model_asked([call.request for call in message], scope=scope, agent=message[0].agent)
        for call in message:
            if call.handoff:
                builder.handed_off(to=call.to, call_id=call.request.id, scope=scope)
        for call in message:
            results = kept.results.get(call.request.id)
            if results:
                _tell_result(builder, call, results.popleft(), scope, texts, rejects)
    left = [result for results in kept.results.values() for result in results]
    if left and not waiting:
        builder.warn(f"{len(left)} results answer no call that the run holds; they were left out")
    return [call.request for message in kept.calls for call in message]


def at_the_end(items: Any) -> list[Any]:  # noqa: ANN401 - the input of a model, in any form
    """Return the results with which a list of items ends: what a model is shown anew."""
    found: list[Any] = []
    for item in reversed(items if isinstance(items, (list, tuple)) else ()):
        if read_responses_answer(_sdk.raw(item)) is None:
            break
        found.append(_sdk.raw(item))
    return found[::-1]


def listed_tools(item: Any) -> list[ToolSpec]:  # noqa: ANN401 - an item of the provider
    """Return the tools that a hosted MCP server listed, if that is what an item says."""
    if _sdk.field(item, "type") != "mcp_list_tools":
        return []
    specs: list[ToolSpec] = []
    for tool in _sdk.field(item, "tools") or ():
        about: dict[str, Any] = {"name": _sdk.field(tool, "name"), "type": ToolCallType.MCP}
        description, schema = _sdk.field(tool, "description"), _sdk.field(tool, "input_schema")
        if description:
            about["description"] = description
        if isinstance(schema, dict):
            about["input_schema"] = schema
        specs.append(read_tool_spec({**about, "annotations": _sdk.field(tool, "annotations")}))
    return specs


def asks_for_approval(items: Sequence[Any]) -> bool:
    """Return whether items end with a request for approval of a hosted MCP server's call that nobody answered."""
    kinds = [_sdk.field(_sdk.raw(item), "type") for item in items]
    return bool(kinds) and kinds[-1] == "mcp_approval_request"


def _tell_result(
    builder: RunBuilder,
    call: Call,
    result: Result,
    scope: int | None,
    refused: frozenset[str],
    rejects: Any,  # noqa: ANN401 - a context of the SDK
) -> None:
    answer, request = result.answer, call.request
    text = answer.content if isinstance(answer.content, str) else None
    missing = text is not None and text.startswith(f"Tool {request.name!r} not found.")
    rejected = answer.approved is False or _errors.is_refusal(text) or text in refused or _is_rejected(rejects, request)
    failure = answer.error if answer.failed else _errors.default_failure(text)
    if failure is None and not (missing or rejected or call.handoff or answer.approved):
        output = answer.content if result.output is ABSENT else _sdk.plain_output(result.output, text)
        _tell_execution(builder, request, output, None, scope)
    elif failure is not None and not (missing or rejected):
        _tell_execution(builder, request, ABSENT, failure, scope)
    if answer.approved:
        return
    builder.result_shown(
        answer.content,
        call_id=request.id,
        name=request.name,
        failed=answer.failed or missing or rejected or failure is not None,
        error=answer.error,
        unknown_tool=missing,
        scope=scope,
    )


def _tell_execution(
    builder: RunBuilder,
    request: Request,
    output: object,
    error: str | None,
    scope: int | None,
) -> None:
    if request.ran or request.type is ToolCallType.HOSTED:
        return
    key = f"read-{next(_numbers)}"
    arguments = request.arguments if isinstance(request.arguments, dict) else None
    builder.tool_started(key, request.name, arguments, call_id=request.id, scope=scope)
    if error is None:
        builder.tool_ended(key, output)
    else:
        builder.tool_failed(key, error)


_numbers = itertools.count()


def _is_rejected(context: Any, request: Request) -> bool:  # noqa: ANN401 - a context of the SDK
    """Return whether a person rejected a call, as the context of the run remembers it."""
    asks = getattr(context, "is_tool_approved", None)
    if asks is None or request.id is None:
        return False
    try:
        return asks(request.name, request.id) is False
    except Exception:  # noqa: BLE001 - another release, another signature
        return False


def _read(items: Sequence[Any], responses: Sequence[Any]) -> Kept:
    kept = Kept()
    told: list[list[Call]] = [[]]
    for item in items:
        given = _sdk.raw(item)
        kept.listed += listed_tools(given)
        kept.targets.update(_sdk.ways_to(getattr(item, "agent", None)))
        kind = getattr(item, "type", None)
        answer = read_responses_answer(given)
        if answer is not None:
            of_function = _sdk.field(given, "type") == "function_call_output" and kind == "tool_call_output_item"
            output = getattr(item, "output", ABSENT) if of_function else ABSENT
            kept.results[answer.call_id].append(Result(answer, output))
            told.append([])
            _note_target(told, item, answer.call_id)
            continue
        request = None if kind in _COPIES else read_responses_call(given)
        if request is not None:
            told[-1].append(Call(_typed(request, item), _agent_of(item), kind == "handoff_call_item"))
    kept.calls = [message for message in _by_response(told, responses, kept, kept.repeated) if message]
    return kept


def _typed(request: Request, item: Any) -> Request:  # noqa: ANN401 - an item of the SDK
    """Return a request with the MCP server that its item names, if it does."""
    server = getattr(getattr(item, "tool_origin", None), "mcp_server_name", None)
    if not isinstance(server, str):
        return request
    return replace(request, type=ToolCallType.MCP, server=server)


def _agent_of(item: Any) -> str | None:  # noqa: ANN401 - an item of the SDK
    name = getattr(getattr(item, "agent", None), "name", None)
    return name if isinstance(name, str) else None


def _note_target(told: list[list[Call]], item: Any, call_id: str | None) -> None:  # noqa: ANN401 - an item of the SDK
    target = getattr(getattr(item, "target_agent", None), "name", None)
    if isinstance(target, str):
        for call in (call for message in told for call in message if call.request.id == call_id):
            call.handoff, call.to = True, target


def _by_response(
    told: list[list[Call]], responses: Sequence[Any], kept: Kept, repeated: list[Request]
) -> Iterator[list[Call]]:
    """Yield the calls of each message: those of each response, and what none of them has."""
    waiting = [call for message in told for call in message]
    targets, results = kept.targets, kept.results
    seen: list[Request] = []
    for response in responses:
        message: list[Call] = []
        for given in getattr(response, "output", ()):
            request = read_responses_call(given)
            if request is None:
                continue
            call = next((call for call in waiting if _same(call.request, request)), None)
            if call is not None:
                waiting.remove(call)
            elif is_repeated(request, seen) and len(results[request.id]) <= sum(_same(request, one) for one in seen):
                repeated.append(request)  # the SDK ran it once: there are no more results than calls before it
                continue
            to = targets.get(request.name)
            message.append(call or Call(request, _shared_agent(message), handoff=to is not None, to=to))
            seen.append(request)
        yield message
    for message in told:
        yield [call for call in message if call in waiting]


def _shared_agent(message: Sequence[Call]) -> str | None:
    return message[0].agent if message else None


def is_repeated(request: Request, before: Iterable[Request]) -> bool:
    """Return whether a call stands before with the same id, name and arguments."""
    return bool(request.id) and any(_same(request, one) and request.arguments == one.arguments for one in before)


def repeats(request: Request) -> str:
    """Return what is to be said of a call that was repeated and run once."""
    return (
        f"the call {request.id!r} of {request.name!r} came twice with the same words, and was run once; it counts once"
    )


def _same(one: Request, other: Request) -> bool:
    return (one.id, one.name) == (other.id, other.name)
