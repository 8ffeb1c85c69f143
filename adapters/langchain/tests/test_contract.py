"""The contract that every adapter passes, played on LangGraph's own agent with LangChain's own tools."""

# ruff: noqa: ARG002 - models need not use all that they are given

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent
from langgraph.types import Command

from toolmark.cases import ConversationalTestCase, Run
from toolmark.testing import AdapterContract, AgentTool, HandOff, Recorded, Scene, Step, ToolDouble
from toolmark_langchain import ToolCallRecorder


class ContractModel(BaseChatModel):
    """Says what the script of a scene says."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "contract"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Offer the tools as OpenAI's models do."""
        return self.bind(tools=[convert_to_openai_tool(item) for item in tools], **kwargs)

    def _message(self) -> AIMessage:
        step: Step = self.script.next_step()
        time.sleep(step.delay)
        calls: list[Any] = []
        invalid: list[Any] = []
        for call in step.calls:
            if isinstance(call, HandOff):
                calls.append({"name": f"transfer_to_{call.to}", "args": {}, "id": call.id})
            elif isinstance(call.arguments, str):
                invalid.append({"name": call.name, "args": call.arguments, "id": call.id, "error": "no JSON"})
            else:
                calls.append({"name": call.name, "args": call.arguments, "id": call.id})
        return AIMessage(step.text or "", tool_calls=calls, invalid_tool_calls=invalid)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._message())])


class StreamingModel(ContractModel):
    """A contract model that streams its answer in pieces."""

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._message()
        text = str(message.content)
        for start in range(0, len(text), 4):
            yield ChatGenerationChunk(message=AIMessageChunk(content=text[start : start + 4]))
        for index, call in enumerate(message.tool_calls):
            chunk = {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"]}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[{**chunk, "index": index}]))


def as_tool(double: ToolDouble | AgentTool) -> BaseTool:
    """LangChain's tool for one of no framework."""
    if isinstance(double, ToolDouble):
        return StructuredTool.from_function(
            func=double.function, coroutine=double.coroutine, name=double.name, description=double.description
        )
    inner = double

    def ask(input: str) -> str:
        state = agent(inner.scene).invoke({"messages": [("user", input)]})
        return str(state["messages"][-1].content)

    async def aask(input: str) -> str:
        state = await agent(inner.scene).ainvoke({"messages": [("user", input)]})
        return str(state["messages"][-1].content)

    return StructuredTool.from_function(func=ask, coroutine=aask, name=inner.name, description=inner.description)


def transfer(to: str) -> BaseTool:
    """The tool by which an agent hands over."""

    @tool(f"transfer_to_{to}")
    def hand_over(state: Annotated[dict, InjectedState], call: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand over."""
        done = ToolMessage("transferred", tool_call_id=call, name=f"transfer_to_{to}")
        return Command(goto=to, graph=Command.PARENT, update={"messages": [*state["messages"], done]})

    return hand_over


def agent(scene: Scene, *, model: type[ContractModel] = ContractModel, checkpointer: Any = None) -> Any:
    """LangGraph's agent that plays a scene; with hand-offs, a graph of agents."""
    tools = [*map(as_tool, scene.tools), *(transfer(other.agent) for other in scene.handoffs)]
    node = ToolNode(tools, handle_tool_errors=scene.tool_errors == "shown")
    played = create_react_agent(model(script=scene.model()), node, name=scene.agent, checkpointer=checkpointer)
    if not scene.handoffs:
        return played
    graph = StateGraph(MessagesState)
    graph.add_node(scene.agent, played, destinations=tuple(other.agent for other in scene.handoffs))
    for other in scene.handoffs:
        graph.add_node(other.agent, agent(other, model=model))
    graph.add_edge(START, scene.agent)
    return graph.compile()


def inputs(scene: Scene) -> dict[str, Any]:
    """Return the input of an agent for a question."""
    return {"messages": [("user", scene.input)]}


class TestContract(AdapterContract):
    """LangChain and LangGraph."""

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene with `ainvoke`."""
        recorder = ToolCallRecorder()
        try:
            state = await agent(scene).ainvoke(inputs(scene), {"callbacks": [recorder]})
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
            return Recorded(recorder.run, error=error)
        return Recorded(recorder.run, answer=str(state["messages"][-1].content))

    def run(self, scene: Scene) -> Recorded:
        """Play a scene with `invoke`."""
        recorder = ToolCallRecorder()
        try:
            state = agent(scene).invoke(inputs(scene), {"callbacks": [recorder]})
        except Exception as error:  # noqa: BLE001 - whatever ends the agent is returned
            return Recorded(recorder.run, error=error)
        return Recorded(recorder.run, answer=str(state["messages"][-1].content))

    async def astream(self, scene: Scene) -> Recorded:
        """Play a scene with `astream`, message by message."""
        recorder = ToolCallRecorder()
        text = ""
        stream = agent(scene, model=StreamingModel).astream(
            inputs(scene), {"callbacks": [recorder]}, stream_mode="messages"
        )
        async for message, _ in stream:
            if isinstance(message, AIMessageChunk):
                text += str(message.content)
        return Recorded(recorder.run, answer=text)

    def run_many(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play all scenes in one event loop, with one recorder."""
        recorder = ToolCallRecorder()

        async def play() -> None:
            await asyncio.gather(*(agent(scene).ainvoke(inputs(scene), {"callbacks": [recorder]}) for scene in scenes))

        asyncio.run(play())
        return recorder.runs

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:
        """Play the scenes as the runs of one thread."""
        recorder = ToolCallRecorder()
        memory = InMemorySaver()
        config: Any = {"callbacks": [recorder], "configurable": {"thread_id": "one"}}
        for scene in scenes:
            agent(scene, checkpointer=memory).invoke(inputs(scene), config)
        (conversation,) = recorder.conversations()
        return conversation
