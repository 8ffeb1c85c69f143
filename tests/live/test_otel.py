"""Recording of OpenTelemetry spans: the same spans give the same run live and read from a file."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processes import run_python
from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation
from toolgrade.cases import Run, RunStatus
from toolgrade.errors import ConfigurationError, MissingPackageError, NothingRecordedError
from toolgrade.formats import read_traces
from toolgrade.formats.traces.read import read_trace_documents
from tracing import CONVENTIONS, Convention, Script, histories, otlp_spans

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed here")
pytest.importorskip("opentelemetry.exporter.otlp.proto.common", reason="the encoder of OTLP is not installed here")

from opentelemetry import trace
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider

import toolgrade.live.recorder
from replay import documents_of, exported, otel_files, replay, sdk_items
from toolgrade.live.otel import SpanRecorder, as_agent, record_spans

ADD = ToolCall(name="add", input_parameters={"a": 1})


@pytest.fixture
def provider() -> TracerProvider:
    """A provider of the SDK that sends nothing."""
    return TracerProvider(shutdown_on_exit=False)


def user(text: str) -> str:
    """Return a prompt as a span has it."""
    return json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])


def asks_for_add(call_id: str = "c1") -> str:
    """Return a reply that calls the tool `add`."""
    part = {"type": "tool_call", "id": call_id, "name": "add", "arguments": {"a": 1}}
    return json.dumps([{"role": "assistant", "parts": [part]}])


class Agent:
    """An agent that is traced as the GenAI conventions say, and calls the tool `add` once."""

    def __init__(self, provider: Any) -> None:
        self.tracer = trace.get_tracer("agent", tracer_provider=provider)

    def __call__(self, question: str, answer: Any = "It is 3.") -> Any:
        """Answer a question."""
        with self.tracer.start_as_current_span("invoke_agent boss") as span:
            span.set_attribute("gen_ai.operation.name", "invoke_agent")
            self.model(question)
            self.tool()
        return answer

    def model(self, question: str) -> None:
        """Let the model ask for the tool."""
        with self.tracer.start_as_current_span("chat m-1") as span:
            span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"})
            span.set_attribute("gen_ai.input.messages", user(question))
            span.set_attribute("gen_ai.output.messages", asks_for_add())

    def tool(self) -> None:
        """Run the tool."""
        with self.tracer.start_as_current_span("execute_tool add") as span:
            span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"})
            span.set_attributes({"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": '{"a": 1}'})
            span.set_attribute("gen_ai.tool.call.result", "3")


@contextmanager
def http_request(agent: Agent) -> Iterator[Any]:
    """A span of something other than an agent."""
    with agent.tracer.start_as_current_span("GET /") as span:
        yield span


class Sink:
    """A list of runs."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def write(self, run: Run) -> None:
        """Store a run."""
        self.runs.append(run)


class BrokenSink:
    """A sink that fails."""

    def write(self, run: Run) -> None:
        """Fail."""
        raise OSError(f"no room for {run.run_id}")


# The law


def essence(runs: list[Run]) -> list[Any]:
    """Return what runs say, without paths, which differ between files."""
    fields = {"calls": {"__all__": {"execution": {"source", "children"}}}, "warnings": True}
    return [run.model_dump(exclude=fields) for run in runs]


@pytest.mark.parametrize("name", otel_files())
def test_a_replayed_export_gives_the_runs_of_its_file(name: str) -> None:
    """Of every library: equal to the file that an exporter writes, and but for paths to the recorded one."""
    documents = documents_of(name)
    items = sdk_items(documents)
    recorder = SpanRecorder()

    replay(items, recorder)

    assert recorder.runs == read_traces(exported(items)).runs
    recorded = read_trace_documents([(f"$[{index}]", entry) for index, entry in enumerate(documents)])
    assert essence(recorder.runs) == essence(recorded.runs)
    assert recorder.warnings == []


@given(st.lists(histories(), min_size=1, max_size=3), st.sampled_from(sorted(CONVENTIONS)))
def test_agents_at_the_same_time_give_the_runs_of_their_file(scripts: list[Script], convention: str) -> None:
    """Any histories, in any convention: each trace is a run."""
    documents = spans_at_once(scripts, CONVENTIONS[convention])
    items = sdk_items(documents)
    recorder = SpanRecorder()

    replay(items, recorder)

    assert recorder.runs == read_traces(exported(items)).runs
    assert len(recorder.runs) == len(scripts)


