"""Comparison of three agents on three frameworks: the same goldens, one table.

The agents run on LangGraph, LlamaIndex and OpenAI Agents, with the same two tools. Their models are scripted (no key,
no network), each with a different mistake: one uses the wrong currencies, one forgets a city, one loses its connection.
`as_agent` wraps each agent for `evaluate`.

Needs `toolgrade-langchain` with `langgraph`, `toolgrade-llama-index` and `toolgrade-openai-agents`.
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

import toolgrade_langchain
import toolgrade_llama_index
import toolgrade_openai_agents
from toolgrade import Golden, Report, ToolCall, ToolCorrectnessMetric, evaluate

# --- Goldens and tools of all agents ----------------------------------------------------------------------------------

PARIS, BOTH, RATE = "What is the weather in Paris?", "Is it warmer in Paris or in Rome?", "How much is 10 EUR in USD?"


def weather(city: str) -> str:
    """Return the weather in a city."""
    return {"Paris": "18 degrees", "Rome": "25 degrees"}[city]


def convert(amount: float, source: str, target: str) -> float:
    """Return an amount in another currency."""
    return amount * {("EUR", "USD"): 1.1, ("USD", "EUR"): 0.9}[source, target]


def expect_weather(city: str) -> ToolCall:
    """Return the expected call of `weather`."""
    return ToolCall(name="weather", input_parameters={"city": city})


GOLDENS = [
    Golden(id="paris", input=PARIS, expected_tools=[expect_weather("Paris")]),
    Golden(id="both cities", input=BOTH, expected_tools=[expect_weather("Paris"), expect_weather("Rome")]),
    Golden(
        id="currency",
        input=RATE,
        expected_tools=[ToolCall(name="convert", input_parameters={"amount": 10, "source": "EUR", "target": "USD"})],
    ),
]

# --- Scripts: the calls and the answer of each model, by question -----------------------------------------------------

LOOK_UP_PARIS, LOOK_UP_ROME = ("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})
TO_USD = ("convert", {"amount": 10, "source": "EUR", "target": "USD"})
TO_EUR = ("convert", {"amount": 10, "source": "USD", "target": "EUR"})

SCRIPTS: dict[str, dict[str, list[Any]]] = {
    "LangGraph": {
        PARIS: [[LOOK_UP_PARIS], "18 degrees."],
        BOTH: [[LOOK_UP_PARIS, LOOK_UP_ROME], "In Rome."],
        RATE: [[TO_EUR], "9 dollars."],
    },
    "LlamaIndex": {
        PARIS: [[LOOK_UP_PARIS], "18 degrees."],
        BOTH: [[LOOK_UP_PARIS], "In Rome, surely."],
        RATE: [[TO_USD], "11 dollars."],
    },
    "OpenAI Agents": {
        PARIS: [[LOOK_UP_PARIS], "18 degrees."],
        BOTH: [[LOOK_UP_PARIS], ConnectionError("the model is gone")],
        RATE: [[TO_USD], "11 dollars."],
    },
}


def next_step(framework: str, question: str, answered: int) -> Any:  # noqa: ANN401 - text or calls
    """Return the next scripted step of a model that has answered `answered` times, or raise its error."""
    step = SCRIPTS[framework][question][answered]
    if isinstance(step, Exception):
        raise step
    return step


# --- Models: one scripted class per framework -------------------------------------------------------------------------


class LangChainModel(BaseChatModel):
    """A scripted chat model for LangChain."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:  # noqa: ANN401, ARG002 - the framework's signature
        """Ignore the tools, because the answers are scripted."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401
        step = next_step("LangGraph", str(messages[0].content), sum(message.type == "ai" for message in messages))
        calls = [] if isinstance(step, str) else step
        tool_calls = [
            {"name": name, "args": arguments, "id": f"c{index}"} for index, (name, arguments) in enumerate(calls)
        ]
        message = AIMessage(step if isinstance(step, str) else "", tool_calls=tool_calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


class LlamaIndexModel(FunctionCallingLLM):
    """A scripted function-calling model for LlamaIndex."""

    @property
    def metadata(self) -> LLMMetadata:
        """Declare support for function calling."""
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    async def astream_chat_with_tools(self, *_: Any, **options: Any) -> AsyncGenerator[ChatResponse, None]:  # noqa: ANN401
        """Return the next answer in one piece."""
        history = options["chat_history"]
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

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:  # noqa: ANN401
        """Return the next answer."""
        items = options["input"] if "input" in options else args[1]
        answered = sum(item.get("type") == "function_call_output" for item in items if isinstance(item, dict))
        question = items if isinstance(items, str) else items[0]["content"]
        step = next_step("OpenAI Agents", question, answered)
        return ModelResponse(output=list(self.items(step)), usage=Usage(), response_id=None)

    def items(self, step: Any) -> Iterator[Any]:  # noqa: ANN401
        """Yield the output items of a step."""
        if isinstance(step, str):
            part = ResponseOutputText(text=step, type="output_text", annotations=[])
            yield ResponseOutputMessage(id="m", content=[part], role="assistant", type="message", status="completed")
            return
        for index, (name, arguments) in enumerate(step):
            text = json.dumps(arguments)
            yield ResponseFunctionToolCall(call_id=f"c{index}", name=name, arguments=text, type="function_call")

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        """Not used."""
        raise NotImplementedError


AGENTS = {
    "LangGraph": toolgrade_langchain.as_agent(create_agent(LangChainModel(), [weather, convert])),
    "LlamaIndex": toolgrade_llama_index.as_agent(FunctionAgent(llm=LlamaIndexModel(), tools=[weather, convert])),
    "OpenAI Agents": toolgrade_openai_agents.as_agent(
        Agent(name="helper", model=AgentsModel(), tools=[function_tool(weather), function_tool(convert)])
    ),
}


def main() -> None:
    """Ask every agent every question, and print one table."""
    set_tracing_disabled(disabled=True)  # no trace leaves the machine
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
