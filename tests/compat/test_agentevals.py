"""agentevals' trajectory match does what its documentation says, for every mode and override of arguments."""

import re
from typing import Any

import pytest

from peer_inputs import INPUTS, A, B, Calls, call, case
from toolgrade import CallStatus, Execution, LLMTestCase, ToolCall, evaluate
from toolgrade.compat.agentevals import TrajectoryMatch
from toolgrade.errors import ConfigurationError, MissingFieldError
from toolgrade.expect import Plan
from toolgrade.redact import REDACTED

MODES = ("strict", "unordered", "subset", "superset")

#: strict, unordered, subset, superset. In the comments: what agentevals 0.0.9 gives where that differs.
TABLE = {
    "both empty": (1, 1, 1, 1),
    "nothing expected": (0, 0, 0, 1),
    "nothing called": (0, 0, 1, 0),
    "an extra call": (0, 0, 0, 1),
    "reversed": (0, 1, 1, 1),  # strict 1 where one message holds both: see the steps below
    "twice and twice": (1, 1, 1, 1),
    "once, called twice": (0, 0, 0, 1),
    "twice, called once": (0, 0, 1, 0),
    "1 and 1.0": (1, 1, 1, 1),
    "1 and '1'": (0, 0, 0, 0),
    "true and 1": (0, 0, 0, 0),  # 1 in all of them
    "case of letters": (0, 0, 0, 0),
    "none and {}": (1, 1, 1, 1),  # an error
    "an extra argument": (0, 0, 0, 0),
    "one leaf of two": (0, 0, 0, 0),
    "order of keys": (1, 1, 1, 1),
    "order of a list": (0, 0, 0, 0),
}


def score(expected: Calls, called: Calls, *options: Any, **named: Any) -> float | None:
    """The score of one case."""
    return TrajectoryMatch(*options, **named).measure(case(expected, called)).score


@pytest.mark.parametrize("name", INPUTS)
def test_the_table(name: str) -> None:
    """Each mode has the documented score on each input."""
    assert tuple(score(*INPUTS[name], mode) for mode in MODES) == TABLE[name]


#: Expected and called arguments; then exact, ignore, subset, superset.
ARGUMENTS = {
    "equal": ({"x": 1}, {"x": 1}, (1, 1, 1, 1)),
    "one more": ({"x": 1}, {"x": 1, "y": 2}, (0, 1, 0, 1)),
    "one less": ({"x": 1, "y": 2}, {"x": 1}, (0, 1, 1, 0)),
    "other value": ({"x": 1}, {"x": 2}, (0, 1, 0, 0)),
    "none expected": ({}, {"x": 1}, (0, 1, 0, 1)),
    "none called": ({"x": 1}, {}, (0, 1, 1, 0)),
    "more inside": ({"x": {"p": 1}}, {"x": {"p": 1, "q": 1}}, (0, 1, 0, 0)),
    "less inside": ({"x": {"p": 1, "q": 1}}, {"x": {"p": 1}}, (0, 1, 0, 0)),
}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("mode", MODES)
def test_argument_modes(name: str, mode: Any) -> None:
    """Subset and superset are those of the called arguments, at the top alone, in whichever mode calls are compared."""
    expected, called, scores = ARGUMENTS[name]
    calls = [call("a", **expected)], [call("a", **called)]

    actual = tuple(score(*calls, mode, args) for args in ("exact", "ignore", "subset", "superset"))

    assert actual == scores


def test_the_pairing_is_optimal() -> None:
    """A pairing that works is found even if taking the first partner that fits would spoil it, in either direction."""
    expected, called = [call("a", x=1), call("a", x=1, y=2)], [call("a", x=1, y=2), call("a", x=1)]

    for mode in MODES[1:]:
        for left, right in ((expected, called), (expected[::-1], called), (expected, called[::-1])):
            assert score(left, right, mode, "superset") == 1
            assert score(right, left, mode, "subset") == 1


