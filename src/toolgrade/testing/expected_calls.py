"""Calls that a recording must contain, and descriptions of how recorded calls differ from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolgrade._internal.json import short_repr
from toolgrade.calls import CallOrigin, CallStatus, ToolCall
from toolgrade.matching.json_compare import ABSENT, json_equal, outputs_equal

SOME_TEXT: Final = object()
"""Matches any error text."""

EITHER: Final = object()
"""Matches any value, for what differs between frameworks."""


@dataclass(frozen=True)
class ExpectedCall:
    """A call as it must be recorded. The defaults are those of a call that ran once and succeeded.

    Attributes:
        name: Name of the tool.
        arguments: As passed to the tool, before defaults.
        id: Its id; `None` if the model sent none.
        output: Its output, or the text form of that; `ABSENT` if it has none, or `EITHER`.
        status: Its status.
        step: Number of the model message that requested it, or `EITHER`.
        executed: Whether an execution was observed, or `EITHER`.
        error: The error, `SOME_TEXT`, or `None`.
        requested: The requested arguments, if they differ.
        attempts: How often its tool was started, or `EITHER`: some frameworks start a tool that waits once more.
        children: Calls inside it.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None
    output: object = ABSENT
    status: CallStatus = CallStatus.OK
    step: object = 0
    executed: object = True
    error: object = None
    requested: object = None
    attempts: object = 1
    children: Sequence[ExpectedCall] = ()

    def differences(self, call: ToolCall) -> list[str]:
        """Return the differences of a recorded call, each as one line."""
        execution = call.execution
        if execution is None:
            return ["execution: expected one, got none"]
        fields: list[tuple[str, object, object]] = [
            ("name", self.name, call.name),
            ("input_parameters", self.arguments, call.arguments),
            ("id", self.id, call.id),
            ("status", self.status.value, execution.status.value),
            ("step", self.step, execution.step),
            ("executed", self.executed, execution.executed),
            ("attempts", self.attempts, execution.attempts),
            ("origin", CallOrigin.MODEL.value, execution.origin.value),
            ("error", self.error, execution.error),
            ("requested_parameters", self.requested, execution.requested_parameters),
        ]
        rows = [row for row in fields if not _agree(row[1], row[2])]
        output = call.output if "output" in call.model_fields_set else ABSENT
        if not self._accepts_output(output):
            rows.append(("output", self.output, output))
        lines: list[str] = []
        for name, expected, got in rows:
            text = "some text" if expected is SOME_TEXT else short_repr(expected, 120)
            lines.append(f"{name}: expected {text}, got {short_repr(got, 120)}")
        return lines + compare_calls(self.children, execution.children, "children")

    def _accepts_output(self, output: object) -> bool:
        if self.output is EITHER or output is self.output:
            return True
        return ABSENT not in (output, self.output) and outputs_equal(self.output, output)


def compare_calls(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], what: str) -> list[str]:
    """Return how recorded calls differ from the expected ones, each difference as one line with its place."""
    lines: list[str] = []
    if len(expected) != len(calls):
        names, got = [one.name for one in expected], [call.name for call in calls]
        lines.append(f"{what}: expected {len(expected)} calls {names}, got {len(calls)} {got}")
    for index, (one, call) in enumerate(zip(expected, calls, strict=False)):
        lines += [f"{what}[{index}].{line}" for line in one.differences(call)]
    return lines


def require(lines: Sequence[str], where: str) -> None:
    """Raise an `AssertionError` that lists the differences, if there are any."""
    if lines:
        raise AssertionError("\n  ".join([f"{where}:", *lines]))


def _agree(expected: object, got: object) -> bool:
    if expected is SOME_TEXT:
        return isinstance(got, str) and bool(got)
    return expected is EITHER or json_equal(expected, got)
