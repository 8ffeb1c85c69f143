"""The command line: what it reads, what it shows, and the exit code that a pipeline acts on."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from processes import assert_golden, run_python, toolgrade_score, without_times
from toolgrade.cli.main import main

FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")
HOSTILE = "[red]x[/red] \x1b[31m\x1b]0;t\x07 \x9b31m \u202eabc\u2066 \r\n\t\x00\x7f\u2028"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A call as a file holds it."""
    return {"name": name, "args": arguments} if arguments else {"name": name}


PERFECT = {"id": "perfect", "tools_called": [call("look")], "expected_tools": [call("look")]}
HALF = {"id": "half", "tools_called": [call("look")], "expected_tools": [call("look"), call("book")]}
WRONG = {"id": "wrong", "tools_called": [call("wipe")], "expected_tools": [call("look")]}
BROKEN = {**PERFECT, "id": "broken", "run": {"status": "error", "error": "RuntimeError: 401"}}
UNKNOWN = {"id": "unknown", "tools_called": [call("look")]}
ARGUMENTS = {
    "id": "arguments",
    "tools_called": [call("book", seats=2, to="LIS"), call("look")],
    "expected_tools": [call("look"), call("book", seats=3, to="LIS")],
}


def lines(*cases: Any) -> bytes:
    """A file of cases."""
    return b"".join(json.dumps(case).encode() + b"\n" for case in cases)


def score(data: bytes, *options: str) -> Result:
    """The outcome of `toolgrade score` on standard input, inside this process."""
    return RUNNER.invoke(main, ["score", "-", *options], input=data)


# Exit codes

EXIT_CODES = [
    ([PERFECT], [], 0),
    ([PERFECT, HALF], [], 0),
    ([PERFECT, WRONG], [], 1),
    ([HALF], ["--threshold", "0.6"], 1),
    ([HALF], ["--threshold", "0.5"], 0),
    ([HALF], ["--strict"], 1),
    ([HALF], ["--exact"], 1),
    ([PERFECT, UNKNOWN], [], 1),
    ([UNKNOWN], [], 1),
    ([UNKNOWN], ["--metric=tool-correctness", "--metric=tool-success-rate"], 1),
    ([PERFECT], ["--metric=tool-correctness", "--metric=tool-recovery"], 0),
    ([PERFECT], ["--metric=tool-recovery"], 1),
    ([PERFECT, WRONG], ["--pass-rate", "0.5"], 0),
    ([PERFECT, WRONG], ["--pass-rate", "51%"], 1),
    ([PERFECT, UNKNOWN], ["--pass-rate", "0.1"], 1),
    ([PERFECT, UNKNOWN], ["--allow-not-measured", "50%"], 0),
    ([UNKNOWN], ["--allow-not-measured", "1", "--pass-rate", "0"], 1),
    ([PERFECT, {**WRONG, "id": "perfect"}], ["--per-golden", "0.5"], 0),  # one id: trials of one golden
    ([PERFECT, BROKEN], [], 1),
    ([PERFECT, BROKEN], ["--allow-agent-errors", "0.5"], 0),
    ([PERFECT, {**BROKEN, "ends": "error"}], [], 0),
    ([ARGUMENTS], ["--threshold", "1"], 0),  # names alone are compared by default
    ([ARGUMENTS], ["--ordered", "--params", "input", "--threshold", "0.5"], 0),
    ([ARGUMENTS], ["--ordered", "--params", "name,input", "--threshold", "0.6"], 1),
    ([ARGUMENTS], ["--ordered", "--params", "tool,input_parameters", "--threshold", "0.6"], 1),
    (
        [{**PERFECT, "tools_called": [call("look"), call("b")]}],
        [
            "--metric=tool_correctness",  # as reports print it
            "--metric=tool-success-rate",
            "--denominator=called",
            "--threshold=0.9",
        ],
        1,
    ),
]


@pytest.mark.parametrize(
    ("cases", "options", "code"),
    EXIT_CODES,
    ids=[f"{' '.join([case['id'] for case in cases] + options)} -> {code}" for cases, options, code in EXIT_CODES],
)
def test_exit_code_reports_failed_scores(cases: list[Any], options: list[str], code: int) -> None:
    """0 if the gate holds, else 1."""
    result = score(lines(*cases), *options)

    assert result.exit_code == code, result.output


