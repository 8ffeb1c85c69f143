"""`toolgrade report`, and the options that it shares with `toolgrade score`: input, output, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click
import pytest
from click.testing import Result

from command_runner import RUNNER
from processes import COMMAND, assert_golden, environment, run_python
from toolgrade import Gate, LLMTestCase, ToolCall, evaluate
from toolgrade._internal.atomic_files import write_text
from toolgrade.cli.main import main
from toolgrade.metrics import ToolCorrectnessMetric
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown

LOOK, PAY = ToolCall(name="look"), ToolCall(name="pay")
CASES = [
    LLMTestCase(id="right", tools_called=[LOOK], expected_tools=[LOOK]),
    LLMTestCase(id="half", tools_called=[LOOK], expected_tools=[LOOK, PAY]),
    LLMTestCase(id="wrong", tools_called=[PAY], expected_tools=[LOOK]),
]
FAILED = "failed: 1 of 3 cases failed\n"
REPORT = evaluate(CASES, [ToolCorrectnessMetric()], show_progress=False)


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    """What `toolgrade` does, inside this process."""
    return RUNNER.invoke(main, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A written report."""
    path = tmp_path / "before.json"
    path.write_text(REPORT.to_json(), encoding="utf-8")
    return path


@pytest.fixture
def streamed(tmp_path: Path) -> Path:
    """A file of results, with the content of the cases."""
    path = tmp_path / "results.jsonl"
    evaluate(CASES, [ToolCorrectnessMetric()], show_progress=False, results=path)
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A file of cases."""
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(case.to_json() + "\n" for case in CASES), encoding="utf-8")
    return path


# In the terminal


def test_report_prints_the_output_of_score(runs: Path, written: Path, streamed: Path) -> None:
    """For a results file, and for a written report without the repeated parts."""
    scored = run("score", runs, "--name", "x").stdout

    assert run("report", streamed, "--name", "x").stdout == scored
    assert run("report", written, "--name", "x", "-q").stdout == run("score", runs, "--name", "x", "-q").stdout
    assert run("report", "-", "--name", "x", stdin=streamed.read_bytes()).stdout == scored
    assert run("report", "-", stdin=streamed.read_bytes()).stdout.startswith("standard input: 3 cases")


def test_quiet_and_verbose(streamed: Path) -> None:
    """The totals alone, or every case in full; not both."""
    quiet, full, both = (run("report", streamed, *options) for options in (["-q"], ["-v"], ["-q", "--verbose"]))

    assert "first problem" not in quiet.stdout
    assert quiet.stdout.count("\n") <= 16
    assert full.stdout.count("expected                               called") == len(CASES)
    assert "\nright  tool_correctness  passed\n" in full.stdout
    assert both.exit_code == 2
    assert "--quiet and --verbose cannot be combined" in both.stderr


# Files


def test_every_format_in_one_go(streamed: Path, tmp_path: Path) -> None:
    """Each file is complete and named on standard error; standard output is empty."""
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("html", "md", "junit", "json")}
    done = run("report", streamed, "--name", "t", *(f"--{kind}={path}" for kind, path in paths.items()))

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "".join(f"wrote {path}\n" for path in paths.values()) + FAILED
    assert '<html lang="en"' in paths["html"].read_text(encoding="utf-8")
    assert paths["md"].read_text(encoding="utf-8") == render_markdown(REPORT, title="t")
    assert without_about(paths["junit"].read_text(encoding="utf-8")) == without_about(render_junit(REPORT, title="t"))
    assert json.loads(paths["json"].read_text(encoding="utf-8"))["cases"] == REPORT.to_dict()["cases"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"out.{kind}" for kind in sorted(paths)),
        "results.jsonl",
    ]


def without_about(text: str) -> str:
    """Return JUnit XML without the metadata of this evaluation."""
    text = re.sub(r' *<property name="about\.[^>]*>\n', "", text)
    return re.sub(r' (time|timestamp)="[^"]*"', "", text)


@pytest.mark.parametrize("command", ["report", "score"])
@pytest.mark.parametrize("kind", ["html", "md", "junit", "json"])
def test_a_format_on_standard_output(runs: Path, streamed: Path, tmp_path: Path, command: str, kind: str) -> None:
    """Standard output has only this format; files are still written."""
    source = runs if command == "score" else streamed
    done = run(
        command, source, "--name", "t", f"--{kind}", "-", "--json" if kind == "md" else "--md", tmp_path / "other"
    )
    readers = {"html": str.splitlines, "md": str.splitlines, "junit": ET.fromstring, "json": json.loads}

    assert done.exit_code == 1
    assert len(readers[kind](done.stdout))
    assert done.stdout.startswith({"html": "<!doctype html>", "md": "# `t`\n", "junit": "<?xml", "json": "{"}[kind])
    assert (tmp_path / "other").stat().st_size
    assert "first problem\n" not in done.stdout


def test_score_prints_its_table_as_well(runs: Path, tmp_path: Path) -> None:
    """The table is unchanged by the other formats."""
    done = run("score", runs, "--md", tmp_path / "out.md", "--junit", tmp_path / "out.xml")

    assert "first problem" in done.stdout
    assert done.stderr == FAILED
    assert (tmp_path / "out.md").read_text(encoding="utf-8") == render_markdown(REPORT, title=str(runs))
    assert "<testsuites" in (tmp_path / "out.xml").read_text(encoding="utf-8")


def test_standard_output_has_room_for_one() -> None:
    """Two reports in one stream would be none."""
    done = run("report", "x", "--md", "-", "--junit", "-")

    assert done.exit_code == 2
    assert "only one report can be written to standard output" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="folders that cannot be written to, and links")
def test_a_file_is_written_whole_or_not_at_all(streamed: Path, tmp_path: Path) -> None:
    """What stood there stays until the new one is complete; a link stays a link, a device a device."""
    real, link = tmp_path / "real.md", tmp_path / "link.md"
    real.write_text("old", encoding="utf-8")
    link.symlink_to(real)
    full = run_python([*COMMAND, "report", str(streamed), "--md", "/dev/full"], tmp_path)
    done = run("report", streamed, "--md", link)

    assert full.code == 2
    assert full.err.startswith("error: cannot write /dev/full: ")
    assert Path("/dev/full").is_char_device()
    assert done.exit_code == 1
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8").startswith("# `")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_a_pipe_with_a_name_stays_one(tmp_path: Path) -> None:
    """Whoever reads from it gets the text."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    write_text(pipe, "é\n")
    reader.join(20)

    assert read == ["é\n"]
    assert pipe.is_fifo()


