"""File of results: JSON Lines with a header, a line for each case, and an end.

    {"toolgrade_results": 2, "toolgrade": "1.0", "metrics": [{"metric": "tool_correctness", "threshold": 0.5}]}
    {"case": 0, "trial": 1, "hash": "d3b0...", "id": "refund", "type": "case", "content": {...}, "results": [...]}
    {"complete": true, "cases": 1, "seconds": 2.1}

`case` is the position of the case, or of the golden that an agent answered. `hash` is that of the golden for an agent,
of the case with what its golden expects for recorded runs: a case whose hash has changed is measured again. The file is
only appended to: a session that resumes it writes a header, the cases whose lines it keeps (`{"reused": [[0, 41]]}`,
first and last of each range), the other cases and an end. Only cases of the last session count, and it is complete
if an end is the last line. A case of a file has one line, whatever its trial: the runs of a golden are counted anew in
each session. A line that cannot be read is named, and its case is not measured.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias, TypeGuard, cast

from pydantic import BaseModel, Field, JsonValue

from toolgrade._internal.atomic_files import refuse_foreign_link
from toolgrade._internal.json import RESULTS_MARK, canonical_json, json_path, json_text, short_repr, to_json_value
from toolgrade._internal.model import drop_none
from toolgrade._internal.text import printable
from toolgrade.dataset import placed_text, problems_of, read_line
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError, Problem, ToolgradeWarning
from toolgrade.evaluation.result_json import (
    EncodedCase,
    Position,
    Written,
    WrittenGate,
    WrittenResult,
    case_from_json,
    case_members,
    encode_case,
    missing_results,
)
from toolgrade.evaluation.rows import CaseKey, Row
from toolgrade.failed_calls import applied_error_texts
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT
from toolgrade.report.report import case_names
from toolgrade.verdict import WrongEnd

if TYPE_CHECKING:
    from typing_extensions import Self

FORMAT: Final = 2
"""Version of the format; readers refuse every other version."""

Resume: TypeAlias = Literal["missing", "errored", "failed"]
"""What a resumed evaluation measures: cases without results; also those that could not be measured or whose agent
broke; also those below a threshold."""

_SESSION = ("toolgrade", "python", "started_at")
"""Facts that every header has as fields of their own."""

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_DIGITS = 16
_BEGINNING: Final = b'{"%b"' % RESULTS_MARK.encode()
_REST: Final = b', "hash": "'
"""What follows the place of a case in its line."""


class WrittenMetric(Written):
    """A metric of cases, or of whole answers, with its options."""

    metric: str
    threshold: float
    options: dict[str, JsonValue] = Field(default_factory=dict[str, Any])


class Header(Written):
    """Header of a session: the evaluation and its environment.

    `kind` is what was measured: the cases of a list, the answers of agents to goldens, or the cases of files. `cases`
    is the number of cases or goldens; that of files is known at the end. `resumed` is true for a session that continues
    a file: another header in the middle is that of a second file.
    """

    toolgrade_results: int
    toolgrade: str
    python: str
    started_at: str
    metrics: list[WrittenMetric]
    error_texts: str | None = "default"
    text_tools: list[str] = Field(default_factory=list[str])
    kind: Literal["cases", "goldens", "files"] = "files"
    cases: Position | None = None
    trials: Annotated[int, Field(ge=1)] | None = None
    agents: list[str] | None = None
    gate: WrittenGate = Field(default_factory=WrittenGate)
    resumed: bool = False
    facts: dict[str, JsonValue] = Field(default_factory=dict[str, Any])

    @classmethod
    def new(
        cls,
        names: Sequence[str],
        metrics: Sequence[MetricLike],
        facts: Mapping[str, Any],
        **counts: Any,  # noqa: ANN401 - fields
    ) -> Self:
        """Return the header of a session with these facts; `names` are those of the metrics in results."""
        written = [
            WrittenMetric(metric=name, threshold=metric.threshold, options=to_json_value(_options(metric), []))
            for name, metric in zip(names, metrics, strict=True)
        ]
        texts = applied_error_texts()
        return cls(
            toolgrade_results=FORMAT,
            **{name: facts[name] for name in _SESSION},
            facts=cast("dict[str, Any]", DEFAULT({name: facts[name] for name in facts if name not in _SESSION})),
            metrics=written,
            error_texts=texts.pattern,
            text_tools=list(texts.text_tools),
            **counts,
        )

    @property
    def counts(self) -> tuple[object, ...]:
        """What says which lines count, and how many must pass."""
        return self.cases, self.trials, self.agents, self.gate

    @property
    def about(self) -> dict[str, Any]:
        """Versions, time and what else is known of the evaluation, as in a report."""
        return {**{name: getattr(self, name) for name in _SESSION}, **self.facts}


class Reused(Written):
    """Cases of a session whose lines stand before its header: the first and the last place of each range."""

    reused: list[Annotated[list[Position], Field(min_length=2, max_length=2)]]
    trial: Annotated[int, Field(ge=1)] | None = None
    agent: str | None = None


class End(Written):
    """The last line of a complete evaluation."""

    complete: Literal[True]
    cases: Position
    seconds: float = 0.0
    facts: dict[str, JsonValue] = Field(default_factory=dict[str, Any])


class WrittenRow(Written):
    """One row of the report."""

    component: str | None = None
    source: str = ""
    id: str | None = None
    name: str | None = None
    type: str | None = None
    content: dict[str, JsonValue] | None = None
    wrong_end: WrongEnd | None = None
    results: list[WrittenResult]

    def to_row(self, key: CaseKey, golden: int | None) -> Row:
        """Convert to a row.

        Raises:
            InvalidDataError: The content is not a case.
        """
        case = case_from_json(self.type, self.content, id=self.id, name=self.name)
        results = tuple(result.to_result() for result in self.results)
        return Row(case, *key[:2], self.component, self.source, results, key.agent, golden, self.wrong_end)


class CaseLine(WrittenRow):
    """A case with its results, or the rows of a golden with components."""

    case: Position
    trial: Annotated[int, Field(ge=1)] | None = None
    agent: str | None = None
    golden: Position | None = None
    hash: str
    results: list[WrittenResult] = Field(default_factory=list[WrittenResult])
    rows: list[WrittenRow] | None = None

    @property
    def key(self) -> CaseKey:
        """What identifies the line."""
        return CaseKey(self.case, self.trial, self.agent)

    def to_rows(self) -> list[Row]:
        """Convert to rows; for errors see `WrittenRow.to_row`."""
        rows = [self] if self.rows is None else self.rows
        return [row.to_row(self.key, self.golden) for row in rows]

    def contradictions(self, metrics: Sequence[str]) -> Iterator[Problem]:
        """Yield what contradicts the metrics of the header."""
        for row in [self] if self.rows is None else self.rows:
            if row.component is None and list(metrics) != [result.metric for result in row.results]:
                yield missing_results(row.results, metrics, "results")


class Stored(NamedTuple):
    """Where the line of a case is in a file, and what is known of it without reading it."""

    key: CaseKey
    hash: str
    start: int
    size: int
    status: Literal["passed", "failed", "errored"]


@dataclass
class Scan:
    """What a file of results holds.

    `stored` has the lines of the last session, and of earlier ones those that it reused; `latest` the last line of each
    case, and `lines` all of them; `most` is the last place. `bad` are the lines that cannot be read, apart from a torn
    last one. If it `is_joined`, it was made of several files of results.
    """

    header: Header | None = None
    stored: dict[CaseKey, Stored] = field(default_factory=dict[CaseKey, Stored])
    latest: dict[CaseKey, Stored] = field(default_factory=dict[CaseKey, Stored])
    lines: list[Stored] = field(default_factory=list[Stored])
    end: End | None = None
    size: int = 0
    most: int = -1
    is_joined: bool = False
    bad: list[Problem] = field(default_factory=list[Problem])
    torn: Problem | None = None

    def line_key(self, key: CaseKey) -> CaseKey:
        """Return the key that tells lines apart: a case of a file has one line, whatever trial it is."""
        return CaseKey(key.place) if self.header is not None and self.header.kind == "files" else key

    def take_over(self, reused: Reused) -> None:
        """Take lines of earlier sessions into the last one."""
        for first, last in reused.reused:
            for place in range(first, min(last, self.most) + 1):
                key = self.line_key(CaseKey(place, reused.trial, reused.agent))
                if key in self.latest:
                    self.stored[key] = self.latest[key]


def is_header(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a JSON value is the header of a file of results."""
    return isinstance(value, Mapping) and RESULTS_MARK in value


