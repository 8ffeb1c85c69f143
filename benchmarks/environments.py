"""Environments of the other libraries, each under `benchmarks/.envs`, created on first use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent

Mode = Literal[
    "unordered",
    "ordered",
    "names",
    "names in order",
    "default",
    "all",
    "all in order",
    "all names",
    "all expected",
    "all expected names",
]
"""What a library computes; the modes that begin with `all` answer by 1 or 0."""

ALL: dict[Mode, Mode] = {"unordered": "all", "ordered": "all in order", "names": "all names"}
"""The toolgrade mode beside a library that answers by 1 or 0 whether both sides are the same."""
ALL_EXPECTED: dict[Mode, Mode] = {
    "unordered": "all expected",
    "ordered": "all in order",
    "names": "all expected names",
}
"""The same where, in any order, additional calls are allowed."""


@dataclass(frozen=True, eq=False)
class Library:
    """A measured library: how to run it, and the meaning of its scores."""

    name: str
    module: str
    """What `worker.py` imports."""
    modes: tuple[Mode, ...]
    score: Literal["recall", "all", "f1", "yes"] | None = "recall"
    """Recall; 1 only if all of either side match; F1; the answer of the toolgrade mode; `None` for another score."""
    own_modes: dict[Mode, Mode] = field(default_factory=dict)
    """The toolgrade mode beside a mode of the library, where it has another name."""
    environment: dict[str, str] = field(default_factory=dict)
    pinned: str = "peers"
    """The folder of the file that says which version is measured."""

    @property
    def pins(self) -> Path:
        """The file that pins the measured version."""
        return HERE / self.pinned / f"{self.name}.txt"


OWN = Library(
    "toolgrade",
    "own",
    (
        *("unordered", "ordered", "names", "names in order"),
        *dict.fromkeys([*ALL.values(), *ALL_EXPECTED.values()]),
    ),
)

PEERS = (
    Library(
        "deepeval",
        "peers.deepeval",
        ("unordered", "ordered", "names", "names in order", "default"),
        environment={
            "OPENAI_API_KEY": "none-needed",  # construction asks for a key, also where nothing is judged
            "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
            "DEEPEVAL_FILE_SYSTEM": "READ_ONLY",
        },
    ),
    Library(
        "agentevals",
        "peers.agentevals",
        ("unordered", "ordered", "names"),
        score="all",
        own_modes=ALL,
        environment={"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"},
    ),
    Library(
        "google_adk",
        "peers.google_adk",
        ("unordered", "ordered", "names"),
        score="yes",
        own_modes=ALL_EXPECTED,
        pinned="validity/pins",
    ),
    Library("ragas", "peers.ragas", ("unordered", "ordered"), score=None, pinned="validity/pins"),
    Library("pydantic_evals", "peers.pydantic_evals", ("names", "names in order"), score="f1"),
)


class CannotInstallError(Exception):
    """A library cannot be had here; the message says why."""


def python_of(library: Library) -> Path:
    """Return the interpreter of a library's environment, which is created if it is missing or has other pins.

    Raises:
        CannotInstallError: It cannot be made; the others go on without it.
    """
    return Path(sys.executable) if library is OWN else python_with(library.pins)


def python_with(pins: Path) -> Path:
    """Return the interpreter of the environment of these pins, which is made if it is not there or pinned otherwise.

    Raises:
        CannotInstallError: It cannot be made.
    """
    folder = HERE / ".envs" / "-".join(pins.relative_to(HERE).with_suffix("").parts)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pinned_text, installed_pins = pins.read_text(encoding="utf-8"), folder / "pins.txt"
    if installed_pins.is_file() and installed_pins.read_text(encoding="utf-8") == pinned_text and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    reason = "nothing tried"
    for commands in _ways(folder, python, pins):
        reason = _run_all(commands)
        if not reason:
            installed_pins.write_text(pinned_text, encoding="utf-8")
            return python
        shutil.rmtree(folder, ignore_errors=True)
    raise CannotInstallError(reason)


def _ways(folder: Path, python: Path, pins: Path) -> list[list[list[str]]]:
    """Return the ways to make an environment, the fast one first; pip may know an index that uv does not."""
    ways = [
        [
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(pins)],
        ]
    ]
    uv = REPOSITORY / ".venv" / "bin" / "uv"
    if uv.exists():
        fast = [
            [str(uv), "venv", "--quiet", "--python", sys.executable, str(folder)],
            [str(uv), "pip", "install", "--quiet", "--python", str(python), "-r", str(pins)],
        ]
        ways.insert(0, fast)
    return ways


def _run_all(commands: list[list[str]]) -> str:
    """Run commands one after the other; return why one failed, or nothing."""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)  # noqa: S603 - ours
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{Path(command[0]).name}: {type(error).__name__}"
        if done.returncode:
            lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            telling = [line for line in lines if "error" in line.lower()] or lines or ["no message"]
            return re.sub(r"(\w+://|/)\S+", "...", telling[-1])[:120]  # no addresses and paths in a table
    return ""
