"""Messages stored field by field in attributes, and the whole messages next to them with more content."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgrade.calls import ToolCall
from toolgrade.cases import Run
from toolgrade.errors import InvalidDataError
from toolgrade.formats import read_traces

AT = 1_772_366_400


def span(number: int, kind: str, name: str = "chat", **attributes: Any) -> dict[str, Any]:
    """A span of OpenInference as Phoenix has it; attributes have `__` in the place of dots."""
    fields = {key.replace("__", "."): value for key, value in attributes.items()}
    return {
        "name": name,
        "span_kind": kind,
        "context": {"trace_id": f"{number // 10 + 1:032x}", "span_id": f"{number + 1:016x}"},
        "parent_id": None if number % 10 == 0 else f"{number // 10 * 10 + 1:016x}",
        "start_time": AT * 1000 + number,
        "end_time": AT * 1000 + number + 1,
        "attributes": {"openinference.span.kind": kind, "session.id": "s", **fields},
    }


def call_message(name: str, arguments: dict[str, Any] | None = None, call_id: str | None = None) -> dict[str, Any]:
    """Return the attributes of a message that requests one call."""
    call: dict[str, Any] = {"tool_call": {"function": {"name": name}}}
    if arguments is not None:
        call["tool_call"]["function"]["arguments"] = json.dumps(arguments)
    if call_id is not None:
        call["tool_call"]["id"] = call_id
    return {"message": {"role": "assistant", "tool_calls": [call]}}


def google(*calls: tuple[str, dict[str, Any], str | None]) -> str:
    """Return Google's response as JSON text."""
    parts = [{"function_call": {"id": one, "name": name, "args": arguments}} for name, arguments, one in calls]
    return json.dumps({"candidates": [{"content": {"role": "model", "parts": parts}}]})


def runs(*spans: dict[str, Any]) -> list[Run]:
    """The runs of these spans."""
    return read_traces(list(spans)).runs


def calls(*spans: dict[str, Any]) -> list[ToolCall]:
    """The calls of these spans, which are one run."""
    (run,) = runs(*spans)
    return run.calls


def summary(call: ToolCall) -> tuple[str, str | None, object]:
    """A call in short."""
    assert call.execution is not None
    return call.name, call.id, "?" if "input_parameters" in call.execution.not_captured else call.input_parameters


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        (google(("now", {}, "c1")), [("now", "c1", {})]),
        (google(("later", {}, "c1")), [("now", None, "?")]),
        (google(("now", {}, "c1"), ("add", {"a": 1}, "c2")), [("now", "c1", {}), ("add", "c2", {"a": 1})]),
        ("no JSON", [("now", None, "?")]),
    ],
)
def test_a_copy_with_more_counts(whole: str, expected: list[tuple[str, str | None, object]]) -> None:
    """If it has all calls of the attributes."""
    model_span = span(0, "LLM", llm__output_messages=[call_message("now")], output__value=whole)

    assert [summary(call) for call in calls(model_span)] == expected


def test_arguments_that_differ_are_of_another_call() -> None:
    """Its id is not used for the call in the attributes."""
    model_span = span(
        0, "LLM", llm__output_messages=[call_message("add", {"a": 1})], output__value=google(("add", {"a": 2}, "c9"))
    )

    assert [summary(call) for call in calls(model_span)] == [("add", None, {"a": 1})]


def test_an_id_that_is_left_out_is_that_of_the_same_call() -> None:
    """OpenInference leaves out those of Google's calls where the model answers, and keeps them in its history."""
    model_span = span(
        0, "LLM", llm__output_messages=[call_message("add", {"a": 1})], output__value=google(("add", {"a": 1}, "c1"))
    )

    assert [summary(call) for call in calls(model_span)] == [("add", "c1", {"a": 1})]


def test_calls_missing_in_attributes_count_as_well() -> None:
    """LangChain's message stores one separately; a different message is not used."""

    def message(valid: str) -> str:
        invalid_call = {"type": "invalid_tool_call", "id": "c2", "name": "mul", "args": "{", "error": None}
        fields = {"type": "ai", "content": "", "tool_calls": [{"name": valid, "args": {}, "id": "c1"}]}
        return json.dumps({"generations": [[{"message": {**fields, "invalid_tool_calls": [invalid_call]}}]]})

    spelled = [call_message("add", {}, "c1")]
    same = span(0, "LLM", llm__output_messages=spelled, output__value=message("add"))
    other = span(0, "LLM", llm__output_messages=spelled, output__value=message("sub"))

    assert [(call.name, call.id) for call in calls(same)] == [("add", "c1"), ("mul", "c2")]
    assert [(call.name, call.id) for call in calls(other)] == [("add", "c1")]


