"""The examples of five documentation pages of other libraries, as a reader would type them, with the import changed.

What needs a judge asks a server on this machine, to which the environment points.
"""

import inspect
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from judging import RuleJudge, needs_openai, served
from toolgrade import ToolCallParams
from toolgrade.compat.deepeval.metrics import MultimodalToolCorrectnessMetric, ToolCorrectnessMetric, ToolUseMetric
from toolgrade.compat.evalsharp import Evaluator
from toolgrade.compat.gllm_evals import DeepEvalToolCorrectnessMetric, ToolCallParser, TrajectoryParser
from toolgrade.errors import NotMeasuredError
from toolgrade.testing import FakeOpenAI

PAGE_000 = """
from deepeval import evaluate
from deepeval.test_case import LLMTestCase, ToolCall
from deepeval.metrics import ToolCorrectnessMetric

test_case = LLMTestCase(
    input="What if these shoes don't fit?",
    actual_output="We offer a 30-day full refund at no extra cost.",
    # Replace this with the tools that was actually used by your LLM agent
    tools_called=[ToolCall(name="WebSearch"), ToolCall(name="ToolQuery")],
    expected_tools=[ToolCall(name="WebSearch")],
)
metric = ToolCorrectnessMetric()
"""

PAGE_001 = """
import asyncio
from types import SimpleNamespace as TType
from toolgrade.compat.evalsharp import Evaluator, EvaluatorTestData, ToolCall, ToolCallParamsEnum
from toolgrade.compat.evalsharp import ToolCorrectnessMetricConfiguration

class ChatClient:
    GetInstance = classmethod(lambda cls: cls())
    async def get_response(self, messages):
        raise AssertionError("nothing is to be judged")

# 1) Prepare your data
cases = [
    TType(
        UserInput="Look up product 101 and add it to my cart.",
        LLMOutput='{"tool": "product_lookup"} -> {"tool": "add_to_cart"}',
        ToolsCalled=[
            ToolCall(Name="product_lookup", InputParameters={"product_id": 101}),
            ToolCall(Name="add_to_cart", InputParameters={"product_id": 101, "quantity": 1}),
        ],
        ExpectedTools=[
            ToolCall(Name="product_lookup", InputParameters={"product_id": 101}),
            ToolCall(Name="add_to_cart", InputParameters={"product_id": 101, "quantity": 1}),
        ],
    )
]

# 2) Create evaluator, mapping your case to EvaluatorTestData
evaluator = Evaluator.FromData(
    ChatClient.GetInstance(),
    cases,
    lambda c: EvaluatorTestData(ToolsCalled=c.ToolsCalled, ExpectedTools=c.ExpectedTools),
)

# 3) Add metric and run
evaluator.AddToolCorrectness(
    shouldConsiderOrdering=True, evaluationParams=[ToolCallParamsEnum.INPUT_PARAMETERS, ToolCallParamsEnum.TOOL]
)
"""

PAGE_002 = """
from deepeval.test_case import Turn, ConversationalTestCase, ToolCall

convo_test_case = ConversationalTestCase(
    turns=[
        Turn(role="user", content="What is the weather in Lisbon?"),
        Turn(role="assistant", content="Sunny.", tools_called=[ToolCall(name="weather")])
    ],
)
"""

