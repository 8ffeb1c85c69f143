"""Folder of the parts of a run, so that a run that is killed at any time can be resumed.

Beside the results that are wanted stands a folder of their name and `.parts`. It holds a manifest (what is scored, and
how), and of each part that is done its lines and a note of what they add up to. A part is done when its note is there:
the lines were on the disk before. When all parts are done, they are joined in the order of the input into a draft, and
that is moved to its place; then the folder goes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from toolmark._internal.atomic_files import LOCK_NAME, draft_path, folder_lock, replace_durably, write_bytes
from toolmark._internal.json import JsonObject, json_text, parse_json
from toolmark._internal.model import Model
from toolmark._internal.text import plural, printable
from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.results.jsonl import Header
from toolmark.results.writer import CombinedFingerprint
from toolmark.scale.detect import MANIFEST, parts_of
from toolmark.scale.partition import Part
from toolmark.scale.score_part import FIRST_KEY, Outcome

VERSION: Final = 1

_JOINED = "joined.json"
_DIGITS = 16
_KEY_DIGITS = 32


class Manifest(Model):
    """What is scored, and how."""

    version: int
    header: Header
    """Of the results; how many cases there are is not known yet."""
    options: JsonObject
    """How cases are read and written."""
    files: tuple[str, ...]
    """How they were called."""
    parts: tuple[Part, ...]
    part_bytes: int

    @property
    def key(self) -> str:
        """What tells this run from every one that would give other lines; the same when it is resumed."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:_KEY_DIGITS]


class Folder:
    """The parts of one run."""

    def __init__(self, target: Path) -> None:
        """Keep where the results will be; nothing is read or written yet."""
        self.target = target
        self.path = parts_of(target)

    @contextmanager
    def opened(self, *, resume: bool) -> Generator[None, None, None]:
        """Let nobody else work in the folder, which is made if it is not there.

        Raises:
            ConfigurationError: The results, or parts of them, are there already, and the run is not resumed; there is
                nothing to resume, since the results are whole; or another process is at work.
            OSError: The folder cannot be made.
        """
        name, is_begun = printable(str(self.target)), (self.path / MANIFEST).exists()
        if is_begun and not resume:
            remedy = f"go on with it (resume=True, --resume), or remove {printable(str(self.path))}"
            raise ConfigurationError(f"a run that writes {name} was begun already: {remedy}")
        if self.target.exists() and not (resume and (self.path / _JOINED).exists()):
            kind = "is there already, and whole; name another file" if resume else "is there already; name another file"
            raise ConfigurationError(f"{name} {kind}")
        self.path.mkdir(exist_ok=True)
        is_ours = False
        try:
            with folder_lock(self.path, f"the parts of {name}"):
                is_ours = True
                for draft in self.path.glob("*.new"):
                    draft.unlink()
                yield
        finally:
            if is_ours and not (self.path / MANIFEST).exists():
                shutil.rmtree(self.path, ignore_errors=True)

    def manifest(self) -> Manifest | None:
        """Return what was scored before, or `None` where nothing was.

        Raises:
            ConfigurationError: It cannot be read.
        """
        path = self.path / MANIFEST
        if not path.exists():
            return None
        remedy = f"remove {printable(str(self.path))} to begin anew"
        try:
            plain = parse_json(path.read_bytes())
            version = plain.get("version") if isinstance(plain, dict) else None
            if version != VERSION:
                raise ConfigurationError(f"{printable(str(path))} was written by another version of toolmark; {remedy}")
            return Manifest.model_validate(plain)
        except InvalidDataError as error:
            raise ConfigurationError(f"{printable(str(path))} is no manifest of parts: {error}; {remedy}") from error

    def begin(self, manifest: Manifest) -> None:
        """Write what is scored; it is on the disk on return."""
        write_bytes(self.path / MANIFEST, manifest.to_json(indent=2).encode())

    def lines(self, part: Part) -> Path:
        """Return where the lines of a part are."""
        return self.path / f"{part.number:06}.jsonl"

    def keep(self, part: Part, outcome: Outcome, key: str) -> None:
        """Note that a part is done; several processes may do so, and say the same.

        Args:
            part: The part.
            outcome: What became of it.
            key: Of the run. Somebody may still be at work on a part of a run that was killed and begun anew.
        """
        draft = draft_path(self._note(part))
        draft.write_bytes(json_text({"run": key, **outcome.to_dict()}).encode())
        replace_durably(draft, self._note(part))

    def kept(self, part: Part, key: str) -> Outcome | None:
        """Return what became of a part in the run of this key, or `None` if it is not done."""
        note = self._note(part)
        if not note.exists() or not self.lines(part).exists():
            return None
        plain = parse_json(note.read_bytes())
        if plain.pop("run", None) != key:
            return None
        outcome = Outcome.from_dict(plain)
        return outcome if self.lines(part).stat().st_size == outcome.size else None

    def _note(self, part: Part) -> Path:
        return self.path / f"{part.number:06}.json"

    def joined(self) -> JsonObject | None:
        """Return what was noted before the results were moved to their place, if they are there."""
        path = self.path / _JOINED
        if not path.exists() or not self.target.exists():
            return None
        plain: JsonObject = parse_json(path.read_bytes())
        return plain

    def join(self, manifest: Manifest, digests: Sequence[str], noted: JsonObject) -> None:
        """Write the results as a whole.

        Args:
            manifest: What was scored.
            digests: Of the lines of each part.
            noted: What `joined` returns from now on.

        Raises:
            ConfigurationError: The lines of a part are not those that were written.
        """
        combined = CombinedFingerprint()
        for part, digest in zip(manifest.parts, digests, strict=True):
            self._check(part, digest, combined)
        header = manifest.header.model_copy(update={"count": combined.count, "fingerprint": combined.fingerprint})
        draft = self.path / "joined.new"
        with draft.open("wb") as file:
            file.write(header.to_json().encode() + b"\n")
            for place, line in enumerate(self._all_lines(manifest.parts)):
                file.write(b'{"place": %d, ' % place)
                file.write(line[1:])
        write_bytes(self.path / _JOINED, json_text(noted).encode())
        replace_durably(draft, self.target)

    def _check(self, part: Part, digest: str, combined: CombinedFingerprint) -> None:
        """Add the fingerprints of a part, whose lines must be those that were written."""
        hashed = hashlib.sha256()
        with self.lines(part).open("rb") as file:
            for line in file:
                hashed.update(line)
                combined.add(line[len(FIRST_KEY) : len(FIRST_KEY) + _DIGITS].decode())
        if hashed.hexdigest() != digest:
            self._note(part).unlink()
            path = printable(str(self.lines(part)))
            raise ConfigurationError(f"{path} is not as it was written; resume the run, and it is scored again")

    def _all_lines(self, parts: Sequence[Part]) -> Iterator[bytes]:
        for part in parts:
            with self.lines(part).open("rb") as file:
                yield from file

    def remove(self) -> None:
        """Remove what is in the folder; what says that all is done goes after the parts, and what was scored last."""
        last = {_JOINED: 1, MANIFEST: 2}
        for path in sorted(self.path.iterdir(), key=lambda path: last.get(path.name, 0)):
            if path.name != LOCK_NAME:
                path.unlink(missing_ok=True)


