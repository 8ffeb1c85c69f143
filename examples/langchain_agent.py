"""A LangChain agent, recorded and scored turn by turn, offline (`make demo`).

The agent is LangChain's `create_agent` with real tools; only the model is scripted (no key, no network). In three turns
of one conversation it looks up two things in parallel, books a flight whose booking fails at first, and books the wrong
number of seats. toolgrade prints the comparison of called and expected tools, and writes the report to
`toolgrade-demo-report.json` and `toolgrade-demo-report.html` in the current folder.

Needs `toolgrade-langchain`, `langchain` and `langgraph`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver

from toolgrade import ToolCall, ToolCallParams, ToolCorrectnessMetric, evaluate
from toolgrade.report.html import write_html
from toolgrade.report.terminal import print_report
from toolgrade_langchain import ToolCallRecorder

# --- Tools ------------------------------------------------------------------------------------------------------------

FLIGHTS = {("BER", "LIS"): ["TP531", "LH1780"], ("LIS", "BER"): ["TP530"]}
TRIED: list[str] = []


@tool
def find_flights(origin: str, destination: str, date: str) -> list[str]:
    """Return the flights between two airports on a day."""
    return [f"{flight} on {date}" for flight in FLIGHTS.get((origin, destination), [])]


@tool
def weather(city: str) -> str:
    """Return the forecast for a city."""
    return {"Lisbon": "24 degrees, sunny"}.get(city, "unknown")


@tool
def book_flight(flight: str, seats: int) -> str:
    """Book seats; the booking service is down for the first request of each flight."""
    if flight not in TRIED:
        TRIED.append(flight)
        message = f"the booking service did not answer for {flight}"
        raise ToolException(message)
    return f"{seats} x {flight} booked"


book_flight.handle_tool_error = True  # the model sees the error and may retry

# --- Model: a chat model with scripted answers ------------------------------------------------------------------------


class ScriptedModel(BaseChatModel):
    """Answers each question with the steps of its script: calls, and at the end a text."""

    script: dict[str, list[Any]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:  # noqa: ANN401 - the framework's signature
        """Bind the tools in the form of OpenAI's models, so that the recorder sees them."""
        return self.bind(tools=[convert_to_openai_tool(item) for item in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: Any = None,  # noqa: ANN401, ARG002 - the framework's signature
        run_manager: Any = None,  # noqa: ANN401, ARG002
        **_: Any,  # noqa: ANN401
    ) -> ChatResult:
        question_at = max(index for index, message in enumerate(messages) if isinstance(message, HumanMessage))
        answered = sum(isinstance(message, AIMessage) for message in messages[question_at:])
        answer = self.script[str(messages[question_at].content)][answered]
        if isinstance(answer, str):
            message = AIMessage(answer)
        else:
            calls = [
                {"name": name, "args": arguments, "id": f"call_{question_at}_{answered}_{index}"}
                for index, (name, arguments) in enumerate(answer)
            ]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


PLAN = "I want to fly from Berlin to Lisbon on 3 May. What is there, and how will the weather be?"
BOOK = "Book the TP531 for two people."
BACK = "And the same back on 10 May, please."

SCRIPT: dict[str, list[Any]] = {
    PLAN: [
        [
            ("find_flights", {"origin": "BER", "destination": "LIS", "date": "2026-05-03"}),
            ("weather", {"city": "Lisbon"}),
        ],
        "There are TP531 and LH1780; expect 24 degrees and sun.",
    ],
    BOOK: [
        [("book_flight", {"flight": "TP531", "seats": 2})],
        [("book_flight", {"flight": "TP531", "seats": 2})],
        "Two seats on TP531 are booked.",
    ],
    BACK: [
        [("find_flights", {"origin": "LIS", "destination": "BER", "date": "2026-05-10"})],
        [("book_flight", {"flight": "TP530", "seats": 1})],
        [("book_flight", {"flight": "TP530", "seats": 1})],
        "Booked.",
    ],
}

# --- Expected calls ---------------------------------------------------------------------------------------------------


def expect(name: str, **arguments: Any) -> ToolCall:  # noqa: ANN401 - arguments of any kind
    """Return an expected call with these arguments."""
    return ToolCall(name=name, input_parameters=arguments)


EXPECTED = {
    PLAN: [
        expect("find_flights", origin="BER", destination="LIS", date="2026-05-03"),
        expect("weather", city="Lisbon"),
    ],
    BOOK: [expect("book_flight", flight="TP531", seats=2)],
    BACK: [
        expect("find_flights", origin="LIS", destination="BER", date="2026-05-10"),
        expect("book_flight", flight="TP530", seats=2),
    ],
}


def main() -> None:
    """Run the agent, score its turns, and print the result."""
    recorder = ToolCallRecorder()
    agent = create_agent(
        ScriptedModel(script=SCRIPT), [find_flights, weather, book_flight], checkpointer=InMemorySaver()
    )
    config: Any = {"callbacks": [recorder], "configurable": {"thread_id": "trip-1"}}
    for question in SCRIPT:
        agent.invoke({"messages": [("user", question)]}, config)

    cases = [
        run.to_test_case(expected_tools=EXPECTED[run.input or ""], id=f"turn {number}")
        for number, run in enumerate(recorder.runs, start=1)
    ]
    metric = ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS], threshold=0.8)
    report = evaluate(cases, [metric], show_progress=False)
    title = "A trip, booked by an agent"
    print_report(report, title=title)

    path = Path("toolgrade-demo-report.json")
    path.write_text(report.to_json(indent=2) + "\n", encoding="utf-8")
    print(f"\nThe report with every finding: {path}")
    page = path.with_suffix(".html")
    write_html(page, report, title=title)
    print(f"The same to read in a browser: {page}")

    (conversation,) = recorder.conversations()
    print(f"\nConversation {conversation.id}:")
    for turn in conversation.turns:
        called = ", ".join(
            f"{call.name} ({call.execution.status.value})" for call in turn.tools_called or () if call.execution
        )
        print(f"  {turn.role}: {turn.content}" + (f"  [{called}]" if called else ""))


if __name__ == "__main__":
    main()
