"""Traces emitted by real libraries with a scripted model: no call is lost or counted twice.

The files beside this one were written by running each library with tools that add numbers; `by` says which version.
What takes much room and says nothing of calls was cut out of them: descriptions of tools, counts of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolgrade.calls import ToolCall
from toolgrade.cases import Run
from toolgrade.formats.traces.read import Traces, read_trace_documents

FOLDER = Path(__file__).parent / "emitted"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

ToolRequest = tuple[str, dict[str, Any]]
ADD: ToolRequest = ("add", {"a": 1, "b": 2})
MUL: ToolRequest = ("mul", {"a": 3, "b": 4})
NOW: ToolRequest = ("now", {})
BOOM: ToolRequest = ("boom", {"x": 1})
HELP: ToolRequest = ("ask_helper", {"question": "1+2?"})
TRANSFER: ToolRequest = ("transfer_to_helper", {})
REFUND: ToolRequest = ("refund", {"order": 7})

SCENES: dict[str, tuple[list[ToolRequest], list[tuple[str, str | None]]]] = {
    "par": ([ADD, MUL], [("Go.", "Done.")]),
    "same": ([ADD, ADD], [("Go.", "Done.")]),
    "again": ([ADD, ADD], [("Go.", "Done.")]),
    "empty": ([NOW], [("Go.", "Noon.")]),
    "boom": ([BOOM], [("Go.", "It failed.")]),
    "turns": ([ADD, ADD], [("First.", "Three."), ("Second.", "Three again.")]),
    "nested": ([HELP, ADD], [("Go.", "It is 3.")]),
    "handoff": ([TRANSFER, ADD], [("Go.", "It is 3.")]),
    "transfer": ([("transfer_to_agent", {"agent_name": "helper"}), ADD], [("Go.", "It is 3.")]),
    "nocontent": ([ADD, NOW, ADD], [("Go.", "Done.")]),
    "stream": ([ADD, MUL], [("Go.", "Done.")]),
    "texttoo": ([ADD], [("Go.", "It is 3.")]),
    "badjson": ([("add", {})], [("Go.", "Sorry.")]),
    "unknown": ([("nosuch", {"q": 1})], [("Go.", None)]),
    "react": ([ADD, ("finish", {})], [("Go.", "It is 3.")]),
    "code": ([ADD], [("Go.", "It is 3.")]),
    "failing": ([ADD], [("Go.", None)]),
    "hosted": ([("web_search", {"type": "search", "query": "x"}), ("lookup", {"q": 1})], [("Go.", "Found.")]),
    "search": ([("web_search", {"query": "x"})], [("Go.", "Found.")]),
    "wait": ([ADD, REFUND], [("Refund 7.", "Refunded.")]),
    "approve": ([REFUND], [("Refund 7.", "Refunded.")]),
    "rejected": ([("pay", {"order": 7})], [("Pay 7.", "Paid.")]),
}
"""What the model asked for in each scene, in its order, and each turn's words: the user's and the model's."""

HIDDEN = {
    "openinference-openai-hidden",
    "otel-openai-hidden",
    "pydantic-ai-2-hidden",
    "langsmith-hidden",
    "otel-google-genai-hidden",
    "otel-botocore-hidden",
    "agent-framework-hidden",
    "semantic-kernel-lost",
}
"""Files of libraries that were configured to record no content."""

SILENT = {"autogen-silent", "openllmetry-crewai"}
"""Files with agent spans only: neither models nor tools are traced."""

LOST = {
    "openinference-openai-hidden",
    "openllmetry-langchain-dropped",
    "otel-google-genai-hidden",
    "semantic-kernel-lost",
    "haystack-dropped",
} | SILENT
"""Files without call details; at most they show that there were calls."""

NAMELESS = {"openinference-haystack", "openinference-dspy"}
"""Files of libraries that keep no ids of calls."""

NO_OUTPUT = {"openinference-haystack"}
"""Files that show that calls were answered, and not how."""

CHANGED: dict[str, tuple[str, str | None]] = {
    "openinference-smolagents": ("New task:\nGo.", None),
    "adk-failed": ("Go.", None),
    "openllmetry-agents-nested": ("Go.", None),
    "agents-responses-nested": ("", None),
    "openinference-langchain-and-openai-invalid": ("Go.", None),
    "openinference-langchain-unknown": ("Go.", "Sorry."),
    "openinference-bedrock-unknown": ("Go.", "Sorry."),
    "phoenix-otlpv1-boom": ("Go.", "It failed."),
    "agent-framework-unknown": ("Go.", "Sorry."),
    "openinference-agno": ("Go.", "Sorry."),
    "llama-index": ("Go.", "Sorry."),
    "openinference-smolagents-code": ("New task:\nGo.", "It is 3."),
    "agents-failing": ("", None),
}
"""The words in files whose library keeps others, or none."""