def check_same(path: Path, before: Manifest, now: Manifest) -> None:
    """Raise unless a run goes on with what was begun.

    Raises:
        ConfigurationError: The two differ; the message says in what.
    """
    differ = [
        f"{name}: {_shown(mine)} there, {_shown(theirs)} now"
        for name, mine, theirs in (
            ("toolmark", before.header.toolmark, now.header.toolmark),
            ("metrics", _metrics(before), _metrics(now)),
            ("options of the metrics", before.header.options, now.header.options),
            ("options", before.options, now.options),
        )
        if mine != theirs
    ]
    differ += _other_files(before, now)
    if differ:
        told = "\n".join(differ)
        raise ConfigurationError(
            f"{printable(str(path))} is of another run, and cannot be gone on with:\n{told}\n"
            "score the same again, or name another file"
        )


def _metrics(manifest: Manifest) -> list[str]:
    return [f"{one.metric} (threshold {one.threshold:g})" for one in manifest.header.metrics]


def _shown(value: object) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value))


def _other_files(before: Manifest, now: Manifest) -> Iterator[str]:
    """Yield which files are not those that were begun with."""
    if len(before.files) != len(now.files):
        yield f"{plural(len(before.files), 'file')} there, {len(now.files)} now"
        return
    for place, (was, name) in enumerate(zip(before.files, now.files, strict=True)):
        mine, theirs = ([part for part in one.parts if part.file == place] for one in (before, now))
        if mine != theirs:
            known = "" if was == name else f" ({printable(was)} there)"
            yield f"file {place + 1}: {printable(name)}{known} has another content now"
