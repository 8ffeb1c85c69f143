"""The name of the product: toolgrade, and nowhere the one that it had before."""

from __future__ import annotations

import subprocess

import pytest

from processes import ROOT

OLD_NAME = b"tool" + b"mark"


def test_the_old_name_is_nowhere() -> None:
    """No tracked file has it in its path or its content, in any capitalisation."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a clone")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    paths = [path for path in listed.decode().split("\0") if (ROOT / path).is_file()]
    breaches = [path for path in paths if OLD_NAME in path.encode().lower() + (ROOT / path).read_bytes().lower()]

    assert not breaches
