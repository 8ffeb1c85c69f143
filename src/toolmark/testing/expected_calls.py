"""The calls that a recording must hold, in the words of the design, and how one that differs is described."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolmark._internal.json import short_repr
from toolmark.calls import CallOrigin, CallStatus, Execution, ToolCall
from toolmark.matching.json_compare import ABSENT, json_equal, outputs_equal

SOME_TEXT: Final = object()
"""Stands for an error text that is the framework's own."""

EITHER: Final = object()
"""Stands for what frameworks may do either way."""


@dataclass(frozen=True)
class ExpectedCall:
    """A call as it must be recorded. What is not set is what holds of a call that ran once and went well.

    Attributes:
        name: Name of the tool.
        arguments: As handed to the tool, before defaults.
        id: Its id; `None` where the model gave none.
        output: What it returned, or the text form of that; `ABSENT` if it has no output.
        status: What became of it.
        step: Number of the model message that asked for it.
        executed: Whether it was seen to run, or `EITHER`.
        error: The error, `SOME_TEXT`, or `None`.
        requested: What the model asked for, where that differs.
        children: The calls made inside.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None
    output: object = ABSENT
    status: CallStatus = CallStatus.OK
    step: int = 0
    executed: object = True
    error: object = None
    requested: object = None
    children: Sequence[ExpectedCall] = ()

    def differences(self, call: ToolCall) -> list[str]:
        """Return what of a recorded call is otherwise, each as one line."""
        how = call.execution
        if how is None:
            return ["execution: expected one, got none"]
        lines = [
            f"{field}: expected {_said(expected)}, got {short_repr(got, 120)}"
            for field, expected, got in self._fields(call, how)
            if not _agree(expected, got)
        ]
        output = call.output if "output" in call.model_fields_set else ABSENT
        if not (output is self.output or (ABSENT not in (output, self.output) and outputs_equal(self.output, output))):
            lines.append(f"output: expected {_said(self.output)}, got {short_repr(output, 120)}")
        return lines + compare_calls(self.children, how.children, "children")

    def _fields(self, call: ToolCall, how: Execution) -> list[tuple[str, object, object]]:
        return [
            ("name", self.name, call.name),
            ("input_parameters", self.arguments, call.arguments),
            ("id", self.id, call.id),
            ("status", self.status.value, how.status.value),
            ("step", self.step, how.step),
            ("executed", self.executed, how.executed),
            ("attempts", 1, how.attempts),
            ("origin", CallOrigin.MODEL.value, how.origin.value),
            ("error", self.error, how.error),
            ("requested_parameters", self.requested, how.requested_parameters),
        ]


def compare_calls(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], what: str) -> list[str]:
    """Return how recorded calls differ from the expected ones, each difference as one line with its place."""
    lines = [
        f"{what}[{index}].{line}"
        for index, (one, call) in enumerate(zip(expected, calls, strict=False))
        for line in one.differences(call)
    ]
    if len(expected) != len(calls):
        names, got = [one.name for one in expected], [call.name for call in calls]
        lines.insert(0, f"{what}: expected {len(expected)} calls {names}, got {len(calls)} {got}")
    return lines


def require(lines: Sequence[str], where: str) -> None:
    """Raise an `AssertionError` that lists the differences, if there are any."""
    if lines:
        raise AssertionError("\n  ".join([f"{where}:", *lines]))


def _agree(expected: object, got: object) -> bool:
    if expected is SOME_TEXT:
        return isinstance(got, str) and bool(got)
    return expected is EITHER or json_equal(expected, got)


def _said(expected: object) -> str:
    return "some text" if expected is SOME_TEXT else short_repr(expected, 120)
