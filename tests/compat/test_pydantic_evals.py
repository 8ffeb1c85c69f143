"""pydantic-evals' evaluators of tool calls do what their documentation says."""

from typing import Any

import pytest

from peer_inputs import INPUTS, Calls, call, case
from shorthand import calls_from
from toolgrade import CallStatus, Execution, ResultStatus, ToolCall
from toolgrade.compat.pydantic_evals import ArgumentCorrectness, ToolCorrectness, TrajectoryMatch
from toolgrade.errors import ConfigurationError

TWO_THIRDS = pytest.approx(2 / 3)

#: TrajectoryMatch exact, in order, any order; ToolCorrectness, with extra calls allowed. As pydantic-evals 2.62 has it.
NAMES = {
    "both empty": (1, 1, 1, 1, 1),
    "nothing expected": (0, 0, 0, 0, 1),
    "nothing called": (0, 0, 0, 0, 0),
    "an extra call": (0, TWO_THIRDS, TWO_THIRDS, 0, 1),
    "reversed": (0, 0.5, 1, 1, 1),
    "twice and twice": (1, 1, 1, 1, 1),
    "once, called twice": (0, TWO_THIRDS, TWO_THIRDS, 0, 1),
    "twice, called once": (0, TWO_THIRDS, TWO_THIRDS, 0, 0),
}