def spans_at_once(scripts: list[Script], convention: Convention) -> list[Any]:
    """Return the spans of histories that all begin at the same time, each in a trace of its own."""
    spans: list[Any] = []
    for number, script in enumerate(scripts):
        spans += [{**span, "traceId": f"{number + 1:032x}"} for span in otlp_spans(script, convention)]
    return spans


@pytest.mark.parametrize("name", [name for name in otel_files() if len(read_traces(documents_of(name)).runs) > 1])
def test_a_sink_receives_the_calls_of_each_turn_once(name: str) -> None:
    """A later turn repeats the calls of earlier ones, which the sink has received already."""
    sink = Sink()
    recorder = SpanRecorder(sink=sink)

    replay(sdk_items(documents_of(name)), recorder)

    assert recorder.runs == []
    file = read_traces(documents_of(name)).runs
    # Logfire begins a stream with a span that is a trace of its own, and known to be a copy only when the stream ends.
    assert [names_of(run) for run in sink.runs if run.calls] == [names_of(run) for run in file if run.calls]


def names_of(run: Run) -> list[str]:
    """Return the names of the calls of a run."""
    return [call.name for call in run.tools_called]


# Real spans


def test_a_run_is_recorded(provider: TracerProvider) -> None:
    """With the input, the call and its result, as from a file."""
    with record_spans(provider=provider) as recorder:
        Agent(provider)("What is 1 + 2?")

    (run,) = recorder.runs
    assert (run.input, run.models, run.status.value, run.warnings) == ("What is 1 + 2?", ["m-1"], "ok", [])
    (call,) = run.tools_called
    assert (call.name, call.input_parameters, call.output) == ("add", {"a": 1}, "3")
    assert recorder.last_run == run
    assert float(ToolCorrectnessMetric().measure(recorder.test_case([ADD]))) == 1
    assert recorder.pop() == [run]
    assert recorder.runs == []


def test_nothing_is_recorded_outside_of_the_block(provider: TracerProvider) -> None:
    """Neither before nor after it, and no second processor is added for the next block."""
    agent = Agent(provider)
    agent("before")
    block = record_spans(provider=provider)
    for _ in range(3):
        with block as recorder:
            agent("inside")
        agent("after")

    assert [run.input for run in recorder.runs] == ["inside"] * 3
    assert len(provider._active_span_processor._span_processors) == 1


def test_a_block_may_be_entered_while_it_is_open(provider: TracerProvider) -> None:
    """It records once, and until it is left as often."""
    block = record_spans(provider=provider)
    with block as recorder:
        with block:
            Agent(provider)("one")
        Agent(provider)("two")

    assert [(run.input, len(run.calls)) for run in recorder.runs] == [("one", 1), ("two", 1)]
    assert [len(stored.spans) for stored in recorder._traces.values()] == [3, 3]


def test_blocks_may_be_nested_and_async(provider: TracerProvider) -> None:
    """Each records everything inside of it."""

    async def main() -> tuple[int, int]:
        async with record_spans(provider=provider) as outer:
            Agent(provider)("one")
            async with record_spans(provider=provider) as inner:
                Agent(provider)("two")
            Agent(provider)("three")
        return len(outer.runs), len(inner.runs)

    assert asyncio.run(main()) == (3, 1)


def test_threads_are_runs_apart(provider: TracerProvider) -> None:
    """Eight agents whose spans interleave give eight runs."""
    agent, barrier = Agent(provider), Barrier(8)

    def ask(number: int) -> None:
        with agent.tracer.start_as_current_span("request"):
            barrier.wait()
            agent.model(f"question {number}")
            barrier.wait()
            agent.tool()

    with record_spans(provider=provider) as recorder, ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))

    assert sorted(str(run.input) for run in recorder.runs) == [f"question {number}" for number in range(8)]
    assert [names_of(run) for run in recorder.runs] == [["add"]] * 8


