"""The commands of the command line: a new one is decided here."""

from __future__ import annotations

from toolgrade.cli.main import main


def test_there_are_nine_commands() -> None:
    """From the first gate to the check of a metric."""
    assert sorted(main.commands) == sorted(
        ["init", "convert", "approve", "lint", "score", "report", "compare", "validate", "mcp-record", "mcp-replay"]
    )
