"""Cursors: which recorded call answers a call of one run of an agent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from toolgrade._internal.json import REDACTED, JsonObject, to_json_value
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.model import drop_none
from toolgrade._internal.text import error_text
from toolgrade.calls import CallStatus, Execution, ToolCall, ToolCallType, ToolEffect, ToolSpec
from toolgrade.capture.doubles import Answer, Refuse, RunningTool, at
from toolgrade.capture.records import json_value
from toolgrade.cases import Run, RunStatus
from toolgrade.expect.matcher import Matcher
from toolgrade.matching.argument_pattern import Mismatches, Template
from toolgrade.matching.json_compare import ABSENT, AbsentType, Difference, Path, has_mark, json_equal, place
from toolgrade.matching.value_text import pair_text, value_text
from toolgrade.replay.faults import Fault

RecordMode: TypeAlias = Literal["none", "new_episodes", "once", "all"]
"""What runs, in the words of VCR (vcrpy, "Record Modes"): nothing; also what is not recorded; everything of a golden
without a recorded run; everything, in place of what was recorded."""

_LIMIT: Final = 120
"""Characters of arguments, and of each value, in a message."""
_ANSWERED: Final = frozenset({CallStatus.OK, CallStatus.ERROR})
"""Statuses of calls whose tool ran to its end; of others, the framework itself has answered, or nobody."""


@dataclass(eq=False)
class RecordedRun:
    """The calls of one run, or of all turns of a conversation, and whose they are."""

    golden: str | None = None
    """Id of the golden."""
    input: str | None = None
    calls: list[ToolCall] = field(default_factory=list)
    tools: Sequence[ToolSpec] = ()
    source: str = ""
    """Where it stands, for messages."""
    replaces: Sequence[RecordedRun] = ()
    """The runs in whose place it is recorded."""
    is_broken: bool = False
    """Its agent or its program broke while it was recorded, so that it is not written."""

    @property
    def is_anonymous(self) -> bool:
        """Whether it does not say of which question it is."""
        return self.golden is None and self.input is None

    @property
    def is_known(self) -> bool:
        """Whether it says anything."""
        return bool(self.calls) or not self.is_anonymous


@dataclass(frozen=True)
class Options:
    """How a tape is replayed; see `replay`."""

    record_mode: RecordMode = "none"
    faults: tuple[Fault, ...] = ()
    writes: frozenset[str] = frozenset()
    allow_outside: bool = False
    ignored: Mapping[str, Sequence[tuple[Sequence[str], Matcher | None]]] = field(default_factory=dict)


class OpenTape(Protocol):
    """The tape that a cursor is on."""

    options: Options
    lock: ForkSafeLock
    """Held while the recorded runs are changed."""

    def count(self, kind: str) -> None:
        """Count a call."""

    def leave(self, call: ToolCall) -> None:
        """Note a call that the recording does not answer."""

    def meet(self, faults: Iterable[Fault]) -> None:
        """Note faults that a call has met."""


class TapeCursor:
    """One run of an agent, on the calls that were recorded of one run; it may be asked from several threads."""

    def __init__(
        self,
        tape: OpenTape,
        run: RecordedRun,
        tools: Sequence[ToolSpec] = (),
        calls: Sequence[ToolCall] | None = None,
        *,
        missing: str = "",
        records: bool = False,
    ) -> None:
        """Start before the first call.

        Args:
            tape: The tape.
            run: The recorded run, to which new calls are added.
            tools: Further tools, of which some are declared to read.
            calls: The recorded calls, if they are not those of `run`.
            missing: Why there is no recorded run.
            records: Every tool runs and is recorded.
        """
        self.tape = tape
        self.run = run
        self.left: list[ToolCall] = []
        """The calls that the recording does not answer, with the reason."""
        self._tools = (*run.tools, *tools)
        self._missing = missing
        self.records = records
        """Whether every tool runs and is recorded."""
        self._lock = ForkSafeLock()
        self._recorded = [one for one in (run.calls if calls is None else calls) if is_answered(one)]
        self._unused = self._recorded.copy()
        self._count = 0
        self._reported = 0
        self._ran: list[tuple[str, JsonObject]] = []
        self._by_tool: Counter[str] = Counter()

    def ask(
        self, name: str, arguments: Mapping[str, Any], *, runs_agent: bool = False, refuse: Refuse | None = None
    ) -> Answer | RunningTool:
        """Return what answers a call, or the tool as it may run; see `Cursor.ask`."""
        with self._lock:
            self._count += 1
            self._by_tool[name] += 1
            try:
                plain: JsonObject = to_json_value(dict(arguments))
            except Exception as error:  # noqa: BLE001 - arguments of any kind, and warnings that are errors
                if self.records:
                    return self._running(name, None, runs_agent=runs_agent)
                return self._leave(name, {}, f"the arguments of {name} cannot be compared: {error_text(error)}")
            answer, delay = self._planted(name)
            if answer is not None:
                return answer
            if self.records:
                return self._running(name, plain, runs_agent=runs_agent)
            found, hidden = self._take(name, plain)
            if runs_agent and (found is None or (found.execution and found.execution.children)):
                return self._agent(name, found)
            if found is not None:
                return self._answer(found, plain, hidden, delay, refuse)
            if self.tape.options.record_mode == "new_episodes" and self._may_run(name):
                return self._running(name, plain, runs_agent=runs_agent)
            return self._leave(name, plain, self._difference(name, plain))

    def _planted(self, name: str) -> tuple[Answer | None, float]:
        """Return how the faults of a call answer it, `None` if they do not, and for how long they delay it."""
        faults = [one for one in self.tape.options.faults if one.tool == name and one.hits(self._by_tool[name])]
        delay = sum(one.delay for one in faults)
        if faults:
            self.tape.meet(faults)
        return next(filter(None, (fault.answer(delay) for fault in faults)), None), delay

    def checked(self, run: Run) -> Run:
        """Return a run of this agent; if it shows none of the calls that left the recording, these are added."""
        calls = run.select_calls(nested=True)
        left, self._reported = self.left[self._reported :], len(self.left)
        warnings = list(run.warnings)
        for name in dict.fromkeys(call.name for call in calls if call.type is ToolCallType.HOSTED):
            text = f"{name} is run by the provider of the model, and not replayed"
            warnings += [] if text in warnings else [text]  # a recorder may have said so
        if run.status not in {RunStatus.OK, RunStatus.INTERRUPTED}:
            self.run.is_broken = self.records
        changes: dict[str, Any] = {} if warnings == run.warnings else {"warnings": warnings}
        if left and not any(call.execution and call.execution.left_recording for call in calls):
            changes["calls"] = [*run.calls, *left]
        return run.model_copy(update=changes) if changes else run

    def refused(self, call: ToolCall) -> None:
        """Note a call of a tool elsewhere, which may be part of this run."""
        with self._lock:
            self.left.append(call)

    def _running(self, name: str, arguments: JsonObject | None, *, runs_agent: bool) -> _Running:
        """Return the tool as it runs and is recorded; an agent's calls are recorded inside its call.

        Without `arguments`, which have no JSON form, the call stays on the tape as one that did not end.
        """
        if arguments is None:
            with self.tape.lock:
                self.run.calls.append(ToolCall(name=name, execution=Execution(status=CallStatus.CANCELLED)))
            return _Running(None, None)
        self._ran.append((name, arguments))
        inner = TapeCursor(self.tape, RecordedRun(), records=True) if runs_agent else None
        call = ToolCall(name=name, input_parameters=arguments, execution=Execution(status=CallStatus.CANCELLED))
        with self.tape.lock:
            own = sum(one == name and json_equal(more, arguments) for one, more in self._ran)
            there = [one for one in self.run.calls if one.name == name and json_equal(one.arguments, arguments)]
            if len(there) >= own + self._taken(name, arguments):  # another trial has recorded it
                return _Running(None, None)
            self.run.calls.append(call)
            index = len(self.run.calls) - 1

        def note(fields: JsonObject, how: JsonObject) -> None:
            children = inner.run.calls if inner is not None else None
            execution = Execution(**drop_none({**how, "executed": True, "children": children or None}))
            with self.tape.lock:
                self.run.calls[index] = ToolCall(name=name, input_parameters=arguments, **fields, execution=execution)
            self.tape.count("recorded")

        return _Running(inner, note)

    def _agent(self, name: str, found: ToolCall | None) -> _Running:
        """Return an agent as it runs on what was recorded inside its call, or inside the next one of its name."""
        call = found or next((one for one in self._unused if one.name == name), None)
        if found is None and call is not None:
            self._unused.remove(call)
        children = call.execution.children if call is not None and call.execution is not None else []
        missing = "" if call is not None else f"no call of {name!r} is recorded"
        run = RecordedRun(calls=list(children), tools=self._tools, source=self.run.source)
        inner = TapeCursor(self.tape, run, missing=missing)
        inner.left = self.left  # what leaves the recording inside of it, leaves it here
        return _Running(inner, None)

    def _taken(self, name: str, arguments: JsonObject) -> int:
        """Return how many recorded calls like this one have answered."""
        left = Counter(map(id, self._unused))
        taken = (one for one in self._recorded if not left[id(one)])
        return sum(one.name == name and json_equal(one.arguments, arguments) for one in taken)

    def _may_run(self, name: str) -> bool:
        """Return whether a tool that is not recorded may run: it is declared to read, or named as one that may."""
        declared = {tool.effect for tool in self._tools if tool.name == name}
        is_read = ToolEffect.READ in declared and ToolEffect.WRITE not in declared
        return is_read or name in self.tape.options.writes

    def _take(self, name: str, arguments: JsonObject) -> tuple[ToolCall | None, list[Path]]:
        """Take the first recorded call that is equal; one with redacted arguments only if no other is."""
        redacted: tuple[ToolCall, list[Path]] | None = None
        same = [one for one in self._unused if one.name == name]
        if name not in self.tape.options.ignored:
            equal = next((one for one in same if json_equal(one.arguments, arguments)), None)
            same = same if equal is None else [equal]  # the comparison of most calls, at once
        for call in same:
            mismatches = self._compared(call, arguments)
            if not mismatches.differences:
                if not mismatches.hidden:
                    self._use(call)
                    return call, []
                redacted = redacted or (call, mismatches.hidden)
        if redacted is None:
            return None, []
        self._use(redacted[0])
        return redacted

    def _use(self, call: ToolCall) -> None:
        """Take a call; one that ran n times, such as in a step that is run again, answers n times, after all others."""
        self._unused.remove(call)
        how = call.execution
        if how is not None and how.attempts > 1:
            fewer = how.model_copy(update={"attempts": how.attempts - 1})
            self._unused.append(call.model_copy(update={"execution": fewer}))

    def _compared(self, call: ToolCall, arguments: JsonObject) -> Mismatches:
        """Return how a call differs from a recorded one, where the tape compares them."""
        expected, called = dict(call.arguments), dict(arguments)
        for path, matcher in self.tape.options.ignored.get(call.name, ()):
            expected = _without(expected, path, matcher)
            called = called if matcher is not None else _without(called, path, None)
        mismatches = Template(expected).mismatches(called)
        for where in mismatches.hidden.copy():
            recorded, value = _at(expected, where), _at(called, where)
            if not _fits_redacted(recorded, value):
                mismatches.hidden.remove(where)
                mismatches.differences.append(Difference("wrong_argument", where, recorded, value))
        return mismatches

    def _answer(
        self, call: ToolCall, arguments: JsonObject, hidden: Sequence[Path], delay: float, refuse: Refuse | None
    ) -> Answer:
        """Return the recorded answer of a call, if it can be given."""
        call = call.model_copy(deep=True)  # whoever gets the answer may change it
        how = call.execution or Execution()
        redacted = _redacted_part(call)
        where = how.source or self.run.source or "the tape"
        if redacted:
            remedy = "record it without redaction into a private file, such as JsonlSink(path, redactor=redact.OFF)"
            text = f"the recorded {redacted} of {call.name} is redacted ({where}); {remedy}"
            return self._leave(call.name, arguments, text, cannot=True)
        if how.status is CallStatus.OK and not call.captured("output"):
            text = f"the output of {call.name} was not captured ({where}); record it again"
            return self._leave(call.name, arguments, text, cannot=True)
        places = ", ".join(place("input_parameters", path) for path in hidden)
        equals_any = (
            f"a recorded call of {call.name} answered whose {places} is redacted; what is redacted equals any value"
        )
        answer = _recorded_answer(call, how, delay, equals_any if hidden else None)
        why = None if refuse is None else refuse(answer)
        if why is not None:
            return self._leave(call.name, arguments, f"{why} ({where})", cannot=True)
        self.tape.count("replayed")
        return answer

    def _leave(self, name: str, arguments: JsonObject, why: str, *, cannot: bool = False) -> Answer:
        """Return the answer to a call that the recording does not answer."""
        text = f"{'cannot replay' if cannot else 'left the recording at'} call {self._count}: {why}"
        self.left.append(left_call(name, arguments, text))
        self.tape.leave(self.left[-1])
        return Answer(left=text)

    def _difference(self, name: str, arguments: JsonObject) -> str:
        """Return the call that is not recorded, and how the closest recorded one differs."""
        text = f"{name} {value_text(arguments, _LIMIT)}"
        if self.tape.options.record_mode == "new_episodes":
            text += f" may write, so it did not run (declare {name} as `read`, or name it in writes=[...])"
        if self._missing:
            return f"{text}; {self._missing}"
        recorded = [one for one in self._recorded if one.name == name]
        if not recorded:
            names = ", ".join(dict.fromkeys(one.name for one in self._recorded))
            return f"{text}; no call of {name} is recorded" + (f", but {names}" if names else "")
        closest = min(recorded, key=lambda one: len(self._compared(one, arguments).differences))
        equal = sum(not self._compared(one, arguments).differences for one in recorded)
        if equal:
            return f"{text}; it is recorded {'once' if equal == 1 else f'{equal} times'}, and was asked for once more"
        own = value_text(closest.arguments, _LIMIT)
        return f"{text}; the closest recorded call is {name} {own}{self._details(closest, arguments)}"

    def _details(self, call: ToolCall, arguments: JsonObject) -> str:
        lines: list[str] = []
        for one in self._compared(call, arguments).differences:
            where = place("input_parameters", one.path)
            if isinstance(one.expected, AbsentType):
                lines.append(f"{where} is not recorded")
            elif isinstance(one.called, AbsentType):
                lines.append(f"{where} is missing")
            else:
                texts = pair_text(one.expected, one.called, _LIMIT)
                lines.append(f"{where} is {texts.called}, recorded {texts.expected}{texts.note}")
        return f": {'; '.join(lines[:3])}" if lines else ""


def _recorded_answer(call: ToolCall, how: Execution, delay: float, warning: str | None) -> Answer:
    model_output = how.model_output if "model_output" in how.model_fields_set else ABSENT
    children = tuple(map(_replayed, how.children))
    if how.status is CallStatus.ERROR:
        output, error = ABSENT, how.error or "failed"
    else:
        output, error = call.output, None
    return Answer(output, model_output, how.artifact, error=error, delay=delay, warning=warning, children=children)


@dataclass
class _Running:
    """A tool that runs while a tape is open; see `RunningTool`."""

    inner: TapeCursor | None
    note: Callable[[JsonObject, JsonObject], None] | None

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Let the calls of an agent that runs ask the tape, and those of any other tool be part of it."""
        with at(self.inner):
            try:
                yield
            except Exception as error:
                self.failed(error_text(error))
                raise

    def returned(self, output: object, *, model_output: object = ABSENT, artifact: object = None) -> None:
        """Add the call to the tape."""
        if self.note is None:
            return
        plain, how = json_value(output)[0], _plain_fields(model_output=model_output, artifact=artifact)
        if plain is ABSENT:  # no value of JSON; it cannot be replayed
            self.note({}, {**how, "not_captured": ["output"]})
        else:
            self.note({"output": plain}, how)

    def failed(self, error: str, *, model_output: object = ABSENT, artifact: object = None) -> None:
        """Add the failed call to the tape."""
        if self.note is not None:
            how = _plain_fields(model_output=model_output, artifact=artifact)
            self.note({}, {"status": CallStatus.ERROR, "error": error, **how})


