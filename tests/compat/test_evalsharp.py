"""EvalSharp's example in Python's spelling and in C#'s, its three ways to add the metric, and its chat client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic.alias_generators import to_camel, to_snake

from judging import RuleJudge
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.compat.evalsharp import (
    Evaluator,
    EvaluatorTestData,
    ToolCallParamsEnum,
    ToolCorrectnessMetricConfiguration,
)
from toolgrade.compat.evalsharp import ToolCall as EvalSharpCall
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.evaluation import read_results

LOOKUP = ToolCall(name="product_lookup", input_parameters={"product_id": 101})
ADD = ToolCall(name="add_to_cart", input_parameters={"product_id": 101, "quantity": 1})
ROWS = [{"called": [LOOKUP, ADD], "expected": [LOOKUP, ADD]}, {"called": [ADD, LOOKUP], "expected": [LOOKUP, ADD]}]
RECORD = {
    "UserInput": "Look up product 101 and add it to my cart.",
    "LLMOutput": "Done.",
    "ToolsCalled": [
        {"Name": "product_lookup", "InputParameters": {"product_id": 101}},
        {"Name": "add_to_cart", "InputParameters": {"product_id": 101, "quantity": 1}},
    ],
    "ExpectedTools": [{"name": "product_lookup", "input_parameters": {"product_id": 101}}, {"Name": "add_to_cart"}],
}
CASE = LLMTestCase(
    input="Look up product 101 and add it to my cart.",
    actual_output="Done.",
    tools_called=[LOOKUP, ADD],
    expected_tools=[LOOKUP, ToolCall(name="add_to_cart")],
)


class ChatClient:
    """The method of a chat client of Microsoft's Agent Framework, over a judge of the tests."""

    model = "chatty"

    def __init__(self, verdict: str) -> None:
        self.judge = RuleJudge(verdict)

    async def get_response(self, messages: str) -> SimpleNamespace:
        """Return the reply of the judge as the text of an object."""
        text = self.judge([{"role": "system", "content": messages}, {"role": "user", "content": messages}])
        return SimpleNamespace(text=text)


def to_case(row: dict[str, Any]) -> EvaluatorTestData:
    """The case of a row, with the tools that the agent had."""
    return EvaluatorTestData(
        input="Look up product 101 and add it to my cart.",
        tools_called=row["called"],
        expected_tools=row["expected"],
        available_tools=row.get("tools"),
    )


def test_example() -> None:
    """Ordered, with arguments: the second row has one call of two in order."""
    evaluator = Evaluator.from_data(None, ROWS, to_case)
    evaluator.add_tool_correctness(
        should_consider_ordering=True,
        evaluation_params=[ToolCallParamsEnum.INPUT_PARAMETERS, ToolCallParamsEnum.TOOL],
    )
    report = evaluator.run()

    assert [result.score for item in report.cases for result in item.results] == [1, 0.5]


def test_wrong_data_and_metrics_are_refused() -> None:
    """With the item that `map` cannot turn into a case, or the metric."""
    evaluator = Evaluator.from_data(None, [*ROWS, {}], to_case).add_tool_correctness(denominator="longest")
    with pytest.raises(InvalidDataError, match="map raised KeyError on item 2 of the data: 'called'"):
        evaluator.run()
    with pytest.raises(ConfigurationError, match="is not a metric"):
        evaluator.add("tool_correctness")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="should_consider_ordering must be True or False"):
        evaluator.add_tool_correctness("ordered")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="at least one metric"):
        Evaluator.from_data(None, ROWS, to_case).run()


def test_example_as_csharp_writes_it() -> None:
    """Methods, keywords and fields."""
    evaluator = Evaluator.FromData(
        chatClient=None,
        data=[SimpleNamespace(**RECORD)],
        map=lambda c: EvaluatorTestData(ToolsCalled=c.ToolsCalled, ExpectedTools=c.ExpectedTools),
    )
    evaluator.AddToolCorrectness(
        shouldConsiderOrdering=True, evaluationParams=[ToolCallParamsEnum.INPUT_PARAMETERS, ToolCallParamsEnum.TOOL]
    )
    evaluator.AddToolCorrectnessExactMatch(threshold=0.7, evaluationParams=None)
    report = asyncio.run(evaluator.RunAsync())

    assert report.metrics == ("tool_correctness(ordered, input_parameters)", "tool_correctness(exact)")
    assert [(result.score, result.threshold) for result in report.cases[0].results] == [(1, 0.5), (1, 0.7)]


@pytest.mark.parametrize(
    "data",
    [
        [RECORD],
        [json.dumps(RECORD)],
        json.dumps([RECORD]),
        [EvaluatorTestData(**RECORD)],
        [EvaluatorTestData.from_json(json.dumps(RECORD))],
        [{"InitialInput": RECORD["UserInput"], **{name: RECORD[name] for name in RECORD if name != "UserInput"}}],
        [{to_snake(name): value for name, value in RECORD.items()}],
        [{to_camel(to_snake(name)): value for name, value in RECORD.items()}],
    ],
    ids=["objects", "texts", "text", "keywords", "from_json", "initial-input", "snake_case", "camelCase"],
)
def test_records_in_either_spelling(data: Any, tmp_path: Path) -> None:
    """They are toolgrade's own cases, which files of results can hold."""
    report = Evaluator.from_data(None, data).add_tool_correctness().run()
    report_of_file = evaluate([report.cases[0].case], [ToolCorrectnessMetric()], results=tmp_path / "results.jsonl")

    assert (report.cases[0].case, type(report.cases[0].case)) == (CASE, LLMTestCase)
    assert report_of_file.passed
    assert read_results(tmp_path / "results.jsonl").cases[0].case == CASE