def scan(file: BinaryIO, name: str) -> Scan:
    """Return what a file of results of this name holds, without the cases; it is open at its beginning.

    Raises:
        DataFileError: It has no header, or one of another version.
    """
    content = Scan()
    number = 0
    for number, raw in enumerate(file, start=1):
        if not raw.strip():
            content.size += len(raw)
            continue
        document = read_line(raw, number)
        if content.header is None:
            _check_beginning(raw, name, number)
        # A computer that loses power may leave zeros.
        if document.torn or (document.problems and content.header is not None and not raw.endswith(b"\n")):
            content.torn = document.problems[0]
            break
        content.bad += document.problems or map(document.placed, _take(document.value, content, len(raw)))
        if content.is_joined:
            message = "a second file of results begins here; keep each in a file of its own"
            raise DataFileError(f"{name}:{number}: {message}", [Problem("$", message, number)])
        content.size += len(raw)
        if content.header is None:
            listed = "\n".join(placed_text(name, problem) for problem in content.bad)
            raise DataFileError(listed, content.bad)
    return content


def _check_beginning(line: bytes, name: str, number: int) -> None:
    if line[: len(_BEGINNING)] != _BEGINNING[: len(line)]:
        message = "the first line must be the header of a file of results"
        raise DataFileError(f"{name}: {message}", [Problem("$", message, number)])


