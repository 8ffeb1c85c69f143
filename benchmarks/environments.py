"""Environments of the other libraries, made on first use, in `benchmarks/.envs` or the folder `TOOLGRADE_PEERS`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent

ENVIRONMENTS = Path(os.environ.get("TOOLGRADE_PEERS") or HERE / ".envs")
"""The folder of the environments."""


class CannotInstallError(Exception):
    """A library cannot be had here; the message says why."""


def python_with(pins: Path) -> Path:
    """Return the interpreter of the environment of these pins, which is made if it is not there or pinned otherwise.

    Raises:
        CannotInstallError: It cannot be made.
    """
    folder = ENVIRONMENTS / "-".join(pins.relative_to(HERE).with_suffix("").parts)
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