# In a browser


@pytest.mark.skipif(os.name != "posix", reason="a browser that is a script")
@pytest.mark.parametrize(("options", "page"), [([], "toolgrade-report.html"), (["--html", "a b.html"], "a b.html")])
def test_the_page_is_opened_in_the_browser(streamed: Path, tmp_path: Path, options: list[str], page: str) -> None:
    """The browser of the environment gets the address of the written page."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n', encoding="utf-8")
    browser.chmod(0o700)
    settings = {"BROWSER": f"{browser} %s"}
    done = run_python([*COMMAND, "report", streamed.name, "--open", *options], tmp_path, settings=settings)

    assert done == (1, "", f"wrote {page}\n{FAILED}")
    assert (tmp_path / "opened").read_text(encoding="utf-8") == (tmp_path / page).as_uri()
    assert "<html" in (tmp_path / page).read_text(encoding="utf-8")


def test_without_a_browser_the_page_is_named(streamed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is still written, and other formats beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda _address: False)
    done = run("report", streamed, "--open", "--md", "-")

    assert done.exit_code == 1
    assert done.stdout.startswith("# `")
    warning = "warning: no browser could be started; open toolgrade-report.html yourself\n"
    assert done.stderr == f"wrote toolgrade-report.html\n{warning}{FAILED}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["results.jsonl", "--html", "-"], "--open needs a file; name one with --html"),
        (["toolgrade-report.html"], "toolgrade-report.html is also an input and would be overwritten"),
    ],
)
def test_a_page_that_cannot_be_opened_is_refused(
    streamed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    """Nothing is written, and no browser is started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", None)
    results = Path("toolgrade-report.html")
    results.write_bytes(streamed.read_bytes())
    done = run("report", "--open", *options)

    assert done.exit_code == 2
    assert message in done.stderr
    assert results.read_bytes() == streamed.read_bytes()


