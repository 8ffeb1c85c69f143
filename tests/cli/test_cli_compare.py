"""`toolgrade compare`: what it reads, what it shows, and the exit code."""

from __future__ import annotations

import io
import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console

from command_runner import RUNNER
from processes import COMMAND, assert_golden, run_python, toolgrade_score
from toolgrade import LLMTestCase, Report, ToolCall, ToolCorrectnessMetric, ToolEfficiencyMetric, compare, evaluate
from toolgrade.cli.main import main
from toolgrade.report.terminal.console import make_console
from toolgrade.report.terminal.tables import print_comparison

FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")
HOSTILE = "[red]x[/red] \x1b[31m\x07\u202e"

BEFORE = "look book|look book||look look book|look book||look book|look|look book|look book"
AFTER = "look book||look|look book book||look||look||-"


def case(name: str, called: str) -> LLMTestCase:
    """Return a case that expects `look` and `book`; the called tools of `-` are unknown."""
    tools = None if called == "-" else [ToolCall(name=tool) for tool in called.split()]
    return LLMTestCase(id=name, tools_called=tools, expected_tools=[ToolCall(name="look"), ToolCall(name="book")])


def report(text: str, *more: LLMTestCase, prefix: str = "run") -> Report:
    """Return an evaluation of cases that called these tools."""
    cases = [case(f"{prefix} {number}", called) for number, called in enumerate(text.split("|"))]
    return evaluate([*cases, *more], [ToolCorrectnessMetric(), ToolEfficiencyMetric()], show_progress=False)


def written(folder: Path, **reports: Report | dict[str, Any]) -> list[str]:
    """The names of files that hold these reports."""
    paths = []
    for name, source in reports.items():
        paths.append(str(folder / f"{name}.json"))
        text = source.to_json() if isinstance(source, Report) else json.dumps(source)
        Path(paths[-1]).write_text(text, encoding="utf-8")
    return paths


def run(*arguments: str, stdin: bytes = b"") -> Result:
    """The outcome of the command inside this process."""
    return RUNNER.invoke(main, ["compare", *arguments], input=stdin)


def test_table_of_a_comparison(tmp_path: Path) -> None:
    """A line for each metric, the changed cases, an explanation of the columns, and all omissions."""
    written(tmp_path, before=report(BEFORE, case("old", "look")), after=report(AFTER, case("new", "look")))
    done = run_python([*COMMAND, "compare", "before.json", "after.json"], tmp_path)

    assert (done.code, done.err) == (0, "")
    assert_golden("cli-compare.txt", done.out)


def test_table_with_trials_and_allowed_differences(tmp_path: Path) -> None:
    """Repeated ids are one cluster; allowed differences and small numbers are noted."""
    before, after = (
        evaluate([case(f"run {number // 3}", called) for number, called in enumerate(text.split("|"))], [metric])
        for text, metric in (
            (BEFORE, ToolCorrectnessMetric()),
            (AFTER, ToolCorrectnessMetric(denominator="f1", threshold=0.6)),
        )
    )
    written(tmp_path, before=before, after=after)
    allowed = ["--allow-different=options", "--allow-different=threshold"]
    done = run_python([*COMMAND, "compare", "before.json", "after.json", "--limit=2", *allowed], tmp_path)

    assert (done.code, done.err) == (0, "")
    assert_golden("cli-compare-trials.txt", done.out)


def test_compare_reads_the_output_of_score(tmp_path: Path) -> None:
    """From cases to the comparison by commands only; cases without ids are paired by line."""
    for name, text in (("a", BEFORE), ("b", AFTER)):
        cases = [case("", called).model_copy(update={"id": None}) for called in text.split("|")]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{one.to_json()}\n" for one in cases), encoding="utf-8")
        toolgrade_score(f"{name}.jsonl", "--json", f"{name}.json", folder=tmp_path)
    done = run_python([*COMMAND, "compare", "a.json", "b.json", "--fail-on-regression"], tmp_path)

    assert done.code == 1
    assert "10 cases in both" in done.out
    assert "10 pairs without an id (line 1, line 2, line 3, ...) by name" in " ".join(done.out.split())
    assert done.err.splitlines() == [
        "failed: tool_correctness: 4 cases passed in A and failed in B",
        "failed: tool_correctness: 1 case passed in A and could not be measured in B",
    ]


def test_the_command_is_the_function(tmp_path: Path) -> None:
    """All options of the command line reach the library."""
    a, b = report(BEFORE), report(AFTER)
    done = run(*written(tmp_path, a=a, b=b), "--json=-")
    expected = compare(a, b)

    assert done.exit_code == 0
    assert json.loads(done.stdout) == expected.to_dict()


def test_json_accompanies_the_table(tmp_path: Path) -> None:
    """JSON goes to a file and the table is shown; one input may be standard input."""
    a, b = report(BEFORE), report(AFTER)
    done = run(*written(tmp_path, a=a), "-", f"--json={tmp_path / 'c.json'}", stdin=b.to_json().encode())

    assert json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))["in_both"] == 10
    assert "B  standard input (" in done.stdout


