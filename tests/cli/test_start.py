"""Modules that a command loads, as a machine-independent measure of start-up time."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest

import toolgrade.cli
from processes import run_python
from toolgrade.cli.main import _SECTIONS, main

CASE = {"tools_called": [{"name": "search"}], "expected_tools": [{"name": "search"}]}

#: Modules that only some commands need.
HEAVY = {
    "toolgrade.judge",
    "toolgrade.linting",
    "toolgrade.analysis.validation",
    "toolgrade._pytest.approval",
}

COMMANDS = {path.stem for path in Path(toolgrade.cli.__path__[0]).glob("*.py")} - {
    "__init__",
    "__main__",
    "annotations",
    "help",
    "inputs",
    "io",
    "main",
    "metric_options",
    "options",
    "report_options",
    "settings",
}

PROGRAM = """
import atexit, json, sys
from pathlib import Path
from toolgrade.cli.main import _SECTIONS, main

atexit.register(lambda: Path("loaded.json").write_text(json.dumps(sorted(sys.modules)), encoding="utf-8"))
main(json.loads(sys.argv[1]))
"""


ONE_CASE = """
import json, sys
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric

call = {"name": "search", "args": {"query": "rain"}}
case = LLMTestCase(tools_called=[ToolCall(**call)], expected_tools=[call], expected_output="dry")
assert ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).score == 1
print(json.dumps(sorted(sys.modules)))
"""


def loaded_modules(folder: Path, *arguments: str) -> set[str]:
    """Run a command and return the modules that are loaded at its end."""
    run_python(["-c", PROGRAM, json.dumps(arguments)], folder)
    return set(json.loads((folder / "loaded.json").read_text(encoding="utf-8")))


def test_a_case_of_plain_calls_loads_neither_plans_nor_other_metrics(tmp_path: Path) -> None:
    """Nor matchers, redaction and readers of files: only the data, the alignment and the metric."""
    modules = set(json.loads(run_python(["-c", ONE_CASE], tmp_path).out))

    packages = {".".join(name.split(".")[:2]) for name in modules if name.startswith("toolgrade.")}
    assert packages == {
        f"toolgrade.{name}"
        for name in (
            "_internal",
            "calls",
            "cases",
            "errors",
            "expect",
            "failed_calls",
            "matching",
            "metrics",
            "result",
            "verdict",
        )
    }
    assert {name for name in modules if name.startswith("toolgrade.expect.")} == {"toolgrade.expect.fields"}
    assert {name for name in modules if name.startswith("toolgrade.metrics.")} == {
        f"toolgrade.metrics.{name}"
        for name in ("base", "call_filter", "called_tools", "tool_correctness", "tool_effects", "wording")
    }
    assert not modules & {"asyncio", "difflib", "statistics", "jsonschema", "tomllib", "tomli"}


@pytest.mark.parametrize(("text", "loads"), [("[project]", False), ("[tool.toolgrade.score]", True)])
def test_settings_load_a_parser_only_for_a_file_that_mentions_toolgrade(tmp_path: Path, text: str, loads: bool) -> None:
    """A long file of a project without settings costs nothing."""
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    (tmp_path / "cases.jsonl").write_text(json.dumps(CASE), encoding="utf-8")

    assert loads == bool(loaded_modules(tmp_path, "score", "cases.jsonl") & {"tomllib", "tomli"})


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("nosuch",)])
def test_help_and_version_load_no_command(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """The version, the help and a wrong name need neither pydantic nor anything of the library."""
    modules = loaded_modules(tmp_path, *arguments)

    assert {name for name in modules if name.startswith("toolgrade.")} == {
        "toolgrade._internal",
        "toolgrade._internal.lazy_imports",
        "toolgrade.cli",
        "toolgrade.cli.help",
        "toolgrade.cli.main",
    }
    assert not modules & {"pydantic", "rich", "asyncio", "sqlite3", "jinja2"}


def loaded_commands(modules: set[str]) -> set[str]:
    """Return the names of the loaded modules that hold commands."""
    return {name for name in COMMANDS if f"toolgrade.cli.{name}" in modules}


def test_score_loads_only_what_it_needs(tmp_path: Path) -> None:
    """`toolgrade score` loads no other command, and no feature that was not requested: no event loop, for example."""
    (tmp_path / "cases.jsonl").write_text(json.dumps(CASE) + "\n" + json.dumps(CASE) + "\n", encoding="utf-8")

    modules = loaded_modules(tmp_path, "score", "cases.jsonl")
    writing = loaded_modules(tmp_path, "score", "cases.jsonl", "--results", "r", "--processes", "2")

    assert "toolgrade.report.terminal" in modules
    assert not modules & (HEAVY | {"toolgrade.analysis.comparison", "toolgrade.formats.traces", "rich.progress"})
    assert {name for name in modules if name.startswith("toolgrade.evaluation.")} == {
        f"toolgrade.evaluation.{name}"
        for name in (
            *("agreement", "builder", "execute", "files", "measuring"),
            *("pool", "result_json", "results_file", "rows"),
        )
    }
    assert loaded_commands(modules) == loaded_commands(writing) == {"score"}
    for loaded in (modules, writing):
        assert not loaded & {"asyncio", "jinja2", "jsonschema", "sqlite3", "multiprocessing", "httpx", "pytest"}


@pytest.mark.parametrize("command", sorted(main.commands))
def test_commands_do_not_load_each_other(tmp_path: Path, command: str) -> None:
    """A command does not load what only another one needs."""
    modules = loaded_modules(tmp_path, command, "--help")
    real = main.get_command(click.Context(main), command)

    assert real is not None
    assert {f"toolgrade.cli.{name}" for name in loaded_commands(modules)} == {real.callback.__module__}
    assert not modules & {
        *("rich", "jinja2", "sqlite3", "multiprocessing", "toolgrade.judge", "toolgrade.evaluation.files"),
    }


@pytest.mark.parametrize("command", sorted(main.commands))
def test_the_list_has_the_summaries_of_the_commands(command: str) -> None:
    """The summaries of unloaded commands are the first sentences of their own help, at any width."""
    context = click.Context(main, terminal_width=200, max_content_width=200)
    real = main.get_command(context, command)
    (listed,) = [line for line in main.get_help(context).splitlines() if line.split()[:1] == [command]]

    assert real is not None
    assert real.name == command
    assert listed.split(maxsplit=1)[1] == real.get_short_help_str(1000)


def test_the_help_is_grouped_and_cuts_no_summary() -> None:
    """At 80 columns every summary is whole, below a purpose."""
    text = " ".join(main.get_help(click.Context(main, terminal_width=80)).split())

    assert "Start: init Write a gate for pytest, two goldens, a tape and a CI workflow that run at once, " in text
    assert "and show what changed from A to B." in text
    assert "..." not in text.partition("Start:")[2]
    assert "Examples: toolgrade score runs.jsonl" in text
    assert {name for names in _SECTIONS.values() for name in names} == set(main.commands)


def all_commands() -> list[tuple[str, click.Command]]:
    """Every command and subcommand with its name."""
    context = click.Context(main)
    listed: list[tuple[str, click.Command]] = []
    for name in main.commands:
        command = main.get_command(context, name)
        assert command is not None
        inner = command.commands if isinstance(command, click.Group) else {}
        listed += [(name, command), *((f"{name} {one}", inner[one]) for one in inner)]
    return listed


@pytest.mark.parametrize(("name", "command"), all_commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_help_has_examples_that_can_be_parsed(name: str, command: click.Command) -> None:
    """Of commands that score, compare and convert; each option of an example exists, and every argument is there."""
    text = command.get_help(click.Context(command, info_name=name, terminal_width=80))
    assert "Commands:" not in text or "..." not in text.partition("Commands:")[2]
    examples = getattr(command, "examples", ())
    if not isinstance(command, click.Group):
        assert examples
    for line in examples:
        words = shlex.split(line)
        assert f"    {line}\n".lstrip() in text
        assert words[:2] == ["toolgrade", words[1]]
        real = main.get_command(click.Context(main), words[1])
        assert real is not None
        _, rest, _ = real.make_parser(click.Context(real)).parse_args(words[2:])
        assert rest == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tool-corectness", "did you mean 'tool-correctness'?"),
        ("ToolCorrectnessMetric", "did you mean 'tool-correctness'?"),
        ("success", "did you mean 'task-success'?"),
        ("efficiency", "did you mean 'tool-efficiency'?"),
        ("xyz", "the metrics are argument-schema, budget, run-health, task-success,"),
    ],
)
def test_a_wrong_metric_is_answered_with_the_nearest(tmp_path: Path, name: str, hint: str) -> None:
    """A name that is like none is answered with all of them."""
    (tmp_path / "cases.jsonl").write_text(json.dumps(CASE), encoding="utf-8")
    done = run_python(["-m", "toolgrade.cli", "score", "cases.jsonl", "--metric", name], tmp_path)

    assert done.code == 2
    assert f"'{name}' is not a metric; {hint}" in " ".join(done.err.split())
