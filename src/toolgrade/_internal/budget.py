"""The work that checking one case may take, counted in steps, so that no schema, plan or text can occupy a process.

Steps are counted and not timed: the same case reaches the limit on every machine, or on none. Regular expressions are
the exception: the package regex can only be stopped by the clock, so a case has a number of seconds for all of them.
Their patterns come from people who write expectations, their texts from models: `(a|aa)+$` on sixty letters would
occupy Python's own `re` for years, and it cannot be interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from importlib import import_module
from time import thread_time
from typing import Any, Literal

from toolgrade._internal.json import short_repr
from toolgrade._internal.options import require
from toolgrade.errors import ConfigurationError, LimitError

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


LONGEST_PATTERN = 10_000
"""Characters of a pattern; it may have ten times as many with its repetitions written out.

Compiling cannot be interrupted, so what is compiled is limited.
"""

_FREE_SECONDS = 1e-5
"""What a search may take without a charge: a usual one counts as a step of its caller, and many are no problem."""

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d{1,9})(?:,\d*)?\}|.", re.DOTALL)


def _written_out(pattern: str) -> int:
    """Return about how long a pattern is when `(ab){3}` is written as `ababab`, as it is compiled."""
    open_groups = [0]  # the length of each group that has begun, the whole pattern first
    last_length = 0
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            open_groups.append(0)
            continue
        if token["least"]:  # one copy is counted already; copies beyond the least are a loop, and not written out
            last_length *= max(int(token["least"]) - 1, 0)
        else:
            last_length = open_groups.pop() if token[0] == ")" and len(open_groups) > 1 else 1
        open_groups[-1] += last_length
    return sum(open_groups)


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A regular expression in Python's notation, whose searches take their time from the budget of the case.

    Both methods raise `LimitError` when the case has no time left.

    Raises:
        ConfigurationError: `pattern` is not a regular expression.
    """

    pattern: str
    ignore_case: bool = False
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the expression."""
        regex = import_module("regex")  # loaded with the first pattern
        require(isinstance(self.pattern, str), "a regular expression must be text", self.pattern)
        is_short = len(self.pattern) <= LONGEST_PATTERN and _written_out(self.pattern) <= 10 * LONGEST_PATTERN
        limit = f"{LONGEST_PATTERN:,} characters, and {10 * LONGEST_PATTERN:,} with its repetitions written out"
        require(is_short, f"a regular expression must have at most {limit}", self.pattern)
        try:
            compiled = regex.compile(self.pattern, regex.IGNORECASE if self.ignore_case else 0)
        except (regex.error, TypeError, ValueError, RecursionError, OverflowError, MemoryError) as error:
            message = f"{short_repr(self.pattern)} is not a regular expression: {error}"
            raise ConfigurationError(message) from None
        object.__setattr__(self, "_compiled", compiled)

    def __reduce__(self) -> tuple[type[BoundedPattern], tuple[str, bool]]:
        """Pickle the pattern alone; another process compiles it again."""
        return type(self), (self.pattern, self.ignore_case)

    def search(self, text: str) -> bool:
        """Return whether the expression matches somewhere in a text."""
        return self._matches("search", text)

    def fullmatch(self, text: str) -> bool:
        """Return whether the expression matches a whole text."""
        return self._matches("fullmatch", text)

    def _matches(self, method: Literal["search", "fullmatch"], text: str) -> bool:
        budget = current_budget()
        started = thread_time()
        try:
            if budget.seconds > 0:
                return getattr(self._compiled, method)(text, timeout=budget.seconds) is not None
        except TimeoutError:
            budget.seconds = 0
        finally:
            budget.seconds -= max(thread_time() - started - _FREE_SECONDS, 0)
        message = (
            f"the regular expression {short_repr(self.pattern)} and those before it took longer than the "
            f"{REGEX_SECONDS:g} s of one case, at last on a text of {len(text)} characters; write it without nested "
            "repetition, as in '(a|aa)+'"
        )
        raise LimitError(message)
