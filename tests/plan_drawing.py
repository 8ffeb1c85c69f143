"""What the property tests of plans draw: small plans of everything, and calls that often fit them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from toolgrade import ToolCall
from toolgrade.expect import Expect, Forbid, Glob, OneOf, Parallel, Plan

names = st.sampled_from(["a", "b", "ab"])
arguments = st.sampled_from([{}, {"x": 1}, {"x": 1, "y": 1}, {"x": 2, "y": 1}])
plain_calls = st.builds(lambda name, values: ToolCall(name=name, input_parameters=values), names, arguments)


def drawn_calls(draw: Any, size: int = 4, values: Any = arguments) -> list[ToolCall]:
    """Called tools: with steps that never fall, or without steps."""
    some_calls = st.builds(lambda name, values: ToolCall(name=name, input_parameters=values), names, values)
    calls = draw(st.lists(some_calls, max_size=size))
    if draw(st.booleans()):
        return calls
    step = 0
    drawn: list[ToolCall] = []
    for call in calls:
        step += draw(st.integers(0, 1))
        drawn.append(ToolCall(name=call.name, input_parameters=call.input_parameters, execution={"step": step}))
    return drawn


@st.composite
def called(draw: Any, values: Any = arguments) -> list[ToolCall]:
    """Called tools; `values` draws their arguments."""
    return drawn_calls(draw, values=values)


times = st.sampled_from([None, None, None, 2, (0, 1), (0, 2), (1, 2), (1, None), (0, None)])
expected_names = st.one_of(names, names, st.just(Glob("a*")))


@st.composite
def calls(draw: Any, labels: list[str], *, ordering: bool = True, values: Any = arguments) -> Any:
    """Draw an expected call that follows some of the earlier labels and may add one."""
    if draw(st.integers(0, 2)) == 0:
        return ToolCall(name=draw(names), input_parameters=draw(values))
    label = None
    after = draw(st.lists(st.sampled_from(labels), max_size=2, unique=True)) if labels and ordering else []
    if ordering and draw(st.booleans()):
        label = draw(st.sampled_from(["p", "q", f"l{len(labels)}"]))
        if label in labels:
            label = None
    call = Expect(draw(expected_names), draw(values), times=draw(times), label=label, after=after)
    if label:
        labels.append(label)
    return call


@st.composite
def plans(draw: Any, *, size: int = 3, ordering: bool = True, choices: bool = True, values: Any = arguments) -> Plan:
    """Small plans of everything; `values` draws the arguments."""
    options = {"ordering": ordering, "values": values}
    labels: list[str] = []
    items: list[Any] = []
    for _ in range(draw(st.integers(0, size))):
        kind = draw(st.sampled_from(["call", "call", "call", "one_of", "parallel", "forbid"]))
        if kind == "one_of" and choices:
            alternatives = [
                [draw(calls(labels, **options)) for _ in range(draw(st.integers(0, 2)))]
                for _ in range(draw(st.integers(1, 2)))
            ]
            items.append(OneOf(*alternatives))
        elif kind == "parallel":
            items.append(Parallel(*[draw(calls(labels, **options)) for _ in range(draw(st.integers(1, 2)))]))
        elif kind == "forbid" and draw(st.booleans()):
            items.append(Forbid("b"))
        else:
            items.append(draw(calls(labels, **options)))
    return Plan(items)
