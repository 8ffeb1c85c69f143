"""Reports in a terminal: 80 columns, worst first, sides aligned, and no data that the terminal would obey."""

import io
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from processes import assert_golden
from reports import agents_report, judged_report, trial_report
from strategies import case_fields
from toolgrade import (
    LLMTestCase,
    MetricResult,
    Report,
    ResultStatus,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    evaluate,
)
from toolgrade.report.terminal import print_report
from toolgrade.report.terminal.console import Name, make_console
from toolgrade.report.terminal.results import print_result

#: Text as an attacker, or an unlucky model, would write it: markup, colours, a bell, C1 codes, reversed writing.
HOSTILE = "[red]x[/red] \x1b[31m\x1b]0;t\x07 \x9b31m \u202eabc\u2066 \r\n\t\x00\x7f\u2028 :smile: \U000e0041"
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\U000e0000-\U000e007f]"
)


USAGE = "1,200 input tokens, 34 output tokens, 10 cached tokens, 4 requests"


def printed(report: Report, *, width: int = 80, **options: Any) -> str:
    """Return the output for a stream that is not a terminal."""
    file = io.StringIO()
    console = Console(file=file, width=width, markup=False, highlight=False, emoji=False)
    print_report(report, title=options.pop("title", "cases.jsonl"), console=console, **options)
    return file.getvalue()


def columns(line: str) -> int:
    """The columns that a line takes, by the width that Unicode gives its characters."""
    return sum(
        # Marks such as those of SignWriting take no column, although their combining class is 0.
        0 if unicodedata.category(char) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in line
    )


def assert_fits(text: str, width: int = 80) -> None:
    """Asserts that no line is too wide and none ends in blanks."""
    for line in text.split("\n"):
        assert columns(line) <= width, line
        assert line == line.rstrip(" "), line


def tool(name: str, arguments: dict[str, Any] | None = None, **more: Any) -> ToolCall:
    """A call."""
    return ToolCall(name=name, **({} if arguments is None else {"input_parameters": arguments}), **more)


FLIGHT = {"origin": "BER", "destination": "LIS", "options": {"cabin": "economy", "seats": 2}}
WRONG = {"origin": "BER", "destination": "OPO", "options": {"cabin": "business", "seats": 2}, "note": "long " * 30}
CASES = [
    LLMTestCase(id="happy", tools_called=[tool("find"), tool("book")], expected_tools=[tool("find"), tool("book")]),
    LLMTestCase(
        id="wrong-arguments",
        tools_called=[tool("find", WRONG), tool("mail", {"to": "a"}, output={"ok": True})],
        expected_tools=[tool("find", FLIGHT), tool("mail", {"to": "a", "cc": ["x"]}, output={"ok": False})],
    ),
    LLMTestCase(id="order", tools_called=[tool(name) for name in "WWQ"], expected_tools=[tool(name) for name in "WQW"]),
    LLMTestCase(id="an-identifier-longer-than-its-column/part-2", tools_called=[tool("wipe")], expected_tools=[]),
    LLMTestCase(id="silent", tools_called=[], expected_tools=[tool("find")]),
    LLMTestCase(
        name="航班查询测试用例名称很长很长很长", tools_called=[tool("查询航班")], expected_tools=[tool("预订酒店")]
    ),
    LLMTestCase(id="type", tools_called=[tool("find", type="mcp")], expected_tools=[tool("find", type="function")]),
    LLMTestCase(
        id="partly-recorded",
        tools_called=[tool("find", execution={"not_captured": ["input_parameters"]}), tool("mail")],
        expected_tools=[tool("find", FLIGHT)],
        run=Run(warnings=["the recording broke off"]),
    ),
    LLMTestCase(id="unknown", tools_called=[tool("find")]),
]
ORDERED = ToolCorrectnessMetric(should_consider_ordering=True, evaluation_params=["input_parameters", "output"])


@pytest.fixture(scope="module")
def report() -> Report:
    """Return a report with every kind of finding."""
    return evaluate(CASES, [ORDERED])


# The look


def test_one_metric(report: Report) -> None:
    """The cases, the worst side by side, the totals, the warnings."""
    text = printed(report, details=20)

    assert_fits(text)
    assert_golden("terminal-one-metric.txt", text)


def test_several_metrics() -> None:
    """Each has its table, so that names fit; a case is shown side by side once, at its worst."""
    text = printed(evaluate(CASES, [ToolCorrectnessMetric(), ORDERED]), limit=3)

    assert_fits(text)
    assert_golden("terminal-several-metrics.txt", text)


