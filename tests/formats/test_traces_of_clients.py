"""Client tracers that repeat, truncate or nest data inside a request: the rules and their limits."""

from __future__ import annotations

import json

import pytest

from spans import Plain, agent, called, chat, hidden, run_of, span, spans, tool
from toolgrade.formats import read_traces

CALL: Plain = {"id": "c1", "name": "add", "arguments": {"a": 1}}
OTHER: Plain = {"id": "c2", "name": "mul", "arguments": {"a": 2}}
MISSING = "the model stopped to call tools, but the trace does not show the calls"
UNKEPT = "the reply of the model was not captured; calls in it may be missing"


def history(*messages: Plain) -> Plain:
    """Return the prompt of a model, in addition to the user's text."""
    return {"gen_ai.input.messages": json.dumps([{"role": "user", "content": "Go."}, *messages])}


def call_message(*calls: Plain) -> Plain:
    """A message of a model that asks for calls."""
    return {"role": "assistant", "parts": [{"type": "tool_call", **call} for call in calls]}


def answer(call_id: str, text: str = "3") -> Plain:
    """An answer to a call."""
    return {"role": "user", "parts": [{"type": "tool_call_response", "id": call_id, "response": text}]}


def during(start: int, end: int, recorded: Plain) -> Plain:
    """The span at another time."""
    return {**recorded, "startTimeUnixNano": str(start * 10**9), "endTimeUnixNano": str(end * 10**9)}


RESPONSE: Plain = {"gen_ai.response.id": "r1"}
USED: Plain = {"gen_ai.usage.input_tokens": 7}


def test_two_spans_of_one_response_are_one_answer() -> None:
    """What only the span says that keeps no answer is known of the other."""
    listed = [during(1, 4, chat(1, None, CALL, **RESPONSE)), during(2, 3, hidden(2, **RESPONSE, **USED))]

    run = run_of(spans(*(one | {"parentSpanId": f"{9:016x}"} for one in listed), span(9)))

    assert [call.id for call in run.calls] == ["c1"]
    assert run.usage == {"input_tokens": 7}
    assert run.warnings == []


def test_same_response_id_at_another_time_is_another_response() -> None:
    """Some servers reuse response ids; only identical requests share a time."""
    run = run_of(spans(hidden(1, **RESPONSE), hidden(2, **RESPONSE)))

    assert run.warnings == [f"$.resourceSpans[0].scopeSpans[0].spans[0] (and 1 more): {UNKEPT}"]


def test_anthropics_client_says_why_a_model_stopped() -> None:
    """In its own spans, which have no message content."""
    run = run_of(spans(hidden(1, **{"anthropic.message.stop_reason": "tool_use"})))

    assert run.warnings == [f"$.resourceSpans[0].scopeSpans[0].spans[0]: {MISSING}"]


def test_a_request_without_content_inside_of_its_model_counts_once() -> None:
    """Anthropic's client traces itself: a span without messages in that of an instrumentation."""
    inner = hidden(2, 1, **{"anthropic.message.stop_reason": "tool_use"}, **USED)

    run = run_of(spans(chat(1, None, CALL, **{"llm.finish_reason": "tool_use"}, **USED), inner, chat(3, **USED)))

    assert (run.usage, run.warnings, run.actual_output) == ({"input_tokens": 14}, [], "Done.")


def test_several_requests_without_content_are_models() -> None:
    """The span around them may have the last reply only, as that of the Vercel AI SDK."""
    inner = [hidden(number, 1, **USED) for number in (2, 3)]

    assert run_of(spans(chat(1, None, CALL), *inner)).usage == {"input_tokens": 14}


def test_ids_that_googles_adk_made_up_for_runs_are_no_ids_of_calls() -> None:
    """Gemini's calls have none: messages then have other made-up ids than the spans of tools."""
    requests = [{**CALL, "id": f"add_{number}"} for number in range(2)]
    runs = [tool(number, 1, **{"gen_ai.tool.call.id": f"adk-{number}"}) for number in (3, 4)]

    first, second = called(agent(1), chat(2, 1, *requests), *runs)

    assert [(call.id, bool(call.execution and call.execution.executed)) for call in (first, second)] == [
        ("add_0", True),
        ("add_1", True),
    ]


@pytest.mark.parametrize("provider", ["gemini", "gcp.gemini", "gcp.vertex_ai", "google-gla", "vertex_ai"])
def test_google_model_that_stopped_may_have_requested_calls(provider: str) -> None:
    """It reports `STOP` in that case, too."""
    run = run_of(spans(hidden(1, **{"gen_ai.provider.name": provider, "gen_ai.response.finish_reasons": ["stop"]})))

    assert run.warnings == [f"$.resourceSpans[0].scopeSpans[0].spans[0]: {UNKEPT}"]


