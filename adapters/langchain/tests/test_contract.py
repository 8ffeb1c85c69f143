"""The contract that every adapter passes, played on LangGraph's own agent with LangChain's own tools."""

# ruff: noqa: ARG002 - models need not use all that they are given

from __future__ import annotations

import asyncio
import functools
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from programs import check_programs
from recorder_blocks import RecorderBlocks
from toolgrade.agents import AgentCallable
from toolgrade.capture import JsonlSink
from toolgrade.cases import ConversationalTestCase, MLLMImage, Run
from toolgrade.testing import AdapterContract, AgentTool, HandOff, NotSupportedError, Recorded, Scene, Step, ToolDouble
from toolgrade.testing.tool_doubles import ADD
from toolgrade_langchain import ToolCallRecorder, as_agent, record

try:  # the agent of langchain 1.0
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
    from langchain.agents.structured_output import ToolStrategy
    from langchain.tools import InjectedState as OwnState
except ImportError:
    create_agent = OwnState = None


KEEPS_CONTEXT = sys.version_info >= (3, 11)
"""Whether async agents run in the context of their caller."""


class Total(BaseModel):
    """The structured answer of a scene."""

    total: int


class ContractModel(BaseChatModel):
    """Says what the script of a scene says.

    A structured answer is a call of `Total` if the model is forced to call something. The prebuilt agent first lets it
    answer freely, and then asks again.
    """

    script: Any
    is_structured: bool = False
    free_answer: str | None = None

    @property
    def _llm_type(self) -> str:
        return "contract"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Offer the tools as OpenAI's models do."""
        return self.bind(tools=[convert_to_openai_tool(item) for item in tools], **kwargs)

    def _message(self, tool_choice: Any = None, **_: Any) -> AIMessage:
        is_forced = self.is_structured and tool_choice == "any"
        if is_forced and self.free_answer is not None:
            return structured(self.free_answer)
        step: Step = self.script.next_step()
        time.sleep(step.delay)
        if self.is_structured and not step.calls:
            self.free_answer = step.text
            return structured(step.text or "") if is_forced else AIMessage(step.text or "")
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
        return ChatResult(generations=[ChatGeneration(message=self._message(**kwargs))])


