"""Evaluation of recorded files by all cores of one machine, in memory that does not grow with the files.

Large files of JSON Lines, also packed ones and pipes, are divided by bytes at line ends; any other file is one part. A
process reads, measures and encodes a part, and sends compact outcomes. This one takes them in the order of the input,
so that the report, the warnings and the file of results do not depend on the number of processes. What belongs together
across parts is joined here: runs that were interrupted and resumed, the runs of one golden, and cases with the
expectations of their goldens.
"""

from __future__ import annotations

import io
import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from gzip import GzipFile
from itertools import islice
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Generic, NamedTuple, TypeVar, cast

from toolgrade._internal.compression import (
    CORRUPTION_ERRORS,
    TooLargeError,
    corruption_message,
    lines_of,
    max_record_bytes,
    read_whole,
)
from toolgrade._internal.model import drop_none
from toolgrade._internal.text import join_first, plural, printable
from toolgrade.cases import NOT_ASKED, AnyCase, ConversationalTestCase, LLMTestCase, Run, RunStatus, Turn, texts_in
from toolgrade.dataset import ANSWERS, BLANK, BOM, BadLines, Document, Golden, open_source, read_line, source_name
from toolgrade.errors import ConfigurationError, InvalidDataError, Problem, ToolgradeWarning
from toolgrade.evaluation.builder import ReportBuilder
from toolgrade.evaluation.measuring import measure_in_thread, no_golden_of
from toolgrade.evaluation.pool import run_jobs
from toolgrade.evaluation.result_json import EncodedCase, encode_case
from toolgrade.evaluation.results_file import hash_of, head_of, rest_of
from toolgrade.evaluation.rows import CaseKey, Row, WorstRows
from toolgrade.expect.turns import in_one_turn
from toolgrade.failed_calls import ErrorTexts
from toolgrade.formats.document_kind import kind_of
from toolgrade.inputs import (
    Entry,
    Reading,
    ResumedRuns,
    conversation_id_of,
    joined,
    named,
    read_each,
    read_entries,
    replaced_text,
)
from toolgrade.metrics import MetricLike
from toolgrade.report import Report
from toolgrade.report.field_paths import cluster_of, value_at
from toolgrade.result import MetricResult, errored_result
from toolgrade.user_turns import UserTurn

if TYPE_CHECKING:
    from toolgrade.report.terminal.progress import ProgressBar

T = TypeVar("T")

PART_BYTES = 1 << 20
"""Bytes of a part: below a second of work, so that a killed process loses little, and all cores are busy to the end."""

WORTH_A_PROCESS = 4 << 20
"""Bytes that justify starting one more process."""

_MAX_WARNINGS = 1000
"""Most distinct warnings that are stored; further ones are only counted."""


@dataclass(frozen=True)
class FilePart:
    """Part of the input: some lines of a file, or a whole file.

    Attributes:
        file: Position of the file, from 0.
        size: Number of bytes of the file that are done with it.
        first: Number of the first line, from 1; `None` for a whole file.
        data: The content; `None` for a whole file that can be opened again.
        problem: Why it cannot be read.
    """

    file: int
    size: int
    first: int | None = None
    data: bytes | None = None
    problem: str | None = None


@dataclass(frozen=True)
class FileSetup:
    """What is evaluated, and how; every process has it.

    Attributes:
        paths: The files.
        metrics: The metrics.
        names: Their unique names.
        reading: How files are read.
        goldens: Expectations that cases get.
        cluster: Path of the field of a case that says which are repetitions of one another.
        full: Number of worst cases by each metric that stay whole in the report; 0 for all.
        hashes: Hashes of cases that are in the file of results; `None` without such a file.
        contents: Whether the file gets the content of the cases.
        error_texts: Which answers of tools are errors.
        reject_bad_lines: Whether a line that cannot be read ends the evaluation.
    """

    paths: tuple[str, ...]
    metrics: Sequence[MetricLike]
    names: Sequence[str]
    reading: Reading
    goldens: GoldenSet | None = None
    cluster: str | None = None
    full: int = 0
    hashes: frozenset[str] | None = None
    contents: bool = True
    error_texts: ErrorTexts = field(default_factory=ErrorTexts)
    reject_bad_lines: bool = False


