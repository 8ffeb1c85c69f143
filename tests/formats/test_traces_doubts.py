"""Incomplete, vendor-specific and repeated data in traces: the rules and their limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spans import Plain, agent, called, chat, hidden, run_of, span, spans, tool
from toolgrade.calls import ToolCall
from toolgrade.formats import Traces, read_traces
from toolgrade.formats.traces.messages import messages_in, remember_messages

MISSING = "the model stopped to call tools, but the trace does not show the calls"
UNKEPT = "the reply of the model was not captured; calls in it may be missing"
LOST = "answers a call that the trace does not show; left out"
USER_MESSAGE = {"gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Go."}]}])}
CALL: Plain = {"id": "c1", "name": "add", "arguments": {"a": 1}}


def finished(*reasons: str) -> Plain:
    """Return the attribute with a model's finish reason."""
    return {"gen_ai.response.finish_reasons": list(reasons)}


def history(*messages: Plain) -> Plain:
    """Return the prompt of a model, in addition to the user's text."""
    return {"gen_ai.input.messages": json.dumps([{"role": "user", "content": "Go."}, *messages])}


def call_message(*calls: Plain) -> Plain:
    """A message of a model that asks for calls."""
    return {"role": "assistant", "parts": [{"type": "tool_call", **call} for call in calls]}


def answer(text: str, **more: str) -> Plain:
    """An answer to a call."""
    return {"role": "tool", "content": text, **more}


def with_times(start: int, end: int, recorded: Plain, trace: str) -> Plain:
    """The span at another time, in another trace."""
    times = {"startTimeUnixNano": str(start * 10**9), "endTimeUnixNano": str(end * 10**9)}
    return {**recorded, **times, "traceId": trace * 32}


# Calls without content


@pytest.mark.parametrize("reason", ["tool_calls", "tool_call", "tool-calls", "tool_use", "function_call"])
def test_model_that_stopped_for_tools_requested_some(reason: str) -> None:
    """Whatever the finish reason is called; without the calls in the trace, the run is incomplete."""
    run = run_of(spans(hidden(1, **finished(reason))))

    assert run.calls == []
    assert run.warnings == [f"$.resourceSpans[0].scopeSpans[0].spans[0]: {MISSING}"]


def test_calls_shown_anywhere_are_not_missing() -> None:
    """In the answer, a later history, a tool span or a hand-off; each model without calls is reported."""
    complete = run_of(spans(chat(1, None, CALL, **finished("tool_calls")), chat(2, **finished("stop"))))
    later = run_of(
        spans(hidden(1, **finished("tool_calls")), chat(2, **history(call_message(CALL), answer("3", id="c1"))))
    )
    ran = run_of(spans(hidden(1, **finished("tool_calls")), tool(2), hidden(3, **finished("stop"))))
    lost = run_of(spans(hidden(1, **finished("tool_calls")), tool(2), hidden(3, **finished("tool_calls"))))

    assert [run.warnings for run in (complete, later, ran)] == [[], [], []]
    assert [len(run.calls) for run in (complete, later, ran, lost)] == [1, 1, 1, 1]
    assert lost.warnings == [f"$.resourceSpans[0].scopeSpans[0].spans[2]: {MISSING}"]


def test_silent_model_may_have_requested_calls() -> None:
    """Without a finish reason, tool spans, or a later history that shows its answer."""
    (doubt,) = run_of(spans(hidden(1, **USER_MESSAGE), hidden(2, **USER_MESSAGE))).warnings

    assert doubt == f"$.resourceSpans[0].scopeSpans[0].spans[1]: {UNKEPT}"


@pytest.mark.parametrize(
    "listed",
    [
        [hidden(1, **finished("stop"))],
        [agent(1), hidden(2, 1)],
        [hidden(1), tool(2), hidden(3)],
        [hidden(1, status={"code": 2}), chat(2)],
        [hidden(1), chat(2, **USER_MESSAGE)],
    ],
)
def test_silent_model_without_requests_is_not_doubted(listed: list[Plain]) -> None:
    """It has a finish reason or an error, its tracer records tools, or later data shows its answer."""
    assert run_of(spans(*listed)).warnings == []