def _take(value: object, content: Scan, size: int) -> Iterator[Problem]:
    """Take the value of a line; yield what is wrong with it."""
    if not isinstance(value, Mapping):
        yield Problem("$", f"expected an object, got {short_repr(value)}")
        return
    try:
        if is_header(value):
            header = _read_header(value)
            content.is_joined |= content.header is not None and not header.resumed
            content.header, content.stored, content.end = header, {}, None
        elif content.header is None:
            yield Problem("$", "the header cannot be read")
        elif "complete" in value:
            content.end = End.model_validate(value)
        elif "reused" in value:
            content.take_over(Reused.model_validate(value))
        else:
            content.end = None
            key = CaseKey(value["case"], value.get("trial"), value.get("agent"))
            digest: object = value["hash"]
            if not isinstance(digest, str) or type(value["case"]) is not int:
                yield Problem("$", "case must be a number and hash a text")
                return
            stored = Stored(key, digest, content.size, size, _status(value))
            content.stored[content.line_key(key)] = content.latest[content.line_key(key)] = stored
            content.lines.append(stored)
            content.most = max(content.most, key.place)
    except InvalidDataError as error:
        yield from problems_of(error)
    except (KeyError, TypeError, AttributeError) as error:
        yield Problem("$", f"is not the line of a case: {type(error).__name__}: {error}")


def _read_header(value: Mapping[str, Any]) -> Header:
    version = value[RESULTS_MARK]
    if version != FORMAT:
        message = f"format {version!r} cannot be read, only {FORMAT}; use the version of toolgrade that wrote the file"
        raise InvalidDataError(message, [Problem(json_path((RESULTS_MARK,)), message)])
    return Header.model_validate(value)


def _status(line: Mapping[str, Any]) -> Literal["passed", "failed", "errored"]:
    """Return the status of a line by its results and how its run ended; `errored` if no metric gave a score, either."""
    rows = line.get("rows") or [line]
    results = [result for row in rows for result in row["results"]]
    ends = [row["wrong_end"]["outcome"] for row in rows if "wrong_end" in row]
    statuses = {result["status"] for result in results}
    if {"agent_error", "errored"} & {*ends, *statuses} or "scored" not in statuses:
        return "errored"
    return "failed" if ends or any(result.get("passed") is False for result in results) else "passed"


