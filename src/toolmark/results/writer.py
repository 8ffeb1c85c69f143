"""Where do results go while an evaluation runs, and what of it is done already when it is resumed?"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from toolmark._internal.json import canonical_json, json_text, short_repr, to_json_value
from toolmark._internal.text import printable
from toolmark._internal.version import installed_version
from toolmark.errors import ConfigurationError
from toolmark.redact import DEFAULT
from toolmark.results.case_json import plain_of, written_case
from toolmark.results.jsonl import FORMAT, Found, Header, WrittenMetric, read_lines
from toolmark.results.layout import Row

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_DIGITS = 16
_NOTHING: Final = object()
"""Stands for the content of a case that is not written."""


@dataclass(frozen=True)
class Evaluated:
    """What is evaluated, as far as an evaluation must agree in it to be the same one.

    Attributes:
        kind: `cases` that were given, or `goldens` that are asked.
        fingerprints: Of each of them.
        metrics: Names and thresholds of the metrics of cases, or of whole answers.
        options: What else the metrics were told, by their names.
        trials: How often each golden is asked; `None` for once.
    """

    kind: str
    fingerprints: tuple[str, ...]
    metrics: tuple[tuple[str, float], ...]
    options: Mapping[str, Mapping[str, Any]]
    trials: int | None

    @classmethod
    def of(
        cls, kind: str, items: Sequence[object], metrics: Sequence[tuple[str, object, float]], trials: int | None
    ) -> Evaluated:
        """Return what is evaluated.

        Args:
            kind: See above.
            items: The cases or goldens.
            metrics: Name, metric and threshold of each.
            trials: See above.
        """
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
            fingerprint=_joined(self.fingerprints),
        )


@dataclass
class ResultsFile:
    """A file of results that an evaluation writes into.

    Attributes:
        path: The file.
        fingerprints: Of the goldens or cases, by place.
        found: What stood in it already.
    """

    path: str
    fingerprints: tuple[str, ...]
    found: Found = field(default_factory=Found)
    _file: int = -1

    @classmethod
    def open(cls, path: str | os.PathLike[str], evaluated: Evaluated, *, resume: bool) -> ResultsFile:
        """Open a file, and write what is evaluated; of one that is resumed, also return what is in it.

        What was not written to its end is cut off. A file that is not there, or in which nothing is whole, is begun.

        Raises:
            ConfigurationError: It is there already, and is not resumed; it is of another evaluation, and the message
                says in what the two differ; or another program is writing into it.
            DataFileError: It is no file of results, or parts of it are wrong.
            OSError: It cannot be opened, read or written.
        """
        name = os.fspath(path)
        self = cls(name, evaluated.fingerprints)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY
        try:
            self._file = os.open(name, flags if resume else flags | os.O_EXCL, 0o666)
        except FileExistsError:
            message = f"{printable(name)} is there already: go on with it (resume=True, --resume), or name another file"
            raise ConfigurationError(message) from None
        try:
            _lock(self._file, name)
            self._go_on(evaluated)
        except BaseException:
            self.close()
            raise
        return self

    def _go_on(self, evaluated: Evaluated) -> None:
        size = os.fstat(self._file).st_size
        os.lseek(self._file, 0, os.SEEK_SET)
        data = _all_of(self._file)
        header = evaluated.header()
        if size:
            self.found = read_lines(data, printable(self.path))
            if self.found.headers:
                _check_same(self.path, self.found, header, evaluated)
            if self.found.whole < size:
                os.ftruncate(self._file, self.found.whole)
        if self.found.headers and len(self.found.units) == header.units:
            return
        whole = data[: self.found.whole] if size else b""
        ended = b"" if not whole or whole.endswith(b"\n") else b"\n"
        self._append(ended + header.to_json().encode() + b"\n")
        self.found.headers.append(header)

    def write(self, rows: Sequence[Row], seconds: float) -> None:
        """Write the rows of one unit.

        Args:
            rows: All of them.
            seconds: Since the session began.

        Raises:
            OSError: They cannot be written; what was written of them is left out by readers.
        """
        written = [_written(row, self.fingerprints[row.place], number, len(rows)) for number, row in _counted(rows)]
        self._append("".join(f"{_text({**row, 'seconds': seconds})}\n" for row in written).encode())

    def _append(self, data: bytes) -> None:
        written = os.write(self._file, data)
        if written < len(data):
            message = f"{self.path}: only {written} of {len(data)} bytes could be written; is the disk full?"
            raise OSError(message)

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


def placeless_text(row: Row, *, contents: bool = True) -> str:
    """Return the line of a case that was measured by itself, without its place, and without when it was done.

    Args:
        row: The case with its results.
        contents: Whether the case is written, and not its id and name alone.
    """
    content = plain_of(row.case)
    written = _written(row, _hashed(canonical_json(content)), content=content if contents else _NOTHING)
    del written["place"]
    return _text(written)


def _text(written: Mapping[str, Any]) -> str:
    try:
        return json_text(written)
    except TypeError:  # a metric of somebody's own has put what is no JSON value into a result
        return json_text(to_json_value(written, []))


def _written(row: Row, fingerprint: str, number: int = 1, of: int = 1, *, content: object = None) -> dict[str, Any]:
    """Return a row as it stands in a file of results, without secrets, and without when it was done.

    Args:
        row: The row.
        fingerprint: Of its golden or case.
        number: Its number among the rows of its unit, from 1.
        of: How many rows its unit has.
        content: What `plain_of` says of its case, if that is known; `_NOTHING` writes no more than its id and name.
    """
    plain: dict[str, Any] = {"place": row.place, "fingerprint": fingerprint}
    if row.trial is not None:
        plain["trial"] = row.trial
    if of > 1:
        plain |= {"row": number, "of": of}
    if row.component is not None:
        plain |= {"component": row.component, "source": row.source}
    for name in ("id", "name"):
        if isinstance(getattr(row.case, name, None), str):
            plain[name] = getattr(row.case, name)
    case = {} if content is _NOTHING else written_case(row.case, plain=content)
    return {**plain, **case, "results": [result.to_dict(DEFAULT) for result in row.results]}


def fingerprint(item: object) -> str:
    """Return a text that is the same for the same golden or case, and hardly for another."""
    return _hashed(canonical_json(plain_of(item)))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _joined(fingerprints: Sequence[str]) -> str:
    joining = Joining()
    for one in fingerprints:
        joining.add(one)
    return joining.fingerprint


class Joining:
    """The fingerprint of many, from those of the single ones, one after the other."""

    def __init__(self) -> None:
        """Begin with none."""
        self.count: int = 0
        self._hash = hashlib.sha256()

    def add(self, fingerprint: str) -> None:
        """Add the next one."""
        self._hash.update((" " if self.count else "").encode() + fingerprint.encode())
        self.count += 1

    @property
    def fingerprint(self) -> str:
        """That of all so far."""
        return self._hash.hexdigest()[:_DIGITS]


def _counted(rows: Sequence[Row]) -> list[tuple[int, Row]]:
    return list(enumerate(rows, start=1))


def _options(metric: object) -> dict[str, Any]:
    """Return what a metric was told; of one that keeps it in another way than toolmark's do, nothing."""
    if not is_dataclass(metric) or isinstance(metric, type):
        return {}
    public = [entry.name for entry in fields(metric) if not entry.name.startswith("_")]
    return {name: _option(getattr(metric, name)) for name in public}