def test_traces_without_an_agent_are_no_runs(provider: TracerProvider) -> None:
    """Such as requests that a web server handles; the newest run is one of an agent all the same."""
    agent = Agent(provider)
    with record_spans(provider=provider, limit=2) as recorder:
        agent("What is 1 + 2?")
        for _ in range(10):
            with http_request(agent):
                pass

    assert recorder.last_run.input == "What is 1 + 2?"
    assert recorder.warnings == []


def test_an_open_run_is_shown_as_observed_so_far(provider: TracerProvider) -> None:
    """With a warning that names the open spans; it is not popped."""
    agent = Agent(provider)
    with record_spans(provider=provider) as recorder:
        with http_request(agent):
            agent.model("What?")
            (run,) = recorder.runs
            assert recorder.pop() == []
        (ended,) = recorder.pop()

    assert run.warnings[-1] == "1 span had not ended when the run was read: 'GET /'"
    assert (run.input, ended.input, ended.warnings) == ("What?", "What?", [])


def test_spans_that_are_open_at_the_end_of_the_block_are_recorded(provider: TracerProvider) -> None:
    """To their end, with what begins inside of their trace; then nothing listens any more."""
    agent, sink = Agent(provider), Sink()
    with record_spans(provider=provider, sink=sink) as recorder:
        span = agent.tracer.start_span("request")
        with trace.use_span(span):
            agent.model("What?")
    with trace.use_span(span):
        agent.tool()
    agent("of another trace")
    span.end()

    (run,) = sink.runs
    assert [call.output for call in run.tools_called] == ["3"]
    assert recorder.forwarders[0].recorders == ()


def test_a_block_inside_of_a_span_delivers_at_its_end(provider: TracerProvider) -> None:
    """The span around the block goes on, and belongs to no run."""
    agent, sink = Agent(provider), Sink()
    with http_request(agent):
        with record_spans(provider=provider, sink=sink):
            agent("one")
            agent.tool()
            assert sink.runs == []
        (run,) = sink.runs

    assert [call.execution.attempts for call in run.tools_called if call.execution] == [2]


def test_late_spans_belong_to_their_run(provider: TracerProvider) -> None:
    """Also those that begin when the trace has ended; with a sink, they are a run of their own."""
    agent, sink = Agent(provider), Sink()

    def run_late() -> None:
        with http_request(agent) as outer:
            agent.model("What?")
        with trace.use_span(outer):
            agent.tool()

    with record_spans(provider=provider) as recorder:
        run_late()
    with record_spans(provider=provider, sink=sink):
        run_late()

    assert [[call.output for call in run.tools_called] for run in recorder.runs] == [["3"]]
    assert [names_of(run) for run in sink.runs] == [["add"], ["add"]]
    assert "earlier spans of the trace are of a run that the recorder no longer has" in sink.runs[1].warnings[-1]


def test_threads_that_end_traces_at_the_same_time_deliver_each_once(provider: TracerProvider) -> None:
    """A trace that one thread passes on is not passed on by another; one with a further span has not ended."""
    sink = Sink()
    with record_spans(provider=provider, sink=sink) as recorder:
        Agent(provider)("What?")
        recorder._deliver(list(recorder._passed_on.values()))
        with http_request(Agent(provider)):
            Agent(provider).tool()
            recorder._deliver(list(recorder._traces.values()))
            assert len(sink.runs) == 1

    assert [len(run.calls) for run in sink.runs] == [1, 1]