PAGE_003 = """
import asyncio
from gllm_evals import DeepEvalToolCorrectnessMetric

metric = DeepEvalToolCorrectnessMetric(
    model_credentials="your-api-key",
    available_tools=[
        {"name": "data_checker", "description": "Runs a query.", "parameters": {"type": "object"}},
        {"name": "calculator", "description": "Calculates.", "parameters": {"type": "object"}},
    ]
)
trajectory = [
    {"role": "user", "content": "What is the average sales amount..."},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{
            "id": "call_1",
            "type": "function",
            "function": {
                "name": "data_checker",
                "arguments": '{"query": "SELECT AVG(amount) as avg_sales FROM orders LIMIT 1"}'
            }
        }]
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '[{"avg_sales": 250.50}]'},
    {"role": "assistant", "content": "Based on the data, the average sales amount is $250.50."}
]

async def with_trajectories():
    result = await metric.measure(
        query="What is the average sales amount in the orders table?",
        agent_trajectory=trajectory,
        expected_agent_trajectory=trajectory,  # Same structure
        generated_response="Based on the data, the average sales amount is $250.50.",
        expected_response="The average sales amount in the orders table is $250.50."
    )
    print(result.score, result.reason)

async def with_tools_called():
    result = await metric.measure(
        query="What is 15 plus 27?",
        tools_called=[
            {"name": "calculator", "args": {"expression": "15 + 27"}, "output": "42"}
        ],
        expected_tools=[
            {"name": "calculator", "args": {"expression": "15 + 27"}, "output": "42"}
        ],
        generated_response="15 plus 27 equals 42.",
        expected_response="15 plus 27 equals 42."
    )
    print(result.score, result.reason)

asyncio.run(with_trajectories())
asyncio.run(with_tools_called())
"""

PAGE_004 = """
from deepeval.metrics import MultimodalToolCorrectnessMetric
from deepeval.test_case import MLLMTestCase, ToolCall

test_case = MLLMTestCase(
    input="What's in this image?",
    actual_output="The image shows a pair of running shoes.",
    # Replace this with the tools that was actually used by your LLM agent
    tools_called=[ToolCall(name="ImageAnalysis"), ToolCall(name="ToolQuery")],
    expected_tools=[ToolCall(name="ImageAnalysis")],
)

metric = MultimodalToolCorrectnessMetric()
metric.measure(test_case)
print(metric.score)
print(metric.reason)
"""

STANDALONE = """
metric.measure(test_case)
print(metric.score, metric.reason)
"""
COMPONENTS = """
from deepeval import evaluate
from deepeval.test_case import LLMTestCase, ToolCall
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.dataset import Golden
from deepeval.tracing import observe, update_current_span

metric = ToolCorrectnessMetric()

@observe(metrics=[metric])
def inner_component():
    # Set test case at runtime
    test_case = LLMTestCase(input="...", actual_output="...")
    update_current_span(test_case=test_case)
    return

@observe
def llm_app(input: str):
    inner_component()
    return

report = evaluate(observed_callback=llm_app, goldens=[Golden(input="Hi!")])
"""
EVALUATE = """
evaluate(test_cases=[test_case], metrics=[metric])
"""
REASON = "1 matched / 1 expected = 1 (passed at 0.5).\nUnexpected: called #2 'ToolQuery'."


def run(text: str, folder: Path) -> dict[str, Any]:
    """Run an example with changed imports; return its names."""
    text = re.sub(r"^from (deepeval|gllm_evals)\b", r"from toolgrade.compat.\1", text, flags=re.MULTILINE)
    path = folder / "example.py"
    path.write_text(text, encoding="utf-8")
    return runpy.run_path(str(path))


def defaults(function: Any) -> dict[str, Any]:
    """The parameters of a function with their defaults."""
    parameters = inspect.signature(function).parameters.items()
    return {name: parameter.default for name, parameter in parameters if name != "self"}


def on_this_machine(patch: pytest.MonkeyPatch, server: FakeOpenAI) -> None:
    """What a user sets so that OpenAI's client asks another server."""
    patch.setenv("OPENAI_BASE_URL", server.base_url)
    patch.delenv("OPENAI_API_KEY", raising=False)


# 000: tool correctness


