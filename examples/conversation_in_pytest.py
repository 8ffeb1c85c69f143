"""A conversation of three turns as one golden for three frameworks, under pytest: a person approves in the middle.

The agents are a LangGraph agent with a checkpointer, an OpenAI Agents session and a LlamaIndex context; their models
are scripted (no key, no network). `as_agent` remembers the turns before, and goes on with the run that waits.

Needs `toolgrade-langchain` with `langchain`, `toolgrade-openai-agents` and `toolgrade-llama-index`.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, SQLiteSession, Usage, function_tool, set_tracing_disabled
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata, ToolCallBlock
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool, ToolSelection
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent, JsonPickleSerializer
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import toolgrade_langchain
import toolgrade_llama_index
import toolgrade_openai_agents
from toolgrade import Approve, Golden, Report, ToolCall, ToolCorrectnessMetric, UserTurn, evaluate
from toolgrade.agents import AgentCallable

# --- The golden: three texts of the user, and a yes ------------------------------------------------------------------

TRIP = Golden(
    id="trip",
    turns=[
        UserTurn(
            "Find me a flight to Lisbon.",
            expected_tools=[ToolCall(name="find_flights", input_parameters={"destination": "LIS"})],
        ),
        UserTurn(
            "Book it for two.",
            expected_tools=[ToolCall(name="book_flight", input_parameters={"flight": "TP531", "seats": 2})],
        ),
        Approve(),  # of the booking, for which the agent waits
        UserTurn("Thank you.", expected_tools=[]),
    ],
)
STEPS: list[Any] = [
    ("find_flights", {"destination": "LIS"}),
    "There is the TP531.",
    ("book_flight", {"flight": "TP531", "seats": 2}),
    "Two seats on TP531 are booked.",
    "Have a good trip.",
]
"""The steps of each model over the three turns: calls and texts."""

# --- Tools ------------------------------------------------------------------------------------------------------------


def find_flights(destination: str) -> list[str]:
    """Return the flights to an airport."""
    return {"LIS": ["TP531"]}.get(destination, [])


def book_flight(flight: str, seats: int) -> str:
    """Book seats."""
    return f"{seats} x {flight} booked"


async def book_if_approved(ctx: Context, flight: str, seats: int) -> str:
    """Book seats, if a person says yes."""
    question = InputRequiredEvent(prefix=f"Book {seats} x {flight}?")  # type: ignore[call-arg] # it takes any field
    answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=question)
    return book_flight(flight, seats) if answer.response == "yes" else "The user does not want it."


# --- Models: one scripted class per framework -------------------------------------------------------------------------


class LangChainModel(BaseChatModel):
    """A scripted chat model for LangChain."""

    steps: Iterator[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:  # noqa: ANN401, ARG002 - the framework's signature
        """Ignore the tools, because the answers are scripted."""
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401
        step = next(self.steps)
        if isinstance(step, str):
            return ChatResult(generations=[ChatGeneration(message=AIMessage(step))])
        message = AIMessage("", tool_calls=[{"name": step[0], "args": step[1], "id": f"{step[0]} 1"}])
        return ChatResult(generations=[ChatGeneration(message=message)])


class LlamaIndexModel(FunctionCallingLLM):
    """A scripted function-calling model for LlamaIndex."""

    steps: Iterator[Any]

    @property
    def metadata(self) -> LLMMetadata:
        """Declare support for function calling."""
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    async def astream_chat_with_tools(self, *_: Any, **__: Any) -> AsyncGenerator[ChatResponse, None]:  # noqa: ANN401
        """Return the next answer in one piece."""
        step = next(self.steps)
        message = ChatMessage(role="assistant", content=step if isinstance(step, str) else None)
        if not isinstance(step, str):
            message.blocks = [ToolCallBlock(tool_call_id=f"{step[0]} 1", tool_name=step[0], tool_kwargs=step[1])]

        async def pieces() -> AsyncGenerator[ChatResponse, None]:
            yield ChatResponse(message=message)

        return pieces()

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:  # noqa: ANN401
        """Return the calls of a response."""
        return [
            ToolSelection(tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]

    def chat(self, *_: Any, **__: Any) -> Any:  # noqa: ANN401
        """Not used; the other methods below are not used either."""
        raise NotImplementedError

    achat = stream_chat = astream_chat = complete = acomplete = stream_complete = astream_complete = chat
    _prepare_chat_with_tools = chat


class AgentsModel(Model):
    """A scripted model for OpenAI Agents."""

    def __init__(self, steps: Iterator[Any]) -> None:
        """Store the steps."""
        self.steps = steps

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:  # noqa: ANN401 - the SDK's signature
        """Return the next answer."""
        step = next(self.steps)
        if isinstance(step, str):
            part = ResponseOutputText(text=step, type="output_text", annotations=[])
            item: Any = ResponseOutputMessage(
                id="m", content=[part], role="assistant", type="message", status="completed"
            )
        else:
            name, arguments = step
            item = ResponseFunctionToolCall(
                call_id=f"{name} 1", name=name, arguments=json.dumps(arguments), type="function_call"
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        """Not used."""
        raise NotImplementedError


# --- Agents -----------------------------------------------------------------------------------------------------------


def langgraph_agent(steps: list[Any]) -> AgentCallable:
    """Return an agent whose checkpointer has a thread for each conversation."""
    agent: Any = create_agent(
        LangChainModel(steps=iter(steps)),
        [find_flights, book_flight],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"book_flight": True})],
        checkpointer=InMemorySaver(),
    )
    return toolgrade_langchain.as_agent(agent)


def openai_agent(steps: list[Any]) -> AgentCallable:
    """Return an agent with a session for each conversation."""
    set_tracing_disabled(disabled=True)  # no trace leaves the machine
    booking: Any = function_tool(book_flight, needs_approval=True)
    agent = Agent(name="travel", model=AgentsModel(iter(steps)), tools=[function_tool(find_flights), booking])
    return toolgrade_openai_agents.as_agent(agent, session=SQLiteSession)


def llama_index_agent(steps: list[Any]) -> AgentCallable:
    """Return an agent with a context for each conversation."""
    booking = FunctionTool.from_defaults(async_fn=book_if_approved, name="book_flight")
    agent = FunctionAgent(name="travel", llm=LlamaIndexModel(steps=iter(steps)), tools=[find_flights, booking])
    # The default serializer leaves out the memory.
    return toolgrade_llama_index.as_agent(agent, ctx=lambda _: Context(agent, serializer=JsonPickleSerializer()))


AGENTS: dict[str, Callable[[list[Any]], AgentCallable]] = {
    "LangGraph": langgraph_agent,
    "OpenAI Agents": openai_agent,
    "LlamaIndex": llama_index_agent,
}

# --- The test ---------------------------------------------------------------------------------------------------------


def measure(framework: str) -> Report:
    """Let the user of the golden talk to an agent, and score its calls turn by turn."""
    metrics = [ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=1)]
    return evaluate(goldens=[TRIP], agent=AGENTS[framework](STEPS), metrics=metrics, show_progress=False)


@pytest.mark.parametrize("framework", AGENTS)
def test_trip(framework: str) -> None:
    """The agent finds a flight, books it when it may, and then calls nothing."""
    report = measure(framework)
    assert report.passed, report.cases[0].results[0].reason  # noqa: S101 - pytest


if __name__ == "__main__":
    for name in AGENTS:
        print(f"{name}: {measure(name).cases[0].results[0].reason}")