# Exit codes


@pytest.mark.parametrize(
    ("options", "code"), [([], 1), (["--pass-rate", "66%"], 0), (["--pass-rate", "67%"], 1), (["--md", "-"], 1)]
)
def test_the_exit_code_is_that_of_the_gate(streamed: Path, options: list[str], code: int) -> None:
    """As of `toolgrade score`, and the sentence stands on standard error."""
    done = run("report", streamed, *options)

    assert done.exit_code == code
    assert ("failed: 1 of 3 cases failed" in done.stderr) is bool(code)


def test_the_gate_of_the_evaluation_stays(tmp_path: Path) -> None:
    """Unless the options of the command say otherwise."""
    path = tmp_path / "results.jsonl"
    evaluate(CASES, [ToolCorrectnessMetric()], show_progress=False, results=path, gate=Gate(pass_rate=0.5))

    assert run("report", path).exit_code == 0
    assert run("report", path, "--pass-rate", "1").exit_code == 1


def test_incomplete_results_fail_a_gate(streamed: Path, tmp_path: Path) -> None:
    """An interrupted evaluation, a torn file, an unmeasured case."""
    interrupted, torn, broken = (tmp_path / name for name in ("interrupted", "torn", "broken"))
    lines = streamed.read_bytes().splitlines(keepends=True)
    interrupted.write_bytes(b"".join(lines[:-1]))
    torn.write_bytes(b"".join(lines)[:-20])
    report = evaluate([*CASES, LLMTestCase(id="?")], [ToolCorrectnessMetric()], show_progress=False)
    broken.write_text(report.to_json(), encoding="utf-8")

    for path in (interrupted, torn, broken):
        assert run("report", path, "--pass-rate", "0").exit_code == 1
    assert "Interrupted: stopped before all cases" in run("report", interrupted).stdout
    assert "warning: " in run("report", torn).stderr
    assert run("report", streamed, "--pass-rate", "0").exit_code == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"",
            "error: <stdin> is empty; expected a report (JSON) or a file of results (JSON Lines) that toolgrade wrote",
        ),
        (b"3", "error: <stdin>: expected "),
        (
            b'{"id": "a", "tools_called": []}',
            "a test case, which must be scored first; nothing was shown\n",
        ),
        (b"\xff\x00", "error: <stdin> is binary, or text that is not UTF-8; expected a report (JSON) or "),
        (b"\nid,score\na,1\n", "error: <stdin> looks like CSV; expected a report (JSON) or "),
        (b'{\n"metrics": [', "error: <stdin>: not JSON: the text ends too early"),
    ],
    ids=["empty", "number", "case", "binary", "CSV", "truncated"],
)
def test_input_that_is_not_a_report_exits_with_2(data: bytes, message: str, tmp_path: Path) -> None:
    """The message names the likely type; nothing is written."""
    done = run("report", "-", "--md", tmp_path / "out.md", stdin=data)

    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


# What changed


def test_earlier_results(tmp_path: Path) -> None:
    """What got worse and better is named, in the terminal and in Markdown."""
    now = [
        CASES[0].model_copy(update={"tools_called": []}),
        CASES[1],
        CASES[2].model_copy(update={"tools_called": [LOOK]}),
    ]
    (tmp_path / "before.json").write_text(REPORT.to_json(), encoding="utf-8")
    after = evaluate(now, [ToolCorrectnessMetric()], show_progress=False)
    (tmp_path / "after.json").write_text(after.to_json(), encoding="utf-8")
    command = [*COMMAND, "report", "before.json", "after.json"]
    done = run_python([*command, "-q", "--name", "before.json", "--name", "after"], tmp_path)
    page = run_python([*command, "--md", "-"], tmp_path)

    assert done.err == page.err == FAILED
    assert_golden("cli-report-earlier.txt", done.out)
    assert "### ❌ Regressions: passed before, fail now\n\n`tool_correctness`\n\n- `right` 1 → 0: `Missing:" in page.out
    assert (
        "### ✅ Improvements: failed before, pass now\n\n`tool_correctness`\n\n- `wrong` 0 → 1: `Missing:" in page.out
    )


