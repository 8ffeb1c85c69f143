"""Tool policy: which tools may be called, when, and with what."""

from __future__ import annotations

from typing import Any

import pytest

from shorthand import calls_from
from toolgrade import (
    ConfigurationError,
    InvalidDataError,
    LLMTestCase,
    MissingFieldError,
    Run,
    ToolCall,
    ToolPolicyMetric,
)
from toolgrade.redact import REDACTED


def measured(calls: str, **options: Any) -> Any:
    """The result of one case."""
    return ToolPolicyMetric(**options).measure(LLMTestCase(tools_called=calls_from(calls)))


def violations(result: Any) -> list[tuple[str, int]]:
    """The kind of each finding, and the position of its call."""
    return [(finding.kind, finding.called) for finding in result.findings]


@pytest.mark.parametrize(
    ("calls", "options", "expected"),
    [
        pytest.param("look wipe", {"denied": ["wipe"]}, [1], id="denied"),
        pytest.param("look wipe", {"denied": ["wip"]}, [], id="a part of a name is no name"),
        pytest.param("look wipe", {"denied": ["WIPE"]}, [], id="case counts"),
        pytest.param("get_a get_b put_a", {"denied": ["get_*", "*_a"]}, [0, 1, 2], id="patterns"),
        pytest.param("wipe:rejected wipe:not_executed", {"denied": ["wipe"]}, [0, 1], id="whatever became of it"),
        pytest.param("look book", {"allowed": ["look"]}, [1], id="not allowed"),
        pytest.param("look book", {"allowed": []}, [0, 1], id="nothing allowed"),
        pytest.param("look book", {"allowed": ["*"]}, [], id="all allowed"),
        pytest.param("get_a get_b", {"allowed": ["get_?"], "denied": ["get_b"]}, [1], id="denied wins"),
    ],
)
def test_names(calls: str, options: dict[str, Any], expected: list[int]) -> None:
    """A call of a denied tool, or of one that is not allowed, is a violation; each counts once."""
    result = measured(calls, **options)

    assert violations(result) == [("forbidden", index) for index in expected]
    assert result.score == pytest.approx(1 - len(expected) / len(calls.split()))
    assert result.passed == (not expected)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("look:ok change:ok", [], id="before it"),
        pytest.param("change:ok", [0], id="never"),
        pytest.param("look:error change:ok", [1], id="it failed"),
        pytest.param("look change", [], id="nothing is known of what became of it"),
        pytest.param("look:error change:ok look:ok change:ok", [1], id="one too early, one not"),
        pytest.param("look:ok@0 change:ok@0", [1], id="asked at the same time"),
        pytest.param("change:rejected look:ok", [0], id="whatever became of it"),
    ],
)
def test_required_calls_come_first(calls: str, expected: list[int]) -> None:
    """A call needs an earlier successful one of each required tool."""
    result = measured(calls, required_before={"change": ["look"]})

    assert violations(result) == [("too_early", index) for index in expected]


def test_required_tools_are_all_required_and_may_be_patterns() -> None:
    """Each listed tool is required, for every matching pattern, and reported once."""
    rules = {"change_*": ["look_*", "ask"], "change_b": ["ask"]}

    assert violations(measured("look_x ask change_a", required_before=rules)) == []
    assert violations(measured("look_x change_a", required_before=rules)) == [("too_early", 1)]
    result = measured("change_b", required_before=rules)
    assert violations(result) == [("too_early", 0)] * 2
    assert result.score == 0
    assert violations(measured("a a", required_before={"a": ["a"]})) == [("too_early", 0)]


@pytest.mark.parametrize(
    ("call", "metadata", "fine"),
    [
        pytest.param("pay:ok", {}, False, id="it ran, and nobody says who approved"),
        pytest.param("pay:error", {}, False, id="it ran, and failed"),
        pytest.param("pay", {}, False, id="nothing known: it may have run"),
        pytest.param("pay:pending", {}, True, id="it waits"),
        pytest.param("pay:rejected", {}, True, id="refused"),
        pytest.param("pay:cancelled", {}, True, id="cancelled, and not seen to run"),
        pytest.param("look:ok", {}, True, id="a tool that needs none"),
        pytest.param("pay:ok", {"approved_calls": [0]}, True, id="approved by position"),
        pytest.param("pay:ok", {"approved_calls": [1]}, False, id="another position"),
        pytest.param("pay:ok", {"approved_calls": ["c1"]}, True, id="approved by id"),
        pytest.param("pay:ok", {"approved_calls": ["c2"]}, False, id="another id"),
        pytest.param("pay:ok", {"approved": True}, False, id="another key"),
    ],
)
def test_calls_that_need_approval(call: str, metadata: dict[str, Any], *, fine: bool) -> None:
    """A call that ran must be in the approved calls of the case or its run."""
    calls = [one.model_copy(update={"id": "c1"}) for one in calls_from(call)]
    metric = ToolPolicyMetric(needs_approval=["pay"])
    of_case = metric.measure(LLMTestCase(tools_called=calls, metadata=metadata))
    of_run = metric.measure(LLMTestCase(tools_called=calls, run=Run(metadata=metadata)))

    assert violations(of_case) == violations(of_run) == ([] if fine else [("not_approved", 0)])


