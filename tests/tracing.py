"""One scripted history of agents and its traces in the form of each tool.

A history is drawn with its truth: the calls, each once. What a form of traces cannot say is left out of that form, and
`Shows` tells which fields that are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

Plain = dict[str, Any]
BEGIN = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


@dataclass(eq=False)
class ScriptedCall:
    """One call: its request, whether its tool ran, and its result."""

    name: str
    id: str
    arguments: Plain
    result: str | None
    error: str | None = None
    inside: list[Step] = field(default_factory=list)


@dataclass(eq=False)
class Step:
    """One message of a model: text or calls."""

    agent: str
    calls: list[ScriptedCall]
    text: str = ""


@dataclass(eq=False)
class Script:
    """A run: the user's words and the messages of the models; the last of them answers."""

    words: str
    steps: list[Step]
    trace: str = "0af7651916cd43dd8448eb211c80319c"
    session: str | None = None


NAMES = st.sampled_from(["add", "search", "send mail", "größe"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "input", "query"]),
    st.one_of(st.integers(0, 3), st.sampled_from(["x", "3", "{}"])),
    max_size=2,
)


@st.composite
def histories(draw: st.DrawFn, *, nested: bool = True, ids: bool = True) -> Script:
    """Runs of up to four messages with up to three calls, some with agents inside of tools."""
    numbers = iter(range(1000))

    def steps(depth: int, agent: str) -> list[Step]:
        messages: list[Step] = []
        for _ in range(draw(st.integers(0, 3 if depth == 0 else 1))):
            calls: list[ScriptedCall] = []
            for _ in range(draw(st.integers(1, 3))):
                failed = draw(st.booleans()) and draw(st.booleans())
                inside = steps(depth + 1, f"{agent}+") if nested and depth < 2 and draw(st.booleans()) else []
                call_id = f"call_{next(numbers)}" if ids else ""
                result = None if failed else draw(st.sampled_from(["3", "ok", "x y", '{"n": 1}']))
                error = "ValueError: boom" if failed else None
                calls.append(ScriptedCall(draw(NAMES), call_id, draw(ARGUMENTS), result, error, inside))
            messages.append(Step(agent, calls))
        return [*messages, Step(agent, [], "Done.")]

    return Script(draw(st.sampled_from(["Go.", "What is 1 + 2?"])), steps(0, "boss"))


class Clock:
    """Moments that never come twice, and ids."""

    def __init__(self) -> None:
        self.ticks = 0

    def now(self) -> datetime:
        """The next moment."""
        self.ticks += 1
        return BEGIN + timedelta(milliseconds=self.ticks)

    def id(self) -> str:
        """The next id of a span."""
        self.ticks += 1
        return f"{self.ticks:016x}"


@dataclass
class ScriptedSpan:
    """One span of a history, independent of a format."""

    id: str
    parent: str | None
    kind: str
    agent: str
    began: datetime
    ended: datetime
    step: Step | None = None
    call: ScriptedCall | None = None
    history: list[Any] = field(default_factory=list)


def spans_of(script: Script) -> list[ScriptedSpan]:
    """The spans that a tracer would write: agents, models with what they were given, and tools."""
    return list(_agent(script.words, script.steps, None, Clock()))


def _agent(words: str, steps: list[Step], parent: str | None, clock: Clock) -> Iterator[ScriptedSpan]:
    own = ScriptedSpan(clock.id(), parent, "agent", steps[0].agent, clock.now(), BEGIN)
    history: list[Any] = [words]
    for step in steps:
        began = clock.now()
        yield ScriptedSpan(clock.id(), own.id, "model", step.agent, began, clock.now(), step, history=list(history))
        history.append(step)
        for call in step.calls:
            tool = ScriptedSpan(clock.id(), own.id, "tool", step.agent, clock.now(), BEGIN, call=call)
            if call.inside:
                yield from _agent(f"{call.name}, please", call.inside, tool.id, clock)
            tool.ended = clock.now()
            yield tool
            history.append(call)
    own.ended = clock.now()
    yield own


def answer_text(call: ScriptedCall) -> str:
    """Return the text of a call's result for the model."""
    return call.error if call.error is not None else call.result or ""


def calls_of(script: Script) -> list[Any]:
    """The calls, each with its inner calls."""
    return [_call(call) for step in script.steps for call in step.calls]


def _call(call: ScriptedCall) -> tuple[Any, ...]:
    return (
        call.name,
        call.id or None,
        call.arguments,
        call.error is None,
        [_call(c) for s in call.inside for c in s.calls],
    )


def read_calls(calls: list[Any]) -> list[Any]:
    """Return the same rows for parsed calls."""
    return [
        (
            call.name,
            call.id,
            call.input_parameters,
            call.execution.status.value == "ok",
            read_calls(call.execution.children),
        )
        for call in calls
    ]


