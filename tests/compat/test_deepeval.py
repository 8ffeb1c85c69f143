"""DeepEval's names, arguments and models; `tests/project/test_source_pages.py` runs the examples of its pages."""

from __future__ import annotations

import asyncio
import copy
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolgrade
from judging import RuleJudge
from toolgrade import MetricAssertionError, MissingFieldError, NotMeasuredError
from toolgrade.compat.deepeval import assert_test, evaluate, from_deepeval
from toolgrade.compat.deepeval.dataset import ConversationalGolden, EvaluationDataset, Golden
from toolgrade.compat.deepeval.evaluate import DisplayConfig, ErrorConfig
from toolgrade.compat.deepeval.metrics import (
    ArgumentCorrectnessMetric,
    BaseMetric,
    MultimodalToolCorrectnessMetric,
    ToolCorrectnessMetric,
    ToolUseMetric,
)
from toolgrade.compat.deepeval.test_case import (
    ConversationalTestCase,
    LLMTestCase,
    MLLMImage,
    MLLMTestCase,
    ToolCall,
    ToolCallParams,
    Turn,
)
from toolgrade.compat.deepeval.tracing import observe, trace, update_current_span, update_current_trace
from toolgrade.errors import ConfigurationError, ToolgradeWarning

QUIET = DisplayConfig(show_indicator=False, print_results=False)
SEARCH = [ToolCall(name="WebSearch", description="Search the web.")]


class DeepEvalLLM:
    """The methods of a `DeepEvalBaseLLM`, over a judge of the tests."""

    def __init__(self, verdict: str = "yes") -> None:
        self.judge = RuleJudge(verdict)
        self.prompts: list[str] = []

    def get_model_name(self) -> str:
        """Return the name of the model."""
        return "my-llm"

    def generate(self, prompt: str) -> str:
        """Return the reply of the judge."""
        self.prompts.append(prompt)
        return self.judge([{"role": "system", "content": prompt}, {"role": "user", "content": prompt}])


class AsyncDeepEvalLLM(DeepEvalLLM):
    """A model whose sync method must not be used, and which returns a cost as DeepEval's own models do."""

    def generate(self, prompt: str) -> str:
        """Fail: the async method is there."""
        raise AssertionError(prompt)

    async def a_generate(self, prompt: str) -> tuple[str, float]:
        """Return the reply of the judge, and a cost."""
        return super().generate(prompt), 0.01


def shoes() -> LLMTestCase:
    """The case of DeepEval's page about tool correctness."""
    return LLMTestCase(
        input="What if these shoes don't fit?",
        actual_output="We offer a 30-day full refund at no extra cost.",
        tools_called=[ToolCall(name="WebSearch"), ToolCall(name="ToolQuery")],
        expected_tools=[ToolCall(name="WebSearch")],
    )


def conversation() -> ConversationalTestCase:
    """A conversation with one call."""
    called = ToolCall(name="WebSearch", input_parameters={"query": "refund"})
    return ConversationalTestCase(
        turns=[
            Turn(role="user", content="What if these shoes don't fit?"),
            Turn(role="assistant", content="We offer a refund.", tools_called=[called]),
        ]
    )


@pytest.mark.parametrize("model", [DeepEvalLLM, AsyncDeepEvalLLM])
@pytest.mark.parametrize("async_mode", [True, False])
def test_tool_use_with_a_model_of_deepeval(model: type[DeepEvalLLM], async_mode: bool) -> None:
    """An object with the methods of a DeepEvalBaseLLM judges a conversation."""
    metric = ToolUseMetric(available_tools=SEARCH, threshold=0.5, model=model(), async_mode=async_mode)
    assert metric.measure(conversation()).score == 1
    assert ToolUseMetric(available_tools=SEARCH, model=model("no")).measure(conversation()).score == 0


def test_model_of_tool_correctness() -> None:
    """`available_tools` with an explicit model asks it: the score is the lower of calling and selection."""
    model = DeepEvalLLM("no")
    result = ToolCorrectnessMetric(available_tools=SEARCH, model=model, async_mode=False).measure(shoes())
    assert (result.score, result.parts["selection"]) == (0, 0)
    assert "What if these shoes don't fit?" in model.prompts[0]


