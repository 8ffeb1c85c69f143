"""Doors of live recording: random events, with hostile values and objects, for the recorder and the adapters.

An input is the seed of its events, since the objects in them cannot be written to a file.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import random
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

from hostile import TEXTS, VALUES
from toolgrade import Run, observe
from toolgrade.capture import ABSENT, Branch, JsonlSink, Outcome, Request, current_run, record
from toolgrade.cases import RunStatus
from toolgrade.errors import ToolgradeError
from toolgrade.inputs import read_cases


class Hostile:
    """An object of which every use raises."""

    def _raise(self, *_args: object, **_kwargs: object) -> Any:
        raise RuntimeError("hostile")

    __repr__ = __str__ = __iter__ = __len__ = __bool__ = __eq__ = __getattr__ = __getitem__ = _raise
    __hash__ = object.__hash__


class Endless(dict[str, Any]):
    """An object that contains itself."""

    def __init__(self) -> None:
        super().__init__()
        self["self"] = self


def any_value(chance: random.Random) -> Any:
    """Return a value that a program may pass where it should not."""
    return chance.choice(
        (
            *(lambda: chance.choice(VALUES), lambda: chance.choice(TEXTS), lambda: "\ud800x", lambda: "x"),
            *(Hostile, Endless, object, lambda: {"k\ud800": Hostile()}, lambda: {Hostile(): 1}, lambda: b"\xff", set),
            *(lambda: [float("nan"), Endless()], lambda: ABSENT, lambda: None, lambda: {"a": 1}),
        )
    )()


def write(chance: random.Random) -> bytes:
    """Return the seed of some events."""
    return str(chance.getrandbits(64)).encode()


def writer_with(*modules: str) -> Callable[[random.Random], bytes]:
    """Return a writer that imports these modules, which takes longer than an input may."""

    def write_with(chance: random.Random) -> bytes:
        for module in modules:
            importlib.import_module(module)
        return write(chance)

    return write_with


def check_recorder(data: bytes) -> None:
    """Check that events reach neither the agent nor other runs, and that each run can be stored."""
    chance = random.Random(data)

    def one_of(*values: object) -> Any:
        return any_value(chance) if chance.random() < 0.2 else chance.choice(values)

    def request() -> Any:
        fields = {"id": one_of(None, "c1", "c2"), "source": one_of(None), "caller": one_of(None, "c1")}
        return one_of(Request(one_of("f", "g"), one_of({}, {"x": 1}), result=one_of(ABSENT), **fields))

    with tempfile.TemporaryDirectory() as folder, record() as recorder, JsonlSink(Path(folder) / "runs") as sink:

        @observe
        def agent(_question: object) -> object:
            run = current_run()
            for _ in range(chance.randint(0, 6)):
                match chance.randrange(5):
                    case 0:
                        run.model_asked([request() for _ in range(chance.randint(0, 3))], agent=one_of(None, "a"))
                    case 1:
                        run.result_shown(one_of("x"), call_id=one_of(None, "c1"), name=one_of(None, "f"))
                    case 2:
                        run.model_used(one_of("m"), one_of({"tokens": 1}))
                    case 3:
                        run.offered(one_of([{"name": "f"}], [one_of(1)]))
                    case _:
                        run.handed_off(to=one_of("b"), call_id=one_of(None, "c1"))
            return one_of("done")

        agent("first")
        agent(one_of("second"))
        agent("third")
        runs = recorder.runs
        assert [run.input for run in runs][::2] == ["first", "third"]
        for run in runs:
            sink.write(run)
        assert len(read_cases(Path(folder) / "runs", allow_nan=True)) == len(runs)


def check_builder(data: bytes) -> None:
    """Check that no sequence of observations, whatever their values, raises or gives a run that cannot be written."""
    from toolgrade.capture import RunBuilder  # noqa: PLC0415 - beside its use

    chance = random.Random(data)
    builder, keys = RunBuilder(), ("k1", "k2", 3)

    def value(*usual: object) -> Any:
        return any_value(chance) if chance.random() < 0.3 else chance.choice(usual)

    def scope() -> Any:
        return chance.choice((None, *keys, Branch(None, "b"), Branch("k1", "b")))

    count = 0
    for _ in range(chance.randint(1, 12)):
        match chance.randrange(7):
            case 0:
                requests = [Request(value("f"), value({}, "{x"), value(None, "c1")) for _ in range(2)]
                builder.model_asked(requests, scope=scope(), agent=value(None, "a"))
                count += 2
            case 1:
                builder.tool_started(chance.choice(keys), value("f"), value({}), call_id=value("c1"), scope=scope())
            case 2:
                builder.tool_ended(chance.choice(keys), value("x"), model_output=value("y"), artifact=value(None))
            case 3:
                builder.tool_failed(chance.choice(keys), value("E: e"), outcome=chance.choice(list(Outcome)))
            case 4:
                builder.result_shown(value("x"), call_id=value("c1"), name=value("f"), error=value(None), failed=True)
            case 5:
                builder.started(value("q"))
            case _:
                builder.ended(value("a"), status=chance.choice(list(RunStatus)), error=value(None), may_wait=True)
    try:
        run = builder.build()
    except ToolgradeError as error:
        raise AssertionError(f"the run cannot be built: {error}") from None
    assert len(run.select_calls(nested=True, handoffs=True)) >= count
    assert Run.from_json(run.to_json()) is not None


def check_callbacks(data: bytes) -> None:
    """Check that the callbacks of LangChain's recorder take any arguments, in any order."""
    from langchain_core.messages import AIMessage, ToolMessage  # noqa: PLC0415 - fuzzing without adapters
    from langchain_core.outputs import ChatGeneration, LLMResult  # noqa: PLC0415 - as above

    from toolgrade_langchain import ToolCallRecorder  # noqa: PLC0415 - as above

    chance = random.Random(data)
    recorder = ToolCallRecorder()

    def value(*usual: object) -> Any:
        return any_value(chance) if chance.random() < 0.25 else chance.choice(usual)

    ids = [UUID(int=number) for number in range(4)]
    call = {"name": "f", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
    answer = AIMessage("", tool_calls=[call])
    messages: list[Any] = [answer, AIMessage("done"), ToolMessage("x", tool_call_id="c1")]
    for message in messages:
        for name in ("content", "additional_kwargs", "response_metadata", "tool_calls", "name", "usage_metadata"):
            if chance.random() < 0.1:
                object.__setattr__(message, name, any_value(chance))
    ways: list[Callable[[], object]] = [
        lambda: recorder.on_chain_start(value(None, {}), value({"messages": messages}), **named()),
        lambda: recorder.on_chain_end(value({"messages": messages}), **named()),
        lambda: recorder.on_chain_error(value(ValueError("x")), **named()),
        lambda: recorder.on_chat_model_start(value({}), value([messages]), **named()),
        lambda: recorder.on_llm_end(
            value(LLMResult(generations=[[ChatGeneration(message=AIMessage("", tool_calls=[call]))]])), **named()
        ),
        lambda: recorder.on_tool_start(value({"name": "f"}), value("{}"), inputs=value({"x": 1}), **named()),
        lambda: recorder.on_tool_end(value(messages[2], "x"), **named()),
        lambda: recorder.on_tool_error(value(ValueError("x")), **named()),
    ]

    def named() -> dict[str, Any]:
        extra = {"tags": value(None, []), "metadata": value(None, {"thread_id": "t"}), "name": value(None, "agent")}
        return {"run_id": chance.choice(ids), "parent_run_id": chance.choice((None, *ids)), **extra}

    for _ in range(chance.randint(1, 14)):
        chance.choice(ways)()
    for run in recorder.runs:
        run.to_json()


def check_agents_sdk(data: bytes) -> None:
    """Check that the recorder of OpenAI Agents changes nothing for the agent, whatever models and tools return."""
    played = [asyncio.run(_play_agent(random.Random(data), is_recorded=is_recorded)) for is_recorded in (False, True)]
    assert played[0] == played[1], f"the agent ended with {played[0]}, and with {played[1]} while it was recorded"


async def _play_agent(chance: random.Random, *, is_recorded: bool) -> str:
    """Return how an agent ends: the type of its answer, or its error."""
    import agents  # noqa: PLC0415 - fuzzing without adapters
    from agents import items as agents_items  # noqa: PLC0415 - as above
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage  # noqa: PLC0415 - as above

    from toolgrade_openai_agents import record as record_agents  # noqa: PLC0415 - as above

    def value(*usual: object) -> Any:
        return any_value(chance) if chance.random() < 0.15 else chance.choice(usual)

    class Model(agents.Model):
        async def get_response(self, *_args: Any, **_kwargs: Any) -> agents_items.ModelResponse:
            call = ResponseFunctionToolCall.model_construct(
                name=value("f", "g"), arguments=value("{}", '{"x": 1}', "{"), call_id=value("c1"), type="function_call"
            )
            text = {"type": "output_text", "text": value("done"), "annotations": []}
            message = ResponseOutputMessage.model_construct(
                id="m", type="message", role="assistant", status="completed", content=[value(text)]
            )
            output: list[Any] = [call] if chance.random() < 0.6 else [message]
            return agents_items.ModelResponse(output=value(output), usage=agents.Usage(), response_id=value(None, "r1"))

        def stream_response(self, *_args: Any, **_kwargs: Any) -> Any:
            raise NotImplementedError

    async def invoke(_context: object, _arguments: str) -> Any:
        return value("x")

    tool = agents.FunctionTool("f", "", {"type": "object", "properties": {}}, invoke, strict_json_schema=False)
    agent = agents.Agent(name="a", model=Model(), tools=[tool])
    options = agents.RunConfig(tracing_disabled=True)
    with record_agents() if is_recorded else nullcontext() as recorder:
        try:
            result = await agents.Runner.run(agent, "go", max_turns=4, run_config=options)
            ending = type(result.final_output).__name__
        except Exception as error:  # noqa: BLE001 - the framework may refuse a value, recorded or not
            ending = f"{type(error).__name__}"
    if recorder is not None:
        for run in recorder.runs:
            run.to_json()
    return ending


def check_spans(data: bytes) -> None:
    """Check that the recorder of LlamaIndex takes any spans and events."""
    from llama_index.core.base.llms.types import ChatMessage, ChatResponse  # noqa: PLC0415 - as above
    from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # noqa: PLC0415
    from llama_index.core.instrumentation.events import agent, exception, llm  # noqa: PLC0415 - as above
    from llama_index.core.tools import FunctionTool, ToolOutput  # noqa: PLC0415 - as above

    from toolgrade_llama_index import record as record_workflows  # noqa: PLC0415 - as above

    chance = random.Random(data)

    def value(*usual: object) -> Any:
        return any_value(chance) if chance.random() < 0.25 else chance.choice(usual)

    def f(x: int = 1, ctx: object = None, ev: object = None) -> int:  # noqa: ARG001 - arguments to bind
        return x

    tool, dispatcher = FunctionTool.from_defaults(f), get_dispatcher()
    names = ("Workflow.run", "FunctionTool.acall", "FunctionTool.call", "LLM.achat", "AgentWorkflow.call_tool")
    ids = [f"{chance.choice(names)}-{number}" for number in range(4)]
    bound = inspect.signature(f).bind(1)
    reply = ChatResponse(message=ChatMessage("x", additional_kwargs={"tool_calls": [value({})]}))
    call = {"tool_name": value("f"), "tool_kwargs": value({}), "tool_id": value("c1"), "ev": value(None)}
    events: list[Any] = [
        llm.LLMChatStartEvent.model_construct(messages=value([]), additional_kwargs=value({}), model_dict=value({})),
        llm.LLMChatEndEvent.model_construct(messages=value([]), response=value(reply, None)),
        agent.AgentToolCallEvent.model_construct(arguments=value("{}"), tool=value(tool.metadata)),
        exception.ExceptionEvent.model_construct(exception=value(ValueError("x"))),
        ToolOutput(tool_name="f", content="1", raw_input=call, raw_output=value(1)),
    ]
    with record_workflows() as recorder:
        for _ in range(chance.randint(1, 14)):
            span, parent = chance.choice(ids), chance.choice((None, *ids))
            match chance.randrange(4):
                case 0 | 1:
                    dispatcher.span_enter(
                        span, bound, instance=value(tool, None), parent_id=parent, tags=value({}, None)
                    )
                case 2:
                    dispatcher.span_exit(span, bound, instance=value(tool, None), result=value(events[4], reply, 1))
                case _:
                    event = chance.choice(events[:4])
                    object.__setattr__(event, "span_id", span)
                    dispatcher.event(event)
        for run in recorder.runs:
            run.to_json()