@pytest.mark.parametrize(
    ("cases", "options", "last_line"),
    [
        ([PERFECT], [], ""),
        ([PERFECT, WRONG, UNKNOWN], [], "failed: 1 of 3 cases failed, 1 could not be measured (unknown: "),
        ([BROKEN], [], "failed: 1 agent broke in 1 case (broken: RuntimeError: 401)\n"),
        (
            [UNKNOWN, UNKNOWN],
            [],
            "failed: 2 of 2 cases could not be measured (unknown (trial 1): ToolCorrectnessMetric",
        ),
        (
            [PERFECT],
            ["--metric=tool-recovery"],
            "failed: 1 of 1 case could not be measured (perfect: the outcome",
        ),
    ],
    ids=["passed", "failed", "agent-error", "not-measured", "skipped"],
)
def test_one_sentence_says_why_the_gate_does_not_hold(cases: list[Any], options: list[str], last_line: str) -> None:
    """On standard error, so that a report on standard output stays whole."""
    result = score(lines(*cases), *options)
    as_json = score(lines(*cases), *options, "--json", "-")

    assert result.stderr == as_json.stderr
    assert result.stderr.startswith(last_line)
    assert result.stderr.count("\n") == (1 if last_line else 0)
    assert json.loads(as_json.stdout)["metrics"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nonsense"], "No such option"),
        (["--metric", "bleu"], "'bleu' is not a metric; the metrics are"),
        (["--params", "name,reason"], "'reason' is not one of name, input, output"),
        (["--denominator", "all"], "'all' is not one of"),
        (["--threshold", "1.5"], "1.5 is not in the range 0<=x<=1"),
        (["--threshold", "much"], "'much' is not a valid float"),
        (["--pass-rate", "-0.1"], "'-0.1' is not a share from 0 to 1, such as 0.02 or 2%"),
        (["--limit", "-1"], "-1 is not in the range x>=0"),
        (["--ordered", "--exact"], "--ordered and --exact cannot be combined"),
        (["--metric", "budget"], "BudgetMetric must have at least one limit"),
        (["--budget", "calls=3"], "'calls=3' is not one of max_calls, max_seconds, max_tokens"),
        (["--budget", "max_calls=3", "--budget", "max_calls=4"], "once each"),
        (
            ["--metric", "tool-recovery", "--effect", "a=read"],
            "--effect is an option of task-success and tool-correctness",
        ),
        (["--forbidden", "a"], "--forbidden is an option of task-success, which --metric does not"),
        (["--metric", "tool-recovery", "--compare", "meaning"], "--compare is an option of task-success"),
        (["--calls-only"], "--calls-only is an option of task-success, which --metric does not name"),
        (["--effect", "book"], "'book' needs a tool and its effect"),
        (["--effect", "book=maybe"], "'book' needs a tool and its effect"),
        (["--effect", "=read"], "'read' needs a tool and its effect"),
        (["--error-texts", "("], "not a regular expression"),
        (["--budget", "max_calls=-1"], "max_calls must be a whole number from 0"),
        (["--budget", "max_calls=1.5"], "'1.5' is not a number"),
        (["--budget", "max_seconds=nan"], "max_seconds must be a finite number"),
        (["--pass-rate", "nan"], "'nan' is not a share"),
        (["--per-golden", "101%"], "'101%' is not a share"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_exits_with_2(options: list[str], message: str) -> None:
    """Standard error names the option and the accepted values."""
    result = score(lines(PERFECT), *options)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "error: <stdin>:1: $: the file is empty; nothing was scored\n"),
        (b"[]", "error: <stdin> has no case; nothing was scored\n"),
        (b'{"id": "\xe9"}\n', "error: <stdin>:1: $: not UTF-8: invalid continuation byte at byte 8;"),
        (gzip.compress(b" " * 9)[:-9], "error: <stdin>:"),
        (b"3\n", "error: <stdin>:1: $: expected an object (a test case or a record), got int;"),
        (
            b'{"tools_called": [{"name": "a", "args": {"x": NaN}}]}',
            "error: <stdin>:1: $.tools_called[0].args.x: bare NaN is not JSON; write it as text, or allow NaN;",
        ),
    ],
    ids=["empty", "no-case", "latin-1", "truncated-gzip", "number", "bare-nan"],
)
def test_wrong_input_exits_with_2(data: bytes, message: str) -> None:
    """Nothing is scored or printed to standard output, and the place is named."""
    result = score(data)

    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_interrupt_at_the_end_of_the_process_changes_nothing(tmp_path: Path) -> None:
    """When everything is written, Ctrl-C neither shows a traceback nor changes the exit code."""
    (tmp_path / "good.jsonl").write_bytes(lines(PERFECT))
    program = """
import atexit, os, signal, sys
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
from toolgrade.cli.main import run
sys.argv[1:] = ["score", "good.jsonl"]
run()
"""
    done = run_python(["-c", program], tmp_path)

    assert (done.code, done.err) == (0, "")


