"""Folder of the parts of a run, which makes a run that is killed at any time resumable.

The folder is next to the file of results and has its name plus `.parts`. It holds a manifest (what is scored, and how)
and, for each finished part, its lines and a note with their totals. The note is written after the lines, so a part with
a note is complete. When all parts are finished, their lines are written in the order of the input into a draft, the
draft is renamed to the file of results, and the folder is removed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from zlib import crc32

from toolgrade._internal.atomic_files import LOCK_NAME, folder_lock, replace_durably, write_bytes
from toolgrade._internal.json import JsonObject, json_text, parse_json
from toolgrade._internal.model import Model
from toolgrade._internal.text import plural, printable
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.report import CaseResult
from toolgrade.results.jsonl import Header, Line, fingerprint_of, sealed, with_place
from toolgrade.results.writer import CombinedFingerprint
from toolgrade.scale.detect import MANIFEST, parts_of
from toolgrade.scale.partition import Part
from toolgrade.scale.score_part import Outcome

VERSION: Final = 1

_JOINED = "joined.json"
_BUFFER = 1 << 20


class Manifest(Model):
    """Description of a run: what is scored, and how."""

    version: int
    header: Header
    """Header of the results, without the number of cases, which is not known yet."""
    options: JsonObject
    """Options for reading and writing cases."""
    files: tuple[str, ...]
    """Paths of the files, as the caller wrote them."""
    parts: tuple[Part, ...]
    part_bytes: int


class Folder:
    """Folder with the parts of one run."""

    def __init__(self, target: Path) -> None:
        """Store the path of the results without reading or writing anything."""
        self.target = target
        self.path: Path = parts_of(target)

    def _check_unused(self, name: str, *, resume: bool) -> None:
        if (self.path / MANIFEST).exists() and not resume:
            remedy = f"resume it with resume=True, or remove {printable(str(self.path))}"
            raise ConfigurationError(f"{name} has an unfinished run; {remedy}")
        if self.target.exists() and not (resume and (self.path / _JOINED).exists()):
            kind = "exists and is complete" if resume else "exists"
            raise ConfigurationError(f"{name} {kind}; use another file")

    @contextmanager
    def locked(self, *, resume: bool) -> Generator[None, None, None]:
        """Lock the folder, and create it if it does not exist.

        Raises:
            ConfigurationError: The results or parts of them exist and `resume` is false, the results are complete, or
                another process has the lock.
            OSError: The folder cannot be created.
        """
        name = printable(str(self.target))
        self._check_unused(name, resume=resume)
        self.path.mkdir(exist_ok=True)
        is_locked = False
        try:
            with folder_lock(self.path, f"the parts of {name}"):
                is_locked = True
                for draft in self.path.glob("*.new"):
                    draft.unlink()
                yield
        finally:
            if is_locked and not (self.path / MANIFEST).exists():
                shutil.rmtree(self.path, ignore_errors=True)

    def manifest(self) -> Manifest | None:
        """Return the stored manifest, or `None` if there is none.

        Raises:
            ConfigurationError: It cannot be read.
        """
        path = self.path / MANIFEST
        if not path.exists():
            return None
        remedy = f"remove {printable(str(self.path))} to start again"
        try:
            plain = parse_json(path.read_bytes())
            version = plain.get("version") if isinstance(plain, dict) else None
            if version != VERSION:
                raise ConfigurationError(
                    f"{printable(str(path))} was written by another version of toolgrade; {remedy}"
                )
            return Manifest.model_validate(plain)
        except InvalidDataError as error:
            raise ConfigurationError(f"{printable(str(path))} is not a manifest of parts: {error}; {remedy}") from error

    def begin(self, manifest: Manifest) -> None:
        """Write the manifest; it is on disk on return."""
        write_bytes(self.path / MANIFEST, manifest.to_json(indent=2).encode())

    def check_same(self, before: Manifest, now: Manifest) -> None:
        """Check that two manifests describe the same run.

        Raises:
            ConfigurationError: They differ; the message lists the differences.
        """
        differences = "\n".join(_differences(before, now))
        if differences:
            raise ConfigurationError(
                f"{printable(str(self.target))} is from a different run and cannot be resumed:\n{differences}\n"
                "use the same files and options, or another file of results"
            )

    def lines(self, part: Part) -> Path:
        """Return the path of the lines of a part."""
        return self.path / f"{part.number:06}.jsonl"

    def save_outcome(self, part: Part, outcome: Outcome) -> None:
        """Write the note of a finished part."""
        write_bytes(self._note(part), json_text(outcome.to_dict()).encode())

    def load_outcome(self, part: Part) -> Outcome | None:
        """Return the outcome of a part, or `None` if the part is not finished."""
        note = self._note(part)
        if not note.exists() or not self.lines(part).exists():
            return None
        outcome = Outcome.from_dict(parse_json(note.read_bytes()))
        return outcome if self.lines(part).stat().st_size == outcome.size else None

    def entries(self, part: Part) -> list[CaseResult]:
        """Return the results of a finished part, with the cases as they were written."""
        with self.lines(part).open("rb") as file:
            rows = [
                Line.model_validate({**parse_json(line), "place": place}).to_row() for place, line in enumerate(file)
            ]
        return [CaseResult(row.place, row.case, row.results) for row in rows]

    def _note(self, part: Part) -> Path:
        return self.path / f"{part.number:06}.json"

    def joined_record(self) -> JsonObject | None:
        """Return the record that `join` wrote, or `None` if the results do not exist yet."""
        path = self.path / _JOINED
        if not path.exists() or not self.target.exists():
            return None
        plain: JsonObject = parse_json(path.read_bytes())
        return plain

    def join(self, manifest: Manifest, cases: int, digests: Sequence[str], record: JsonObject) -> None:
        """Write the file of results from the parts, with so many cases; `digests` are those of their lines, in order.

        `record` is what `joined_record` returns afterwards, so that a run that is killed then scores nothing again.

        Raises:
            ConfigurationError: The lines of a part have changed since they were written.
        """
        draft, combined = self.path / "joined.new", CombinedFingerprint()
        with draft.open("wb") as file:
            for is_written in (False, True):  # the header first without a fingerprint, which comes from the lines
                header = manifest.header.model_copy(update={"count": cases, "fingerprint": combined.fingerprint})
                file.seek(0)
                file.write(sealed(header.to_json().encode()))
                if not is_written:
                    for part, digest in zip(manifest.parts, digests, strict=True):
                        self._copy(part, digest, combined, file)
        write_bytes(self.path / _JOINED, json_text(record).encode())
        replace_durably(draft, self.target)

    def _copy(self, part: Part, digest: str, combined: CombinedFingerprint, file: IO[bytes]) -> None:
        """Write the lines of a part with their positions, and add their fingerprints."""
        checksum = 0
        is_placed = part.place == combined.count
        with self.lines(part).open("rb", buffering=_BUFFER) as lines:
            for line in lines:
                checksum = crc32(line, checksum)
                file.write(line if is_placed else with_place(line, combined.count))
                combined.add(fingerprint_of(line))
        if f"{checksum:08x}" != digest:
            self._note(part).unlink()
            path = printable(str(self.lines(part)))
            raise ConfigurationError(f"{path} has changed since it was written; resume the run to score it again")

    def remove(self) -> None:
        """Remove the files of the folder."""
        # A run that is killed here can still be resumed: its record outlives the parts, and its manifest the record.
        last = {_JOINED: 1, MANIFEST: 2}
        for path in sorted(self.path.iterdir(), key=lambda path: last.get(path.name, 0)):
            if path.name != LOCK_NAME:
                path.unlink(missing_ok=True)


def _differences(before: Manifest, now: Manifest) -> Iterator[str]:
    """Yield a line for each difference between two manifests."""
    for name, stored, current in (
        ("toolgrade", before.header.toolgrade, now.header.toolgrade),
        ("metrics", _metrics(before), _metrics(now)),
        ("options of the metrics", before.header.options, now.header.options),
        ("options", before.options, now.options),
    ):
        if stored != current:
            yield f"{name}: {_readable(stored)} before, {_readable(current)} now"
    yield from _other_files(before, now)


def _metrics(manifest: Manifest) -> list[str]:
    return [f"{one.metric} (threshold {one.threshold:g})" for one in manifest.header.metrics]


def _readable(value: object) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value))


def _other_files(before: Manifest, now: Manifest) -> Iterator[str]:
    """Yield a line for each file that differs from the file of the first run."""
    if len(before.files) != len(now.files):
        yield f"{plural(len(before.files), 'file')} before, {len(now.files)} now"
        return
    for place, (was, name) in enumerate(zip(before.files, now.files, strict=True)):
        parts_before, parts_now = ([part for part in one.parts if part.file == place] for one in (before, now))
        if parts_before != parts_now:
            former = "" if was == name else f" ({printable(was)} before)"
            yield f"file {place + 1}: {printable(name)}{former} has different content now"
