"""Tapes: the recorded runs that answer, and `replay`, which opens one."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias, cast, get_args

from pydantic import BaseModel

from toolgrade._internal.atomic_files import atomic_write
from toolgrade._internal.json import json_text
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.model import drop_none, set_fields
from toolgrade._internal.text import plural
from toolgrade.calls import CallStatus, Execution, ToolCall, ToolCallType
from toolgrade.capture import doubles
from toolgrade.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMTestCase, Run
from toolgrade.dataset import BadLines, Golden, read_documents
from toolgrade.errors import ConfigurationError, ToolgradeWarning
from toolgrade.expect.matcher import Matcher
from toolgrade.formats.document_kind import is_one_conversation, kind_of
from toolgrade.inputs import Reading, collect_cases, join_runs, read_each, read_entries
from toolgrade.metrics.called_tools import text_of
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.replay.cursor import Options, RecordedRun, RecordMode, TapeCursor, is_answered, is_readable, left_call
from toolgrade.replay.faults import Fault

Ignored: TypeAlias = "Mapping[str, Iterable[str] | Mapping[str, Matcher]]"
"""By tool: JSON paths of arguments that are not compared, or matchers by the path of the argument."""

Recorded: TypeAlias = "Tape | str | os.PathLike[str] | Iterable[Run | AnyCase]"
"""A tape, the path of a file of runs, or a list of runs."""


class Tape:
    """Recorded runs that answer in place of tools.

    A tape is divided by golden. While `evaluate` runs an agent, each of its runs has one recorded run of the golden for
    itself, found by the id of the golden, else by its input; trials take turns. Elsewhere all recorded runs answer
    together, unless `run` says which question is asked.

    Example:
        >>> from toolgrade import Run, ToolCall, observe
        >>> from toolgrade.replay import replay
        >>> @observe(tool=True)
        ... def get_weather(city):
        ...     raise AssertionError("this would ask a server")
        >>> call = ToolCall(name="get_weather", input_parameters={"city": "Paris"}, output="sunny")
        >>> with replay([Run(input="Paris?", calls=[call])]) as tape:
        ...     print(get_weather("Paris"))
        sunny
        >>> print(tape)
        1 replayed, 0 faults, 0 outside the recording
    """

    def __init__(self, runs: Iterable[Run | AnyCase] = ()) -> None:
        """Make a tape of runs, or of cases with their called tools; `replay` opens it."""
        cases: list[AnyCase] = []
        for one in runs:
            if not isinstance(one, (Run, LLMTestCase, MLLMTestCase, ConversationalTestCase)):
                raise ConfigurationError(f"a tape must be made of runs or cases, got {type(one).__name__} {one!r:.60}")
            cases.append(one.to_test_case() if isinstance(one, Run) else one)
        self._recorded = _recorded_runs(cases)
        self._added: list[RecordedRun] = []
        self.options: Options = Options()
        self._counts: Counter[str] = Counter()
        self._trials: Counter[int] = Counter()
        """How often the runs of a golden were asked for, by the identity of the first of them."""
        self._running: list[TapeCursor] = []
        self._met: set[Fault] = set()
        self.left_calls: list[ToolCall] = []
        """The calls that the recording did not answer, each with the reason."""
        self.outside: TapeCursor = TapeCursor(self, RecordedRun())
        """The place of calls that belong to no run of `evaluate` or `run`."""
        self.lock: ForkSafeLock = ForkSafeLock()
        """Guards the added runs, the counts and the turns of trials."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tape:
        """Return the tape in a file: of runs or cases as recorders and `save` write them, or of results of `evaluate`.

        Raises:
            DataFileError: Some lines cannot be read; `problems` has all of them.
            OSError: The file cannot be opened or read.
        """
        tape = cls()
        tape._recorded = _recorded_runs(_read(path), f"{os.fspath(path)}, ")
        return tape

    def save(self, path: str | os.PathLike[str], *, redactor: Redactor = DEFAULT) -> None:
        """Write the tape as readable JSON: an indented case for each run, without run ids and times.

        `toolgrade score`, `approve` and other commands read it, too. An answer that holds a secret is written without
        it, and then cannot be replayed: a warning counts these. Another warning names calls that did not end or had no
        JSON form; they are not written.

        Args:
            path: The file; its folder must exist.
            redactor: Removes secrets; `redact.OFF` writes everything, for a private file.

        Raises:
            OSError: The file cannot be written.
        """
        cases = [redactor.model(_case_of(run)) for run in self.runs]
        text = json_text([case.to_dict() for case in cases], indent=2)
        with atomic_write(Path(path)) as draft:
            draft.write_text(f"{text}\n", encoding="utf-8")
        hidden = sum(not is_readable(call) for case in cases for call in case.tools_called or ())
        if hidden:
            lost = f"{plural(hidden, 'answer')} with a secret cannot be replayed, since the secret was removed"
            text = f"{os.fspath(path)}: {lost}; redactor=redact.OFF keeps it, for a private file"
            warnings.warn(text, ToolgradeWarning, stacklevel=2)
        endless = [call.name for run in self._added for call in run.calls if not is_answered(call)]
        if endless:
            lost = f"calls that did not end, or had no JSON form, are not on the tape: {', '.join(endless)}"
            warnings.warn(f"{os.fspath(path)}: {lost}", ToolgradeWarning, stacklevel=2)

    @contextmanager
    def run(self, golden: Golden | str) -> Generator[TapeCursor, None, None]:
        """Let the calls in the block be those of one run of an agent, on one recorded run of a golden or an input.

        `evaluate` does this for each run; elsewhere it is needed if a program asks an agent several questions at once,
        or one question several times.

        Example:
            >>> from toolgrade import Run, ToolCall, observe
            >>> from toolgrade.replay import replay
            >>> get_weather = observe(lambda city: "", name="get_weather", tool=True)
            >>> call = ToolCall(name="get_weather", input_parameters={"city": "Paris"}, output="sunny")
            >>> with replay([Run(input="Paris?", calls=[call])]) as tape:
            ...     for _ in range(2):
            ...         with tape.run("Paris?"):
            ...             print(get_weather("Paris"))
            sunny
            sunny
        """
        cursor = self._cursor(golden)
        self._running.append(cursor)
        try:
            with doubles.at(cursor):
                yield cursor
        except BaseException:
            cursor.run.is_broken = cursor.records  # what was recorded until now is incomplete
            raise
        finally:
            self._running.remove(cursor)

    def _cursor(self, golden: Golden | str) -> TapeCursor:
        question = golden if isinstance(golden, str) else golden.question
        name = None if isinstance(golden, str) else golden.id
        tools = () if isinstance(golden, str) else golden.available_tools or ()
        mode = self.options.record_mode
        with self.lock:
            runs = self._runs_of(name, question)
            if runs and mode != "all":
                trial = self._trials[id(runs[0])]
                self._trials[id(runs[0])] += 1
                return TapeCursor(self, runs[trial % len(runs)], tools)
            new = RecordedRun(name, question or None, replaces=[run for run in runs if not run.is_anonymous])
            self._added.append(new)
            missing = f"the tape has no run of {name or question!r}"
            return TapeCursor(self, new, tools, missing=missing, records=mode in {"all", "once"})

    def _runs_of(self, name: str | None, question: str) -> list[RecordedRun]:
        """Return the recorded runs of a golden; else the runs that have neither a golden nor an input.

        A question that holds a secret was written without it.
        """
        texts = [question, DEFAULT(question)]
        of_question = [run for run in self._recorded if run.input in texts and (name is None or run.golden is None)]
        of_golden = [run for run in self._recorded if name is not None and run.golden == name]
        return of_golden or of_question or [run for run in self._recorded if run.is_anonymous]

    def whole(self) -> TapeCursor:
        """Return a new cursor on all recorded runs together; what it records becomes a run of the tape."""
        if len(self._recorded) == 1 and self.options.record_mode != "all":
            return TapeCursor(self, self._recorded[0])
        calls = [call for run in self._recorded for call in run.calls]
        tools = [tool for run in self._recorded for tool in run.tools]
        source = self._recorded[0].source if self._recorded else ""
        mode = self.options.record_mode
        # Calls without a golden replace the whole tape.
        new = RecordedRun(source=source, replaces=self._recorded if mode == "all" else ())
        self._added.append(new)
        records = mode == "all" or (mode == "once" and not self._recorded)
        return TapeCursor(self, new, tools, calls, records=records)

    def leave(self, call: ToolCall) -> None:
        """Note a call that the recording does not answer."""
        with self.lock:
            self.left_calls.append(call)

    def refused(self, name: str, why: str) -> None:
        """Note that a tool was called where the tape is not visible, in all runs under way: it may belong to any."""
        call = left_call(name, {}, why)
        self.leave(call)
        for cursor in self._running.copy():
            cursor.refused(call)

    def meet(self, faults: Iterable[Fault]) -> None:
        """Note faults that a call has met."""
        with self.lock:
            self._met.update(faults)
            self._counts["faults"] += 1

    def missed_faults(self) -> Sequence[Fault]:
        """Return the faults that no call has met."""
        return [fault for fault in self.options.faults if fault not in self._met]

    def copy(self) -> Tape:
        """Return a tape of the same runs, to which calls can be added."""
        tape = Tape()
        tape._recorded = [replace(run, calls=list(run.calls)) for run in self.runs]
        return tape

    def count(self, kind: str) -> None:
        """Count a call."""
        with self.lock:
            self._counts[kind] += 1

    def __str__(self) -> str:
        """Return the counts: `14 replayed, 1 fault, 0 outside the recording`."""
        counts = self._counts
        recorded = f"{counts['recorded']:,} recorded, " if counts["recorded"] else ""
        faults = plural(counts["faults"], "fault")
        return f"{counts['replayed']:,} replayed, {recorded}{faults}, {self.left:,} outside the recording"

    @property
    def runs(self) -> list[RecordedRun]:
        """The recorded runs; those of one conversation are one. The run of an agent that broke replaces none."""
        added = [run for run in self._added if run.is_known and not run.is_broken]
        replaced = [earlier for run in added for earlier in run.replaces]
        return [*(run for run in self._recorded if run not in replaced), *added]

    @property
    def names(self) -> str:
        """The names of the recorded tools."""
        return ", ".join(dict.fromkeys(call.name for run in self._recorded for call in run.calls)) or "no tool"

    def has_news(self, path: Path) -> bool:
        """Return whether the file must be written: a call was recorded, or there is no file yet and no run broke."""
        if self.options.record_mode in {"none", "new_episodes"}:
            return self._counts["recorded"] > 0
        is_new = not path.exists() and not any(run.is_broken for run in self._added)
        return is_new or any(run.is_known and not run.is_broken for run in self._added)

    @property
    def allow_outside(self) -> bool:
        """Whether tools that are called where no tape is visible may run."""
        return self.options.allow_outside

    @property
    def left(self) -> int:
        """Number of calls that the recording did not answer."""
        return len(self.left_calls)


