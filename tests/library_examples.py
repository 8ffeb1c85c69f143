"""Examples of other libraries: their functions for tests, and what they print as programs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[1] / "examples"
REPORT = " tool_correctness (threshold=0.5)            1       1       0        0       0\n"
"""What each example of an agent prints."""


def load(name: str) -> ModuleType:
    """Return the module of an example, such as `live/with_openai.py`."""
    path = EXAMPLES / name
    spec = spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # classes of pydantic look up their annotations there
    spec.loader.exec_module(module)
    return module


def printed_by(name: str, folder: Path, **environment: str) -> str:
    """Return what an example prints as a program, in a folder with its goldens."""
    for file in EXAMPLES.joinpath(name).parent.glob("*.jsonl"):
        folder.joinpath(file.name).write_bytes(file.read_bytes())
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
