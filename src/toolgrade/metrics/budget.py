"""Budget: a metric of what a run may spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from toolgrade._internal.json import is_number
from toolgrade._internal.options import require
from toolgrade._internal.text import printable
from toolgrade._internal.tool_names import first_match
from toolgrade.cases import Run, TestCase
from toolgrade.errors import ConfigurationError, MissingFieldError
from toolgrade.metrics.base import Details, Measurement, Metric, result_of
from toolgrade.metrics.called_tools import case_label, check_case
from toolgrade.result import Finding, MetricResult

if TYPE_CHECKING:
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

    def _compute(self, case: TestCase) -> MetricResult:
        check_case(case, type(self).__name__)
        scores: dict[str, float] = {}
        arithmetic: dict[str, str] = {}
        findings: list[Finding] = []
        unknown: list[str] = []
        for unit, limit in self._limits.items():
            amount = self._spent(unit, case)
            if isinstance(amount, str):
                unknown.append(f"the {unit} of the run {'is' if unit == 'cost' else 'are'} unknown: {amount}")
                continue
            text = _text(unit, amount, limit)
            scores[unit] = float(amount <= limit)
            arithmetic[unit] = f"{text} = {scores[unit]:g}"
            if amount > limit:
                findings.append(Finding("over_budget", f"Over budget: {text}.", ""))
        # A limit that is exceeded decides, whatever is unknown beside it.
        if unknown and 0.0 not in scores.values():
            raise MissingFieldError(
                f"{type(self).__name__} cannot check a limit{case_label(case)}: {'; '.join(unknown)}"
            )
        details = Details(arithmetic, findings=findings, warnings=unknown)
        return result_of(self, self._with_notes_and_turns(case, Measurement(scores, details)))

    def _spent(self, unit: str, case: TestCase) -> float | str:
        """Return what a case has spent of a unit, or why that is unknown."""
        if unit == "calls":
            return "tools_called is missing" if case.tools_called is None else len(case.tools_called)
        run = case.run or Run()
        if unit == "seconds":
            return "the duration was not recorded" if run.duration is None else run.duration
        usage = run.usage or {}
        if usage.keys() >= {"input_tokens", "output_tokens"}:
            return self._cost(run.models, usage) if unit == "cost" else usage["input_tokens"] + usage["output_tokens"]
        return usage["total_tokens"] if unit == "tokens" and "total_tokens" in usage else "the usage was not recorded"

    def _cost(self, models: Sequence[str], usage: Mapping[str, int]) -> float | str:
        """Return the cost of tokens, of several models the end of its range that is nearer to the limit."""
        from toolgrade.judge.cost import cost_of, read_prices  # noqa: PLC0415 - as above

        patterns = {model: first_match(model, self.prices) for model in models}
        missing = [repr(printable(model)) for model, pattern in patterns.items() if pattern is None]
        if missing or not models:
            return f"the price of {' and '.join(missing)} is unknown" if missing else "the model was not recorded"
        prices = read_prices({pattern: self.prices[pattern] for pattern in patterns.values() if pattern})
        costs = [cost_of(usage, price) for price in prices.values()]
        lowest, highest, limit = min(costs), max(costs), self._limits["cost"]
        if lowest <= limit < highest:
            return f"between {lowest:,.6g} and {highest:,.6g}, as it was not recorded which model used which tokens"
        return highest if highest <= limit else lowest


def _text(unit: str, amount: float, limit: float) -> str:
    """Return what was spent and, over the limit, by how much it is exceeded."""
    text = f"{amount:,.6g} {unit.removesuffix('s') if amount == 1 else unit}"
    if amount > limit:
        return f"{text}, {amount - limit:,.6g} over the budget of {limit:,.6g}"
    return f"{text}, within the budget of {limit:,.6g}{'' if amount else '; nothing to check'}"