def test_two_names_of_one_option() -> None:
    """A judge and a model together are an error."""
    with pytest.raises(ConfigurationError, match="judge and model are two names of one option"):
        ToolCorrectnessMetric(judge=DeepEvalLLM(), model=DeepEvalLLM())


def test_model_that_returns_no_text() -> None:
    """A model that returns something else than text fails the result; it never counts as a verdict."""

    class Wrong(DeepEvalLLM):
        def generate(self, prompt: str) -> Any:
            return len(prompt) * 0

    metric = ToolUseMetric(available_tools=SEARCH, model=Wrong())
    result = evaluate([conversation()], [metric], error_config=ErrorConfig(ignore_errors=True))
    [data] = result.test_results[0].metrics_data
    assert (data.score, data.success) == (None, False)
    assert "must return a str, got int 0" in str(data.reason)
    with pytest.raises(NotMeasuredError, match="must return a str, got int 0"):
        evaluate([conversation()], [metric])


def test_class_of_a_model_is_refused() -> None:
    """A class instead of an object is an error that names what can judge."""
    with pytest.raises(ConfigurationError, match="a DeepEvalBaseLLM"):
        ToolUseMetric(model=DeepEvalLLM)  # type: ignore[arg-type]


EXTRA_FIELDS: list[tuple[type[Any], dict[str, Any], dict[str, Any]]] = [
    (
        LLMTestCase,
        {},
        {
            "context": ["a"],
            "retrieval_context": ["b"],
            "hyperparameters": {"temperature": 0.5},
            "token_cost": 0.25,
            "completion_time": 1.5,
            "comments": "text",
        },
    ),
    (MLLMTestCase, {}, {"context": ["a"], "retrieval_context": ["b"], "token_cost": 0.25, "comments": "text"}),
    (Turn, {"role": "user", "content": "Hi"}, {"retrieval_context": ["b"]}),
    (
        ConversationalTestCase,
        {"turns": [{"role": "user", "content": "Hi"}]},
        {"scenario": "s", "expected_outcome": "o", "user_description": "u", "chatbot_role": "r", "context": ["a"]},
    ),
    (Golden, {"input": "Hi"}, {"context": ["a"], "retrieval_context": ["b"], "comments": "text"}),
]


