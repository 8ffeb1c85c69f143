"""Google's ADK, with the instrumentation of its own, which writes messages into log records."""

from __future__ import annotations

from pathlib import Path

from library_examples import REPORT, load, printed_by
from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.live.otel import as_agent

EXAMPLE = load("live/with_google_adk.py")


def test_goldens_are_asked() -> None:
    """Each call counts once, though its messages and its span name it by different ids."""
    agent = EXAMPLE.make_agent(EXAMPLE.Scripted(model="m-1", calls=2))
    expected = [ToolCall(name="add", input_parameters={"a": 1, "b": 2}, output={"result": 3})] * 2
    goldens = [Golden(input=f"What is 1 + 2, {number}?", expected_tools=expected) for number in range(4)]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"], should_exact_match=True)

    report = evaluate(goldens=goldens, agent=as_agent(agent), metrics=[metric])

    assert report.passed
    run = report.cases[0].case.run
    assert run is not None
    assert (run.input, run.actual_output, run.warnings) == ("What is 1 + 2, 0?", "It is 3.", [])
    assert [call.execution.agent for call in run.calls if call.execution] == ["calculator"] * 2


def test_the_example_is_scored(tmp_path: Path) -> None:
    """As a program."""
    assert REPORT in printed_by("live/with_google_adk.py", tmp_path)