class StreamingModel(ContractModel):
    """A contract model that streams its answer in pieces."""

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._message(**kwargs)
        text = str(message.content)
        for start in range(0, len(text), 4):
            yield ChatGenerationChunk(message=AIMessageChunk(content=text[start : start + 4]))
        for index, call in enumerate(message.tool_calls):
            chunk = {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"]}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[{**chunk, "index": index}]))


def structured(text: str) -> AIMessage:
    """Return a structured answer in the form of a call."""
    return AIMessage("", tool_calls=[{"name": "Total", "args": json.loads(text), "id": "answer"}])


def block_of(image: MLLMImage) -> dict[str, Any]:
    """Return an image as a content block of LangChain's own, in the form that all versions read."""
    return {"type": "image", "source_type": "base64", "mime_type": image.mime_type, "data": image.data}


def in_blocks(output: Any) -> Any:
    """Return a tool's output as LangChain's tools return it."""
    return [block_of(output)] if isinstance(output, MLLMImage) else output


def as_tool(double: ToolDouble | AgentTool, *, is_prebuilt: bool) -> BaseTool:
    """LangChain's tool for one of no framework; in the prebuilt agent, one that waits asks the person itself."""
    if isinstance(double, AgentTool):
        return agent_as_tool(double)

    @functools.wraps(double.function)
    def function(**arguments: Any) -> Any:
        if double.needs_approval and is_prebuilt and not interrupt(arguments):
            return "refused"
        return in_blocks(double.function(**arguments))

    @functools.wraps(double.coroutine)
    async def coroutine(**arguments: Any) -> Any:
        if double.needs_approval and is_prebuilt and not interrupt(arguments):
            return "refused"
        return in_blocks(await double.coroutine(**arguments))

    return StructuredTool.from_function(
        func=function, coroutine=coroutine, name=double.name, description=double.description
    )


def agent_as_tool(inner: AgentTool) -> BaseTool:
    """LangChain's tool that runs an agent."""

    def ask(input: str) -> str:
        return answer_of(agent(inner.scene).invoke({"messages": [("user", input)]}))

    async def aask(input: str) -> str:
        return answer_of(await agent(inner.scene).ainvoke({"messages": [("user", input)]}))

    return StructuredTool.from_function(func=ask, coroutine=aask, name=inner.name, description=inner.description)


def transfer(to: str) -> BaseTool:
    """The tool by which an agent hands over."""

    @tool(f"transfer_to_{to}")
    def hand_over(state: Annotated[dict, InjectedState], call: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand over."""
        done = ToolMessage("transferred", tool_call_id=call, name=f"transfer_to_{to}")
        return Command(goto=to, graph=Command.PARENT, update={"messages": [*state["messages"], done]})

    return hand_over


def agent(
    scene: Scene,
    *,
    model: type[ContractModel] = ContractModel,
    checkpointer: Any = None,
    is_prebuilt: bool = False,
) -> Any:
    """An agent that plays a scene; with hand-offs, a graph of agents.

    Args:
        scene: The scene.
        model: The class of its model.
        checkpointer: Its memory.
        is_prebuilt: It is LangGraph's prebuilt agent, also where LangChain has its own.
    """
    # In langchain 1.0.0, the two agents inject the state by different classes.
    is_prebuilt = is_prebuilt or create_agent is None or (bool(scene.handoffs) and OwnState is not InjectedState)
    tools = [as_tool(double, is_prebuilt=is_prebuilt) for double in scene.tools]
    tools += [transfer(other.agent) for other in scene.handoffs]
    chosen = model(script=scene.model(), is_structured=scene.is_structured)
    make = prebuilt_agent if is_prebuilt else own_agent
    played = make(chosen, tools, scene, checkpointer)
    if not scene.handoffs:
        return played
    graph = StateGraph(MessagesState)
    graph.add_node(scene.agent, played, destinations=tuple(other.agent for other in scene.handoffs))
    for other in scene.handoffs:
        graph.add_node(other.agent, agent(other, model=model, is_prebuilt=is_prebuilt))
    graph.add_edge(START, scene.agent)
    return graph.compile()


def own_agent(model: ContractModel, tools: list[BaseTool], scene: Scene, checkpointer: Any) -> Any:
    """LangChain's own agent; middleware shows the model what a tool raises, and asks a person."""
    middleware: list[Any] = [shown_errors()] if scene.tool_errors == "shown" else []
    waiting = [double.name for double in scene.tools if isinstance(double, ToolDouble) and double.needs_approval]
    if waiting:
        middleware.append(HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(waiting, True)))
    return create_agent(
        model,
        tools,
        name=scene.agent,
        system_prompt=scene.instructions,
        checkpointer=checkpointer,
        response_format=ToolStrategy(Total) if scene.is_structured else None,
        middleware=middleware,
    )


def shown_errors() -> Any:
    """Return middleware that shows the model what a tool raises."""

    def as_message(error: Exception, request: Any) -> ToolMessage:
        call = request.tool_call
        text = f"Error: {error!r}\n Please fix your mistakes."  # as the prebuilt agent shows it
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")

    class ShownErrors(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            try:
                return handler(request)
            except Exception as error:  # noqa: BLE001 - whatever a tool raises
                return as_message(error, request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            try:
                return await handler(request)
            except Exception as error:  # noqa: BLE001 - whatever a tool raises
                return as_message(error, request)

    return ShownErrors()


def prebuilt_agent(model: ContractModel, tools: list[BaseTool], scene: Scene, checkpointer: Any) -> Any:
    """LangGraph's prebuilt agent."""
    return create_react_agent(
        model,
        ToolNode(tools, handle_tool_errors=scene.tool_errors == "shown"),
        name=scene.agent,
        prompt=scene.instructions,
        checkpointer=checkpointer,
        response_format=Total if scene.is_structured else None,
    )


def inputs(scene: Scene) -> dict[str, Any]:
    """Return the input of an agent for a question."""
    if not scene.images:
        return {"messages": [("user", scene.input)]}
    return {"messages": [HumanMessage([{"type": "text", "text": scene.input}, *map(block_of, scene.images)])]}


def answer_of(state: dict[str, Any]) -> str:
    """Return the answer in the final state of an agent."""
    if state.get("structured_response") is not None:
        return str(state["structured_response"].model_dump_json())
    return str(state["messages"][-1].content)


NO_INTERRUPT = "on Python 3.10, LangGraph has no context in which async code could interrupt"
ANSWERED = ("test_approved_run", "test_rejected_run", "test_run_answered_by_text")


class TestContract(AdapterContract):
    """LangChain and LangGraph."""

    unsupported: ClassVar[Mapping[str, str]] = {} if KEEPS_CONTEXT else dict.fromkeys(ANSWERED, NO_INTERRUPT)

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene on the prebuilt agent, with `ainvoke`."""
        recorder = ToolCallRecorder()
        try:
            state = await agent(scene, is_prebuilt=True).ainvoke(inputs(scene), {"callbacks": [recorder]})
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
            return Recorded(recorder.run, error=error)
        return Recorded(recorder.run, answer=answer_of(state))

    def run(self, scene: Scene) -> Recorded:
        """Play a scene with `invoke`."""
        recorder = ToolCallRecorder()
        try:
            state = agent(scene).invoke(inputs(scene), {"callbacks": [recorder]})
        except Exception as error:  # noqa: BLE001 - whatever ends the agent is returned
            return Recorded(recorder.run, error=error)
        return Recorded(recorder.run, answer=answer_of(state))

    async def astream(self, scene: Scene) -> Recorded:
        """Play a scene with `astream`, message by message."""
        recorder = ToolCallRecorder()
        text = ""
        # On Python 3.10, LangChain's own agent does not stream: the context is lost.
        stream = agent(scene, model=StreamingModel, is_prebuilt=True).astream(
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

    def converse_in_processes(self, scenes: Sequence[Scene], path: str) -> None:
        """Play each scene with a recorder of its own, on one thread of LangGraph."""
        memory = InMemorySaver()
        for scene in scenes:
            recorder = ToolCallRecorder(sink=JsonlSink(path))
            agent(scene, checkpointer=memory).invoke(inputs(scene), config_of("one", recorder))

    def fan_out(self, scenes: Sequence[Scene]) -> Run:
        """Play the scenes as the nodes of one step; an agent is a node itself, or runs inside of one."""
        graph = StateGraph(MessagesState)
        for index, scene in enumerate(scenes):
            played = agent(scene)
            graph.add_node(scene.agent, played if index % 2 else functools.partial(answer_in_node, played, scene))
            graph.add_edge(START, scene.agent)
        recorder = ToolCallRecorder()
        graph.compile().invoke({"messages": [("user", "go")]}, {"callbacks": [recorder]})
        (run,) = recorder.runs
        return run

    def resume_in_reverse(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play each scene in a thread of its own until it is interrupted, and resume the threads in reverse."""
        recorder = ToolCallRecorder()
        waiting = []
        for index, scene in enumerate(scenes):
            played = agent(scene, checkpointer=InMemorySaver())
            played.invoke(inputs(scene), config_of(str(index), recorder))
            waiting.append(played)
        for index, played in reversed(list(enumerate(waiting))):
            decision = True if create_agent is None else {"decisions": [{"type": "approve"}]}
            played.invoke(Command(resume=decision), config_of(str(index), recorder))
        return recorder.runs

    def continue_from(self, history: Scene, scene: Scene) -> Recorded:
        """Play a scene on the messages of the final state of another one."""
        messages = agent(history).invoke(inputs(history))["messages"]
        recorder = ToolCallRecorder()
        state = agent(scene).invoke({"messages": [*messages, *inputs(scene)["messages"]]}, {"callbacks": [recorder]})
        return Recorded(recorder.run, answer=answer_of(state))

    def as_agent(self, scene: Scene) -> AgentCallable:
        """The agent for `evaluate`."""
        if not KEEPS_CONTEXT and any(isinstance(one, ToolDouble) and one.needs_approval for one in scene.tools):
            raise NotSupportedError(NO_INTERRUPT)
        return as_agent(agent(scene, checkpointer=InMemorySaver()))

    def run_attached_twice(self, scene: Scene) -> Sequence[Run]:
        """Play a scene inside `record()`, with its recorder bound to the agent and passed to it, twice, as well."""
        with record(process_wide=True) as recorder:
            played = agent(scene).with_config(callbacks=[recorder])
            played.invoke(inputs(scene), {"callbacks": [recorder, recorder]})
        return recorder.runs

    def serve(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play each scene in a plain thread, as a server does with its requests."""
        with record(process_wide=True) as recorder:
            threads = [threading.Thread(target=lambda one=scene: agent(one).invoke(inputs(one))) for scene in scenes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return recorder.runs


class TestBlocks(RecorderBlocks):
    """`record()` of the adapter."""

    def block(self, **options: Any) -> Any:
        """Return a block."""
        return record(**options)

    if not KEEPS_CONTEXT:
        test_agent_in_the_background_of_a_sink = None

    async def play(self, scene: Scene) -> str:
        """Run LangChain's agent; where async agents lose the context, in the sync way if its tools have one."""
        if not KEEPS_CONTEXT and scene.tools == [ADD]:
            return answer_of(agent(scene).invoke(inputs(scene)))
        return answer_of(await agent(scene).ainvoke(inputs(scene)))


def config_of(thread_id: str, recorder: ToolCallRecorder) -> Any:
    """Return a configuration with a thread."""
    return {"callbacks": [recorder], "configurable": {"thread_id": thread_id}}


def answer_in_node(played: Any, scene: Scene, _: Any) -> dict[str, Any]:
    """Run an agent on its own input inside a node."""
    return {"messages": [AIMessage(answer_of(played.invoke(inputs(scene))))]}


def test_random_programs() -> None:
    """What was recorded of a program is what its script and its tools say."""
    check_programs(TestContract())