@pytest.mark.parametrize(("model", "needed", "extra"), EXTRA_FIELDS)
def test_extra_fields_are_stored(model: type[Any], needed: dict[str, Any], extra: dict[str, Any]) -> None:
    """Fields that no metric reads are stored and written, and `additional_metadata` is `metadata`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToolgradeWarning)
        case = model(**needed, **extra, additional_metadata={"ticket": 5})
        assert model.from_json(case.to_json()) == case
    assert {name: getattr(case, name) for name in extra} == extra
    assert case.metadata == {"ticket": 5}
    assert case.to_dict() == {**needed, **extra, "metadata": {"ticket": 5}}


def test_images_are_refused() -> None:
    """A DeepEvalBaseLLM takes text: a case with an image is not judged, and nothing is sent."""
    model = DeepEvalLLM()
    case = MLLMTestCase(
        input=["What?", MLLMImage(data=b"\x89PNG\r\n\x1a\n" + bytes(16), mime_type="image/png")],
        tools_called=SEARCH,
        expected_tools=SEARCH,
    )
    with pytest.raises(NotMeasuredError, match="takes no images"):
        ToolCorrectnessMetric(available_tools=SEARCH, model=model).measure(case)
    assert not model.prompts


# Multimodal tool correctness

OPTIONS: list[dict[str, Any]] = [
    {},
    {"should_consider_ordering": True},
    {"should_exact_match": True},
    {"strict_mode": True},
    {"threshold": 0.9},
    {"include_reason": False},
    {"evaluation_params": [ToolCallParams.INPUT_PARAMETERS, ToolCallParams.OUTPUT]},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options) or "defaults")
def test_images_play_no_part_in_the_score(options: dict[str, Any]) -> None:
    """A case scores the same with images, with other images, and as plain text; what is late fails the case."""
    sides: dict[str, Any] = {
        "expected_tools": [ToolCall(name="a", input_parameters={"x": 1, "y": 2}), ToolCall(name="b", output=1)],
        "tools_called": [ToolCall(name="b", output=2), ToolCall(name="a", input_parameters={"x": 1})],
    }
    cases = [
        MLLMTestCase(input=["Look:", MLLMImage(url="https://example.com/1.png")], **sides),
        MLLMTestCase(input=["Look:", MLLMImage(data="iVBORw==")], expected_output=[MLLMImage(path="2.png")], **sides),
        MLLMTestCase(input="Look", **sides),
        LLMTestCase(input="Look", **sides),
    ]
    plain = 0 if "should_consider_ordering" in options else ToolCorrectnessMetric(**options).measure(cases[-1])
    for case in cases:
        assert MultimodalToolCorrectnessMetric(**options).measure(case) == plain


def test_missing_side_names_this_metric() -> None:
    """The error names the called metric."""
    with pytest.raises(MissingFieldError, match=r"ToolCorrectnessMetric needs tools_called"):
        MultimodalToolCorrectnessMetric().measure(MLLMTestCase(expected_tools=[]))


# What is DeepEval's alone


def test_result_keeps_what_it_compared() -> None:
    """A case that changes after it was measured changes no result; measured again, it has another one."""
    case, metric = shoes(), ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
    before = evaluate([case], [metric], display_config=QUIET)
    case.expected_tools[0].name = "Changed"
    case.tools_called.append(ToolCall(name="Added"))
    assert [call.name for call in before.report.cases[0].case.tools_called] == ["WebSearch", "ToolQuery"]
    assert "1 matched / 1 expected" in str(before.test_results[0].metrics_data[0].reason)
    assert metric.score == 1
    assert metric.measure(case) == 0
    assert metric.result.findings[0].tool == "Changed"


def test_a_metric_that_sets_no_score_has_none() -> None:
    """The score of an earlier case is not that of the next one, in one evaluation and in a later one."""

    class Forgetful(BaseMetric):
        __name__ = "Forgetful"
        threshold = 0.5

        def measure(self, test_case: LLMTestCase) -> None:
            if test_case.input == "first":
                self.score = 1.0

    metric, cases = Forgetful(), [LLMTestCase(input=name) for name in ("first", "second")]
    ignoring = ErrorConfig(ignore_errors=True)
    for _ in range(2):
        first, second = evaluate(cases, [metric], display_config=QUIET, error_config=ignoring).test_results
        assert (first.success, first.metrics_data[0].score) == (True, 1)
        assert (second.success, second.metrics_data[0].score) == (False, None)
        assert "it returned NoneType and set no score" in str(second.metrics_data[0].error)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("metrics", "GEval"),
        ("metrics", "TaskCompletionMetric"),
        ("test_case", "MCPServer"),
        ("tracing", "next_agent_span"),
        ("models", "GPTModel"),
        ("prompt", "Prompt"),
        ("simulator", "ConversationSimulator"),
        ("synthesizer", "Synthesizer"),
        ("evaluate", "compare"),
        ("dataset", "Persona"),
        *(("scorer", "Scorer"), ("optimizer", "PromptOptimizer"), ("benchmarks", "MMLU"), ("classifiers", "Label")),
    ],
)
def test_names_of_other_things(module: str, name: str) -> None:
    """They can be imported, and say so when they are used; of functions only those that DeepEval has."""
    found = import_module(f"toolgrade.compat.deepeval.{module}")
    with pytest.raises(ConfigurationError, match=rf"{name} is not part of toolgrade.*`from deepeval.{module} import"):
        getattr(found, name)(model="gpt-4o")
    with pytest.raises(AttributeError, match="nonsense"):
        _ = found.nonsense


def test_what_has_no_effect_is_a_warning() -> None:
    """Options that only DeepEval can follow are accepted, and a warning names them."""
    with pytest.warns(ToolgradeWarning, match="flaky of a Tool Correctness metric has no effect"):
        metric = ToolCorrectnessMetric(flaky=True)
    with pytest.warns(ToolgradeWarning, match="hyperparameters of evaluate has no effect"):
        evaluate([shoes()], [metric], hyperparameters={"temperature": 1}, display_config=QUIET)
    with pytest.raises(ConfigurationError, match="push is not part of toolgrade"):
        EvaluationDataset().push("dataset")


def test_files_hold_no_secrets(tmp_path: Path) -> None:
    """The results folder and the files of a report are redacted."""
    case = LLMTestCase(input="My key is sk-abcdefghijklmnopqrstuvwx0123", tools_called=[], expected_tools=SEARCH)
    for kind in ("html", "md"):
        config = DisplayConfig(print_results=False, results_folder=tmp_path, file_output_dir=tmp_path, file_type=kind)
        evaluate([case], [ToolCorrectnessMetric()], display_config=config)
    written = sorted(tmp_path.iterdir())
    assert [path.suffix for path in written] == [".html", ".md", ".json", ".json"]
    for path in written:
        assert "WebSearch" in path.read_text(encoding="utf-8")
        assert "sk-abcdef" not in path.read_text(encoding="utf-8")


def test_tasks_in_a_running_loop() -> None:
    """Answers are awaited in the loop over the iterator; a task that is left to its end is an error, not lost."""

    @observe(type="agent")
    async def agent(question: str) -> str:
        return question

    async def evaluated(*, awaits: bool) -> EvaluationDataset:
        dataset = EvaluationDataset([Golden(input="Hi", expected_tools=[])])
        for golden in dataset.evals_iterator([ToolCorrectnessMetric()], display_config=QUIET):
            task = asyncio.create_task(agent(golden.input))
            dataset.evaluate(task)
            if awaits:
                await task
        return dataset

    dataset = asyncio.run(evaluated(awaits=True))
    assert dataset.result is not None
    assert dataset.result.passed
    with pytest.raises(ConfigurationError, match="await each answer in the loop"):
        asyncio.run(evaluated(awaits=False))


def test_golden_without_an_answer() -> None:
    """A golden for which no observed function ran is not measured, and the message says what to decorate."""
    dataset = EvaluationDataset([Golden(input="Hi", expected_tools=[])])
    with pytest.raises(NotMeasuredError, match="decorate the function that answers with @observe"):
        for _ in dataset.evals_iterator([ToolCorrectnessMetric()], display_config=QUIET):
            pass


def test_every_run_of_a_golden_is_measured() -> None:
    """Two answers to one golden are two results."""

    @observe(type="tool")
    def look_up(key: str, limit: int = 5) -> str:
        return key * limit

    @observe
    def agent(question: str) -> str:
        return look_up(question)

    dataset = EvaluationDataset([Golden(input="Hi", expected_tools=[ToolCall(name="look_up")])])
    for golden in dataset.evals_iterator([ToolCorrectnessMetric()], display_config=QUIET):
        agent(golden.input)
        agent("again")
    assert dataset.result is not None
    assert [result.success for result in dataset.result.test_results] == [True, True]
    assert dataset.result.cases[0].case.tools_called[0].arguments == {"key": "Hi", "limit": 5}


def test_each_golden_has_its_own_runs() -> None:
    """Of two goldens in one test of pytest, each is measured by the functions that ran since the one before."""

    @observe
    def agent(question: str, calls: int) -> list[str]:
        return [look_up(question) for _ in range(calls)]

    class Broken(BaseMetric):
        threshold = 0.5

    golden = Golden(input="Hi", expected_tools=[ToolCall(name="look_up")])
    agent("Hi", 0)
    with pytest.raises(NotImplementedError):
        assert_test(golden=golden, metrics=[Broken()])
    agent("Hi", 0)
    with pytest.raises(MetricAssertionError, match="score: 0"):
        assert_test(golden=golden, metrics=[ToolCorrectnessMetric()])
    agent("Hi", 1)
    assert_test(golden=golden, metrics=[ToolCorrectnessMetric()])


def test_forms_of_a_file(tmp_path: Path) -> None:
    """The method says the form, whatever the end of the name; lists in one text have the delimiter of the call."""
    csv = tmp_path / "goldens.txt"
    csv.write_text('question,context\n"Hi, you",a;b\n', encoding="utf-8")
    dataset = EvaluationDataset()
    dataset.add_goldens_from_csv_file(csv, input_col_name="question", context_col_delimiter=";")
    lines = tmp_path / "lines.txt"
    lines.write_text('{"input": "Hi", "context": "a|b"}\n\n', encoding="utf-8")
    dataset.add_goldens_from_jsonl_file(lines)
    assert [(golden.input, golden.context) for golden in dataset.goldens] == [
        ("Hi, you", ["a", "b"]),
        ("Hi", ["a", "b"]),
    ]


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
def test_files_keep_every_character(tmp_path: Path, kind: str) -> None:
    """What Unicode calls the end of a line ends none, and a text keeps how its own lines end; a persona is kept."""
    goldens: list[Any] = [Golden(input=text, comments="c") for text in ("a\u2028b", "a\x85b\x0b", 'a\r\n"b"\n')]
    goldens.append(ConversationalGolden(scenario="refund", persona={"name": "Ann"}))
    dataset = EvaluationDataset()
    read = dataset.add_goldens_from_csv_file if kind == "csv" else dataset.add_goldens_from_json_file
    read(EvaluationDataset(goldens).save_as(kind, str(tmp_path)))
    assert dataset.goldens == goldens


# What must not pass


class Always(BaseMetric):
    """A metric that every case passes."""

    threshold = 0.5
    __name__ = "Always"

    def measure(self, test_case: LLMTestCase) -> float:
        """Return 1."""
        self.score = 1.0 if test_case else None
        return 1.0


def test_cases_do_not_share_what_a_metric_collects() -> None:
    """A list that a metric fills is empty for each case."""

    class Collecting(Always):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def measure(self, test_case: LLMTestCase) -> float:
            self.seen.append(str(test_case.input))
            self.score = 1 / len(self.seen)
            return self.score

    result = evaluate([LLMTestCase(input=name) for name in "abc"], [Collecting()], display_config=QUIET)
    assert [one.metrics_data[0].score for one in result.test_results] == [1, 1, 1]


@observe(type="tool")
def look_up(key: str) -> str:
    """Return the key."""
    return key


def iterated(app: Any, **options: Any) -> EvaluationDataset:
    """Return a dataset whose only golden an app has answered."""
    dataset = EvaluationDataset([Golden(input="Hi", expected_tools=[ToolCall(name="look_up")])])
    for golden in dataset.evals_iterator(display_config=QUIET, **options):
        answer = app(golden.input)
        if asyncio.iscoroutine(answer):
            dataset.evaluate(answer)
    return dataset


def test_component_without_expectations_fails() -> None:
    """A metric of a component that lacks what it needs is not skipped beside one that passes."""

    @observe(metrics=[ToolCorrectnessMetric(), Always()])
    def component(question: str) -> str:
        return look_up(question)

    @observe
    def agent(question: str) -> str:
        return component(question)

    dataset = iterated(agent)
    assert dataset.result is not None
    [result] = dataset.result.test_results
    assert (result.success, dataset.result.report.passed) == (False, False)
    assert [(data.name, data.score) for data in result.metrics_data] == [("Tool Correctness", None), ("Always", 1)]


def test_error_beside_an_observed_function_counts() -> None:
    """What the task of an answer raises outside of the observed function is not lost."""

    @observe(metrics=[Always()])
    async def agent(question: str) -> str:
        return look_up(question)

    async def answer(question: str) -> None:
        assert await agent(question) == "something else"

    for metrics in ([ToolCorrectnessMetric()], []):
        with pytest.raises(NotMeasuredError, match="the answer raised AssertionError"):
            iterated(answer, metrics=metrics)


def test_run_that_has_not_ended_fails() -> None:
    """A generator that nobody reads to its end has not answered."""

    @observe
    def agent(question: str) -> Any:
        yield look_up(question)
        raise ValueError(question)

    dataset = iterated(lambda question: [next(agent(question))], metrics=[ToolCorrectnessMetric()])
    assert dataset.result is not None
    assert not dataset.result.test_results[0].success
    assert dataset.result.cases[0].outcome == "agent_error"


@pytest.mark.parametrize("update", [update_current_span, update_current_trace])
def test_metrics_set_while_a_function_runs(update: Any) -> None:
    """They measure the run, and of a component what it did since."""

    @observe
    def inner(question: str) -> str:
        update(metrics=[ToolCorrectnessMetric()], expected_tools=[ToolCall(name="other")])
        return look_up(question)

    @observe
    def agent(question: str) -> str:
        return inner(question)

    dataset = iterated(agent, metrics=[Always()])
    assert dataset.result is not None
    scores = [data.score for result in dataset.result.test_results for data in result.metrics_data]
    assert sorted(scores) == [0, 1]
    assert not dataset.result.report.passed


def test_verdicts_of_two_with_one_label() -> None:
    """Of two metrics of one name, each has its own threshold; one without a threshold fails nothing."""
    metrics = [ToolCorrectnessMetric(threshold=0.9), ToolCorrectnessMetric(threshold=None)]
    case = LLMTestCase(input="Hi", tools_called=[], expected_tools=SEARCH)
    data = evaluate([case], metrics, display_config=QUIET).test_results[0].metrics_data
    assert [(one.name, one.threshold, one.success) for one in data] == [
        ("Tool Correctness", 0.9, False),
        ("Tool Correctness", None, None),
    ]
    with pytest.raises(
        MetricAssertionError, match=r"^Tool Correctness \(score: 0.0, threshold: 0.9\): 1 call expected"
    ):
        assert_test(case, metrics)


def test_a_subclass_may_change_the_score() -> None:
    """What a subclass of a metric of this package makes of the score counts, in evaluate as in measure."""

    class Halved(ToolCorrectnessMetric):
        def measure(self, test_case: Any, *_: Any, **__: Any) -> Any:
            super().measure(test_case)
            self.score, self.reason = (self.score or 0) / 2, "halved"
            return self.score

    result = evaluate([shoes()], [Halved(threshold=0.7)], display_config=QUIET)
    data = result.test_results[0].metrics_data[0]
    assert (data.score, data.success, data.reason) == (0.5, False, "halved")


@pytest.mark.parametrize("score", [0.75, Decimal("0.75"), Fraction(3, 4), True])
def test_scores_of_any_number(score: Any) -> None:
    """What is a number is a score; with `async_mode=False` a metric that can only wait is waited for."""

    class Waiting(BaseMetric):
        __name__ = "Waiting"
        threshold = 0.5
        async_mode = False

        async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> Any:
            self.score = score if test_case else None
            return score

    result = evaluate([shoes()], [Waiting()], display_config=QUIET)
    assert result.test_results[0].metrics_data[0].score == float(score)


@pytest.mark.parametrize(
    ("verdict", "passes"),
    [(np.False_, False), (0, False), ("no", False), (None, False), (False, False), (np.True_, True), (1, True)],
)
def test_verdicts_of_any_kind(verdict: Any, passes: bool) -> None:
    """Only what is true passes, whatever its class; without a verdict the threshold decides."""

    class Own(BaseMetric):
        __name__ = "Own"
        threshold = 0.6

        def measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> Any:
            self.score = 0.5 if test_case else None
            return self.score

        def is_successful(self) -> Any:
            return verdict

    assert evaluate([shoes()], [Own()], display_config=QUIET).test_results[0].success is passes


@pytest.mark.parametrize("expected", ["look_up", "other"])
def test_trace_has_fields_of_its_own(expected: str) -> None:
    """Its metrics measure them, and not what the golden expects."""
    fields: dict[str, Any] = {"tools_called": [ToolCall(name="look_up")], "expected_tools": [ToolCall(name=expected)]}

    def app(question: str) -> None:
        with trace(name="t", input=question, metrics=[ToolCorrectnessMetric()], **fields):
            look_up(question)

    dataset = iterated(app)
    assert dataset.result is not None
    [data] = [data for result in dataset.result.test_results for data in result.metrics_data]
    assert (data.score, data.success) == ((1, True) if expected == "look_up" else (0, False))


@pytest.mark.parametrize("update", [update_current_span, update_current_trace])
@pytest.mark.parametrize(
    "fields",
    [
        *({"tools_called": calls} for calls in ("b", ["b"], [{"nam": "b"}])),
        *({"tools_called": [ToolCall(name="b")], **wrong} for wrong in ({"metrics": Always()}, {"metadata": "text"})),
        *({"metrics": wrong} for wrong in ([Always], ["x"])),
        *({"test_case": {"input": "x"}}, {"tool_called": [ToolCall(name="b")]}),
    ],
)
def test_update_that_cannot_be_read_fails(update: Any, fields: dict[str, Any]) -> None:
    """Neither the agent nor what was set before makes it pass."""

    @observe(metrics=[ToolCorrectnessMetric()])
    def agent(question: str) -> str:
        update_current_span(expected_tools=[ToolCall(name="look_up")])
        answer = look_up(question)
        update(**fields)
        return answer

    for metrics in ([], [Always()]):
        with pytest.raises(NotMeasuredError, match="left out an invalid value"):
            iterated(agent, metrics=metrics)
        with pytest.raises(NotMeasuredError, match="left out an invalid value"):
            evaluate(goldens=[Golden(input="Hi")], observed_callback=agent, metrics=metrics, display_config=QUIET)


def test_metrics_in_the_evaluate_of_toolgrade() -> None:
    """Ready metrics are taken as they are; for others the error says how to wrap them."""
    case = LLMTestCase(input="Hi", tools_called=[], expected_tools=SEARCH)
    assert toolgrade.evaluate([case], [ToolCorrectnessMetric()]).summaries[0].mean == 0
    with pytest.raises(ConfigurationError, match=r"wrap it: toolgrade.compat.deepeval.from_deepeval\(metric\)"):
        toolgrade.evaluate([case], [Always()])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: evaluate([{}], [Always()]), ConfigurationError, "a test case must be an LLMTestCase .* got dict"),
        (lambda: evaluate(shoes(), [Always()]), ConfigurationError, "must be a list of test cases, got LLMTestCase"),
        (lambda: evaluate([shoes()], Always()), ConfigurationError, "metrics must be a list"),  # type: ignore[arg-type]
        (
            lambda: evaluate([shoes()], [Always()], display_confg=QUIET),
            TypeError,
            "unexpected argument 'display_confg'",
        ),
        (lambda: ToolCorrectnessMetric(strict_mode="False"), ConfigurationError, "strict_mode must be True or False"),  # type: ignore[arg-type]
        (lambda: from_deepeval("text"), ConfigurationError, "must be a metric, a test case"),
        (
            lambda: EvaluationDataset().add_goldens_from_json_file("none.json", expected_tool_key_name="x"),
            ConfigurationError,
            "unknown name 'expected_tool_key_name'",
        ),
    ],
)
def test_wrong_use_is_named(wrong: Any, error: type[Exception], message: str) -> None:
    """The message has the culprit."""
    with pytest.raises(error, match=message):
        wrong()


def test_score_can_be_copied() -> None:
    """`measure` returns a number that copies and pickles with its result."""
    score = ToolCorrectnessMetric().measure(shoes())
    for copied in (copy.deepcopy(score), pickle.loads(pickle.dumps(score))):  # noqa: S301 - of this test
        assert copied == 1
        assert copied.result.score == 1


def test_options_may_be_positional() -> None:
    """In DeepEval's order; a model that cannot be asked is refused, also where none is asked."""
    case = shoes()
    case.expected_tools = [ToolCall(name=call.name, input_parameters={"other": 1}) for call in case.tools_called or []]
    metric = ToolCorrectnessMetric(None, 1.0, [ToolCallParams.INPUT_PARAMETERS])

    assert metric.measure(case) == 0
    assert ToolUseMetric(None, 0.7, lambda _: "").threshold == ArgumentCorrectnessMetric(0.7).threshold == 0.7
    with pytest.raises(ConfigurationError, match="a judge must be"):
        ToolCorrectnessMetric(model=[1])  # type: ignore[arg-type]
