"""Files of a run of batches: its state on disk, so that nothing is lost or paid for twice, whenever the program ends.

One folder holds one run: the manifest, the prompts, and for each shard (one batch of the provider) its requests, their
keys, and the answers. The manifest is replaced atomically, and every file is on disk (`fsync`) before the step that
relies on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

from pydantic import Field

from toolgrade._internal.atomic_files import folder_lock, write_bytes
from toolgrade._internal.json import JsonObject, json_text, parse_json
from toolgrade._internal.model import Model
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.judge.protocol import Prompt

VERSION = 1

ShardState: TypeAlias = Literal["planned", "uploaded", "created", "collected"]
"""The last finished step of a shard: requests written, file uploaded, batch created, answers read."""


class Shard(Model):
    """One batch of the provider: what was sent, and its state."""

    name: str
    requests: int
    state: ShardState = "planned"
    file_id: str | None = None
    """The provider's id of the uploaded file."""
    batch_id: str | None = None
    status: str | None = None
    """The provider's last status, such as `in_progress`."""
    expires_at: int | None = None
    """When the provider gives the batch up, in seconds since 1970."""
    output_file_id: str | None = None
    error_file_id: str | None = None
    answered: int | None = None
    """Requests with an answer, as the provider counts them."""
    errors: tuple[JsonObject, ...] = ()
    """Why the provider rejected the batch as a whole."""
    usage: dict[str, int] = Field(default_factory=dict)
    """Tokens of its answers."""


class Lost(Model):
    """A prompt that is not sent again: its answer held no verdict, or it failed too often."""

    outcome: str
    problem: str


class Manifest(Model):
    """The state of a run of batches."""

    version: int
    run: str
    """Id in the metadata of each batch, by which the batches are found again."""
    created: float
    """When the run began, in seconds since 1970."""
    model: JsonObject
    """The identity of the judge's model, see `TextModel`."""
    shards: tuple[Shard, ...] = ()
    lost: dict[str, Lost] = Field(default_factory=dict)
    """By the key of the prompt."""

    @classmethod
    def new(cls, model: JsonObject) -> Manifest:
        """Return the state of a new run."""
        return cls(version=VERSION, run=uuid4().hex, created=time.time(), model=model)

    def with_shard(self, shard: Shard) -> Manifest:
        """Return this with one shard replaced or added."""
        shards = {other.name: other for other in self.shards} | {shard.name: shard}
        return self.model_copy(update={"shards": tuple(shards.values())})


class Folder:
    """The files of one run of batches."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Store the path; nothing is read or written yet."""
        self.path: Path = Path(path)

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Lock the folder; the lock ends with the process.

        Raises:
            ConfigurationError: Another process or object holds the lock.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with folder_lock(self.path, f"the batches in {str(self.path)!r}"):
            yield

    def find_manifest(self) -> Manifest | None:
        """Return the state, or `None` if there is none yet.

        Raises:
            ConfigurationError: The manifest cannot be read.
        """
        # Nothing is guessed from other files: without the manifest, no batch is known to be paid for.
        path = self.path / "manifest.json"
        if not path.exists():
            return None
        try:
            manifest = Manifest.from_json(path.read_bytes())
        except InvalidDataError as error:
            raise ConfigurationError(f"{str(path)!r} is not a manifest of batches: {error}") from error
        if manifest.version != VERSION:
            raise ConfigurationError(f"{str(path)!r} was written by another version of toolgrade; use that version")
        return manifest

    def manifest(self) -> Manifest:
        """Return the state.

        Raises:
            ConfigurationError: There is none, or it cannot be read.
        """
        manifest = self.find_manifest()
        if manifest is None:
            raise ConfigurationError(f"there are no batches in {str(self.path)!r}; submit some first")
        return manifest

    def save(self, manifest: Manifest) -> Manifest:
        """Write the state, and return it; it is on disk on return.

        Raises:
            InvalidDataError: It could not be read back; the file on disk stays as it is.
        """
        text = manifest.to_json(indent=2)
        Manifest.from_json(text)
        _write_lines(self.path / "manifest.json", [text])
        return manifest

    def prompts(self) -> dict[str, Prompt]:
        """Return all prompts by their keys, in the order of their submission."""
        path = self.path / "prompts.jsonl"
        if not path.exists():
            return {}
        lines = map(parse_json, filter(None, path.read_text(encoding="utf-8").split("\n")))
        return {line["key"]: Prompt.model_validate(line["prompt"]) for line in lines}

    def write_prompts(self, prompts: dict[str, Prompt]) -> None:
        """Write all prompts."""
        lines = [json_text({"key": key, "prompt": prompt.to_dict()}) for key, prompt in prompts.items()]
        _write_lines(self.path / "prompts.jsonl", lines)

    def write_shard(self, shard: Shard, lines: Mapping[str, str]) -> None:
        """Write the requests of a shard, lines by their keys."""
        _write_lines(self.path / f"requests-{shard.name}.jsonl", lines.values())
        _write_lines(self.path / f"keys-{shard.name}.txt", lines)

    def read_requests(self, shard: Shard) -> bytes:
        """Return the requests of a shard as they are uploaded."""
        return (self.path / f"requests-{shard.name}.jsonl").read_bytes()

    def write_answers(self, shard: Shard, kind: str, content: bytes) -> None:
        """Write a file of answers (`output`) or of errors (`error`)."""
        write_bytes(self.path / f"{kind}-{shard.name}.jsonl", content)

    def read_answers(self, shard: Shard, kind: str) -> bytes | None:
        """Return the content of a file of answers as it was downloaded; `None` if it was not."""
        path = self.path / f"{kind}-{shard.name}.jsonl"
        return path.read_bytes() if path.exists() else None

    def keys(self, shard: Shard) -> list[str]:
        """Return the keys of the requests of a shard, line by line."""
        return (self.path / f"keys-{shard.name}.txt").read_text(encoding="ascii").split()


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a whole file atomically: after a crash it is the old one or the new one."""
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