def test_calls_in_either_spelling() -> None:
    """By keywords, as an object and as JSON text."""
    fields = {"Name": "product_lookup", "InputParameters": {"product_id": 101}}
    made = [EvalSharpCall(**fields), EvalSharpCall.model_validate(fields), EvalSharpCall.from_json(json.dumps(fields))]

    assert [call.to_dict() for call in made] == [LOOKUP.to_dict()] * 3
    assert EvalSharpCall(name="a", Output=None).model_fields_set == {"name", "output"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ToolsCalled": [], "tools_called": []}, "'tools_called' repeats 'tools_called' in another spelling"),
        ({"ToolsCaled": []}, "unknown field 'ToolsCaled'; did you mean 'tools_called'"),
        ({"ToolsCalled": [{"Nam": "a"}]}, r"\$\.tools_called\[0\]\.name: is required"),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    """With their paths; no value wins over another one."""
    with pytest.raises(InvalidDataError, match=message):
        EvaluatorTestData(**fields)


def test_configuration_has_the_defaults_of_the_page() -> None:
    """All six; they can be set later, as in C#."""
    config = ToolCorrectnessMetricConfiguration()

    assert dict(config) == {
        "should_consider_ordering": False,
        "evaluation_params": [ToolCallParamsEnum.TOOL],
        "should_exact_match": False,
        "threshold": 0.5,
        "include_reason": True,
        "strict_mode": False,
    }
    config.threshold = 0.8
    assert Evaluator.from_data(None, [CASE]).add_tool_correctness(config).run().cases[0].results[0].threshold == 0.8


@pytest.mark.parametrize(
    ("options", "label", "score"),
    [
        ({}, "tool_correctness", 1),
        ({"ShouldConsiderOrdering": True}, "tool_correctness(ordered)", 0.5),
        ({"ShouldExactMatch": True, "ShouldConsiderOrdering": True}, "tool_correctness(exact)", 0),
        ({"EvaluationParams": ["INPUT_PARAMETERS", "OUTPUT"]}, "tool_correctness(input_parameters, output)", 1),
        ({"should_consider_ordering": True, "StrictMode": True}, "tool_correctness(ordered, strict)", 0),
        ({"IncludeReason": False}, "tool_correctness", 1),
    ],
)
def test_configuration(options: dict[str, Any], label: str, score: float) -> None:
    """It is the only argument, positional or by name, and every option takes effect."""
    config = ToolCorrectnessMetricConfiguration(**options)
    evaluator = Evaluator.from_data(None, ROWS[1:], to_case)
    report = evaluator.add_tool_correctness(config).AddToolCorrectness(config=config).run()

    assert report.metrics == (label, f"{label} #2")
    for result in report.cases[0].results:
        assert (result.score, result.reason is None) == (score, options.get("IncludeReason") is False)


@pytest.mark.parametrize("options", [{"threshold": 0.9}, {"should_consider_ordering": True}])
def test_configuration_excludes_other_options(options: dict[str, Any]) -> None:
    """None of them would take effect."""
    with pytest.raises(ConfigurationError, match="must be the only argument"):
        Evaluator.from_data(None, []).add_tool_correctness(config=ToolCorrectnessMetricConfiguration(), **options)


@pytest.mark.parametrize("client", [None, RuleJudge("no"), "gpt-4.1"])
def test_without_available_tools_nothing_is_judged(client: Any) -> None:
    """No warning and no other label: EvalSharp's metric asks no model either."""
    report = Evaluator.from_data(client, [CASE]).add_tool_correctness().run()

    assert report.metrics == ("tool_correctness",)
    assert (report.cases[0].results[0].score, report.cases[0].results[0].warnings) == (1, ())


@pytest.mark.parametrize(("verdict", "score"), [("yes", 1.0), ("no", 0.0)])
def test_chat_client_judges_the_selection(verdict: str, score: float) -> None:
    """Of cases with available tools, in every metric that has no judge of its own."""
    row = {"called": [LOOKUP], "expected": [LOOKUP], "tools": [{"name": "product_lookup", "description": "Looks up."}]}
    own = ToolCorrectnessMetric(judge=RuleJudge("yes"))
    report = Evaluator.from_data(ChatClient(verdict), [row], to_case).add_tool_correctness().add(own).run()

    (item,) = report.cases
    assert [result.score for result in item.results] == [score, 1.0]
    assert item.results[0].judge is not None
    assert item.results[0].judge["model"] == "chatty"


def test_object_that_cannot_judge_is_refused() -> None:
    """When the evaluator is made, and not when it runs."""
    with pytest.raises(ConfigurationError, match="a judge must be"):
        Evaluator.from_data(object(), ROWS, to_case)