@contextmanager
def replay(
    tape: Recorded,
    *,
    record_mode: RecordMode = "none",
    ignore: Ignored | None = None,
    faults: Iterable[Fault] = (),
    writes: Iterable[str] = (),
    allow_outside: bool = False,
    redactor: Redactor = DEFAULT,
) -> Generator[Tape, None, None]:
    """Let recorded runs answer calls inside the block in place of the tools. No tool is executed, by default.

    This holds for tools of LangChain, LlamaIndex and the OpenAI Agents SDK whose adapter is installed, functions under
    `@observe(tool=True)`, and calls of MCP sessions: in the current context and in those copied from it, such as tasks
    and `asyncio.to_thread`. A tool that is called elsewhere meanwhile, such as in a plain thread, does not run either;
    it raises a `ReplayError`. Hosted tools are run by the provider of the model, and are not replayed.

    A call takes the first recorded call of its tool with equal arguments that no earlier call took. A recorded failure
    is raised as the exception that it was, if its type is built in or loaded and can be made of its text; else as a
    `ReplayError` with its name. A call that is not recorded gets an error, does not run, and fails the case: "left the
    recording at call 3", with the closest recorded call and the difference.

    Args:
        tape: A file of runs (as recorders, `evaluate` or `Tape.save` write it), a list of runs, or a `Tape`.
        record_mode: Which tools are executed, in the words of VCR. `"none"`: none. `"new_episodes"`: those of calls
            that are not recorded, which are added to the tape; only tools that `available_tools` declares as `read`,
            or that `writes` names. `"once"`: all, for a golden that has no recorded run yet. `"all"`: all, in place of
            what was recorded. With every mode but `"none"`, a path must end in `.json`; the tape is written there at
            the end.
        ignore: Arguments that are not compared, by tool: `{"search": ["$.session"]}`; or are, by a matcher:
            `{"search": {"$.query": IgnoreCase()}}`.
        faults: Faults to plant.
        writes: Tools that may run with `"new_episodes"` although they may write.
        allow_outside: Let tools run that are called where no tape is visible.
        redactor: Removes secrets from a tape that is written; `redact.OFF` for a private file.

    Raises:
        ConfigurationError: There is no such file, or an option is wrong.
        DataFileError: Some lines of the file cannot be read.
        ReplayError: The tools of an installed framework cannot be replaced.

    Example:
        >>> from toolgrade import Run, ToolCall, observe
        >>> from toolgrade.replay import ReplayError, replay
        >>> @observe(tool=True)
        ... def pay(amount):
        ...     raise AssertionError("this would pay")
        >>> runs = [Run(calls=[ToolCall(name="pay", input_parameters={"amount": 5}, output="paid")])]
        >>> with replay(runs):
        ...     print(pay(5))
        ...     try:
        ...         pay(6)
        ...     except ReplayError as error:
        ...         print(str(error)[:52])
        paid
        left the recording at call 2: pay {"amount": 6}; the
    """
    path = _path_of(tape, record_mode)
    opened = _source(tape, path, record_mode).copy()
    may_write = frozenset([writes] if isinstance(writes, str) else writes)
    opened.options = Options(record_mode, _faults(faults), may_write, allow_outside, _read_ignored(ignore or {}))
    with doubles.opened(opened):
        opened.outside = opened.whole()
        try:
            with doubles.at(opened.outside):
                yield opened
        except BaseException:
            opened.outside.run.is_broken = opened.outside.records  # what was recorded until now is incomplete
            raise
        finally:
            if path is not None and opened.has_news(path):
                opened.save(path, redactor=redactor)
    for fault in opened.missed_faults():
        warnings.warn(f"no call has met {fault}; the tape has calls of {opened.names}", ToolgradeWarning, stacklevel=3)