def test_page_000_standalone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`metric.measure(test_case)`, then `metric.score` and `metric.reason`."""
    names = run(PAGE_000 + STANDALONE, tmp_path)

    assert capsys.readouterr().out == f"1.0 {REASON}\n"
    assert names["metric"].score == 1
    assert names["metric"].success


def test_page_000_end_to_end(tmp_path: Path) -> None:
    """`evaluate(test_cases=[...], metrics=[...])`, whose result is a report."""
    names = run(PAGE_000 + EVALUATE.replace("evaluate(", "report = evaluate("), tmp_path)

    assert names["report"].passed
    assert names["report"].cases[0].results[0].reason == REASON
    assert [summary.mean for summary in names["report"].summaries] == [1]


def test_page_000_components(tmp_path: Path) -> None:
    """The page's case has no tools, so its component fails, and the program runs; with tools it passes."""
    [without] = run(COMPONENTS, tmp_path)["report"].test_results
    tools = 'actual_output="...", tools_called=[ToolCall(name="a")], expected_tools=[ToolCall(name="a")]'
    [result] = run(COMPONENTS.replace('actual_output="..."', tools), tmp_path)["report"].test_results

    assert (without.name, without.success, without.metrics_data[0].score) == ("inner_component", False, None)
    assert "needs expected_tools" in without.metrics_data[0].error
    assert (result.success, result.metrics_data[0].score) == (True, 1)


def test_page_000_options() -> None:
    """The eight options exist, with the page's defaults; flags may be 0 and 1."""
    options = defaults(ToolCorrectnessMetric)

    for name, default in {
        "available_tools": None,
        "threshold": 0.5,
        "include_reason": True,
        "strict_mode": False,
        "verbose_mode": False,
        "should_consider_ordering": False,
        "should_exact_match": False,
    }.items():
        assert options[name] == default, name
    assert set(options["evaluation_params"]) <= {ToolCallParams.TOOL}
    assert not ToolCorrectnessMetric(evaluation_params=[]).evaluation_params
    flags = ToolCorrectnessMetric(strict_mode=1, include_reason=0, should_exact_match=1, should_consider_ordering=0)
    assert (flags.strict_mode, flags.threshold, flags.include_reason) == (True, 1, False)
    assert flags.as_metric().label == "tool_correctness(exact, strict)"


ORDERING = """
from deepeval.metrics import {metric}
from deepeval.test_case import {case}, ToolCall

expected_tools=[ToolCall(name="{first}"), ToolCall(name="ToolQuery"), ToolCall(name="{first}")]
tools_called=[ToolCall(name="{first}"), ToolCall(name="{first}"), ToolCall(name="ToolQuery")]
test_case = {case}(expected_tools=expected_tools, tools_called=tools_called)
metric = {metric}(should_consider_ordering=True)
result = metric.measure(test_case)
"""


@pytest.mark.parametrize(
    ("case", "metric", "first", "score", "passed"),
    [
        ("LLMTestCase", "ToolCorrectnessMetric", "WebSearch", 2 / 3, True),
        ("MLLMTestCase", "MultimodalToolCorrectnessMetric", "ImageAnalysis", 0, False),
    ],
    ids=["page-000", "page-004"],
)
def test_the_example_of_an_ordering(
    tmp_path: Path, case: str, metric: str, first: str, score: float, passed: bool
) -> None:
    """One page calls it correct: it passes with 2/3. Another calls it incorrect: it fails. Both find what is late."""
    result = run(ORDERING.format(case=case, metric=metric, first=first), tmp_path)["result"]

    assert (result.score, result.passed) == (score, passed)
    assert f"Out of order: expected #3 '{first}' was called as #2." in result.reason


# 001: the fluent form


@pytest.mark.parametrize("run_line", ["evaluator.run()", "asyncio.run(evaluator.RunAsync())"])
def test_page_001_runs(tmp_path: Path, run_line: str) -> None:
    """C#'s names, as keywords and of methods; the chat client is not asked."""
    report = run(f"{PAGE_001}result = {run_line}\n", tmp_path)["result"]

    assert report.passed
    assert report.metrics == ("tool_correctness(ordered, input_parameters)",)
    assert report.summaries[0].mean == 1


def test_page_001_options() -> None:
    """The page's methods take its options, in its order and with its defaults."""
    first = {"should_consider_ordering": False, "threshold": 0.5, "evaluation_params": None}
    exact = defaults(Evaluator.add_tool_correctness_exact_match)

    assert list(defaults(Evaluator.add_tool_correctness).items())[:3] == list(first.items())
    assert list(exact.items()) == list(first.items())[1:]


