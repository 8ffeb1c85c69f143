"""DeepEval beside toolgrade: the programs of its users, both directions, and 5,000 random scores."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from deepeval import assert_test, evaluate
from deepeval.dataset import ConversationalGolden, Golden
from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseConversationalMetric, BaseMetric, ExactMatchMetric, ToolCorrectnessMetric
from deepeval.test_case import ConversationalTestCase, LLMTestCase, ToolCall, ToolCallParams, ToolCallType
from deepeval.test_case import Turn as TheirTurn
from hypothesis import given
from hypothesis import strategies as st

from deepeval_programs import SCRIPTS, SUITES, TESTS, copied, run_apart, run_here
from processes import ROOT, environment
from readme_code import run_page
from strategies import case_fields, conversation_fields, image_case_fields
from toolgrade import BudgetMetric, ConfigurationError, MetricAssertionError, MLLMTestCase, ToolUseMetric, Turn
from toolgrade import ConversationalTestCase as OwnConversation
from toolgrade import LLMTestCase as OwnCase
from toolgrade import ToolCall as OwnCall
from toolgrade import ToolCallParams as OwnParams
from toolgrade import ToolCorrectnessMetric as OwnToolCorrectness
from toolgrade import evaluate as own_evaluate
from toolgrade.cases import AnyCase
from toolgrade.compat import deepeval as compat
from toolgrade.compat.deepeval import from_deepeval, to_deepeval
from toolgrade.compat.deepeval.metrics import ToolCorrectnessMetric as CompatToolCorrectness
from toolgrade.compat.deepeval.tracing import observe

#: Without statistics of use, and without a question at the end.
SETTINGS = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "OPENAI_API_KEY": "sk-none",
    "DEEPEVAL_NO_INSPECT_PROMPT": "1",
    "CI": "1",
}
QUIET = DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let DeepEval write its files into a temporary folder."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Programs


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_program(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the programs of `test_deepeval_programs` assert holds with DeepEval itself, too."""
    run_here(copied(path, tmp_path))
    assert "OK" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_suite(path: Path, tmp_path: Path) -> None:
    """The suites of several files pass, too."""
    run_apart(copied(path, tmp_path), **SETTINGS)


def test_files_of_tests(tmp_path: Path) -> None:
    """The files of tests pass with `deepeval test run`, one after the other."""
    for path in TESTS:
        copied(path, tmp_path)
    run_apart(tmp_path, DEEPEVAL="1", **SETTINGS)


MODULES = (
    *("benchmarks", "classifiers", "dataset", "metrics", "models", "optimizer", "prompt", "simulator", "synthesizer"),
    *("test_case", "tracing"),
)


@pytest.mark.parametrize("module", MODULES)
def test_names(module: str) -> None:
    """Each public name of DeepEval can be imported here, too."""
    names = import_module(f"deepeval.{module}").__all__
    own = import_module(f"toolgrade.compat.deepeval.{module}")
    assert [name for name in names if not hasattr(own, name)] == []


# toolgrade's metrics in DeepEval


def case(*called: str, **fields: Any) -> LLMTestCase:
    """Return a case of DeepEval that expects the calls a and b."""
    calls = [ToolCall(name=name, input_parameters={"x": 1}) for name in called]
    expected = [ToolCall(name=name, input_parameters={"x": 1}) for name in "ab"]
    return LLMTestCase(input="question", tools_called=calls, expected_tools=expected, **fields)


@pytest.mark.parametrize("run_async", [True, False])
def test_metrics_in_evaluate(run_async: bool) -> None:
    """Each case of a mixed suite has the results of both libraries, in one report."""
    metrics = [
        to_deepeval(OwnToolCorrectness(evaluation_params=["input_parameters"], threshold=0.7)),
        to_deepeval(CompatToolCorrectness(should_exact_match=True)),
        ToolCorrectnessMetric(threshold=0.7),
    ]
    config = AsyncConfig(run_async=run_async)
    result = evaluate([case("a", "b"), case("a")], metrics, async_config=config, display_config=QUIET)
    first, second = result.test_results
    assert [(one.score, one.success) for one in first.metrics_data] == [(1, True)] * 3
    assert [(one.score, one.success) for one in second.metrics_data] == [(0.5, False), (0, False), (0.5, False)]
    assert second.metrics_data[0].name == "tool_correctness(input_parameters)"
    assert "expected #2 'b' was not called" in second.metrics_data[0].reason