def _path_of(tape: Recorded, record_mode: str) -> Path | None:
    """Return the path of a tape, which can be written if it is to be; `None` for runs."""
    if record_mode not in get_args(RecordMode):
        raise ConfigurationError(f"record_mode must be one of {', '.join(get_args(RecordMode))}, got {record_mode!r}")
    if not isinstance(tape, (str, os.PathLike)):
        return None
    path = Path(tape).absolute()
    if record_mode != "none" and path.suffix != ".json":
        remedy = f"Tape.load({str(tape)!r}).save({str(Path(tape).with_suffix('.json'))!r}) makes one"
        raise ConfigurationError(f"a tape that is recorded must be a file that ends in .json, got {tape}; {remedy}")
    if record_mode != "none" and not path.parent.is_dir():
        raise ConfigurationError(f"there is no folder {str(path.parent)!r} for the tape; make it first")
    return path


def _faults(faults: object) -> tuple[Fault, ...]:
    items: tuple[Any, ...] = tuple(faults) if isinstance(faults, Iterable) else (faults,)
    for one in items:
        if not isinstance(one, Fault):
            raise ConfigurationError(f"faults must be a list of Fault, got {one!r:.60}")
    return items


def _source(tape: Recorded, path: Path | None, record_mode: RecordMode) -> Tape:
    """Return the recorded tape; an empty one if it is yet to be recorded."""
    if path is None:
        if isinstance(tape, (Run, BaseModel)) or not isinstance(tape, (Tape, Iterable)):
            raise ConfigurationError(f"a tape must be a file, a list of runs or a Tape, got {type(tape).__name__}")
        return tape if isinstance(tape, Tape) else Tape(cast("Iterable[Run | AnyCase]", tape))
    if path.exists():
        return Tape.load(path)
    if record_mode == "none":
        raise ConfigurationError(f"there is no tape {str(path)!r}; record it with record_mode='once'")
    return Tape()


