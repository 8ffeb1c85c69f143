"""Writer of a file of results, which also resumes one."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from toolgrade._internal.atomic_files import refuse_foreign_link
from toolgrade._internal.json import canonical_json, json_text, short_repr, to_json_value
from toolgrade._internal.model import drop_none
from toolgrade._internal.text import printable
from toolgrade._internal.version import installed_version
from toolgrade.errors import ConfigurationError
from toolgrade.redact import DEFAULT
from toolgrade.report.report import case_names
from toolgrade.results.case_json import case_members, encode_case
from toolgrade.results.jsonl import FORMAT, Header, ResultsContent, WrittenMetric, read_lines, sealed
from toolgrade.results.layout import Row

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_DIGITS = 16


def new_header(
    kind: str, items: Sequence[object], metrics: Sequence[tuple[str, object, float]], trials: int | None
) -> tuple[Header, tuple[str, ...]]:
    """Return the header of a session that begins now, and the fingerprint of each case or golden.

    `kind` is `cases` or `goldens`; `metrics` has the name, the metric and the threshold of each.
    """
    fingerprints = tuple(map(_fingerprint, items))
    options = {name: _options(metric) for name, metric, _ in metrics}
    header = Header(
        toolgrade_results=FORMAT,
        toolgrade=installed_version(),
        python=platform.python_version(),
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        metrics=[WrittenMetric(metric=name, threshold=threshold) for name, _, threshold in metrics],
        options=to_json_value(options, []),
        kind=kind,
        count=len(fingerprints),
        trials=trials,
        fingerprint=_hash(" ".join(fingerprints).encode()),
    )
    return header, fingerprints


@dataclass
class ResultsFile:
    """A file of results that is open for an evaluation; `content` is what it had before."""

    path: str
    fingerprints: tuple[str, ...]
    content: ResultsContent = field(default_factory=ResultsContent)
    _file: int = -1

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], header: Header, fingerprints: tuple[str, ...], *, resume: bool
    ) -> ResultsFile:
        """Open a file and write the header of a session; of a file that is resumed, read the content.

        An incomplete end is cut off. With `resume`, a file that does not exist or has no complete line is begun.

        Raises:
            ConfigurationError: The file exists and is not resumed, was written by a different evaluation, or is open
                in another program.
            DataFileError: It is not a file of results, or parts of it are wrong.
            OSError: It cannot be opened, read or written.
        """
        name = os.fspath(path)
        self = cls(name, fingerprints)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY
        refuse_foreign_link(Path(path))
        try:
            self._file = os.open(name, flags if resume else flags | os.O_EXCL, 0o666)
        except FileExistsError:
            message = f"{printable(name)} already exists: resume it or choose another path"
            raise ConfigurationError(message) from None
        try:
            _lock(self._file, name)
            self._begin_session(header)
        except BaseException:
            self.close()
            raise
        return self

    def _resume(self, data: bytes, header: Header) -> None:
        """Read the content of the file, and cut off its incomplete end."""
        self.content = read_lines(io.BytesIO(data), printable(self.path))
        if self.content.headers:
            _check_same(self.path, self.content, header, self.fingerprints)
        if self.content.size < len(data):
            os.ftruncate(self._file, self.content.size)

    def _begin_session(self, header: Header) -> None:
        with os.fdopen(self._file, "rb", closefd=False) as file:
            file.seek(0)
            data = file.read()
        if data:
            self._resume(data, header)
        if self.content.headers and len(self.content.units) == header.units:
            return  # nothing is left to write
        complete = data[: self.content.size]
        line_end = b"" if not complete or complete.endswith(b"\n") else b"\n"
        self._append(line_end + sealed(header.to_json().encode()))
        self.content.headers.append(header)

    def write(self, rows: Sequence[Row], seconds: float) -> None:
        """Write all rows of one unit, `seconds` after the session began.

        Raises:
            OSError: They cannot be written; readers ignore the part that was.
        """
        lines = [
            row_line(row, self.fingerprints[row.place], number=number, of=len(rows), seconds=seconds)
            for number, row in enumerate(rows, start=1)
        ]
        self._append(b"".join(lines))

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


def row_line(
    row: Row,
    fingerprint: str | None = None,
    *,
    number: int = 1,
    of: int = 1,
    seconds: float | None = None,
    contents: bool = True,
) -> bytes:
    """Return the line of a row without secrets.

    Args:
        row: The row.
        fingerprint: That of its golden or case; by default that of its case.
        number: Its number among the rows of its unit.
        of: Their number.
        seconds: Seconds since the session began; by default the line has no time.
        contents: Whether it has the content of the case, and not only the id and name.
    """
    shared, pieces = encode_case(row.case)
    head: dict[str, Any] = {"place": row.place, "fingerprint": fingerprint or _hash(shared.join(pieces))}
    head |= drop_none({"trial": row.trial})
    if of > 1:
        head |= {"row": number, "of": of}
    if row.component is not None:
        head |= {"component": row.component, "source": row.source}
    members = [json_text(head | case_names(row.case))[1:-1].encode()]
    if contents:
        members.append(case_members(row.case, shared, pieces))
    members.append(b'"results": ' + _text_of([result.to_dict(DEFAULT) for result in row.results]).encode())
    if seconds is not None:
        members.append(b'"seconds": ' + json_text(seconds).encode())
    return sealed(b"{%b}" % b", ".join(members))


def _text_of(plain: object) -> str:
    try:
        return json_text(plain)
    except TypeError:  # the result of a user's metric holds a value that JSON does not have
        return json_text(to_json_value(plain, []))


def _fingerprint(item: object) -> str:
    shared, pieces = encode_case(item)
    return _hash(shared.join(pieces))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


class CombinedFingerprint:
    """Fingerprint of a sequence of items, from those of the items: the hash of them all, separated by blanks."""

    def __init__(self) -> None:
        """Begin with no item."""
        self.count: int = 0
        self._hash = hashlib.sha256()

    def add(self, fingerprint: bytes) -> None:
        """Add the next item."""
        self._hash.update(b" " + fingerprint if self.count else fingerprint)
        self.count += 1

    @property
    def fingerprint(self) -> str:
        """The fingerprint of all items so far."""
        return self._hash.hexdigest()[:_DIGITS]


def _options(metric: object) -> dict[str, Any]:
    """Return the parameters of a metric if it is a dataclass, as those of toolgrade are."""
    names = [entry.name for entry in fields(metric)] if is_dataclass(metric) else []
    return {name: _option(getattr(metric, name)) for name in names if not name.startswith("_")}


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
            return _hash(canonical_json(to_json_value(value, [])).encode())
        case list() | tuple():
            return [_option(item) for item in value]
        case set() | frozenset():
            return sorted(map(_option, value), key=str)
        case _:  # a function or another object: its repr may have an address in it, so take a name
            return _name_of(value)


def _name_of(value: object) -> str:
    names = [getattr(value, name, None) for name in ("name", "model", "__qualname__")]
    return next((name for name in names if isinstance(name, str)), type(value).__qualname__)


def _check_same(path: str, content: ResultsContent, header: Header, fingerprints: Sequence[str]) -> None:
    """Raise unless a file was written by this evaluation; items may have been added at the end.

    Raises:
        ConfigurationError: The file was written by another one; the message lists the differences.
    """
    before = content.header
    differences = [
        f"{name}: {getattr(before, name)} in the file, {getattr(header, name)} now"
        for name in ("toolgrade", "kind", "trials")
        if getattr(before, name) != getattr(header, name)
    ]
    for old, new in zip(_metric_texts(before), _metric_texts(header), strict=True):
        if old != new and not differences:
            differences.append(f"metrics: {short_repr(_without(old, new))} in the file, {_without(new, old)} now")
    if not differences:
        differences = _item_differences(content, fingerprints)
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
    if header.fingerprint == _hash(" ".join(fingerprints[: header.count]).encode()):
        return []
    for place, old in sorted(content.fingerprints.items()):
        if old != fingerprints[place]:
            return [f"{header.kind}: position {place} (from 0) differs; new ones can only be added at the end"]
    return [f"{header.kind} differ; new ones can only be added at the end"]


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
