"""toolgrade's metrics as evaluators of LangSmith, handed to LangSmith itself."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timezone
from typing import Any

import pytest

from toolgrade import (
    BudgetMetric,
    ConfigurationError,
    LLMTestCase,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolRecoveryMetric,
)
from toolgrade.compat.hosts._evaluators import case_of, feedback_of
from toolgrade.compat.hosts.langsmith import evaluator
from toolgrade.redact import DEFAULT
from toolgrade.result import MetricResult, ResultStatus

ADD = {"name": "add", "args": {"a": 1}}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
MESSAGES = [
    {"role": "user", "content": "Add."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "2"},
    {"role": "assistant", "content": "Two."},
]
EXPECTED = {"expected_tools": [{"name": "add", "input_parameters": {"a": 1}}]}
METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"])


def feedback(outputs: Any, reference: Any = EXPECTED, inputs: Any = None, **options: Any) -> dict[str, Any]:
    """The only feedback of the only metric."""
    (actual,) = evaluator(METRIC, **options)(inputs or {}, outputs, reference)
    return actual


@pytest.mark.parametrize(
    "outputs",
    [
        {"tools_called": [ADD]},
        {"toolsCalled": [ToolCall(name="add", input_parameters={"a": 1})]},
        {"messages": MESSAGES},
        {"agent_trajectory": MESSAGES},
        Run(calls=[ToolCall(name="add", input_parameters={"a": 1})]),
        LLMTestCase(tools_called=[ToolCall(name="add", input_parameters={"a": 1})]),
    ],
    ids=["tools_called", "camelCase", "messages", "agent_trajectory", "run", "attributes"],
)
def test_calls_are_read_from_any_of_these(outputs: Any) -> None:
    """Each documented form gives the same call; other arguments give another call."""
    assert feedback(outputs)["score"] == 1
    other = {"expected_tools": [{"name": "add", "input_parameters": {"a": 2}}]}
    wrong = feedback(outputs, other)
    assert (wrong["score"], wrong["value"]) == (0, "fail")
    assert "called with 1" in wrong["comment"]


def test_expectation_may_be_a_trajectory() -> None:
    """Messages of a reference run are the expectation."""
    assert feedback({"tools_called": [ADD]}, {"expected_agent_trajectory": MESSAGES})["score"] == 1
    assert feedback({"tools_called": []}, {"expectedAgentTrajectory": MESSAGES})["score"] == 0


@pytest.mark.parametrize(
    ("outputs", "reference", "inputs", "says"),
    [
        ({}, EXPECTED, {}, "do not contain the called tools"),
        (None, EXPECTED, {}, "do not contain the called tools"),
        ({"tool_called": [ADD]}, EXPECTED, {}, "do not contain the called tools"),
        ({"messages": MESSAGES, "tools_called": [ADD]}, EXPECTED, {}, "contain the called tools twice"),
        ({"tools_called": [ADD]}, {}, {}, "expected_tools"),
        ({"tools_called": 3}, EXPECTED, {}, "expected a list of tools"),
        ({"messages": MESSAGES}, EXPECTED, {"messages": MESSAGES}, "contain calls already"),
    ],
    ids=["nothing", "none", "misspelt", "twice", "no reference", "no list", "earlier calls"],
)
def test_unmeasurable_input_has_no_score(outputs: Any, reference: Any, inputs: Any, says: str) -> None:
    """The score is None, never 0, and the comment has the reason."""
    actual = feedback(outputs, reference, inputs)

    assert actual["score"] is None
    assert "value" not in actual
    assert actual["comment"].startswith("Not measured: ")
    assert says in actual["comment"]


def test_a_run_that_broke_passes_nothing() -> None:
    """Its score is still shown."""
    run = Run.model_validate({"calls": [ADD], "status": "error", "error": "RuntimeError: 401"})
    actual = feedback(run, EXPECTED)

    assert actual["score"] == 1
    assert actual["value"] == "fail"
    assert actual["comment"] == "agent error: RuntimeError: 401"


def test_user_messages_may_be_in_the_inputs() -> None:
    """Only calls there are ambiguous."""
    assert feedback({"messages": MESSAGES}, inputs={"messages": MESSAGES[:1]})["score"] == 1


def test_other_fields_are_read() -> None:
    """Input, answer, available tools and expected answer, in both forms."""
    specs = [{"name": "add", "description": "Adds."}]
    for calls in ({"tools_called": [ADD], "messages": None}, {"messages": MESSAGES, "tools_called": None}):
        case = case_of(
            {"input": {"no": "text"}, "question": "Q?", "available_tools": specs, "id": 7},
            {**calls, "actual_output": "A.", "other": object()},
            {**EXPECTED, "expected_output": "E."},
        )
        assert (case.input, case.actual_output, case.expected_output) == ("Q?", "A.", "E.")
        assert [spec.name for spec in case.available_tools or []] == ["add"]
        assert [call.name for call in case.tools_called or []] == ["add"]
    plain = case_of("Q?", {"messages": MESSAGES}, None)
    assert (plain.input, plain.actual_output, plain.expected_tools) == ("Q?", "Two.", None)


def test_warnings_of_the_expectation_are_kept() -> None:
    """Even if the calls come from messages."""
    doubtful = {"expected_tools": [{"name": "add", "colour": "red"}]}
    for outputs in ({"tools_called": [ADD]}, {"messages": MESSAGES}):
        case = case_of({}, outputs, doubtful)
        assert case.run is not None
        assert [text for text in case.run.warnings if "colour" in text]


def test_a_skipped_metric_without_reasons_still_says_so() -> None:
    """A score of None always has a comment."""
    (actual,) = evaluator(ToolRecoveryMetric(include_reason=False))({}, {"tools_called": [ADD]}, EXPECTED)
    assert actual["score"] is None
    assert actual["comment"]
    bare = MetricResult(metric="m", status=ResultStatus.SKIPPED, threshold=0.5)
    assert feedback_of(bare, "m", DEFAULT).comment == "Skipped."


def test_every_metric_has_its_entry() -> None:
    """Including skipped and repeated metrics."""
    metrics = METRIC, METRIC, ToolRecoveryMetric()
    actual = evaluator(*metrics)({}, {"tools_called": [ADD]}, EXPECTED)

    assert [one["score"] for one in actual] == [1, 1, None]
    assert len({one["key"] for one in actual}) == 3
    assert "the outcome of the calls was not recorded" in actual[2]["comment"]
    assert "value" not in actual[2]
    unread = evaluator(*metrics)({}, {}, EXPECTED)
    assert [one["key"] for one in unread] == [one["key"] for one in actual]


def test_to_case_builds_the_case() -> None:
    """`to_case` receives the arguments of LangSmith."""

    def to_case(inputs: Any, outputs: Any, reference: Any) -> LLMTestCase:
        return LLMTestCase(input=inputs["q"], tools_called=outputs["steps"], expected_tools=reference["plan"])

    tools = [ToolCall(name="add")]
    assert feedback({"steps": tools}, {"plan": tools}, {"q": "?"}, to_case=to_case)["score"] == 1
    with pytest.raises(KeyError):  # an error of the user's own is not hidden
        feedback({}, {}, {"q": "?"}, to_case=to_case)


def test_secrets_stay_here() -> None:
    """In reasons and in errors."""
    secret = "sk-proj-" + "a1B2" * 10
    called = {"tools_called": [{"name": "add", "args": {"a": secret}}]}
    assert secret not in json.dumps(feedback(called))
    assert "add" in feedback(called)["comment"]
    assert secret not in json.dumps(feedback({"tools_called": secret}))


def test_no_metric_is_an_error_at_once() -> None:
    """Before anything is evaluated."""
    with pytest.raises(ConfigurationError):
        evaluator()
    with pytest.raises(ConfigurationError):
        evaluator("tool_correctness")  # type: ignore[arg-type]


def test_langsmith_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own wrapper hands over a run and an example, and gives typed results back."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    schemas = pytest.importorskip("langsmith.schemas", reason="the core is tested alone here, without LangSmith")
    from langsmith.evaluation import run_evaluator

    now = datetime.now(timezone.utc)
    example = schemas.Example(
        id=uuid.uuid4(), dataset_id=uuid.uuid4(), inputs={"q": "?"}, outputs=EXPECTED, created_at=now
    )
    right = run_evaluator(evaluator(METRIC, BudgetMetric(max_seconds=1)))  # type: ignore[arg-type]

    def results(outputs: dict[str, Any]) -> list[Any]:
        run = schemas.Run(id=uuid.uuid4(), name="agent", run_type="chain", start_time=now, outputs=outputs)
        actual: Any = right.evaluate_run(run, example)
        return list(actual["results"])

    good, bad, none = (results(outputs) for outputs in ({"tools_called": [ADD]}, {"tools_called": []}, {}))
    assert [(one[0].key, one[0].score, one[0].value) for one in (good, bad)] == [
        (METRIC.label, 1.0, "pass"),
        (METRIC.label, 0.0, "fail"),
    ]
    assert [one.score for one in none] == [None, None]
    assert all("do not contain the called tools" in one.comment for one in none)
