"""Score a module of DSPy: the numbered lines. The rest is an agent whose model is scripted.

From a checkout of toolgrade: `pip install dspy openinference-instrumentation-dspy opentelemetry-sdk .`
"""

import dspy
from dspy.utils import DummyLM
from openinference.instrumentation.dspy import DSPyInstrumentor  # 1

from toolgrade import ToolCorrectnessMetric, evaluate  # 2
from toolgrade.live.otel import as_agent  # 3

DSPyInstrumentor().instrument()  # 4

REPLIES = [
    {"next_thought": "I add.", "next_tool_name": "add", "next_tool_args": {"a": 1, "b": 2}},
    {"next_thought": "Done.", "next_tool_name": "finish", "next_tool_args": {}},
    {"reasoning": "1 + 2 = 3", "answer": "It is 3."},
]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def answer(question: str) -> str:
    """Answer with an agent."""
    return str(dspy.ReAct("question -> answer", tools=[add])(question=question).answer)


if __name__ == "__main__":
    dspy.configure(lm=DummyLM(REPLIES))
    evaluate(goldens="goldens.jsonl", agent=as_agent(answer), metrics=[ToolCorrectnessMetric()]).print()  # 5