@pytest.mark.parametrize(
    ("after", "options", "code", "message"),
    [
        (AFTER, [], 0, ""),
        (BEFORE, ["--fail-on-regression"], 0, ""),
        (AFTER, ["--fail-on-regression"], 1, "failed: tool_correctness: 4 cases passed in A and failed in B"),
        (AFTER.replace("-", ""), ["--fail-on-regression", "--alpha=0.05"], 0, ""),
        ("|" * 9, ["--fail-on-regression", "--alpha=0.05"], 1, "0 the other way round (corrected p 0.0078)"),
        (AFTER, ["--fail-on-regression", "--alpha=0.05"], 1, "1 case passed in A and could not be measured in B"),
        (BEFORE[:-10], ["--fail-on-regression"], 1, "failed: tool_efficiency: 1 case passed in A and is not in B"),
        (BEFORE[:-10], ["--fail-on-regression", "--allow-missing"], 0, ""),
        (AFTER, ["--alpha=0.05"], 2, "need --fail-on-regression"),
        (AFTER, ["--allow-missing"], 2, "need --fail-on-regression"),
        (AFTER, ["--fail-on-regression", "--alpha=1"], 2, "0<x<1"),
        (AFTER, ["--allow-different=cases"], 2, "'cases' is not one of"),
    ],
)
def test_exit_codes(tmp_path: Path, after: str, options: list[str], code: int, message: str) -> None:
    """0 for any change; 1 on request if B is worse; 2 for a wrong command line."""
    done = run(*written(tmp_path, a=report(BEFORE), b=report(after)), *options)

    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert (done.stderr == "") == (code == 0)


def test_invalid_comparisons_are_refused(tmp_path: Path) -> None:
    """The error names the file or the difference, and the option that allows it."""
    (a,) = written(tmp_path, a=report("look"))
    metric = ToolCorrectnessMetric(threshold=0.9)
    (strict,) = written(tmp_path, strict=evaluate([case("run 0", "look")], [metric], show_progress=False))
    (other,) = written(tmp_path, other={"tools_called": []})
    outcomes = [run(a, strict), run(a, other), run(a, str(tmp_path / "none.json")), run("-", "-"), run(a)]

    assert [done.exit_code for done in outcomes] == [2] * 5
    assert "tool_correctness: threshold 0.5 in A and 0.9 in B" in outcomes[0].stderr
    assert "or allow: threshold" in outcomes[0].stderr
    assert run(a, strict, "--allow-different", "threshold").exit_code == 0
    assert f"{other}: expected a report" in outcomes[1].stderr
    assert "nothing was compared" in outcomes[1].stderr
    assert outcomes[2].stderr.startswith(f"error: cannot read {tmp_path / 'none.json'}: No such file")
    assert "A and B cannot both be standard input" in outcomes[3].stderr
    assert all(done.stdout == "" for done in outcomes[:4])


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    """Of cases, metrics, findings, and judges."""
    a, b = report(BEFORE, prefix=HOSTILE).to_dict(), report(AFTER, prefix=HOSTILE).to_dict()
    for side, plain in ((1, a), (2, b)):
        plain["cases"].append(json.loads(json.dumps({**plain["cases"][0], "id": f"{HOSTILE} alone {side}"})))
        for entry in [*plain["metrics"], *(result for one in plain["cases"] for result in one["results"])]:
            entry["metric"] += HOSTILE
        for result in (result for one in plain["cases"] for result in one["results"]):
            result["judge"] = {"model": f"{HOSTILE}{side}"}
            result.update({"findings": [{"message": HOSTILE}]} if "findings" in result else {"reason": HOSTILE})
    refused = run(*written(tmp_path, a=a, b=b))
    allowed = run(*written(tmp_path, a=a, b=b), "--allow-different=judge", "--fail-on-regression")

    assert (refused.exit_code, allowed.exit_code) == (2, 1)
    assert not FORBIDDEN.search(refused.output + allowed.output + allowed.stderr)
    for text in (refused.stderr, allowed.stdout, allowed.stderr):
        assert "[red]x[/red] \\x1b[31m" in text


@pytest.mark.parametrize("width", [80, 200])
def test_lines_fit(width: int) -> None:
    """Nothing is wider than the console, and no line ends in blanks."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, highlight=False)
    comparison = compare(report(BEFORE, case("old " * 30, "")), report(AFTER))
    print_comparison(comparison, console=console)

    assert all(len(line) <= width and line == line.rstrip() for line in stream.getvalue().splitlines())


def test_length_of_lists_is_limited() -> None:
    """20 by default, 0 for all; the omitted entries are counted."""
    comparison = compare(report("|".join(["look book"] * 25)), report("|" * 24))
    listed = []
    for options in ({}, {"limit": 0}, {"limit": 3}):
        stream = io.StringIO()
        print_comparison(comparison, console=make_console(stream), **options)
        text = stream.getvalue()
        listed.append((len(re.findall(r"^ run \d+ ", text, re.MULTILINE)), "more (--limit 0 lists all)" in text))

    assert listed == [(20, True), (25, False), (3, True)]
    assert " ... and 22 more (--limit 0 lists all)" in text


def test_the_console_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Another console can be passed; without pairs there are no numbers."""
    print_comparison(compare(report("-"), report("look")))
    out = capsys.readouterr().out
    name = f"results ({datetime.now(timezone.utc).date()})"

    assert out.startswith(
        f"A  {name}: 1 case\n   0 passed, 0 failed, 1 not measured, 0 agent errors\nB  {name}: 1 case\n   1 passed,"
    )
    assert "tool_correctness: no case has a score in both" in out