def _option(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return an option as a JSON value that is the same in every process."""
    if isinstance(value, Enum):
        return _option(value.value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _option(item) for key, item in value.items()}
    if isinstance(value, BaseModel):
        return _hashed(canonical_json(to_json_value(value, [])))
    if isinstance(value, (list, tuple)):
        return [_option(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_option(item) for item in value), key=str)
    named = [getattr(value, name, None) for name in ("name", "model", "__qualname__")]
    return next((name for name in named if isinstance(name, str)), type(value).__qualname__)


def _check_same(path: str, found: Found, now: Header, evaluated: Evaluated) -> None:
    """Raise unless a file is of this evaluation; goldens or cases may have been added at the end."""
    before = found.header
    differ: list[str] = []
    for name in ("toolmark", "kind", "trials"):
        mine, theirs = getattr(before, name), getattr(now, name)
        if mine != theirs:
            differ.append(f"{name}: {mine} there, {theirs} now")
    tests: Sequence[Callable[[Header], Sequence[object]]] = (
        lambda header: [f"{one.metric} (threshold {one.threshold:g})" for one in header.metrics],
        lambda header: [f"{name} with {options}" for name, options in header.options.items()],
    )
    for test in tests:
        mine, theirs = test(before), test(now)
        if mine != theirs and not differ:
            differ.append(f"metrics: {short_repr(_without(mine, theirs))} there, {_without(theirs, mine)} now")
    if not differ:
        differ.extend(_other_items(found, evaluated))
    if differ:
        message = f"{printable(path)} is of another evaluation, and cannot be gone on with:\n" + "\n".join(differ)
        raise ConfigurationError(f"{message}\nevaluate the same again, or name another file")


def _without(some: Sequence[object], others: Sequence[object]) -> str:
    return printable("; ".join(str(one) for one in some if one not in others) or "others")


def _other_items(found: Found, evaluated: Evaluated) -> list[str]:
    """Return which goldens or cases are not those of the file."""
    header, now = found.header, evaluated.fingerprints
    if header.count > len(now):
        return [f"{header.kind}: {header.count} there, {len(now)} now"]
    if header.fingerprint == _joined(now[: header.count]):
        return []
    changed = [place for place, known in sorted(found.fingerprints.items()) if known != now[place]]
    where = f": the one at position {changed[0]} (from 0) is another" if changed else " are others"
    return [f"{header.kind}{where}; only at the end can some be added"]


def _all_of(file: int) -> bytes:
    parts: list[bytes] = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _lock(file: int, name: str) -> None:
    """Keep other programs from writing into a file while it is open, where the system has such locks."""
    if sys.platform == "win32":
        return
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigurationError(f"another program is writing into {printable(name)}; wait for its end") from None
    except OSError:  # a file system without locks
        return
