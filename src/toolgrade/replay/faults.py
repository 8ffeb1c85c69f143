"""Faults that are planted in a replay, to see how an agent recovers."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

from toolgrade._internal.text import error_text
from toolgrade.capture.doubles import Answer
from toolgrade.errors import ConfigurationError
from toolgrade.matching.json_compare import ABSENT


@dataclass(frozen=True, eq=False)
class Fault:
    """A fault of a tool: it fails, answers something else, or is late.

    A call with an `error` or an `output` takes no recorded answer, so the next one gets it. The agent is then seen by
    `ToolRecoveryMetric` as if the tool itself had failed.

    Attributes:
        tool: Name of the tool.
        error: The failure, `"TypeName: text"` (see `toolgrade.replay`), or the exception itself.
        output: What the tool returns in place of the recorded output.
        delay: Seconds to wait before the answer, in addition to the fault, or alone.
        at: The first call of the tool in a run that has the fault, from 1; `None` for the first one.
        times: How many calls of the tool in a run have the fault, one after the other; by default 1 if `at` is given,
            else all.

    Raises:
        ConfigurationError: It has both an error and an output, or nothing, or a number is out of range.

    Example:
        >>> from toolgrade import ToolCall, observe, Run
        >>> from toolgrade.replay import Fault, replay
        >>> @observe(tool=True)
        ... def pay(amount):
        ...     raise AssertionError("this would pay")
        >>> tape = [Run(calls=[ToolCall(name="pay", input_parameters={"amount": 5}, output="paid")])]
        >>> with replay(tape, faults=[Fault("pay", error="TimeoutError: no answer", times=1)]):
        ...     try:
        ...         pay(5)
        ...     except TimeoutError as error:
        ...         print(f"{error}, then {pay(5)}")
        no answer, then paid
    """

    tool: str
    _: KW_ONLY
    error: str | Exception | None = None
    output: Any = ABSENT
    delay: float = 0.0
    at: int | None = None
    times: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        problem = self._problem()
        if problem is not None:
            raise ConfigurationError(f"Fault({self.tool!r}): {problem}")

    def _problem(self) -> str | None:
        for name in ("at", "times"):
            value: object = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                return f"{name} must be a whole number of at least 1, got {value!r}"
        if not isinstance(self.error, (str, Exception, type(None))):
            return f"error must be a text or an exception, got {self.error!r:.60}"
        if not self.delay >= 0:
            return f"delay must be a number of seconds of at least 0, got {self.delay!r}"
        if self.error is not None and self.output is not ABSENT:
            return "it must have an error or an output, and has both"
        if self.error is None and self.output is ABSENT and not self.delay:
            return "it must have an error, an output or a delay"
        return None

    def hits(self, number: int) -> bool:
        """Return whether the call of this number, from 1, of the tool in a run has the fault."""
        first = self.at or 1
        times = self.times or (1 if self.at is not None else None)
        return number >= first and (times is None or number < first + times)

    def answer(self, delay: float) -> Answer | None:
        """Return what answers the call, after this many seconds; `None` if the fault is a delay alone."""
        if isinstance(self.error, Exception):
            return Answer(error=error_text(self.error), raised=self.error, delay=delay)
        if self.error is not None:
            return Answer(error=self.error, delay=delay)
        return None if self.output is ABSENT else Answer(copy.deepcopy(self.output), delay=delay)
