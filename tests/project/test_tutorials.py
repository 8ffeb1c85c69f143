"""The tutorial, followed step by step in an empty folder: their files are written, and their commands run.

A block after a line that ends with a file's name in backquotes and a colon is that file. A `console` block has commands
after `$`, and what they print. `TOOLGRADE_UPDATE_GOLDEN=1` writes the outputs anew.
"""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from processes import PLUGINS, ROOT, run_python

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
MODULES = {"toolgrade": "toolgrade.cli", "pytest": "pytest", "python": ""}


def printed(command: str, folder: Path) -> str:
    """Return what a command prints in a folder, without what differs from run to run."""
    name, *arguments = shlex.split(command)
    module = ["-m", MODULES[name]] if MODULES[name] else []
    done = run_python([*module, *arguments], folder, settings=PLUGINS, frameworks="pytest" in command)
    assert "Traceback" not in done.err
    text = re.sub(r"in \d+\.\d+s|, toolgrade-\S+|=+ (?=.*=$)", "", done.out + done.err).replace(str(folder), "FOLDER")
    return re.sub(r"^ date \d{4}-\d\d-\d\d$", " date 2026-11-30", text, flags=re.MULTILINE)


@pytest.mark.any_version
@pytest.mark.skipif(sys.platform == "win32", reason="the page is for a POSIX shell")
def test_tutorial_can_be_followed(tmp_path: Path) -> None:
    """Every file is written, every command prints what the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    written = ""
    end = 0
    for block in BLOCK.finditer(text):
        name = re.search(r"`([\w./-]+)`:\n\n$", text[: block.start()])
        if name is not None:
            (tmp_path / name[1]).write_text(block["text"], encoding="utf-8")
        if block["language"] != "console":
            continue
        commands = re.findall(r"^\$ (.*)$", block["text"], re.MULTILINE)
        assert commands
        output = "".join(f"$ {command}\n{printed(command, tmp_path)}" for command in commands)
        written += text[end : block.start("text")] + output.rstrip("\n") + "\n"
        end = block.end("text")
    written += text[end:]
    if os.environ.get("TOOLGRADE_UPDATE_GOLDEN") == "1":
        PAGE.write_text(written, encoding="utf-8", newline="\n")
        text = written

    assert written == text
    assert text.count("```console") == 4
