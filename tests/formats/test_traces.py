"""What spans of traces become: one rule after another, on small traces made up for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from spans import agent, called, chat, hidden, run_of, span, spans, tool
from toolgrade import ConfigurationError, InvalidDataError
from toolgrade.calls import ToolCall
from toolgrade.formats import read_traces
from toolgrade.formats.traces.read import TRACE_FORMATS
from tracing import FORMS, Script, ScriptedCall, Step, jaeger, langfuse, langsmith, openai_agents, otlp, pairs

Plain = dict[str, Any]
TRACE = "0af7651916cd43dd8448eb211c80319c"


def script(*steps: Step, session: str | None = None, trace: str = TRACE) -> Script:
    """A run of these messages, and an answer."""
    return Script("Go.", [*steps, Step("boss", [], "Done.")], trace=trace, session=session)


def asks(*calls: ScriptedCall, agent: str = "boss") -> Step:
    """A message that asks for these calls."""
    return Step(agent, list(calls))


def add(call_id: str = "c1", **more: Any) -> ScriptedCall:
    """A call that returned 3."""
    return ScriptedCall("add", call_id, more.pop("arguments", {"a": 1}), "3", **more)


def problems(value: object) -> list[str]:
    """What is wrong with a value."""
    with pytest.raises(InvalidDataError) as raised:
        read_traces(value)
    return [str(problem) for problem in raised.value.problems]


# What a call is


def test_a_call_in_a_message_and_the_span_of_its_tool_are_one() -> None:
    """The message gives request and position; the span gives execution, times and output."""
    (call,) = called(
        agent(1),
        chat(2, 1, {"id": "c1", "name": "add", "arguments": {"a": 1}}),
        tool(
            3,
            1,
            **{"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": '{"a": 1}', "gen_ai.tool.call.result": "3"},
        ),
    )

    assert (call.name, call.id, call.input_parameters, call.output) == ("add", "c1", {"a": 1}, "3")
    assert call.execution is not None
    assert call.execution.to_dict() == {
        "status": "ok",
        "executed": True,
        "agent": "boss",
        "step": 0,
        "started_at": "1970-01-01T00:00:03Z",
        "duration": 0.0,
        "source": f"{TRACE}/{2:016x}#resourceSpans[0].scopeSpans[0].spans[1]"
        ".attributes['gen_ai.output.messages'][0].parts[0]",
    }


def test_arguments_without_content_are_not_captured() -> None:
    """They are unset, never `{}`; the content of either the tool span or the message is enough."""
    nowhere, in_span, in_message = called(
        chat(
            1,
            None,
            {"id": "c1", "name": "add"},
            {"id": "c2", "name": "add"},
            {"id": "c3", "name": "add", "arguments": {"a": 3}},
        ),
        tool(2, **{"gen_ai.tool.call.id": "c1"}),
        tool(3, **{"gen_ai.tool.call.id": "c2", "gen_ai.tool.call.arguments": "{}"}),
        tool(4, **{"gen_ai.tool.call.id": "c3"}),
    )

    assert "input_parameters" not in nowhere.model_fields_set
    assert nowhere.execution is not None
    assert nowhere.execution.not_captured == ["input_parameters", "output"]
    assert [in_span.input_parameters, in_message.input_parameters] == [{}, {"a": 3}]
    assert in_span.execution is not None
    assert in_span.execution.not_captured == ["output"]


def test_a_hidden_value_is_not_captured() -> None:
    """A value that an instrumentation hides is not an argument."""
    (call,) = called(
        span(1, **{"openinference.span.kind": "TOOL", "tool.name": "add", "input.value": "__REDACTED__"}),
    )

    assert call.execution is not None
    assert call.execution.not_captured == ["input_parameters", "output"]


def test_tools_after_a_hidden_model_belong_to_it() -> None:
    """The tool names show what the model chose, and what it chose in parallel."""
    first, second, third = called(
        agent(1), hidden(2, 1), tool(3, 1, "a"), tool(4, 1, "b"), hidden(5, 1), tool(6, 1, "c")
    )

    assert [
        (call.execution.origin.value, call.execution.step) for call in (first, second, third) if call.execution
    ] == [
        ("model", 0),
        ("model", 0),
        ("model", 1),
    ]


def test_tools_of_an_agent_without_models_belong_to_it() -> None:
    """Some frameworks do not trace their models."""
    (call,) = called(agent(1), tool(2, 1))

    assert call.execution is not None
    assert (call.execution.origin.value, call.execution.agent) == ("model", "boss")


def test_tool_that_no_model_requested_was_called_by_code() -> None:
    """Only if the content of the models' answers was recorded."""
    for listed in ([tool(1)], [chat(1), tool(2)]):
        (call,) = called(*listed)
        assert call.execution is not None
        assert call.execution.origin.value == "code"
        assert (
            call.execution.source
            == f"{TRACE}/{len(listed):016x}#resourceSpans[0].scopeSpans[0].spans[{len(listed) - 1}]"
        )


