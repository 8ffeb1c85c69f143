"""Runs of traces that wait for a person, answers after calls of the provider, and printed objects as replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spans import agent, chat, hidden, run_of, span, spans, tool
from toolgrade.cases import Run
from toolgrade.formats import read_traces

Plain = dict[str, Any]
CANCEL: Plain = {"id": "c7", "name": "cancel", "arguments": {"booking": 4}}
ASKS: Plain = {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Cancel 4."}]}]'}


def error(text: str) -> Plain:
    """The status of a span that failed."""
    return {"status": {"code": 2, "message": text}}


def raised(kind: str, text: str) -> Plain:
    """The event of an exception, without a status."""
    attributes = {"exception.type": kind, "exception.message": text}
    event = {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]}
    return {"events": [{"name": "exception", "timeUnixNano": "1", **event}]}


def statuses(run: Run) -> tuple[str, list[str], str | None]:
    """The status of a run and of its calls, and its answer."""
    return run.status.value, [call.execution.status.value for call in run.calls if call.execution], run.actual_output


# Waits


@pytest.mark.parametrize(
    "suspended",
    [
        error("GraphInterrupt((Interrupt(value='Sure?', id='9f'),))"),
        error("NodeInterrupt('Sure?')"),
        error("langgraph.errors.GraphInterrupt: (Interrupt(value='Sure?', id='9f'),)"),
        error("(Interrupt(value='Sure?', resumable=True),)"),
        error("ApprovalRequired"),
        error("tools.ToolApprovalRequiredError: ask the manager"),
        error("UserInputRequiredException('Sure?')"),
        error("WaitingForEvent: HumanResponseEvent"),
        raised("langgraph.errors.GraphInterrupt", "(Interrupt(value='Sure?', id='9f'),)"),
        {"error.type": "langgraph.errors.GraphInterrupt"},
        {"langfuse.observation.status_message": "(Interrupt(value='Sure?', id='9f'),)"},
        {"pydantic_ai.tool.deferral.name": "CallDeferred"},
    ],
    ids=str,
)
def test_a_tool_that_asks_a_person_is_pending(suspended: Plain) -> None:
    """However the tracer marks it; it is no failure of the tool or of the run."""
    run = run_of(spans(agent(1), chat(2, 1, CANCEL, **ASKS), tool(3, 1, "cancel", **suspended)))

    assert statuses(run) == ("interrupted", ["pending"], None)
    assert (run.calls[0].execution and run.calls[0].execution.error, run.error, run.warnings) == (None, None, [])


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ("ValueError: no GraphInterrupt here", "error"),
        ("KeyboardInterrupt", "error"),
        ("InterruptedError", "error"),
        ("ApprovalDenied", "error"),
        ("ParentCommand(Command())", "ok"),
    ],
)
def test_other_errors_are_no_waits(failure: str, status: str) -> None:
    """Nor is a command to the graph around it, by which a tool of LangGraph returns."""
    run = run_of(spans(agent(1), chat(2, 1, CANCEL, **ASKS), tool(3, 1, "cancel", **error(failure)), chat(4, 1)))

    assert statuses(run) == ("ok", [status], "Done.")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"messages": [], "__interrupt__": [{"value": "Sure?"}]}, ("interrupted", ["pending"], None)),
        ({"outputs": {"__interrupt__": [{"value": "Sure?"}]}, "kwargs": {}}, ("interrupted", ["pending"], None)),
        ({"__interrupt__": []}, ("stopped", ["not_executed"], None)),
        ({"text": "__interrupt__"}, ("stopped", ["not_executed"], None)),
    ],
)
def test_the_output_of_a_graph_says_that_it_waits(output: Plain, expected: object) -> None:
    """Also if no tool began, since a middleware asks before."""
    marks: Plain = {"openinference.span.kind": "CHAIN", "output.value": json.dumps(output)}
    graph = span(1, **marks)
    graph["endTimeUnixNano"] = str(10**11)

    assert statuses(run_of(spans(graph, chat(2, 1, CANCEL, **ASKS)))) == expected


def test_a_graph_that_went_on_in_the_same_trace_does_not_wait() -> None:
    """The call was begun twice, and is one."""
    interrupt = error("GraphInterrupt((Interrupt(value='Sure?', id='9f'),))")
    first = span(2, 1, **{"openinference.span.kind": "CHAIN", **interrupt})
    begun, ended = tool(4, 2, "cancel", **interrupt), tool(6, 5, "cancel", **{"gen_ai.tool.call.result": "gone"})
    again = span(5, 1, name="tools")

    run = run_of(spans(span(1), first, chat(3, 2, CANCEL, **ASKS), begun, again, ended, chat(7, 5)))

    assert statuses(run) == ("ok", ["ok"], "Done.")


@pytest.mark.parametrize("has_history", [True, False])
@pytest.mark.parametrize("call_id", ["c7", None])
def test_a_trace_that_goes_on_is_one_run_with_the_one_that_waited(*, has_history: bool, call_id: str | None) -> None:
    """The call has the output of the second trace, and the model requested it in the first."""
    session: Plain = {"gen_ai.conversation.id": "s-1"}
    messages = [{"role": "user", "content": "Cancel 4."}, {"role": "assistant", "tool_calls": [CANCEL]}]
    history = [*messages, {"role": "tool", "tool_call_id": "c7", "content": "gone"}] if has_history else messages[:1]
    suspended = error("GraphInterrupt((Interrupt(value='Sure?', id='9f'),))")
    ran: Plain = {"gen_ai.tool.call.result": "gone", "gen_ai.tool.call.arguments": '{"booking": 4}'}
    ran |= {} if call_id is None else {"gen_ai.tool.call.id": call_id}

    (run,) = read_traces(
        spans(
            chat(1, None, CANCEL, **ASKS, **session),
            tool(2, 1, "cancel", **suspended),
            tool(13, None, "cancel", trace="b" * 32, **ran, **session),
            chat(14, None, trace="b" * 32, **{"gen_ai.input.messages": json.dumps(history)}),
        )
    ).runs

    assert statuses(run) == ("ok", ["ok"], "Done.")
    (call,) = run.calls
    assert call.execution is not None
    assert (call.id, call.output, call.execution.origin.value, run.input) == ("c7", "gone", "model", "Cancel 4.")


def test_a_new_question_in_the_session_is_another_run() -> None:
    """The call of the first one waits still."""
    session: Plain = {"gen_ai.conversation.id": "s-1"}
    other = json.dumps([{"role": "user", "content": "What is the time?"}])
    runs = read_traces(
        spans(
            chat(1, None, CANCEL, **ASKS, **session),
            tool(2, 1, "cancel", **error("NodeInterrupt('Sure?')")),
            chat(13, None, trace="b" * 32, **session, **{"gen_ai.input.messages": other}),
        )
    ).runs

    assert list(map(statuses, runs)) == [("interrupted", ["pending"], None), ("ok", [], "Done.")]


def sdk_span(number: int, parent: int, **data: Any) -> Plain:
    """A span of the OpenAI Agents SDK."""
    fields: Plain = {
        "object": "trace.span",
        "trace_id": "trace_1",
        "id": f"span_{number}",
        "parent_id": f"span_{parent}",
    }
    times = {"started_at": f"2026-03-01T10:00:{number:02d}Z", "ended_at": f"2026-03-01T10:00:{number:02d}.5Z"}
    return {**fields, **times, "span_data": data, "error": data.pop("error", None)}


def sdk_run(number: int, *tools: Plain, answers: bool, error: Plain | None = None) -> list[Plain]:
    """The run of an agent with a model, these tools, and a model that answers."""
    steps = [{"type": "response", "response_id": "r1"}, *({"type": "function", **one} for one in tools)]
    steps += [{"type": "response", "response_id": "r2"}] if answers else []
    listed = [sdk_span(number, 0, type="agent", name="boss", error=error)]
    return listed + [sdk_span(number + place, number, **step) for place, step in enumerate(steps, start=1)]


REFUND: Plain = {"name": "refund", "input": '{"order": 7}', "output": None}


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (sdk_run(1, REFUND, answers=False), ("interrupted", ["pending"])),
        (sdk_run(1, REFUND, answers=True), ("ok", ["ok"])),
        (sdk_run(1, REFUND, answers=False, error={"message": "Max turns exceeded"}), ("error", ["ok"])),
        (sdk_run(1, {**REFUND, "input": ""}, answers=False), ("ok", ["ok"])),
        (
            [*sdk_run(1, REFUND, answers=False), *sdk_run(11, {**REFUND, "output": "done"}, answers=True)],
            ("ok", ["ok"]),
        ),
    ],
    ids=["waits", "returned nothing", "failed", "hidden", "allowed"],
)
def test_a_tool_of_the_agents_sdk_without_output_may_wait(listed: list[Plain], expected: object) -> None:
    """If it is the last step of an agent that did not fail; a run that goes on is in the same trace."""
    run = run_of([{"object": "trace", "id": "trace_1", "workflow_name": "w"}, *listed])

    assert statuses(run)[:2] == expected


# Answers after calls of the provider

SEARCH: Plain = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "rain"}}
FOUND: Plain = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
OWN: Plain = {"type": "tool_use", "id": "t1", "name": "add", "input": {}}
FIRST, LAST = ({"type": "text", "text": text} for text in ("I look.", "It rains."))


@pytest.mark.parametrize(
    ("blocks", "answer"),
    [
        ([FIRST, SEARCH, FOUND, LAST], "It rains."),
        ([SEARCH, LAST], "It rains."),
        ([FIRST, SEARCH, FOUND], None),
        ([SEARCH, FOUND, LAST, OWN], None),
        ([FIRST, OWN, LAST], None),
    ],
)
@pytest.mark.parametrize("is_langchain", [True, False])
def test_text_after_calls_of_the_provider_is_the_answer(
    *, blocks: list[Plain], answer: str | None, is_langchain: bool
) -> None:
    """As in recorded messages: not before such a call, nor while a tool of the agent has to run."""
    message: Plain = {"role": "assistant", "content": blocks}
    if is_langchain:
        own = [{"name": "add", "args": {}, "id": "t1"}] if OWN in blocks else []
        message = {"type": "ai", "content": blocks, "tool_calls": own}
    attributes: Plain = {"openinference.span.kind": "LLM", "output.value": json.dumps(message)}

    run = run_of(spans(span(1, **attributes)))

    assert run.actual_output == answer
    names = ["add"] * (OWN in blocks) + ["web_search"] * (SEARCH in blocks)
    assert sorted(call.name for call in run.calls) == names


# Printed objects

CALL = "ResponseFunctionToolCall(arguments='{\"a\": 5}', call_id='c9', name='halve', type='function_call', id='fc_9')"
FUNCTION = "function=Function(arguments='{\"a\": 5}', name='halve'), type='function'"
TEXT = "ResponseOutputMessage(id='m', content=[ResponseOutputText(text='Half.', type='output_text')], role='assistant')"


def printed(*texts: str) -> Run:
    """A run whose model's reply has these texts as its parts."""
    parts = [{"type": "text", "content": text} for text in texts]
    reply: Plain = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}
    return run_of(spans(hidden(1, **reply)))