def test_messages_without_content_are_not_texts() -> None:
    """The remains that a tracer leaves are not user or model text."""
    attributes = {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text"}]}]'}
    attributes |= {"gen_ai.output.messages": '[{"role": "assistant", "parts": []}]'}

    run = run_of(spans(hidden(1, **attributes)))

    assert (run.input, run.actual_output, run.warnings) == (None, None, [])


def test_arguments_omitted_by_openinference_are_in_the_response() -> None:
    """It omits `{}`; if the response is hidden too, the arguments are unknown."""
    fields = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "now",
    }
    whole = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "now", "arguments": "{}"}}]}

    (complete,) = run_of(spans(span(1, **fields, **{"output.value": json.dumps(whole)}))).calls
    (hidden,) = run_of(spans(span(1, **fields, **{"output.value": "__REDACTED__"}))).calls
    (other,) = run_of(spans(span(1, **fields, **{"output.value": json.dumps(whole).replace("c1", "c2")}))).calls

    assert complete.input_parameters == {}
    assert "input_parameters" in complete.model_fields_set
    for call in (hidden, other):
        assert call.execution is not None
        assert call.execution.not_captured == ["input_parameters"]


def test_failure_counts_whichever_history_shows_it() -> None:
    """Also where the answers come up before their request."""
    messages = [answer("no", tool_call_id="c1"), answer("no", tool_call_id="c1", status="error"), call_message(CALL)]

    (call,) = run_of(spans(*(hidden(number, **history(message)) for number, message in enumerate(messages, 1)))).calls

    assert call.execution is not None
    assert call.execution.status.value == "error"


# What a Python function was called with


def wrapped(arguments: Plain, *requested: Plain, **more: Any) -> ToolCall:
    """Return a tool call as its tracer recorded it, requested by a model if `requested` is set."""
    models = [chat(1, None, *requested)] if requested else []
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "add", "input.value": json.dumps(arguments), **more}
    (call,) = run_of(spans(*models, span(2, **attributes))).calls
    return call


@pytest.mark.parametrize("arguments", [{"kwargs": {"a": 1}}, {"args": [], "kwargs": {"a": 1}}])
def test_arguments_by_name_are_those_of_the_call(arguments: Plain) -> None:
    """With a request and without."""
    assert wrapped(arguments, CALL).input_parameters == {"a": 1}
    assert wrapped(arguments).input_parameters == {"a": 1}


def test_arguments_are_unwrapped_once() -> None:
    """Also where the request of the tool is inferred, since the model's reply was not captured."""
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "add"}
    recorded = span(2, **attributes, **{"input.value": '{"kwargs": {"kwargs": {"a": 1}}}'})

    (call,) = run_of(spans(hidden(1, **finished("tool_calls")), recorded)).calls

    assert call.input_parameters == {"kwargs": {"a": 1}}


def test_arguments_by_position_take_the_names_of_the_parameters() -> None:
    """In their order, before those by name, also if a JSON Schema names them."""
    arguments = {"args": [1], "kwargs": {"b": 2}, "sanitize_inputs_outputs": True}
    schema = {"type": "object", "properties": {"a": {}, "b": {}}}

    for parameters in ({"a": {}, "b": {}}, schema):
        call = wrapped(arguments, **{"tool.parameters": json.dumps(parameters)})
        assert call.input_parameters == {"a": 1, "b": 2}


def test_arguments_by_position_without_names_are_not_captured() -> None:
    """The request gives the names if there is one; otherwise they are unknown, with a warning."""
    arguments = {"args": [1], "kwargs": {}}

    requested, alone = (
        wrapped(arguments, CALL),
        run_of(
            spans(
                span(2, **{"openinference.span.kind": "TOOL", "tool.name": "add", "input.value": json.dumps(arguments)})
            )
        ),
    )

    assert requested.input_parameters == {"a": 1}
    (call,) = alone.calls
    assert call.execution is not None
    assert "input_parameters" in call.execution.not_captured
    (doubt,) = alone.warnings
    assert doubt.endswith(
        ".spans[0]: the arguments of 'add' are positional and their names are unknown; they count as not captured"
    )


