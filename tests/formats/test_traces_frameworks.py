"""Vendor-specific spans of agent frameworks: the rules that read them and their limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spans import Plain, agent, called, chat, hidden, run_of, span, spans, tool
from toolgrade.formats import read_traces

MISSING = "the model stopped to call tools, but the trace does not show the calls"
AGENT_ALONE = "the agent has no spans of models or tools; calls may be missing"
CALL: Plain = {"id": "c1", "name": "add", "arguments": {"a": 1}}
USER: Plain = {"role": "user", "content": "Go."}


def messages(*listed: Plain) -> str:
    """Messages, as an attribute holds them."""
    return json.dumps(listed)


def asking(**call: Any) -> Plain:
    """A message of a model that asks for a call."""
    return {"role": "assistant", "parts": [{"type": "tool_call", **call}]}


# Why models stopped


@pytest.mark.parametrize(
    "reply",
    [
        {"gen_ai.response.finish_reason": "FinishReason.TOOL_CALLS"},
        {"gen_ai.response.finish_reason": "FinishReason.TOOL_CALLS,FinishReason.STOP"},
        {"output.value": '{"choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant"}}]}'},
        {"haystack.component.output": '{"replies": [{"meta": {"finish_reason": "tool_calls"}}]}'},
    ],
)
def test_a_model_may_say_why_it_stopped_in_one_word_or_in_its_response(reply: Plain) -> None:
    """Semantic Kernel writes Python names for reasons; Haystack puts them next to each reply."""
    run = run_of(spans(hidden(1, **reply)))

    assert run.warnings == [f"$.resourceSpans[0].scopeSpans[0].spans[0]: {MISSING}"]


def test_model_that_stopped_for_another_reason_requested_nothing() -> None:
    """Even if its whole response is recorded."""
    reply = {
        "output.value": '{"choices": [{"finish_reason": "stop", "message": {"content": "Hi.", "role": "assistant"}}]}'
    }

    assert run_of(spans(hidden(1, **reply))).warnings == []


# Agents alone


def test_agent_without_content_may_have_called_tools() -> None:
    """Neither its models nor its tools are recorded, so zero calls is not certain."""
    assert [AGENT_ALONE in text for text in run_of(spans(agent(1))).warnings] == [True]


@pytest.mark.parametrize(
    "beside",
    [
        chat(2, 1),
        tool(2, 1),
        span(2, 1, **{"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": messages(asking(**CALL))}),
        span(2, 1, **{"pydantic_ai.all_messages": messages(USER, asking(**CALL))}),
    ],
)
def test_agent_with_visible_steps_is_not_doubted(beside: Plain) -> None:
    """A model that answered, a tool that ran, or a whole conversation."""
    assert AGENT_ALONE not in "\n".join(run_of(spans(agent(1), beside)).warnings)


def test_agent_with_a_whole_conversation_without_calls_made_none() -> None:
    """The texts of user and model are present."""
    talk = {"pydantic_ai.all_messages": messages(USER, {"role": "assistant", "content": "Hi."})}

    assert run_of(spans(span(1, name="agent run", **talk))).warnings == []


# Tools that were not offered


def offered(*names: str) -> Plain:
    """The attribute that lists tools."""
    return {"gen_ai.tool.definitions": json.dumps([{"type": "function", "name": name} for name in names])}


def with_offer(recorded: Plain, *names: str) -> Plain:
    """The span, with the tools that it lists."""
    (pair,) = [{"key": key, "value": {"stringValue": value}} for key, value in offered(*names).items()]
    return {**recorded, "attributes": [*recorded["attributes"], pair]}


def answered(number: int, parent: int | None = None, **more: Any) -> Plain:
    """Return a model that receives an answer to `CALL`."""
    history = messages(USER, asking(**CALL), {"role": "tool", "tool_call_id": "c1", "content": "No."})
    return chat(number, parent, **{"gen_ai.input.messages": history, **more})


def test_an_agent_lists_the_tools_of_its_models() -> None:
    """So an answer to a call of another name is not an output."""
    run = run_of(spans(with_offer(agent(1), "mul"), chat(2, 1, CALL), answered(3, 1)))

    (call,) = run.calls
    assert call.execution is not None
    assert (call.execution.status.value, call.execution.model_output) == ("unknown_tool", "No.")
    assert [spec.name for spec in run.available_tools or []] == ["mul"]


def test_tool_may_come_from_a_model_without_a_tool_list() -> None:
    """One agent's list does not limit another agent."""
    run = run_of(spans(with_offer(agent(1), "mul"), chat(2, 1), agent(3), chat(4, 3, CALL), answered(5, 3)))

    (call,) = run.calls
    assert call.execution is not None
    assert (call.execution.status.value, call.output) == ("ok", "No.")