# What it reads


def test_bad_lines_are_named_and_not_measured(tmp_path: Path) -> None:
    """With file, line, path, expected and actual value; the good ones count, unless the file is refused."""
    good, bad = lines(PERFECT), lines({"tools_called": [{"name": 3}]})
    (tmp_path / "runs.jsonl").write_bytes(good * 16 + bad + good + b"{\n" + good + lines({"query": "x", "id": []}))
    problems = [
        "runs.jsonl:17: $.tools_called[0].name: expected a string, got 3",
        "runs.jsonl:19: $: not JSON: the text ends too early, at character 2",
        "runs.jsonl:21: $.id: expected a string, got []",
    ]
    scored = toolgrade_score("runs.jsonl", folder=tmp_path)
    refused = toolgrade_score("runs.jsonl", "--reject-bad-lines", folder=tmp_path)

    assert scored.code == 1
    assert "runs.jsonl: 21 cases" in scored.out
    assert re.search(r"tool_correctness.* 18 +0 +0 +3\n", scored.out)
    assert scored.err.splitlines() == [
        *(f"warning: {problem}" for problem in problems),
        "warning: 3 lines cannot be read; each counts as a case that was not measured",
        "failed: 3 of 21 cases could not be measured (line 17: $.tools_called[0].name: expected a string, got 3)",
    ]
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "error: " + "\n".join([*problems, "nothing was scored", ""])