def _read_ignored(ignore: Ignored) -> dict[str, list[tuple[Sequence[str], Matcher | None]]]:
    """Return the places of `ignore`, by tool: the keys of each, and its matcher, or `None` if it is not compared."""
    read: dict[str, list[tuple[Sequence[str], Matcher | None]]] = {}
    for tool, places in ignore.items():
        pairs = places.items() if isinstance(places, Mapping) else [(one, None) for one in places]
        for place, matcher in pairs:
            keys = place.removeprefix("$.").split(".")
            is_matcher = matcher is None or isinstance(matcher, Matcher)
            is_place = all(keys) and keys != ["$"] and not any(sign in place for sign in "[]*")
            if isinstance(places, str) or not is_place or not is_matcher:
                example = '{"search": ["$.session"]} or {"search": {"$.query": IgnoreCase()}}'
                raise ConfigurationError(f"ignore must be like {example}, got {places!r:.60} for {tool!r}")
            read.setdefault(tool, []).append((keys, matcher))
    return read


def _read(path: str | os.PathLike[str]) -> list[AnyCase]:
    """Return the cases in a file: of a file of results, the last one of each case that it holds."""
    how = Reading(unit="any")
    bad = BadLines()
    documents = list(read_documents(os.fspath(path), is_one=is_one_conversation))
    if documents and kind_of(documents[0].value) == "results":
        contents = {}
        for document in documents[1:]:
            value = document.value
            if isinstance(value, dict) and isinstance(value.get("content"), dict):
                contents[value.get("case"), value.get("trial"), value.get("agent")] = document._replace(
                    value=value["content"]
                )
        cases = collect_cases(read_each(contents.values(), how), os.fspath(path), bad)
    else:
        cases = collect_cases(read_entries(os.fspath(path), how), os.fspath(path), bad)
    bad.check(os.fspath(path), has_cases=True, reject=True)
    return cases


