"""Budget: a metric of what a run may spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from toolgrade._internal.json import is_number
from toolgrade._internal.options import require
from toolgrade._internal.text import printable
from toolgrade._internal.tool_names import first_match
from toolgrade.cases import TestCase
from toolgrade.errors import ConfigurationError, MissingFieldError
from toolgrade.metrics.base import Details, Measurement, Metric, result_of
from toolgrade.metrics.called_tools import case_label, check_case, run_notes
from toolgrade.result import Finding, MetricResult

if TYPE_CHECKING:
    from toolgrade.cases import Run
    from toolgrade.judge.cost import Price

_UNITS: Final = ("calls", "seconds", "tokens", "cost")


@dataclass(frozen=True, eq=False)
class BudgetMetric(Metric):
    """Checks a run against limits: the score is 1 within all of them, and 0 otherwise.

    A limit whose value was not recorded is an error, unless another one is exceeded: an unknown number of tokens, and a
    model without a price, are not 0. A case without calls is within `max_calls`, as there is nothing to check.

    Args:
        max_calls: The most calls; `None` for no limit. So below.
        max_seconds: The longest duration of the run.
        max_tokens: The most input and output tokens of the run together.
        max_cost: The highest cost, in the currency of `prices`.
        prices: The price of a million tokens by the name of the model, or a pattern: `{"gpt-4o*": {"input": 2.5,
            "output": 10}}`. In a run of several models that have different prices, each could have used all tokens;
            the cost is then unknown if the limit is between the lowest and the highest.
        threshold: The lowest score that passes, in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range, or there is no limit, or `max_cost` without `prices`.

    Example:
        >>> from toolgrade import BudgetMetric, LLMTestCase, Run
        >>> case = LLMTestCase(run=Run(usage={"input_tokens": 21000, "output_tokens": 300}))
        >>> print(BudgetMetric(max_tokens=20000).measure(case).reason)
        tokens: 21,300 tokens, 1,300 over the budget of 20,000 = 0 (failed at 1).
        Over budget: 21,300 tokens, 1,300 over the budget of 20,000.
    """

    _name: ClassVar[str] = "budget"

    max_calls: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    prices: Mapping[str, Price | Mapping[str, Any]] = field(default_factory=dict[str, Any])
    threshold: float = 1.0
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        super().__post_init__()
        for name in ("max_calls", "max_tokens"):
            value = getattr(self, name)
            is_valid = value is None or (type(value) is int and value >= 0)
            require(is_valid, f"{name} must be a whole number from 0, or None", value)
        for name in ("max_seconds", "max_cost"):
            value = getattr(self, name)
            is_valid = value is None or (is_number(value) and 0 <= value < float("inf"))
            require(is_valid, f"{name} must be a finite number from 0, or None", value)
        require(
            isinstance(self.prices, Mapping), "prices must map models to the price of a million tokens", self.prices
        )
        if not self._limits:
            names = ", ".join(f"max_{unit}" for unit in _UNITS)
            raise ConfigurationError(f"{type(self).__name__} must have at least one limit; set one of {names}")
        if self.max_cost is not None and not self.prices:
            raise ConfigurationError("max_cost needs prices, as in prices={'gpt-4o*': {'input': 2.5, 'output': 10}}")
        if self.prices:
            from toolgrade.judge.cost import read_prices  # noqa: PLC0415 - loads the judge's modules

            self._set(prices=read_prices(self.prices))

    @property
    def _limits(self) -> dict[str, float]:
        """The limits that are set, by their unit."""
        limits = {unit: getattr(self, f"max_{unit}") for unit in _UNITS}
        return {unit: limit for unit, limit in limits.items() if limit is not None}

    @property
    def _options(self) -> Sequence[str]:
        return [f"max_{unit}={limit:g}" for unit, limit in self._limits.items()]

    def _measure(self, case: TestCase) -> MetricResult:
        check_case(case, type(self).__name__)
        spent = {unit: self._spent(unit, case) for unit in self._limits}
        checked = [
            _Limit(unit, min(one.amounts), max(one.amounts), self._limits[unit])
            for unit, one in spent.items()
            if one.amounts
        ]
        unknown = [
            f"the {unit} of the run are unknown: {one.problem}" for unit, one in spent.items() if not one.amounts
        ]
        unknown += [one.uncertainty for one in checked if one.is_uncertain]
        decided = [one for one in checked if not one.is_uncertain]
        # A limit that is exceeded decides, whatever is unknown beside it.
        if unknown and not any(one.is_exceeded for one in decided):
            raise MissingFieldError(
                f"{type(self).__name__} cannot check a limit{case_label(case)}: {'; '.join(unknown)}"
            )
        details = Details(
            sums={one.unit: one.sum for one in decided},
            findings=[Finding("over_budget", f"Over budget: {one.text}.", "") for one in decided if one.is_exceeded],
            warnings=unknown,
        )
        scores = {one.unit: float(not one.is_exceeded) for one in decided}
        return result_of(self, Measurement(scores, details, run_notes(case)))

    def _spent(self, unit: str, case: TestCase) -> _Spent:
        """Return what a case has spent of a unit."""
        usage = {} if case.run is None else case.run.usage or {}
        if unit == "calls":
            count = None if case.tools_called is None else len(case.tools_called)
            return _Spent.of(count, "tools_called is missing")
        if unit == "seconds":
            return _Spent.of(None if case.run is None else case.run.duration, "the duration was not recorded")
        if unit == "tokens":
            both = [usage.get(name) for name in _TOKENS]
            total = usage.get("total_tokens") if None in both else sum(filter(None, both))
            return _Spent.of(total, "the usage was not recorded")
        return self._cost(case.run, usage)

    def _cost(self, run: Run | None, usage: Mapping[str, int]) -> _Spent:
        """Return the costs of the tokens, by the price of each model."""
        from toolgrade.judge.cost import cost_of, read_prices  # noqa: PLC0415 - as above

        if run is None or not usage.keys() >= _TOKENS:
            return _Spent((), "the usage was not recorded")
        if not run.models:
            return _Spent((), "the model was not recorded")
        patterns = {model: first_match(model, self.prices) for model in run.models}
        missing = [repr(printable(model)) for model, pattern in patterns.items() if pattern is None]
        if missing:
            return _Spent((), f"the price of {' and '.join(missing)} is unknown; give it in prices")
        prices = read_prices({pattern: self.prices[pattern] for pattern in patterns.values() if pattern})
        costs = [cost_of(usage, price) for price in prices.values()]
        return _Spent(tuple(costs))


_TOKENS: Final = {"input_tokens", "output_tokens"}


class _Spent(NamedTuple):
    """What may have been spent, one value if it is known; none if it is unknown, with the reason."""

    amounts: tuple[float, ...]
    problem: str = ""

    @classmethod
    def of(cls, amount: float | None, problem: str) -> _Spent:
        """Return an exact value, or the problem that there is none."""
        return cls((), problem) if amount is None else cls((amount,))


class _Limit(NamedTuple):
    """A limit, and the bounds of what was spent."""

    unit: str
    lowest: float
    highest: float
    limit: float

    @property
    def is_exceeded(self) -> bool:
        """Whether more was spent for sure."""
        return self.lowest > self.limit

    @property
    def is_uncertain(self) -> bool:
        """Whether it depends on which of several models used the tokens."""
        return self.lowest <= self.limit < self.highest

    @property
    def uncertainty(self) -> str:
        """Why it is not known whether the limit is exceeded."""
        bounds = f"between {self.lowest:,.6g} and {self.highest:,.6g}"
        return f"the {self.unit} is {bounds}, since it was not recorded which model used which tokens"

    @property
    def text(self) -> str:
        """What was spent and, over the limit, by how much it is exceeded."""
        unit = self.unit.removesuffix("s") if self.lowest == 1 else self.unit
        amount = f"{self.lowest:,.6g} {unit}"
        if self.is_exceeded:
            return f"{amount}, {self.lowest - self.limit:,.6g} over the budget of {self.limit:,.6g}"
        note = "; nothing to check" if not self.lowest else ""
        return f"{amount}, within the budget of {self.limit:,.6g}{note}"

    @property
    def sum(self) -> str:
        """The arithmetic of the score."""
        return f"{self.text} = {0 if self.is_exceeded else 1}"