@pytest.mark.parametrize("arguments", [{"kwargs": {"a": 1}}, {"args": [1], "kwargs": {}}])
def test_arguments_written_by_the_model_are_unchanged(arguments: Plain) -> None:
    """A tool may have parameters with these names."""
    assert wrapped(arguments, {**CALL, "arguments": arguments}).input_parameters == arguments


@pytest.mark.parametrize(
    "arguments", [{"kwargs": {"a": 1}, "b": 2}, {"kwargs": "a"}, {"args": 1, "kwargs": {}}, {"args": [1]}]
)
def test_other_objects_are_unchanged(arguments: Plain) -> None:
    """Only an unambiguous wrapper is read as the call of a function."""
    assert wrapped(arguments).input_parameters == arguments


def test_raw_text_next_to_other_arguments_is_an_argument() -> None:
    """Alone, it is OpenLLMetry's wrapper for text that is not a JSON object."""
    calls = run_of(
        spans(
            chat(
                1, None, {**CALL, "arguments": {"_raw": "{", "a": 1}}, {**CALL, "id": "c2", "arguments": {"_raw": "{"}}
            )
        )
    ).calls

    assert calls[0].input_parameters == {"_raw": "{", "a": 1}
    assert calls[1].execution is not None
    assert calls[1].execution.status.value == "invalid_arguments"


# Ids that are none of calls


def test_ids_of_items_are_replaced_by_those_that_answers_name() -> None:
    """In the order of the requests, each once; where an id of a call is there, it stays."""
    first, second = {**CALL, "id": "fc_1"}, {**CALL, "id": "fc_2"}
    third = {**CALL, "id": "c3"}
    attributes = history(
        call_message(first, second, third), answer("3", id="c3"), answer("1", id="c1"), answer("2", id="c2")
    )

    run = run_of(spans(chat(1, None, first, second, third), chat(2, **attributes)))

    assert [(call.id, call.output) for call in run.calls] == [("c1", "1"), ("c2", "2"), ("c3", "3")]
    assert run.warnings == []


def test_an_answer_with_the_id_of_a_call_and_a_history_with_that_of_its_item_are_one() -> None:
    """And the other way round; two equal calls stay two."""
    items = [{**CALL, "id": "fc_1"}, {**CALL, "id": "fc_2"}]
    calls = [{**CALL, "id": "c1"}, {**CALL, "id": "c2"}]

    for reply, repeated in ((items, calls), (calls, items)):
        attributes = history(call_message(*repeated), answer("1", id="c1"), answer("2", id="c2"))
        run = run_of(spans(chat(1, None, *reply), chat(2, **attributes)))
        assert [(call.id, call.output) for call in run.calls] == [("c1", "1"), ("c2", "2")]


def test_tool_of_an_item_is_matched_by_name() -> None:
    """Its span has the call id, which the request lacks."""
    more = {"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": '{"a": 1}', "gen_ai.tool.call.result": "3"}

    (call,) = run_of(spans(chat(1, None, {**CALL, "id": "fc_1"}), tool(2, **more))).calls

    assert (call.id, call.output) == ("c1", "3")


def test_calls_without_ids_learn_them_from_a_history() -> None:
    """Some tracers lose them where the answer is streamed."""
    attributes = history(call_message(CALL), answer("3", id="c1"))

    (call,) = run_of(spans(chat(1, None, {"name": "add", "arguments": {"a": 1}}), chat(2, **attributes))).calls

    assert (call.id, call.output) == ("c1", "3")


# Answers that name nothing