OVERRIDES = {
    "a mode": ("ignore", {"x": 1}, {"x": 2}, 1),
    "a stricter mode": ("exact", {"x": 1}, {"x": 1, "y": 1}, 0),
    "a path": (["x"], {"x": 1, "y": 1}, {"x": 1, "y": 2}, 1),
    "a path that differs": (["x", "y"], {"x": 1, "y": 1}, {"x": 1, "y": 2}, 0),
    "a path with dots": (["x.p"], {"x": {"p": 1, "q": 1}}, {"x": {"p": 1, "q": 2}}, 1),
    "a path with dots that differs": (["x.q"], {"x": {"p": 1, "q": 1}}, {"x": {"p": 1, "q": 2}}, 0),
    "a key with dots": (["x.p"], {"x.p": 1}, {"x.p": 2}, 0),
    "true is not 1": (["x"], {"x": True}, {"x": 1}, 0),
    "missing on both sides": (["z"], {"x": 1}, {"x": 2}, 1),
    "missing in the called one": (["x"], {"x": 1}, {}, 0),
    "missing in the expected one": (["x"], {}, {"x": 1}, 0),
    "missing is not null": (["x"], {"x": None}, {}, 0),
    "through what is no object": (["x.p"], {"x": 1}, {"x": {"p": 1}}, 0),
    "no path at all": ([], {"x": 1}, {"x": 2}, 1),
    "a function": (lambda called, expected: called["x"] > expected["x"], {"x": 1}, {"x": 2}, 1),
    "a function that says no": (lambda called, expected: called["x"] < expected["x"], {"x": 1}, {"x": 2}, 0),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OVERRIDES)
def test_overrides(name: str, mode: Any) -> None:
    """An override of a tool decides on its arguments, in each mode; a function gets called arguments first."""
    override, expected, called, expected_values = OVERRIDES[name]
    calls = [call("a", **expected), B], [call("a", **called), B]

    assert score(*calls, mode, "superset", {"a": override}) == expected_values


def test_an_override_is_of_its_tool_alone() -> None:
    """The calls of other tools are compared as `tool_args_match_mode` says."""
    assert score([A, B], [A, call("b", x=2)], "strict", "exact", {"a": "ignore"}) == 0
    assert score([A, B], [call("a", x=2), B], "strict", "exact", {"a": "ignore"}) == 1


def test_path_without_a_match_is_reported() -> None:
    """A misspelled path compares nothing; a path that matches at least one call is fine."""
    metric = TrajectoryMatch(tool_args_match_overrides={"a": ["y", "z"], "c": ["x"]})

    result = metric.measure(case([call("a", x=1), call("a", y=1)], [call("a", x=2), call("a", y=1)]))

    assert result.score == 1
    assert result.warnings == ("no call of 'a', expected or called, has the argument 'z', so it was not compared",)


def test_a_function_gets_copies() -> None:
    """A function that modifies its arguments does not modify a case."""

    def spoils(called: dict[str, Any], expected: dict[str, Any]) -> bool:
        called["x"].append(2)
        return bool(expected.pop("x"))

    measured = case([call("a", x=[1])], [call("a", x=[1])])

    assert TrajectoryMatch(tool_args_match_overrides={"a": spoils}).measure(measured).score == 1
    assert measured == case([call("a", x=[1])], [call("a", x=[1])])


@pytest.mark.parametrize("answer", [None, 0.3, "yes"])
def test_a_function_says_yes_or_no(answer: Any) -> None:
    """Anything else than True or False is an error that names the tool, never taken for true."""
    metric = TrajectoryMatch(tool_args_match_overrides={"a": lambda _called, _expected: answer})

    with pytest.raises(ConfigurationError, match=rf"overrides\['a'\] returned {re.escape(repr(answer))[:3]}"):
        metric.measure(case([A], [A]))


# Steps