def test_metrics_in_assert_test() -> None:
    """`assert_test` of DeepEval passes and fails on them, also by a later threshold; a missing field is its error."""
    metric = to_deepeval(OwnToolCorrectness(threshold=1))
    assert isinstance(metric, BaseMetric)
    assert_test(case("a", "b"), [metric])
    with pytest.raises(AssertionError, match="tool_correctness"):
        assert_test(case("a"), [metric])
    metric.threshold = 0.5
    assert_test(case("a"), [metric])
    metric.threshold = 0.6
    with pytest.raises(AssertionError, match=r"threshold: 0\.6"):
        assert_test(case("a"), [metric])
    skipping = ErrorConfig(skip_on_missing_params=True)
    incomplete = LLMTestCase(input="question", actual_output="answer")
    assert (
        not evaluate([incomplete], [metric], error_config=skipping, display_config=QUIET).test_results[0].metrics_data
    )


def test_conversational_metrics() -> None:
    """A metric for conversations is DeepEval's other kind: tool use by itself, any other where it is asked for."""
    answer = TheirTurn(role="assistant", content="", tools_called=[ToolCall(name="a")])
    turns = [TheirTurn(role="user", content="question"), answer]
    metric = to_deepeval(BudgetMetric(max_calls=1), conversational=True)
    assert isinstance(metric, BaseConversationalMetric)
    assert isinstance(to_deepeval(ToolUseMetric(available_tools=[])), BaseConversationalMetric)
    result = evaluate([ConversationalTestCase(turns=turns)], [metric], display_config=QUIET)
    assert result.test_results[0].metrics_data[0].score == 1