def test_repeated_ids_are_paired_by_order() -> None:
    """Some providers use the tool's name as the call id."""
    listed = [
        chat(1, None, {"id": "add", "name": "add", "arguments": {"a": 1}}),
        tool(
            2,
            **{
                "gen_ai.tool.call.id": "add",
                "gen_ai.tool.call.arguments": '{"a": 1}',
                "gen_ai.tool.call.result": "one",
            },
        ),
        chat(3, None, {"id": "add", "name": "add", "arguments": {"a": 2}}),
        tool(
            4,
            **{
                "gen_ai.tool.call.id": "add",
                "gen_ai.tool.call.arguments": '{"a": 2}',
                "gen_ai.tool.call.result": "two",
            },
        ),
    ]

    assert [(call.input_parameters, call.output) for call in called(*listed)] == [({"a": 1}, "one"), ({"a": 2}, "two")]


def test_without_an_id_name_and_order_decide() -> None:
    """Equal arguments come first; a tool that is handed more than was asked for is still that call."""
    first, second = called(
        chat(1, None, {"name": "add", "arguments": {"a": 1}}, {"name": "add", "arguments": {"a": 2}}),
        tool(
            2,
            **{
                "gen_ai.tool.call.arguments": '{"a": 2}',
                "gen_ai.tool.call.result": "two",
                "gen_ai.tool.call.id": "late",
            },
        ),
        tool(3, **{"gen_ai.tool.call.arguments": '{"a": 1, "b": 0}', "gen_ai.tool.call.result": "one"}),
    )

    assert (first.output, first.input_parameters) == ("one", {"a": 1, "b": 0})
    assert first.execution is not None
    assert first.execution.requested_parameters == {"a": 1}
    assert (second.output, second.id) == ("two", "late")


