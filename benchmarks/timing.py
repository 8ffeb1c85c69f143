"""Timing: processor time of this process, best of several rounds, within a budget.

Standard library only, since the workers of all libraries use it, each with its own interpreter. The garbage collector
stays on, but what was there before a round (the workload itself, the other cases) is none of its business: that it is
walked through now and then is not a cost of the library that is timed.
"""

from __future__ import annotations

import gc
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


class OverBudgetError(BaseException):
    """The first case did not end within the budget; no `Exception`, so that no library swallows it."""


@dataclass(frozen=True)
class Timing:
    """What one way of working took."""

    seconds: float | None
    """Per case, best round; `None` where not even the first case ended within the budget."""
    cases: int
    """How many cases were worked through in each round; fewer than given where the budget ended."""
    rounds: int

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Measured(Generic[Value]):
    """A time, and what the last round returned."""

    timing: Timing
    values: list[Value]


def measure(
    step: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    rounds: int,
    budget: float,
) -> Measured[Value]:
    """Time `step` over all `items`, `rounds` times, and keep the best round.

    A round goes through the items as often as it takes to fill a tenth of a second. Once `budget` seconds are used up
    no further case is begun, and no further round; a first case that takes longer than all of it is broken off.
    """
    if not items:
        return Measured(Timing(None, 0, 0), [])

    def work(several: Sequence[Item]) -> list[Value]:
        return [step(item) for item in several]

    settle()
    start = time.process_time()
    try:
        with _limit(budget):
            values = work(items[:1])
    except OverBudgetError:
        return Measured(Timing(None, 0, 0), [])
    # Looking at the clock costs as much as a small case, so only slow cases are watched one by one.
    if time.process_time() - start > 0.005:
        for place in range(1, len(items)):
            if time.process_time() - start > budget:
                break
            values += work(items[place : place + 1])
    else:
        values += work(items[1:])
    used = best = time.process_time() - start
    count, done = len(values), 1
    passes = max(1, math.ceil(0.1 / max(used, 0.0001)))
    while done < rounds and used + best * passes < budget:
        settle()
        start = time.process_time()
        for _ in range(passes):
            values = work(items[:count])
        seconds = time.process_time() - start
        used, best, done = used + seconds, min(best, seconds / passes), done + 1
    return Measured(Timing(best / count, count, done), values)


def settle() -> None:
    """Collect garbage, and freeze the remaining objects."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise `OverBudgetError` after so many seconds on the wall; on Windows nothing is limited.

    A timer of processor time would be the better limit, but while one is set Linux keeps the very clock coarsely that
    the times are taken with.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise OverBudgetError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