def test_test_run(tmp_path: Path) -> None:
    """`deepeval test run` reports a mixed suite in one command."""
    program = """
import pytest
from deepeval import assert_test
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall
from toolgrade import BudgetMetric
from toolgrade.compat.deepeval import to_deepeval

@pytest.mark.parametrize("name", ["a", "b"])
def test_agent(name):
    case = LLMTestCase(input="q", tools_called=[ToolCall(name=name)], expected_tools=[ToolCall(name="a")])
    assert_test(case, [ToolCorrectnessMetric(), to_deepeval(BudgetMetric(max_calls=2))])
"""
    (tmp_path / "test_mixed.py").write_text(program, encoding="utf-8")
    command = [Path(sys.executable).with_name("deepeval"), "test", "run", "test_mixed.py"]
    settings = {**environment(), **SETTINGS, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert "1 failed" in done.stdout
    assert "1 passed" in done.stdout
    assert "budget" in done.stdout


# DeepEval's metrics in toolgrade


def test_metrics_of_deepeval_in_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    """Toolgrade's `evaluate`, and that of the compat package, report metrics of both libraries side by side."""
    own = from_deepeval(case("a", actual_output="yes", expected_output="yes"))
    report = own_evaluate([own], [from_deepeval(ExactMatchMetric()), OwnToolCorrectness()])
    assert {summary.metric: summary.mean for summary in report.summaries} == {"Exact Match": 1, "tool_correctness": 0.5}
    mixed = compat.evaluate([own], [ToolCorrectnessMetric(), ExactMatchMetric(), CompatToolCorrectness()])
    assert [data.score for data in mixed.test_results[0].metrics_data] == [0.5, 1, 0.5]
    assert "Exact Match" in capsys.readouterr().out
    with pytest.raises(MetricAssertionError, match="Exact Match"):
        compat.assert_test(from_deepeval(case("a", actual_output="no", expected_output="yes")), [ExactMatchMetric()])


def test_parameters_of_toolgrade_in_a_metric_of_deepeval() -> None:
    """A suite that moves by halves compares the same: DeepEval ignores members of another enumeration."""
    called, expected = (OwnCall(name="a", input_parameters={"x": number}) for number in (1, 2))
    one = OwnCase(input="q", actual_output="a", tools_called=[called], expected_tools=[expected])
    metric = ToolCorrectnessMetric(threshold=1, evaluation_params=[OwnParams.INPUT_PARAMETERS])  # type: ignore[list-item]

    assert own_evaluate([one], [from_deepeval(metric)]).summaries[0].mean == 0


def test_the_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """In "coming from": both libraries side by side."""
    asyncio.run(run_page(ROOT / "docs" / "coming-from.md", {}, "from deepeval"))
    assert "Exact Match: mean 1 over 1 case" in capsys.readouterr().out


def test_metric_of_deepeval_that_fails() -> None:
    """What DeepEval's metric raises is an errored result, and what the compat package raises."""
    own = from_deepeval(case("a"))
    report = own_evaluate([own], [from_deepeval(ExactMatchMetric())])
    assert "expected_output" in str(report.cases[0].results[0].error)
    with pytest.raises(Exception, match="expected_output"):
        compat.evaluate([own], [ExactMatchMetric()])
    conversation = OwnConversation(turns=[Turn(role="user", content="question")])
    with pytest.raises(ConfigurationError, match="measures cases of one question, got a conversation"):
        from_deepeval(ExactMatchMetric()).measure(conversation)


# Cases to and fro


@given(
    st.one_of(
        case_fields.map(lambda fields: OwnCase(**fields)),
        image_case_fields.map(lambda fields: MLLMTestCase(**fields)),
        conversation_fields.filter(lambda fields: fields["turns"]).map(lambda fields: OwnConversation(**fields)),
    )
)
def test_cases_to_and_fro(own: AnyCase) -> None:
    """A case comes back as it was."""
    assert from_deepeval(to_deepeval(own)).to_dict() == own.to_dict()


def test_cases_of_deepeval() -> None:
    """What DeepEval's cases have comes over, and a change of a case that came from toolgrade counts."""
    theirs = case("a", actual_output="yes", retrieval_context=["page"], tags=["t"], metadata={"k": 1}, token_cost=0.5)
    own = from_deepeval(theirs)
    assert (own.input, own.actual_output, own.retrieval_context, own.token_cost) == ("question", "yes", ["page"], 0.5)
    assert (own.tags, own.metadata, own.tools_called[0].arguments) == (["t"], {"k": 1}, {"x": 1})
    assert type(from_deepeval(ConversationalGolden(scenario="refund"))).__name__ == "ConversationalGolden"
    back = to_deepeval(own)
    back.tools_called[0].name = "changed"
    assert [call.name for call in from_deepeval(back).tools_called] == ["changed"]


def test_goldens_of_deepeval() -> None:
    """They are asked in the evaluation of this package as its own are."""

    @observe(type="tool")
    def a(question: str) -> str:
        return question

    goldens = [Golden(input="question", expected_tools=[ToolCall(name=name)]) for name in "ab"]
    app = observe(a)
    result = compat.evaluate(goldens=goldens, observed_callback=app, metrics=[CompatToolCorrectness()])
    assert [one.success for one in result.test_results] == [True, False]


# Scores


VALUES: list[Any] = [*[1, 2, "x", "y"] * 3, None, True, "1", [1], {"k": 1, "l": 2}, {"k": 1, "l": 3}]


def random_calls(chance: random.Random, number: int, *, called: bool) -> list[ToolCall]:
    """Return calls of few tools, with few arguments."""
    calls: list[ToolCall] = []
    for _ in range(number):
        fields: dict[str, Any] = {"name": chance.choice("aaabc")}
        if called or chance.random() < 0.95:
            fields["input_parameters"] = {key: chance.choice(VALUES) for key in "xy" if chance.random() < 0.7}
        if called or chance.random() < 0.95:
            fields["output"] = chance.choice(VALUES)
        if chance.random() < 0.02:
            fields["type"] = chance.choice([*ToolCallType])
        is_copy = calls and chance.random() < 0.2
        calls.append(chance.choice(calls).model_copy(deep=True) if is_copy else ToolCall(**fields))
    return calls


def differences(expected: list[ToolCall], called: list[ToolCall], options: dict[str, Any]) -> set[str]:
    """Return what of "coming from DeepEval" a case has that may make the scores differ."""
    params = options["evaluation_params"]
    arguments, outputs = ToolCallParams.INPUT_PARAMETERS in params, ToolCallParams.OUTPUT in params
    exact, ordered = options["should_exact_match"], options["should_consider_ordering"]
    found: set[str] = set()
    names = [call.name for call in called]
    if not ordered and not exact and any(left == right for at, left in enumerate(called) for right in called[:at]):
        found.add("equal calls count once")
    if not ordered and not exact and (arguments or outputs) and max(Counter(names).values(), default=0) > 1:
        found.add("paired with the first that fits")
    if arguments and any(call.input_parameters is None for call in expected):
        found.add("no arguments stated")
    if outputs and any(call.output is None for call in expected):
        found.add("no output stated")
    if any("type" in call.model_fields_set for call in (*expected, *called)):
        found.add("types")
    for left in expected:
        for right in called:
            values = [(left.output, right.output)] if outputs else []
            shared = (left.input_parameters or {}).keys() & (right.input_parameters or {}).keys()
            of_arguments = [(left.input_parameters[key], right.input_parameters[key]) for key in shared]
            values += of_arguments if arguments else []
            if left.name == right.name and any(is_flag(*pair) for pair in values):
                found.add("true is not 1")
            if left.name == right.name and outputs and [left.output, right.output] in ([1, "1"], ["1", 1]):
                found.add("an output is read as JSON")
    return found


def is_flag(left: object, right: object) -> bool:
    """Return whether Python calls a truth value and a number equal, which JSON does not."""
    return left == right and type(left) is not type(right)


def their_score(metric: ToolCorrectnessMetric, test_case: LLMTestCase) -> float | None:
    """Return DeepEval's score; `None` if it raises, as for expected calls without arguments."""
    try:
        metric.measure(test_case)
    except AttributeError:
        return None
    return metric.score


def test_scores() -> None:
    """Of 5,000 random cases the scores are equal, but for reasons that docs/coming-from.md has; each reason occurs."""
    chance = random.Random(38)
    counts: Counter[str] = Counter()
    for _ in range(5000):
        expected = random_calls(chance, chance.randrange(5), called=False)
        called = random_calls(chance, chance.randrange(5), called=True)
        params = [one for one in ToolCallParams if chance.random() < 0.4]
        options: dict[str, Any] = {
            "evaluation_params": params,
            "should_exact_match": chance.random() < 0.2,
            "should_consider_ordering": chance.random() < 0.4,
            "strict_mode": chance.random() < 0.1,
        }
        theirs = LLMTestCase(input="question", tools_called=called, expected_tools=expected)
        their = their_score(ToolCorrectnessMetric(async_mode=False, **options), theirs)
        own_params = [one.value for one in params]
        own = CompatToolCorrectness(**{**options, "evaluation_params": own_params}).measure(from_deepeval(theirs))
        reasons = differences(expected, called, options)
        is_equal = their is not None and abs(own - their) < 1e-9
        assert is_equal or reasons, (their, own, options, expected, called)
        counts["equal" if is_equal else "different"] += 1
        counts["must be equal"] += not reasons
        if not is_equal and len(reasons) == 1:
            counts[reasons.pop()] += 1
    assert counts["equal"] > 4750
    assert counts["must be equal"] > 3400
    for reason in (
        *("equal calls count once", "paired with the first that fits", "no arguments stated", "no output stated"),
        *("types", "true is not 1", "an output is read as JSON"),
    ):
        assert counts[reason] > 0, reason