def test_a_failed_tool_is_tried_again_and_is_one_call() -> None:
    """Attempts are counted, and the last of them counts."""
    (call,) = called(
        chat(1, None, {"id": "c1", "name": "add", "arguments": {}}),
        tool(2, status={"code": 2, "message": "ValueError: no"}, **{"gen_ai.tool.call.id": "c1"}),
        tool(3, **{"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "3"}),
    )

    assert call.execution is not None
    assert (call.execution.attempts, call.execution.status.value, call.output) == (2, "ok", "3")


def test_a_tool_inside_a_tool_that_is_the_same_call_is_one() -> None:
    """A framework and the library below it may each write a span; the content of either is used."""
    (call,) = called(
        agent(1),
        tool(2, 1, **{"gen_ai.tool.call.id": "c1"}),
        tool(
            3,
            2,
            **{
                "gen_ai.tool.call.arguments": '{"a": 1}',
                "mcp.method.name": "tools/call",
                "gen_ai.tool.call.result": "3",
            },
        ),
    )

    assert (call.input_parameters, call.output, call.id, call.type) == ({"a": 1}, "3", "c1", "mcp")
    assert call.execution is not None
    assert call.execution.children == []


def test_calls_inside_a_tool_are_its_children() -> None:
    """With the agent that made them, also where that agent is below the tool."""
    inner = Step("helper", [add("i1", arguments={"a": 2})])
    run = run_of(otlp(script(asks(add("c1", inside=[inner, Step("helper", [], "ok")])))))

    (call,) = run.calls
    assert call.execution is not None
    (child,) = call.execution.children
    assert (child.id, child.execution and child.execution.agent, call.execution.agent) == ("i1", "helper", "boss")


def test_agents_inside_agents_keep_their_names() -> None:
    """Their calls are top-level because no call made them."""
    calls = called(
        agent(1),
        chat(2, 1, {"id": "c1", "name": "add", "arguments": {}}),
        agent(3, 1, "helper"),
        chat(4, 3, {"id": "c2", "name": "sub", "arguments": {}}),
        tool(5, 3, "sub", **{"gen_ai.tool.call.id": "c2"}),
    )

    assert [(call.name, call.execution and call.execution.agent) for call in calls] == [
        ("add", "boss"),
        ("sub", "helper"),
    ]


def test_concurrent_agents_keep_their_calls() -> None:
    """Without ids, a tool belongs to the agent in which it ran."""
    ask = {"name": "add", "arguments": {}}
    one, two = called(
        agent(1),
        agent(2, 1, "a"),
        agent(3, 1, "b"),
        chat(4, 2, ask),
        chat(5, 3, ask),
        tool(6, 3, **{"gen_ai.tool.call.result": "of b"}),
        tool(7, 2, **{"gen_ai.tool.call.result": "of a"}),
    )

    assert [one.output, two.output] == ["of a", "of b"]


def test_a_wrapper_around_a_model_is_not_another_message() -> None:
    """The inner side counts; where it kept nothing, the outer one."""
    ask = {"id": "c1", "name": "add", "arguments": {}}
    assert len(called(chat(1, None, ask), chat(2, 1, ask))) == 1
    assert len(called(chat(1, None, ask), hidden(2, 1))) == 1
    assert len(called(chat(1, None, ask, {"id": "c2", "name": "sub"}), chat(2, 1, ask))) == 2
    assert len(called(chat(1, None, ask), hidden(2, 1), hidden(3, 2), chat(4, 2, ask))) == 1


def test_later_results_are_outputs_of_calls_without_spans() -> None:
    """They are not executions; a failure is an error."""
    history = [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "add", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": "3"}]},
    ]
    (call,) = called(
        chat(1, None, {"id": "c1", "name": "add", "arguments": {}}),
        chat(2, None, **{"gen_ai.input.messages": json.dumps(history)}),
    )

    assert call.output == "3"
    assert call.execution is not None
    assert (call.execution.executed, call.execution.status.value) == (False, "ok")


def test_calls_of_earlier_turns_in_a_history_are_reported() -> None:
    """They may belong to a run that is missing here."""
    history = [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c0", "name": "look", "arguments": {}}]},
        {"role": "user", "parts": [{"type": "text", "content": "And now?"}]},
    ]
    run = run_of(spans(chat(1, None, **{"gen_ai.input.messages": json.dumps(history)})))

    assert [call.name for call in run.calls] == ["look"]
    assert run.input == "And now?"
    assert "is only in a model's history, before the user's last message" in run.warnings[0]


@pytest.mark.parametrize("session", ["s1", None])
def test_calls_repeated_by_later_traces_count_once(session: str | None) -> None:
    """With a trace for each turn or request, a call belongs to the trace that made it."""
    ask = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "add", "arguments": {}}]}
    words = {"role": "user", "parts": [{"type": "text", "content": "Go."}]}
    reply = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "3"}]}
    more = {"session.id": session} if session else {}
    first, second = read_traces(
        spans(
            chat(
                1,
                None,
                {"id": "c1", "name": "add", "arguments": {}},
                **more,
                **{"gen_ai.input.messages": json.dumps([words])},
            ),
            chat(2, None, trace="b" * 32, **more, **{"gen_ai.input.messages": json.dumps([words, ask, reply])}),
        )
    ).runs

    assert [call.output for call in first.calls] == ["3"]
    assert (second.calls, second.warnings) == ([], [])


def test_a_result_that_only_a_later_trace_shows_is_that_of_the_earlier_call() -> None:
    """If each model request is its own trace with only the new messages."""
    reply = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "3"}]}
    more = {"session.id": "s1"}
    first, second = read_traces(
        spans(
            chat(1, None, {"id": "c1", "name": "add", "arguments": {}}, **more),
            chat(2, None, trace="b" * 32, **more, **{"gen_ai.input.messages": json.dumps([reply])}),
        )
    ).runs

    assert [call.output for call in first.calls] == ["3"]
    assert (second.calls, second.warnings) == ([], [])