@pytest.mark.parametrize("name", ["absent.json", "broken.json"])
def test_earlier_results_must_be_read(tmp_path: Path, name: str) -> None:
    """Nothing is shown or written otherwise."""
    (tmp_path / "now.json").write_text(REPORT.to_json(), encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    done = run_python([*COMMAND, "report", name, "now.json", "--md", "out.md"], tmp_path)

    assert (done.code, done.out) == (2, "")
    assert name in done.err
    assert not (tmp_path / "out.md").exists()


def test_what_cannot_be_compared_says_so(tmp_path: Path) -> None:
    """The report is shown all the same, with the reason in its second sentence."""
    (tmp_path / "now.json").write_text(REPORT.to_json(), encoding="utf-8")
    other = evaluate([CASES[0].model_copy(update={"id": "x"})], [ToolCorrectnessMetric()], show_progress=False)
    (tmp_path / "other.json").write_text(other.to_json(), encoding="utf-8")
    strict = evaluate(CASES, [ToolCorrectnessMetric(threshold=1)], show_progress=False)
    (tmp_path / "strict.json").write_text(strict.to_json(), encoding="utf-8")
    others = [run("report", tmp_path / f"{name}.json", tmp_path / "now.json") for name in ("other", "strict")]

    assert [one.exit_code for one in others] == [1, 1]
    assert "Not compared with the earlier results: no case is in both." in others[0].stdout
    assert "tool_correctness: threshold 1 in A and 0.5 in B" in " ".join(others[1].stdout.split())


def test_names_and_facts_of_several_results(streamed: Path, tmp_path: Path) -> None:
    """Names are those of the files in their order; facts are about the last one, and stay in its JSON."""
    out = tmp_path / "out.json"
    options = ["--name", "6", "--name", "7", "--meta", "model=gpt=4"]
    done = run("report", streamed, streamed, *options)
    run("report", streamed, streamed, *options, "--json", out)
    about = json.loads(out.read_text(encoding="utf-8"))["about"]
    wrong = [
        run("report", streamed, *more)
        for more in (["--name", "6", "--name", "7"], ["--meta", "model"], ["--meta", "name=x"], ["--by", "metadata.no"])
    ]

    assert done.stdout.startswith("7: 3 cases\n")
    assert "Compared with 6 (" in done.stdout
    assert "model gpt=4" in done.stdout
    assert (about["name"], about["model"]) == ("7", "gpt=4")
    assert [one.exit_code for one in wrong] == [2, 2, 2, 2]
    assert "--name must be there once for each file, in their order; got 1 file and 2 names" in wrong[0].stderr
    assert "--meta must be KEY=VALUE, such as model=gpt-4.1, got 'model'" in wrong[1].stderr
    assert "--meta cannot set 'name'; use --name" in wrong[2].stderr
    assert "no case has 'metadata.no'" in wrong[3].stderr


def test_goldens_that_were_not_asked_are_a_fact(runs: Path, tmp_path: Path) -> None:
    """Of the report of `score`, and of its results: a green report of one case of many is no good news."""
    goldens, results = tmp_path / "goldens.jsonl", tmp_path / "r.jsonl"
    lines = [{"id": name, "input": name, "expected_tools": []} for name in ("right", "never", "nor this")]
    goldens.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    outputs = [run("score", runs, "--goldens", goldens, "--results", results), run("report", results)]

    assert ["goldens without a case 2; date " in one.stdout for one in outputs] == [True, True]


def test_cases_whose_runs_broke_are_listed(tmp_path: Path) -> None:
    """Also without results, as pytest reports a test that broke: in the terminal and in Markdown."""
    end = {"outcome": "agent_error", "why": "the test ended before it measured: ValueError: no key"}
    case = {"index": 0, "id": "refund", "outcome": "agent_error", "wrong_end": end, "results": []}
    (tmp_path / "r.json").write_text(json.dumps({"metrics": [], "cases": [case]}), encoding="utf-8")
    terminal, page = run("report", tmp_path / "r.json"), run("report", tmp_path / "r.json", "--md", "-")

    assert "AGENT ERROR  refund\n   the test ended before it measured: ValueError: no key\n" in terminal.stdout
    assert "- ❌ `refund` `the test ended before it measured: ValueError: no key`" in page.stdout


def test_score_writes_names_and_facts_into_its_results(runs: Path, tmp_path: Path) -> None:
    """A later report shows them without being told again; the commit is that of CI."""
    results, env = tmp_path / "r.jsonl", {"GITHUB_SHA": "abc123"}
    RUNNER.invoke(main, ["score", str(runs), "--results", str(results), "--name", "7", "--meta", "team=a"], env=env)
    output = run("report", results, "-q").stdout

    assert output.startswith("7: 3 cases\n")
    assert "team a; commit abc123; date " in output


# Colors and encodings of the output


def test_pipes_are_plain_and_no_colour_means_none(streamed: Path, tmp_path: Path) -> None:
    """Without forced colors a pipe gets none, whatever the environment, and NO_COLOR is respected."""
    command = [*COMMAND, "report", str(streamed)]
    plain = run_python(command, tmp_path)
    forced = run_python(command, tmp_path, settings={"FORCE_COLOR": "1", "TERM": "xterm-256color"})
    refused = run_python(command, tmp_path, settings={"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm-256color"})

    assert "\x1b" not in plain.out
    assert re.search("\x1b\\[(1;)?3[0-9]m", forced.out)
    assert not re.search("\x1b\\[[0-9;]*(3[0-9]|9[0-7])[0-9;]*m", refused.out)
    for done in (forced, refused):
        assert re.sub("\x1b\\[[0-9;]*m", "", done.out) == plain.out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_encoding_of_a_pipe_will_do(tmp_path: Path, encoding: str) -> None:
    """The terminal report has escapes for what it lacks; Markdown and XML are the bytes that a file has."""
    case = LLMTestCase(id="航班 é", tools_called=[LOOK], expected_tools=[PAY])
    report = evaluate([case], [ToolCorrectnessMetric()], show_progress=False)
    (tmp_path / "r.json").write_text(report.to_json(), encoding="utf-8")
    command, settings = [*COMMAND, "report", "r.json"], {"PYTHONIOENCODING": encoding}
    options = ("--html", "--md", "--junit")
    run_python([*command, *(part for option in options for part in (option, f"file{option}"))], tmp_path)
    for option in options:
        outcome = run_python([*command, option, "-"], tmp_path, settings=settings)

        assert (outcome.code, outcome.err) == (1, "failed: 1 of 1 case failed\n")
        assert outcome.out == (tmp_path / f"file{option}").read_text(encoding="utf-8")
        assert "航班 é" in outcome.out
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment(**settings), capture_output=True, check=False
    )
    assert ("航班" if encoding == "utf-8" else "\\u822a\\u73ed") in done.stdout.decode(encoding)


def test_secrets_stay_where_they_are(tmp_path: Path) -> None:
    """In no format."""
    called = ToolCall(name="pay", input_parameters={"api_key": "new-2", "note": "Bearer abcdef1234567890xyz"})
    case = LLMTestCase(id="s", tools_called=[called], expected_tools=[ToolCall(name="pay", input_parameters={"a": 1})])
    (tmp_path / "runs.jsonl").write_text(case.to_json(), encoding="utf-8")
    for options in ([], ["--html=-"], ["--md=-"], ["--junit=-"], ["--json=-"], ["-v"]):
        out = run("score", tmp_path / "runs.jsonl", "--params=input", *options).stdout

        assert "api_key" in out
        assert not re.search("new-2|abcdef1234567890xyz", out)


def plain_options(command: str) -> set[Any]:
    """The long options of a command."""
    real = main.get_command(click.Context(main), command)
    assert real is not None
    return {name for option in real.params for name in option.opts if name.startswith("--")}


def test_both_commands_have_the_same_options() -> None:
    """`report` opens a browser and posts a comment; `score` has the files itself whose lines it annotates."""
    assert plain_options("report") - plain_options("score") == {"--comment", "--lines-of", "--open"}