def test_tools_listed_by_an_agent_do_not_apply_to_nested_agents() -> None:
    """Agents inside its tools have their own tools."""
    helper = [tool(3, 1, "mul"), agent(4, 3, "helper"), chat(5, 4, CALL), answered(6, 4)]
    (outer,) = called(with_offer(agent(1), "mul"), chat(2, 1, {"id": "c0", "name": "mul"}), *helper)

    assert outer.execution is not None
    (call,) = outer.execution.children
    assert call.execution is not None
    assert (call.execution.status.value, call.output) == ("ok", "No.")


def test_pydantic_ai_has_tools_by_which_its_models_answer() -> None:
    """They are called like other tools and have their own list."""
    attributes = {
        "model_request_parameters": json.dumps({"function_tools": [{"name": "mul"}], "output_tools": [{"name": "add"}]})
    }
    run = run_of(spans(agent(1), chat(2, 1, CALL, **attributes), answered(3, 1, **attributes)))

    assert [call.execution.status.value for call in run.calls if call.execution] == ["ok"]
    assert [spec.name for spec in run.available_tools or []] == ["mul", "add"]


def test_a_handoff_need_not_be_listed() -> None:
    """Frameworks add it for themselves."""
    recorded = spans(with_offer(agent(1), "mul"), chat(2, 1, CALL), answered(3, 1))
    (run,) = read_traces(recorded, handoff_names=["add"]).runs

    assert [call.execution.status.value for call in run.calls if call.execution] == ["ok"]


def test_a_tool_that_the_provider_runs_need_not_be_listed() -> None:
    """Nor one of a server that it asks."""
    prompt = messages({"role": "assistant", "parts": [{**CALL, "type": "mcp_tool_use"}]})
    history = messages(USER, {"role": "tool", "tool_call_id": "c1", "content": "3"})
    model = with_offer(chat(2, 1, **{"gen_ai.output.messages": prompt}), "mul")
    after = with_offer(chat(3, 1, **{"gen_ai.input.messages": history}), "mul")

    (call,) = called(agent(1), model, after)

    assert call.execution is not None
    assert (call.execution.status.value, call.output) == ("ok", "3")


@pytest.mark.parametrize(
    "listed",
    [
        {"gen_ai.tool.definitions": messages({"type": "function", "name": "mul"}, {"type": "mcp"})},
        {
            "llm.tools.0.tool.json_schema": '{"type": "function", "function": {"name": "mul"}}',
            "llm.tools.1.tool.json_schema": '{"type": "mcp", "server_label": "x"}',
        },
        {
            "gcp.vertex.agent.llm_request": json.dumps(
                {"config": {"tools": [{"function_declarations": [{"name": "mul"}]}, {"google_search": {}}]}}
            )
        },
    ],
    ids=["definitions", "openinference", "adk"],
)
def test_unlisted_toolset_may_hold_any_tool(listed: Plain) -> None:
    """The tools of a server are not named."""
    (call,) = called(agent(1), chat(2, 1, CALL, **listed), answered(3, 1, **listed))

    assert call.execution is not None
    assert (call.execution.status.value, call.output) == ("ok", "No.")