def test_handoff_is_not_a_called_tool() -> None:
    """A hand-off span, with or without its request, and tools with hand-off names."""
    value = openai_agents(script(asks(ScriptedCall("transfer_to_bob", "t1", {}, None))))
    moved = {**value[1], "id": "h", "started_at": "2026-03-01T12:00:00.500+00:00", "error": None}
    moved |= {"span_data": {"type": "handoff", "from_agent": "boss", "to_agent": "Bob"}, "parent_id": None}
    runs = [entry for entry in value if entry.get("span_data", {}).get("type") != "function"]
    silently = [entry for entry in runs if entry.get("span_data", {}).get("type") != "generation"]

    for exported in ([*runs, moved], [*silently, moved]):
        run = run_of(exported)
        assert [handoff.to_agent for handoff in run.handoffs] == ["Bob"]
        assert run.tools_called == []
        assert len(run.calls) == 1
    (named,) = read_traces(otlp(script(asks(add()))), handoff_names=["add"]).runs
    assert (named.tools_called, len(named.handoffs)) == ([], 1)


def test_arguments_that_are_not_an_object_are_invalid() -> None:
    """With a warning."""
    value = spans(chat(1, None, {"id": "c1", "name": "add", "arguments": "{'a': 1}"}))

    (run,) = read_traces(value).runs

    assert run.calls[0].execution is not None
    assert run.calls[0].execution.status.value == "invalid_arguments"
    assert "are not a JSON object" in run.warnings[0]


def test_call_without_a_name_is_kept_and_reported() -> None:
    """A call with missing parts is not dropped."""
    run = run_of(spans(chat(1, None, {"id": "c1", "arguments": {}})))

    assert [(call.name, call.id) for call in run.calls] == [("(unnamed)", "c1")]
    assert "a call needs the name of its tool" in run.warnings[0]


def test_truncated_attributes_are_reported() -> None:
    """Tracers cut long attributes; the tool spans still show the calls."""
    text = json.dumps([{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "add"}]}])
    run = run_of(
        spans(
            hidden(1, **{"gen_ai.output.messages": text[:-9]}),
            tool(2, **{"gen_ai.tool.call.arguments": '{"a": 1, "b'}),
        )
    )

    (call,) = run.calls
    assert call.execution is not None
    assert (call.execution.origin.value, call.execution.not_captured) == ("model", ["input_parameters", "output"])
    assert run.actual_output is None
    assert ["is cut off" in warning for warning in run.warnings] == [True, True]


def test_text_arguments_of_a_tool_are_its_input() -> None:
    """Some tools take a text; an empty one means no arguments."""
    key = "gen_ai.tool.call.arguments"
    calls = called(
        tool(1, None, "a", **{key: "Berlin"}), tool(2, None, "b", **{key: " "}), tool(3, None, "c", **{key: "7"})
    )

    assert [call.input_parameters for call in calls] == [{"input": "Berlin"}, {}, {"input": "7"}]


def test_spans_inside_nested_tools_belong_to_each() -> None:
    """Even if one of them has the name of its inner tool and another id."""
    one, two = called(
        tool(1, None, "a", **{"gen_ai.tool.call.id": "c1"}),
        tool(2, 1, "a", **{"gen_ai.tool.call.id": "c2"}),
        tool(3, None, "c"),
        tool(4, 3, "d"),
    )

    inner = [[child.name for child in call.execution.children] for call in (one, two) if call.execution]
    assert inner == [["a"], ["d"]]


def test_results_are_not_calls_and_match_by_either_key() -> None:
    """Results of the Vercel AI SDK look like its calls; tool messages sometimes have their own id."""
    results = json.dumps([{"toolCallId": "c9", "toolName": "sub", "result": "1"}])
    reply = {"name": "gen_ai.tool.message", "attributes": pairs({"id": "m1", "tool_call_id": "c1", "content": "3"})}
    calls = called(
        chat(1, None, {"id": "c1", "name": "add", "arguments": {}}),
        {**chat(2, None, **{"ai.prompt.messages": results}), "name": "x"},
        {**chat(3), "events": [reply]},
    )

    assert [(call.name, call.output) for call in calls] == [("add", "3")]


