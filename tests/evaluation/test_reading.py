"""Written results are read back unchanged, from results files and from JSON reports."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging import RuleJudge
from strategies import case_fields, conversation_fields, few, golden_fields, image_case_fields, run_fields
from toolgrade import (
    ConversationalTestCase,
    DataFileError,
    Finding,
    Golden,
    LLMTestCase,
    MetricResult,
    MLLMImage,
    MLLMTestCase,
    Report,
    ResultStatus,
    Run,
    TaskSuccessMetric,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolUseMetric,
    Turn,
    evaluate,
)
from toolgrade.calls import Execution
from toolgrade.errors import BadLineWarning, ToolgradeError
from toolgrade.evaluation import read_results
from toolgrade.evaluation.builder import session_facts
from toolgrade.evaluation.result_json import encode_case
from toolgrade.evaluation.results_file import Header, ResultsFile, head_of, rest_of
from toolgrade.evaluation.rows import CaseKey, Row
from toolgrade.expect import Absent, Approx, Expect, Forbid, Glob, Ignore, Optional, Parallel, Plan, Predicate
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT
from toolgrade.report.terminal import print_report
from toolgrade.report.terminal.console import make_console
from toolgrade.report.text.breakdown import problem_rows
from toolgrade.report.text.side_by_side import rows

CORRECT = ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"])


def written(report: Report, metrics: Sequence[MetricLike], path: Path) -> Path:
    """A file of results that holds a report of cases."""
    path.unlink(missing_ok=True)
    header = Header.new(report.metrics, metrics, session_facts({}), kind="cases", cases=len(report.cases))
    with closing(ResultsFile(path, header, None)) as file:
        for entry in report.cases:
            row = Row.of(entry.case, entry.index, results=entry.results)
            file.write(head_of(CaseKey(entry.index)) + rest_of([row], "0123456789abcdef"))
        file.complete(len(report.cases), 1.5)
    return path


def printed(report: Report) -> str:
    """What a terminal shows of a report."""
    console = make_console()
    with console.capture() as capture:
        print_report(report, title="it", console=console, limit=0, details=100)
    return capture.get()


def plain(report: Report) -> dict[str, Any]:
    """A report as JSON values, without the times."""
    fields = report.to_dict()
    fields.pop("about", None)
    return fields


@settings(few)
@given(st.lists(case_fields.map(lambda fields: LLMTestCase(**fields)), min_size=1, max_size=3))
def test_written_results_are_read_back(tmp_path_factory: pytest.TempPathFactory, cases: list[LLMTestCase]) -> None:
    """Equal as JSON and in the terminal for any cases, also after a second round."""
    metrics = [CORRECT, ToolEfficiencyMetric()]
    report = evaluate(cases, metrics)
    restored = read_results(written(report, metrics, tmp_path_factory.mktemp("results") / "r.jsonl"))
    again = read_results(io.BytesIO(restored.to_json().encode()))

    assert plain(restored) == plain(report)
    assert plain(again) | {"verdict": None} == plain(report) | {"verdict": None}  # whose texts name cases by questions
    assert printed(restored) == printed(report)
    assert printed(again)
    for left, right in zip(restored.cases, report.cases, strict=True):
        assert left.case.to_json() == DEFAULT.model(right.case).to_json()
        assert left.label == right.label


_lone_surrogates = st.text(st.characters(categories=["Cs"]), min_size=1)
_nonfinite = st.sampled_from([math.nan, math.inf, -math.inf])


@given(st.text(), _lone_surrogates, _nonfinite)
def test_numbers_and_letters_that_json_lacks_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, surrogates: str, number: float
) -> None:
    """A case may hold both; a number that is not finite comes back as its text."""
    odd = text + surrogates
    call = ToolCall(name="a", input_parameters={"number": [number], "text": odd}, output={"text": odd})
    case = LLMTestCase(tools_called=[call], expected_tools=[call], metadata={"number": number})
    metrics: list[MetricLike] = [CORRECT, ToolEfficiencyMetric()]
    report = evaluate([case], metrics, show_progress=False)
    restored = read_results(written(report, metrics, tmp_path_factory.mktemp("results") / "r.jsonl"))

    assert restored.cases[0].case.to_json() == DEFAULT.model(case).to_json()
    assert restored.cases[0].case.metadata == {
        "number": {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN")
    }
    assert plain(restored) == plain(report)


_writable = st.one_of(
    case_fields.map(lambda fields: LLMTestCase(**fields)),
    run_fields.map(lambda fields: Run(**fields).to_test_case(id="a")),
    conversation_fields.map(lambda fields: ConversationalTestCase(**fields)),
    image_case_fields.map(lambda fields: MLLMTestCase(**fields)),
    golden_fields.map(lambda fields: Golden(**fields)),
)


@given(_writable)
def test_a_case_is_written_as_its_json(case: Any) -> None:
    """The quick way to the text of a case gives the text of `to_json`; calls that a run shares are left out of one."""
    assert encode_case(case).text == case.to_json().encode()


WEATHER = ToolCall(name="weather", input_parameters={"city": "Paris", "days": {"from": 1, "to": 3}}, output=[1])
PLANS: list[Any] = [
    [ToolCall(name="weather", input_parameters={"city": "Rome", "days": {"from": 1, "till": 3}}), ToolCall(name="x")],
    Plan([Expect("weather", {"city": Approx(3), "days": Ignore()}), Expect("y", optional=True)]),
    Plan([Expect(Glob("wea*"), {"city": Predicate(str.islower, "lower case"), "days": {"to": Absent()}})]),
    Plan([Expect("first", label="a"), Expect("weather", {"city": Optional("x")}, after=["a"])], allow_extra=True),
    Plan([Forbid("weather"), Parallel(Expect("weather"), Expect("w"))], allow_extra=False),
]


@pytest.mark.parametrize("expected", PLANS, ids=range(len(PLANS)))
def test_alignments_and_findings_come_back(tmp_path: Path, expected: Any) -> None:
    """With exact sums, the differences of pairs, matchers, and the rows that are drawn from them."""
    called = [WEATHER, ToolCall(name="first"), ToolCall(name="w")]
    case = LLMTestCase(id="c", tools_called=called, expected_tools=expected)
    metrics: list[MetricLike] = [CORRECT, TaskSuccessMetric(calls_only=True, effects={"weather": "write"})]
    report = evaluate([case], metrics)
    (restored,) = read_results(written(report, metrics, tmp_path / "r.jsonl")).cases

    assert isinstance(restored.case, LLMTestCase)
    for left, right in zip(restored.results, report.cases[0].results, strict=True):
        assert left.to_dict() == right.to_dict()
        assert rows(left, restored.case) == rows(right, case)
        if "Predicate" not in repr(expected):
            assert left == right
    assert CORRECT.label in report.metrics


def test_a_predicate_comes_back_by_name(tmp_path: Path) -> None:
    """It has a description but cannot be called."""
    plan = Plan([Expect("weather", {"city": Predicate(str.islower, "lower case")})])
    report = evaluate([LLMTestCase(tools_called=[WEATHER], expected_tools=plan)], [CORRECT])
    (restored,) = read_results(written(report, [CORRECT], tmp_path / "r.jsonl")).cases

    assert restored.results[0].findings[0].expected_value.describe() == "a value that lower case accepts"
    with pytest.raises(ToolgradeError, match="stores the name and not the function"):
        CORRECT.measure(restored.case)  # type: ignore[arg-type]


def test_every_kind_of_case_comes_back(tmp_path: Path) -> None:
    """With its content; an item that is not a case has no content."""
    tools: dict[str, Any] = {"tools_called": [WEATHER], "expected_tools": [WEATHER]}
    image = MLLMTestCase(id="m", input=["what is it?", MLLMImage(url="https://example.org/a.png")], **tools)
    talk = ConversationalTestCase(turns=[Turn(role="user", content="hi")], name="talk")
    strange: list[Any] = [image, talk, LLMTestCase(**tools), 42, None]
    metrics = [ToolCorrectnessMetric()]
    report = evaluate(strange, metrics)
    restored = read_results(written(report, metrics, tmp_path / "r.jsonl"))

    assert [entry.case for entry in restored.cases] == [*strange[:3], LLMTestCase(), LLMTestCase()]
    assert plain(restored) == plain(report)
    assert [entry.label for entry in restored.cases] == ["m", "talk", "#3", "#4", "#5"]


def test_judged_results_come_back(tmp_path: Path) -> None:
    """With units and questions, the judge, usage and cost; and the sums of a metric."""
    metrics = [ToolUseMetric(judge=RuleJudge("yes"), available_tools=[{"name": "weather"}])]
    turns = [Turn(role="user", content="hi"), Turn(role="assistant", content="sunny", tools_called=[WEATHER])]
    report = evaluate([ConversationalTestCase(turns=turns, id="talk")], metrics)
    restored = read_results(written(report, metrics, tmp_path / "r.jsonl"))

    assert restored.cases[0].results == report.cases[0].results
    assert restored.cases[0].results[0].units[0].questions
    assert restored.summaries == report.summaries
    assert restored.summaries[0].coverage == 1


# invalid files


def lines(tmp_path: Path) -> list[str]:
    """The lines of a file of three cases."""
    cases = [LLMTestCase(id=key, tools_called=[], expected_tools=[]) for key in "abc"]
    path = written(evaluate(cases, [CORRECT]), [CORRECT], tmp_path / "three.jsonl")
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def read(*parts: str) -> Report:
    """The report of a file that holds these texts."""
    return read_results(io.BytesIO("".join(parts).encode()))


def test_a_file_that_has_lost_most_lines_is_refused(tmp_path: Path) -> None:
    """Also if its header names a number of cases that no memory holds."""
    path = tmp_path / "results.jsonl"
    evaluate([LLMTestCase(tools_called=[], expected_tools=[])] * 3, [ToolCorrectnessMetric()], results=path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"cases": 3', f'"cases": {10**30}'), encoding="utf-8")

    with pytest.raises(DataFileError, match="000 cases, and has 3; restore it"):
        read_results(path)


def test_partial_file_is_a_report(tmp_path: Path) -> None:
    """With any number of lines; it is complete if its end is the last one."""
    entries = lines(tmp_path)

    assert [read(*entries[:end]).interrupted for end in range(1, 6)] == [True, True, True, True, False]
    assert [len(read(*entries[:end]).cases) for end in range(1, 6)] == [0, 1, 2, 3, 3]
    assert [case.label for case in read(entries[0], entries[3], entries[1]).cases] == ["a", "c"]
    assert read(*entries).about["seconds"] == 1.5
    assert read(*entries, changed(entries[0], resumed=True)).interrupted
    assert read(*entries, entries[2]).interrupted


def test_the_last_line_of_a_case_counts(tmp_path: Path) -> None:
    """And the last session: of an earlier one, only the cases count that it keeps."""
    head, one, two, three, end = lines(tmp_path)
    again = changed(head, resumed=True)
    reused = json.dumps({"reused": [[0, 0], [1, 10**9]]}) + "\n"

    assert [case.label for case in read(head, one, three, changed(one, id="b", content={}), end).cases][:1] == ["b"]
    assert [case.label for case in read(head, one, two, three, again, reused, end).cases] == ["a", "b", "c"]
    report = read(head, one, two, three, end, again, two)
    assert [case.label for case in report.cases] == ["b"]
    assert (report.interrupted, report.passed) == (True, False)
    with pytest.raises(DataFileError, match=r":6: a second file of results begins here"):
        read(head, one, two, three, end, head, two, end)


@pytest.mark.parametrize("cut", [2, 5, 100])
def test_a_torn_line_is_left_out(tmp_path: Path, cut: int) -> None:
    """With a warning, wherever it is cut."""
    entries = lines(tmp_path)
    with pytest.warns(BadLineWarning, match="4: left out a torn line"):
        report = read(*entries[:3], entries[3][:-cut])

    assert [case.label for case in report.cases] == ["a", "b"]
    assert report.interrupted


def changed(line: str, **fields: Any) -> str:
    """Return a line with changed fields."""
    return json.dumps({**json.loads(line), **fields}) + "\n"


def test_bad_lines_are_named_and_their_cases_are_not_measured(tmp_path: Path) -> None:
    """With line and path; a later line of the case makes up for it."""
    head, one, two, three, end = lines(tmp_path)
    bad = json.loads(two)["results"][0]
    wrong = [
        ("nonsense\n", r"file>:3: \$: not JSON"),
        ("7\n", r"file>:3: \$: expected an object, got 7"),
        ("{}\n", r"file>:3: \$: is not the line of a case"),
        (changed(two, results=[]), r"file>:3: .*results: expected one result of each metric \(tool_correctness"),
        (changed(two, results=[{**bad, "score": None}]), r"file>:3: \$.results\[0\].score: is required"),
        (changed(two, content={"tools": 1}), "file>:3: .*unknown field 'tools'"),
    ]
    for text, message in wrong:
        with pytest.warns(BadLineWarning, match=f"(?s){message}.*; its case is not measured"):
            report = read(head, one, text, three, end)
        assert [case.label for case in report.cases] == ["a", "#2", "c"]
        assert report.cases[1].results[0].status is ResultStatus.ERRORED
        assert "cannot be read" in str(report.cases[1].results[0].error)
        assert [case.label for case in read(head, one, text, three, two, end).cases] == ["a", "b", "c"]


def test_lost_lines_of_files_are_counted(tmp_path: Path) -> None:
    """Places of interrupted runs that were resumed are not cases, so only the number is known."""
    head, one, _, three, end = lines(tmp_path)
    plain = {name: value for name, value in json.loads(head).items() if name != "cases"}
    head = json.dumps({**plain, "kind": "files"}) + "\n"
    end = changed(end, cases=3)

    report = read(head, one, three, end)

    assert [case.label for case in report.cases] == ["a", "c", "#3"]
    assert report.summaries[0].errored == 1


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    """With what they are."""
    head, one, two, *_ = lines(tmp_path)

    with pytest.raises(DataFileError, match=r"file>:1: .*format 1 cannot be read, only 2"):
        read(changed(head, toolgrade_results=1), one)
    with pytest.raises(DataFileError, match="JSON Lines that begin with an object with 'case'"):
        read(one, two)
    with pytest.raises(DataFileError, match="a test case, which must be scored first"):
        read('{"tools_called": []}\n{"tools_called": []}\n')


@pytest.mark.parametrize("expected", PLANS, ids=range(len(PLANS)))
def test_the_json_of_a_report_has_the_names_of_tools(expected: Any) -> None:
    """So its calls side by side are those of the report."""
    called = [WEATHER, ToolCall(name="first"), ToolCall(name="w")]
    report = evaluate([LLMTestCase(id="c", tools_called=called, expected_tools=expected)], [CORRECT])
    restored = read_results(io.BytesIO(report.to_json().encode()))

    assert [row[:5] for row in rows(restored.cases[0].results[0], restored.cases[0].case)] == [
        row[:5] for row in rows(report.cases[0].results[0], report.cases[0].case)
    ]
    assert problem_rows(restored) == problem_rows(report)


def test_unwritable_content_is_reported_without_losing_results(tmp_path: Path) -> None:
    """A too deep case keeps its results without content; a non-JSON value is its repr."""
    call = ToolCall(name="deep")
    for _ in range(150):
        call = ToolCall(name="outer", execution=Execution(executed=True, children=[call]))
    deep, flat = LLMTestCase(id="deep", tools_called=[call], expected_tools=[]), LLMTestCase(id="flat")
    findings = [Finding("unexpected", "odd", "tool", called_value=complex(1, 2))]

    class Own(ToolEfficiencyMetric):
        def measure(self, _case: Any, /) -> MetricResult:
            status = ResultStatus.SCORED
            return MetricResult(
                metric="own", status=status, threshold=0.5, score=1.0, passed=True, findings=tuple(findings)
            )

    path = tmp_path / "r.jsonl"
    evaluate([deep, flat], [Own()], results=path)
    one, two = read_results(path).cases
    written_lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    assert (one.case, two.case) == (LLMTestCase(id="deep"), flat)
    assert "cannot be written" in written_lines[1]["not_written"]
    assert one.results[0].findings[0].called_value == "(1+2j)"
    assert evaluate([deep, flat], [Own()], results=path, resume=True).passed