APART = {"openllmetry-anthropic-apart", "logfire-openai-stream-apart", "logfire-anthropic-stream-apart"}
"""Files in which each model request is its own trace and appears in another trace as well."""

REQUESTS = {**dict.fromkeys(APART, 2), "litellm-apart": 3}
"""Number of model requests in files in which each request is its own trace."""

NO_IDS = {"otel-google-genai-automatic", "agents-failing", "openinference-smolagents-code"}
"""Files that name no ids of calls: only the spans of the tools were kept, or show them."""

BY_CODE = {"openinference-dspy", "openinference-smolagents-code"}
"""Files in which only the tools show what was called: the models write their requests as text or as code."""


WORDY = {"openinference-crewai", "openinference-dspy"}
"""Files of libraries that put the words of user and model into longer texts."""


def content(name: str) -> dict[str, Any]:
    """Return the content of one file."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def traces_in(name: str) -> Traces:
    """What one of the files shows."""
    lines = enumerate(content(name)["documents"], start=1)
    return read_trace_documents([(f"line {number}", document) for number, document in lines])


def every(calls: list[ToolCall]) -> Iterator[ToolCall]:
    """Calls, and those inside of them."""
    for call in calls:
        yield call
        yield from every(call.execution.children if call.execution else [])


def called(runs: list[Run]) -> list[ToolCall]:
    """The calls of runs, hand-offs too, and those inside of them."""
    return [call for run in runs for call in every(run.calls)]


def warnings_of(name: str) -> str:
    """All that is warned of."""
    result = traces_in(name)
    return "\n".join([*result.warnings, *(text for run in result.runs for text in run.warnings)])


@pytest.mark.parametrize("name", NAMES)
def test_calls_are_those_the_model_requested(name: str) -> None:
    """Each once, in the model's order; arguments without content are not captured, never `{}`."""
    requests, _ = SCENES[content(name)["scene"]]

    calls = called(traces_in(name).runs)

    if name in LOST:
        assert calls == []
        return
    # Semantic Kernel puts the name of the plugin in front.
    assert [call.name.removeprefix("m-") for call in calls] == [tool for tool, _ in requests]
    for call, (_, arguments) in zip(calls, requests, strict=True):
        assert call.execution is not None
        if name in HIDDEN:
            assert "input_parameters" in call.execution.not_captured
            assert "input_parameters" not in call.model_fields_set
        else:
            assert call.input_parameters == arguments
            if call.name != "web_search":  # OpenAI keeps what was found to itself
                assert call.execution.not_captured == (["output"] if name in NO_OUTPUT else [])
        assert call.execution.origin.value == ("code" if name in BY_CODE else "model")


@pytest.mark.parametrize(
    "name", sorted(set(NAMES) - HIDDEN - LOST - NO_IDS - NAMELESS - {"agents-responses-nested", "litellm-apart"})
)
def test_the_ids_are_those_that_answers_name(name: str) -> None:
    """Even if a tracer stores output item ids instead, or has the ids in only one of two copies."""
    calls = called(traces_in(name).runs)

    assert [call.id for call in calls] == [f"call_{number}" for number in range(1, len(calls) + 1)]


@pytest.mark.parametrize("name", sorted(set(NAMES) - HIDDEN - LOST))
def test_each_turn_is_a_run_with_its_texts(name: str) -> None:
    """Input and last answer, without the text that the tracer added."""
    _, turns = SCENES[content(name)["scene"]]

    runs = traces_in(name).runs

    expected = [CHANGED[name]] if name in CHANGED else turns
    expected = [("Go.", None)] * (REQUESTS.get(name, 1) - 1) + expected
    result = [(run.input or "", run.actual_output) for run in runs]
    if name in WORDY:
        for (run_input, output), (user, model) in zip(result, turns, strict=True):
            assert user in run_input
            assert str(model) in str(output)
    else:
        assert result == expected


@pytest.mark.parametrize("name", sorted(set(NAMES) - HIDDEN - LOST))
def test_complete_traces_have_no_warnings(name: str) -> None:
    """Only invalid arguments and omitted traces give warnings, since a warning makes a score doubtful."""
    doubts = warnings_of(name)

    if content(name)["scene"] == "badjson":
        assert "the arguments of 'add' are not a JSON object" in doubts
        assert ("of the traces repeat" in doubts) == (name == "openinference-langchain-and-openai-invalid")
    elif name == "openinference-langchain-and-openai":
        assert "4 of the traces repeat requests to models of other traces; left out" in doubts
    elif name == "openinference-langchain-search":  # Anthropic's client has spans of its own, without content
        assert doubts.endswith("1 of the traces repeat requests to models of other traces; left out")
    elif name in APART:
        assert doubts.endswith("2 of the traces repeat requests to models of other traces; left out")
        assert "\n" not in doubts
    else:
        assert doubts == ""