# What a run is


def test_run_metadata_is_read() -> None:
    """Trace, session, input, answer, model, tokens, tools and times."""
    schema = [{"type": "function", "name": "add", "parameters": {"type": "object"}}]
    value = otlp(script(asks(add()), session="s1"))
    listed = value["resourceSpans"][0]["scopeSpans"][0]["spans"]
    model = next(entry for entry in listed if entry["name"] == "model")
    model["attributes"] += pairs({"gen_ai.usage.input_tokens": 7, "gen_ai.tool.definitions": json.dumps(schema)})

    run = run_of(value)

    assert (run.run_id, run.conversation_id, run.input, run.actual_output) == (TRACE, "s1", "Go.", "Done.")
    assert (run.models, run.usage, run.status.value) == (["m-1"], {"input_tokens": 7}, "ok")
    assert [(spec.name, spec.input_schema) for spec in run.available_tools or ()] == [("add", {"type": "object"})]
    assert run.started_at is not None
    assert run.duration is not None
    assert run.duration > 0


def test_a_run_that_failed_says_why() -> None:
    """The exception of its outermost span."""
    events = [{"name": "exception", "attributes": pairs({"exception.type": "a.b.Boom", "exception.message": "no"})}]
    outer = {**agent(1), "status": {"code": "STATUS_CODE_ERROR"}, "events": events}

    run = run_of(spans(outer, chat(2, 1)))

    assert (run.status.value, run.error, run.actual_output) == ("error", "Boom: no", None)


def test_unanswered_call_at_the_end_stops_the_run() -> None:
    """The trace ends where someone had to act."""
    run = run_of(spans(chat(1, None, {"id": "c1", "name": "add", "arguments": {}})))

    assert (run.status.value, run.calls[0].execution and run.calls[0].execution.status.value) == (
        "stopped",
        "not_executed",
    )


def test_the_traces_of_a_session_are_a_conversation() -> None:
    """In the order of their starts; a trace without a session is its own conversation, with its id."""
    later, first = script(asks(add("c2")), session="s1", trace="b" * 32), script(asks(add("c1")), session="s1")
    alone = script(trace="c" * 32)

    traces = read_traces([*openai_agents(first), *openai_agents(later), *openai_agents(alone)])

    assert [[run.run_id for run in runs] for runs in traces.sessions] == [[TRACE, "b" * 32], ["c" * 32]]
    assert [conversation.id for conversation in traces.conversations] == ["s1", "c" * 32]
    assert [turn.content for turn in traces.conversations[0].turns] == ["Go.", "Done."] * 2


def test_missing_parent_span_is_reported() -> None:
    """The trace may be incomplete, and every score of the run has the warning."""
    run = run_of(spans(chat(2, 1), tool(3, 3, "a"), tool(4, 5, "b"), tool(5, 4, "c")))

    assert [call.name for call in run.calls] == ["a", "b"]
    assert run.calls[1].execution is not None
    assert [call.name for call in run.calls[1].execution.children] == ["c"]
    first = "$.resourceSpans[0].scopeSpans[0].spans[0]"
    assert run.warnings == [f"{first} (and 2 more): the parent span is missing; the trace may be incomplete"]


def test_answer_to_an_unknown_call_is_reported() -> None:
    """The request before it is missing."""
    history = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c9", "response": "3"}]}]

    run = run_of(spans(chat(1, None, **{"gen_ai.input.messages": json.dumps(history)})))

    assert run.calls == []
    assert "answers a call that the trace does not show; left out" in run.warnings[0]


def test_tools_as_deep_as_any_stack_are_read() -> None:
    """Beyond forty levels they are kept as siblings, with a warning."""
    run = run_of(spans(*(tool(number, number - 1 or None, f"t{number}") for number in range(1, 2001))))

    def depth(calls: list[ToolCall]) -> int:
        return 1 + max((depth(call.execution.children) for call in calls if call.execution), default=0)

    assert depth(run.calls) == 42
    assert any("tools are nested more than 40 deep" in warning for warning in run.warnings)