def nameless(*calls: Plain, answers: int = 1, ran: int = 0) -> Any:
    """Return a run whose second model receives answers without call ids, as text after a request."""
    tools = [tool(number, **{"gen_ai.tool.call.id": f"c{number - 1}"}) for number in range(2, 2 + ran)]
    attributes = history(*([{"role": "tool", "content": "3"}] * answers))
    return run_of(spans(chat(1, None, *calls), *tools, chat(9, **attributes)))


def test_an_answer_without_a_name_belongs_to_the_only_call_that_waits() -> None:
    """A later repetition is not another answer."""
    run = nameless(CALL, answers=2)

    assert [call.output for call in run.calls] == ["3"]
    assert run.warnings == []


def test_an_answer_without_a_name_to_several_calls_or_none_is_lost() -> None:
    """Nobody can say to which; to calls that ran it says nothing new."""
    other = {**CALL, "id": "c2"}

    assert [LOST in text for text in nameless(CALL, other).warnings] == [True]
    assert [LOST in text for text in nameless().warnings] == [True]
    assert nameless(CALL, other, ran=2).warnings == []


# Traces that repeat others


def traces(*listed: Plain) -> Traces:
    """What these spans show."""
    return read_traces(spans(*listed))


def framework(trace: str = "a") -> list[Plain]:
    """The trace of an agent that asks a model from second 2 to second 8."""
    return [with_times(1, 9, agent(1), trace), with_times(2, 8, chat(2, 1, CALL, **USER_MESSAGE), trace)]


def client(start: int = 3, end: int = 7, *calls: Plain, trace: str = "b", number: int = 3, **more: Any) -> Plain:
    """Return a model request that is its own trace."""
    return with_times(start, end, chat(number, None, *(calls or (CALL,)), **{**USER_MESSAGE, **more}), trace)


def test_a_request_that_the_trace_of_an_agent_shows_too_is_left_out() -> None:
    """Its call counts once, with the agent; the omission is reported."""
    result = traces(*framework(), client())

    (run,) = result.runs
    assert [call.id for call in run.calls] == ["c1"]
    assert result.warnings == [
        "$.resourceSpans[0].scopeSpans[0].spans[2]: 1 of the traces repeat requests to models of other traces; left out"
    ]


@pytest.mark.parametrize(
    "other",
    [
        client(1, 7),
        client(3, 9),
        client(2, 8),
        client(3, 7, {**CALL, "id": "c2"}),
        client(3, 7, {"name": "add", "arguments": {"a": 1}}),
        client(**{"gen_ai.input.messages": json.dumps([{"role": "user", "content": "Stop."}])}),
    ],
)
def test_other_requests_are_runs_of_their_own(other: Plain) -> None:
    """Not within the other's time, other calls, calls without ids, another question."""
    result = traces(*framework(), other)

    assert [len(run.calls) for run in result.runs] == [1, 1]
    assert result.warnings == []


def test_traces_of_models_alone_repeat_no_others() -> None:
    """They may be requests made at the same time with equal answers."""
    result = traces(client(1, 9, trace="a", number=1), client(3, 7, trace="b"))

    assert len(result.runs) == 2


def test_trace_that_repeats_another_in_part_is_kept() -> None:
    """All of its models must be in the other trace."""
    second = with_times(5, 6, chat(4, None, {**CALL, "id": "c9"}, **USER_MESSAGE), "b")

    assert len(traces(*framework(), client(3, 4), second).runs) == 2


# Words and parts


@pytest.mark.parametrize("text", ["[1, 2]", '[{"a": 1}]', "{'a': 1}", "{'role': 'user'}", "[]"])
def test_words_in_json_or_python_are_words(text: str) -> None:
    """Only what holds the parts of a message, or is a printed message, is read as one."""
    reply = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])

    assert run_of(spans(hidden(1, **{"gen_ai.output.messages": reply}))).actual_output == text


def test_tool_output_may_look_like_parts() -> None:
    """The content of MCP tools has this form and is the result."""
    text = '[{"type": "text", "text": "3"}]'
    attributes = history(call_message(CALL), answer(text, id="c1"))

    (call,) = run_of(spans(chat(1, None, CALL), chat(2, **attributes))).calls

    assert call.output == text