class Tag(NamedTuple):
    """What joins a case of a file with others; it is sent with the outcome.

    Attributes:
        file: Position of the file.
        name: Name of the case in warnings.
        golden: Position of its golden.
        conversation: Id of the conversation that it is joined to, before it is measured.
        key: The value by which repetitions of one case are found: the golden, the cluster, or the id.
        run_id: Id of its run.
        is_interrupted: Whether the run was interrupted.
        problems: Why it cannot be read, if it cannot.
        misfit: Why it cannot be measured, if several goldens fit it, or it lacks turns of its golden.
    """

    file: int
    name: str
    golden: int | None = None
    key: str | None = None
    run_id: str | None = None
    is_interrupted: bool = False
    problems: tuple[Problem, ...] = ()
    misfit: str = ""
    conversation: str | None = None

    @property
    def error(self) -> InvalidDataError | None:
        """Why it cannot be measured, if it cannot."""
        if self.problems:
            return InvalidDataError("; ".join(map(str, self.problems)), self.problems)
        return InvalidDataError(self.misfit) if self.misfit else None


class FileCase(NamedTuple):
    """One case of a file, or in its place what cannot be read.

    `case` has a name and the expectations of its golden, `bare` is the case without the name that it has by its place.
    """

    tag: Tag
    case: AnyCase
    bare: AnyCase

    def encoded(self) -> EncodedCase:
        """Return the JSON text that the file of results has and that is hashed; or why there is none."""
        return encode_case(str(self.tag.error) if self.tag.problems else self.bare)

    def rest(self, row: Row, digest: str, encoded: EncodedCase, *, contents: bool) -> bytes:
        """Return the end of its line in the file of results."""
        return rest_of([row], digest, contents=contents and not self.tag.problems, encoded=[encoded])


class CaseOutcome(NamedTuple):
    """Outcome of one item, as a process sends it.

    `row` has the place 0. It has no results if the file of results may have some for the case, or if it is joined to a
    conversation; `item` is then the whole. `digest` and `rest` are the hash and the end of its line.
    """

    tag: Tag
    row: Row
    digest: str = ""
    rest: bytes = b""
    item: FileCase | None = None


class FilePartOutcome(NamedTuple):
    """Outcomes of a part, in its order, with the warnings about it."""

    items: list[CaseOutcome]
    warnings: list[str]