def test_traces_without_an_agent_are_left_out_and_reported() -> None:
    """A run without calls would give a meaningless score."""
    traces = read_traces(spans(span(1, name="GET /"), tool(2, trace="b" * 32)))

    assert [run.run_id for run in traces.runs] == ["b" * 32]
    assert traces.warnings == [
        "$.resourceSpans[0].scopeSpans[0].spans[0]: 1 of the traces show no model, agent or tool; left out"
    ]


# Forms


def test_ids_and_keys_come_in_many_forms() -> None:
    """Base64, with `0x`, as numbers, in capitals; snake_case; Tempo's batches; what SDKs dump."""
    here, outer = bytes.fromhex(f"{2:016x}"), bytes.fromhex(f"{1:016x}")
    attributes = pairs({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"})
    snake = {
        "trace_id": TRACE.upper(),
        "span_id": f"{2:016X}",
        "name": "x",
        "attributes": [],
        "start_time_unix_nano": 1,
    }
    value: list[Any] = [
        {"batches": [{"scopeSpans": [{"spans": [
            {"traceId": base64.b64encode(bytes.fromhex(TRACE)).decode(), "spanId": base64.b64encode(here).decode(),
             "parentSpanId": base64.b64encode(outer).decode(), "name": "x", "attributes": attributes}]}]}]},
        {"resource_spans": [{"scope_spans": [{"spans": [{**snake, "attributes": attributes}]}]}]},
        {"spans": [{"name": "x", "context": {"trace_id": int(TRACE, 16), "span_id": 2}, "attributes":
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}}]},
        {"name": "x", "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{2:016x}"}, "parent_id": None,
         "start_time": "2026-01-01T00:00:00Z",
         "attributes": {"gen_ai": {"operation": {"name": "execute_tool"}, "tool": {"name": "add"}}}},
        [{"name": "x", "spanContext": {"traceId": TRACE, "spanId": f"{2:016x}"}, "startTime": [1, 2], "endTime": [2, 3],
          "attributes": {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "add", "ai.toolCall.args": "{}"}}],
    ]  # fmt: skip

    for entry in value:
        run = run_of(entry)
        assert (run.run_id, [call.name for call in run.calls]) == (TRACE, ["add"])
        assert run.calls[0].execution is not None
        assert run.calls[0].execution.source is not None
        assert run.calls[0].execution.source.startswith(f"{TRACE}/{2:016x}#")


@pytest.mark.parametrize("zeros", ["0" * 16, "0x" + "0" * 16, "AAAAAAAAAAA=", 0])
def test_an_id_of_zeros_means_no_id(zeros: object) -> None:
    """A parent of zeros makes a root, in hexadecimal digits, as base64 or as a number."""
    fields = {**tool(1), "parentSpanId": zeros}

    assert run_of(spans(fields)).warnings == []
    with pytest.raises(InvalidDataError, match="a span needs an id"):
        read_traces(spans({**fields, "spanId": zeros}))


def test_log_records_belong_to_their_spans() -> None:
    """Messages as events of the Logs API, with or without the spans that they name."""
    body = {
        "message": {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]}
    }
    fields = [{"key": "message", "value": any_body(body["message"])}]
    record = {"timeUnixNano": "5", "eventName": "gen_ai.choice", "traceId": TRACE, "spanId": f"{1:016x}"}
    record |= {"body": {"kvlistValue": {"values": fields}}, "attributes": []}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record, {"body": {"stringValue": "noise"}}]}]}]}

    for value in (logs, [spans(hidden(1)), logs], {**logs, **spans(hidden(1))}):
        assert [(call.name, call.id) for call in run_of(value).calls] == [("add", "c1")]


def any_body(value: object) -> Plain:
    """A nested value as OTLP writes it."""
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": any_body(inner)} for key, inner in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_body(inner) for inner in value]}}
    return {"stringValue": value}


def test_events_that_hold_whole_conversations_are_read() -> None:
    """The event that came in the place of one for each message."""
    message = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "add"}]}
    attributes = {"gen_ai.output.messages": json.dumps([message])}
    event = {"name": "gen_ai.client.inference.operation.details", "attributes": pairs(attributes)}

    assert [call.id for call in called({**hidden(1), "events": [event]})] == ["c"]


