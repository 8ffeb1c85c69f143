"""The laws of the metrics that look at calls alone, with slow, obvious answers to compare theirs with.

Bounds, determinism, strictness and explanation hold for every one of them; so does that one more good call (valid,
useful, successful, allowed) never lowers the score. Which ones do not ask in what order the calls were made is
declared, and one that is declared to ask really does.
"""

from __future__ import annotations

import inspect
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolgrade.metrics
from oracles import equal as same
from strategies import NAN, few
from toolgrade import CallStatus, LLMTestCase, MetricResult, ResultStatus, Run, ToolCall
from toolgrade.evaluation.measuring import measure_in_thread
from toolgrade.metrics.base import CallMetric

Calls = list[ToolCall]

TOOLS = [
    {"name": "look", "parameters": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    {"name": "book", "parameters": {"additionalProperties": False}},
    {"name": "note"},
]

_execution = st.fixed_dictionaries(
    {"status": st.sampled_from([CallStatus.OK, CallStatus.ERROR, *CallStatus])},
    optional={
        "error": st.sampled_from(("full", "late")),
        "step": st.integers(0, 2),
        "executed": st.booleans(),
        "not_captured": st.just(["input_parameters"]),
    },
)
_fields = st.fixed_dictionaries(
    {"name": st.sampled_from(("look", "look", "book", "note", "what"))},
    optional={
        "input_parameters": st.dictionaries(st.sampled_from("ab"), st.sampled_from((0, 1, True, "1", NAN)), max_size=1),
        "execution": _execution,
    },
)
calls_drawn = st.lists(_fields.map(lambda fields: ToolCall(**fields)), max_size=8)


class Row(NamedTuple):
    """A metric with options, a call that is always good, and whether the order of calls matters."""

    options: dict[str, Any]
    good: Callable[[Calls], ToolCall]
    any_order: bool


def fresh(calls: Calls) -> ToolCall:
    """A call that is valid, new, and succeeds."""
    return ToolCall(
        name="look", input_parameters={"a": 1000 + len(calls)}, execution={"status": "ok", "step": 1000 + len(calls)}
    )


def free(calls: Calls) -> ToolCall:
    """A call about which no rule of the table says anything."""
    return ToolCall(name="free", input_parameters={"a": len(calls)}, execution={"status": "ok"})


def untold(calls: Calls) -> ToolCall:
    """A call whose arguments say nothing that must come from somewhere."""
    return ToolCall(name="free", input_parameters={"a": len(calls) % 2 == 0}, output="done")


TABLE: dict[str, list[Row]] = {
    "ArgumentSchemaMetric": [Row({}, fresh, True), Row({"formats": False, "threshold": 0.5}, fresh, True)],
    "ToolEfficiencyMetric": [
        Row({}, fresh, False),
        Row({"repeatable": ["l*"]}, fresh, False),
    ],
    "ToolPolicyMetric": [
        Row({"denied": ["book"], "argument_rules": {"look": {"a": {"denied": [1]}}}}, fresh, True),
        Row({"allowed": ["l*", "b*"], "threshold": 0.5}, fresh, True),
        Row({"required_before": {"look": ["book"]}, "needs_approval": ["note"]}, free, False),
    ],
    "ToolSuccessRate": [Row({}, fresh, True), Row({"threshold": 0.75}, fresh, True)],
    "ToolRecoveryMetric": [Row({}, fresh, False)],
    "ToolGroundingMetric": [Row({}, untold, False), Row({"sources": {"*.a": ["tool"]}}, untold, False)],
}
ROWS = [
    pytest.param(getattr(toolgrade.metrics, name), row, id=" ".join([name, *row.options]))
    for name, rows in TABLE.items()
    for row in rows
]
of_every_row = pytest.mark.parametrize(("metric", "row"), ROWS)


def measured(metric: type[CallMetric], options: dict[str, Any], calls: Calls) -> MetricResult:
    """The result of one case; the run took as many seconds as it has calls."""
    run = Run(duration=len(calls))
    return measure_in_thread(metric(**options), LLMTestCase(tools_called=calls, available_tools=TOOLS, run=run))


def test_every_metric_of_calls_is_in_the_table() -> None:
    """So that each metric declares its laws."""
    public = [getattr(toolgrade.metrics, name) for name in toolgrade.metrics.__all__]
    assert {thing.__name__ for thing in public if inspect.isclass(thing) and issubclass(thing, CallMetric)} == {
        *TABLE,
    }


@of_every_row
@few
@given(calls=calls_drawn)
def test_laws_of_all(metric: type[CallMetric], row: Row, calls: Calls) -> None:
    """Scores and parts are in [0, 1]; the verdict is that of the threshold; a lower score is explained."""
    result = measured(metric, row.options, calls)
    assert repr(result) == repr(measured(metric, row.options, calls))
    if result.status is ResultStatus.ERRORED:  # arguments that are needed were not recorded
        assert not all(call.captured("input_parameters") for call in calls)
        return
    assert all(finding.message in str(result.reason) for finding in result.findings)
    if result.status is ResultStatus.SKIPPED:
        assert (result.score, result.passed) == (None, None)
        return
    assert result.score is not None
    assert result.score == min(result.parts.values())
    assert all(0 <= part <= 1 for part in result.parts.values())
    assert result.passed == (result.score >= result.threshold - 1e-9)
    assert result.findings or result.score == 1
    strict = measured(metric, {**row.options, "strict_mode": True}, calls)
    assert (strict.score, strict.passed, strict.threshold) == (float(result.score == 1), result.score == 1, 1)


@of_every_row
@few
@given(calls=calls_drawn)
def test_one_more_good_call_never_lowers_the_score(metric: type[CallMetric], row: Row, calls: Calls) -> None:
    """A valid, useful, successful and allowed call costs nothing after any calls."""
    before = measured(metric, row.options, calls).score
    after = measured(metric, row.options, [*calls, row.good(calls)])
    # With one more good call, what is not known may decide.
    assert before is None or after.status is ResultStatus.ERRORED or (after.score is not None and after.score >= before)


@of_every_row
@few
@given(calls=calls_drawn, seed=st.integers(0, 99))
def test_declared_independence_of_order_holds(metric: type[CallMetric], row: Row, calls: Calls, seed: int) -> None:
    """The score is the same to the last bit in any order of calls."""
    if row.any_order:
        shuffled = random.Random(seed).sample(calls, len(calls))
        assert measured(metric, row.options, calls).score == measured(metric, row.options, shuffled).score


@of_every_row
def test_undeclared_independence_of_order_does_not_hold(metric: type[CallMetric], row: Row) -> None:
    """Some small case has another score in reverse order."""
    ok, bad = {"status": "ok"}, {"status": "error"}
    cases = [
        [ToolCall(name="book", execution=bad), ToolCall(name="book", execution=ok)],
        [ToolCall(name="look", execution=ok), ToolCall(name="book", execution=ok)],
        [ToolCall(name="look", output="b77"), ToolCall(name="book", output=1, input_parameters={"a": "b77"})],
    ]
    differ = [
        measured(metric, row.options, case).score != measured(metric, row.options, case[::-1]).score for case in cases
    ]
    assert any(differ) is not row.any_order


# The same answers, slowly


def fits(call: ToolCall) -> bool | None:
    """Whether a call fits `TOOLS`, by a reading of the schemas in code; None if unknown."""
    assert call.execution is None or isinstance(call.execution.status, CallStatus)
    if call.execution is not None and call.execution.status is CallStatus.INVALID_ARGUMENTS:
        return False
    if call.name == "what":
        return False
    if call.name == "note" or not call.captured("input_parameters"):
        return None
    if call.name == "book":
        return not call.arguments
    return type(call.arguments.get("a")) is int


@given(calls=calls_drawn)
def test_argument_schema_against_the_rules_written_by_hand(calls: Calls) -> None:
    """The score is the share of fitting calls among those that can be checked; hidden arguments cannot pass."""
    fitting = [fit for fit in map(fits, calls) if fit is not None]
    hidden = any(fits(call) is None and not call.captured("input_parameters") for call in calls)
    expected = sum(fitting) / len(fitting) if fitting and (not hidden or False in fitting) else None

    assert measured(toolgrade.ArgumentSchemaMetric, {}, calls).score == expected


def status(call: ToolCall) -> str:
    """Return the status of a call, or None if unknown."""
    return "" if call.execution is None else call.execution.status.value


def apart(one: ToolCall, other: ToolCall) -> bool:
    """Whether two calls are not known to be asked for at the same time."""
    steps = [call.execution.step if call.execution else None for call in (one, other)]
    return steps[0] is None or steps[0] != steps[1]


def failed(call: ToolCall) -> bool:
    """Whether a call failed."""
    return status(call) in {"error", "invalid_arguments", "unknown_tool"}


def is_known(call: ToolCall) -> bool:
    """Whether the arguments of a call are known."""
    return status(call) != "invalid_arguments" and call.captured("input_parameters")


def is_redundant(calls: Calls, index: int) -> bool:
    """Whether an identical earlier call succeeded, or two failed alike."""
    call = calls[index]
    earlier = [
        other
        for other in calls[:index]
        if is_known(other) and other.name == call.name and same(other.arguments, call.arguments)
    ]
    if any(status(other) in {"", "ok"} for other in earlier):
        return True
    failures = Counter((status(other), other.execution.error) for other in earlier if failed(other) and other.execution)
    return any(amount >= 2 for amount in failures.values())


@given(calls=calls_drawn)
def test_efficiency_against_the_definition(calls: Calls) -> None:
    """The score is the share of calls that are not redundant, among those whose arguments are known."""
    places = [index for index, call in enumerate(calls) if is_known(call)]
    expected = [index for index in places if is_redundant(calls, index)]
    result = measured(toolgrade.ToolEfficiencyMetric, {}, calls)

    assert [finding.called for finding in result.findings if finding.kind == "redundant"] == expected
    assert result.score == ((len(places) - len(expected)) / len(places) if places else None)


@given(letters=st.text("abc", max_size=14))
def test_loops_against_all_blocks(letters: str) -> None:
    """There is a loop exactly if some block of two or more, not itself a repetition, stands three times in a row."""
    blocks = {
        (start, size)
        for size in range(2, len(letters) + 1)
        for start in range(len(letters) - 3 * size + 1)
        if letters[start : start + size] * 3 == letters[start : start + 3 * size]
        and not any(
            size % part == 0 and letters[start : start + part] * (size // part) == letters[start : start + size]
            for part in range(1, size)
        )
    }
    result = measured(toolgrade.ToolEfficiencyMetric, {}, [ToolCall(name=letter) for letter in letters])
    loops = [finding for finding in result.findings if finding.kind == "loop"]
    repeats = {
        (finding.called, int(match[1]))
        for finding in loops
        if (match := re.search(r"the same (\d+) calls", finding.message))
    }

    # Each sequence of blocks is reported once, at its first place.
    assert repeats == {(start, size) for start, size in blocks if (start - 1, size) not in blocks}


def breaks(calls: Calls, index: int, approved: set[int]) -> list[str]:
    """What a call breaks of the policy below."""
    call = calls[index]
    ran = status(call) in {"", "ok", "error"} or (call.execution and call.execution.executed)
    before = [
        other for other in calls[:index] if other.name == "note" and status(other) in {"", "ok"} and apart(other, call)
    ]
    kinds = ["forbidden"] if call.name == "what" else []
    if call.name == "book" and ran and status(call) not in {"pending", "rejected"} and index not in approved:
        kinds.append("not_approved")
    if call.name in {"look", "book"} and not before:
        kinds.append("too_early")
    if call.name == "look" and call.captured("input_parameters") and same(call.arguments.get("a"), 1):
        kinds.append("forbidden_argument")
    return kinds


@given(calls=calls_drawn, approved=st.sets(st.integers(0, 7)))
def test_policy_against_its_rules_written_by_hand(calls: Calls, approved: set[int]) -> None:
    """The findings are those of each rule by itself, and the score counts the calls that have any."""
    numbered = in_time(calls)
    metric = toolgrade.ToolPolicyMetric(
        denied=["wh?t"],
        needs_approval=["book"],
        required_before={"look": ["note"], "b*": ["n*"]},
        argument_rules={"look": {"a": {"denied": [1]}}},
    )
    case = LLMTestCase(tools_called=numbered, metadata={"approved_calls": sorted(approved)})
    result = measure_in_thread(metric, case)
    kinds_of_all = [breaks(numbered, index, approved) for index in range(len(numbered))]
    unknown = [call.name == "look" and not call.captured("input_parameters") for call in numbered]
    decided = [bool(kinds) for kinds, hidden in zip(kinds_of_all, unknown, strict=True) if kinds or not hidden]

    assert [(finding.called, finding.kind) for finding in result.findings] == [
        (index, kind) for index, kinds in enumerate(kinds_of_all) for kind in kinds
    ]
    if any(unknown) and not any(kinds_of_all):
        assert result.status is ResultStatus.ERRORED
    else:
        assert result.score == (decided.count(False) / len(decided) if decided else 1)


def in_time(calls: Calls) -> Calls:
    """The calls as a recording has them: steps do not fall, for a later message comes later."""
    return sorted(calls, key=lambda call: (call.execution.step or 0) if call.execution else 0)


def recovered(calls: Calls) -> list[bool | None]:
    """For each episode, whether something answered its last failure; None where a call that tries again waits."""
    outcomes: list[bool | None] = []
    for last, call in enumerate(calls):
        same = [index for index in range(last + 1, len(calls)) if calls[index].name == call.name]
        answers = [index for index in same if status(calls[index]) == "ok" and apart(calls[index], call)]
        further = [index for index in same if failed(calls[index])]
        # A failure ends its episode if an answer follows before the next failure, or if there is no next.
        if not failed(call) or (further and not any(index < further[0] for index in answers)):
            continue
        any_tool = [index for index in range(last + 1, len(calls)) if status(calls[index]) == "ok"]
        if status(call) == "unknown_tool":
            answers += [index for index in any_tool if apart(calls[index], call)]
        waits = any(status(calls[index]) == "pending" and apart(calls[index], call) for index in same)
        outcomes.append(True if answers else None if waits else False)
    return outcomes


@given(calls=calls_drawn)
def test_recovery_against_the_definition(calls: Calls) -> None:
    """The score is recovered episodes over decided ones, counted failure by failure."""
    numbered = in_time(calls)
    decided = [one for one in recovered(numbered) if one is not None]
    expected = sum(decided) / len(decided) if decided else None

    assert measured(toolgrade.ToolRecoveryMetric, {}, numbered).score == expected
