"""Which of my agents calls its tools best? The same goldens, three frameworks, one table.

Three agents with the same two tools, on LangGraph, LlamaIndex and OpenAI Agents; only their models are scripted (no
key, no network), each with habits of its own: one asks for the wrong unit, one forgets a city, and one loses its
connection in the middle. `as_agent` makes each of them something that `evaluate` can ask.

Needs `toolmark-langchain` with `langgraph`, `toolmark-llama-index` and `toolmark-openai-agents`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata, ToolCallBlock
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import ToolSelection
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from rich.console import Console
from rich.table import Table

import toolmark_langchain
import toolmark_llama_index
import toolmark_openai_agents
from toolmark import Golden, Report, ToolCall, ToolCorrectnessMetric, evaluate

# --- The goldens and the tools: the same for all ----------------------------------------------------------------------

PARIS, BOTH, RATE = "What is the weather in Paris?", "Is it warmer in Paris or in Rome?", "How much is 10 EUR in USD?"


def weather(city: str) -> str:
    """Return the weather in a city."""
    return {"Paris": "18 degrees", "Rome": "25 degrees"}[city]


def convert(amount: float, source: str, target: str) -> float:
    """Return an amount in another currency."""
    return amount * {("EUR", "USD"): 1.1, ("USD", "EUR"): 0.9}[source, target]


def ask_weather(city: str) -> ToolCall:
    """Expect a look at the weather."""
    return ToolCall(name="weather", input_parameters={"city": city})


GOLDENS = [
    Golden(id="paris", input=PARIS, expected_tools=[ask_weather("Paris")]),
    Golden(id="both cities", input=BOTH, expected_tools=[ask_weather("Paris"), ask_weather("Rome")]),
    Golden(
        id="currency",
        input=RATE,
        expected_tools=[ToolCall(name="convert", input_parameters={"amount": 10, "source": "EUR", "target": "USD"})],
    ),
]

# --- The habits of the models: what each asks for, question by question, and then says --------------------------------

SEE_PARIS, SEE_ROME = ("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})
TO_USD = ("convert", {"amount": 10, "source": "EUR", "target": "USD"})
TO_EUR = ("convert", {"amount": 10, "source": "USD", "target": "EUR"})

HABITS: dict[str, dict[str, list[Any]]] = {
    "LangGraph": {
        PARIS: [[SEE_PARIS], "18 degrees."],
        BOTH: [[SEE_PARIS, SEE_ROME], "In Rome."],
        RATE: [[TO_EUR], "9 dollars."],
    },
    "LlamaIndex": {
        PARIS: [[SEE_PARIS], "18 degrees."],
        BOTH: [[SEE_PARIS], "In Rome, surely."],
        RATE: [[TO_USD], "11 dollars."],
    },
    "OpenAI Agents": {
        PARIS: [[SEE_PARIS], "18 degrees."],
        BOTH: [[SEE_PARIS], ConnectionError("the model is gone")],
        RATE: [[TO_USD], "11 dollars."],
    },
}


def next_step(framework: str, question: str, before: int) -> Any:  # noqa: ANN401 - text or calls
    """Return what the model says after so many answers of its own, or raise what it should."""
    step = HABITS[framework][question][before]
    if isinstance(step, Exception):
        raise step
    return step


# --- The models: one class for each framework -------------------------------------------------------------------------


class LangChainModel(BaseChatModel):
    """A chat model of LangChain."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:  # noqa: ANN401, ARG002 - the framework's signature
        """Offer no tools: what it asks for is written down."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401
        step = next_step("LangGraph", str(messages[0].content), sum(message.type == "ai" for message in messages))
        calls = [] if isinstance(step, str) else step
        asked = [{"name": name, "args": given, "id": f"c{index}"} for index, (name, given) in enumerate(calls)]
        message = AIMessage(step if isinstance(step, str) else "", tool_calls=asked)
        return ChatResult(generations=[ChatGeneration(message=message)])


class LlamaIndexModel(FunctionCallingLLM):
    """A function-calling model of LlamaIndex."""

    @property
    def metadata(self) -> LLMMetadata:
        """It can call tools."""
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    async def astream_chat_with_tools(self, *_: Any, **given: Any) -> AsyncGenerator[ChatResponse, None]:  # noqa: ANN401
        """Return the next answer in one piece."""
        history = given["chat_history"]
        question = next(str(message.content) for message in history if message.role == "user")
        step = next_step("LlamaIndex", question, sum(message.role == "assistant" for message in history))
        message = ChatMessage(role="assistant", content=step if isinstance(step, str) else None)
        if not isinstance(step, str):
            message.blocks = [
                ToolCallBlock(tool_call_id=f"c{index}", tool_name=name, tool_kwargs=arguments)
                for index, (name, arguments) in enumerate(step)
            ]

        async def pieces() -> AsyncGenerator[ChatResponse, None]:
            yield ChatResponse(message=message)

        return pieces()

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:  # noqa: ANN401
        """Return the calls of an answer."""
        return [
            ToolSelection(tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]

    def chat(self, *_: Any, **__: Any) -> Any:  # noqa: ANN401
        """Not needed here, as the rest."""
        raise NotImplementedError

    achat = stream_chat = astream_chat = complete = acomplete = stream_complete = astream_complete = chat
    _prepare_chat_with_tools = chat


class AgentsModel(Model):
    """A model of OpenAI Agents."""

    async def get_response(self, *given: Any, **named: Any) -> ModelResponse:  # noqa: ANN401
        """Return the next answer."""
        items = named["input"] if "input" in named else given[1]
        before = sum(item.get("type") == "function_call_output" for item in items if isinstance(item, dict))
        question = items if isinstance(items, str) else items[0]["content"]
        step = next_step("OpenAI Agents", question, before)
        return ModelResponse(output=list(self.items(step)), usage=Usage(), response_id=None)

    def items(self, step: Any) -> Iterator[Any]:  # noqa: ANN401
        """Yield the items of an answer."""
        if isinstance(step, str):
            part = ResponseOutputText(text=step, type="output_text", annotations=[])
            yield ResponseOutputMessage(id="m", content=[part], role="assistant", type="message", status="completed")
            return
        for index, (name, arguments) in enumerate(step):
            text = json.dumps(arguments)
            yield ResponseFunctionToolCall(call_id=f"c{index}", name=name, arguments=text, type="function_call")

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        """Not needed here."""
        raise NotImplementedError


AGENTS = {
    "LangGraph": toolmark_langchain.as_agent(create_agent(LangChainModel(), [weather, convert])),
    "LlamaIndex": toolmark_llama_index.as_agent(FunctionAgent(llm=LlamaIndexModel(), tools=[weather, convert])),
    "OpenAI Agents": toolmark_openai_agents.as_agent(
        Agent(name="helper", model=AgentsModel(), tools=[function_tool(weather), function_tool(convert)])
    ),
}


def main() -> None:
    """Ask all agents all questions, and print one table."""
    set_tracing_disabled(disabled=True)  # nothing is sent anywhere
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=0.8)
    reports: dict[str, Report] = {
        name: evaluate(goldens=GOLDENS, agent=agent, metrics=[metric], show_progress=False)
        for name, agent in AGENTS.items()
    }

    table = Table("golden", *reports, title="Tool correctness, arguments included")
    for index, golden in enumerate(GOLDENS):
        scores = [report.cases[index].results[0].score or 0.0 for report in reports.values()]
        table.add_row(golden.id, *(f"{score:.2f}" for score in scores))
    means = [report.summaries[0].mean or 0.0 for report in reports.values()]
    table.add_section()
    table.add_row("mean", *(f"{mean:.2f}" for mean in means))
    Console(width=80).print(table)

    for name, report in reports.items():
        for case in report.cases:
            result = case.results[0]
            if not result.passed:
                print(f"{name}, {case.label}:")
                print("\n".join(f"  {line}" for line in (result.reason or "").splitlines()))


if __name__ == "__main__":
    main()