@pytest.mark.parametrize("stop", [None, "tool_calls", "stop"])
@pytest.mark.parametrize("copies", [("gen_ai.output.messages", "output.value"), ("output.value", "mlflow.spanOutputs")])
def test_the_more_complete_copy_of_a_reply_counts(copies: tuple[str, str], stop: str | None) -> None:
    """Whatever stands first, unless the model stopped for another reason than tools."""
    text = json.dumps([{"role": "assistant", "content": "Let me add."}])
    model_span = span(0, "LLM")
    model_span["attributes"] |= {copies[0]: text, copies[1]: google(("add", {"a": 1}, "c1")), "llm.finish_reason": stop}

    (run,) = runs(model_span)

    assert [summary(call) for call in run.calls] == ([] if stop == "stop" else [("add", "c1", {"a": 1})])


@pytest.mark.parametrize("has_request", [True, False])
def test_a_reply_of_provider_run_tools_is_read_from_its_response(has_request: bool) -> None:
    """Indexed attributes have the type of such an item as a name, without arguments and result, or not even that."""
    search = {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"type": "search", "query": "q"}}
    lookup = {
        "type": "mcp_call",
        "id": "m1",
        "name": "look",
        "arguments": '{"a": 1}',
        "output": "42",
        "server_label": "s",
    }
    spelled: list[dict[str, Any]] = [{"message.role": "assistant", "message.content": "Here it is."}]
    if has_request:
        call = {"tool_call.id": "w1", "tool_call.function.name": "web_search_call"}
        spelled.insert(
            0, {"message.role": "assistant", **{f"message.tool_calls.0.{key}": value for key, value in call.items()}}
        )
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Here it is."}]}
    response = json.dumps({"object": "response", "output": [search, lookup, text] if has_request else [lookup, text]})

    recorded = calls(span(0, "LLM", llm__output_messages=spelled, output__value=response))

    rows = [(call.name, call.id, call.output) for call in recorded]
    assert rows == [*([("web_search", "w1", None)] if has_request else []), ("look", "m1", "42")]


@pytest.mark.parametrize(
    ("name", "named", "outputs"),
    [("add", True, ["1", "2"]), ("add", False, ["1", "2"]), ("sub", True, ["12", None])],
)
def test_answers_without_ids_are_those_of_the_whole_messages(name: str, named: bool, outputs: list[str | None]) -> None:
    """If the same calls are requested there."""
    parts = [{"type": "tool_result", "tool_use_id": f"c{n}" if named else None, "content": str(n)} for n in (1, 2)]
    uses = [{"type": "tool_use", "id": f"c{n}", "name": name, "input": {"n": n}} for n in (1, 2)]
    whole = {"messages": [{"role": "assistant", "content": uses}, {"role": "user", "content": parts}]}
    both = [{"tool_call": {"id": f"c{n}", "function": {"name": "add", "arguments": f'{{"n": {n}}}'}}} for n in (1, 2)]
    answer = [{"message_content": {"type": "text", "text": str(n)}} for n in (1, 2)]
    history = [
        {"message": {"role": "assistant", "tool_calls": both}},
        {"message": {"role": "tool", "contents": answer}},
    ]
    model_span = span(0, "LLM", llm__input_messages=history, input__value=json.dumps(whole), output__value="Done.")

    result = calls(model_span)

    assert [call.id for call in result] == ["c1", "c2"]
    if outputs == ["1", "2"]:
        assert [call.output for call in result] == outputs
    else:
        assert [call.output for call in result] != ["1", "2"]


def test_hidden_text_is_neither_text_nor_output() -> None:
    """OpenInference can hide only the message texts; the placeholder is not content."""
    hidden = "__REDACTED__"
    history = [
        {"message": {"role": "user", "content": hidden}},
        call_message("add", {"a": 1}, "c1"),
        {"message": {"role": "tool", "tool_call_id": "c1", "content": hidden}},
    ]
    parts = [{"message_content": {"type": "text", "text": hidden}}]
    answer = {"message": {"role": "assistant", "contents": parts}}

    (run,) = runs(span(0, "LLM", llm__input_messages=history, llm__output_messages=[answer]))

    (call,) = run.calls
    assert (run.input, run.actual_output) == (None, None)
    assert (summary(call), call.output) == (("add", "c1", {"a": 1}), None)
    assert call.execution is not None
    assert call.execution.status.value == "ok"
    assert call.execution.not_captured == ["output"]


