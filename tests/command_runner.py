"""Click's test runner with separate output streams."""

from __future__ import annotations

from inspect import signature

from click.testing import CliRunner

#: Up to click 8.1 an option was needed to separate the two streams; it was removed later.
RUNNER = CliRunner(**{"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {})