@pytest.mark.parametrize(
    "texts",
    [
        [CALL],
        [f"[{CALL}]"],
        ["One moment.", CALL],
        [f"[ResponseReasoningItem(id='r', summary=[], type='reasoning'), {CALL}]"],
        ["[{'type': 'function_call', 'call_id': 'c9', 'name': 'halve', 'arguments': '{\"a\": 5}'}]"],
        [f"ChatCompletionMessage(content=None, role='assistant', tool_calls=[ToolCall(id='c9', {FUNCTION})])"],
    ],
)
def test_printed_calls_are_calls(texts: list[str]) -> None:
    """Of one item, of a list, with a text before, of an object or a dictionary."""
    run = printed(*texts)

    assert [(call.name, call.arguments, call.id) for call in run.calls] == [("halve", {"a": 5}, "c9")]
    assert (run.actual_output, run.warnings) == (None, [])


def test_printed_message_is_the_answer() -> None:
    """Its text, not the object."""
    assert printed(f"[{TEXT}]").actual_output == printed(TEXT).actual_output == "Half."


@pytest.mark.parametrize(
    "text", ["Point(x=1, y=2)", "[halve(a=5)]", "{'half': 2.5}", "{'function': {'name': 'halve', 'arguments': '{}'}}"]
)
def test_python_of_the_model_is_its_answer(text: str) -> None:
    """Models write code, too; without an id it is no call."""
    run = printed(text)

    assert (run.actual_output, run.calls, run.warnings) == (text, [], [])