def read_rows(line: bytes, metrics: Sequence[str]) -> list[Row]:
    """Return the rows of a line of a case.

    Raises:
        InvalidDataError: It is not one; `problems` has all wrong places.
    """
    document = read_line(line, 0)
    if document.problems:
        raise InvalidDataError("the line cannot be read", document.problems)
    written = CaseLine.model_validate(document.value)
    problems = tuple(written.contradictions(metrics))
    if problems:
        raise InvalidDataError("the results are wrong", problems)
    return written.to_rows()


class ResultsFile:
    """A file of results that is open for an evaluation.

    `content` is what it had before. Lines are matched with cases by `find`, and cases without one are measured.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header, resume: Resume | None) -> None:
        """Open a file and check that it has the results of the same metrics; a new one gets the header.

        Raises:
            ConfigurationError: The file exists and is not resumed, has other metrics or options, or is open in another
                program.
            DataFileError: It is not a file of results.
            OSError: It cannot be opened, read or written.
        """
        self.path = os.fspath(path)
        self.content = Scan()
        self.is_new = self._is_begun = False
        self._header = header
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY
        refuse_foreign_link(Path(path))
        try:
            self._file = os.open(self.path, flags if resume else flags | os.O_EXCL, 0o666)
        except FileExistsError:
            message = f"{printable(self.path)} already exists: resume it or choose another path"
            raise ConfigurationError(message) from None
        try:
            _lock(self._file, self.path)
            self._begin()
        except BaseException:
            self.close()
            raise
        self.is_untouched = False
        self._by_hash: dict[str, dict[CaseKey, Stored]] = {}
        for stored in self.content.lines:
            lines = self._by_hash.setdefault(stored.hash, {})
            lines[stored.key] = stored
            if resume != "missing" and stored.status not in {"passed", "failed" if resume == "errored" else "passed"}:
                del lines[stored.key]

    def _begin(self) -> None:
        if not os.path.samestat(os.fstat(self._file), Path(self.path).stat()):  # whoever began it has removed it
            raise ConfigurationError(f"another program was writing to {printable(self.path)}; try again")
        with os.fdopen(self._file, "rb", closefd=False) as file:
            file.seek(0)
            self.is_new = not file.read(1) and S_ISREG(os.fstat(self._file).st_mode)
            file.seek(0)
            self.content = Scan() if self.is_new else scan(file, printable(self.path))
            end = file.seek(0, os.SEEK_END)
            if self.content.size < end:  # a torn last line
                os.ftruncate(self._file, self.content.size)
            file.seek(max(0, self.content.size - 1))
            self._needs_break = self.content.size > 0 and file.read(1) != b"\n"
        if self.content.header is not None:
            _check_same(self.path, self.content.header, self._header)

    @property
    def hashes(self) -> frozenset[str]:
        """The hashes of the cases that need not be measured again."""
        return frozenset(self._by_hash)

    def find(self, digest: str, key: CaseKey, *, reuse: bool = False) -> Stored | None:
        """Return the line of this key, or else of another one, with this hash; `None` if there is none.

        A line is returned once, and only for the same agent and trial, unless `reuse` is true: equal recorded cases
        have equal results. An error names its case, so it is not that of another one.
        """
        lines = self._by_hash.get(digest, {})
        if reuse:
            return lines.get(key) or next((one for one in lines.values() if one.status != "errored"), None)
        if key in lines:
            return lines.pop(key)
        asker = (key.trial or 1, key.agent)  # a golden that was asked once has its first trial
        other = next((one for one in lines if (one.trial or 1, one.agent) == asker), None)
        return None if other is None else lines.pop(other)

    def rows(self, stored: Stored) -> list[Row] | None:
        """Return the rows of a stored line, `None` if it is wrong, so that its case must be measured again."""
        line = self._line(stored)
        try:
            return read_rows(line, [metric.metric for metric in self._header.metrics]) if _REST in line else None
        except InvalidDataError:
            return None

    def is_there(self, stored: Stored, key: CaseKey) -> bool:
        """Return whether a line is that of this key, and no other one came later."""
        return stored.key == key and self.content.latest.get(self.content.line_key(key)) is stored

    def moved_line(self, stored: Stored, key: CaseKey) -> bytes:
        """Return the line of another key with the results of a stored line."""
        line = self._line(stored)
        return head_of(key) + line[line.index(_REST) :].rstrip(b"\n") + b"\n"

    def _line(self, stored: Stored) -> bytes:
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(stored.start)
            return file.read(stored.size)

    def write(self, lines: bytes, reused: Iterable[CaseKey] = ()) -> None:
        """Write lines, after the header of this session; `reused` are cases whose lines stand before it.

        Raises:
            OSError: They cannot be written; readers ignore the part that was.
        """
        lines = b"".join(_reused_lines(reused)) + lines
        if not self._is_begun:
            self._is_begun = True
            header = self._header.model_copy(update={"resumed": self.content.header is not None})
            lines = (b"\n" if self._needs_break else b"") + header.to_json().encode() + b"\n" + lines
        # One call for whole lines, so that a program that is killed leaves at most a torn last line.
        written = os.write(self._file, lines)
        if written < len(lines):
            raise OSError(f"{self.path}: only {written} of {len(lines)} bytes could be written; is the disk full?")

    def begin(self, reused: Sequence[CaseKey], lines: bytes, total: int) -> None:
        """Write the header of a session of `total` cases, unless the file has all of them and is complete.

        From then on a file that is not completed is seen to be interrupted, and only the lines of this session count.
        """
        header, content = self._header, self.content
        is_same = content.header is not None and content.header.counts == header.counts and content.end is not None
        self.is_untouched = is_same and not lines and len(reused) == total == len(content.stored)
        if not self.is_untouched:
            self.write(lines, reused)

    def complete(self, cases: int, seconds: float, facts: Mapping[str, Any] | None = None) -> None:
        """Write the end, unless the file has it and nothing has changed; `facts` are those that are known now."""
        if not self.is_untouched:
            end = {"complete": True, "cases": cases, "seconds": seconds, **({"facts": dict(facts)} if facts else {})}
            self.write(json_text(end).encode() + b"\n")

    def close(self) -> None:
        """Close the file; remove it if it is new and nothing was written."""
        if self._file < 0:
            return
        if self.is_new and not self._is_begun:
            with suppress(OSError):  # Windows does not remove an open file
                Path(self.path).unlink()
        os.close(self._file)
        self._file = -1


def _reused_lines(keys: Iterable[CaseKey]) -> Iterator[bytes]:
    """Yield a line for the keys of each trial and agent."""
    places: dict[tuple[int | None, str | None], list[list[int]]] = {}
    for place, trial, agent in keys:
        ranges = places.setdefault((trial, agent), [])
        if ranges and ranges[-1][1] == place - 1:
            ranges[-1][1] = place
        else:
            ranges.append([place, place])
    for (trial, agent), ranges in places.items():
        yield json_text({"reused": ranges, **drop_none({"trial": trial, "agent": agent})}).encode() + b"\n"


def head_of(key: CaseKey, golden: int | None = None) -> bytes:
    """Return the beginning of the line of a case: its key, and the place of the first case of its golden."""
    named = drop_none({"trial": key.trial, "agent": key.agent, "golden": golden})
    return json_text({"case": key.place, **named})[:-1].encode()


def rest_of(
    rows: Sequence[Row], digest: str, *, contents: bool = True, encoded: Sequence[EncodedCase] | None = None
) -> bytes:
    """Return the end of the line of a case with this hash, without secrets.

    `encoded` are the cases of the rows, if they are encoded already.
    """
    cases = map(encode_case, [row.case for row in rows]) if encoded is None else encoded
    members = [_row_members(row, case, contents=contents) for row, case in zip(rows, cases, strict=True)]
    if len(rows) > 1 or any(row.component is not None for row in rows):
        body = b'"rows": [%b]' % b", ".join(b"{%b}" % one for one in members)
    else:
        body = b"".join(members)
    return b'%b%b", %b}\n' % (_REST, digest.encode(), body)


def _row_members(row: Row, encoded: EncodedCase, *, contents: bool) -> bytes:
    head: dict[str, Any] = {}
    if row.component is not None:
        head |= {"component": row.component, "source": row.source}
    if row.wrong_end is not None:
        head |= {"wrong_end": DEFAULT(row.wrong_end._asdict())}
    text = json_text(head | case_names(row.case))[1:-1].encode()
    members = [text] if text else []
    if contents:
        members.append(case_members(encoded))
    members.append(b'"results": ' + _text_of([result.to_dict(DEFAULT) for result in row.results]).encode())
    return b", ".join(members)


def hash_of(encoded: EncodedCase) -> str:
    """Return the hash of a golden or a case; of one with a function, whose code has no text, it is never the same."""
    if b'"$is": "predicate"' in encoded.text or callable(getattr(encoded.case, "user", None)):
        return os.urandom(_DIGITS // 2).hex()
    return hashlib.sha256(encoded.text).hexdigest()[:_DIGITS]


def _text_of(plain: object) -> str:
    try:
        return json_text(plain)
    except TypeError:  # the result of a user's metric holds a value that JSON does not have
        return json_text(to_json_value(plain, []))


def _options(metric: object) -> dict[str, Any]:
    """Return the parameters of a metric if it is a dataclass, as those of toolgrade are; a user's may have a key."""
    names = [entry.name for entry in fields(metric)] if is_dataclass(metric) else []
    options = {name: _option(getattr(metric, name)) for name in names if not name.startswith("_")}
    return cast("dict[str, Any]", DEFAULT(options))