def test_messages_in_log_records_are_read(provider: TracerProvider) -> None:
    """Some instrumentations write prompts and replies as events of the logs API; other log records are not stored."""
    logs = LoggerProvider(shutdown_on_exit=False)
    logger, tracer = logs.get_logger("agent"), provider.get_tracer("agent")

    def emit(name: str, body: Any) -> None:
        logger.emit(LogRecord(event_name=name, body=body))

    with record_spans(provider=provider, logger_provider=logs) as recorder:
        with tracer.start_as_current_span("chat m-1") as span:
            span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.system": "openai"})
            emit("gen_ai.user.message", {"content": "What?"})
            emit("app.started", {"secret": "x" * 1000})
            call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
            emit("gen_ai.choice", {"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [call]}})
        emit("gen_ai.user.message", {"content": "of no span"})

    (run,) = recorder.runs
    assert (run.input, [call.input_parameters for call in run.tools_called]) == ("What?", [{"a": 1}])
    (stored,) = recorder._traces.values()
    assert len(stored.spans) == 3


# Limits


def test_spans_beyond_the_limit_are_dropped_with_a_warning(provider: TracerProvider) -> None:
    """First the oldest runs that have ended, then spans of the only run."""
    agent = Agent(provider)
    with record_spans(provider=provider, max_spans=5) as recorder:
        agent("one")
        agent("two")
        assert [run.input for run in recorder.runs] == ["two"]
        assert recorder.warnings == ["more than 5 spans were stored, so the oldest runs were dropped"]
        with http_request(agent):
            for _ in range(7):
                agent.tool()
    (run,) = recorder.runs

    assert len(run.tools_called) == 5
    assert "3 spans of the trace came when the recorder was full and were dropped" in run.warnings[-1]


def test_memory_is_bounded(provider: TracerProvider) -> None:
    """By runs, spans and traces that never end, also where a sink takes the runs."""
    agent = Agent(provider)
    with record_spans(provider=provider, sink=Sink(), limit=10, max_spans=100) as recorder:
        for number in range(200):
            agent(f"question {number}")
            agent.tracer.start_span("never ends")

    assert len(recorder._traces) <= 20
    assert len(recorder._recordings) == len(recorder._traces)
    assert recorder._passed_on_spans == sum(len(one.spans) for one in recorder._passed_on.values()) <= 10
    assert recorder._stored_spans == sum(len(one.spans) for one in recorder._traces.values())
    assert recorder.warnings == ["more than 10 traces were open at the same time, so the oldest were dropped"]


def test_attributes_that_the_sdk_dropped_are_a_warning() -> None:
    """By default it keeps 128, and some instrumentations write several for each message."""
    provider = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(max_span_attributes=3))
    with record_spans(provider=provider) as recorder:
        Agent(provider)("What?")

    assert "attributes of spans were dropped by the limits of the SDK" in recorder.last_run.warnings[-1]


@pytest.mark.parametrize("options", [{"max_spans": 0}, {"max_spans": True}, {"limit": 0}])
def test_wrong_limits_are_errors(options: dict[str, Any]) -> None:
    """Each must be a whole number from 1."""
    with pytest.raises(ConfigurationError, match="must be a whole number from 1"):
        record_spans(**options)


def test_without_a_run_the_error_says_how_to_attach(provider: TracerProvider) -> None:
    """An instrumentation may not be turned on."""
    with record_spans(provider=provider) as recorder, pytest.raises(NothingRecordedError, match="instrumentation"):
        recorder.last_run  # noqa: B018 - a property


# Faults


def failing(*_: object) -> Any:
    """Fail."""
    raise RuntimeError("the reader is broken")


def test_a_fault_of_the_reader_does_not_reach_the_program(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is empty and says why; with a sink, the reader works while spans end."""
    monkeypatch.setattr(toolgrade.live.recorder, "runs_of", failing)
    sink = Sink()
    with record_spans(provider=provider) as recorder, record_spans(provider=provider, sink=sink):
        assert Agent(provider)("one") == "It is 3."
        assert Agent(provider)("two") == "It is 3."

    text = "the spans could not be read, so the run is empty: RuntimeError: the reader is broken"
    assert [run.warnings for run in (*recorder.runs, *sink.runs)] == [[text]] * 4


def test_one_unreadable_trace_does_not_hide_the_others(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where reading all of them fails, each is read alone."""
    read = toolgrade.live.recorder.spans_in

    def read_others(entries: list[tuple[str, Any]], notes: Any) -> Any:
        if "unreadable" in json.dumps(entries):
            failing()
        return read(entries, notes)

    monkeypatch.setattr(toolgrade.live.recorder, "spans_in", read_others)
    sink = Sink()
    with record_spans(provider=provider) as recorder, record_spans(provider=provider, sink=sink) as other:
        Agent(provider)("unreadable")
        Agent(provider)("What?")

    assert [run.input for run in recorder.runs] == [None, "What?"]
    assert [run.input for run in sink.runs] == [None, "What?"]
    assert other.warnings == []


@pytest.mark.parametrize("method", ["_note_start", "_note_end", "_trace", "_say"])
def test_a_fault_of_the_recorder_does_not_reach_the_program(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    """It is a warning of the recorder, and a log message where even that fails."""
    monkeypatch.setattr(SpanRecorder, method, failing)
    if method == "_say":
        monkeypatch.setattr(SpanRecorder, "_note_end", failing)
    with record_spans(provider=provider) as recorder, caplog.at_level(logging.WARNING):
        assert Agent(provider)("What?") == "It is 3."

    warned = "a span was not recorded, so its run may lack something: RuntimeError: the reader is broken"
    assert recorder.warnings == ([] if method == "_say" else [warned])
    assert ("a fault of the recorder" in caplog.text) == (method == "_say")


def test_a_sink_that_fails_leaves_the_runs_with_the_recorder(provider: TracerProvider) -> None:
    """And the program goes on."""
    with record_spans(provider=provider, sink=BrokenSink()) as recorder:
        assert Agent(provider)("What?") == "It is 3."

    assert [run.input for run in recorder.runs] == ["What?"]
    assert "the sink failed, so the recorder stores the run: OSError: no room" in recorder.warnings[0]


# Providers

FRESH = """
from opentelemetry import trace
tracer = trace.get_tracer("asked for before there is a provider")
from toolgrade.live.otel import record_spans
with record_spans() as recorder:
    with tracer.start_as_current_span("execute_tool add") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attributes({f"k{n}": n for n in range(300)})
print([call.name for call in recorder.last_run.calls], recorder.last_run.warnings)
print(type(trace.get_tracer_provider()).__module__)
"""


def test_a_program_without_a_provider_gets_one(tmp_path: Path) -> None:
    """It drops no attributes, and tracers that exist already use it."""
    done = run_python(["-c", FRESH], tmp_path)

    assert (done.err, done.out.splitlines()) == ("", ["['add'] []", "opentelemetry.sdk.trace"])


CLIENT_OF_MCP = """
import asyncio
from mcp import Client
from mcp.server import MCPServer
from toolgrade.agents import Conversation
from toolgrade.live.otel import as_agent
server = MCPServer("calculator")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

async def answer(question):
    async with Client(server) as client:
        return (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text

run = asyncio.run(as_agent(answer)("What is 1 + 2?", Conversation()))
print(run.input, run.actual_output, run.warnings)
print([(call.name, call.type.value, call.execution.not_captured) for call in run.calls])
"""


def test_a_library_that_traces_itself_is_recorded(tmp_path: Path) -> None:
    """The client of `mcp` does, without arguments and results."""
    pytest.importorskip("mcp.server.mcpserver", reason="mcp is not installed here")
    done = run_python(["-c", CLIENT_OF_MCP], tmp_path)

    calls = "[('add', 'mcp', ['input_parameters', 'output'])]"
    assert (done.err, done.out.splitlines()) == ("", ["What is 1 + 2? 3 []", calls])


def test_what_takes_no_processor_is_an_error() -> None:
    """Such as the provider of the API that does nothing."""
    with pytest.raises(ConfigurationError, match=r"with add_span_processor\(\), got 'NoOpTracerProvider'"):
        record_spans(provider=NoOpTracerProvider()).__enter__()
    with pytest.raises(ConfigurationError, match=r"with add_log_record_processor\(\), got 'int'"):
        record_spans(provider=TracerProvider(shutdown_on_exit=False), logger_provider=3).__enter__()


def test_a_disabled_sdk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would record nothing."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with pytest.raises(ConfigurationError, match="unset OTEL_SDK_DISABLED"):
        record_spans(provider=TracerProvider(shutdown_on_exit=False)).__enter__()


def test_a_missing_sdk_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line that installs it."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingPackageError, match=r"pip install opentelemetry-sdk"):
        record_spans().__enter__()


# as_agent


def ask(agent: Any, question: str = "What is 1 + 2?") -> Run:
    """Ask an agent one question."""

    async def main() -> Run:
        run: Run = await agent(question, Conversation("s-1"))
        return run

    return asyncio.run(main())


async def answer_later(agent: Agent, question: str) -> str:
    """Answer in a task, and in a thread with its context."""
    await asyncio.sleep(0)
    return str(await asyncio.to_thread(agent, question))


@pytest.mark.parametrize("kind", ["function", "async", "returns a coroutine", "with the conversation"])
def test_any_callable_can_be_asked(provider: TracerProvider, kind: str) -> None:
    """Its run is what happened below the call, with the returned text as answer."""
    agent = Agent(provider)

    async def later(question: str) -> str:
        return await answer_later(agent, question)

    functions: dict[str, Callable[..., Any]] = {
        "function": agent,
        "async": later,
        "returns a coroutine": lambda question: later(question),  # noqa: PLW0108 - not a coroutine function
        "with the conversation": lambda question, conversation: agent(question, conversation.id),
    }
    run = ask(as_agent(functions[kind], provider=provider))

    assert (run.input, run.conversation_id, run.warnings) == ("What is 1 + 2?", "s-1", [])
    assert run.actual_output == ("s-1" if kind == "with the conversation" else "It is 3.")
    assert names_of(run) == ["add"]


def test_goldens_are_asked_at_the_same_time(provider: TracerProvider) -> None:
    """Each case has its own call, inside of any span of the program."""
    agent = Agent(provider)
    goldens = [Golden(input=f"question {number}", expected_tools=[ADD]) for number in range(8)]

    with http_request(agent):
        report = evaluate(goldens=goldens, agent=as_agent(agent, provider=provider), metrics=[ToolCorrectnessMetric()])

    assert report.passed
    assert [case.case.input for case in report.cases] == [golden.input for golden in goldens]


def test_an_exporter_sees_no_span_of_toolgrade() -> None:
    """The program's own spans go where they went, whatever its sampler samples."""
    exporter, sampler = InMemorySpanExporter(), TraceIdRatioBased(1)
    provider = TracerProvider(shutdown_on_exit=False, sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    ask(as_agent(Agent(provider), provider=provider))

    assert [span.name for span in exporter.get_finished_spans()] == [
        "chat m-1",
        "execute_tool add",
        "invoke_agent boss",
    ]


def test_an_agent_that_raises_is_a_run_with_its_calls(provider: TracerProvider) -> None:
    """And with the error."""
    agent = Agent(provider)

    def fail(question: str) -> None:
        agent(question)
        raise ValueError("no good")

    run = ask(as_agent(fail, provider=provider))

    assert (run.status, run.error, names_of(run)) == (RunStatus.ERROR, "ValueError: no good", ["add"])


def test_an_agent_without_instrumentation_is_a_warning(provider: TracerProvider) -> None:
    """The run has the answer and no calls, and says why."""
    run = ask(as_agent(lambda question: f"You asked: {question}", provider=provider))

    assert run.actual_output == "You asked: What is 1 + 2?"
    assert run.calls == []
    assert "is an instrumentation of its library turned on" in run.warnings[-1]


def test_spans_that_outlive_the_answer_are_a_warning(provider: TracerProvider) -> None:
    """Such as a task that the agent left behind."""
    agent, spans = Agent(provider), []

    def leave_open(question: str) -> None:
        agent(question)
        spans.append(agent.tracer.start_span("background"))

    run = ask(as_agent(leave_open, provider=provider))
    spans[0].end()

    assert run.warnings == ["1 span had not ended when the run was read: 'background'"]


def test_threads_without_the_context_are_no_part_of_the_run(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their spans are traces of their own, which are not stored."""
    agent, stored = Agent(provider), []
    read = SpanRecorder.run_below

    def run_below(recorder: SpanRecorder, span: Any) -> Run:
        stored.extend(recorder._traces)
        return read(recorder, span)

    monkeypatch.setattr(SpanRecorder, "run_below", run_below)

    def start_thread(question: str) -> None:
        agent.model(question)
        thread = Thread(target=agent, args=("other",))
        thread.start()
        thread.join()

    run = ask(as_agent(start_thread, provider=provider))
    assert names_of(run) == ["add"]
    assert stored == [run.run_id]
