"""What does a batch leave on the disk, so that nothing is lost or paid for twice, whenever the program ends?

One folder holds one run of batches: the manifest, the prompts, and for each shard (one batch of the provider) its
requests, their keys, and the answers. The manifest is replaced as a whole, and every file is on the disk (`fsync`)
before the step that relies on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

from pydantic import Field

from toolmark._internal.atomic_files import folder_lock, write_bytes
from toolmark._internal.json import JsonObject, json_text
from toolmark._internal.model import Model
from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.judge.protocol import Prompt

VERSION = 1

ShardState: TypeAlias = Literal["planned", "uploaded", "created", "collected"]
"""How far a shard is: its requests are written, the provider has them, the batch is created, its answers are read."""


class Shard(Model):
    """One batch of the provider: what was sent, and what came of it."""

    name: str
    requests: int
    state: ShardState = "planned"
    file_id: str | None = None
    """The provider's id of the uploaded file."""
    batch_id: str | None = None
    status: str | None = None
    """What the provider said last, such as `in_progress`."""
    expires_at: int | None = None
    """When the provider gives it up, in seconds since 1970."""
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: tuple[JsonObject, ...] = ()
    """Why the provider refused it as a whole."""
    usage: dict[str, int] = Field(default_factory=dict)
    """Tokens of its answers."""


class Lost(Model):
    """A prompt that is not sent again: it was answered without a verdict, or failed too often."""

    outcome: str
    problem: str


class Manifest(Model):
    """The state of a run of batches."""

    version: int
    run: str
    """Stands in the metadata of each batch, by which it is found again."""
    created: float
    """When it began, in seconds since 1970."""
    model: JsonObject
    """Who judges, see `TextModel`."""
    shards: tuple[Shard, ...] = ()
    lost: dict[str, Lost] = Field(default_factory=dict)
    """By the key of the prompt."""

    @classmethod
    def new(cls, model: JsonObject) -> Manifest:
        """Return the state of a run that begins."""
        return cls(version=VERSION, run=uuid4().hex, created=time.time(), model=model)

    def with_shard(self, shard: Shard) -> Manifest:
        """Return this with one shard replaced, or added."""
        shards = {other.name: other for other in self.shards} | {shard.name: shard}
        return self.model_copy(update={"shards": tuple(shards.values())})


class Folder:
    """The files of one run of batches."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Keep the path; nothing is read or written yet."""
        self.path: Path = Path(path)

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Let nobody else work on this folder; a process that dies gives it free.

        Raises:
            ConfigurationError: Another process, or another object, is at work on it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with folder_lock(self.path, f"the batches in {str(self.path)!r}"):
            yield

    def manifest(self) -> Manifest | None:
        """Return the state, or `None` where there is none yet.

        Raises:
            ConfigurationError: It cannot be read.
        """
        path = self.path / "manifest.json"
        if not path.exists():
            return None
        try:
            found = Manifest.from_json(path.read_bytes())
        except InvalidDataError as error:
            raise ConfigurationError(f"{str(path)!r} is no manifest of batches: {error}") from error
        if found.version != VERSION:
            raise ConfigurationError(f"{str(path)!r} was written by another version of toolmark")
        return found

    def save(self, manifest: Manifest) -> Manifest:
        """Write the state, and return it; it is on the disk on return."""
        write(self.path / "manifest.json", [manifest.to_json(indent=2)])
        return manifest

    def prompts(self) -> dict[str, Prompt]:
        """Return all prompts by their keys, in the order in which they came."""
        path = self.path / "prompts.jsonl"
        if not path.exists():
            return {}
        found = [_Kept.from_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        return {kept.key: kept.prompt for kept in found}

    def keep_prompts(self, prompts: dict[str, Prompt]) -> None:
        """Write all prompts."""
        lines = [_Kept(key=key, prompt=prompt).to_json() for key, prompt in prompts.items()]
        write(self.path / "prompts.jsonl", lines)

    def keep_shard(self, shard: Shard, requests: Iterable[tuple[str, str]]) -> None:
        """Write the requests of a shard, given by key and line."""
        listed = list(requests)
        write(self.requests(shard), [line for _, line in listed])
        write(self.path / f"keys-{shard.name}.txt", [key for key, _ in listed])

    def requests(self, shard: Shard) -> Path:
        """Return the path of the requests of a shard."""
        return self.path / f"requests-{shard.name}.jsonl"

    def keys(self, shard: Shard) -> list[str]:
        """Return the keys of the requests of a shard, line by line."""
        return (self.path / f"keys-{shard.name}.txt").read_text(encoding="ascii").split()

    def answers(self, shard: Shard, kind: str) -> Path:
        """Return the path of the answers of a shard (`output`), or of its errors (`error`)."""
        return self.path / f"{kind}-{shard.name}.jsonl"


class _Kept(Model):
    key: str
    prompt: Prompt


def line_of(key: str, url: str, body: JsonObject) -> str:
    """Return one line of an input file of a batch."""
    return json_text({"custom_id": key, "method": "POST", "url": url, "body": body})


def write(path: Path, lines: Iterable[str]) -> None:
    """Write a file as a whole: after a crash at any moment it is the old one or the new one."""
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
