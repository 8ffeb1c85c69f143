"""Score a crew of CrewAI: the numbered lines. The rest is an agent whose model is scripted.

From a checkout of toolgrade: `pip install crewai openinference-instrumentation-crewai opentelemetry-sdk .`
The variable CREWAI_DISABLE_TELEMETRY=true keeps CrewAI from sending spans of its own.
"""

from collections.abc import Callable

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor  # 1

from toolgrade import ToolCorrectnessMetric, evaluate  # 2
from toolgrade.live.otel import as_agent  # 3
from toolgrade.testing import AskFor, FakeOpenAI

CrewAIInstrumentor().instrument()  # 4


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_agent(url: str) -> Callable[[str], str]:
    """Return a crew that asks the model at a URL."""
    llm = LLM(model="openai/m-1", base_url=url, api_key="none")

    def answer(question: str) -> str:
        calculator = Agent(role="calculator", goal="Add.", backstory="You add.", llm=llm, tools=[tool("add")(add)])
        task = Task(description=question, expected_output="A sum.", agent=calculator)
        return str(Crew(agents=[calculator], tasks=[task]).kickoff())

    return answer


if __name__ == "__main__":
    with FakeOpenAI([AskFor("add", {"a": 1, "b": 2})], "It is 3.") as server:
        agent = make_agent(server.base_url)
        evaluate(goldens="goldens.jsonl", agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).print()  # 5