def test_the_end_of_a_stream_that_is_a_span_of_its_own_is_the_answer() -> None:
    """A span without a duration, that was asked the same; one with a duration is another request."""
    question = history()
    request = during(1, 2, hidden(1, 9, **question))
    moment = during(3, 3, chat(2, 9, CALL, **question))
    again = during(3, 4, chat(2, 9, CALL, **question))

    (merged,) = read_traces(spans(request | USED_FIELD, moment, span(9))).runs
    (retried,) = read_traces(spans(request | USED_FIELD, again, span(9))).runs

    assert merged.usage == {"input_tokens": 7}
    assert [len(run.calls) for run in (merged, retried)] == [1, 1]
    assert [run.warnings for run in (merged, retried)] == [[], []]


def test_spans_without_times_do_not_share_a_time() -> None:
    """Their duration is unknown."""
    timeless: Plain = {"startTimeUnixNano": None, "endTimeUnixNano": None}

    answered = chat(2, None, CALL, **history(), **{"gen_ai.usage.input_tokens": 5}) | timeless
    run = run_of(spans(hidden(1, **history()) | USED_FIELD | timeless, answered))

    assert run.usage == {"input_tokens": 12}


USED_FIELD: Plain = {
    "attributes": [
        *during(1, 2, hidden(1, 9, **history()))["attributes"],
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
    ]
}


def test_tool_inside_a_request_was_requested_by_its_model() -> None:
    """A client that runs tools records only the last answer; a sibling tool was called by code."""
    inside = called(chat(1), tool(2, 1), tool(3, 1, "mul"))
    beside = called(span(9), chat(1, 9), tool(2, 9))

    assert [(call.name, call.execution and call.execution.origin.value) for call in inside] == [
        ("add", "model"),
        ("mul", "model"),
    ]
    assert [call.execution and call.execution.origin.value for call in beside] == ["code"]


def test_words_that_came_after_tools_inside_of_a_request_are_the_answer() -> None:
    """A stream has all texts in one message; without inner tools, the texts accompanied the calls."""
    parts = [{"type": "tool_call", **CALL}, {"type": "text", "content": "It is 3."}]
    reply = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}

    inside = run_of(spans(hidden(1, **reply), tool(2, 1)))
    beside = run_of(spans(hidden(1, **reply), tool(2)))

    assert (inside.actual_output, beside.actual_output) == ("It is 3.", None)


def test_model_that_stopped_for_tools_requested_those_that_ran() -> None:
    """Its text was recorded without its calls."""
    stopped = {"gen_ai.response.finish_reasons": ["tool_calls"]}

    (call,) = called(span(9), chat(1, 9, **stopped), tool(2, 9), chat(3, 9))

    assert call.execution is not None
    assert call.execution.origin.value == "model"


def test_calls_only_in_a_framework_result_are_read() -> None:
    """With their ids; an answer without calls is read where it first appears."""
    whole = json.dumps({"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": "Hm."}]}})
    full = json.dumps({"message": {"role": "assistant", "content": "Hm.", "tool_calls": [CALL]}})
    stopped = {"gen_ai.response.finish_reasons": ["tool_calls"]}

    (call,) = called(chat(1, None, **stopped, **{"traceloop.entity.output": full}))
    plain = run_of(spans(chat(1, **{"traceloop.entity.output": whole})))

    assert (call.id, call.input_parameters) == ("c1", {"a": 1})
    assert plain.actual_output == "Done."


def test_partial_message_is_completed_in_its_order() -> None:
    """Without a warning: the answer shows that the calls belong to this run."""
    (first, second) = called(
        chat(1, None, OTHER), chat(2, None, **history(call_message(CALL, OTHER), answer("c1"), answer("c2")))
    )

    assert (first.id, second.id) == ("c1", "c2")
    assert first.execution is not None
    assert second.execution is not None
    assert first.execution.step == second.execution.step


@pytest.mark.parametrize(("arguments", "expected"), [({}, {"a": 1}), ({"a": 9}, {"a": 9})])
def test_empty_arguments_are_those_that_a_history_has(arguments: Plain, expected: Plain) -> None:
    """Under the same id; arguments that are not empty are the model's own."""
    (call,) = called(
        chat(1, None, {**CALL, "arguments": arguments}), chat(2, None, **history(call_message(CALL), answer("c1")))
    )

    assert call.input_parameters == expected