def test_colours(report: Report) -> None:
    """On a terminal verdicts and marks have colours; the text is the same."""
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, color_system="standard", highlight=False)
    print_report(report, title="cases.jsonl", console=console)

    assert re.sub("\x1b\\[[0-9;]*m", "", file.getvalue()) == printed(report)
    assert_golden("terminal-colours.txt", file.getvalue().replace("\x1b", "<ESC>"))


def test_a_single_result() -> None:
    """What `verbose_mode` prints: the sum, the sides, and the notes."""
    file = io.StringIO()
    case = CASES[7]
    print_result(ORDERED.measure(case), case, Console(file=file, width=80))

    assert_fits(file.getvalue())
    assert_golden("terminal-result.txt", file.getvalue())


def test_verbose_mode_prints_each_measured_case(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output, with the measured values."""
    ToolCorrectnessMetric(verbose_mode=True).measure(CASES[2])

    out = capsys.readouterr().out
    assert out.startswith("order  tool_correctness  passed\n 3 matched / 3 expected = 1 (passed at 0.5).\n")
    assert_fits(out)


# What is listed


def test_the_worst_come_first() -> None:
    """What was not measured, also since no metric applies, then by score, then as given."""
    results = [
        MetricResult(metric="m", status=ResultStatus.SKIPPED, threshold=0.5),
        *(MetricResult(metric="m", status=ResultStatus.SCORED, threshold=0.5, score=s, passed=True) for s in (1, 0.5)),
        MetricResult(metric="m", status=ResultStatus.ERRORED, threshold=0.5, reason="torn"),
        MetricResult(metric="m", status=ResultStatus.SCORED, threshold=0.5, score=0.5, passed=True),
    ]
    metric = _Prepared(results)
    cases = [LLMTestCase(id=name) for name in ("skip", "good", "half", "torn", "half-too")]

    lines = printed(evaluate(cases, [metric])).partition("first problem\n")[2].split("\n")[:5]
    assert [line.split()[0] for line in lines] == ["skip", "torn", "half", "half-too", "good"]


class _Prepared:
    """A metric whose results are given."""

    label = "m"
    threshold = 0.5

    def __init__(self, results: list[MetricResult]) -> None:
        self.results = iter(results)

    def measure(self, _case: object) -> MetricResult:
        """Hands out the next one."""
        return next(self.results)

    async def a_measure(self, _case: object) -> MetricResult:
        """Hands out the next one."""
        return next(self.results)


def test_limits_report_omissions(report: Report) -> None:
    """`limit` cuts the list and `details` the comparisons; 0 lists all and shows none."""
    short = printed(report, limit=2, details=1)
    full = printed(report, limit=0, details=0)

    assert " ... and 7 more (--limit 0 lists all)\n" in short
    assert short.count("expected                               called") == 1
    assert "more (--limit" not in full
    assert "expected                               called" not in full
    assert all(f"\n {case.id} " in full for case in CASES if case.id and len(case.id) < 24)


def test_a_long_comparison_is_cut() -> None:
    """Hundreds of calls do not flood the terminal; the JSON report has them all."""
    case = LLMTestCase(
        tools_called=[tool("a")] * 300, expected_tools=[tool("b")] + [tool("a")] * 300, id="many", tags=["x"]
    )
    text = printed(evaluate([case], [ORDERED]))

    assert text.count("\n") < 90
    assert " ... and 241 more lines (all calls are in the JSON report)\n" in text


def test_numbers_of_calls_are_aligned() -> None:
    """Position 10 does not push its name to the right of the others."""
    names = [f"tool_{letter}" for letter in "abcdefghijkl"]
    case = LLMTestCase(tools_called=[tool(name) for name in names[::-1]], expected_tools=[tool(name) for name in names])
    lines = [line for line in printed(evaluate([case], [ORDERED])).split("\n") if line.count("tool_") == 2]

    assert len(lines) == 12
    assert {line.index("tool_") for line in lines} == {7}
    assert len({line.rindex("tool_") for line in lines}) == 1


# What can go wrong


def hostile_case() -> LLMTestCase:
    """A case with hostile text wherever text is printed."""
    arguments = {HOSTILE: HOSTILE + "\ud800", "same": {"inner" + HOSTILE: [HOSTILE]}, "extra": 1}
    return LLMTestCase(
        id=HOSTILE,
        tools_called=[tool(HOSTILE, arguments, output=HOSTILE), tool("b" + HOSTILE), tool("c" + HOSTILE)],
        expected_tools=[
            tool(HOSTILE, {"same": {"inner" + HOSTILE: HOSTILE}, "missing" + HOSTILE: HOSTILE}, output={HOSTILE: 1}),
            tool("c" + HOSTILE),
            tool("b" + HOSTILE),
            tool("d" + HOSTILE),
        ],
        run=Run(warnings=[HOSTILE, "w" + HOSTILE]),
    )


def failing(_case: object) -> MetricResult:
    """What a metric does that repeats what it read."""
    raise ValueError(HOSTILE)


def test_hostile_text_is_escaped() -> None:
    """Escape sequences are visible, markup and emoji names stay text, and text direction cannot change."""
    metric = _Prepared([])
    metric.measure = failing  # type: ignore[method-assign]
    metric.label = "m" + HOSTILE
    whole = evaluate([hostile_case(), LLMTestCase(name=HOSTILE)], [ORDERED, metric])
    text = printed(whole, title=HOSTILE)

    assert not FORBIDDEN.search(text)
    assert text.count("[red]x[/red] \\x1b[31m\\x1b]0;t\\x07") > 8
    assert ":smile:" in text
    assert "\\u202eabc\\u2066" in text
    assert_fits(text)
    assert_golden("terminal-hostile.txt", text)


def test_hostile_text_is_not_obeyed_in_colour_either() -> None:
    """On a terminal the only escape sequences are rich's own colours."""
    file = io.StringIO()
    print_report(
        evaluate([hostile_case()], [ORDERED]),
        title=HOSTILE,
        console=Console(file=file, width=80, force_terminal=True, color_system="standard"),
    )

    assert not FORBIDDEN.search(re.sub("\x1b\\[[0-9;]*m", "", file.getvalue()))
    assert set(re.findall("\x1b\\[([0-9;]*)m", file.getvalue())) <= {"0", "1", "2", "31", "32", "33", "35", "1;31"}


@pytest.mark.parametrize("length", [81, 5000], ids=str)
@pytest.mark.parametrize(
    "letter", ["x", "航", "é", "e\u0301", "\x1b"], ids=["ascii", "wide", "accent", "combining", "escape"]
)
@pytest.mark.parametrize("width", [80, 120])
def test_long_names_fit(letter: str, length: int, width: int) -> None:
    """Names of any length and width stay inside the columns, and do not flood the screen."""
    name = letter * length
    case = LLMTestCase(
        id=name,
        tools_called=[tool(name, {name: name}), tool("b" + name)],
        expected_tools=[tool(name, {name: "other"}), tool("c" + name)],
        run=Run(warnings=[name]),
    )
    text = printed(evaluate([case], [ORDERED]), width=width, title="title")

    assert_fits(text, width)
    assert text.count("\n") < 100


@given(st.lists(case_fields.map(lambda fields: LLMTestCase(**fields)), min_size=1, max_size=3))
def test_any_report_can_be_printed(cases: list[LLMTestCase]) -> None:
    """It fits the width and is escaped for any cases."""
    text = printed(evaluate(cases, [ORDERED, ToolCorrectnessMetric()]), details=9)

    assert_fits(text)
    assert not FORBIDDEN.search(text)


def test_pipe_has_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every environment, so that logs look the same."""
    monkeypatch.setenv("COLUMNS", "200")

    assert make_console(io.StringIO()).width == 80


# Amount of detail

TRIALS = trial_report({"refund": "ppfp", "late-parcel": "ffff", "hello": "pppp", "lost": "eeff"}, 4, interrupted=True)


def test_trials(report: Report) -> None:
    """Chances by k, flaky goldens, and interruption; absent without trials."""
    text = printed(TRIALS, limit=4, details=1)

    assert_fits(text)
    assert_golden("terminal-trials.txt", text)
    assert "pass@k" not in printed(report)
    assert "nterrupted" not in printed(report)


AGENTS = agents_report(
    {
        "gpt-4o": {"refund": "ppp", "late-parcel": "fff", "hello": "ppp", "lost": "pef"},
        "gpt-4o-mini-2024-07-18": {"refund": "pfp", "late-parcel": "ppp", "hello": "ppp", "lost": "eee"},
    },
    3,
)


@pytest.mark.parametrize("width", [60, 80])
def test_several_agents(width: int) -> None:
    """Side by side, or below each other where there is no room."""
    text = printed(AGENTS, width=width, limit=3, details=0)

    assert_fits(text, width)
    assert_golden(f"terminal-agents-{width}.txt", text)


def test_names_of_agents_are_escaped() -> None:
    """They come from a file of results, as everything else."""
    text = printed(agents_report({HOSTILE: {"a": "p"}, "x" * 5000: {"a": "f"}, "sk-" + "a1B2" * 8: {"a": "p"}}))

    assert_fits(text)
    assert not FORBIDDEN.search(text)
    assert "a1B2" not in text


def test_quiet_prints_the_totals_alone() -> None:
    """Like the end of the full report, with only flaky cases."""
    whole, quiet = printed(TRIALS).split("\n"), printed(TRIALS, quiet=True).split("\n")
    start = next(place for place, line in enumerate(quiet) if line.startswith(" FAILED"))

    assert whole[-len(quiet) + start :] == quiet[start:]
    assert quiet[:start] == whole[:start]
    assert "late-parcel" not in "".join(quiet)


def test_full_prints_everything() -> None:
    """Every result side by side, those that passed too, and no line is left out."""
    many = LLMTestCase(id="many", tools_called=[], expected_tools=[tool("a")] * 300)
    report = evaluate([many, *CASES], [ORDERED], show_progress=False)
    text = printed(report, full=True, limit=1, details=0)

    assert len(re.findall("^ - +[0-9]+ a +.not called", text, re.MULTILINE)) == 300
    assert len(re.findall("^ +expected +called$", text, re.MULTILINE)) == len(report.cases) - 1  # one has no alignment
    assert "more" not in text
    assert "\nhappy  tool_correctness(ordered, input_parameters, output)  passed\n" in text


def test_full_prints_all_findings_of_a_metric_without_an_alignment() -> None:
    """In words, each on its line."""
    case = LLMTestCase(id="busy", tools_called=[tool("look")] * 30)
    report = evaluate([case], [ToolEfficiencyMetric()], show_progress=False)

    assert "more (all of them are in the JSON report)" in printed(report)
    assert printed(report, full=True).count("Redundant: called #") == len(report.cases[0].results[0].findings)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (judged_report(), f"judge: 75 % decided, {USAGE}, cost 0.125"),
        (judged_report(cost=None), f"judge: 75 % decided, {USAGE}, cost not known"),
        (judged_report(decided=4), f"judge: 100 % decided, {USAGE}, cost 0.125"),
    ],
)
def test_judge_costs_are_shown(report: Report, line: str) -> None:
    """Coverage, usage and cost; an unknown price is not 0."""
    assert f" {line} In parentheses" in " ".join(printed(report, quiet=True).split())
    assert "judge" not in printed(TRIALS, quiet=True)


def test_many_trials_are_sampled() -> None:
    """With hundreds of trials the table stays short and includes the last."""
    text = printed(trial_report({"a": "p" * 30, "b": "pf" * 15}, 30))
    rows = re.findall("^ +([0-9]+) +[0-9.]+ +[0-9.]+ +2$", text, re.MULTILINE)

    assert rows == ["1", "2", "3", "5", "10", "20", "30"]


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("full", [False, True], ids=["short", "full"])
def test_nothing_is_cut_at_any_width(report: Report, width: int, full: bool) -> None:
    """Ids, metrics, numbers and words of the widest report are all in the narrowest, possibly wrapped."""
    several = evaluate(CASES, [ToolCorrectnessMetric(), ORDERED], show_progress=False)
    for printed_report in (report, several, TRIALS, judged_report()):
        text = printed(printed_report, width=width, full=full)
        joined = re.sub(r"\s+", "", text)

        assert_fits(text, width)
        assert "…" not in text
        for summary in printed_report.summaries:
            assert f"{re.sub(' ', '', summary.metric)}(threshold={summary.threshold:g})" in first_column(text)
        for case in printed_report.cases:
            assert case.label.replace(" ", "")[:11] in joined


def first_column(text: str) -> str:
    """Return the first column of the totals without blanks."""
    header = next(line for line in text.split("\n") if line.startswith(" metric "))
    rows = text[text.index(header) :].split("\n")
    return re.sub(r"\s", "", "".join(row[: header.index("mean") - 2] for row in rows))


# Names


@given(
    st.lists(st.sampled_from(["tool", "correctness", "denominator", "f1"]), min_size=1),
    st.lists(st.sampled_from(["_", "(", ", ", " -> ", "-", "=", ") "]), min_size=50, max_size=50),
    st.integers(15, 40),
)
def test_names_are_wrapped_between_words(words: list[str], separators: list[str], width: int) -> None:
    """Nothing is lost but blanks, and no word is broken."""
    name = "".join(map("".join, zip(words, separators, strict=False)))
    console = Console(width=width, file=io.StringIO(), highlight=False)
    with console.capture() as capture:
        console.print(Name(name))
    lines = capture.get().split("\n")

    assert "".join(lines).replace(" ", "") == name.replace(" ", "")
    assert max(map(cell_len, lines)) <= width
    for word in words:
        assert capture.get().count(word) == name.count(word)


def test_a_warning_has_the_names_of_its_first_case() -> None:
    """Others that differ only in names and numbers are counted as similar."""
    cases = [
        LLMTestCase(id=f"c{n}", input="q", tools_called=[], expected_tools=[], run=Run(warnings=[f"id 'c{n}' repeats"]))
        for n in range(3)
    ]

    text = printed(evaluate(cases, metrics=[ToolCorrectnessMetric()]))

    assert "- id 'c0' repeats (c0 and 2 similar)" in text
