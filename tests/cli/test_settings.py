"""`[tool.toolgrade]` in `pyproject.toml`: which file, which options, which values, and what it cannot do."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click
import pytest
from click.testing import Result

from command_runner import RUNNER
from processes import ROOT, assert_golden
from toolgrade.cli.main import main
from toolgrade.cli.settings import COMMANDS, ONLY_ON_COMMAND_LINE, options_of

PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").partition("## Errors\n")[0]
HALF = {"id": "half", "tools_called": [{"name": "a"}], "expected_tools": [{"name": "a"}, {"name": "b"}]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file of one case, which scores 0.5; the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.jsonl").write_text(json.dumps(HALF) + "\n", encoding="utf-8")
    return tmp_path


def run(settings: str, *arguments: str) -> Result:
    """Run a command in a project with these settings; by default `toolgrade score cases.jsonl`."""
    Path("pyproject.toml").write_text(settings, encoding="utf-8")
    return RUNNER.invoke(main, arguments or ("score", "cases.jsonl"))


def problem(settings: str, *arguments: str) -> str:
    """Return the message of a wrong setting."""
    result = run(settings, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.removeprefix("error: pyproject.toml: ").strip()


# Which settings apply


def test_settings_are_defaults_of_options() -> None:
    """Flags, numbers, texts and lists; a table of the command wins over the shared one."""
    settings = """
[tool.toolgrade]
threshold = 0
no_contents = false
[tool.toolgrade.score]
threshold = 0.6
metric = ["tool_correctness", "tool-success-rate"]
name = ["Mine"]
quiet = true
"""
    result = run(settings)

    assert result.exit_code == 1
    assert "Mine" in result.stdout
    assert "threshold=0.6" in result.stdout
    assert "tool_success_rate" in result.stdout
    assert (
        result.stderr
        == "settings of pyproject.toml: metric, threshold, no-contents, name, quiet\nfailed: 1 of 1 case failed\n"
    )


def test_the_command_line_wins() -> None:
    """An option there replaces the setting, lists included, and switches off what excludes it."""
    settings = "[tool.toolgrade.score]\nmetric = ['tool-success-rate']\nexact = true\nquiet = true\nstrict = true\n"
    result = run(settings, "score", "cases.jsonl", "--metric=tool-correctness", "--ordered", "-v", "--threshold=0.4")

    assert result.exit_code == 0
    assert "tool_success_rate" not in result.stdout
    assert "tool_correctness(ordered)" in result.stdout
    assert "e2 b: not called" in result.stdout
    assert "threshold=0.4" in result.stdout


def test_the_nearest_file_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the working directory upwards; a nearer file without settings hides one further up."""
    run("[tool.toolgrade]\nthreshold = 0.9\n")
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert RUNNER.invoke(main, ["score", "../../cases.jsonl"]).exit_code == 1

    (folder / "a" / "pyproject.toml").write_text("[project]\nname = 'toolgrade-user'\n", encoding="utf-8")
    assert RUNNER.invoke(main, ["score", "../../cases.jsonl"]).exit_code == 0


def test_paths_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command in a folder below reads and writes the same files."""
    run("[tool.toolgrade]\njson = 'out/report.json'\n", "--version")
    (folder / "out").mkdir()
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    RUNNER.invoke(main, ["score", "../cases.jsonl"])

    assert json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))["cases"][0]["id"] == "half"


@pytest.mark.parametrize("arguments", [("--no-settings", "score", "cases.jsonl"), ("--help",), ("--version",)])
def test_a_wrong_file_can_be_ignored(arguments: tuple[str, ...]) -> None:
    """`--no-settings` does not read the file, nor does what no setting concerns."""
    assert run("[tool.toolgrade]\nnosuch = 1\n", *arguments).exit_code == 0


def test_settings_that_the_metrics_do_not_take_have_no_effect() -> None:
    """They may be for other metrics; the same options on the command line are an error."""
    settings = "[tool.toolgrade]\nforbidden = ['pay']\nerror-texts = 'x'\ngolden-id = 'id'\nresume = 'failed'\n"
    assert run(settings, "score", "cases.jsonl", "--metric", "tool-efficiency").exit_code == 0
    assert run("", "score", "cases.jsonl", "--forbidden", "pay").exit_code == 2
    settings = "[tool.toolgrade.compare]\nalpha = 0.05\nallow-missing = true\n"
    run("[tool.toolgrade]\njson = 'a.json'\n")
    assert run(settings, "compare", "a.json", "a.json").exit_code == 0


def test_an_option_may_be_named_as_a_command() -> None:
    """`compare` is a table, or the option of that name."""
    assert "by meaning" in run("[tool.toolgrade]\ncompare = 'meaning'\nparams = 'name,input'\n").stdout
    assert run("[tool.toolgrade.compare]\nlimit = 3\n").stderr == ""


def test_help_shows_the_defaults_of_the_project() -> None:
    """And says where they may be set."""
    text = " ".join(run("[tool.toolgrade]\nparams = 'name,output'\n", "score", "--help").stdout.split())

    assert "[default: name,output]" in text
    assert "may be set in pyproject.toml, under [tool.toolgrade.score]" in text
    assert "[tool.toolgrade] of its pyproject.toml" in RUNNER.invoke(main, ["--help"]).stdout


# Wrong settings

WRONG = {
    "treshold = 1": "tool.toolgrade.treshold is not a setting; did you mean 'threshold'?",
    "zzz = 1": "tool.toolgrade.zzz is not a setting; remove it; docs/settings.md says what can be set",
    "threshold = 2": "tool.toolgrade.threshold is wrong: 2.0 is not in the range 0<=x<=1",
    "name = 1": "tool.toolgrade.name must be a list, got 1",
    "threshold = 'x'": "tool.toolgrade.threshold is wrong: 'x' is not a valid float range",
    "cluster = ['a']": "tool.toolgrade.cluster must be text, a number, true or false, got ['a']",
    "goldens = 1": "tool.toolgrade.goldens must be the path of a file as text, got 1",
    "metric = 'x'": "tool.toolgrade.metric must be a list, got 'x'",
    "effect = ['x']": "tool.toolgrade.effect is wrong: 'x' needs a tool and its effect, as in 'get_*=read' or "
    "'book=write'",
    "pass-rate = '2'": "tool.toolgrade.pass-rate is wrong: '2' is not a share from 0 to 1, such as 0.02 or 2%",
    "pass_rate = 1\npass-rate = 1": "tool.toolgrade.pass-rate is set twice, with '-' and with '_'; remove one of them",
    "score = 1": "tool.toolgrade.score must be a table, got 1",
    "score.nothing-like-it = 1": "tool.toolgrade.score.nothing-like-it is not a setting; remove it; "
    "docs/settings.md says what can be set",
}


@pytest.mark.parametrize(("line", "message"), WRONG.items())
def test_a_wrong_setting_is_an_error(line: str, message: str) -> None:
    """The message names the file, the key, and what is accepted."""
    assert problem(f"[tool.toolgrade]\n{line}\n") == message


@pytest.mark.parametrize(
    "text", ["x =", "tool = 1\ntoolgrade = 2\n[tool.toolgrade]", "# toolgrade\n[a", "# toolgrade\nx = " + "[" * 100_000]
)
def test_a_broken_file_is_an_error(text: str) -> None:
    """Unless toolgrade does not occur in it: then it is not toolgrade's business."""
    if "toolgrade" not in text:
        assert run(text).exit_code == 0
    else:
        assert "pyproject.toml cannot be read as TOML" in problem(text)