def _plain_fields(**values: object) -> JsonObject:
    """Return the values that are JSON and say something."""
    plain = {name: json_value(value)[0] for name, value in values.items()}
    return {name: value for name, value in plain.items() if value is not None and value is not ABSENT}


def left_call(name: str, arguments: JsonObject, why: str) -> ToolCall:
    """Return a call that the recording does not answer, as it is recorded."""
    how = Execution(status=CallStatus.ERROR, error=Answer(left=why).failure, left_recording=why)
    return ToolCall(name=name, input_parameters=arguments, execution=how)


def is_readable(call: ToolCall) -> bool:
    """Return whether nothing of the answer of a call was redacted."""
    return not _redacted_part(call)


def _redacted_part(call: ToolCall) -> str | None:
    """Return which part of the answer of a call was redacted; `None` if it is whole."""
    how = call.execution or Execution()
    parts = {"output": call.output, "model_output": how.model_output, "artifact": how.artifact, "error": how.error}
    return next((name for name, value in parts.items() if has_mark(value)), None)


def is_answered(call: ToolCall) -> bool:
    """Return whether a recorded call has an answer of its tool."""
    how = call.execution
    return how is None or (how.status in _ANSWERED and how.left_recording is None)


def _at(arguments: Any, path: Path) -> Any:  # noqa: ANN401 - JSON values
    """Return the value at a path; `ABSENT` if there is none."""
    for key in path:
        arguments = arguments.get(key, ABSENT) if isinstance(arguments, dict) else ABSENT
    return arguments