def _option(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return a parameter as a JSON value that is the same in every process."""
    match value:
        case Enum():
            return _option(value.value)
        case None | str() | int() | float():
            return value
        case Mapping():
            return {str(key): _option(item) for key, item in value.items()}
        case BaseModel():
            return hashlib.sha256(canonical_json(to_json_value(value, [])).encode()).hexdigest()[:_DIGITS]
        case list() | tuple():
            return [_option(item) for item in value]
        case set() | frozenset():
            return sorted(map(_option, value), key=str)
        case _:  # a function or another object: its repr may have an address in it, so take a name
            return _name_of(value)


def _name_of(value: object) -> str:
    names = [getattr(value, name, None) for name in ("name", "model", "__qualname__")]
    return next((name for name in names if isinstance(name, str)), type(value).__qualname__)


def _check_same(path: str, before: Header, now: Header) -> None:
    """Check that a file was written with the same metrics; another version of toolgrade, or other facts, is a warning.

    Raises:
        ConfigurationError: The metrics or their options differ; the message lists the differences. Or the cases of the
            file are from elsewhere: equal ones would be taken over although they were measured otherwise.
    """
    if before.kind != now.kind:
        raise ConfigurationError(
            f"{printable(path)} has results of {_KINDS[before.kind]}, not of {_KINDS[now.kind]}; choose another path"
        )
    old, new = map(_metric_texts, (before, now))
    if old != new:
        raise ConfigurationError(
            f"{printable(path)} has results of other metrics or options and cannot be resumed:\n"
            f"{_without(old, new)} in the file, {_without(new, old)} now\n"
            "use the same metrics and options, or choose another path"
        )
    if before.toolgrade != now.toolgrade:
        message = f"{printable(path)} was written by toolgrade {before.toolgrade}, and this is {now.toolgrade}"
        warnings.warn(message, ToolgradeWarning, stacklevel=2)
    others = [name for name in {**before.facts, **now.facts} if before.facts.get(name) != now.facts.get(name)]
    if others:
        pairs = (
            f"{name} {before.facts.get(name, '(none)')} before, {now.facts.get(name, '(none)')} now" for name in others
        )
        message = f"{printable(path)} has results of another evaluation, which are kept: {printable('; '.join(pairs))}"
        warnings.warn(message, ToolgradeWarning, stacklevel=2)


_KINDS: Final = {"cases": "test cases", "goldens": "goldens", "files": "recorded files"}


def _metric_texts(header: Header) -> list[str]:
    texts = f"error_texts={header.error_texts!r}, text_tools={header.text_tools}"
    return [texts, *(f"{one.metric} (threshold {one.threshold:g}) with {one.options}" for one in header.metrics)]


def _without(some: Sequence[str], others: Sequence[str]) -> str:
    return printable("; ".join(text for text in some if text not in others) or "others")


def _lock(file: int, name: str) -> None:
    """Lock an open file against other programs, where the system has such locks."""
    if sys.platform == "win32":
        return
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigurationError(f"another program is writing to {printable(name)}; wait until it has ended") from None
    except OSError:  # a file system without locks
        return