#: ArgumentCorrectness of `a`, subset and exact. In the comments: what pydantic-evals 2.62 gives where that differs.
ARGUMENTS = {
    "1 and 1.0": (1, 1),
    "1 and '1'": (0, 0),
    "true and 1": (0, 0),  # 1 in both
    "case of letters": (0, 0),
    "none and {}": (1, 1),
    "an extra argument": (1, 0),
    "one leaf of two": (0, 0),
    "order of keys": (1, 1),
    "order of a list": (0, 0),
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_table_of_names(name: str) -> None:
    """Names alone are compared, so that the inputs that differ in arguments all score 1."""
    metrics = [
        *(TrajectoryMatch(order=order) for order in ("exact", "in_order", "any_order")),  # type: ignore[arg-type]
        *(ToolCorrectness(allow_extra=extra) for extra in (False, True)),
    ]

    assert tuple(metric.measure(case(*INPUTS[name])).score for metric in metrics) == NAMES.get(name, (1,) * 5)


def test_both_tables_cover_the_inputs() -> None:
    """No input is forgotten."""
    assert {*NAMES} | {*ARGUMENTS} == {*INPUTS}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_table_of_arguments(name: str) -> None:
    """Subset and exact give what the documentation says."""
    measured = case(*INPUTS[name])

    actual = tuple(ArgumentCorrectness("a", mode).measure(measured).score for mode in ("subset", "exact"))  # type: ignore[arg-type]

    assert actual == ARGUMENTS[name]


# Which calls count

#: Status, and whether such a call counts by default, and with include_failed.
STATUSES = {
    CallStatus.OK: (True, True),
    CallStatus.ERROR: (False, True),
    CallStatus.INVALID_ARGUMENTS: (False, True),
    CallStatus.UNKNOWN_TOOL: (False, True),
    CallStatus.CANCELLED: (False, True),
    CallStatus.REJECTED: (False, False),
    CallStatus.PENDING: (False, False),
    CallStatus.NOT_EXECUTED: (False, False),
}


@pytest.mark.parametrize("status", CallStatus)
def test_failed_calls_count_only_on_request(status: CallStatus) -> None:
    """Successful calls count; with `include_failed` failed ones, too; calls that never ran do not."""
    measured = case([call("a")], [ToolCall(name="a", execution=Execution(status=status, executed=True))])

    for failed, counts in zip((False, True), STATUSES[status], strict=True):
        for metric in (ToolCorrectness, TrajectoryMatch):
            result = metric(include_failed=failed).measure(measured)
            assert result.score == counts
            assert any("left out" in text for text in result.warnings) != counts


def test_omitted_calls_are_reported() -> None:
    """With their number and reason, and those whose failure is undetectable."""
    measured = case([call("a")], calls_from("a:error a b:pending a:ok"))

    assert TrajectoryMatch(order="any_order").measure(measured).warnings == (
        "1 call left out: never executed",
        "1 call left out: failed; include_failed=True counts them",
    )
    visited = case([call("a")], [ToolCall(name="a", execution=Execution())])
    assert "recorded by the answer alone" in TrajectoryMatch().measure(visited).warnings[0]
    assert not TrajectoryMatch(include_failed=True).measure(visited).warnings


def test_positions_are_those_of_the_case() -> None:
    """Findings and the alignment count every call of the case, also those that are left out of the score."""
    measured = case([call("b")], calls_from("a:error c:error b:ok c:ok"))

    result = TrajectoryMatch().measure(measured)

    assert result.score == TWO_THIRDS
    assert result.alignment is not None
    assert [(pair.expected, pair.called) for pair in result.alignment.pairs] == [(0, 2)]
    assert [(finding.kind, finding.called) for finding in result.findings] == [("unexpected", 3)]
    assert "Unexpected: called #4 'c'." in str(result.reason)


# ArgumentCorrectness

SOME = [call("a", x=0), call("b"), call("a", x=1), call("a", x=2)]

OCCURRENCES: dict[str, tuple[Any, Calls, Calls, float]] = {
    "first": ("first", [call("a", x=0)], SOME, 1),
    "last": ("last", [call("a", x=2)], SOME, 1),
    "last of both": ("last", [call("a", x=9), call("a", x=2)], SOME, 1),
    "at 1": (1, [call("a"), call("a", x=1)], SOME, 1),
    "at 1, another value": (1, [call("a"), call("a", x=2)], SOME, 0),
    "never called": ("first", SOME, [call("b")], 0),
    "not called so often": (2, SOME, SOME[:3], 0),
}


@pytest.mark.parametrize("name", OCCURRENCES)
def test_occurrences(name: str) -> None:
    """The first is compared with the first, the last with the last, the one at a position with the one at it."""
    occurrence, expected, called, expected_values = OCCURRENCES[name]

    result = ArgumentCorrectness("a", occurrence=occurrence).measure(case(expected, called))

    assert result.score == expected_values
    assert bool(result.findings) == (expected_values == 0)


def test_failed_calls_are_not_occurrences() -> None:
    """The first call is the first successful one by default; positions are those of the case."""
    measured = case([call("a", n="2")], calls_from("a(1):error a(2):ok"))

    assert ArgumentCorrectness("a").measure(measured).score == 1
    result = ArgumentCorrectness("a", include_failed=True).measure(measured)
    assert (result.score, [finding.called for finding in result.findings]) == (0, [0])


@pytest.mark.parametrize(
    ("expected", "called", "why"),
    [
        ([], [call("a")], "Skipped: the case expects no first call of 'a'."),
        ([ToolCall(name="a")], [call("a")], "Skipped: expected #1 'a' does not specify arguments."),
        ([call("a", x=1)], calls_from("a(?)"), "Skipped: the arguments of called #1 'a' were not recorded."),
    ],
)
def test_inapplicable_cases_are_skipped(expected: Calls, called: Calls, why: str) -> None:
    """Without expectations or known calls there is no score."""
    result = ArgumentCorrectness("a").measure(case(expected, called))

    assert (result.status, result.score) == (ResultStatus.SKIPPED, None)
    assert str(result.reason).splitlines()[0] == why


def test_the_reason_names_the_argument() -> None:
    """A wrong value is named by its path, with both values."""
    result = ArgumentCorrectness("a", "exact", "last").measure(case([call("a", x=1)], [call("b"), call("a", x=2, y=3)]))

    assert str(result.reason).splitlines() == [
        "match: last call of 'a', 0 of 1 expected and of 1 called agree = 0 (failed at 0.5).",
        "'a' (expected #1, called #2): $.input_parameters.x expected 1, called with 2.",
        "'a' (expected #1, called #2): $.input_parameters.y was not expected, called with 3.",
    ]
    never = ArgumentCorrectness("a", occurrence=1).measure(case([call("a"), call("a", x=1)], [call("a")]))
    assert str(never.reason).splitlines() == [
        "match: no call at 1 of 'a' = 0 (failed at 0.5).",
        "Missing: expected #2 'a' was not called (no call at 1; called 1 time).",
    ]


# As metrics


def test_labels_name_the_options() -> None:
    """The options that differ from the defaults; the argument metric always names its tool."""
    assert ToolCorrectness().label == "pydantic_evals.tool_correctness"
    assert ToolCorrectness(allow_extra=True).label == "pydantic_evals.tool_correctness(allow_extra)"
    metric = TrajectoryMatch("any_order", include_failed=True, strict_mode=True)
    assert metric.label == "pydantic_evals.trajectory_match(any_order, include_failed, strict)"
    assert ArgumentCorrectness("a").label == "pydantic_evals.argument_correctness(a)"
    assert ArgumentCorrectness("a", "exact", 2).label == "pydantic_evals.argument_correctness(a, exact, 2)"


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        (TrajectoryMatch, {"order": "exactly"}, "order must be one of exact, in_order, any_order, got 'exactly'"),
        (ArgumentCorrectness, {"tool_name": ""}, "tool_name must be the name of a tool, got ''"),
        (ArgumentCorrectness, {"tool_name": None}, "tool_name must be the name of a tool, got None"),
        (ArgumentCorrectness, {"tool_name": "a", "match_mode": "superset"}, "match_mode must be one of exact, subset"),
        (
            ArgumentCorrectness,
            {"tool_name": "a", "occurrence": -1},
            "position from 0, must be one of first, last, got -1",
        ),
        (ArgumentCorrectness, {"tool_name": "a", "occurrence": True}, "must be one of first, last, got True"),
    ],
)
def test_invalid_options_are_refused_at_once(metric: Any, options: dict[str, Any], message: str) -> None:
    """The error names the option and the accepted values."""
    with pytest.raises(ConfigurationError, match=message):
        metric(**options)