def test_events_with_bedrock_parts_are_messages() -> None:
    """Words and calls in one text: the calls are read, and the words are words."""
    parts = [{"text": "Let me add."}, {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 1}}}]
    attributes = [{"key": "message", "value": {"stringValue": json.dumps(parts)}}]

    (call,) = run_of(spans(hidden(1, events=[{"name": "gen_ai.choice", "attributes": attributes}]))).calls

    assert (call.id, call.input_parameters) == ("c1", {"a": 1})


def test_tools_in_messages_are_offered_tools() -> None:
    """Langfuse's LangChain handler puts them among the messages, its OpenAI client next to them."""
    function = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    among = [{"role": "user", "content": "Go."}, {"role": "tool", "content": function}]
    beside = {"tools": [function], "messages": [{"role": "user", "content": "Go."}]}

    for arguments in (among, beside):
        attributes = {"langfuse.observation.type": "generation", "langfuse.observation.input": json.dumps(arguments)}
        run = run_of(spans(span(1, **attributes, **{"langfuse.observation.output": '"Done."'})))
        assert [tool_spec.name for tool_spec in run.available_tools or []] == ["add"]
        assert (run.input, run.warnings) == ("Go.", [])


# LangSmith with hidden inputs or outputs


def langsmith_runs(**model: Any) -> Any:
    """A model and a tool without arguments that returned nothing, as LangSmith's client writes them."""
    times = {"start_time": 1, "end_time": 2, "trace_id": "t"}
    chain = {"id": "t", "name": "turn", "run_type": "chain", "inputs": {}, "outputs": {}, **times}
    asking = {"id": "m", "name": "model", "run_type": "llm", "parent_run_id": "t", **times, **model}
    running = {"id": "x", "name": "now", "run_type": "tool", "parent_run_id": "t", "inputs": {}, "outputs": {}, **times}
    (run,) = read_traces([chain, asking, running]).runs
    return run.calls[-1]


def test_values_hidden_by_langsmith_are_not_captured() -> None:
    """Hidden inputs are `{}`, like those of a tool without arguments; models always have an input."""
    messages = {"messages": [{"role": "user", "content": "Go."}]}
    answered = {"choices": [{"message": {"role": "assistant", "content": "Hm."}}]}

    hidden, complete = langsmith_runs(inputs={}, outputs={}), langsmith_runs(inputs=messages, outputs=answered)
    only_inputs = langsmith_runs(inputs={}, outputs=answered)

    assert hidden.execution.not_captured == ["input_parameters", "output"]
    assert (complete.input_parameters, complete.output) == ({}, {})
    assert not complete.execution.not_captured
    assert only_inputs.execution.not_captured == ["input_parameters"]


# Spans that must stay separate, and data that must always be read


def test_calls_without_ids_and_of_other_arguments_are_two() -> None:
    """Equal names alone make no calls the same."""
    named = {"name": "add", "arguments": {"a": 1}}
    attributes = history(call_message({"name": "add", "arguments": {"a": 2}}), answer("3"))

    calls = run_of(spans(chat(1, None, named), chat(2, **attributes))).calls

    assert sorted(str(call.input_parameters) for call in calls) == ["{'a': 1}", "{'a': 2}"]


def test_history_completes_the_arguments_of_an_answer() -> None:
    """A call that has only its name receives them."""
    attributes = history(call_message(CALL), answer("3", id="c1"))

    (call,) = run_of(spans(chat(1, None, {"id": "c1", "name": "add"}), chat(2, **attributes))).calls

    assert call.input_parameters == {"a": 1}


def test_second_run_without_an_id_is_a_retry_only_after_failure() -> None:
    """A tool that succeeded and runs again without a request was called by a program."""
    calls = run_of(spans(chat(1, None, CALL), tool(2), tool(3))).calls

    assert [call.execution.origin.value for call in calls if call.execution] == ["model", "code"]


