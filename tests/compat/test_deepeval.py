"""DeepEval's names, arguments and models; `tests/project/test_source_pages.py` runs the examples of its pages."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import toolgrade.cases
from judging import RuleJudge
from toolgrade import MissingFieldError, read_cases, write_cases
from toolgrade.compat.deepeval import evaluate
from toolgrade.compat.deepeval.dataset import EvaluationDataset, Golden
from toolgrade.compat.deepeval.metrics import (
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
from toolgrade.errors import ConfigurationError, ToolgradeWarning

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


def test_environment_asks_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an explicit model the environment changes no score; a warning tells that selection was not judged."""
    monkeypatch.setenv("TOOLGRADE_JUDGE_MODEL", "gpt-none")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    result = ToolCorrectnessMetric(available_tools=SEARCH).measure(shoes())
    assert result.score == 1
    assert result.judge is None


def test_two_names_of_one_option() -> None:
    """A judge and a model together are an error."""
    with pytest.raises(ConfigurationError, match="judge and model are two names of one option"):
        ToolCorrectnessMetric(judge=DeepEvalLLM(), model=DeepEvalLLM())


def test_model_that_returns_no_text() -> None:
    """A model that returns something else than text fails the result; it never counts as a verdict."""

    class Wrong(DeepEvalLLM):
        def generate(self, prompt: str) -> Any:
            return len(prompt) * 0

    report = evaluate([conversation()], [ToolUseMetric(available_tools=SEARCH, model=Wrong())])
    [result] = report.cases[0].results
    assert result.score is None
    assert "must return a str, got int 0" in str(result.reason)


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


def test_unread_field_is_mentioned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first use of a field that no metric reads is a warning at the caller's line; the second is silent."""
    monkeypatch.setattr(toolgrade.cases, "_announced", set())
    text = "^context is stored with its case, but no metric of toolgrade reads it$"
    with pytest.warns(ToolgradeWarning, match=text) as warned:
        LLMTestCase(context=["a"])
    assert [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LLMTestCase(context=["b"])
        LLMTestCase(comments=None)


def test_dataset(tmp_path: Path) -> None:
    """A dataset collects goldens and cases, which `evaluate` takes and files hold."""
    dataset = EvaluationDataset(goldens=[Golden(input="Hi")])
    dataset.add_golden(Golden(input="Bye"))
    dataset.add_test_case(LLMTestCase(name="shoes", tools_called=SEARCH, expected_tools=SEARCH))
    assert [golden.input for golden in dataset.goldens] == ["Hi", "Bye"]
    assert evaluate(test_cases=dataset.test_cases, metrics=[ToolCorrectnessMetric()]).passed
    write_cases(tmp_path / "cases.jsonl", dataset.test_cases)
    assert read_cases(tmp_path / "cases.jsonl") == dataset.test_cases


def test_images_are_refused() -> None:
    """A DeepEvalBaseLLM takes text: a case with an image is not judged, and nothing is sent."""
    model = DeepEvalLLM()
    case = MLLMTestCase(
        input=["What?", MLLMImage(data=b"\x89PNG\r\n\x1a\n" + bytes(16), mime_type="image/png")],
        tools_called=SEARCH,
        expected_tools=SEARCH,
    )
    [result] = evaluate([case], [ToolCorrectnessMetric(available_tools=SEARCH, model=model)]).cases[0].results
    assert result.score is None
    assert "takes no images" in str(result.reason)
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
    """A case scores the same with images, with other images, and as plain text, and as the plain metric scores it."""
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
    plain = ToolCorrectnessMetric(**options).measure(cases[-1])
    for case in cases:
        result = MultimodalToolCorrectnessMetric(**options).measure(case)
        assert result == plain.renamed(result.metric)
        assert result.metric == plain.metric.replace("tool_correctness", "multimodal_tool_correctness")


def test_missing_side_names_this_metric() -> None:
    """The error names the called metric."""
    with pytest.raises(MissingFieldError, match=r"^MultimodalToolCorrectnessMetric needs tools_called"):
        MultimodalToolCorrectnessMetric().measure(MLLMTestCase(expected_tools=[]))