def check_files(files: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the paths of files that are evaluated together.

    Raises:
        ConfigurationError: One is there twice.
        OSError: One does not exist; the others are not evaluated first.
    """
    paths = [os.fspath(file) for file in files]
    path_by_target: dict[str, str] = {}
    for path in paths:
        if path != "-":
            Path(path).stat()
        target = path if path == "-" else os.path.realpath(path)
        if target in path_by_target:
            first = printable(path_by_target[target])
            raise ConfigurationError(f"{printable(path)} and {first} are one file; its cases would count twice")
        path_by_target[target] = path
    return tuple(paths)


def divide(paths: Sequence[str]) -> Iterator[FilePart]:
    """Yield the parts of all files, in their order; lines are counted on the way.

    Raises:
        OSError: A file cannot be opened or read.
    """
    for number, path in enumerate(paths):
        yield from _parts(number, path)


def size_of(path: str) -> int:
    """Return the bytes of a regular file, 0 for standard input and pipes."""
    return Path(path).stat().st_size if path != "-" and Path(path).is_file() else 0


def _parts(number: int, path: str) -> Iterator[FilePart]:
    """Yield the parts of a file: large ones of lines are divided."""
    left, first, limit = size_of(path), 1, max_record_bytes()
    try:
        with open_source(path) as file:
            is_packed = isinstance(cast("object", file), GzipFile)  # how much was read is not known before its end
            while piece := file.read(PART_BYTES):
                if first == 1 and (len(piece) < PART_BYTES or not _are_lines(piece, file)):
                    yield FilePart(number, left) if left else FilePart(number, 0, data=piece + read_whole(file))
                    return
                end = file.readline(limit + 1)
                piece += end
                while len(end) > limit and not end.endswith(b"\n"):  # the reader of the part refuses this line
                    end = file.readline(limit + 1)
                size = 0 if is_packed else min(left, len(piece))
                left -= size
                yield FilePart(number, size, first, piece)
                first += piece.count(b"\n") + (not piece.endswith(b"\n"))
            if first == 1:
                yield FilePart(number, left)
            elif left:
                yield FilePart(number, left, first)
    except CORRUPTION_ERRORS as error:
        yield FilePart(number, left, first, problem=corruption_message(error))


def _are_lines(piece: bytes, file: BinaryIO) -> bool:
    """Return whether a large file is JSON Lines of cases or conversations, by the first line that is not blank."""
    lines = piece.removeprefix(BOM).lstrip(BLANK)
    first, _, rest = lines.partition(b"\n")
    document = read_line(first + b"\n", 1, allow_nan=True)
    is_alone = first.startswith(b"[") and not rest.strip(BLANK) and not cast("io.BufferedReader", file).peek(1)
    return not document.problems and not is_alone and kind_of(document.value) in {"case", "messages"}


def entries_of(part: FilePart, paths: Sequence[str], reading: Reading) -> Iterator[Entry]:
    """Yield the entries of a part."""
    if part.first is None:
        return read_entries(paths[part.file] if part.data is None else io.BytesIO(part.data), reading)
    return read_each(_documents(part, part.first, reading), reading)


def _documents(part: FilePart, number: int, reading: Reading) -> Iterator[Document]:
    """Yield the documents of some lines of a file, of which the first has this number."""
    problem = part.problem
    try:
        for line in lines_of(io.BytesIO(part.data or b"")):
            text = line.removeprefix(BOM) if number == 1 else line
            if text.strip(BLANK):
                yield read_line(text, number, allow_nan=reading.allow_nan)
            number += 1
    except TooLargeError as error:
        problem = str(error)
    if problem is not None:
        yield Document(line=number, problems=(Problem("$", problem, number),))


def items_of(part: FilePart, setup: FileSetup) -> Iterator[FileCase]:
    """Yield the cases of a part, with their goldens; warnings about its file are issued."""
    path = setup.paths[part.file]
    file = source_name(path) if len(setup.paths) > 1 else ""
    for entry in entries_of(part, setup.paths, setup.reading):
        for text in entry.notes:
            warnings.warn(f"{source_name(path)}: {text}", ToolgradeWarning, stacklevel=2)
        name = entry.name(file)
        if entry.problems:
            case = LLMTestCase(name=name or source_name(path))
            yield FileCase(Tag(part.file, case.name or "", problems=entry.problems), case, case)
        for bare in entry.cases:
            yield _file_case(bare, name, part.file, setup)


def _file_case(case: AnyCase, name: str, file: int, setup: FileSetup) -> FileCase:
    """Return a case of a file with the expectations of its golden, and with what joins it with others."""
    golden, key, misfit = None, None, ""
    if setup.reading.unit == "conversations":
        conversation = conversation_id_of(case)
        if conversation is not None:
            return FileCase(Tag(file, name, conversation=conversation), case, case)
        (case,) = joined([case])
    if setup.goldens is not None:
        try:
            case, golden, misfit = setup.goldens.join(case)
        except InvalidDataError as error:
            misfit = str(error)
        key = None if golden is None else str(golden)
    if setup.cluster is not None:
        key = cluster_of(case, setup.cluster)
    elif setup.goldens is None:
        key = case.id  # cases with one id are trials of one golden
    run = getattr(case, "run", None) or Run()
    is_interrupted = run.run_id is not None and run.status is RunStatus.INTERRUPTED
    read = named(case, name)
    tag = Tag(file, read.id or read.name or "", golden, key, run.run_id, is_interrupted, (), misfit)
    return FileCase(tag, read, case)


def measure_item(tag: Tag, case: AnyCase, setup: FileSetup) -> tuple[MetricResult, ...]:
    """Return a result of each metric."""
    pairs = zip(setup.metrics, setup.names, strict=True)
    error = tag.error
    if error is not None:
        return tuple(errored_result(name, metric.threshold, error) for metric, name in pairs)
    no_golden = no_golden_of(tag.golden, has_goldens=setup.goldens is not None)
    with setup.error_texts.applied():
        return tuple(measure_in_thread(metric, case, no_golden).renamed(name) for metric, name in pairs)


def _part_outcome(setup: FileSetup, part: FilePart) -> FilePartOutcome:
    """Evaluate one part, in any process."""
    rows = WorstRows(setup.full)
    outcomes: list[CaseOutcome] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ToolgradeWarning)
        for item in items_of(part, setup):
            outcomes.append(_case_outcome(setup, item))
            rows.add(outcomes[-1].row)
    rows.trim()
    items = [one._replace(row=row) for one, row in zip(outcomes, rows.rows, strict=True)]
    return FilePartOutcome(items, _distinct_warnings(caught))


def _case_outcome(setup: FileSetup, item: FileCase) -> CaseOutcome:
    """Measure a case, unless it has results or is joined to a conversation."""
    if item.tag.conversation is not None:
        return CaseOutcome(item.tag, Row.of(item.case, 0), item=item)
    if setup.hashes is None:
        return CaseOutcome(item.tag, Row.of(item.case, 0, results=measure_item(item.tag, item.case, setup)))
    encoded = item.encoded()
    digest = hash_of(encoded)
    if digest in setup.hashes:  # it stays as it is, in case its line there is wrong
        return CaseOutcome(item.tag, Row.of(item.case, 0), digest, item=item)
    row = Row.of(item.case, 0, results=measure_item(item.tag, item.case, setup))
    return CaseOutcome(item.tag, row, digest, item.rest(row, digest, encoded, contents=setup.contents))


class Intake(Generic[T]):
    """Takes what belongs to the cases of files, in their order, and joins what belongs together.

    An interrupted run waits until the end, because a later line may have it again, resumed; so do the runs of a
    conversation, which is then read by `finish`.
    """

    def __init__(self, setup: FileSetup, finish: Callable[[FileCase], T]) -> None:
        self.bad = BadLines()
        self._finish = finish
        self._runs: dict[str, list[tuple[int, int, AnyCase]]] = {}  # by conversation: place, file and case
        self.places = 0
        self._plan = setup
        self._count = 0
        self._waiting: dict[int, tuple[Tag, T]] = {}
        self._resumed = ResumedRuns()
        self._replaced: Counter[int] = Counter()
        self._repetitions: dict[str, tuple[int, int]] = {}  # the place of the first, and the number of all
        self._used: set[int] = set()
        self._without: list[str] = []
        self._ambiguous: list[str] = []

    def take(self, tag: Tag, value: T, item: FileCase | None = None) -> Iterator[tuple[CaseKey, int | None, T]]:
        """Yield the value with its key and the place of the first case of its golden or cluster, if it can count.

        `item` is the whole case, of a conversation at least.
        """
        place = self.places
        self.places += 1
        if tag.conversation is not None and item is not None:
            self._runs.setdefault(tag.conversation, []).append((place, tag.file, item.bare))
            return
        if tag.run_id is not None:
            replaced = self._resumed.add_run(place, tag.run_id, is_interrupted=tag.is_interrupted)
            if replaced is not None:
                self._replaced[self._waiting.pop(replaced)[0].file] += 1
        if tag.is_interrupted:
            self._waiting[place] = tag, value
        else:
            yield self._accept(place, tag, value)

    def rest(self) -> Iterator[tuple[CaseKey, int | None, T]]:
        """Yield the interrupted runs that were not resumed, and the conversations of the runs."""
        for place, (tag, value) in self._waiting.items():
            yield self._accept(place, tag, value)
        self._waiting.clear()
        for runs in self._runs.values():
            place, file, _ = runs[0]
            (conversation,) = joined(case for _, _, case in runs)
            item = _file_case(conversation, "", file, self._plan)
            yield self._accept(place, item.tag, self._finish(item))
        self._runs.clear()

    def _accept(self, place: int, tag: Tag, value: T) -> tuple[CaseKey, int | None, T]:
        self._count += 1
        if tag.problems:
            self.bad.add(self._plan.paths[tag.file], tag.problems)
        elif tag.golden is not None:
            self._used.add(tag.golden)
        elif tag.misfit:
            self._ambiguous.append(f"case {tag.name or place + 1}: {tag.misfit}")
        elif self._plan.goldens is not None:
            self._without.append(tag.name or f"#{place + 1}")
        if tag.key is None:
            return CaseKey(place), None, value
        first, before = self._repetitions.get(tag.key, (place, 0))
        self._repetitions[tag.key] = first, before + 1
        return CaseKey(place, before + 1), first, value

    def check(self) -> None:
        """Issue the warnings.

        Raises:
            DataFileError: Nothing could be read.
            ConfigurationError: No case has a golden, or the cluster.
        """
        setup = self._plan
        self.bad.check(setup.paths[0], has_cases=self._count > self.bad.count, reject=False)
        if setup.cluster is not None and not self._repetitions:
            raise ConfigurationError(f"no case has {setup.cluster!r}, the cluster")
        texts: list[str] = []
        if setup.goldens is not None:
            texts = setup.goldens.missing_partners(self._used, self._without, self._ambiguous)
        texts += [f"{source_name(setup.paths[file])}: {replaced_text(count)}" for file, count in self._replaced.items()]
        for text in texts:
            warnings.warn(text, ToolgradeWarning, stacklevel=5)
        self.bad.warn("each counts as a case that was not measured", stacklevel=5)

    @property
    def goldens_without_case(self) -> int:
        """Number of goldens that no case has."""
        return 0 if self._plan.goldens is None else len(self._plan.goldens.goldens) - len(self._used)


class FileEvaluation:
    """Evaluation of files: takes the outcomes of parts in their order, and makes the report."""

    def __init__(self, setup: FileSetup, builder: ReportBuilder, processes: int, bar: ProgressBar | None) -> None:
        self.setup = setup
        self._builder = builder
        self._processes = processes
        self._bar = bar
        self._intake = Intake[CaseOutcome](setup, partial(_case_outcome, setup))
        self._rows = WorstRows(setup.full)
        self._warnings: dict[str, None] = {}

    @property
    def progress(self) -> tuple[int, None]:
        """Number of cases that are done; that of all is not known."""
        return len(self._rows.rows), None

    def run_here(self) -> None:
        """Evaluate all parts; for errors see `steps`."""
        for _ in self.steps():
            pass

    async def run(self) -> None:
        """Do the same in a thread, part by part, so that it can be cancelled."""
        import asyncio  # noqa: PLC0415 - needed only inside an event loop

        with closing(self.steps()) as steps:
            is_done = False
            while not is_done:
                step = asyncio.ensure_future(asyncio.to_thread(next, steps, True))
                try:
                    is_done = await asyncio.shield(step)
                except asyncio.CancelledError:
                    await asyncio.wait([step])  # a thread cannot be cancelled
                    raise

    def steps(self) -> Generator[bool, None, None]:
        """Evaluate a part at each step.

        Raises:
            DataFileError: Nothing can be read, or a line cannot be and bad lines are rejected.
            ConfigurationError: No case has a golden, or the cluster.
            WorkerDiedError: A process was killed.
            OSError: A file cannot be read or written.
        """
        paths = self.setup.paths
        total, done = sum(map(size_of, paths)), 0
        self._show(done, total)
        if self._builder.file is not None:
            self._builder.file.write(b"")  # the header: from now on, what other cases had does not count
        workers = min(self._processes, 1 + total // WORTH_A_PROCESS)
        with closing(run_jobs(partial(_part_outcome, self.setup), divide(paths), workers)) as outcomes:
            for part, outcome in outcomes:
                self._take(one for item in outcome.items for one in self._intake.take(item.tag, item, item.item))
                for text in outcome.warnings:
                    self._warnings.setdefault(text)
                done += part.size
                self._show(done, total)
                yield False
        self._take(self._intake.rest())
        self._intake.check()
        if self._intake.goldens_without_case:
            self._builder.late_facts["goldens without a case"] = self._intake.goldens_without_case
        texts = [*islice(self._warnings, _MAX_WARNINGS)]
        if len(self._warnings) > _MAX_WARNINGS:
            texts.append(f"and {len(self._warnings) - _MAX_WARNINGS} more warnings")
        for text in texts:
            warnings.warn(text, ToolgradeWarning, stacklevel=4)

    def _show(self, done: int, total: int) -> None:
        """Show how many bytes are done."""
        if self._bar is not None:
            self._bar.show(done, total, len(self._rows.rows))

    def report(self, *, interrupted: bool = False) -> Report:
        """Return the report of the cases that are done."""
        self._rows.trim()
        return self._builder.report_of_files(self._rows.rows, interrupted=interrupted)

    def _take(self, accepted: Iterable[tuple[CaseKey, int | None, CaseOutcome]]) -> None:
        """Take outcomes, and write their lines unless the file of results has them."""
        lines: list[bytes] = []
        reused: list[CaseKey] = []
        for key, golden, outcome in accepted:
            row, rest = outcome.row._replace(place=key.place, trial=key.trial, golden=golden), outcome.rest
            if outcome.item is not None:
                row, rest = self._reused(row, outcome.item, outcome.digest)
            self._rows.add(row)
            if rest:
                lines.append(head_of(key, golden) + rest)
            else:
                reused.append(key)
        if self.setup.reject_bad_lines and self._intake.bad.count:
            raise self._intake.bad.error()
        if (lines or reused) and self._builder.file is not None:
            self._builder.file.write(b"".join(lines), reused)

    def _reused(self, row: Row, item: FileCase, digest: str) -> tuple[Row, bytes]:
        """Return the row of a case that the file of results has, and the end of its line if it is written again."""
        reused = self._builder.with_stored_results(row, digest)
        if reused is None:
            reused = row._replace(results=measure_item(item.tag, item.case, self.setup)), False
        row, is_there = reused
        return row, b"" if is_there else item.rest(row, digest, item.encoded(), contents=self.setup.contents)


def _distinct_warnings(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Return the distinct warnings of toolgrade, of which there may be one for each case; issue the others again."""
    texts: dict[str, None] = {}
    for one in caught:
        if issubclass(one.category, ToolgradeWarning):
            texts.setdefault(str(one.message))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return [*texts]


_NAMED = 5
"""Cases and goldens without a partner that a warning names."""
_OWN_FIELDS = {"id", "input", "turns", "user", "tags", "metadata"}
"""Fields of a golden that are no expectations."""


class Joined(NamedTuple):
    """A case with its golden's expectations, and the position of the golden; `None` without one.

    `misfit` says why it cannot be measured, if it lacks turns of the golden.
    """

    case: AnyCase
    golden: int | None
    misfit: str = ""


class GoldenSet:
    """Goldens of recorded runs.

    A golden belongs to a case if its id is the id or the name of the case, or else if their inputs are equal; several
    goldens with this input are ambiguous. The input of a conversation is its first text of the user; of several goldens
    with it, the one that has all its texts belongs to it. With `field`, a path such as `metadata.task`, its id must be
    the value of that field.
    """

    def __init__(self, goldens: Sequence[Golden], name: str, field: str | None) -> None:
        """Take the goldens; messages call them `name`.

        Raises:
            ConfigurationError: Two have the same id.
        """
        self.goldens = goldens
        self.name = name
        self.field = field
        ids = Counter(golden.id for golden in goldens if golden.id)
        repeated = [repr(golden_id) for golden_id, count in ids.items() if count > 1]
        if repeated:
            listed = join_first(repeated, _NAMED)
            raise ConfigurationError(f"{name} has several goldens with one id: {listed}; ids of goldens must differ")
        self._by_id = {golden.id: place for place, golden in enumerate(goldens) if golden.id}
        self._by_input: defaultdict[str, list[int]] = defaultdict(list)
        for place, golden in enumerate(goldens):
            self._by_input[golden.question].append(place)

    def join(self, case: AnyCase) -> Joined:
        """Return the case with what its golden says, as `evaluate` does with an agent; an id of its own stays.

        A conversation is given what each turn of the golden states. Turns that it does not have are added: their calls
        are missing. If they expect none, that they were made would not show, and the conversation is a misfit.

        Raises:
            InvalidDataError: Several goldens fit the case.
        """
        place = self._golden_of(case)
        if place is None:
            return Joined(case, None)
        golden = self.goldens[place]
        fields = type(case).model_fields.keys()
        update = {name: getattr(golden, name) for name in golden.model_fields_set - _OWN_FIELDS if name in fields}
        run = getattr(case, "run", None) or Run()
        if golden.id is not None and case.id in {None, run.run_id}:
            update["id"] = golden.id
        metadata = {**case.metadata, **golden.metadata}
        misfit = ""
        if isinstance(case, ConversationalTestCase) and golden.turns:
            update["turns"], misfit, note = stated_turns(golden, case)
            metadata |= {"warnings": [*texts_in(metadata.get("warnings")), note]} if note else {}
        update |= {"metadata": metadata} if metadata else {}
        update |= {"tags": [*dict.fromkeys([*golden.tags, *case.tags])]} if golden.tags else {}
        return Joined(case.model_copy(update=update), place, misfit)

    def _golden_of(self, case: AnyCase) -> int | None:
        if self.field is not None:
            value = value_at(case, self.field, "golden_id")
            return None if value is None else self._by_id.get(str(value))
        for key in (case.id, case.name):
            if key and key in self._by_id:
                return self._by_id[key]
        places = self._places_of(texts_of(case))
        if len(places) > 1:
            ids = [repr(self.goldens[place].id or f"#{place + 1}") for place in places]
            raise InvalidDataError(
                f"its golden is ambiguous: {join_first(ids, _NAMED)} of {self.name} have its input; "
                "give the case the id of one of them, or name the field that has it with golden_id (--golden-id)"
            )
        return places[0] if places else None

    def _places_of(self, texts: Sequence[str]) -> list[int]:
        """Return the goldens with these texts of the user, or else those of which one list begins the other."""
        places = self._by_input.get(texts[0], []) if texts and texts[0] else []
        same = [place for place in places if texts_of(self.goldens[place]) == texts]
        return same or [place for place in places if all(map(eq, texts_of(self.goldens[place]), texts))]

    def missing_partners(
        self, used: Collection[int], without: Sequence[str], ambiguous: Sequence[str] = ()
    ) -> list[str]:
        """Return the warnings about goldens without a case, and cases `without` a golden or with an ambiguous one.

        Raises:
            ConfigurationError: No golden has a case.
        """
        if not used and ambiguous:
            raise ConfigurationError(ambiguous[0])
        if not used:
            how = "by id, name or input" if self.field is None else f"by the field {self.field!r}"
            remedy = "name the field that has the id with golden_id (--golden-id)"
            raise ConfigurationError(f"no case has a golden in {self.name}, {how}; {remedy}")
        unused = [golden.id or golden.question for place, golden in enumerate(self.goldens) if place not in used]
        texts = [_missing(without, "case", f"without a golden in {self.name}")]
        texts.append(_missing(unused, "golden", f"of {self.name} without a case"))
        return [*ambiguous[:_NAMED], *filter(None, texts)]


def texts_of(one: AnyCase | Golden) -> list[str]:
    """Return what the user says."""
    if isinstance(one, Golden) and one.turns:
        return [item.content for item in one.turns if isinstance(item, UserTurn)]
    if isinstance(one, ConversationalTestCase):
        users = [turn for turn in one.turns if turn.role == "user"]
        return [text for turn in users for text in (turn.content, *texts_in(turn.metadata.get(ANSWERS)))]
    question = one.question if isinstance(one, Golden) else one.input
    return [question] if isinstance(question, str) else []


def stated_turns(golden: Golden, case: ConversationalTestCase) -> tuple[list[Turn], str, str]:
    """Return the turns of a conversation with what those of its golden state, why it is a misfit, and a note on it.

    A text that answers a run that waits belongs to the turn before it.
    """
    stated = [item for item in golden.turns or () if isinstance(item, UserTurn)]
    turns = list(case.turns)
    starts = [at for at, turn in enumerate(turns) if turn.role == "user" and _role_before(turns, at) == "assistant"]
    count = 0
    for place in starts:
        own = stated[: 1 + len(texts_in(turns[place].metadata.get(ANSWERS)))]
        del stated[: len(own)]
        count += bool(own)
        turns[place] = _stating(turns[place], own)
    for one in stated:
        if _role_before(turns, len(turns)) == "user":
            turns.append(Turn(role="assistant", content=""))
        turns += [_stating(Turn(role="user", content=one.content), [one]), NOT_ASKED]
    note = _turns_note(count + len(stated), len(starts))
    return turns, note if stated and not any(map(_needs_calls, stated)) else "", note


def _needs_calls(one: UserTurn) -> bool:
    """Return whether a turn in which nothing is called does not meet what it states."""
    expected = one.expected_tools
    calls = expected if isinstance(expected, list) else () if expected is None else expected.expected_calls()
    return any(getattr(call, "least", 1) for call in calls)


def _turns_note(stated: int, recorded: int) -> str:
    """Return which turns only a golden or only its conversation has; empty if they have the same number."""
    if stated == recorded:
        return ""
    low, high = sorted((stated, recorded))
    which = f"turn {high} was" if high == low + 1 else f"turns {low + 1} to {high} were"
    what = "recorded" if stated > recorded else "scored"
    return f"its golden has {plural(stated, 'turn')}, and the conversation {recorded}: {which} not {what}"


def _role_before(turns: Sequence[Turn], place: int) -> str:
    return turns[place - 1].role if place else "assistant"


def _stating(turn: Turn, items: Sequence[UserTurn]) -> Turn:
    """Return a turn of the user with what these items of a golden state."""
    texts = [text for one in items for text in one.required_texts]
    expected = in_one_turn([one.expected_tools for one in items])
    return turn.model_copy(update=drop_none({"expected_tools": expected, "required_texts": texts or None}))


def _missing(names: Sequence[str], noun: str, problem: str) -> str:
    return f"{plural(len(names), noun)} {problem}: {join_first(names, _NAMED)}" if names else ""
