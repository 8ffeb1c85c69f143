"""ADK's tool trajectory criterion does what its documentation says."""

from typing import Any

import pytest

from peer_inputs import INPUTS, A, B, call, case
from toolgrade import CallStatus, Execution, ToolCall
from toolgrade.compat.adk import TrajectoryMatch
from toolgrade.errors import ConfigurationError

MODES = ("EXACT", "IN_ORDER", "ANY_ORDER")

#: EXACT, IN_ORDER, ANY_ORDER. In the comments: what google-adk 2.13 gives where that differs.
TABLE = {
    "both empty": (1, 1, 1),
    "nothing expected": (0, 1, 1),
    "nothing called": (0, 0, 0),
    "an extra call": (0, 1, 1),
    "reversed": (0, 0, 1),
    "twice and twice": (1, 1, 1),
    "once, called twice": (0, 1, 1),
    "twice, called once": (0, 0, 0),
    "1 and 1.0": (1, 1, 1),
    "1 and '1'": (0, 0, 0),
    "true and 1": (0, 0, 0),  # 1 in all of them
    "case of letters": (0, 0, 0),
    "none and {}": (1, 1, 1),  # 0 in all of them
    "an extra argument": (0, 0, 0),
    "one leaf of two": (0, 0, 0),
    "order of keys": (1, 1, 1),
    "order of a list": (0, 0, 0),
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_table(name: str) -> None:
    """Each match type has the documented score on each input."""
    measured = case(*INPUTS[name])

    assert tuple(TrajectoryMatch(mode).measure(measured).score for mode in MODES) == TABLE[name]  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in INPUTS if len(INPUTS[name][0]) == len(INPUTS[name][1]) == 1])
def test_arguments_can_be_ignored(name: str, mode: Any) -> None:
    """With `ignore_args` the names decide."""
    assert TrajectoryMatch(mode, ignore_args=True).measure(case(*INPUTS[name])).score == 1


#: The examples of ADK's documentation: expected, called, and whether they satisfy IN_ORDER and ANY_ORDER.
DOCUMENTED = {
    "in order": ("T1 T2 T3", "T1 T1.1 T2 T2.1 T2.2 T3 T3.1", 1, 1),
    "one is missing": ("T1 T2 T3 T4", "T1 T1.1 T2 T2.1 T2.2 T3 T3.1", 0, 0),
    "in any order": ("T1 T2 T3", "T2 T2.1 T1 T1.1 T1.2 T3 T3.1", 0, 1),
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_examples_of_the_documentation(name: str) -> None:
    """The examples with which ADK explains its match types hold."""
    expected, called, in_order, any_order = DOCUMENTED[name]
    measured = case([call(tool) for tool in expected.split()], [call(tool) for tool in called.split()])

    assert TrajectoryMatch("IN_ORDER").measure(measured).score == in_order
    assert TrajectoryMatch("ANY_ORDER").measure(measured).score == any_order
    assert TrajectoryMatch("EXACT").measure(measured).score == 0


def test_status_of_a_call_does_not_matter() -> None:
    """A failed or waiting call is a call, as in ADK."""
    for status in set(CallStatus) - {CallStatus.INVALID_ARGUMENTS}:  # broken arguments equal no others
        calls_made = ToolCall(name="a", input_parameters={"x": 1}, execution=Execution(status=status))
        assert TrajectoryMatch().measure(case([A], [calls_made])).score == 1


def test_arguments_that_are_not_specified_match_any() -> None:
    """An expected call without arguments says nothing of them."""
    assert TrajectoryMatch().measure(case([ToolCall(name="a")], [A])).score == 1


def test_findings_are_what_costs_score() -> None:
    """Extra calls are findings only for EXACT, order only if order counts."""
    kinds = {
        mode: [finding.kind for finding in TrajectoryMatch(mode).measure(case([A, B], [B, A, A])).findings]  # type: ignore[arg-type]
        for mode in MODES
    }

    assert kinds == {"EXACT": ["out_of_order", "unexpected"], "IN_ORDER": ["out_of_order"], "ANY_ORDER": []}


def test_labels_name_the_options() -> None:
    """The label has the options that differ from the defaults."""
    assert TrajectoryMatch().label == "adk.trajectory_match"
    assert TrajectoryMatch("ANY_ORDER", ignore_args=True).label == "adk.trajectory_match(ANY_ORDER, ignore_args)"


def test_a_match_type_is_one_of_three() -> None:
    """Another one is an error that names them."""
    with pytest.raises(ConfigurationError, match="match_type must be one of EXACT, IN_ORDER, ANY_ORDER, got 'exact'"):
        TrajectoryMatch("exact")  # type: ignore[arg-type]
