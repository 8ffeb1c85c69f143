"""A result is complete when it is measured: what is made later, on the first read, is what was there at once.

Whoever reads a result cannot tell when it was made: not from a case that changed, from another thread, from a copy.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from plan_drawing import plans
from strategies import few, json_values
from toolgrade import (
    BudgetMetric,
    CallStatus,
    LLMTestCase,
    Metric,
    MetricResult,
    ResultStatus,
    Run,
    RunHealthMetric,
    TaskSuccessMetric,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolGroundingMetric,
    ToolPolicyMetric,
    ToolRecoveryMetric,
    ToolSuccessRate,
)
from toolgrade.expect import Expect, Matcher, OneOf, Plan, Predicate
from toolgrade.metrics import ArgumentSchemaMetric
from toolgrade.result import Finding, LateFields, deferred_result

TOOLS = [
    {"name": "a", "effect": "write", "parameters": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    {"name": "b", "effect": "read"},
]
METRICS: list[Metric] = [
    ToolCorrectnessMetric(),
    ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"], strict_mode=True),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], should_consider_ordering=True, denominator="f1"),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], compare="meaning", only="write", ignore_failed=True),
    ToolCorrectnessMetric(should_exact_match=True, include_reason=False),
    TaskSuccessMetric(forbidden=["b"]),
    TaskSuccessMetric(calls_only=True, compare="exact"),
    ArgumentSchemaMetric(),
    ToolEfficiencyMetric(),
    BudgetMetric(max_calls=2, max_seconds=1),
    ToolSuccessRate(),
    ToolPolicyMetric(denied=["ab"], argument_rules={"a": {"x": {"denied": [[1], {"y": [1]}]}}}),
    ToolRecoveryMetric(),
    RunHealthMetric(),
    ToolGroundingMetric(),
    ToolGroundingMetric(sources={"*.x": ["b"]}, only="write"),
]
of_every_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.label)

_values = st.sampled_from((1, [1], {"y": [1]}, "[redacted]")) | json_values((1, 1.0, True, "1"), max_leaves=4)
_execution = st.fixed_dictionaries(
    {"status": st.sampled_from([CallStatus.OK, *CallStatus])},
    optional={"error": st.sampled_from(("full", "late")), "step": st.integers(0, 2)},
)
_calls = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(("a", "a", "b", "ab"))},
        optional={
            "input_parameters": st.dictionaries(st.sampled_from("xy"), _values, max_size=2),
            "output": _values,
            "execution": _execution,
            "turn": st.integers(1, 2),
        },
    ),
    max_size=5,
)


@st.composite
def cases(draw: Any) -> dict[str, Any]:
    """The fields of a case with everything that a metric reads."""
    called, expected = draw(_calls), draw(_calls)
    for call in expected:
        call.pop("execution", None)
    run = {"warnings": draw(st.sampled_from(([], ["a line was cut off"]))), "duration": 2.0}
    return {
        "tools_called": called,
        "expected_tools": draw(st.just(expected) | plans()),
        "available_tools": TOOLS,
        "agent_texts": ["done"],
        "required_texts": draw(st.sampled_from(([], ["done"], ["it costs 3"]))),
        "ends": draw(st.sampled_from(["ok", None])),
        "run": Run(calls=[ToolCall(**fields) for fields in called], **run),
    }


def spoil(value: Any) -> None:
    """Change a value in every place that can be changed."""
    if isinstance(value, BaseModel):
        for part in vars(value).values():
            spoil(part)
    elif dataclasses.is_dataclass(value):
        for entry in dataclasses.fields(value):
            spoil(getattr(value, entry.name))
    elif isinstance(value, (list, tuple, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            spoil(part)
        if isinstance(value, list):
            value[:] = ["spoiled"]
        elif isinstance(value, dict):
            value.clear()
            value["spoiled"] = True


@of_every_metric
@few
@given(fields=cases())
def test_a_case_that_changes_later_changes_nothing(metric: Metric, fields: dict[str, Any]) -> None:
    """A result that was read at once and one that is read after the case changed are the same in every field."""
    case, other = (LLMTestCase(**copy.deepcopy(fields)) for _ in range(2))
    at_once = metric.measure(case)
    text, plain = repr(at_once), at_once.to_dict()
    later = metric.measure(other)
    spoil(case)
    spoil(other)
    assert (repr(at_once), at_once.to_dict()) == (text, plain)
    assert (repr(later), later.to_dict()) == (text, plain)


def a_result(metric: Metric | None = None) -> MetricResult:
    """A result with findings, a warning and an alignment."""
    case = LLMTestCase(
        tools_called=[ToolCall(name="a", input_parameters={"x": [1]}), ToolCall(name="c")],
        expected_tools=[ToolCall(name="a", input_parameters={"x": [2]}), ToolCall(name="b")],
        run=Run(calls=[], warnings=["a line was cut off"]),
    )
    return (metric or ToolCorrectnessMetric(evaluation_params=["input_parameters"])).measure(case)


@pytest.mark.parametrize(
    "view",
    [
        copy.copy,
        copy.deepcopy,
        lambda result: pickle.loads(pickle.dumps(result)),  # noqa: S301 - our own bytes
        dataclasses.replace,
        lambda result: dataclasses.replace(result, metric="other"),
        lambda result: result.renamed("other"),
        MetricResult.to_dict,
        repr,
        str,
        hash,
        float,
        bool,
        *(lambda result, name=entry.name: getattr(result, name) for entry in dataclasses.fields(MetricResult)),
    ],
)
def test_a_first_look_shows_what_a_later_one_does(view: Callable[[MetricResult], object]) -> None:
    """Every way to look at a result gives the same whether or not it was read before, and leaves it as it was."""
    unread, read = a_result(), a_result()
    assert read.findings
    assert view(unread) == view(read)
    assert unread == read


def test_unread_results_are_equal_and_ordered() -> None:
    """Comparing reads what it needs."""
    assert a_result() == a_result()
    assert a_result() != a_result(ToolCorrectnessMetric())
    assert a_result() < a_result(ToolCorrectnessMetric())
    assert sorted({a_result(), a_result()}) == [0.0]


def test_an_unread_result_is_frozen_and_has_no_other_attributes() -> None:
    """It behaves as the dataclass that it is."""
    result = a_result()
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.reason = ""  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'MetricResult' object has no attribute 'reasons'"):
        result.reasons  # type: ignore[attr-defined]  # noqa: B018 - reading is the test
    assert not hasattr(result, "__dict__")


@dataclass
class Meeting:
    """Makes late fields only once as many threads as `together` has parties want it."""

    together: threading.Barrier
    threads: list[int] = dataclasses.field(default_factory=list)
    """Those that made them."""

    def late_fields(self, _: MetricResult, /) -> LateFields:
        """Return new objects each time."""
        number = threading.get_ident()
        self.threads.append(number)
        self.together.wait(timeout=10)
        return LateFields(f"by {number}", (Finding("missing", "m", "a"),), {"x": 1.0 + number}, None, (f"in {number}",))


def test_all_threads_read_the_same_objects() -> None:
    """When several threads read a result first, at the same time, all get one set of objects."""
    threads = 8
    explainer = Meeting(threading.Barrier(threads))
    fields: dict[str, Any] = {"metric": "m", "status": ResultStatus.SCORED, "threshold": 0.5, "error": None}
    result = deferred_result(explainer, **fields, score=1.0, passed=True)
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(lambda: [getattr(result, name) for name in LateFields._fields]) for _ in range(threads)]
        values = [[id(value) for value in future.result()] for future in futures]
    assert len({*explainer.threads}) == threads
    assert values == [[id(getattr(result, name)) for name in LateFields._fields]] * threads
    assert len(explainer.threads) == threads


class Words(Matcher):
    """Base of a matcher of a user that counts what is asked of it."""


@dataclass(frozen=True)
class Counted(Words):
    """Accepts 1, and counts every use of its code."""

    uses: list[str]
    kind = "counted"

    def accepts(self, value: Any) -> bool:
        """Whether the value is 1."""
        self.uses.append("accepts")
        return value == 1

    def describe(self) -> str:
        """Text that depends on something that changes."""
        self.uses.append("describe")
        return f"use {len(self.uses)}"

    def to_json(self) -> dict[str, Any]:
        """Its form in JSON."""
        return {"$is": "counted"}

    def __deepcopy__(self, _: object) -> Counted:
        """Count in the same list."""
        return self


@pytest.mark.parametrize(
    "metric",
    [
        ToolCorrectnessMetric(evaluation_params=["input_parameters"]),
        TaskSuccessMetric(effects={"a": "write"}),
        TaskSuccessMetric(calls_only=True, effects={"a": "write"}),
    ],
    ids=lambda metric: metric.label,
)
@pytest.mark.parametrize("several", [False, True], ids=["one", "a choice"])
def test_code_of_a_user_runs_inside_measure_alone(metric: Metric, several: bool) -> None:
    """Reading a result calls neither a predicate nor a matcher of a user, whatever is read."""
    uses: list[str] = []
    predicate = Predicate(lambda value: bool(uses.append("test")) or value == 1, name="one")
    calls = [Expect("a", {"x": predicate, "y": Counted(uses)}), Expect("a", {"x": predicate})]
    items: list[Any] = [OneOf(calls[:1], calls[1:])] if several else calls
    case = LLMTestCase(
        tools_called=[ToolCall(name="a", input_parameters={"x": value, "y": value}) for value in (2, 3)],
        expected_tools=Plan(items),
    )
    result = metric.measure(case)
    in_measure = list(uses)
    assert {"test", "accepts", "describe"} <= {*in_measure}
    assert result.findings
    repr((result.reason, result.parts, result.alignment, result.warnings))
    copy.deepcopy(result)
    assert uses == in_measure


@of_every_metric
def test_a_result_holds_neither_case_nor_metric(metric: Metric) -> None:
    """An unread result keeps what was compared, so that cases, their calls, and a judge can be freed."""
    options = {name: getattr(metric, name) for name in ("strict_mode", "include_reason")}
    own = dataclasses.replace(metric, **options)  # type: ignore[type-var]
    case = LLMTestCase(
        tools_called=[ToolCall(name="a", input_parameters={"x": [1]}, turn=1), ToolCall(name="b")],
        expected_tools=[ToolCall(name="a", input_parameters={"x": [2]}), ToolCall(name="c")],
        available_tools=TOOLS,
        run=Run(calls=[], duration=3.0),
    )
    result = own.measure(case)
    assert case.tools_called is not None
    gone = [weakref.ref(thing) for thing in (own, case, case.run, *case.tools_called)]
    del own, case
    LLMTestCase()
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)
    assert result.reason is None or result.reason
