"""The page about live recording: its program prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from processes import ROOT, run_python

pytest.importorskip("mcp.server.mcpserver", reason="mcp is not installed here")


def test_the_program_prints_what_the_page_shows(tmp_path: Path) -> None:
    """It records a client of MCP."""
    page = (ROOT / "docs" / "live.md").read_text(encoding="utf-8")
    ((program, output),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")

    done = run_python([str(tmp_path / "program.py")], tmp_path)

    assert (done.err, done.out) == ("", output)
