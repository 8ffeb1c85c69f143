"""Which tools does an instrumented agent call? Asked while it runs, through its own OpenTelemetry spans.

The agent of this example is a few lines of Python that trace themselves as OpenTelemetry's GenAI conventions say, so
that it runs offline. Pydantic AI, Google's ADK, smolagents and others write such spans themselves or by a package; for
them only the last lines are needed.
"""

import json
from typing import Any

from opentelemetry import trace

from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.live.otel import as_agent
from toolgrade.report.terminal import print_report

TEMPERATURES = {"Paris": 21.5, "Oslo": 9.0}
tracer = trace.get_tracer("weather agent")


def temperature(city: str) -> float:
    """Return the temperature in a city, in a span of its own."""
    with tracer.start_as_current_span("execute_tool temperature") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "temperature")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"city": city}))
        span.set_attribute("gen_ai.tool.call.result", str(TEMPERATURES[city]))
        return TEMPERATURES[city]


def model(question: str) -> list[dict[str, Any]]:
    """Return the calls that a model would ask for; this one forgets the last city of a question."""
    cities = [city for city in TEMPERATURES if city in question]
    calls = [{"type": "tool_call", "name": "temperature", "arguments": {"city": city}} for city in cities[:1]]
    with tracer.start_as_current_span("chat scripted") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        prompt = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
        span.set_attribute("gen_ai.input.messages", json.dumps(prompt))
        span.set_attribute("gen_ai.output.messages", json.dumps([{"role": "assistant", "parts": calls}]))
    return calls


def agent(question: str) -> str:
    """Answer a question."""
    degrees = [temperature(**call["arguments"]) for call in model(question)]
    return " and ".join(f"{value} degrees" for value in degrees)


if __name__ == "__main__":
    goldens = [
        Golden(
            id=" and ".join(cities),
            input=f"How warm is it in {' and '.join(cities)}?",
            expected_tools=[ToolCall(name="temperature", input_parameters={"city": city}) for city in cities],
        )
        for cities in (["Paris"], ["Oslo"], ["Paris", "Oslo"])
    ]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=1)
    print_report(evaluate(goldens=goldens, agent=as_agent(agent), metrics=[metric]), title="weather agent")