def test_a_failure_whose_text_was_hidden_lacks_no_output() -> None:
    """A call that failed has none."""
    result = {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": "__REDACTED__"}
    use = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
    whole = {"messages": [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]}
    answer = {"message": {"role": "tool", "tool_call_id": "c1", "content": "__REDACTED__"}}
    history = [call_message("add", {"a": 1}, "c1"), answer]

    (call,) = calls(span(0, "LLM", llm__input_messages=history, input__value=json.dumps(whole), output__value="Done."))

    assert call.execution is not None
    assert (call.execution.status.value, call.execution.not_captured) == ("error", [])


@pytest.mark.parametrize(("model", "is_output"), [("gpt", False), ("other", True)])
def test_model_name_is_not_an_output(model: str, is_output: bool) -> None:
    """Phoenix writes it as output for spans whose messages it cannot read."""
    output = json.dumps({"id": "r1", "model": "gpt"})
    asking = {"gen_ai.response.id": "r1", "gen_ai.response.model": model, "input.value": "Go."}
    model_span = span(0, "LLM", output__value=output)
    model_span["attributes"] |= asking

    (run,) = runs(model_span)

    assert run.actual_output == (output if is_output else None)
    assert (run.warnings == []) == is_output


def test_creating_an_agent_is_not_running_it() -> None:
    """Even if Phoenix marks the span as an agent."""
    agent_span = span(0, "AGENT", "create_agent boss", gen_ai__operation__name="create_agent")

    with pytest.raises(InvalidDataError, match="shows no model, agent or tool at work"):
        runs(agent_span)


@pytest.mark.parametrize("raw", [{"_raw": '{"a":'}, json.dumps({"_raw": '{"a":'})])
def test_text_wrapped_by_a_tracer_is_the_models_text(raw: object) -> None:
    """OpenLLMetry wraps invalid JSON in an object, which may itself be JSON text."""
    call = {"tool_call": {"id": "c1", "function": {"name": "add", "arguments": raw}}}
    spelled = {"message": {"role": "assistant", "tool_calls": [call]}}
    message = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": raw}}]}
    one = span(0, "LLM", output__value=json.dumps({"choices": [{"message": message}]}))
    other = span(0, "LLM", llm__output_messages=[spelled])

    for model_span in (one, other) if isinstance(raw, str) else (one,):
        (result,) = calls(model_span)
        assert result.execution is not None
        assert (result.execution.status.value, result.execution.requested_parameters) == ("invalid_arguments", '{"a":')


def test_hosted_calls_are_recognized_by_the_whole_message() -> None:
    """OpenInference stores calls of Anthropic's own tools like others, with results as texts."""
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "T"}]}
    echoed = {
        "type": "mcp_tool_result",
        "tool_use_id": "m1",
        "is_error": False,
        "content": [{"type": "text", "text": "x"}],
    }
    parts = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        result,
        {"type": "mcp_tool_use", "id": "m1", "name": "echo", "server_name": "srv", "input": {}},
        echoed,
    ]
    use = {"message_content": {"type": "tool_use"}, "tool_call": {"id": "s1", "function": {"name": "web_search"}}}
    other = {"message_content": {"type": "tool_use"}, "tool_call": {"id": "m1", "function": {"name": "echo"}}}
    results = [{"message_content": {"type": part["type"], "text": json.dumps(part)}} for part in (result, echoed)]
    spelled = {"message": {"role": "assistant", "contents": [use, results[0], other, results[1]]}}
    whole = json.dumps({"role": "assistant", "type": "message", "content": parts})

    run = calls(span(0, "LLM", llm__output_messages=[spelled], output__value=whole))

    assert [(call.id, call.type, call.output) for call in run] == [
        ("s1", "hosted", [{"title": "T"}]),
        ("m1", "mcp", "x"),
    ]
    assert [call.execution and call.execution.status.value for call in run] == ["ok", "ok"]


