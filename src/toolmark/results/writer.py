"""Writer of a file of results, which also resumes one."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from toolmark._internal.json import canonical_json, json_text, short_repr, to_json_value
from toolmark._internal.text import printable
from toolmark._internal.version import installed_version
from toolmark.errors import ConfigurationError
from toolmark.redact import DEFAULT
from toolmark.results.case_json import case_to_json, to_plain
from toolmark.results.jsonl import FORMAT, Header, ResultsContent, WrittenMetric, read_lines
from toolmark.results.layout import Row

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_DIGITS = 16


@dataclass(frozen=True)
class EvaluationKey:
    """The parts of an evaluation in which a resumed one must agree.

    `kind` is `cases` or `goldens`, `fingerprints` are those of each, and `options` have the parameters of each metric.
    """

    kind: str
    fingerprints: tuple[str, ...]
    metrics: tuple[tuple[str, float], ...]
    options: Mapping[str, Mapping[str, Any]]
    trials: int | None

    @classmethod
    def of(
        cls, kind: str, items: Sequence[object], metrics: Sequence[tuple[str, object, float]], trials: int | None
    ) -> EvaluationKey:
        """Return the key of an evaluation of cases or goldens by metrics: name, metric and threshold of each."""
        return cls(
            kind=kind,
            fingerprints=tuple(map(fingerprint, items)),
            metrics=tuple((name, threshold) for name, _, threshold in metrics),
            options={name: _options(metric) for name, metric, _ in metrics},
            trials=trials,
        )

    def header(self) -> Header:
        """Return the header of a session that begins now."""
        return Header(
            toolmark_results=FORMAT,
            toolmark=installed_version(),
            python=platform.python_version(),
            started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            metrics=[WrittenMetric(metric=name, threshold=threshold) for name, threshold in self.metrics],
            options=to_json_value(self.options, []),
            kind=self.kind,
            count=len(self.fingerprints),
            trials=self.trials,
            fingerprint=_combined(self.fingerprints),
        )


@dataclass
class ResultsFile:
    """A file of results that is open for an evaluation; `content` is what it had before."""

    path: str
    fingerprints: tuple[str, ...]
    content: ResultsContent = field(default_factory=ResultsContent)
    _file: int = -1

    @classmethod
    def open(cls, path: str | os.PathLike[str], key: EvaluationKey, *, resume: bool) -> ResultsFile:
        """Open a file and write the header of a session; of a file that is resumed, read the content.

        An incomplete end is cut off. With `resume`, a file that does not exist or has no complete line is begun.

        Raises:
            ConfigurationError: The file exists and is not resumed, was written by a different evaluation, or is open
                in another program.
            DataFileError: It is not a file of results, or parts of it are wrong.
            OSError: It cannot be opened, read or written.
        """
        name = os.fspath(path)
        self = cls(name, key.fingerprints)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY
        try:
            self._file = os.open(name, flags if resume else flags | os.O_EXCL, 0o666)
        except FileExistsError:
            message = f"{printable(name)} already exists: resume it or choose another path"
            raise ConfigurationError(message) from None
        try:
            _lock(self._file, name)
            self._begin_session(key)
        except BaseException:
            self.close()
            raise
        return self

    def _begin_session(self, key: EvaluationKey) -> None:
        size = os.fstat(self._file).st_size
        os.lseek(self._file, 0, os.SEEK_SET)
        data = _read_all(self._file)
        header = key.header()
        if size:
            self.content = read_lines(data, printable(self.path))
            if self.content.headers:
                _check_same(self.path, self.content, header, key)
            if self.content.size < size:
                os.ftruncate(self._file, self.content.size)
        if self.content.headers and len(self.content.units) == header.units:
            return  # nothing is left to write
        complete = data[: self.content.size]
        line_end = b"" if not complete or complete.endswith(b"\n") else b"\n"
        self._append(line_end + header.to_json().encode() + b"\n")
        self.content.headers.append(header)

    def write(self, rows: Sequence[Row], seconds: float) -> None:
        """Write all rows of one unit, `seconds` after the session began.

        Raises:
            OSError: They cannot be written; readers ignore the part that was.
        """
        lines: list[str] = []
        for number, row in enumerate(rows, start=1):
            plain = _row_to_json(row, self.fingerprints[row.place], case_to_json(row.case), number, len(rows))
            lines.append(_json_line({**plain, "seconds": seconds}))
        self._append("".join(lines).encode())

    def _append(self, data: bytes) -> None:
        # One write for the whole unit, so that a program that is killed leaves all rows or an incomplete end.
        written = os.write(self._file, data)
        if written < len(data):
            raise OSError(f"{self.path}: only {written} of {len(data)} bytes could be written; is the disk full?")

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        """Return this file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()


def line_without_place(row: Row, *, contents: bool = True) -> str:
    """Return the line of a case without its place and time; without `contents` it has the id and name only."""
    content = to_plain(row.case)
    case = case_to_json(row.case, plain=content) if contents else {}
    plain = _row_to_json(row, _hash(canonical_json(content)), case)
    del plain["place"]
    return _json_line(plain)


