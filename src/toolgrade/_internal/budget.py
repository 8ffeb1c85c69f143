"""The work that checking one case may take, counted in steps, so that no schema, plan or text can occupy a process.

Steps are counted and not timed: the same case reaches the limit on every machine, or on none. Regular expressions are
the exception: the package regex can only be stopped by the clock, so a case has a number of seconds for all of them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any

from toolgrade.errors import LimitError

MOST_STEPS = 1_000_000
"""Steps of one case, a few seconds: rules of a schema at a value, and comparisons of calls, of items and of names."""
REGEX_SECONDS = 2.0
"""Seconds of one case for all regular expressions. A usual search takes microseconds, also on a busy machine."""
MOST_SEARCH_NODES = 60_000
"""Nodes of one case for the searches for the best order; after them a result states the bound of what was missed."""


@dataclass(slots=True)
class Budget:
    """What is left of the limits of one case, and what functions of the user said about its values.

    `verdicts` has the value, so that its `id` stays its own, and the verdict, by the `id` of function and value. So a
    function is asked once about each value of a case, however often the value is compared.
    """

    steps: int = MOST_STEPS
    seconds: float = REGEX_SECONDS
    search_nodes: int = MOST_SEARCH_NODES
    verdicts: dict[tuple[int, int], tuple[Any, bool]] = field(default_factory=dict[tuple[int, int], tuple[Any, bool]])

    def spend(self, steps: int, what: str) -> None:
        """Count steps of some work, such as `the schema {...}`.

        Raises:
            LimitError: The case has no steps left.
        """
        self.steps -= steps
        if self.steps < 0:
            raise LimitError(f"{what} needs more than the {MOST_STEPS:,} steps of one case; make it simpler")


_budget: ContextVar[Budget | None] = ContextVar("toolgrade_budget", default=None)


def current_budget() -> Budget:
    """Return the budget of the case that is measured; outside of a measurement, a new one."""
    return _budget.get() or Budget()


@contextmanager
def one_budget() -> Generator[None, None, None]:
    """Give all checks inside the budget of the case; outside of a measurement, one new budget together."""
    token = _budget.set(current_budget())
    try:
        yield
    finally:
        _budget.reset(token)


class CaseBudget:
    """Gives all checks inside one new budget. A class, as a generator would take three times as long for each case."""

    __slots__ = ("_token",)

    _token: Token[Budget | None]

    def __enter__(self) -> Budget:
        """Begin a new budget."""
        budget = Budget()
        self._token = _budget.set(budget)
        return budget

    def __exit__(self, *_error: object) -> None:
        """Return to the budget before."""
        _budget.reset(self._token)