@pytest.mark.parametrize(
    "texts",
    [
        [CALL[:70]],
        [f"Call(at=datetime.date(2026, 1, 1), role={CALL})"],
        ["<sdk.Call object at 0x7f>"],
        ["content='' additional_kwargs={} id='r'"],
        ["A.", CALL[:70]],
    ],
)
def test_printed_objects_that_cannot_be_read_are_reported(texts: list[str]) -> None:
    """Once, and never taken as the answer."""
    run = printed(*texts)

    (warning,) = run.warnings
    assert warning.endswith("a printed Python object could not be read; calls in it may be missing")
    assert (run.actual_output, run.calls) == (None, [])


@pytest.mark.parametrize("nothing", ["[]", "{}", "null", " [] "])
def test_an_empty_output_is_no_answer(nothing: str) -> None:
    """Tracers write it where they have nothing to keep."""
    run = run_of(spans(hidden(1, **{**ASKS, "gen_ai.output.messages": nothing})))

    assert (run.actual_output, run.input) == (None, "Cancel 4.")


def test_texts_in_attributes_of_their_own_are_texts() -> None:
    """Without an object around them, in the order of their numbers."""
    texts: Plain = {f"llm.output_messages.0.message.content.{n}": f"{n}." for n in (10, 9, 0)}
    marks: Plain = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant"}

    assert run_of(spans(span(1, **marks, **texts))).actual_output == "0.9.10."


def test_the_answer_of_an_agent_that_writes_code_is_what_it_passes_on() -> None:
    """Not the code; and the output of code in its history answers no call."""
    history = [{"role": "user", "content": "Go."}, {"role": "tool-response", "content": "Observation:\n5"}]
    agent_marks: Plain = {"smolagents.tools_names": "()", "openinference.span.kind": "AGENT"}
    run = run_of(
        spans(
            span(1, name="CodeAgent.run", **agent_marks),
            chat(2, 1, **{"gen_ai.input.messages": json.dumps(history)}),
            tool(3, 1, "final_answer", **{"gen_ai.tool.call.result": "[1, 2]"}),
        )
    )

    assert (run.actual_output, run.calls, run.warnings) == ("[1, 2]", [], [])