def _json_line(plain: Mapping[str, Any]) -> str:
    try:
        return json_text(plain) + "\n"
    except TypeError:  # the result of a user's metric holds a value that JSON does not have
        return json_text(to_json_value(plain, [])) + "\n"


def _row_to_json(
    row: Row, item_fingerprint: str, case: Mapping[str, Any], number: int = 1, of: int = 1
) -> dict[str, Any]:
    """Return the JSON form of a row without secrets: row `number` of `of` of its unit, with `case` as its content."""
    plain: dict[str, Any] = {"place": row.place, "fingerprint": item_fingerprint}
    if row.trial is not None:
        plain["trial"] = row.trial
    if of > 1:
        plain |= {"row": number, "of": of}
    if row.component is not None:
        plain |= {"component": row.component, "source": row.source}
    for name in ("id", "name"):
        if isinstance(getattr(row.case, name, None), str):
            plain[name] = getattr(row.case, name)
    return {**plain, **case, "results": [result.to_dict(DEFAULT) for result in row.results]}


def fingerprint(item: object) -> str:
    """Return a text that is equal for equal goldens or cases, and different for others."""
    return _hash(canonical_json(to_plain(item)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


class CombinedFingerprint:
    """Fingerprint of a sequence of items, from those of the items."""

    def __init__(self) -> None:
        """Begin with no item."""
        self.count: int = 0
        self._hash = hashlib.sha256()

    def add(self, fingerprint: str) -> None:
        """Add the next item."""
        self._hash.update((" " if self.count else "").encode() + fingerprint.encode())
        self.count += 1

    @property
    def fingerprint(self) -> str:
        """The fingerprint of all items so far."""
        return self._hash.hexdigest()[:_DIGITS]


def _combined(fingerprints: Sequence[str]) -> str:
    combined = CombinedFingerprint()
    for one in fingerprints:
        combined.add(one)
    return combined.fingerprint


def _options(metric: object) -> dict[str, Any]:
    """Return the parameters of a metric if it is a dataclass, as those of toolmark are."""
    if not is_dataclass(metric) or isinstance(metric, type):
        return {}
    names = [entry.name for entry in fields(metric) if not entry.name.startswith("_")]
    return {name: _option(getattr(metric, name)) for name in names}


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
            return _hash(canonical_json(to_json_value(value, [])))
        case list() | tuple():
            return [_option(item) for item in value]
        case set() | frozenset():
            return sorted(map(_option, value), key=str)
        case _:
            pass
    # A function or another object: its repr may have an address in it, so take a name.
    names = [getattr(value, name, None) for name in ("name", "model", "__qualname__")]
    return next((name for name in names if isinstance(name, str)), type(value).__qualname__)


def _check_same(path: str, content: ResultsContent, header: Header, key: EvaluationKey) -> None:
    """Raise unless a file was written by this evaluation; items may have been added at the end.

    Raises:
        ConfigurationError: The file was written by another one; the message lists the differences.
    """
    before = content.header
    differences: list[str] = []
    for name in ("toolmark", "kind", "trials"):
        old, new = getattr(before, name), getattr(header, name)
        if old != new:
            differences.append(f"{name}: {old} in the file, {new} now")
    for old_items, new_items in zip(_metric_texts(before), _metric_texts(header), strict=True):
        if old_items != new_items and not differences:
            old_text, new_text = short_repr(_without(old_items, new_items)), _without(new_items, old_items)
            differences.append(f"metrics: {old_text} in the file, {new_text} now")
    if not differences:
        differences = _item_differences(content, key.fingerprints)
    if differences:
        listed = "\n".join(differences)
        raise ConfigurationError(
            f"{printable(path)} was written by a different evaluation and cannot be resumed:\n{listed}\n"
            "repeat the same evaluation or choose another path"
        )


def _metric_texts(header: Header) -> tuple[list[str], list[str]]:
    """Return the metrics of a header, and their options, as texts."""
    metrics = [f"{metric.metric} (threshold {metric.threshold:g})" for metric in header.metrics]
    return metrics, [f"{name} with {options}" for name, options in header.options.items()]


def _without(some: Sequence[str], others: Sequence[str]) -> str:
    return printable("; ".join(text for text in some if text not in others) or "others")


def _item_differences(content: ResultsContent, fingerprints: Sequence[str]) -> list[str]:
    """Return how the goldens or cases differ from those of the file, except for new ones at the end."""
    header = content.header
    if header.count > len(fingerprints):
        return [f"{header.kind}: {header.count} in the file, {len(fingerprints)} now"]
    if header.fingerprint == _combined(fingerprints[: header.count]):
        return []
    for place, old in sorted(content.fingerprints.items()):
        if old != fingerprints[place]:
            return [f"{header.kind}: position {place} (from 0) differs; new ones can only be added at the end"]
    return [f"{header.kind} differ; new ones can only be added at the end"]


def _read_all(file: int) -> bytes:
    parts: list[bytes] = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)


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
