"""What does a command load? Counted in modules, for time belongs to the machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from processes import run_python
from toolmark.cli.main import main

CASE = {"tools_called": [{"name": "search"}], "expected_tools": [{"name": "search"}]}

#: What only some commands need.
HEAVY = {
    "toolmark.judge",
    "toolmark.linting",
    "toolmark.analysis.validation",
    "toolmark.convert",
    "toolmark._pytest.approval",
}

PROGRAM = """
import atexit, json, sys
from pathlib import Path
from toolmark.cli.main import main

atexit.register(lambda: Path("loaded.json").write_text(json.dumps(sorted(sys.modules)), encoding="utf-8"))
main(json.loads(sys.argv[1]))
"""


def loaded(folder: Path, *arguments: str) -> set[str]:
    """The modules that a command has loaded at its end."""
    run_python(["-c", PROGRAM, json.dumps(arguments)], folder)
    return set(json.loads((folder / "loaded.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("nosuch",)])
def test_what_is_asked_of_no_command_loads_none(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """The version, the help and a wrong name need neither pydantic nor anything of the library."""
    modules = loaded(tmp_path, *arguments)

    assert {name for name in modules if name.startswith("toolmark.")} == {
        "toolmark.cli",
        "toolmark._internal.lazy_imports",
    }
    assert not modules & {"pydantic", "rich", "asyncio", "sqlite3", "jinja2"}


def test_scoring_loads_what_scoring_needs(tmp_path: Path) -> None:
    """`toolmark score` loads no other command, and of what it can do nothing that it was not asked for."""
    (tmp_path / "cases.jsonl").write_text(json.dumps(CASE), encoding="utf-8")

    modules = loaded(tmp_path, "score", "cases.jsonl")

    assert "toolmark.report.terminal" in modules
    assert not modules & (
        HEAVY | {"toolmark.scale", "toolmark.analysis.comparison", "toolmark.formats.traces", "rich.progress"}
    )
    assert {name for name in modules if name.endswith(("_command", "_commands"))} == {
        "toolmark.cli.score",
        "toolmark.cli.score_files",
    }
    assert not modules & {"jinja2", "jsonschema", "sqlite3", "multiprocessing", "httpx", "pytest"}


@pytest.mark.parametrize("command", sorted(main.commands))
def test_each_command_loads_no_other(tmp_path: Path, command: str) -> None:
    """One command does not wait for what only another needs."""
    modules = loaded(tmp_path, command, "--help")
    commands = {name for name in modules if name.endswith(("_command", "_commands"))}

    assert commands - {"toolmark.cli.score_files"} == {main.commands[command].callback.__module__}
    assert not modules & {"rich", "jinja2", "sqlite3", "multiprocessing", "toolmark.judge", "toolmark.scale"}


@pytest.mark.parametrize("command", sorted(main.commands))
def test_the_list_says_what_the_commands_say(command: str) -> None:
    """The texts by which commands are listed unloaded are the first sentences of their own help, at any width."""
    context = click.Context(main, terminal_width=200, max_content_width=200)
    real = main.get_command(context, command)
    (listed,) = [line for line in main.get_help(context).splitlines() if line.split()[:1] == [command]]

    assert real is not None
    assert real.name == command
    assert listed.split(maxsplit=1)[1] == real.get_short_help_str(1000)


def test_commands_can_be_added_and_taken_away() -> None:
    """The group is a group of click like any other: what is added is listed and found, what is taken away is not."""
    group = type(main)(commands=type(main.commands)())
    context = click.Context(group)

    group.add_command(click.Command("zebra", help="Show stripes."))
    del group.commands["lint"]

    assert [*group.list_commands(context)] == sorted({*main.commands, "zebra"} - {"lint"})
    assert re.search(r"^  zebra +Show stripes\.$", group.get_help(context), re.MULTILINE)
    assert "  lint  " not in group.get_help(context)
    assert group.get_command(context, "lint") is None
    assert len(group.commands) == len(main.commands)