# Messages


def openai_message(entry: Any) -> Plain:
    """A message of a history as OpenAI's."""
    if isinstance(entry, str):
        return {"role": "user", "content": entry}
    if isinstance(entry, ScriptedCall):
        return {"role": "tool", "tool_call_id": entry.id, "content": answer_text(entry)}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in entry.calls
    ]
    return {"role": "assistant", "content": entry.text or None, **({"tool_calls": calls} if calls else {})}


def genai_message(entry: Any) -> Plain:
    """Return a message in the current GenAI conventions."""
    if isinstance(entry, str):
        return {"role": "user", "parts": [{"type": "text", "content": entry}]}
    if isinstance(entry, ScriptedCall):
        return {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": entry.id, "response": answer_text(entry)}],
        }
    parts: list[Plain] = [{"type": "text", "content": entry.text}] if entry.text else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments} for call in entry.calls
    ]
    return {"role": "assistant", "parts": parts}


def langchain_message(entry: Any) -> Plain:
    """A message of a history as LangChain's `dumps` writes it."""

    def constructor(kind: str, **kwargs: Any) -> Plain:
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": kwargs}

    if isinstance(entry, str):
        return constructor("HumanMessage", content=entry, type="human")
    if isinstance(entry, ScriptedCall):
        status = "error" if entry.error is not None else "success"
        return constructor(
            "ToolMessage", content=answer_text(entry), tool_call_id=entry.id, name=entry.name, status=status
        )
    calls = [{"name": c.name, "args": c.arguments, "id": c.id, "type": "tool_call"} for c in entry.calls]
    return constructor("AIMessage", content=entry.text, type="ai", tool_calls=calls)


# OpenTelemetry


