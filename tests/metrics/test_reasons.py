"""Reasons: calculation, findings, and warnings, compared with a golden file."""

from __future__ import annotations

from typing import Any

import pytest

from processes import assert_golden
from toolgrade import (
    Execution,
    LLMTestCase,
    Run,
    ToolCall,
    ToolCallParams,
    ToolCallType,
    ToolCorrectnessMetric,
)

ORDERED = {"should_consider_ordering": True}
EXACT = {"should_exact_match": True}
STRICT = {"strict_mode": True}
BY_ARGUMENTS = {"evaluation_params": [ToolCallParams.INPUT_PARAMETERS]}
BY_ALL = {"evaluation_params": list(ToolCallParams)}


def tools(names: str) -> list[ToolCall]:
    """Calls of the tools named."""
    by_name = {name: ToolCall(name=name) for name in names.split()}
    return [by_name[name] for name in names.split()]


def call(output: Any = None, /, name: str = "book", **arguments: Any) -> ToolCall:
    """A call with these arguments."""
    return ToolCall(name=name, input_parameters=arguments, output=output)


NOT_KEPT = ToolCall(name="book", execution=Execution(not_captured=["input_parameters", "output", "type"]))

MANY = {f"k{i}": i for i in range(30_000)}

#: What is measured: expected, called, options, and the warnings of the recording.
SCENARIOS: dict[str, tuple[list[ToolCall], list[ToolCall], dict[str, Any], list[str]]] = {
    "all as expected": (tools("search book"), tools("search book"), {}, []),
    "nothing on either side": ([], [], {}, []),
    "nothing called": (tools("search book"), [], {}, []),
    "nothing expected": ([], tools("search"), {}, []),
    "missing and unexpected": (tools("search book pay"), tools("search mail"), {}, []),
    "out of order": (tools("search book search"), tools("search search book"), ORDERED, []),
    "out of order and exact": (tools("search book"), tools("book search"), EXACT, []),
    "exact": (tools("search book"), tools("search book"), EXACT, []),
    "exact, nothing called": (tools("search"), [], EXACT, []),
    "strict": (tools("search book"), tools("search"), STRICT, []),
    "strict and perfect": (tools("search"), tools("search"), STRICT, []),
    "precision": (tools("search"), tools("search mail"), {"denominator": "called"}, []),
    "longest": (tools("search book pay"), tools("search mail"), {"denominator": "longest"}, []),
    "f1": (tools("search book pay"), tools("search"), {"denominator": "f1"}, []),
    "a score that looks like 1": ([call(**MANY)], [call(**{**MANY, "k7": None})], BY_ARGUMENTS, []),
    "wrong, missing and extra arguments": (
        [call(city="Paris", nights=2, guest={"age": 30, "name": "Ann"})],
        [call(city="Rome", guest={"age": 31, "name": "Ann"}, view="sea")],
        BY_ARGUMENTS,
        [],
    ),
    "wrong output": ([call({"ok": True})], [call({"ok": False})], BY_ALL, []),
    "wrong type": (
        [ToolCall(name="book", type=ToolCallType.MCP)],
        [ToolCall(name="book", type=ToolCallType.FUNCTION)],
        {},
        [],
    ),
    "no type": ([ToolCall(name="book", type=ToolCallType.MCP)], tools("book"), {}, []),
    "out of order and wrong": (
        [call(day=1), call(day=2), ToolCall(name="pay", input_parameters={"sum": 1})],
        [ToolCall(name="pay", input_parameters={"sum": 2}), call(day=1), call(day=2)],
        {**ORDERED, **BY_ARGUMENTS},
        [],
    ),
    "not captured": (
        [ToolCall(name="book", type=ToolCallType.MCP, input_parameters={"day": 1}, output=2)],
        [NOT_KEPT],
        BY_ALL,
        [],
    ),
    "an incomplete recording": (tools("search"), tools("search"), {}, ["2 spans were lost", "stopped by a limit."]),
    "not judged": (tools("search"), tools("search"), {"available_tools": [{"name": "search"}]}, []),
    "long values": (
        [call(text="word " * 1000, row={"k": "v" * 200})],
        [call(text="words " * 1000, row=list(range(1000)))],
        BY_ARGUMENTS,
        [],
    ),
    "keys that are no identifiers": ([call(**{"first name": 1, "a.b": 2, "": 3})], [call()], BY_ARGUMENTS, []),
    "what a terminal would obey": (
        [ToolCall(name="\x1b[2Jbook", input_parameters={"\x07key": "\u202etxt.exe"})],
        [ToolCall(name="\x1b[2Jbook", input_parameters={"\x07key": "a\nb\rc\0"}), ToolCall(name="x\ny")],
        BY_ARGUMENTS,
        ["a\x1b[31mred\x1b[0m warning"],
    ),
    "text and number": ([call(n=1, t="1", f=1.0, none=None)], [call(n="1", t=1, f=1.5)], BY_ARGUMENTS, []),
    "more than a reason spells out": (tools("search " * 30), tools("book " * 3), {}, []),
}


def reason(name: str, **more: Any) -> str:
    """The reason of one scenario."""
    expected, called, options, warnings = SCENARIOS[name]
    run = Run(warnings=warnings) if warnings else None
    case = LLMTestCase(tools_called=called, expected_tools=expected, run=run)
    return str(ToolCorrectnessMetric(**{**options, **more}).measure(case).reason)


def test_reasons_are_golden() -> None:
    """Every reason reads as the golden file says; a change of words is a change to be read."""
    assert_golden("reasons.txt", "\n".join(f"## {name}\n{reason(name)}\n" for name in SCENARIOS))


def test_reasons_can_be_switched_off() -> None:
    """Without reasons the result still has findings."""
    assert {reason(name, include_reason=False) for name in SCENARIOS} == {"None"}


@pytest.mark.parametrize(
    ("matched", "total", "fraction"),
    [(0, 3, "0"), (1, 3, "0.3333"), (2, 3, "0.6667"), (1, 8, "0.125"), (7, 7, "1")],
)
def test_the_sum_in_the_reason_is_the_score(matched: int, total: int, fraction: str) -> None:
    """What stands after the equals sign of the sum is the score, to four decimals, and 1 only if it is 1."""
    case = LLMTestCase(tools_called=tools("a " * matched) or tools("b"), expected_tools=tools("a " * total))
    text = str(ToolCorrectnessMetric().measure(case).reason)
    assert text.startswith(f"{matched} matched / {total} expected = {fraction} (")