def test_calls_without_arguments_in_events_are_not_captured() -> None:
    """Instrumentations without content still record names and ids."""
    told_calls = [{"id": "c1", "type": "function", "function": {"name": "add"}}]
    event = {"name": "gen_ai.choice", "attributes": pairs({"message": json.dumps({"tool_calls": told_calls})})}

    (call,) = called({**hidden(1), "events": [event]})

    assert call.execution is not None
    assert call.execution.not_captured == ["input_parameters"]


def test_merged_results_of_google_are_not_a_call() -> None:
    """The ADK repeats the results of parallel tools in a separate span."""
    request = {"contents": [{"role": "user", "parts": [{"text": "Go."}]}]}
    calls = called(
        span(1, **{"gcp.vertex.agent.llm_request": json.dumps(request),
                   "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [
                       {"function_call": {"name": "now"}}]}})}),
        tool(2, 1, "now", **{"gcp.vertex.agent.tool_call_args": "{}", "gcp.vertex.agent.tool_response": '{"t": 1}',
                             "gen_ai.tool.call.id": "adk-1"}),
        tool(3, 1, "(merged tools)"),
    )  # fmt: skip

    assert [(call.name, call.id, call.input_parameters, call.output) for call in calls] == [
        ("now", "adk-1", {}, {"t": 1})
    ]


def test_langfuse_exports_lines_of_observations_in_snake_case() -> None:
    """As its exports to a blob storage are; calls that it found itself count where the output holds none."""
    generation = {"id": "g", "trace_id": "t", "parent_observation_id": "", "type": "GENERATION", "name": "m",
                  "start_time": "2026-03-01 12:00:00.000001", "input": "Go.", "output": "?", "session_id": "s",
                  "tool_calls": ['{"id": "c1", "name": "add", "arguments": "{\\"a\\": 1}", "type": "function"}'],
                  "tool_call_names": ["add"], "tool_definitions": {"add": '{"parameters": "{}"}'}}  # fmt: skip
    names = {**generation, "id": "h", "trace_id": "u", "tool_calls": []}

    complete, named = read_traces([generation, names]).runs

    assert (complete.conversation_id, complete.calls[0].input_parameters) == ("s", {"a": 1})
    assert named.calls[0].execution is not None
    assert (named.calls[0].name, named.calls[0].execution.not_captured) == ("add", ["input_parameters"])
    assert complete.started_at is not None
    assert complete.started_at.isoformat() == "2026-03-01T12:00:00.000001+00:00"


def test_langsmith_runs_inside_of_runs_and_outermost_runs_alone() -> None:
    """The state of a graph holds what its inner runs would show."""
    listed = langsmith(script(asks(add())))
    inner = {run["id"]: {**run, "child_runs": []} for run in listed}
    for run in inner.values():
        if run["parent_run_id"]:
            inner[run["parent_run_id"]]["child_runs"].append(run)
    outermost = next(run for run in inner.values() if run["parent_run_id"] is None)
    state = [entry for run in listed if run["run_type"] == "llm" for entry in run["inputs"]["messages"][0]]
    alone = {**outermost, "child_runs": [], "outputs": {"messages": state}}

    for value in ({"runs": [outermost]}, outermost, alone):
        assert [(call.name, call.id, call.output) for call in run_of(value).calls] == [("add", "c1", "3")]
    assert [call.execution and call.execution.agent for call in run_of(alone).calls] == ["boss"]


def test_agents_sdk_without_sensitive_data_still_shows_calls() -> None:
    """Its response spans have no content, and its function spans are empty."""
    value = openai_agents(script(asks(add())))
    for entry in value[1:]:
        data = entry["span_data"]
        if data["type"] == "generation":
            entry["span_data"] = {
                "type": "response",
                "response_id": "r",
                "usage": {"input_tokens": 3, "output_tokens": 1},
            }
        elif data["type"] == "function":
            data |= {"input": None, "output": None}

    run = run_of(value)

    (call,) = run.calls
    assert call.execution is not None
    assert (call.name, call.execution.not_captured) == ("add", ["input_parameters", "output"])
    assert call.execution.origin.value == "model"
    assert run.usage == {"input_tokens": 6, "output_tokens": 2}


