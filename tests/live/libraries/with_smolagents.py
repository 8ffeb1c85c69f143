"""smolagents, instrumented by OpenInference."""

from __future__ import annotations

from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

from toolmark.live.otel import record_spans
from toolmark.testing import AskFor, FakeOpenAI

SmolagentsInstrumentor().instrument()


@tool  # type: ignore[untyped-decorator,unused-ignore] - has no types
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One number.
        b: The other one.
    """
    return a + b


def test_a_run_is_recorded() -> None:
    """With the calls of its tools, and that of the tool which gives the answer."""
    script = ([AskFor("add", {"a": 1, "b": 2}, "c1")], [AskFor("final_answer", {"answer": "It is 3."}, "c2")])
    with FakeOpenAI(*script) as server, record_spans() as recorder:
        model = OpenAIServerModel("m-1", api_base=server.base_url, api_key="none")
        ToolCallingAgent(tools=[add], model=model, verbosity_level=0).run("What is 1 + 2?")

    run = recorder.last_run
    calls = [(call.name, call.input_parameters, call.output) for call in run.tools_called]
    answer = ("final_answer", {"answer": "It is 3."}, "It is 3.")
    assert calls == [("add", {"a": 1, "b": 2}, 3), answer]
    assert (run.input, run.actual_output, run.warnings) == ("New task:\nWhat is 1 + 2?", "It is 3.", [])
    assert [tool.name for tool in run.available_tools or []] == ["add", "final_answer"]