def test_ten_of_hundreds_of_bad_lines_are_printed() -> None:
    """And how many more there are."""
    bad = b'{"id": []}\n' * 700
    outcomes = [score(bad), score(lines(PERFECT) + bad)]

    assert [outcome.exit_code for outcome in outcomes] == [2, 1]
    assert [outcome.stderr.count("expected a string, got []") for outcome in outcomes] == [10, 11]
    assert outcomes[0].stderr.endswith("\n... and 690 more\nnothing was scored\n")
    assert "\nwarning: ... and 690 more\nwarning: 700 lines cannot be read;" in outcomes[1].stderr


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b'{"metrics": [],\n "cases": []}\n',
            "FILE:1: $: has results that are scored already; show them with `toolgrade report`",
        ),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is binary, or text that is not UTF-8; give JSON Lines or a JSON array"),
        (b"id,name\n1,2\n", "looks like CSV; write each row as a JSON object"),
        (
            b'data: {"choices": [1, 2]}\n',
            "is a raw stream of server-sent events; log the response that the client assembles",
        ),
        (b'"id"\t"name"\n1\t2\n', "looks like CSV; write each row as a JSON object"),
        (b"2026-01-01 started\nfailed\n" * 9, "is text without JSON; give JSON Lines, with a JSON object on each line"),
        ("{}\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        ('{"id": "a"}\n'.encode("utf-16-be"), "is UTF-16 text; save it as UTF-8"),
        (b'{"id": "a", "expected_tools": []}\n' * 9, "has goldens, which have expected calls and no calls that were"),
        (b'{\n"idd": "a"\n}\n', "FILE:1: $.idd: unknown field 'idd'"),
    ],
    ids=[
        *("report", "binary", "csv", "events", "tabs", "text", "utf-16", "utf-16-be", "goldens", "pretty"),
    ],
)
def test_a_file_of_another_kind_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, message: str
) -> None:
    """With the command that it needs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_bytes(data)
    outcome = RUNNER.invoke(main, ["score", "FILE"])

    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error: FILE" if "FILE:" not in message else f"error: {message}")
    assert message in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_nan_is_read_if_allowed() -> None:
    """In lines and in an array."""
    line = (
        b'{"tools_called": [{"name": "a", "args": {"x": NaN}}], "expected_tools": [{"name": "a", "args": {"x": NaN}}]}'
    )

    assert score(line, "--allow-nan", "--params", "input").exit_code == 0
    assert score(b"[" + line + b"]", "--allow-nan", "--params", "input").exit_code == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.jsonl", "No such file or directory"),
        (".", "the folder has no file that ends in .json,"),
        ("a\x1b[31m\u202e\nb", "No such file"),
    ],
    ids=["missing", "folder", "hostile-name"],
)
def test_unreadable_files_exit_with_2(tmp_path: Path, name: str, message: str) -> None:
    """The name is printed as escaped text."""
    outcome = toolgrade_score(name, folder=tmp_path)

    assert outcome.code == 2
    assert re.search(message, outcome.err)
    assert outcome.err.startswith("error: cannot read ")
    assert outcome.err.count("\n") == 1
    assert not FORBIDDEN.search(outcome.err)


def test_records_are_read_and_their_warnings_shown() -> None:
    """Partly understood records are listed under the totals."""
    entry = {"id": "1", "function": {"name": "look", "arguments": "{broken"}}
    record = {
        "query": "What?",
        "agent_trajectory": [{"role": "user", "content": "What?"}, {"role": "assistant", "tool_calls": [entry]}],
        "expected_tools": [{"name": "look"}],
    }
    result = score(lines(record))

    assert result.exit_code == 0
    assert " 1 result with warnings" in result.stdout
    assert "  - $.agent_trajectory[1].tool_calls[0]" in result.stdout


# What it shows


def test_the_report_looks_like_this(tmp_path: Path) -> None:
    """Worst first, the sides aligned, then the totals."""
    (tmp_path / "runs.jsonl").write_bytes(lines(PERFECT, HALF, WRONG, UNKNOWN, ARGUMENTS))
    plain = toolgrade_score("runs.jsonl", "--params", "name,input", "--ordered", folder=tmp_path)
    both = toolgrade_score(
        *("runs.jsonl", "--metric", "tool-correctness", "--metric", "tool-efficiency"),
        *("--denominator", "f1", "--limit", "2"),
        folder=tmp_path,
    )

    assert plain.code == both.code == 1
    assert plain.err.startswith("failed: 1 of 5 cases failed, 1 could not be measured (unknown: ToolCorrectnessMetric")
    assert_golden("cli-score.txt", plain.out)
    assert_golden("cli-score-two-metrics.txt", both.out)


def test_hostile_text_never_reaches_the_terminal(tmp_path: Path) -> None:
    """Tables, errors, warnings and JSON on standard output are escaped; a file keeps the text."""
    case = {
        "id": HOSTILE,
        "tools_called": [call(HOSTILE, **{HOSTILE: HOSTILE}), call("b" + HOSTILE)],
        "expected_tools": [call(HOSTILE, **{"other" + HOSTILE: HOSTILE}), call("c" + HOSTILE)],
    }
    nearly = {"query": HOSTILE, "tool_called": HOSTILE, **case}
    bad = [{HOSTILE: 1}, {"tools_called": HOSTILE}, {"tools_called": [{"name": "a", HOSTILE: 1}]}, [HOSTILE]]
    bad += [{"query": HOSTILE, "agent_trajectory": [{"role": HOSTILE, HOSTILE: HOSTILE}], "tags": HOSTILE}]
    (tmp_path / "runs.jsonl").write_bytes(lines(case, nearly, {**UNKNOWN, "id": HOSTILE}))
    (tmp_path / "bad.jsonl").write_bytes(lines(*bad) + HOSTILE.replace("\0", "").encode())

    options = ("runs.jsonl", "--params", "input")
    table = toolgrade_score(*options, folder=tmp_path)
    piped = toolgrade_score(*options, "--json", "-", folder=tmp_path)
    report = toolgrade_score(*options, "--json", "report.json", folder=tmp_path)
    refused = toolgrade_score("bad.jsonl", folder=tmp_path)

    assert [outcome.code for outcome in (table, piped, report, refused)] == [1, 1, 1, 2]
    for outcome in (table, piped, report, refused):
        assert not FORBIDDEN.search(outcome.out)
        assert not FORBIDDEN.search(outcome.err)
    assert "[red]x[/red] \\x1b[31m" in table.out
    assert refused.err.count("bad.jsonl:") >= len(bad) + 1
    written = without_times((tmp_path / "report.json").read_text())
    assert written == without_times(piped.out)
    assert written["cases"][0]["id"] == HOSTILE


# Metrics of calls alone

TOOLS = [{"name": "look", "parameters": {"properties": {"n": {"type": "integer"}}, "required": ["n"]}}]
FULL = {"status": "error", "error": "full"}
ALONE = {
    "id": "alone",
    "tools_called": [
        {**call("look", n=1), "execution": {"status": "ok"}},
        {**call("look", n="x"), "execution": FULL},
        {**call("look", n=1), "execution": {"status": "ok"}},
        {**call("book"), "execution": FULL},
    ],
    "available_tools": TOOLS,
    "run": {"duration": 8.0},
}
"""One case that each of these metrics gives another score."""


@pytest.mark.parametrize(
    ("metric", "options", "mean", "code"),
    [
        ("argument-schema", [], 2 / 4, 1),
        ("argument-schema", ["--threshold", "0.5"], 2 / 4, 0),
        ("argument-schema", ["--strict"], 0, 1),
        ("tool-efficiency", [], 3 / 4, 0),
        ("budget", ["--budget", "max_calls=2"], 0, 1),
        ("budget", ["--budget", "max_seconds=8", "--budget", "max_calls=4"], 1, 0),
        ("tool-success-rate", [], 2 / 4, 1),
        ("tool-success-rate", ["--threshold", "0.5"], 2 / 4, 0),
        ("tool-recovery", [], 1 / 2, 0),
        ("tool-recovery", ["--threshold", "0.6"], 1 / 2, 1),
        ("run-health", [], (3 / 4 + 0) / 2, 1),
        ("run-health", ["--threshold", "0.3"], (3 / 4 + 0) / 2, 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_metrics_of_calls_alone(metric: str, options: list[str], mean: float, code: int) -> None:
    """Each is measured without expected calls, with its options, and passes at its default threshold."""
    result = score(lines(ALONE), "--metric", metric, *options, "--json", "-")
    (summary,) = json.loads(result.stdout)["metrics"]

    assert (summary["mean"], result.exit_code) == (mean, code)
    assert result.stderr == ("failed: 1 of 1 case failed\n" if code else "")


CHANGED = {
    "id": "changed",
    "expected_tools": [call("look"), call("book", n=1)],
    "tools_called": [
        call("book", n=1),
        {**call("book", n=1), "output": "Error: full"},
        call("mail_all"),
        {"name": "jiggle"},
    ],
}


@pytest.mark.parametrize(
    ("options", "mean", "code"),
    [
        (["--effect", "look=read", "--error-texts", "full"], 2 / 3 * 0.98, 1),
        (["--effect", "look=read", "--forbidden", "mail_*"], 0, 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_effect_of_a_task(options: list[str], mean: float, code: int) -> None:
    """Effects of tools, failure patterns and forbidden calls can be passed on the command line."""
    result = score(lines(CHANGED), "--metric", "task-success", "--calls-only", *options, "--json", "-")
    (summary,) = json.loads(result.stdout)["metrics"]

    assert summary["mean"] == pytest.approx(mean)
    assert result.exit_code == code


BOOKED = {
    "id": "booked",
    "expected_tools": [call("get_seats"), {"name": "book", "args": {"city": "New York"}}],
    "tools_called": [{"name": "book", "args": {"city": "new york"}, "output": "Error: full"}] * 2
    + [{"name": "book", "args": {"city": "new york"}}],
    "required_texts": ["A1"],
    "agent_texts": ["Your seat is a1.", "Bye"],
    "ends": "ok",
    "ended": True,
}


@pytest.mark.parametrize(
    ("options", "mean", "code"),
    [
        ([], 0.98, 0),
        (["--compare", "exact"], 0.98 / 2, 1),
        (["--error-texts", "none"], 0.98 / 2, 1),
        (["--text-tools", "b*"], 0.98 / 2, 1),
        (["--forbidden", "b*"], 0, 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_success_of_a_task(options: list[str], mean: float, code: int) -> None:
    """Effects are guessed, failures recognized by usual texts, and arguments compared by meaning; options differ."""
    result = score(lines(BOOKED), "--metric", "task-success", *options, "--json", "-")
    (summary,) = json.loads(result.stdout)["metrics"]

    assert summary["mean"] == pytest.approx(mean)
    assert result.exit_code == code


def test_error_texts_hold_for_all_metrics() -> None:
    """So that one failure is a failure in all of them."""
    names = ["tool-success-rate", "task-success", "tool-recovery"]
    chosen = [part for name in names for part in ("--metric", name)]
    default, none = (
        json.loads(score(lines(CHANGED), *chosen, *texts, "--json", "-").stdout)["cases"][0]["results"]
        for texts in ([], ["--error-texts", "none"])
    )

    assert [[one["kind"] for one in result["findings"]].count("error_text") for result in default] == [1, 1, 0]
    assert [result["status"] for result in default] == ["scored", "scored", "scored"]
    assert (none[0]["score"], none[2]["status"]) == (1, "skipped")


def test_a_budget_alone_is_the_metric() -> None:
    """Beside metrics on the command line it is one more."""
    budget = ["--budget", "max_calls=1", "--json", "-"]
    alone, beside = (
        json.loads(score(lines(CHANGED), *budget, *more).stdout)["metrics"]
        for more in ([], ["--metric", "tool-correctness"])
    )

    assert [(one["metric"], one["mean"]) for one in alone] == [("budget(max_calls=1)", 0)]
    assert [one["metric"] for one in beside] == ["tool_correctness", "budget(max_calls=1)"]
