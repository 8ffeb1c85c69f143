"""Cursors: which recorded call answers a call of one run of an agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from toolgrade._internal.json import JsonObject, to_json_value
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.model import drop_none
from toolgrade._internal.text import error_text
from toolgrade.calls import CallStatus, Execution, ToolCall, ToolCallType, ToolEffect, ToolSpec
from toolgrade.capture.doubles import Answer, Refuse, RunningTool, at
from toolgrade.capture.records import json_value
from toolgrade.cases import Run
from toolgrade.errors import InvalidDataError
from toolgrade.expect.matcher import Matcher
from toolgrade.matching.argument_pattern import Mismatches, Template
from toolgrade.matching.json_compare import ABSENT, AbsentType, Path, has_mark, place
from toolgrade.matching.value_text import pair_text, value_text
from toolgrade.replay.faults import Fault

RecordMode: TypeAlias = Literal["none", "new_episodes", "once", "all"]
"""What runs, in the words of VCR (vcrpy, "Record Modes"): nothing; also what is not recorded; everything of a golden
without a recorded run; everything, in place of what was recorded."""

_LIMIT: Final = 120
"""Characters of arguments, and of each value, in a message."""
ANSWERED: Final = frozenset({CallStatus.OK, CallStatus.ERROR})
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

    def forget(self) -> None:
        """Leave out what was recorded before."""


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
        replaces: bool = False,
    ) -> None:
        """Start before the first call.

        Args:
            tape: The tape.
            run: The recorded run, to which new calls are added.
            tools: Further tools, of which some are declared to read.
            calls: The recorded calls, if they are not those of `run`.
            missing: Why there is no recorded run.
            records: Every tool runs and is recorded.
            replaces: What is recorded replaces the whole tape.
        """
        self.tape = tape
        self.run = run
        self.left: list[ToolCall] = []
        """The calls that the recording does not answer, with the reason."""
        self._tools = (*run.tools, *tools)
        self._missing = missing
        self._records = records
        self._replaces = records and replaces
        self._lock = ForkSafeLock()
        self._recorded = [one for one in (run.calls if calls is None else calls) if _is_answered(one)]
        self._unused = self._recorded.copy()
        self._count = 0
        self._reported = 0
        self._by_tool: Counter[str] = Counter()

    def ask(
        self, name: str, arguments: Mapping[str, Any], *, runs_agent: bool = False, refuse: Refuse | None = None
    ) -> Answer | RunningTool:
        """Return what answers a call, or the tool as it may run; see `Cursor.ask`."""
        try:
            asked: JsonObject = to_json_value(dict(arguments))
        except InvalidDataError as error:
            return self._leave(name, {}, f"the arguments of {name} cannot be compared: {error}")
        with self._lock:
            self._count += 1
            self._by_tool[name] += 1
            faults = [one for one in self.tape.options.faults if one.tool == name and one.hits(self._by_tool[name])]
            delay = sum(one.delay for one in faults)
            if faults:
                self.tape.count("faults")
            answer = next(filter(None, (fault.answer(delay) for fault in faults)), None)
            if answer is not None:
                return answer
            if self._records:
                return self._running(name, asked, runs_agent=runs_agent)
            found, hidden = self._take(name, asked)
            if runs_agent and (found is None or (found.execution and found.execution.children)):
                return self._agent(name, found)
            if found is not None:
                return self._answer(found, asked, hidden, delay, refuse)
            if self.tape.options.record_mode == "new_episodes" and self._may_run(name):
                return self._running(name, asked, runs_agent=runs_agent)
            return self._leave(name, asked, self._difference(name, asked))

    def checked(self, run: Run) -> Run:
        """Return a run of this agent; if it shows none of the calls that left the recording, these are added."""
        calls = run.select_calls(nested=True)
        left, self._reported = self.left[self._reported :], len(self.left)
        warnings = list(run.warnings)
        for name in dict.fromkeys(call.name for call in calls if call.type is ToolCallType.HOSTED):
            text = f"{name} is run by the provider of the model, and not replayed"
            warnings += [] if text in warnings else [text]  # a recorder may have said so
        changes: dict[str, Any] = {} if warnings == run.warnings else {"warnings": warnings}
        if left and not any(call.execution and call.execution.left_recording for call in calls):
            changes["calls"] = [*run.calls, *left]
        return run.model_copy(update=changes) if changes else run

    def _running(self, name: str, arguments: JsonObject, *, runs_agent: bool) -> _Running:
        """Return the tool as it runs and is recorded; an agent's calls are recorded inside its call."""
        inner = TapeCursor(self.tape, RecordedRun(), records=True) if runs_agent else None
        call = ToolCall(name=name, input_parameters=arguments, execution=Execution(status=CallStatus.CANCELLED))
        with self.tape.lock:
            if self._replaces:
                self._replaces = False
                self.tape.forget()
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
        return _Running(TapeCursor(self.tape, run, missing=missing), None)

    def _may_run(self, name: str) -> bool:
        """Return whether a tool that is not recorded may run: it is declared to read, or named as one that may."""
        declared = any(tool.name == name and tool.effect is ToolEffect.READ for tool in self._tools)
        return declared or name in self.tape.options.writes

    def _take(self, name: str, asked: JsonObject) -> tuple[ToolCall | None, list[Path]]:
        """Take the first recorded call that is equal; one with redacted arguments only if no other is."""
        redacted: tuple[ToolCall, list[Path]] | None = None
        for call in self._unused:
            if call.name != name:
                continue
            mismatches = self._compared(call, asked)
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

    def _compared(self, call: ToolCall, asked: JsonObject) -> Mismatches:
        """Return how a call differs from a recorded one, where the tape compares them."""
        expected, called = dict(call.arguments), dict(asked)
        for path, matcher in self.tape.options.ignored.get(call.name, ()):
            expected = _without(expected, path, matcher)
            called = called if matcher is not None else _without(called, path, None)
        return Template(expected).mismatches(called)

    def _answer(
        self, call: ToolCall, asked: JsonObject, hidden: Sequence[Path], delay: float, refuse: Refuse | None
    ) -> Answer:
        """Return the recorded answer of a call, if it can be given."""
        call = call.model_copy(deep=True)  # whoever gets the answer may change it
        how = call.execution or Execution()
        model_output = how.model_output if "model_output" in how.model_fields_set else ABSENT
        redacted = _redacted_part(call)
        where = how.source or self.run.source or "the tape"
        if redacted:
            remedy = "record it without redaction into a private file, such as JsonlSink(path, redactor=redact.OFF)"
            text = f"the recorded {redacted} of {call.name} is redacted ({where}); {remedy}"
            return self._leave(call.name, asked, text, cannot=True)
        if how.status is CallStatus.OK and not call.captured("output"):
            text = f"the output of {call.name} was not captured ({where}); record it again"
            return self._leave(call.name, asked, text, cannot=True)
        warning = None
        if hidden:
            places = ", ".join(place("input_parameters", path) for path in hidden)
            warning = f"a recorded call of {call.name} answered though its {places} is redacted, and equals any value"
        children = tuple(map(_replayed, how.children))
        error = (how.error or "failed") if how.status is CallStatus.ERROR else None
        output = ABSENT if error is not None else call.output if "output" in call.model_fields_set else None
        answer = Answer(
            output, model_output, how.artifact, error=error, delay=delay, warning=warning, children=children
        )
        why = None if refuse is None else refuse(answer)
        if why is not None:
            return self._leave(call.name, asked, f"{why} ({where})", cannot=True)
        self.tape.count("replayed")
        return answer

    def _leave(self, name: str, asked: JsonObject, why: str, *, cannot: bool = False) -> Answer:
        """Return the answer to a call that the recording does not answer."""
        text = f"{'cannot replay' if cannot else 'left the recording at'} call {self._count}: {why}"
        answer = Answer(left=text)
        how = Execution(status=CallStatus.ERROR, error=answer.failure, left_recording=text)
        self.left.append(ToolCall(name=name, input_parameters=asked, execution=how))
        self.tape.count("left")
        return answer

    def _difference(self, name: str, asked: JsonObject) -> str:
        """Return the call that is not recorded, and how the closest recorded one differs."""
        text = f"{name} {value_text(asked, _LIMIT)}"
        if self.tape.options.record_mode == "new_episodes":
            text += f" may write, so it did not run (declare {name} as `read`, or name it in writes=[...])"
        if self._missing:
            return f"{text}; {self._missing}"
        recorded = [one for one in self._recorded if one.name == name]
        if not recorded:
            names = ", ".join(dict.fromkeys(one.name for one in self._recorded))
            return f"{text}; no call of {name} is recorded" + (f", but {names}" if names else "")
        closest = min(recorded, key=lambda one: len(self._compared(one, asked).differences))
        equal = sum(not self._compared(one, asked).differences for one in recorded)
        if equal:
            return f"{text}; it is recorded {'once' if equal == 1 else f'{equal} times'}, and was asked for once more"
        return f"{text}; the closest recorded call is {_call_text(closest)}{self._details(closest, asked)}"

    def _details(self, call: ToolCall, asked: JsonObject) -> str:
        lines: list[str] = []
        for one in self._compared(call, asked).differences:
            where = place("input_parameters", one.path)
            if isinstance(one.expected, AbsentType):
                lines.append(f"{where} is not recorded")
            elif isinstance(one.called, AbsentType):
                lines.append(f"{where} is missing")
            else:
                texts = pair_text(one.expected, one.called, _LIMIT)
                lines.append(f"{where} is {texts.called}, recorded {texts.expected}{texts.note}")
        return f": {'; '.join(lines[:3])}" if lines else ""


@dataclass
class _Running:
    """A tool that runs while a tape is open; see `RunningTool`."""

    inner: TapeCursor | None
    note: Callable[[JsonObject, JsonObject], None] | None

    @contextmanager
    def _noting(self) -> Generator[None, None, None]:
        with at(self.inner):
            try:
                yield
            except Exception as error:
                self.failed(error_text(error))
                raise

    def running(self) -> AbstractContextManager[None]:
        """Let the calls of an agent that runs ask the tape, and those of any other tool be part of it."""
        return self._noting()

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


def is_readable(call: ToolCall) -> bool:
    """Return whether nothing of the answer of a call was redacted."""
    return not _redacted_part(call)


def _redacted_part(call: ToolCall) -> str | None:
    """Return which part of the answer of a call was redacted; `None` if it is whole."""
    how = call.execution or Execution()
    parts = {"output": call.output, "model_output": how.model_output, "artifact": how.artifact, "error": how.error}
    return next((name for name, value in parts.items() if has_mark(value)), None)


def _is_answered(call: ToolCall) -> bool:
    return call.execution is None or call.execution.status in ANSWERED


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


def _call_text(call: ToolCall) -> str:
    return f"{call.name} {value_text(call.arguments, _LIMIT)}"