def test_cancelled_call_that_ran_needs_approval() -> None:
    """A started call needs it as well."""
    call = ToolCall(name="pay", execution={"status": "cancelled", "executed": True})

    assert violations(ToolPolicyMetric(needs_approval=["*"]).measure(LLMTestCase(tools_called=[call]))) == [
        ("not_approved", 0)
    ]


@pytest.mark.parametrize("listed", ["c1", {"c1": True}, [True], [None]])
def test_a_list_of_approved_calls_that_is_none(listed: Any) -> None:
    """It is an error with the case's name, and neither a violation nor an approval."""
    case = LLMTestCase(id="k", tools_called=calls_from("pay:ok"), metadata={"approved_calls": listed})

    with pytest.raises(InvalidDataError, match="of case 'k' must be a list of ids or positions"):
        ToolPolicyMetric(needs_approval=["pay"]).measure(case)


@pytest.mark.parametrize(
    ("place", "values", "arguments", "path"),
    [
        pytest.param("to", {"denied": ["x"]}, {"to": "x"}, "$.input_parameters.to", id="denied"),
        pytest.param("to", {"denied": ["x"]}, {}, None, id="not there"),
        pytest.param("to", {"denied": ["/etc/*"]}, {"to": "/etc/passwd"}, "$.input_parameters.to", id="a pattern"),
        pytest.param("to", {"denied": ["a[1]"]}, {"to": "a[1]"}, "$.input_parameters.to", id="a text fits itself"),
        pytest.param("to", {"allowed": ["x", "y"]}, {"to": "y"}, None, id="allowed"),
        pytest.param("to", {"allowed": ["x"]}, {"to": "y"}, "$.input_parameters.to", id="not allowed"),
        pytest.param("to", {"allowed": ["x"]}, {}, None, id="not there, so not wrong"),
        pytest.param("to", {"allowed": []}, {"to": None}, "$.input_parameters.to", id="nothing allowed"),
        pytest.param("to", {"allowed": ["*"], "denied": ["x"]}, {"to": "x"}, "$.input_parameters.to", id="denied wins"),
        pytest.param("n", {"denied": [1]}, {"n": 1.0}, "$.input_parameters.n", id="equal numbers"),
        pytest.param("n", {"denied": [1]}, {"n": True}, None, id="true is no number"),
        pytest.param("n", {"denied": ["1"]}, {"n": 1}, None, id="a text is no number"),
        pytest.param("n", {"denied": [[1, 2]]}, {"n": [1, 2]}, "$.input_parameters.n", id="a whole list"),
        pytest.param("a.b", {"denied": [1]}, {"a": {"b": 1}}, "$.input_parameters.a.b", id="deeper"),
        pytest.param(("a.b",), {"denied": [1]}, {"a.b": 1}, '$.input_parameters["a.b"]', id="a key with a dot"),
        pytest.param("a.b", {"denied": [1]}, {"a.b": 1}, None, id="a key with a dot is not two keys"),
        pytest.param("l.*.b", {"denied": [1]}, {"l": [{"b": 0}, {"b": 1}]}, "$.input_parameters.l[1].b", id="items"),
        pytest.param("l.1", {"denied": [1]}, {"l": [0, 1]}, "$.input_parameters.l[1]", id="one item"),
        pytest.param("l.1", {"denied": [1]}, {"l": [1, 0]}, None, id="not that item"),
        pytest.param("o.*", {"denied": [1]}, {"o": {"x": 0, "y": 1}}, "$.input_parameters.o.y", id="values"),
        pytest.param("a.b", {"denied": [1]}, {"a": 1}, None, id="no object on the way"),
    ],
)
def test_argument_rules(place: Any, values: dict[str, Any], arguments: dict[str, Any], path: str | None) -> None:
    """A value that is denied, or not among the allowed, breaks the rule for its place."""
    calls = [ToolCall(name="pay", input_parameters=arguments), ToolCall(name="look", input_parameters=arguments)]
    result = ToolPolicyMetric(argument_rules={"p*": {place: values}}).measure(LLMTestCase(tools_called=calls))

    assert [(finding.kind, finding.called, finding.path) for finding in result.findings] == (
        [] if path is None else [("forbidden_argument", 0, path)]
    )
    assert result.score == (1 if path is None else 0.5)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(ToolCall(name="pay", execution={"not_captured": ["input_parameters"]}), id="not recorded"),
        pytest.param(ToolCall(name="pay", input_parameters={"to": REDACTED}), id="redacted"),
        pytest.param(ToolCall(name="pay", input_parameters={"to": ["x", REDACTED]}), id="redacted in part"),
    ],
)
def test_hidden_arguments_cannot_pass(call: ToolCall) -> None:
    """The case is not measured, unless other calls fail it or the call breaks another rule."""
    rules = {"pay": {"to": {"allowed": ["x"]}}}
    case = LLMTestCase(tools_called=[call, ToolCall(name="look"), ToolCall(name="wipe")])
    beside = ToolPolicyMetric(argument_rules=rules, denied=["wipe"]).measure(case)
    denied = ToolPolicyMetric(argument_rules=rules, denied=["pay"]).measure(case)

    for tools in ([call], case.tools_called):
        with pytest.raises(MissingFieldError, match="cannot check 1 call: the arguments in argument_rules were not"):
            ToolPolicyMetric(argument_rules=rules).measure(LLMTestCase(tools_called=tools))
    assert beside.score == 0.5
    assert beside.warnings == ("1 call left out: the arguments in argument_rules were not recorded or are redacted",)
    assert (denied.score, denied.warnings) == (pytest.approx(2 / 3), ())