def test_the_first_answer_to_a_call_stays() -> None:
    """A later history that was shortened does not change it."""
    first, second = (history(call_message(CALL), answer(text, id="c1")) for text in ("3", "..."))

    (call,) = run_of(spans(chat(1, None, CALL), chat(2, **first), chat(3, **second))).calls

    assert call.output == "3"


def test_answers_with_an_unknown_id_are_lost() -> None:
    """Only those that name nothing may belong to the call that waits."""
    run = run_of(spans(chat(1, None, CALL), chat(2, **history(answer("3", id="c7")))))

    assert [LOST in text for text in run.warnings] == [True]


def test_an_answer_without_a_name_belongs_to_the_same_agent() -> None:
    """Not to a call of the one around it, which waits longer."""
    attributes = history({"role": "tool", "content": "3"})
    inner = chat(4, 3, {"id": "c2", "name": "mul", "arguments": {}})

    calls = run_of(spans(agent(1), chat(2, 1, CALL), agent(3, 1, "helper"), inner, chat(5, 3, **attributes))).calls

    assert {call.name: call.output for call in calls} == {"add": None, "mul": "3"}


def test_adjacent_calls_outside_messages_are_one_message() -> None:
    """Even if equal ones were read and remembered before."""
    listed = [{"toolCallId": f"c{number}", "toolName": "add", "input": "{}"} for number in (1, 2)]

    with remember_messages():
        read = [messages_in(listed, "$", "model") for _ in range(2)]

    assert [[[request.id for request in message.requests] for message in one] for one in read] == [[["c1", "c2"]]] * 2


def test_a_tool_after_a_model_inside_of_a_tool_of_its_name_is_another_call() -> None:
    """The model may have asked for it, with the same arguments."""
    attributes = {"gen_ai.tool.call.arguments": '{"a": 1}'}

    (call,) = run_of(spans(tool(1, **attributes), chat(2, 1, CALL), tool(3, 1, **attributes))).calls

    assert call.execution is not None
    (inner,) = call.execution.children
    assert inner.execution is not None
    assert (inner.name, inner.id, inner.execution.executed) == ("add", "c1", True)


def test_an_answer_of_another_tool_is_lost() -> None:
    """It names a tool that was not requested, so it belongs to no waiting call."""
    run = run_of(spans(chat(1, None, CALL), chat(2, **history({"role": "tool", "name": "mul", "content": "3"}))))

    assert [LOST in text for text in run.warnings] == [True]


def test_agent_events_provide_missing_texts() -> None:
    """An agent's input and output are used if its models have none."""

    def event(name: str, key: str, text: str) -> Plain:
        return {"name": name, "attributes": [{"key": key, "value": {"stringValue": text}}]}

    events = [event("gen_ai.user.message", "content", "Go."), event("gen_ai.choice", "message", "Done.")]

    run = run_of(spans({**agent(1), "events": events}, hidden(2, 1)))

    assert (run.input, run.actual_output) == ("Go.", "Done.")


def test_a_log_record_says_why_a_model_stopped() -> None:
    """In its body."""
    body = {"kvlistValue": {"values": [{"key": "finish_reason", "value": {"stringValue": "tool_calls"}}]}}
    record = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": f"{1:016x}", "eventName": "gen_ai.choice"}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{**record, "body": body}]}]}]}

    (run,) = read_traces([spans(hidden(1)), logs]).runs

    assert [MISSING in text for text in run.warnings] == [True]


def test_an_output_of_llama_index_says_that_the_tool_failed() -> None:
    """Though no exception was raised."""
    output = {"raw_output": "no", "tool_name": "add", "is_error": True, "blocks": []}

    call = wrapped({"kwargs": {"a": 1}}, **{"output.value": json.dumps(output)})

    assert call.execution is not None
    assert call.execution.status.value == "error"