def test_tool_that_ran_was_offered() -> None:
    """Whatever the list contains."""
    ran = tool(4, 1, **{"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "3"})
    (call,) = called(with_offer(agent(1), "mul"), chat(2, 1, CALL), ran, answered(5, 1))

    assert call.execution is not None
    assert (call.execution.status.value, call.output) == ("ok", "3")


# Ids and answers


def test_the_text_unknown_is_not_an_id() -> None:
    """Agent Framework writes it if a tool was called without an id."""
    (call,) = called(agent(1), tool(2, 1, **{"gen_ai.tool.call.id": "unknown"}))

    assert call.id is None


def test_answers_without_ids_belong_to_as_many_calls_in_their_order() -> None:
    """Those of a history to the calls before the model that was given it, and not to what that model asks for."""
    no_ids = [{key: value for key, value in CALL.items() if key != "id"} for _ in range(3)]
    answers = [{"role": "tool", "content": text} for text in ("one", "two")]
    history = {"gen_ai.input.messages": messages(USER, *answers)}

    calls = called(agent(1), chat(2, 1, no_ids[0], {**no_ids[1], "name": "mul"}), chat(3, 1, no_ids[2], **history))

    assert [call.output for call in calls] == ["one", "two", None]
    assert [call.execution.status.value for call in calls if call.execution] == ["ok", "ok", "not_executed"]


def test_the_first_answer_without_an_id_stays() -> None:
    """A later history may have it shortened."""
    call = {key: value for key, value in CALL.items() if key != "id"}
    histories = [{"gen_ai.input.messages": messages(USER, {"role": "tool", "content": text})} for text in ("one", "o")]

    (recorded,) = called(agent(1), chat(2, 1, call), chat(3, 1, **histories[0]), chat(4, 1, **histories[1]))

    assert recorded.output == "one"


def test_failed_tool_has_no_output_to_capture() -> None:
    """An empty answer does not make it uncaptured either."""
    failed = tool(3, 1, **{"gen_ai.tool.call.id": "c1", "error.type": "ValueError"})
    history = {"gen_ai.input.messages": messages(USER, asking(**CALL), {"role": "tool", "tool_call_id": "c1"})}

    (call,) = called(agent(1), chat(2, 1, CALL), failed, chat(4, 1, **history))

    assert call.execution is not None
    assert (call.execution.status.value, call.execution.not_captured) == ("error", [])


def test_an_answer_that_says_no_more_than_that_it_failed_hides_no_output() -> None:
    """There is none."""
    history = messages(USER, asking(**CALL), {"role": "tool", "tool_call_id": "c1", "status": "error"})

    (call,) = called(chat(1, None, CALL), chat(2, **{"gen_ai.input.messages": history}))

    assert call.execution is not None
    assert (call.execution.status.value, call.execution.not_captured) == ("error", [])


def test_equal_calls_before_and_after_an_agent_are_two() -> None:
    """What came out of it begins anew only where it begins with the user's words."""
    prompt = messages(USER, asking(name="add", arguments={}), {"role": "tool", "name": "add", "content": "3"})
    reply = messages(asking(name="add", arguments={}))
    around = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": prompt, "gen_ai.output.messages": reply}

    assert len(called(span(1, **around))) == 2
    again = json.dumps([*json.loads(prompt), *json.loads(reply)])
    assert len(called(span(1, **{**around, "gen_ai.output.messages": again}))) == 2


# MLflow


def mlflow(kind: str, **more: Any) -> Plain:
    """A span of MLflow, whose values are all written as JSON."""
    return span(1, **{key: json.dumps(value) for key, value in {"mlflow.spanType": kind, **more}.items()})


@pytest.mark.parametrize("place", ["trace_metadata", "request_metadata"])
def test_session_of_an_mlflow_trace_is_outside_its_spans(place: str) -> None:
    """The older form stores it elsewhere; spans alone have none."""
    listed = [mlflow("TOOL", **{"mlflow.spanInputs": {"a": 1}})]
    exported = {"info": {place: {"mlflow.trace.session": "s-1"}}, "data": {"spans": listed}}

    assert [run_of(exported).conversation_id, run_of({"data": {"spans": listed}}).conversation_id] == ["s-1", None]


@pytest.mark.parametrize("result", [3, "3", "three", None, {"a": [1]}])
def test_values_of_mlflow_are_parsed_from_json(result: object) -> None:
    """A number is a number, and a text that looks like one is a text."""
    (call,) = called(mlflow("TOOL", **{"mlflow.spanInputs": {"a": 1}, "mlflow.spanOutputs": result}))

    assert (call.name, call.input_parameters, call.output) == ("span", {"a": 1}, result)


def test_values_of_mlflow_that_are_not_json_stay_unchanged() -> None:
    """Other tools may add attributes to its spans."""
    recorded = span(1, **{"mlflow.spanType": '"TOOL"', "gen_ai.tool.name": "add", "session.id": "s 1"})

    run = run_of(spans(recorded))

    assert (run.calls[0].name, run.conversation_id) == ("add", "s 1")


def test_texts_of_other_spans_are_not_parsed_as_json() -> None:
    """A result of `"3"` is a text if the writer does not use JSON."""
    (call,) = called(tool(1, **{"gen_ai.tool.call.result": "3"}))

    assert call.output == "3"


# Haystack


def test_a_tool_of_haystack_that_failed_without_content_failed() -> None:
    """Why is not known then."""
    recorded = span(1, name="haystack.agent.step.tool", **{"haystack.tool.name": "add"})
    failed = {"key": "haystack.tool.error", "value": {"boolValue": True}}
    (call,) = called({**recorded, "attributes": [*recorded["attributes"], failed]})

    assert call.execution is not None
    assert (call.execution.status.value, call.execution.error) == ("error", "failed")
    assert call.execution.not_captured == ["input_parameters"]


def test_an_agent_of_haystack_is_one() -> None:
    """Its name is that of its span, and its input is that of its models, whatever content was recorded."""
    attributes = {"haystack.agent.input": json.dumps({"messages": [USER], "streaming_callback": None})}
    attributes |= {"haystack.agent.output": json.dumps({"messages": [{"role": "assistant", "content": "Done."}]})}
    ran = span(2, 1, name="haystack.agent.step.tool", **{"haystack.tool.name": "add"})

    run = run_of(spans(span(1, name="haystack.agent.run", **attributes), ran))

    assert (run.input, run.actual_output) == ("Go.", "Done.")
    assert [call.execution.agent for call in run.calls if call.execution] == ["haystack.agent.run"]


def test_result_of_haystack_names_its_call_and_its_failure() -> None:
    """It is matched by its origin call, in any order."""
    second: Plain = {**CALL, "id": "c2"}
    parts = [
        {"tool_call_result": {"result": text, "origin": call, "error": failed}}
        for text, call, failed in (
            ("no", second, True),
            ("3", CALL, False),
        )
    ]
    answers = [{"role": "tool", "content": [part]} for part in parts]

    calls = called(chat(1, None, CALL, second), chat(2, **{"gen_ai.input.messages": messages(USER, *answers)}))

    results = [(call.id, call.execution.status.value, call.output) for call in calls if call.execution]
    assert results == [("c1", "ok", "3"), ("c2", "error", None)]


# Agents that have their own words for tools


def test_the_tool_by_which_smolagents_answers_is_not_a_call() -> None:
    """It is neither called nor offered; its argument is what the model said."""
    lists: Plain = {"smolagents.tools_names": "('add', 'final_answer')", "openinference.span.kind": "AGENT"}
    answer: Plain = {"id": "c2", "name": "final_answer", "arguments": {"answer": "3"}}
    run = run_of(
        spans(
            span(1, name="calculator.run", **lists),
            with_offer(chat(2, 1, CALL), "add", "final_answer"),
            tool(3, 1, **{"gen_ai.tool.call.result": "3"}),
            with_offer(chat(4, 1, answer), "add", "final_answer"),
            tool(5, 1, "final_answer", **{"gen_ai.tool.call.result": "3"}),
        )
    )

    assert [(call.name, call.output, call.execution and call.execution.agent) for call in run.calls] == [
        ("add", "3", "calculator")
    ]
    assert [one.name for one in run.available_tools or ()] == ["add"]
    assert (run.actual_output, run.status.value, run.warnings) == ("3", "ok", [])


@pytest.mark.parametrize("definitions", ['["add"]', '[{"function": "add"}]', "[3, null]"])
def test_any_definition_of_a_tool_may_stand_beside_it(definitions: str) -> None:
    """What is not a definition is left out, and its call stays."""
    lists: Plain = {"smolagents.tools_names": "()", "openinference.span.kind": "AGENT"}
    model = chat(2, 1, CALL, **{"gen_ai.tool.definitions": definitions})

    assert [call.name for call in called(span(1, name="calculator.run", **lists), model)] == ["add"]


def test_other_agents_may_have_a_tool_of_that_name() -> None:
    """It is a call like any other."""
    assert [call.name for call in called(agent(1), chat(2, 1, {"id": "c1", "name": "final_answer"}))] == [
        "final_answer"
    ]


def test_strands_lists_the_names_of_tools() -> None:
    """Its spans of agents have no schemas."""
    names: Plain = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.tools": '["add", "mul"]'}

    run = run_of(spans(span(1, **names), chat(2, 1, CALL)))

    assert [one.name for one in run.available_tools or ()] == ["add", "mul"]


# Words that a framework puts around answers


@pytest.mark.parametrize(
    ("text", "status", "output", "error_text"),
    [
        ("Observation:\n3\n4", "ok", "3\n4", None),
        ("Error:\nUnknown tool add.\nNow let's retry", "error", None, "Unknown tool add.\nNow let's retry"),
        ("Call id: c1\nError:\nno good", "error", None, "no good"),
        ("Errors:\nnone", "ok", "Errors:\nnone", None),
    ],
)
def test_an_answer_is_freed_of_the_words_that_smolagents_puts_before_it(
    text: str, status: str, output: str | None, error_text: str | None
) -> None:
    """They report whether a step failed and are not part of the tool's output."""
    answered: Plain = {"role": "tool-response", "content": [{"type": "text", "text": text}]}
    later = chat(2, **{"gen_ai.input.messages": messages(USER, asking(**CALL), answered)})

    (call,) = called(chat(1, None, CALL), later)

    assert call.execution is not None
    assert (call.execution.status.value, call.output, call.execution.error) == (status, output, error_text)


def test_other_tools_may_return_such_words() -> None:
    """Only smolagents calls an answer a `tool-response`."""
    answered: Plain = {"role": "tool", "tool_call_id": "c1", "content": "Error:\nno good"}
    later = chat(2, **{"gen_ai.input.messages": messages(USER, asking(**CALL), answered)})

    (call,) = called(chat(1, None, CALL), later)

    assert call.output == "Error:\nno good"


def test_such_words_may_say_which_call_is_answered() -> None:
    """Of two that wait."""
    other: Plain = {"id": "c2", "name": "mul", "arguments": {}}
    prompt: Plain = {"role": "assistant", "parts": [{"type": "tool_call", **call} for call in (CALL, other)]}
    answered: Plain = {"role": "tool-response", "content": "Call id: c2\nError:\nno good"}
    later = chat(2, **{"gen_ai.input.messages": messages(USER, prompt, answered)})

    statuses = [call.execution.status.value for call in called(chat(1, None, CALL, other), later) if call.execution]

    assert statuses == ["not_executed", "error"]


def test_what_a_span_of_openai_agents_leaves_empty_is_in_its_response() -> None:
    """Tools, tokens and the model."""
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    tools = [{"type": "function", "name": "add", "parameters": {}}]
    usage = {"input_tokens": 1, "output_tokens": 2}
    response = {"object": "response", "model": "m", "tools": tools, "usage": usage, "output": [text]}
    data = {"type": "response", "input": "q", "response": response, "tools": [], "usage": {}, "model": ""}
    times = {"started_at": "2025-01-01T00:00:01+00:00", "ended_at": "2025-01-01T00:00:02+00:00"}
    span = {"object": "trace.span", "id": "s", "trace_id": "t", "parent_id": None, **times, "span_data": data}
    (run,) = read_traces([{"object": "trace", "id": "t", "workflow_name": "w"}, span]).runs

    assert [tool.name for tool in run.available_tools] == ["add"]
    assert (run.usage, run.models) == (usage, ["m"])