def test_page_001_takes_a_configuration(tmp_path: Path) -> None:
    """The page's third method."""
    config = "ToolCorrectnessMetricConfiguration(ShouldExactMatch=True, ShouldConsiderOrdering=True)"
    report = run(f"{PAGE_001}result = evaluator.AddToolCorrectness({config}).run()\n", tmp_path)["result"]

    assert report.metrics[1] == "tool_correctness(exact)"


# 002: a conversation


METRIC_002 = """
from deepeval import evaluate
from deepeval.metrics import ToolUseMetric

metric = ToolUseMetric(threshold=0.5)
"""
AVAILABLE_002 = METRIC_002.replace("threshold=0.5", 'available_tools=[ToolCall(name="weather")]')


@needs_openai
def test_page_002_standalone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`metric.measure(convo_test_case)`, judged by the model that the environment names."""
    judge = RuleJudge({"arguments": "no"})
    with FakeOpenAI(answer=served(judge)) as server:
        on_this_machine(monkeypatch, server)
        monkeypatch.setenv("TOOLGRADE_JUDGE_MODEL", "gpt-4o")
        names = run(PAGE_002 + AVAILABLE_002 + STANDALONE.replace("test_case", "convo_test_case"), tmp_path)

    assert capsys.readouterr().out.startswith("0.0 min(selection 1, arguments 0) = 0 (failed at 0.5).")
    assert names["metric"].result.judge["model"] == "gpt-4o"
    assert judge.criteria == ["arguments", "missing_calls", "tool_selection"]
    assert {request.body["model"] for request in server.requests} == {"gpt-4o"}


@needs_openai
def test_page_002_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`model=` names one of OpenAI's models, as on the page."""
    with FakeOpenAI(answer=served(RuleJudge("yes"))) as server:
        on_this_machine(monkeypatch, server)
        text = AVAILABLE_002.replace("ToolUseMetric(", 'ToolUseMetric(model="gpt-4o-mini", ')
        names = run(PAGE_002 + text + "result = metric.measure(convo_test_case)", tmp_path)

    assert (names["result"].score, names["result"].judge["model"]) == (1, "gpt-4o-mini")


@needs_openai
def test_page_002_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's example lacks the tools that it calls mandatory: the called ones stand for them, with a warning."""
    end = "report = evaluate(test_cases=[convo_test_case], metrics=[metric])"
    with FakeOpenAI(answer=served(RuleJudge("yes"))) as server:
        on_this_machine(monkeypatch, server)
        (result,) = run(PAGE_002 + METRIC_002 + end, tmp_path)["report"].cases[0].results
        assert (result.score, result.judge["model"]) == (1, "gpt-4o")
        assert "judged among the tools that were called" in result.warnings[0]
        assert run(PAGE_002 + AVAILABLE_002 + end, tmp_path)["report"].passed


def test_page_002_options() -> None:
    """All seven, with the page's defaults; the model is `gpt-4o` unless it is named."""
    assert {
        "available_tools": None,
        "threshold": 0.5,
        "model": None,
        "include_reason": True,
        "async_mode": True,
        "strict_mode": False,
        "verbose_mode": False,
    }.items() <= defaults(ToolUseMetric).items()
    assert list(defaults(ToolUseMetric))[:3] == ["available_tools", "threshold", "model"]
    assert ToolUseMetric().evaluation_model == "gpt-4o"