@pytest.mark.parametrize("has_whole", [True, False])
def test_a_search_for_tools_is_no_call(*, has_whole: bool) -> None:
    """Neither in the whole message nor spelled out, where nothing says that the provider ran it."""
    result = {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {"tool_references": []}}
    search = {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_regex", "input": {"pattern": "a"}}
    parts = [search, result, {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}]
    names = {"s1": "tool_search_tool_regex", "c1": "add"}
    uses = [
        {"message_content": {"type": "tool_use"}, "tool_call": {"id": key, "function": {"name": name}}}
        for key, name in names.items()
    ]
    block = {"message_content": {"type": result["type"], "text": json.dumps(result)}}
    spelled = {"message": {"role": "assistant", "contents": [uses[0], block, uses[1]]}}
    whole = {"output__value": json.dumps({"role": "assistant", "type": "message", "content": parts})}

    (run,) = runs(span(0, "LLM", llm__output_messages=[spelled], **(whole if has_whole else {})))

    assert ([call.id for call in run.calls], run.warnings) == (["c1"], [])


def test_an_answer_without_an_id_does_not_fail_with_another() -> None:
    """A failure that names no call says nothing of answers that name none either."""
    whole = {"messages": [{"role": "tool", "content": "x", "status": "error"}], "is_error": True}
    history = [call_message("add", {}, None), {"message": {"role": "tool", "name": "add", "content": "3"}}]
    model_span = span(0, "LLM", llm__input_messages=history, input__value=json.dumps(whole), output__value="Done.")

    (call,) = calls(model_span)

    assert call.execution is not None
    assert (call.execution.status.value, call.output) == ("ok", "3")


def test_call_of_an_earlier_trace_is_matched_by_id() -> None:
    """Before an equal call without an id in this trace."""
    once = call_message("add", {"a": 1}, "c1")
    answer = {"message": {"role": "tool", "tool_call_id": "c1", "content": "1"}}
    spans = [
        span(0, "CHAIN", "boss"),
        span(1, "LLM", llm__output_messages=[call_message("add", {"a": 1})]),
        span(2, "LLM", llm__input_messages=[once, answer], llm__output_messages=[{"message": {"content": "One."}}]),
        span(10, "CHAIN", "boss"),
        span(11, "LLM", llm__input_messages=[once, answer], llm__output_messages=[call_message("add", {"a": 1})]),
        span(
            12,
            "LLM",
            llm__input_messages=[once, answer, call_message("add", {"a": 1}, "c2")],
            llm__output_messages=[{"message": {"content": "One again."}}],
        ),
    ]

    assert [[summary(call) for call in run.calls] for run in runs(*spans)] == [
        [("add", "c1", {"a": 1})],
        [("add", "c2", {"a": 1})],
    ]


@pytest.mark.parametrize(("reason", "doubted"), [("STOP", True), ("stop", False)])
def test_the_reason_why_googles_models_stop_says_nothing_of_tools(reason: str, doubted: bool) -> None:
    """It is the same for answers and calls; with hidden content, calls may be missing."""
    model_span = span(0, "LLM", input__value="__REDACTED__", output__value="__REDACTED__", llm__finish_reason=reason)

    (run,) = runs(model_span)

    assert [text.rpartition(": ")[2] for text in run.warnings] == (
        ["the reply of the model was not captured; calls in it may be missing"] if doubted else []
    )


def test_tools_of_amazon_bedrock_are_offered_with_their_schemas() -> None:
    """A tool is `toolSpec`, its schema `inputSchema.json`."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    spec = json.dumps({"toolSpec": {"name": "add", "description": "Add.", "inputSchema": {"json": schema}}})
    model_span = span(
        0, "LLM", llm__tools=[{"tool": {"json_schema": spec}}], llm__output_messages=[call_message("add", {}, "c1")]
    )

    (run,) = runs(model_span)

    (tool,) = run.available_tools or []
    assert (tool.name, tool.description, tool.input_schema) == ("add", "Add.", schema)


@pytest.mark.parametrize(
    ("name", "output"), [("add", {"result": 3}), ("sub", {"name": "sub", "response": {"result": 3}})]
)
def test_the_part_of_google_that_carries_a_result_is_not_the_result(name: str, output: object) -> None:
    """If it names the tool; a tool may return an object of these keys itself."""
    part = json.dumps({"name": name, "response": {"result": 3}})

    (call,) = calls(span(0, "TOOL", "add", tool__name="add", input__value="{}", output__value=part))

    assert call.output == output


@pytest.mark.parametrize("unit", [1_000, 1_000_000, 1_000_000_000])
def test_unit_of_times_is_detected_by_magnitude(unit: int) -> None:
    """Milliseconds, as data frames write them, microseconds and nanoseconds."""
    tool_span = {**span(0, "TOOL", "add", tool__name="add", input__value="{}"), "start_time": AT * unit}

    (call,) = calls({**tool_span, "end_time": AT * unit + unit // 4})

    assert call.execution is not None
    assert call.execution.started_at is not None
    assert (call.execution.started_at.timestamp(), call.execution.duration) == (AT, 0.25)


def test_positional_arguments_use_parameter_names_in_attributes() -> None:
    """Phoenix returns a tool's schema field by field."""
    fields = {"tool.parameters.type": "object", "tool.parameters.properties.a.type": "integer"}
    tool_span = span(0, "TOOL", "add", tool__name="add", input__value='{"args": [1], "kwargs": {"b": 2}}')
    tool_span["attributes"] |= {**fields, "tool.parameters.properties.b.type": "integer"}

    assert [summary(call) for call in calls(tool_span)] == [("add", None, {"a": 1, "b": 2})]


def test_empty_columns_are_ignored() -> None:
    """A data frame has every column for every span; a span without model columns is not a model span."""
    frame = {"context.span_id": "1", "context.trace_id": "2", "name": "step", "start_time": AT}

    with pytest.raises(InvalidDataError, match="shows no model, agent or tool at work"):
        runs({**frame, "attributes.gen_ai.output.messages": None, "attributes.input.value": "{}"})
