"""Agents for the tests: the framework's own classes around a scripted model."""

# ruff: noqa: ARG002 - models need not use all that they are given

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool, ToolSelection
from llama_index.core.workflow import Event, HumanResponseEvent, InputRequiredEvent
from sqlalchemy.ext.asyncio import create_async_engine

from toolgrade import ToolCall
from toolgrade.cases import Run
from toolgrade.testing import AskFor, HandOff, ScriptedModel, Step
from toolgrade_llama_index import record, runs_from_events

ToolCallBlock: Any = getattr(types, "ToolCallBlock", None)  # blocks for calls are newer than the oldest version
PATIENCE = 2.0


def asks(*calls: tuple[str, Any, str]) -> list[AskFor]:
    """A model message that asks for these calls, each with name, arguments and id."""
    return [AskFor(name, arguments, call_id) for name, arguments, call_id in calls]


class ScriptedLLM(FunctionCallingLLM):
    """A model that answers by a script, in the form that the providers' classes of the installed version use."""

    script: Any
    usage: Any = None
    """Token counts of each answer, in order, in the provider's form."""
    chunks: Any = None
    """Argument texts that its stream shows before the whole, for the first call of each answer."""

    @property
    def metadata(self) -> LLMMetadata:
        """A model that supports tool calls."""
        return LLMMetadata(is_function_calling_model=True, model_name="scripted-1")

    def _next(self) -> tuple[Step, ChatResponse]:
        step = self.script.next_step()
        raw: dict[str, Any] = {"model": "scripted-1"}
        if self.usage:
            raw["usage"] = self.usage[self.script.used - 1]
        return step, ChatResponse(message=message_of(step), raw=raw)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer."""
        return self._next()[1]

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer."""
        step, response = self._next()
        await asyncio.sleep(step.delay)
        return response

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Generator[ChatResponse, None, None]:
        """Answer in pieces."""
        step, response = self._next()

        def pieces() -> Generator[ChatResponse, None, None]:
            yield from self._pieces(step, response)

        return pieces()

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
        """Answer in pieces."""

        async def pieces() -> AsyncGenerator[ChatResponse, None]:
            step, response = self._next()
            await asyncio.sleep(step.delay)
            for piece in self._pieces(step, response):
                yield piece

        return pieces()

    def _pieces(self, step: Step, whole: ChatResponse) -> Generator[ChatResponse, None, None]:
        answer = ""
        for delta in step.chunks()[:-1]:
            answer += delta
            yield ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=answer), delta=delta)
        call = next(iter(step.calls), None)
        for text in self.chunks or () if isinstance(call, AskFor) else ():
            part = Step(calls=(AskFor(call.name, text, call.id),))
            yield ChatResponse(message=message_of(part), delta="")
        yield ChatResponse(message=whole.message, raw=whole.raw, delta="".join(step.chunks()[-1:]))

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a text."""
        return CompletionResponse(text=self._next()[1].message.content or "")

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a text."""
        return CompletionResponse(text=self._next()[1].message.content or "")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """Not needed."""
        raise NotImplementedError

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """Not needed."""
        raise NotImplementedError

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        messages = list(chat_history or [])
        if user_msg is not None:
            text = (
                user_msg if isinstance(user_msg, ChatMessage) else ChatMessage(role=MessageRole.USER, content=user_msg)
            )
            messages.append(text)
        return {"messages": messages, "tools": [tool.metadata.to_openai_tool() for tool in tools]}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Read the calls. Arguments that are not a JSON object become `{}`, as in the providers' classes."""
        selections: list[ToolSelection] = []
        for name, arguments, call_id in calls_in(response.message):
            parsed = arguments
            if isinstance(arguments, str):
                try:
                    parsed = json.loads(arguments)
                except ValueError:
                    parsed = {}
            selections.append(ToolSelection(tool_id=call_id, tool_name=name, tool_kwargs=parsed))
        return selections


def message_of(step: Step) -> ChatMessage:
    """The message of one step."""
    calls = [(ask.name, ask.arguments, ask.id or "") for ask in map(as_ask, step.calls)]
    if ToolCallBlock is not None:
        blocks: list[Any] = [TextBlock(text=step.text)] if step.text else []
        blocks += [ToolCallBlock(tool_name=name, tool_kwargs=args, tool_call_id=i) for name, args, i in calls]
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)
    requests = [
        {
            "id": i,
            "type": "function",
            "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
        }
        for name, args, i in calls
    ]
    more = {"tool_calls": requests} if requests else {}
    return ChatMessage(role=MessageRole.ASSISTANT, content=step.text or "", additional_kwargs=more)