@pytest.mark.parametrize("name", sorted(LOST))
def test_calls_without_content_are_reported(name: str) -> None:
    """The trace shows only that the model stopped for tool calls."""
    doubts = warnings_of(name)

    if name in SILENT:
        assert "the agent has no spans of models or tools; calls may be missing" in doubts
    elif name == "otel-google-genai-hidden":  # Google's models stop as if they had answered
        assert "the reply of the model was not captured; calls in it may be missing" in doubts
    else:
        assert "the model stopped to call tools, but the trace does not show the calls" in doubts


def test_hand_off_is_not_a_call_by_code() -> None:
    """OpenInference marks a hand-off span as a tool span; it is the hand-off that the model requested."""
    for name in ("openinference-agents-handoff", "logfire-agents-handoff"):
        (run,) = traces_in(name).runs

        (handoff,) = run.handoffs
        assert (handoff.from_agent, handoff.to_agent) == ("boss", "helper")
        assert [call.name for call in run.tools_called] == ["add"]
        assert run.conversation_id is None


def test_transfers_of_googles_kit_are_handoffs() -> None:
    """As in its sessions: the call of `transfer_to_agent` is none of the called tools."""
    (run,) = traces_in("adk-1-handoff").runs

    assert [call.name for call in run.tools_called] == ["add"]
    assert [handoff.from_agent for handoff in run.handoffs] == ["boss"]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if "nested" in name or name in ("pydantic-ai-5", "vercel-6", "autogen-and-openai", "openinference-crewai")
    ],
)
def test_calls_inside_of_a_tool_are_its_children(name: str) -> None:
    """An agent that another agent uses as a tool keeps its calls inside that call, if the tracer records it."""
    (run,) = traces_in(name).runs

    (helped, *rest) = run.calls
    assert helped.execution is not None
    inside = [call.name for call in helped.execution.children]
    assert [*inside, *(call.name for call in rest)] == ["add"]
    assert inside == ["add"] or name == "openllmetry-agents-nested"  # there, the agent is a sibling of the tool span


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("openinference-llama-index", 3),
        ("openinference-smolagents", 3),
        ("langfuse-observe", "3"),
        ("strands", "3"),
        ("langsmith-langchain", "3"),
        ("phoenix-spans-nested", "3"),
        ("phoenix-data-frame-again", "3"),
        ("openinference-anthropic", "3"),
        ("openinference-bedrock-invoke", "3"),
        ("openinference-bedrock-invoke-stream", "3"),
        ("openinference-google-genai-turns", "3"),
        ("openinference-adk", {"result": 3}),
        ("openinference-mcp", "3"),
        ("otel-google-genai-automatic", "3"),
        ("otel-google-genai-chat", {"result": 3}),
        ("otel-bedrock", "3"),
        ("openllmetry-llama-index", 3),
        ("openllmetry-llama-index-stream", 3),
        ("openllmetry-mcp", "3"),
        ("semantic-kernel", "3"),
        ("haystack", 3),
        ("mlflow-openai", 3),
        ("mlflow-langchain", "3"),
        ("autogen-and-openai", "3"),
        ("openinference-crewai", "3"),
    ],
)
def test_outputs_are_what_the_tools_returned(name: str, output: object) -> None:
    """Outputs are unwrapped from the framework's objects."""
    calls = called(traces_in(name).runs)

    assert calls[0].output == output


def test_a_tool_that_raised_failed() -> None:
    """With its exception; the id that is not known is none."""
    for name in (
        *("openinference-llama-index-boom", "adk-failed", "phoenix-otlpv1-boom", "logfire-agents-boom"),
        "mlflow-otlp",
    ):
        (call,) = called(traces_in(name).runs)

        assert call.execution is not None
        assert (call.execution.status.value, call.execution.error) == ("error", "ValueError: no good")


@pytest.mark.parametrize("name", ["otel-botocore-boom", "openllmetry-mcp-boom", "logfire-mcp-boom"])
def test_tool_that_reports_failure_failed(name: str) -> None:
    """Even if only one of two copies of the answer, or the server's tool span, reports it."""
    (call,) = called(traces_in(name).runs)

    assert call.execution is not None
    assert call.execution.status.value == "error"
    assert "no good" in str(call.execution.error)