@needs_openai
def test_page_000_with_available_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the available tools `gpt-4o` is asked, and the score is the lower one of calling and selection."""
    rule = RuleJudge(lambda _, document: "no" if document.get("call", {}).get("name") == "ToolQuery" else "yes")
    tools = '[ToolCall(name="WebSearch"), ToolCall(name="ToolQuery")]'
    text = PAGE_000.replace("Metric()", f"Metric(available_tools={tools})")
    with FakeOpenAI(answer=served(rule)) as server:
        on_this_machine(monkeypatch, server)
        names = run(text + EVALUATE.replace("evaluate(", "report = evaluate("), tmp_path)

    (result,) = names["report"].cases[0].results
    assert (result.score, result.parts["calling"], result.parts["selection"]) == (0.5, 1, 0.5)
    assert {request.body["model"] for request in server.requests} == {"gpt-4o"}
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(NotMeasuredError, match="no key for 'gpt-4o'"):
        run(text + STANDALONE, tmp_path)


def test_page_002_builds_its_conversation(tmp_path: Path) -> None:
    """`ConversationalTestCase` with `Turn` and `ToolCall`."""
    case = run(PAGE_002, tmp_path)["convo_test_case"]

    assert [turn.role for turn in case.turns] == ["user", "assistant"]
    assert case.turns[0].tools_called is None
    assert [call.name for call in case.turns[1].tools_called] == ["weather"]
    assert type(case).from_json(case.to_json()) == case


# 003: records and trajectories


@needs_openai
def test_page_003_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With trajectories and with lists of tools; the selection is judged by the page's model, with its key."""
    with FakeOpenAI(answer=served(RuleJudge("yes"))) as server:
        on_this_machine(monkeypatch, server)
        run(PAGE_003, tmp_path)

    assert capsys.readouterr().out == 2 * (
        "1.0 min(calling 1, selection 1) = 1 (passed at 0.5).\n"
        "Calling: 1 matched / 1 expected = 1.\n"
        "Selection: 1 yes / (1 yes + 0 no) = 1.\n"
    )
    assert {request.body["model"] for request in server.requests} == {"gpt-4.1"}
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer your-api-key"}


def test_page_003_options() -> None:
    """All twelve, with the page's defaults."""
    options = defaults(DeepEvalToolCorrectnessMetric)

    assert options == {
        "threshold": 0.5,
        "model": "openai/gpt-4.1",
        "model_credentials": None,
        "model_config": None,
        "include_reason": True,
        "strict_mode": False,
        "should_exact_match": False,
        "should_consider_ordering": False,
        "available_tools": None,
        "evaluation_params": None,
        "batch_status_check_interval": 30.0,
        "batch_max_iterations": 120,
    }
    assert list(options)[:3] == ["threshold", "model", "model_credentials"]


def test_page_003_parsers() -> None:
    """A trajectory becomes steps, steps become tool calls, and random suffixes go."""
    call = {"id": "c", "type": "function", "function": {"name": "ask_sql_agent_xg7c", "arguments": '{"q": 1}'}}
    trajectory = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
    ]
    steps = TrajectoryParser().convert_trajectory_to_steps(trajectory)
    parser = ToolCallParser()

    assert steps == TrajectoryParser().parse(trajectory)
    assert {step["tool_call_id"] for step in steps} == {"c"}
    assert all({"tool_call_id", "kind", "name", "args"} <= step.keys() for step in steps)
    assert parser.normalize_tool_name("delegate_to_sql_query_agent_xg7c") == "delegate_to_sql_query_agent"
    assert parser.normalize_tool_name("read_data") == "read_data"
    (entry,) = parser.create_tool_call_object(steps, normalize_names=False)
    assert (entry.name, entry.input_parameters) == ("ask_sql_agent_xg7c", {"q": 1})
    (bare,) = parser.create_tool_call_object(steps, normalize_names=False, include_output=False)
    assert "output" not in json.loads(bare.to_json())


# 004: multimodal tool correctness


def test_page_004_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Score and reason, one a line."""
    run(PAGE_004, tmp_path)

    assert capsys.readouterr().out == f"1.0\n{REASON}\n"


def test_page_004_options() -> None:
    """All seven, with the page's defaults."""
    options = defaults(MultimodalToolCorrectnessMetric)

    assert set(options.pop("evaluation_params")) <= {ToolCallParams.TOOL}
    assert options == {
        "threshold": 0.5,
        "include_reason": True,
        "strict_mode": False,
        "verbose_mode": False,
        "should_consider_ordering": False,
        "should_exact_match": False,
    }
