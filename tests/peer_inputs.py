"""The inputs on which libraries that compare tool calls disagree, by name: expected calls, and called ones."""

from __future__ import annotations

from typing import Any

from toolgrade import Execution, LLMTestCase, ToolCall

Calls = list[ToolCall]


def call(name: str, step: int | None = None, /, **arguments: Any) -> ToolCall:
    """Return a call with optional arguments and an optional step."""
    fields = {} if step is None else {"execution": Execution(step=step)}
    return ToolCall(name=name, input_parameters=arguments, **fields)


def case(expected: Calls, called: Calls) -> LLMTestCase:
    """A case of these calls."""
    return LLMTestCase(expected_tools=expected, tools_called=called)


A, B = call("a", x=1), call("b", x=1)

INPUTS: dict[str, tuple[Calls, Calls]] = {
    "both empty": ([], []),
    "nothing expected": ([], [A]),
    "nothing called": ([A], []),
    "an extra call": ([A], [A, B]),
    "reversed": ([A, B], [B, A]),
    "twice and twice": ([A, A], [A, A]),
    "once, called twice": ([A], [A, A]),
    "twice, called once": ([A, A], [A]),
    "1 and 1.0": ([call("a", x=1)], [call("a", x=1.0)]),
    "1 and '1'": ([call("a", x=1)], [call("a", x="1")]),
    "true and 1": ([call("a", x=True)], [call("a", x=1)]),
    "case of letters": ([call("a", x="p")], [call("a", x="P")]),
    "none and {}": ([ToolCall(name="a", input_parameters=None)], [ToolCall(name="a", input_parameters={})]),
    "an extra argument": ([call("a", x=1)], [call("a", x=1, y=2)]),
    "one leaf of two": ([call("a", x={"p": 1, "q": 1})], [call("a", x={"p": 1, "q": 2})]),
    "order of keys": ([call("a", x={"p": 1, "q": 2})], [call("a", x={"q": 2, "p": 1})]),
    "order of a list": ([call("a", x=[1, 2])], [call("a", x=[2, 1])]),
}