def test_redacted_arguments_of_other_places_do_not_matter() -> None:
    """The rule is checked where its own place is known."""
    call = ToolCall(name="pay", input_parameters={"to": "y", "api_key": REDACTED})
    metric = ToolPolicyMetric(argument_rules={"pay": {"to": {"allowed": ["x"]}}})
    result = metric.measure(LLMTestCase(tools_called=[call]))

    assert violations(result) == [("forbidden_argument", 0)]
    assert result.warnings == ()


def test_findings_and_reason() -> None:
    """Each finding has rule and call; a call that breaks several rules counts once."""
    result = measured(
        "wipe:ok pay(X):ok look:ok book:ok",
        denied=["w*"],
        needs_approval=["pay"],
        required_before={"pay": ["look"]},
        argument_rules={"pay": {"n": {"denied": ["X"]}}},
    )

    assert result.reason.split("\n") == [
        "allowed: 2 / 4 checked calls = 0.5 (failed at 1).",
        "Forbidden: called #1 'wipe', denied by 'w*'.",
        "Not approved: called #2 'pay' ran, and metadata['approved_calls'] does not list it.",
        "Too early: called #2 'pay', before a call of 'look' had succeeded.",
        "Forbidden argument: called #2 'pay', $.input_parameters.n is \"X\", which is denied, by the rule for 'pay'.",
    ]


def test_secrets_stay_out_of_reasons() -> None:
    """A secret value breaks its rule without being shown."""
    case = LLMTestCase(tools_called=[ToolCall(name="a", input_parameters={"password": "hunter2"})])
    result = ToolPolicyMetric(argument_rules={"a": {"password": {"allowed": []}}}).measure(case)

    assert result.score == 0
    assert "hunter2" not in str(result.reason) + str(result.to_dict())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "must have at least one rule"),
        ({"denied": "wipe"}, "denied must be a list of tool names"),
        ({"allowed": [1]}, "allowed must be a list of tool names"),
        ({"needs_approval": [""]}, "needs_approval must be a list"),
        ({"required_before": ["look"]}, "required_before must map tools"),
        ({"required_before": {"change": "look"}}, r"required_before\['change'\] must be a list"),
        ({"argument_rules": {"pay": ["to"]}}, r"argument_rules\['pay'\] must be a mapping"),
        ({"argument_rules": {"pay": {"to": ["x"]}}}, r"argument_rules\['pay'\]\['to'\] must be a mapping"),
        ({"argument_rules": {"pay": {"to": {"deny": ["x"]}}}}, "must contain 'allowed' or 'denied' with a list"),
        ({"argument_rules": {"pay": {"to": {"denied": "x"}}}}, "must contain 'allowed' or 'denied' with a list"),
        ({"argument_rules": {"pay": {"to": {}}}}, "must contain 'allowed' or 'denied' with a list"),
        ({"argument_rules": {"pay": {"": {"denied": []}}}}, "a place must be keys joined by dots"),
        ({"argument_rules": {"pay": {7: {"denied": []}}}}, "a place must be keys joined by dots"),
        ({"denied": ["a"], "threshold": 7}, "threshold"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], message: str) -> None:
    """The error names the option, before anything is measured."""
    with pytest.raises(ConfigurationError, match=message):
        ToolPolicyMetric(**options)


def test_no_call_breaks_no_rule() -> None:
    """Where nothing was called, there is nothing to check."""
    result = measured("", denied=["*"])

    assert (result.score, result.reason) == (1, "allowed: no call was made, nothing to check = 1 (passed at 1).")


def test_the_label_has_the_kinds_of_rules() -> None:
    """An empty list of allowed tools is a rule."""
    assert ToolPolicyMetric(denied=["wipe"], needs_approval=["pay"]).label == "tool_policy(denied, needs_approval)"
    assert ToolPolicyMetric(allowed=[], strict_mode=True).label == "tool_policy(allowed, strict)"