def test_a_tool_inside_an_agent_inside_a_tool_of_its_name_is_another_call() -> None:
    """Ids and names may be equal; an agent was at work between."""
    attributes = {"gen_ai.tool.call.arguments": '{"a": 1}'}

    (call,) = run_of(spans(tool(1, **attributes), agent(2, 1), tool(3, 2, **attributes))).calls

    assert call.execution is not None
    assert [inner.name for inner in call.execution.children] == ["add"]


def test_visible_values_next_to_hidden_ones_are_read() -> None:
    """Outputs of a failed model are not hidden, and present arguments were captured."""
    messages = {"messages": [{"role": "user", "content": "Go."}]}

    failed = langsmith_runs(inputs=messages, outputs={}, error="Timeout")

    assert failed.output == {}


def test_session_of_a_langfuse_trace_precedes_that_of_its_spans() -> None:
    """It is the one that the application shows."""
    row = {"id": "o", "type": "GENERATION", "output": "Hm.", "startTime": "2026-01-01T00:00:00Z", "sessionId": "inner"}

    (run,) = read_traces({"trace": {"id": "t", "sessionId": "outer"}, "observations": [row]}).runs

    assert run.conversation_id == "outer"


def test_an_empty_input_of_a_function_of_the_openai_sdk_was_not_captured() -> None:
    """The text is empty if the SDK is configured to record no data."""
    data = {"type": "function", "name": "now", "input": "", "output": ""}

    (run,) = read_traces([{"object": "trace.span", "id": "s", "trace_id": "t", "span_data": data}]).runs

    (call,) = run.calls
    assert call.execution is not None
    assert "input_parameters" in call.execution.not_captured


@pytest.mark.parametrize("blank", ["", "null", {}, [], None])
def test_a_blank_langfuse_observation_does_not_replace_what_the_span_has(blank: object) -> None:
    """Langfuse leaves the input and the output of an observation blank where it did not read the span's."""
    attributes = {"gen_ai.tool.call.arguments": '{"a": 2}', "gen_ai.tool.call.result": "5"}
    row = {"id": "o", "traceId": "t", "type": "TOOL", "name": "add", "startTime": "2026-01-01T00:00:00Z"}

    (captured,) = read_traces([row | {"input": blank, "output": blank, "metadata": {"attributes": attributes}}]).runs
    (blank_run,) = read_traces([row | {"input": {}, "output": ""}]).runs

    assert [(call.input_parameters, call.output) for call in captured.calls] == [({"a": 2}, "5")]
    assert [(call.input_parameters, call.output) for call in blank_run.calls] == [({}, "")]


def test_events_of_a_beeai_tool_are_not_calls() -> None:
    """BeeAI's events (a retry, an error, an answer) have spans with the kind of the tool or agent that they are of."""

    def beeai(number: int, kind: str, value: Plain, **more: Any) -> Plain:
        attributes = {"openinference.span.kind": kind, "input.value": json.dumps(value), **more}
        return span(number, number - 1 if kind == "TOOL" else 1, **attributes)

    def event(number: int, kind: str, path: str, value: Plain) -> Plain:
        return beeai(
            number, kind, value, **{"name": path.rpartition(".")[2], "metadata.id": "e", "metadata.path": path}
        )

    received = {"input": {"x": 1}, "options": None}
    boss = span(
        1, **{"openinference.span.kind": "AGENT", "agent.name": "boss", "metadata.class_name": "RequirementAgent"}
    )
    request = chat(2, 1, {"id": "c1", "name": "boom", "arguments": {"x": 1}})
    tool_span = beeai(
        3, "TOOL", received, **{"tool.name": "boom", "metadata.class_name": "FunctionTool", "output.value": "3"}
    )
    retry = event(4, "TOOL", "tool.custom.boom.retry", received)
    error = event(5, "TOOL", "tool.custom.boom.error", {"error": "Tool Error", **received})
    answer = event(6, "AGENT", "agent.requirement.final_answer", {"output": "three"})
    calls = called(boss, request, tool_span, retry, error, answer)

    assert [(call.name, call.id, call.input_parameters) for call in calls] == [("boom", "c1", {"x": 1})]
