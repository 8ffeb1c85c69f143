"""Tables of findings by tool and argument, the matrix of expected and called tools, and kinds of warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from pages import small_report
from toolgrade import (
    LLMTestCase,
    MetricResult,
    Report,
    ResultStatus,
    ToolCall,
    ToolCorrectnessMetric,
    compare,
    evaluate,
)
from toolgrade.report import CaseResult
from toolgrade.report.text.breakdown import (
    _GROUP_OF,
    Matrix,
    breakdowns,
    changes_by_tool,
    problem_rows,
    tool_matrix,
    warning_kinds,
)
from toolgrade.result import FindingKind

METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"], should_consider_ordering=True)


def case(expected: str, called: str, **more: Any) -> LLMTestCase:
    """A case whose calls are named by single letters."""
    return LLMTestCase(
        expected_tools=[ToolCall(name=name) for name in expected],
        tools_called=[ToolCall(name=name) for name in called],
        **more,
    )


# Tools and arguments


def test_breakdown_merges_findings_of_metrics() -> None:
    """Tools and arguments with their cases, worst first, and the first difference."""
    one = LLMTestCase(
        tools_called=[ToolCall(name="a", input_parameters={"n": 1, "items": [{"x": 1}]}), ToolCall(name="b")],
        expected_tools=[ToolCall(name="a", input_parameters={"n": 2, "items": [{"x": 1}]}), ToolCall(name="c")],
    )
    once = evaluate([one], [ToolCorrectnessMetric(evaluation_params=["input_parameters"])])
    twice = evaluate(
        [one],
        [ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=value) for value in (0.4, 0.6)],
    )

    tools, arguments, turns = breakdowns(twice)
    assert (tools, arguments, turns) == breakdowns(once)
    assert tools.columns == ("missing", "unexpected", "wrong arguments")
    assert [(line.tool, line.calls, line.cases, line.amounts) for line in tools.lines] == [
        ("a", 1, (0,), (0, 0, 1)),
        ("b", 1, (0,), (0, 1, 0)),
        ("c", 0, (0,), (1, 0, 0)),
    ]
    assert problem_rows(twice)[0] == ("a", 1, "1 with wrong arguments")
    (line,) = arguments.lines
    assert (line.tool, line.argument, line.expected, line.called) == ("a", "n", "2", "1")


def test_every_kind_of_finding_has_its_column() -> None:
    """So that a new kind is assigned deliberately."""
    assert set(get_args(FindingKind)) == set(_GROUP_OF)


def test_tools_without_findings_are_listed_too() -> None:
    """So that a reader sees which tools are called well."""
    tools, *_ = breakdowns(small_report())

    assert "search" in [line.tool for line in tools.lines]


def test_calls_are_not_counted_without_the_content_of_a_case() -> None:
    """Results that were read without the calls say nothing about their number."""
    report = evaluate([case("a", "b", id="x")], [METRIC])
    bare = replace(report, cases=tuple(replace(one, case=LLMTestCase(id="x")) for one in report.cases))

    tools, *_ = breakdowns(bare)
    assert [(line.tool, line.calls, line.cases) for line in tools.lines] == [("a", None, (0,)), ("b", None, (0,))]
    assert tool_matrix(bare) is None


# The matrix


def rows(matrix: Matrix | None) -> dict[str, dict[str, int]]:
    """The cells that are not empty, by the expected and the called tool."""
    assert matrix is not None
    return {
        expected: {called: len(cases) for called, cases in zip(matrix.called, cells, strict=True) if cases}
        for expected, cells in matrix.rows
    }


def test_an_unexpected_call_stands_for_a_missing_one_in_the_same_gap() -> None:
    """Between the same two matched calls, in order; the others have no partner."""
    report = evaluate([case("abc", "axc"), case("ab", "bx"), case("abd", "yab"), case("q", "q")], [METRIC])

    assert rows(tool_matrix(report)) == {
        "a": {"a": 2, "": 1},
        "b": {"x": 1, "b": 2},
        "d": {"": 1},
        "": {"x": 1, "y": 1},
    }


def test_there_is_no_matrix_of_right_calls() -> None:
    """A matrix without a mistake shows nothing."""
    assert tool_matrix(evaluate([case("ab", "ab")], [METRIC])) is None


def test_positions_without_a_call_have_no_cell() -> None:
    """As in a results file that somebody edited: what stands there is not read beyond the end of the lists."""
    report = evaluate([case("abc", "axy")], [METRIC])
    (entry,) = report.cases
    shorter = case("ab", "ax")
    matrix = tool_matrix(replace(report, cases=(replace(entry, case=shorter),)))

    assert rows(matrix) == {"b": {"x": 1}}


def test_a_large_matrix_has_the_tools_with_most_mistakes() -> None:
    """Twenty on either side; the number of the others is stated."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    matrix = tool_matrix(evaluate([case(letters, ""), case("zyx", "")], [METRIC]))

    assert matrix is not None
    assert matrix.called[:4] == ("x", "y", "z", "a")
    assert (len(matrix.called), matrix.hidden) == (21, 6)


@given(st.lists(st.tuples(st.text("abc", max_size=5), st.text("abc", max_size=5)), min_size=1, max_size=4))
def test_every_call_is_in_one_cell(pairs: list[tuple[str, str]]) -> None:
    """Rows add up to the expected calls of a tool, columns to its calls, unless all are right."""
    matrix = tool_matrix(evaluate([case(*pair) for pair in pairs], [METRIC]))
    if matrix is None:
        return
    cells = rows(matrix)
    for tool in {*matrix.called} - {""}:
        expected = sum(pair[0].count(tool) for pair in pairs)
        called = sum(pair[1].count(tool) for pair in pairs)
        assert sum(cells.get(tool, {}).values()) == expected
        assert sum(row.get(tool, 0) for row in cells.values()) == called


# Changes


def test_regressions_are_counted_by_tool_and_kind() -> None:
    """A case that two metrics list counts once for a tool and a kind."""
    metrics = [METRIC, ToolCorrectnessMetric()]
    good = [case("ab", "ab", id=name) for name in "xyz"]
    bad = [case("ab", "", id="x"), case("ab", "", id="y"), case("ab", "ab", id="z")]
    comparison = compare(evaluate(good, metrics), evaluate(bad, metrics))
    changes = [change for metric in comparison.metrics for change in metric.regressions]

    assert len(changes) == 4
    assert changes_by_tool(changes) == [("a", "missing", tuple(changes[:2]))]
    assert changes[0].to_dict()["tool"] == "a"


# Warnings


def warned(*warnings: str) -> Report:
    """A report of one case for each warning."""
    cases = [
        CaseResult(
            index,
            LLMTestCase(),
            (MetricResult(metric="m", status=ResultStatus.SKIPPED, threshold=0.5, warnings=(text,)),),
        )
        for index, text in enumerate(warnings)
    ]
    return Report(("m",), tuple(cases))


def test_warnings_that_differ_in_names_and_numbers_are_one_kind() -> None:
    """The kind with most cases comes first."""
    kinds = warning_kinds(
        warned(
            "a stream ended",
            "$.messages[1].tool_calls[0]: id 'x1' has 2 calls",
            "$.messages[12]: id 'it\\'s' has 13 calls",
            "$.messages[12]: id 'it\\'s' has 13 calls",
        )
    )

    assert [(kind.text, kind.texts, [one.index for one in kind.cases]) for kind in kinds] == [
        ("$.messages[1].tool_calls[0]: id 'x1' has 2 calls", 2, [1, 2, 3]),
        ("a stream ended", 1, [0]),
    ]