def as_ask(call: AskFor | HandOff) -> AskFor:
    """A hand-over as the call that LlamaIndex makes of it."""
    return AskFor("handoff", {"to_agent": call.to, "reason": "r"}, call.id) if isinstance(call, HandOff) else call


def calls_in(message: ChatMessage) -> list[tuple[str, Any, str]]:
    """Return the calls of a message with their raw arguments."""
    if ToolCallBlock is not None:
        blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
        return [(block.tool_name, block.tool_kwargs, block.tool_call_id or "") for block in blocks]
    requests = message.additional_kwargs.get("tool_calls", [])
    return [(call["function"]["name"], call["function"]["arguments"], call["id"]) for call in requests]


def llm(*steps: Any, **options: Any) -> ScriptedLLM:
    """A model that says these steps: text, a list of calls, or an exception."""
    return ScriptedLLM(script=ScriptedModel(*steps), **options)


def agent(*steps: Any, tools: Sequence[Any] = (), name: str = "A", usage: Any = None, **options: Any) -> FunctionAgent:
    """A function-calling agent that says these steps."""
    model = options.pop("llm", None) or llm(*steps, usage=usage)
    return FunctionAgent(name=name, description=f"agent {name}", tools=list(tools), llm=model, **options)


@asynccontextmanager
async def session_memory(name: str, database: str = ":memory:") -> AsyncGenerator[Memory, None]:
    """A memory of a session in an SQLite database, whose connections are closed at the end."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
    try:
        yield Memory.from_defaults(session_id=name, async_engine=engine)
    finally:
        await engine.dispose()


# What was seen


@dataclass
class Played:
    """One run: its recording, and the events and result that the user received."""

    recorded: list[Run]
    events: list[Event] = field(default_factory=list)
    result: Any = None
    error: BaseException | None = None
    question: str | None = None

    def run(self, mode: str) -> Run:
        """The run as recorded (`C`), or as its events show it (`E`)."""
        if mode == "C":
            (run,) = self.recorded
            return run
        (run,) = runs_from_events(self.events, self.result, self.error, self.question)
        return run


async def play(
    played: Any, question: str = "hi", *, human: str | None = "yes", patience: float = 20, **options: Any
) -> Played:
    """Run an agent inside `record()` and read its stream as a user does; `human` answers requests for input."""
    with record() as rec:
        handler = played.run(user_msg=question, **options)
        log = Played([], question=question)

        async def read() -> None:
            async for event in handler.stream_events():
                log.events.append(event)
                if isinstance(event, InputRequiredEvent) and human is not None:
                    handler.ctx.send_event(HumanResponseEvent(response=human))

        reading = asyncio.ensure_future(read())
        try:
            log.result = await asyncio.wait_for(handler, patience)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
            log.error = error
        except BaseException as error:
            if type(error).__name__ != "FatalError":
                raise
            log.error = error
        await asyncio.wait({reading}, timeout=0.3 if log.error else PATIENCE)
        reading.cancel()
        await asyncio.wait({reading}, timeout=PATIENCE)
    log.recorded = rec.runs
    assert not rec.warnings
    return log


def played(source: Any, question: str = "hi", **options: Any) -> Played:
    """Run `play` in a new event loop; `source` is an agent, or a function that makes one inside the loop."""

    async def go() -> Played:
        workflow = source() if callable(source) and not hasattr(source, "run") else source
        return await play(workflow, question, **options)

    return asyncio.run(go())


def summaries(calls: Sequence[ToolCall]) -> list[tuple[Any, ...]]:
    """Name, arguments, id and outcome of calls: the output, `! TypeName: text` of an error, or another status."""
    return [(call.name, call.arguments, call.id, outcome(call)) for call in calls]


def outcome(call: ToolCall) -> Any:
    """What became of a call."""
    assert call.execution is not None
    status = call.execution.status.value
    if status == "ok":
        return call.output
    assert call.output is None
    if status == "error":
        return f"! {call.execution.error}"
    return f"{status}: {call.execution.error}" if call.execution.error else status


def status_of(run: Run) -> tuple[str, str | None]:
    """How a run ended, and its answer."""
    return run.status.value, run.actual_output


# Tools


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def slow(ms: int) -> str:
    """Sleep for the number of milliseconds."""
    await asyncio.sleep(ms / 1000)
    return f"slept {ms}"


def boom(x: str) -> str:
    """Fail."""
    raise ValueError("kaboom " + x)


def direct(x: str) -> str:
    """Answer."""
    if x == "err":
        raise RuntimeError("direct failed")
    return "D" + x


def search(q: str) -> str:
    """Find."""
    return "found " + q


def write(text: str) -> str:
    """Write."""
    return "wrote " + text


DIRECT = FunctionTool.from_defaults(direct, return_direct=True)