# Refusals


@pytest.mark.parametrize("form", FORMS)
def test_form_is_detected(form: str) -> None:
    """By its distinctive fields, also in a file with one span per line."""
    value = FORMS[form](script(asks(add())))
    expected = form if form in TRACE_FORMATS else "otel"

    assert read_traces(value).format == expected
    assert read_traces(value, format=expected).format == expected  # type: ignore[arg-type]


def test_spans_are_detected_beside_other_data() -> None:
    """Detection looks at the same key of an object as the reader, whatever its other keys hold."""
    assert run_of({"spans": [tool(1)], "data": {"experiment": "e-1"}}).calls[0].name == "add"


REFUSED: dict[str, tuple[object, str]] = {
    "messages": ([{"role": "user", "content": "Hi"}], "$: expected traces of OpenTelemetry, Langfuse, LangSmith or"),
    "nothing": (spans(), "$: holds no span"),
    "no agent": (spans(span(1)), "$: shows no model, agent or tool at work"),
    "a span without an id": (
        spans({"name": "x", "traceId": TRACE, "attributes": []}),
        "$.resourceSpans[0].scopeSpans[0]",
    ),
    "an observation without a type": ({"observations": [{"id": "a"}]}, "$.observations[0]: expected an observation"),
    "ids of observations": ({"observations": ["a"]}, "$.observations[0]: expected an observation"),
    "no run": ({"runs": [{"id": 1, "run_type": "llm"}, 3]}, "$: expected traces"),
    "a number": (3, "$: expected traces"),
}


@pytest.mark.parametrize(("value", "problem"), REFUSED.values(), ids=REFUSED)
def test_invalid_traces_are_refused_with_the_reason(value: object, problem: str) -> None:
    """Nothing becomes a run without calls silently."""
    assert problems(value)[0].startswith(problem)


def test_requested_form_is_enforced() -> None:
    """A value of another form is a problem; an unknown form is not."""
    for name, make in (("langfuse", langfuse), ("langsmith", langsmith), ("otel", jaeger)):
        others = [other for other in TRACE_FORMATS if other != name]
        for other in others:
            with pytest.raises(InvalidDataError):
                read_traces(make(script(asks(add()))), format=other)
    with pytest.raises(ConfigurationError, match="'otel', 'langfuse', 'langsmith', 'openai-agents'; got 'oracle'"):
        read_traces([], format="oracle")  # type: ignore[arg-type]


CUT: dict[str, Callable[[Script], Any]] = {
    name: FORMS[name] for name in ("otlp, genai", "langfuse", "langsmith", "openai-agents")
}


def opened(value: Any) -> Any:
    """A value with the JSON texts in it as values."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):  # LangSmith has texts that only look like it
            return {"opened": opened(json.loads(value))}
    if isinstance(value, dict):
        return {key: opened(inner) for key, inner in value.items()}
    return [opened(inner) for inner in value] if isinstance(value, list) else value


def closed(value: Any) -> Any:
    """Return the value with its texts as JSON strings again."""
    if isinstance(value, dict):
        if set(value) == {"opened"}:
            return json.dumps(closed(value["opened"]))
        return {key: closed(inner) for key, inner in value.items()}
    return [closed(inner) for inner in value] if isinstance(value, list) else value


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every holder inside a value, with each of its keys."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    listed = list(entries)
    return [(value, key) for key, _ in listed] + [place for _, inner in listed for place in places(inner)]


@pytest.mark.parametrize("form", CUT)
@pytest.mark.parametrize("junk", [None, 3, [], {}, {"role": 3}])
def test_junk_in_any_field_never_ends_in_another_error(form: str, junk: object) -> None:
    """Whatever one field holds, also inside of JSON texts, traces are read or refused with a reason."""
    whole = json.dumps(opened(CUT[form](script(asks(add()), session="s"))))

    for number in range(len(places(json.loads(whole)))):
        value = json.loads(whole)
        holder, key = places(value)[number]
        holder[key] = junk
        with suppress(InvalidDataError):
            read_traces(closed(value))
