"""LlamaIndex agents, recorded and scored: a workflow of two agents inside `record()`, over two turns.

The agents are LlamaIndex's own, with real tools and a real memory; only the model is scripted (no key, no network). A
planner looks up two things in parallel and hands over to a booker, whose first booking fails and is retried; in the
second turn it books the wrong number of seats. toolgrade compares called and expected tools, turn by turn.

Needs `toolgrade-llama-index`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata, ToolCallBlock
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import BaseTool, ToolSelection

from toolgrade import ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.report.terminal import print_report
from toolgrade_llama_index import record

# --- Tools ------------------------------------------------------------------------------------------------------------

TRIED: list[str] = []


def find_flights(origin: str, destination: str) -> list[str]:
    """Return the flights between two airports."""
    return {("BER", "LIS"): ["TP531", "LH1780"]}.get((origin, destination), [])


def weather(city: str) -> str:
    """Return the forecast for a city."""
    return {"Lisbon": "24 degrees, sunny"}.get(city, "unknown")


def book_flight(flight: str, seats: int) -> str:
    """Book seats; the booking service is down for the first request."""
    if flight not in TRIED:
        TRIED.append(flight)
        message = f"the booking service did not answer for {flight}"
        raise ConnectionError(message)
    return f"{seats} x {flight} booked"


# --- Model: a chat model with scripted answers ------------------------------------------------------------------------


class ScriptedModel(FunctionCallingLLM):
    """Returns one scripted answer after the other: a text, or calls by name and arguments."""

    answers: list[Any]
    position: int = 0

    @property
    def metadata(self) -> LLMMetadata:
        """Declare support for function calling."""
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:  # noqa: ANN401, ARG002 - the framework's signature
        """Return the next answer."""
        answer = self.answers[self.position]
        self.position += 1
        if isinstance(answer, str):
            return ChatResponse(message=ChatMessage(role="assistant", content=answer))
        blocks = [
            ToolCallBlock(tool_call_id=f"{name}_{self.position}", tool_name=name, tool_kwargs=arguments)
            for name, arguments in answer
        ]
        return ChatResponse(message=ChatMessage(role="assistant", blocks=blocks))

    async def astream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> AsyncGenerator[ChatResponse, None]:  # noqa: ANN401
        """Return the next answer in one piece."""
        response = await self.achat(messages)

        async def pieces() -> AsyncGenerator[ChatResponse, None]:
            yield response

        return pieces()

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: Any = None,  # noqa: ANN401, ARG002
        chat_history: list[ChatMessage] | None = None,
        **_: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        return {"messages": chat_history or [], "tools": [tool.metadata.to_openai_tool() for tool in tools]}

    def get_tool_calls_from_response(
        self,
        response: ChatResponse,
        error_on_no_tool_call: bool = True,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> list[ToolSelection]:
        """Return the calls of a response."""
        return [
            ToolSelection(tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]

    def chat(self, *_: Any, **__: Any) -> Any:  # noqa: ANN401
        """Not used; the other methods below are not used either."""
        raise NotImplementedError

    stream_chat = complete = acomplete = stream_complete = astream_complete = chat


PLAN = "Please book the TP531 from Berlin to Lisbon for two. How will the weather be?"
MORE = "And two more seats on it."

PLANNER = FunctionAgent(
    name="Planner",
    description="Looks things up.",
    tools=[find_flights, weather],
    llm=ScriptedModel(
        answers=[
            [("find_flights", {"origin": "BER", "destination": "LIS"}), ("weather", {"city": "Lisbon"})],
            [("handoff", {"to_agent": "Booker", "reason": "TP531 for two"})],
            [("handoff", {"to_agent": "Booker", "reason": "two more"})],
        ]
    ),
)
BOOKER = FunctionAgent(
    name="Booker",
    description="Books flights.",
    tools=[book_flight],
    llm=ScriptedModel(
        answers=[
            [("book_flight", {"flight": "TP531", "seats": 2})],
            [("book_flight", {"flight": "TP531", "seats": 2})],
            "Two seats on TP531 are booked; expect 24 degrees and sun.",
            [("book_flight", {"flight": "TP531", "seats": 1})],
            "Done.",
        ]
    ),
)

# --- Expected calls ---------------------------------------------------------------------------------------------------

EXPECTED = {
    PLAN: [
        ToolCall(name="find_flights", input_parameters={"origin": "BER", "destination": "LIS"}),
        ToolCall(name="weather", input_parameters={"city": "Lisbon"}),
        ToolCall(name="book_flight", input_parameters={"flight": "TP531", "seats": 2}),
    ],
    MORE: [ToolCall(name="book_flight", input_parameters={"flight": "TP531", "seats": 2})],
}


async def main() -> None:
    """Run the agents, score the two turns, and print the result."""
    workflow = AgentWorkflow(agents=[PLANNER, BOOKER], root_agent="Planner")
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
    with record(conversation="trip-1") as recorder:
        for question in (PLAN, MORE):
            await workflow.run(user_msg=question, memory=memory)

    cases = [
        run.to_test_case(expected_tools=EXPECTED[run.input or ""], id=f"turn {number}")
        for number, run in enumerate(recorder.runs, start=1)
    ]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=0.8)
    print_report(evaluate(cases, [metric], show_progress=False), title="A booking by two agents")

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