STEPS = {
    "one step, any order": ([A, B], [call("b", 0, x=1), call("a", 0, x=1)], 1),
    "two steps": ([A, B], [call("b", 0, x=1), call("a", 1, x=1)], 0),
    "within the second step": ([A, A, B], [call("a", 0, x=1), call("b", 1, x=1), call("a", 1, x=1)], 1),
    "across the steps": ([B, A, A], [call("a", 0, x=1), call("b", 1, x=1), call("a", 1, x=1)], 0),
    "half of the steps known": ([A, B], [call("b", 0, x=1), call("a", x=1)], 0),
    "the same steps": ([call("a", 3, x=1), call("b", 3, x=1)], [call("b", 0, x=1), call("a", 0, x=1)], 1),
    "one expected after the other": ([call("a", 0, x=1), call("b", 1, x=1)], [call("a", 0, x=1), call("b", 0, x=1)], 0),
    "expected at once": ([call("a", 0, x=1), call("b", 0, x=1)], [call("a", 0, x=1), call("b", 1, x=1)], 0),
    "steps of the expected alone": ([call("a", 0, x=1), call("b", 0, x=1)], [B, A], 0),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_the_messages_of_strict(name: str) -> None:
    """Calls of one step may be in any order; where both sides know steps, the same calls stand together."""
    expected, called, expected_values = STEPS[name]

    assert score(expected, called) == expected_values
    assert score(expected, called, "unordered") == 1


def test_steps_of_different_agents_are_different() -> None:
    """Agents count steps separately, so equal steps of different agents are not parallel."""
    calls_made = [
        ToolCall(name=name, input_parameters={"x": 1}, execution=Execution(step=0, agent=agent))
        for name, agent in (("b", "one"), ("a", "two"))
    ]

    assert score([A, B], calls_made) == 0


def test_different_steps_are_findings() -> None:
    """The reason lists calls that are parallel on one side only."""
    result = TrajectoryMatch().measure(
        case([call("a", 0, x=1), call("b", 1, x=1)], [call("a", 0, x=1), call("b", 0, x=1)])
    )

    assert [(finding.kind, finding.message) for finding in result.findings] == [
        (
            "out_of_order",
            "Other steps: expected #1 and #2 were asked for in different steps, called #1 and #2 in one step.",
        )
    ]


def test_calls_in_another_step_are_findings() -> None:
    """They are out of order, rather than missing and unexpected."""
    result = TrajectoryMatch().measure(case([A, B, A], [B, A, A]))

    assert [(finding.kind, finding.expected, finding.called) for finding in result.findings] == [
        ("out_of_order", 0, 1),
        ("out_of_order", 1, 0),
    ]


# What a case can say beyond what a message can


def test_arguments_that_are_not_specified_match_any() -> None:
    """An expected call without arguments matches any, in every mode and override."""
    for options in (("exact",), ("subset",), ("exact", {"a": ["x"]}), ("exact", {"a": lambda _c, _e: False})):
        assert score([ToolCall(name="a")], [call("a", x=5)], "strict", *options) == 1


def test_arguments_that_were_not_recorded_are_left_out() -> None:
    """Such a call counts by name, with a warning."""
    lost = ToolCall(name="a", execution=Execution(not_captured=["input_parameters"]))

    result = TrajectoryMatch("unordered", "superset").measure(case([A], [lost]))

    assert result.score == 1
    assert [finding.kind for finding in result.findings] == ["not_compared"]
    assert result.warnings == ("some calls were compared without fields that were not recorded",)


def test_redacted_arguments_are_left_out() -> None:
    """A value that was redacted is compared on neither side, by modes, paths and functions alike."""
    expected, called = [call("a", key="k", x=1)], [call("a", key=REDACTED, x=1)]

    def same(called: dict[str, Any], expected: dict[str, Any]) -> bool:
        return called == expected == {"x": 1}

    for override in ("exact", "superset", "subset", ["key", "x"], same):
        result = TrajectoryMatch(tool_args_match_overrides={"a": override}).measure(case(expected, called))
        assert result.score == 1
        assert "some calls were compared without values that are redacted" in result.warnings


def test_invalid_arguments_are_reported() -> None:
    """Unreadable arguments equal no others, with a warning."""
    broken = ToolCall(name="a", execution=Execution(status=CallStatus.INVALID_ARGUMENTS, requested_parameters="{"))

    result = TrajectoryMatch("unordered").measure(case([A], [broken]))

    assert result.score == 0
    assert result.warnings == ("arguments of 1 call were not a JSON object; such arguments equal no others",)
    assert TrajectoryMatch("unordered").measure(case([call("a")], [broken])).score == 0


# As a metric


def test_reason_names_only_relevant_findings() -> None:
    """Superset ignores extra calls, subset ignores missing ones."""
    measured = case([A, call("c")], [call("a", x=2), B])
    actual = {
        mode: [finding.kind for finding in TrajectoryMatch(mode).measure(measured).findings]  # type: ignore[arg-type]
        for mode in MODES
    }

    assert actual == {
        "strict": ["wrong_argument", "missing", "unexpected"],
        "unordered": ["wrong_argument", "missing", "unexpected"],
        "subset": ["wrong_argument", "unexpected"],
        "superset": ["wrong_argument", "missing"],
    }
    assert TrajectoryMatch("superset").measure(measured).reason == (
        "match: superset, 0 of 2 expected and of 2 called agree = 0 (failed at 0.5).\n"
        "'a' (expected #1, called #1): $.input_parameters.x expected 1, called with 2.\n"
        "Missing: expected #2 'c' was not called."
    )


def test_labels_name_the_options() -> None:
    """The label has the options that differ from the defaults."""
    assert TrajectoryMatch().label == "agentevals.trajectory_match"
    metric = TrajectoryMatch("subset", "ignore", {"a": ["x"], "b": "exact"}, strict_mode=True)
    assert metric.label == "agentevals.trajectory_match(subset, args=ignore, overrides=a+b, strict)"
    assert metric.threshold == 1


async def _never(_called: dict[str, Any], _expected: dict[str, Any]) -> bool:
    raise AssertionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"trajectory_match_mode": "loose"},
            "trajectory_match_mode must be one of strict, unordered, subset, superset",
        ),
        (
            {"tool_args_match_mode": None},
            "tool_args_match_mode must be one of exact, ignore, subset, superset, got None",
        ),
        ({"tool_args_match_overrides": {"a": "some"}}, r"tool_args_match_overrides\['a'\] must be one of exact"),
        ({"tool_args_match_overrides": {"a": [1]}}, "must be a mode, a list of argument paths or a function"),
        ({"tool_args_match_overrides": {"a": [""]}}, "must be a mode, a list of argument paths or a function"),
        ({"tool_args_match_overrides": {"a": _never}}, "is an async function"),
        ({"tool_args_match_overrides": ["a"]}, "must map tools to a mode, paths or a function"),
        ({"threshold": 2}, "threshold must be a number from 0 to 1"),
    ],
)
def test_invalid_options_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    """The error names the option and the accepted values."""
    with pytest.raises(ConfigurationError, match=message):
        TrajectoryMatch(**options)


def test_a_plan_is_an_error() -> None:
    """An expectation that says more than a list of calls is refused, since agentevals knows no such thing."""
    plan = Plan([A], allow_extra=True)

    with pytest.raises(
        ConfigurationError, match="TrajectoryMatch compares lists of ToolCall, and expected_tools is a Plan"
    ):
        TrajectoryMatch().measure(LLMTestCase(tools_called=[], expected_tools=plan))


def test_both_sides_are_required() -> None:
    """A missing side is an error that names it, and a failed result in `evaluate`."""
    with pytest.raises(MissingFieldError, match="TrajectoryMatch needs expected_tools"):
        TrajectoryMatch().measure(LLMTestCase(tools_called=[]))
    with pytest.raises(MissingFieldError, match="TrajectoryMatch needs tools_called"):
        TrajectoryMatch().measure(LLMTestCase(expected_tools=[]))

    report = evaluate([case([A], [A]), LLMTestCase(tools_called=[])], [TrajectoryMatch()])

    assert [entry.status.value for _, entry in report.results()] == ["scored", "failed"]