def _recorded_runs(cases: Sequence[AnyCase], file: str = "") -> list[RecordedRun]:
    """Return the runs of cases. The id of a recorded run or conversation is not taken for that of a golden."""
    runs = [run for case in cases if (run := getattr(case, "run", None)) is not None]
    own_ids = {one for run in runs for one in (run.run_id, run.conversation_id)}
    return [_recorded_run(case, file, own_ids) for case in join_runs(cases)]


def _recorded_run(case: AnyCase, file: str, own_ids: Collection[str | None]) -> RecordedRun:
    if isinstance(case, ConversationalTestCase):
        calls: Iterable[ToolCall] = chain.from_iterable(turn.tools_called or () for turn in case.turns)
    else:
        run = case.run or Run()
        calls = run.calls if "calls" in run.model_fields_set else case.tools_called or []
    text = _question(case)
    golden = None if case.id in own_ids else case.id
    source = f"{file}{case.name or case.id or text or ''}"
    return RecordedRun(golden, text, list(map(_as_it_ran, _by_framework(calls))), case.available_tools or (), source)


def _question(case: AnyCase) -> str | None:
    """Return the first text of the user."""
    if isinstance(case, ConversationalTestCase):
        return next((turn.content for turn in case.turns if turn.role == "user"), None)
    return text_of(case.input or "") or None


def _by_framework(calls: Iterable[ToolCall]) -> Generator[ToolCall, None, None]:
    """Yield the calls that can be replayed.

    A hosted call comes without its children; each of them, which the framework ran, follows as a call of its own.
    """
    for call in calls:
        how = call.execution
        if call.type is not ToolCallType.HOSTED or how is None or not how.children:
            yield call
        else:
            yield call.model_copy(update={"execution": how.model_copy(update={"children": []})})
            yield from _by_framework(how.children)


def _as_it_ran(call: ToolCall) -> ToolCall:
    """Return the call; if its tool ran despite invalid arguments, as in LlamaIndex, with the end of that execution."""
    how = call.execution
    is_invalid = how is not None and how.status is CallStatus.INVALID_ARGUMENTS
    if how is None or not is_invalid or not how.executed or "model_output" not in how.model_fields_set:
        return call
    if how.error is not None:
        return call.model_copy(update={"execution": how.model_copy(update={"status": CallStatus.ERROR})})
    execution = how.model_copy(update={"status": CallStatus.OK, "not_captured": []})
    return call.model_copy(update={"output": how.model_output, "execution": execution})


def _case_of(run: RecordedRun) -> LLMTestCase:
    """Return a recorded run as the case that is written."""
    fields = {"id": run.golden, "input": run.input, "available_tools": list(run.tools) or None}
    return LLMTestCase(**drop_none(fields), tools_called=[_written(call) for call in run.calls if is_answered(call)])


def _written(call: ToolCall) -> ToolCall:
    """Return a call with what a replay needs."""
    fields = {name: value for name, value in set_fields(call).items() if name in _WRITTEN}
    how = {name: value for name, value in set_fields(call.execution or Execution()).items() if name in _WRITTEN_HOW}
    how = {name: value for name, value in how.items() if (name, value) not in _IMPLIED}
    if "children" in how:
        how["children"] = list(map(_written, how["children"]))
    if how:
        fields["execution"] = Execution(**how)
    return ToolCall(**fields)


_WRITTEN: Final = frozenset({"name", "input_parameters", "output"})
_WRITTEN_HOW: Final = frozenset({"status", "error", "attempts", "model_output", "artifact", "children", "not_captured"})
_IMPLIED: Final[tuple[tuple[str, object], ...]] = (
    ("status", CallStatus.OK),
    ("attempts", 1),
    ("children", []),
    ("not_captured", []),
)