def any_value(value: Any) -> Plain:
    """A value as OTLP writes it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(entry) for entry in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"stringValue": value}


def pairs(attributes: Plain) -> list[Plain]:
    """Attributes as OTLP writes them."""
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def nanoseconds(moment: datetime) -> str:
    """A time as OTLP writes it."""
    return str(int((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(microseconds=1)) * 1000)


def new_genai(span: ScriptedSpan) -> tuple[Plain, list[Plain]]:
    """Return attributes and events of the current GenAI conventions."""
    if span.kind == "agent":
        return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": span.agent}, []
    if span.call is not None:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": span.call.name}
        attributes |= {"gen_ai.tool.call.id": span.call.id} if span.call.id else {}
        attributes |= {"gen_ai.tool.call.arguments": json.dumps(span.call.arguments)}
        attributes |= {"gen_ai.tool.call.result": span.call.result} if span.call.result is not None else {}
        return attributes, []
    assert span.step is not None
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.input.messages": json.dumps([genai_message(entry) for entry in span.history]),
        "gen_ai.output.messages": json.dumps([genai_message(span.step)]),
    }, []


def old_genai(span: ScriptedSpan) -> tuple[Plain, list[Plain]]:
    """Return those of the conventions until 2025: an event for each message."""
    attributes, _ = new_genai(span)
    if span.step is None:
        return attributes, []
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"}
    events: list[Plain] = []
    for entry in span.history:
        message = openai_message(entry)
        fields: Plain = {key: value for key, value in message.items() if value is not None}
        fields |= {"tool_calls": json.dumps(fields["tool_calls"])} if "tool_calls" in fields else {}
        fields |= {"id": fields.pop("tool_call_id")} if "tool_call_id" in fields else {}
        events.append({"name": f"gen_ai.{message['role']}.message", "attributes": pairs(fields)})
    choice = {"index": 0, "finish_reason": "stop", "message": json.dumps(openai_message(span.step))}
    return attributes, [*events, {"name": "gen_ai.choice", "attributes": pairs(choice)}]


def openllmetry(span: ScriptedSpan) -> tuple[Plain, list[Plain]]:
    """OpenLLMetry: an attribute for each field of each message."""
    if span.kind == "agent":
        return {"traceloop.span.kind": "agent", "traceloop.entity.name": span.agent}, []
    if span.call is not None:
        attributes = {"traceloop.span.kind": "tool", "traceloop.entity.name": span.call.name}
        attributes |= {"traceloop.entity.input": json.dumps({"input_str": "", "inputs": span.call.arguments})}
        attributes |= (
            {"traceloop.entity.output": json.dumps({"output": span.call.result, "kwargs": {}})}
            if span.call.result
            else {}
        )
        return attributes, []
    assert span.step is not None
    attributes = {"llm.request.type": "chat"}
    for prefix, entries in (("gen_ai.prompt", span.history), ("gen_ai.completion", [span.step])):
        for index, entry in enumerate(entries):
            message = openai_message(entry)
            for key in ("role", "content", "tool_call_id"):
                attributes |= {f"{prefix}.{index}.{key}": message[key]} if message.get(key) else {}
            for number, call in enumerate(message.get("tool_calls", ())):
                fields = {"id": call["id"], **call["function"]}
                attributes |= {
                    f"{prefix}.{index}.tool_calls.{number}.{key}": fields[key] for key in fields if fields[key]
                }
    return attributes, []


def openinference(span: ScriptedSpan) -> tuple[Plain, list[Plain]]:
    """OpenInference: the same under other names."""
    if span.kind == "agent":
        return {"openinference.span.kind": "AGENT", "agent.name": span.agent}, []
    if span.call is not None:
        attributes = {"openinference.span.kind": "TOOL", "tool.name": span.call.name}
        attributes |= {"tool.id": span.call.id} if span.call.id else {}
        attributes |= {"input.value": json.dumps(span.call.arguments), "input.mime_type": "application/json"}
        attributes |= {"output.value": span.call.result} if span.call.result is not None else {}
        return attributes, []
    assert span.step is not None
    attributes = {"openinference.span.kind": "LLM", "llm.model_name": "m-1"}
    for prefix, entries in (("llm.input_messages", span.history), ("llm.output_messages", [span.step])):
        for index, entry in enumerate(entries):
            message, start = openai_message(entry), f"{prefix}.{index}.message"
            for key in ("role", "content", "tool_call_id"):
                attributes |= {f"{start}.{key}": message[key]} if message.get(key) else {}
            for number, call in enumerate(message.get("tool_calls", ())):
                place = f"{start}.tool_calls.{number}.tool_call"
                attributes |= {f"{place}.id": call["id"]} if call["id"] else {}
                attributes |= {f"{place}.function.{key}": value for key, value in call["function"].items()}
    return attributes, []


Convention = Callable[[ScriptedSpan], tuple[Plain, list[Plain]]]
CONVENTIONS: dict[str, Convention] = {
    "genai": new_genai,
    "genai events": old_genai,
    "openllmetry": openllmetry,
    "openinference": openinference,
}


def otlp_spans(script: Script, convention: Convention) -> list[Plain]:
    """The spans of a history as OTLP writes them."""
    spans: list[Plain] = []
    for span in spans_of(script):
        attributes, events = convention(span)
        attributes |= {"session.id": script.session} if script.session else {}
        failed = span.call is not None and span.call.error is not None
        message = span.call.error if span.call is not None and failed else ""
        spans.append(
            {
                "traceId": script.trace,
                "spanId": span.id,
                **({"parentSpanId": span.parent} if span.parent else {}),
                "name": span.kind,
                "kind": 1,
                "startTimeUnixNano": nanoseconds(span.began),
                "endTimeUnixNano": nanoseconds(span.ended),
                "attributes": pairs(attributes),
                "events": events,
                "status": {"code": 2, "message": message} if failed else {},
            }
        )
    return spans


def otlp(*script: Script, convention: Convention = new_genai) -> Plain:
    """Histories as one file of OTLP."""
    spans = [span for one in script for span in otlp_spans(one, convention)]
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


def plain_attributes(span: Plain) -> Plain:
    """The attributes of a span of OTLP as an object."""
    return {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}


def jaeger(script: Script, convention: Convention = new_genai) -> Plain:
    """A history as Jaeger's user interface exports it."""
    spans: list[Plain] = []
    for span in otlp_spans(script, convention):
        start, end = int(span["startTimeUnixNano"]) // 1000, int(span["endTimeUnixNano"]) // 1000
        tags = [{"key": key, "type": "string", "value": value} for key, value in plain_attributes(span).items()]
        failed = span["status"].get("message")
        tags += [{"key": "otel.status_code", "type": "string", "value": "ERROR"}] if failed else []
        tags += [{"key": "otel.status_description", "type": "string", "value": failed}] if failed else []
        outer = (
            [{"refType": "CHILD_OF", "traceID": script.trace, "spanID": span["parentSpanId"]}]
            if "parentSpanId" in span
            else []
        )
        logs = [
            {
                "timestamp": start,
                "fields": [{"key": "event", "type": "string", "value": event["name"]}]
                + [{"key": pair["key"], "value": next(iter(pair["value"].values()))} for pair in event["attributes"]],
            }
            for event in span["events"]
        ]
        spans.append(
            {
                "traceID": script.trace,
                "spanID": span["spanId"],
                "operationName": span["name"],
                "references": outer,
                "startTime": start,
                "duration": end - start,
                "tags": tags,
                "logs": logs,
                "processID": "p1",
            }
        )
    return {"data": [{"traceID": script.trace, "spans": spans, "processes": {"p1": {"serviceName": "s"}}}]}


