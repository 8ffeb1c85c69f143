"""An agent without a framework, scored by its messages.

The agent is a plain Python loop around a chat model. The model is scripted (no key, no network), the tools are real
functions, and the messages are OpenAI chat messages, as any provider's client sends them. toolgrade reads these
messages, compares called and expected tools, and prints the comparison.
"""

from __future__ import annotations

import json
from typing import Any

from toolgrade import LLMTestCase, Report, ToolCall, ToolCallParams, ToolCorrectnessMetric, evaluate, run_from_messages
from toolgrade.report.terminal import print_report

Message = dict[str, Any]

# --- Tools ------------------------------------------------------------------------------------------------------------

FLIGHTS = {("BER", "LIS"): ["TP531", "LH1780"], ("LIS", "BER"): ["TP530"]}
BOOKED: list[str] = []


def find_flights(origin: str, destination: str, date: str) -> list[str]:
    """Return the flights between two airports on a day."""
    return [f"{flight} on {date}" for flight in FLIGHTS.get((origin, destination), [])]


def weather(city: str) -> str:
    """Return the forecast for a city."""
    return {"Lisbon": "24 degrees, sunny"}.get(city, "unknown")


def book_flight(flight: str, seats: int) -> str:
    """Book seats; the booking service is down for the first request of each flight."""
    if flight not in BOOKED:
        BOOKED.append(flight)
        message = f"booking service did not answer for {flight}"
        raise TimeoutError(message)
    return f"{seats} x {flight} booked"


TOOLS = {function.__name__: function for function in (find_flights, weather, book_flight)}

# --- Agent: a loop around a model -------------------------------------------------------------------------------------


class ScriptedModel:
    """A chat model with scripted answers: a text, or the calls of one step."""

    def __init__(self, *steps: str | list[tuple[str, dict[str, Any]]]) -> None:
        """Store the answers in their order."""
        self.steps = list(steps)
        self.call_count = 0

    def complete(self, _messages: list[Message]) -> Message:
        """Return the next assistant message."""
        step = self.steps.pop(0)
        if isinstance(step, str):
            return {"role": "assistant", "content": step}
        calls = []
        for name, arguments in step:
            self.call_count += 1
            function = {"name": name, "arguments": json.dumps(arguments)}
            calls.append({"id": f"call_{self.call_count}", "type": "function", "function": function})
        return {"role": "assistant", "content": None, "tool_calls": calls}


def run_agent(model: ScriptedModel, question: str) -> list[Message]:
    """Call tools until the model stops requesting them, and return all messages."""
    messages: list[Message] = [{"role": "user", "content": question}]
    while True:
        reply = model.complete(messages)
        messages.append(reply)
        if "tool_calls" not in reply:
            return messages
        for call in reply["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            try:
                output = TOOLS[call["function"]["name"]](**arguments)
            except TimeoutError as error:
                output = f"error: {error}"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(output)})


# --- Questions and expected calls -------------------------------------------------------------------------------------

OUTWARD = {"origin": "BER", "destination": "LIS", "date": "2026-05-20"}
BOOK = {"flight": "TP531", "seats": 2}

QUESTIONS: list[tuple[str, str, ScriptedModel, list[ToolCall]]] = [
    (
        "book-and-retry",
        "Book two seats to Lisbon on May 20, and tell me the weather.",
        ScriptedModel(
            [("find_flights", OUTWARD), ("weather", {"city": "Lisbon"})],  # two parallel calls
            [("book_flight", BOOK)],  # fails
            [("book_flight", BOOK)],  # is retried
            "TP531 is booked for two; it will be sunny.",
        ),
        [
            ToolCall(name="find_flights", input_parameters=OUTWARD),
            ToolCall(name="weather", input_parameters={"city": "Lisbon"}),
            ToolCall(name="book_flight", input_parameters=BOOK),
        ],
    ),
    (
        "wrong-seats",
        "Three seats on LH1780, please.",
        ScriptedModel([("book_flight", {"flight": "LH1780", "seats": 2})], "Done, two seats."),
        [ToolCall(name="book_flight", input_parameters={"flight": "LH1780", "seats": 3})],
    ),
    (
        "look-before-you-book",
        "Find a flight back on May 27 and book it.",
        ScriptedModel([("book_flight", {"flight": "TP530", "seats": 1})], "I booked TP530."),
        [
            ToolCall(
                name="find_flights", input_parameters={"origin": "LIS", "destination": "BER", "date": "2026-05-27"}
            ),
            ToolCall(name="book_flight", input_parameters={"flight": "TP530", "seats": 1}),
        ],
    ),
]


def main() -> Report:
    """Run every question, score the calls, and print the comparison."""
    cases = []
    for name, question, model, expected in QUESTIONS:
        run = run_from_messages(run_agent(model, question))
        cases.append(
            LLMTestCase(
                id=name,
                input=run.input,
                actual_output=run.actual_output,
                tools_called=run.tools_called,
                expected_tools=expected,
                run=run,
            )
        )
    metric = ToolCorrectnessMetric(
        threshold=0.75,
        evaluation_params=[ToolCallParams.TOOL, ToolCallParams.INPUT_PARAMETERS],
        should_consider_ordering=True,
    )
    report = evaluate(cases, [metric], show_progress=False)
    print_report(report, title="travel agent")
    return report


if __name__ == "__main__":
    main()
