"""OpenAI Agents, recorded and scored: two turns of a session, a handoff, and a tool that fails.

The agents are the SDK's own, with real tools and a real session; only the model is scripted (no key, no network). A
desk hands over to a booking agent, whose first booking fails and is retried; in the second turn it books the wrong
number of seats. toolgrade compares called and expected tools, turn by turn.

Needs `toolgrade-openai-agents`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from toolgrade import ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.report.terminal import print_report
from toolgrade_openai_agents import record

# --- Tools ------------------------------------------------------------------------------------------------------------

TRIED: list[str] = []


@function_tool
def find_flights(origin: str, destination: str) -> list[str]:
    """Return the flights between two airports."""
    return {("BER", "LIS"): ["TP531", "LH1780"]}.get((origin, destination), [])


@function_tool
def book_flight(flight: str, seats: int) -> str:
    """Book seats; the booking service is down for the first request."""
    if flight not in TRIED:
        TRIED.append(flight)
        message = f"the booking service did not answer for {flight}"
        raise ConnectionError(message)
    return f"{seats} x {flight} booked"


# --- Model: scripted answers ------------------------------------------------------------------------------------------


class ScriptedModel(Model):
    """Returns one scripted answer after the other: a text, or calls by name and arguments."""

    def __init__(self, *answers: Any) -> None:  # noqa: ANN401 - text or calls
        """Store the answers."""
        self.answers = list(answers)
        self.ids = itertools.count(1)

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:  # noqa: ANN401 - the SDK's signature
        """Return the next answer."""
        answer = self.answers.pop(0)
        output: list[Any] = [self.message(answer)] if isinstance(answer, str) else [self.call(*item) for item in answer]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def message(self, text: str) -> ResponseOutputMessage:
        """Return a text as an output item."""
        part = ResponseOutputText(text=text, type="output_text", annotations=[])
        return ResponseOutputMessage(id="m", content=[part], role="assistant", type="message", status="completed")

    def call(self, name: str, arguments: dict[str, Any]) -> ResponseFunctionToolCall:
        """Return a call as an output item."""
        call_id = f"{name}_{next(self.ids)}"
        text = json.dumps(arguments)
        return ResponseFunctionToolCall(call_id=call_id, name=name, arguments=text, type="function_call")

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - the SDK's signature
        """Not used."""
        raise NotImplementedError


PLAN = "Please book the TP531 from Berlin to Lisbon for two."
MORE = "And two more seats on it."

BOOKER = Agent(
    name="Booker",
    tools=[find_flights, book_flight],
    model=ScriptedModel(
        [("find_flights", {"origin": "BER", "destination": "LIS"})],
        [("book_flight", {"flight": "TP531", "seats": 2})],
        [("book_flight", {"flight": "TP531", "seats": 2})],
        "Two seats on TP531 are booked.",
        [("book_flight", {"flight": "TP531", "seats": 1})],
        "Done.",
    ),
)
DESK = Agent(name="Desk", handoffs=[BOOKER], model=ScriptedModel([("transfer_to_booker", {})]))

# --- Expected calls ---------------------------------------------------------------------------------------------------

EXPECTED = {
    PLAN: [
        ToolCall(name="find_flights", input_parameters={"origin": "BER", "destination": "LIS"}),
        ToolCall(name="book_flight", input_parameters={"flight": "TP531", "seats": 2}),
    ],
    MORE: [ToolCall(name="book_flight", input_parameters={"flight": "TP531", "seats": 2})],
}


async def main() -> None:
    """Run the agents, score the two turns, and print the result."""
    set_tracing_disabled(disabled=True)  # no trace leaves the machine
    session = SQLiteSession("trip-1")
    async with record() as recorder:
        first = await Runner.run(DESK, PLAN, session=session)
        await Runner.run(first.last_agent, MORE, session=session)
    session.close()

    cases = [
        run.to_test_case(expected_tools=EXPECTED[run.input or ""], id=f"turn {number}")
        for number, run in enumerate(recorder.runs, start=1)
    ]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=0.8)
    print_report(evaluate(cases, [metric], show_progress=False), title="A booking, handed over")

    (conversation,) = recorder.conversations()
    print(f"\nConversation {conversation.id}:")
    for turn, run in zip(conversation.turns[1::2], recorder.runs, strict=True):
        print(f"  user: {run.input}\n  assistant: {turn.content}")
        for handoff in run.handoffs:
            print(f"    handed over from {handoff.from_agent} to {handoff.to_agent}")
        for call in turn.tools_called or ():
            execution = call.execution
            if execution is not None:
                outcome = execution.error or execution.status.value
                print(f"    {execution.agent}: {call.name} {json.dumps(call.arguments)} {outcome}")


if __name__ == "__main__":
    asyncio.run(main())