def test_answers_with_unknown_ids_belong_to_preceding_requests() -> None:
    """If the numbers match; otherwise the assignment is unknown."""
    pair = chat(2, None, **history(call_message(CALL, OTHER), answer("x", "3"), answer("y", "4")))
    one = chat(2, None, **history(call_message(CALL, OTHER), answer("x", "3")))

    matched = run_of(spans(chat(1, None, CALL, OTHER), pair))
    unknown = run_of(spans(chat(1, None, CALL, OTHER), one))

    assert [call.output for call in matched.calls] == ["3", "4"]
    assert matched.warnings == []
    assert [call.output for call in unknown.calls] == [None, None]
    assert len(unknown.warnings) == 1


def test_calls_of_hidden_histories_are_those_of_an_earlier_trace() -> None:
    """Where no words were kept, and this trace cannot have made them: all that its models answered was kept."""
    before = {"gen_ai.input.messages": json.dumps([call_message(CALL)])}
    earlier = chat(1, None, CALL)
    later = [chat(2, None, OTHER, trace="b" * 32, **before), hidden(2, trace="c" * 32, **before)]

    runs = [read_traces(spans(earlier, one)).runs for one in later]

    assert [[call.id for call in run.calls] for run in runs[0]] == [["c1"], ["c2"]]
    assert [[call.id for call in run.calls] for run in runs[1]] == [["c1"], ["c1"]]


def test_model_answer_is_distinct_from_its_prompt() -> None:
    """A history has the id of an earlier equal call; the answer has none."""
    add = {"name": "add", "arguments": {"a": 1}}
    first = chat(1, None, add, **history())
    second = chat(2, None, add, trace="b" * 32, **history(call_message(CALL), answer("c1")))

    runs = read_traces(spans(first, second)).runs

    assert [[call.id for call in run.calls] for run in runs] == [["c1"], [None]]


def test_agent_of_logfire_is_named_without_turns() -> None:
    """Older versions of the SDK do not record turns."""
    template = {"logfire.msg_template": "Agent run: {name!r}", "gen_ai.system": "openai", "name": None}
    recorded = agent(1) | {"attributes": span(1, **{**template, "name": "span"})["attributes"]}
    recorded["attributes"].append({"key": "name", "value": {"stringValue": "boss"}})

    (call,) = called(recorded, chat(2, 1, CALL))

    assert call.execution is not None
    assert call.execution.agent == "boss"


def test_similar_spans_are_not_logfire_agents() -> None:
    """A program may log a function with the same text."""
    recorded = span(2, 1, **{"logfire.msg_template": "Function: {name}", "input": "{}"})

    assert [call.name for call in called(chat(1, None, CALL), recorded)] == ["add"]


def test_tool_of_llama_index_without_a_request_is_read() -> None:
    """With its arguments, its id and its output."""
    output: Plain = {"raw_output": 3, "tool_name": "add", "is_error": False}
    returned: Plain = {"tool_name": "add", "tool_id": "c1", "tool_output": output}
    fields: Plain = {"tool.name": "add", "tool.arguments": '{"a": 1}', "traceloop.entity.output": json.dumps(returned)}

    (call,) = called(span(1, **fields))

    assert (call.name, call.id, call.input_parameters, call.output) == ("add", "c1", {"a": 1}, 3)


def test_tool_with_wrapper_like_parameters_keeps_them() -> None:
    """OpenLLMetry wraps an MCP call only with the tool's own name next to its arguments."""
    arguments = {"tool_name": "mul", "arguments": {"a": 1}}
    fields = {"gen_ai.tool.call.arguments": json.dumps(arguments)}

    wrapped = called(tool(1, None, "mul", **fields))
    plain = called(tool(1, None, "call_tool", **fields))

    assert [wrapped[0].input_parameters, plain[0].input_parameters] == [{"a": 1}, arguments]


def test_texts_next_to_a_call_id_are_tool_output() -> None:
    """LiteLLM writes them in this way."""
    message = {"role": "tool", "parts": [{"type": "text", "content": "3"}], "tool_call_id": "c1"}

    (call,) = called(chat(1, None, CALL), chat(2, None, **history(call_message(CALL), message)))

    assert call.output == "3"


def test_incomplete_message_attributes_hide_nothing() -> None:
    """Other facts about an answer may use the attribute names of messages."""
    (call,) = called(chat(1, None, CALL, **{"gen_ai.completion.0.finish_reason": "tool_calls"}))

    assert call.id == "c1"
