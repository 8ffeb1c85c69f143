"""Modules that a command loads, as a machine-independent measure of start-up time."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

import toolmark.cli
from processes import run_python
from toolmark.cli.main import main

CASE = {"tools_called": [{"name": "search"}], "expected_tools": [{"name": "search"}]}

#: Modules that only some commands need.
HEAVY = {
    "toolmark.judge",
    "toolmark.linting",
    "toolmark.analysis.validation",
    "toolmark.convert",
    "toolmark._pytest.approval",
}

COMMANDS = {path.stem for path in Path(toolmark.cli.__path__[0]).glob("*.py")} - {
    "__init__",
    "__main__",
    "io",
    "main",
    "metric_options",
    "options",
    "path_types",
    "report_options",
}

PROGRAM = """
import atexit, json, sys
from pathlib import Path
from toolmark.cli.main import main

atexit.register(lambda: Path("loaded.json").write_text(json.dumps(sorted(sys.modules)), encoding="utf-8"))
main(json.loads(sys.argv[1]))
"""


def loaded_modules(folder: Path, *arguments: str) -> set[str]:
    """Run a command and return the modules that are loaded at its end."""
    run_python(["-c", PROGRAM, json.dumps(arguments)], folder)
    return set(json.loads((folder / "loaded.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("nosuch",)])
def test_help_and_version_load_no_command(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """The version, the help and a wrong name need neither pydantic nor anything of the library."""
    modules = loaded_modules(tmp_path, *arguments)

    assert {name for name in modules if name.startswith("toolmark.")} == {
        "toolmark._internal",
        "toolmark._internal.lazy_imports",
        "toolmark.cli",
        "toolmark.cli.main",
    }
    assert not modules & {"pydantic", "rich", "asyncio", "sqlite3", "jinja2"}


def loaded_commands(modules: set[str]) -> set[str]:
    """Return the names of the loaded modules that hold commands."""
    return {name for name in COMMANDS if f"toolmark.cli.{name}" in modules}


def test_score_loads_only_what_it_needs(tmp_path: Path) -> None:
    """`toolmark score` loads no other command, and no feature that was not requested."""
    (tmp_path / "cases.jsonl").write_text(json.dumps(CASE), encoding="utf-8")

    modules = loaded_modules(tmp_path, "score", "cases.jsonl")

    assert "toolmark.report.terminal" in modules
    assert not modules & (HEAVY | {"toolmark.analysis.comparison", "toolmark.formats.traces", "rich.progress"})
    assert {name for name in modules if name.startswith("toolmark.scale")} == {
        "toolmark.scale",
        "toolmark.scale.detect",
    }
    assert loaded_commands(modules) == {"score"}
    assert not modules & {"jinja2", "jsonschema", "sqlite3", "multiprocessing", "httpx", "pytest"}


@pytest.mark.parametrize("command", sorted(main.commands))
def test_commands_do_not_load_each_other(tmp_path: Path, command: str) -> None:
    """A command does not load what only another one needs."""
    modules = loaded_modules(tmp_path, command, "--help")
    real = main.get_command(click.Context(main), command)

    assert real is not None
    assert {f"toolmark.cli.{name}" for name in loaded_commands(modules)} == {real.callback.__module__}
    assert not modules & {"rich", "jinja2", "sqlite3", "multiprocessing", "toolmark.judge", "toolmark.scale.run"}


@pytest.mark.parametrize("command", sorted(main.commands))
def test_the_list_has_the_summaries_of_the_commands(command: str) -> None:
    """The summaries of unloaded commands are the first sentences of their own help, at any width."""
    context = click.Context(main, terminal_width=200, max_content_width=200)
    real = main.get_command(context, command)
    (listed,) = [line for line in main.get_help(context).splitlines() if line.split()[:1] == [command]]

    assert real is not None
    assert real.name == command
    assert listed.split(maxsplit=1)[1] == real.get_short_help_str(1000)
