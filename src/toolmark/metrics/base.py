"""What all metrics share: measuring, and remembering the last result where the caller can see it.

A metric is frozen and stores nothing, so one object can measure many cases at once. `metric.score` after
`metric.measure(case)` still works: the result is kept in one context variable, per thread and per task, keyed weakly by
the metric.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard
from weakref import WeakKeyDictionary

from toolmark.errors import ConfigurationError, NotMeasuredError
from toolmark.result import MetricResult

if TYPE_CHECKING:
    from toolmark.judge.driver import Flow
    from toolmark.judge.protocol import Prompt

_Results = WeakKeyDictionary["Metric", MetricResult]

_last: ContextVar[_Results | None] = ContextVar("toolmark_last_results", default=None)


class MetricLike(Protocol):
    """What `evaluate` needs of a metric."""

    @property
    def label(self) -> str:
        """The name under which results are reported."""
        ...

    @property
    def threshold(self) -> float:
        """The score from which on a case passes."""
        ...

    def measure(self, case: Any, /) -> MetricResult:
        """Measure one case."""
        ...

    async def a_measure(self, case: Any, /) -> MetricResult:
        """Measure one case, awaiting where it must."""
        ...


class Metric(ABC):
    """Base of toolmark's metrics."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name under which results are reported, with the options that differ from the defaults."""

    @property
    def waits(self) -> bool:
        """Whether measuring waits for something outside, so that `evaluate` measures several cases at the same time."""
        return False

    @abstractmethod
    def _measure(self, case: Any) -> MetricResult | Flow[MetricResult]:
        """Return the result of one case, from the case and the options alone; or the flow that a judge is asked in."""

    def _show(self, result: MetricResult, case: Any) -> None:  # noqa: B027 - most metrics have nothing to show
        """Show the steps, if the metric was asked to."""

    def measure(self, case: Any, /) -> MetricResult:
        """Return the result of one case, and remember it for `score`, `reason`, `success` and `result`.

        Raises:
            ToolmarkError: The case cannot be measured; the message says which field is missing or wrong.
        """
        return self._kept(self._finished(self._measure(case)), case)

    def _finished(self, made: MetricResult | Flow[MetricResult]) -> MetricResult:
        """Return the result; asks the judge first where there is one to ask."""
        if isinstance(made, MetricResult):
            return made
        from toolmark.judge.driver import drive  # noqa: PLC0415 - only where a judge is asked

        return drive(made)

    async def a_measure(self, case: Any, /) -> MetricResult:
        """Return what `measure` returns; awaits where the metric has to wait for something."""
        made = self._measure(case)
        if not isinstance(made, MetricResult):
            from toolmark.judge.driver import a_drive  # noqa: PLC0415 - as above

            made = await a_drive(made)
        return self._kept(made, case)

    def prompts(self, case: Any, /) -> tuple[Prompt, ...]:
        """Return what a judge would be asked about a case, without asking; empty where no judge is needed.

        Raises:
            ToolmarkError: As for `measure`.
        """
        made = self._measure(case)
        if isinstance(made, MetricResult):
            return ()
        try:
            return next(made).prompts
        except StopIteration:
            return ()
        finally:
            made.close()

    def _kept(self, result: MetricResult, case: Any) -> MetricResult:
        # A new mapping each time: tasks inherit their parent's, and must not write into it.
        results: _Results = WeakKeyDictionary(_last.get() or {})
        results[self] = result
        _last.set(results)
        self._show(result, case)
        return result

    def _remembered(self) -> MetricResult | None:
        results = _last.get()
        return None if results is None else results.get(self)

    @property
    def result(self) -> MetricResult:
        """The result of the last `measure` of this metric in this thread or task.

        Raises:
            NotMeasuredError: Nothing was measured here.
        """
        result = self._remembered()
        if result is None:
            message = (
                f"{self.label} has measured nothing in this thread or task; call measure(case) here, or use the "
                "result that measure, a_measure or evaluate returned"
            )
            raise NotMeasuredError(message)
        return result

    @property
    def score(self) -> float | None:
        """The last score, in [0, 1]; `None` if it was skipped. See `result`."""
        return self.result.score

    @property
    def reason(self) -> str | None:
        """The last reason. See `result`."""
        return self.result.reason

    @property
    def success(self) -> bool | None:
        """Whether the last score passed. See `result`."""
        return self.result.passed

    def is_successful(self) -> bool:
        """Return whether the last score passed; False if there was none."""
        return bool(self.result.passed)


def check_threshold(value: object) -> float:
    """Return a threshold as a float.

    Raises:
        ConfigurationError: It is no number between 0 and 1.
    """
    if not is_share(value):
        message = f"threshold must be a number from 0 to 1, got {value!r}"
        raise ConfigurationError(message)
    return float(value)


def is_share(value: object) -> TypeGuard[float]:
    """Return whether a value is a number from 0 to 1."""
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 <= value <= 1