def test_the_table_must_be_one() -> None:
    """Another value is named."""
    assert problem("[tool]\ntoolgrade = 3\n") == "tool.toolgrade must be a table, got 3"


def test_a_deleted_working_directory_has_no_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files elsewhere are still scored."""
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert RUNNER.invoke(main, ["score", str(folder / "cases.jsonl")]).exit_code == 0


# Security


@pytest.mark.parametrize(
    "path",
    ["../x.json", "/tmp/x.json", "sub/../../x.json", "-", ".", "", ".git/hooks/x", ".env", "link/x.json"],  # noqa: S108
)
@pytest.mark.parametrize("option", ["json", "results", "goldens"])
def test_paths_stay_inside_of_the_folder(folder: Path, option: str, path: str) -> None:
    """Files elsewhere, hidden files, and those behind a link out of the folder are neither read nor written."""
    project = folder / "project"
    project.mkdir()
    os.chdir(project)
    Path("cases.jsonl").write_text(json.dumps(HALF), encoding="utf-8")
    Path("link").symlink_to(folder)
    before = sorted(folder.rglob("*"))

    assert "must be a file in the folder" in problem(f"[tool.toolgrade]\n{option} = {path!r}\n")
    assert sorted(folder.rglob("*")) == sorted([*before, project / "pyproject.toml"])


@pytest.mark.parametrize("table", ["init"])
def test_commands_that_send_take_no_settings(table: str) -> None:
    """A table for them is an error wherever settings are read, and they read none."""
    settings = f"[tool.toolgrade.{table}]\nsend = true\n"

    assert f"tool.toolgrade.{table} is not a setting" in problem(settings)
    assert table not in COMMANDS


@pytest.mark.parametrize("option", sorted(ONLY_ON_COMMAND_LINE))
def test_no_setting_asks_a_model_or_starts_a_browser(option: str) -> None:
    """Such options are only on the command line."""
    assert f"{option} is not a setting" in problem(f"[tool.toolgrade.validate]\n{option} = 'x'\n", "validate", "x")


def test_the_page_names_commands_and_exceptions() -> None:
    """Those that have settings, and the options that are none."""
    (commands,) = re.findall(r"Commands\s+with\s+settings\s+are\s(.*?)\.", PAGE, re.DOTALL)
    (exceptions,) = re.findall(r"there\s+are\s+none\s+for\s(.*?)\.", PAGE, re.DOTALL)

    assert tuple(re.findall(r"`(\w+)`", commands)) == COMMANDS
    assert re.findall(r"`--([a-z-]+)`", exceptions) == sorted(ONLY_ON_COMMAND_LINE)


def test_a_new_setting_is_a_decision() -> None:
    """An option becomes a setting only if somebody looks at the difference of this file."""
    context = click.Context(main)
    options = {name: options_of(command) for name in COMMANDS if (command := main.get_command(context, name))}
    assert_golden("settings.txt", "".join(f"{name}: {' '.join(names)}\n" for name, names in options.items()))


def test_the_example_of_the_page_works(folder: Path) -> None:
    """Its settings are valid, for every command."""
    (example,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "evals").mkdir()
    (folder / "evals" / "goldens.jsonl").write_text('{"input": "q", "id": "half", "expected_tools": []}', "utf-8")

    assert run(example).exit_code == 1
    assert run(example, "lint", "cases.jsonl").exit_code == 0
