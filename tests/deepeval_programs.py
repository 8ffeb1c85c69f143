"""Programs as users of DeepEval write them, with its imports: run as they are, or with `deepeval` replaced in imports.

Names of programs that are files of tests end in `_pytest`; the others print OK. A suite is a folder with a program
`main.py` or with tests.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from processes import environment

FOLDER = Path(__file__).parent / "compat" / "deepeval"
TESTS = sorted(FOLDER.glob("programs/*_pytest.py"))
SCRIPTS = sorted({*FOLDER.glob("programs/*.py")} - {*TESTS})
SUITES = sorted(FOLDER.glob("suites/*"))
PACKAGE = "toolgrade.compat.deepeval"


def copied(path: Path, folder: Path, *, package: str = "deepeval") -> Path:
    """Copy a program or a suite to a folder, with its imports changed to a package; return the copy."""
    target = folder / (f"test_{path.name}" if path.stem.endswith("_pytest") else path.name)
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(path, target)
    for file in target.rglob("*.py") if path.is_dir() else [target]:
        text = file.read_text(encoding="utf-8")
        text = re.sub(r"^(\s*)import deepeval$", rf"\1import {package} as deepeval", text, flags=re.MULTILINE)
        text = re.sub(r"^(\s*from) deepeval\b", rf"\1 {package}", text, flags=re.MULTILINE)
        file.write_text(text, encoding="utf-8")
    return target


def run_here(program: Path) -> None:
    """Run a single file in this process, in the current folder."""
    runpy.run_path(str(program), run_name="__main__")


def run_apart(program: Path, **settings: str) -> str:
    """Run a program or a suite in a process of its own, and return what it prints; fail if it fails."""
    is_program = program.is_file() or program.joinpath("main.py").exists()
    folder = program if program.is_dir() else program.parent
    arguments = [str(program if program.is_file() else "main.py")]
    if not is_program:
        arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    paths = os.pathsep.join([str(folder), environment()["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environment(), "PYTHONPATH": paths, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "OK" in done.stdout.splitlines() if is_program else " passed" in done.stdout, output
    return output