def test_a_client_that_runs_tools_itself_ran_them_for_its_model() -> None:
    """Tool spans inside a model request belong to that request, with their times; its answer is the last one."""
    (run,) = traces_in("otel-google-genai-automatic").runs

    for call in run.tools_called:
        assert call.execution is not None
        assert call.execution.duration is not None
        assert call.execution.status.value == "ok"


def test_answer_in_two_spans_is_paid_once() -> None:
    """Anthropic's client adds a span for each request, inside or next to the tracer's."""
    for name in ("otel-anthropic", "openllmetry-anthropic"):
        (run,) = traces_in(name).runs

        assert run.actual_output in ("It is 3.", "Done.")
        assert run.usage is not None
        assert (run.usage["input_tokens"], run.usage["output_tokens"]) == (20, 10)


def test_ids_only_in_histories_belong_to_earlier_calls() -> None:
    """LiteLLM omits ids in answers; among equal calls, the first id goes to the first call."""
    calls = called(traces_in("litellm-apart").runs)

    assert [(call.id, call.output) for call in calls] == [("call_1", "3"), ("call_2", "3")]


def test_tools_that_ran_for_a_missing_answer_are_its_calls() -> None:
    """LlamaIndex stores streamed answers as empty; ids and outputs come from the tool spans."""
    (run,) = traces_in("openllmetry-llama-index-stream").runs

    assert [(call.name, call.output, call.id) for call in run.tools_called] == [
        ("add", 3, "call_1"),
        ("mul", 12, "call_2"),
    ]


def test_a_tool_of_haystack_that_raised_failed() -> None:
    """Its span has no error status; the error is in its output."""
    (call,) = called(traces_in("haystack-boom").runs)

    assert call.execution is not None
    message = "Failed to invoke Tool `boom` with parameters {'x': 1}. Error: no good"
    assert (call.execution.status.value, call.execution.error) == ("error", message)
    assert "output" not in call.model_fields_set


@pytest.mark.parametrize("name", ["agent-framework-unknown", "openinference-agno", "llama-index"])
def test_a_tool_that_was_not_offered_is_unknown(name: str) -> None:
    """The offered tools are listed by the model or the agent around it, whatever the framework answered."""
    (run,) = traces_in(name).runs
    (call,) = run.calls

    assert call.execution is not None
    assert (call.execution.status.value, call.execution.executed) == ("unknown_tool", False)
    assert "output" not in call.model_fields_set
    assert "not" in str(call.execution.model_output)
    assert sorted(tool.name for tool in run.available_tools or []) == ["add", "boom", "mul", "now"]


def test_answered_calls_ran_without_a_recorded_request() -> None:
    """OpenInference stores only that Haystack answered, without text or call ids."""
    for name, number in (("openinference-haystack", 2), ("otel-openai-hidden", 3)):
        calls = called(traces_in(name).runs)

        states = [(call.execution.status.value, call.execution.not_captured[-1]) for call in calls if call.execution]
        assert states == [("ok", "output")] * number


def test_sessions_of_mlflow_are_outside_the_spans() -> None:
    """The session is in the trace's own data."""
    runs = traces_in("mlflow-openai").runs

    assert [run.conversation_id for run in runs] == ["s-1", "s-1"]
    assert [run.models for run in runs] == [["gpt-4o"], ["gpt-4o"]]
    assert [tool.name for tool in runs[0].available_tools or []] == ["add", "mul", "now", "boom"]


def test_tools_that_haystack_describes_were_offered() -> None:
    """Each is described as a Python object with its class."""
    (run,) = traces_in("haystack-boom").runs

    assert [(tool.name, tool.type.value) for tool in run.available_tools or []] == [
        (name, "function") for name in ("add", "mul", "now", "boom")
    ]


def test_invalid_arguments_wrapped_by_a_tracer_are_invalid() -> None:
    """OpenLLMetry writes `{"_raw": ...}`; the model wrote the text inside."""
    (call,) = called(traces_in("openllmetry-agents-invalid").runs)

    assert call.execution is not None
    assert call.execution.status.value == "invalid_arguments"
    assert call.execution.requested_parameters == '{"a": 1, "b":'


def test_agents_are_named() -> None:
    """By the name that LangChain gives its agent, and that OpenAI's SDK and ADK give theirs."""
    for name in (
        *("openinference-langchain-nested", "openinference-agents-nested", "phoenix-spans-nested", "adk-failed"),
        *("adk-1-handoff", "logfire-agents-boom", "openinference-crewai", "semantic-kernel", "mlflow-otlp"),
    ):
        calls = called(traces_in(name).runs)

        assert calls[0].execution is not None
        assert calls[0].execution.agent == "boss"