def phoenix(script: Script, convention: Convention = openinference) -> Plain:
    """A history as Phoenix's REST interface gives it."""
    spans = [
        {
            "id": f"U3Bhbjo{number}",
            "name": span["name"],
            "context": {"trace_id": script.trace, "span_id": span["spanId"]},
            "span_kind": plain_attributes(span).get("openinference.span.kind", "UNKNOWN"),
            "parent_id": span.get("parentSpanId"),
            "start_time": moment(span["startTimeUnixNano"]),
            "end_time": moment(span["endTimeUnixNano"]),
            "status_code": "ERROR" if span["status"] else "OK",
            "status_message": span["status"].get("message", ""),
            "attributes": plain_attributes(span),
            "events": [],
        }
        for number, span in enumerate(otlp_spans(script, convention))
    ]
    return {"data": spans, "next_cursor": None}


def moment(count: str) -> str:
    """A time of OTLP as a text."""
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=int(count) // 1000)).isoformat()


# Others


def langfuse(script: Script) -> Plain:
    """A history as Langfuse exports it; inputs and outputs are JSON texts, as the user interface writes them."""
    kinds = {"agent": "AGENT", "model": "GENERATION", "tool": "TOOL"}
    observations: list[Plain] = []
    for span in spans_of(script):
        call, step = span.call, span.step
        prompt: Any = None if call is None else call.arguments
        reply: Any = None if call is None else call.result
        if step is not None:
            prompt, reply = [openai_message(entry) for entry in span.history], openai_message(step)
        observations.append(
            {
                "id": span.id,
                "traceId": script.trace,
                "parentObservationId": span.parent,
                "type": kinds[span.kind],
                "name": call.name if call is not None else span.agent,
                "startTime": span.began.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "endTime": span.ended.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "level": "ERROR" if call is not None and call.error else "DEFAULT",
                "statusMessage": None if call is None else call.error,
                "input": None if prompt is None else json.dumps(prompt),
                "output": reply if reply is None or isinstance(reply, str) else json.dumps(reply),
                "metadata": "{}",
            }
        )
    return {"trace": {"id": script.trace, "name": "t", "sessionId": script.session}, "observations": observations}


def langsmith(script: Script) -> list[Plain]:
    """Return a history as LangSmith runs; tool inputs are the `repr` of the arguments."""
    kinds = {"agent": "chain", "model": "llm", "tool": "tool"}
    runs: list[Plain] = []
    for span in spans_of(script):
        call, step = span.call, span.step
        inputs: Plain = {} if call is None else {"input": repr(call.arguments)}
        outputs: Plain | None = None if call is None or call.error else {"output": langchain_message(call)}
        if step is not None:
            inputs = {"messages": [[langchain_message(entry) for entry in span.history]]}
            outputs = {"generations": [[{"text": step.text, "message": langchain_message(step)}]]}
        runs.append(
            {
                "id": span.id,
                "trace_id": script.trace,
                "parent_run_id": span.parent,
                "run_type": kinds[span.kind],
                "name": call.name if call is not None else span.agent,
                "start_time": span.began.isoformat(),
                "end_time": span.ended.isoformat(),
                "inputs": inputs,
                "outputs": outputs,
                "error": None if call is None else call.error,
                "extra": {"metadata": {"thread_id": script.session} if script.session else {}},
            }
        )
    return runs


def openai_agents(script: Script) -> list[Plain]:
    """A history as the OpenAI Agents SDK exports it, on a model behind Chat Completions."""
    written: list[Plain] = [
        {"object": "trace", "id": script.trace, "workflow_name": "w", "group_id": script.session, "metadata": None}
    ]
    for span in spans_of(script):
        call, step = span.call, span.step
        data: Plain = {"type": "agent", "name": span.agent, "handoffs": [], "tools": [], "output_type": "str"}
        if call is not None:
            data = {"type": "function", "name": call.name, "input": json.dumps(call.arguments), "output": call.result}
        elif step is not None:
            prompt, reply = [openai_message(entry) for entry in span.history], [openai_message(step)]
            data = {"type": "generation", "input": prompt, "output": reply, "model": "m-1", "usage": {}}
        failed = call is not None and call.error is not None
        written.append(
            {
                "object": "trace.span",
                "id": span.id,
                "trace_id": script.trace,
                "parent_id": span.parent,
                "started_at": span.began.isoformat(),
                "ended_at": span.ended.isoformat(),
                "span_data": data,
                "error": {"message": "Error running tool", "data": {"error": call.error}} if call and failed else None,
            }
        )
    return written


FORMS: dict[str, Callable[[Script], Any]] = {
    **{f"otlp, {name}": (lambda script, one=one: otlp(script, convention=one)) for name, one in CONVENTIONS.items()},
    "jaeger": jaeger,
    "jaeger, events": lambda script: jaeger(script, old_genai),
    "phoenix": phoenix,
    "langfuse": langfuse,
    "langsmith": langsmith,
    "openai-agents": openai_agents,
}
"""Every form, with how a history is written in it."""