def _fits_redacted(recorded: Any, value: Any) -> bool:  # noqa: ANN401 - JSON values
    """Return whether a value fits a recorded one, in which what was redacted stands for anything."""
    if recorded == REDACTED:
        return value is not ABSENT
    if isinstance(recorded, str) and REDACTED in recorded:
        pattern = ".*".join(map(re.escape, recorded.split(REDACTED)))
        return isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL) is not None
    if isinstance(recorded, list) and isinstance(value, list):
        return len(recorded) == len(value) and all(map(_fits_redacted, recorded, value))
    if isinstance(recorded, dict) and isinstance(value, dict):
        return recorded.keys() == value.keys() and all(_fits_redacted(recorded[key], value[key]) for key in recorded)
    return json_equal(recorded, value)


def _replayed(call: ToolCall) -> ToolCall:
    """Return a call inside a replayed one, as replayed."""
    how = call.execution or Execution()
    children = {"children": list(map(_replayed, how.children))} if how.children else {}
    return call.model_copy(update={"execution": how.model_copy(update={"replayed": True, **children})})


def _without(arguments: JsonObject, path: Sequence[str], matcher: Matcher | None) -> JsonObject:
    """Return arguments without the value at a path, or with a matcher in its place."""
    key, *rest = path
    if key not in arguments:
        return arguments
    changed = dict(arguments)
    if rest:
        if isinstance(changed[key], dict):
            changed[key] = _without(changed[key], rest, matcher)
    elif matcher is None:
        del changed[key]
    else:
        changed[key] = matcher.bind(changed[key])
    return changed