@pytest.mark.parametrize("name", ["openinference-langchain-unknown", "openinference-bedrock-unknown"])
def test_failure_only_in_whole_messages_is_detected(name: str) -> None:
    """If answers are stored as attributes, their failure is only in the whole messages next to them."""
    (call,) = called(traces_in(name).runs)

    assert call.execution is not None
    assert (call.execution.status.value, call.output) == ("unknown_tool", None)


@pytest.mark.parametrize("name", ["openinference-langchain-and-openai-invalid", "openinference-pydantic-ai-invalid"])
def test_arguments_that_are_not_json_stay_as_written(name: str) -> None:
    """Even if LangChain stores such a call separately, or a tool span wraps the text in an object."""
    (call,) = called(traces_in(name).runs)

    assert call.execution is not None
    assert (call.execution.status.value, call.execution.requested_parameters) == ("invalid_arguments", '{"a": 1, "b":')


@pytest.mark.parametrize("name", ["phoenix-spans-nested", "phoenix-otlpv1-boom", "phoenix-data-frame-again"])
def test_times_of_phoenix_are_times_of_the_agent(name: str) -> None:
    """Whatever an export counts: nanoseconds, milliseconds, or none, since it writes texts."""
    (run,) = traces_in(name).runs

    assert run.started_at is not None
    assert run.started_at.isoformat()[:10] == "2026-11-22"
    assert run.duration is not None
    assert 0 < run.duration < 10
    for call in called([run]):
        assert call.execution is not None
        assert call.execution.duration is not None
        assert call.execution.duration < run.duration


def test_data_frames_of_phoenix_are_read_like_its_spans() -> None:
    """Their columns hold lists of objects: messages, and the tools that were offered."""
    (run,) = traces_in("phoenix-data-frame-again").runs

    assert [spec.name for spec in run.available_tools or []] == ["add", "mul", "now", "boom", "ask_helper"]
    sources = [str(call.execution.source) for call in called([run]) if call.execution]
    assert ["llm.output_messages" in source for source in sources] == [True, True]


def of_scenes(*scenes: str) -> list[str]:
    """The files of some scenes."""
    return [name for name in NAMES if content(name)["scene"] in scenes]


@pytest.mark.parametrize("name", of_scenes("wait", "approve", "rejected"))
def test_a_run_that_waits_for_a_person_is_interrupted(name: str) -> None:
    """Its first trace alone: the last call is pending, also if only the output of the graph says that it waits."""
    runs = read_trace_documents([("$", first_trace(content(name)["documents"][0]))]).runs

    (run,) = runs
    assert (run.status.value, run.actual_output, run.error) == ("interrupted", None, None)
    assert [call.execution.status.value for call in run.calls if call.execution][-1] == "pending"
    assert run.warnings == []


def first_trace(document: Any) -> Any:
    """The spans of the trace that began first."""
    if isinstance(document, list):  # LangSmith's runs
        first = min(document, key=lambda run: str(run["start_time"]))["trace_id"]
        return [run for run in document if run["trace_id"] == first]
    spans = [span for scope in document["resourceSpans"][0]["scopeSpans"] for span in scope["spans"]]
    first = min(spans, key=lambda span: int(span["startTimeUnixNano"]))["traceId"]
    return [span for span in spans if span["traceId"] == first]


@pytest.mark.parametrize("name", of_scenes("wait", "approve"))
def test_a_call_that_a_person_allowed_is_one_call(name: str) -> None:
    """The two traces of the session are one run, in which the call ran."""
    (run,) = traces_in(name).runs

    assert (run.status.value, [call.output for call in run.calls][-1]) == ("ok", "done")
    assert [call.execution.status.value for call in run.calls if call.execution] == ["ok"] * len(run.calls)


@pytest.mark.parametrize("name", of_scenes("hosted", "search"))
def test_calls_of_the_provider_have_its_types(name: str) -> None:
    """And they ran: the reply has their results, if the provider sent any, and the answer after them."""
    (run,) = traces_in(name).runs

    assert [call.type.value for call in run.calls if call.type] == ["hosted", "mcp"][: len(run.calls)]
    assert [call.execution.status.value for call in run.calls if call.execution] == ["ok"] * len(run.calls)
    assert run.status.value == "ok"


@pytest.mark.parametrize("name", of_scenes("failing"))
def test_a_run_whose_model_failed_failed(name: str) -> None:
    """Even if the tracer does not mark the span of the whole workflow."""
    (run,) = traces_in(name).runs

    assert run.status.value == "error"
    assert "500" in str(run.error)
