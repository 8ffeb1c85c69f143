"""Regular expressions with a time limit: patterns that take too long in one case raise an error instead of hanging.

Patterns come from people who write expectations, texts from models. `(a|aa)+$` on sixty letters would occupy Python's
own `re` for years, and it cannot be interrupted; the package regex, which reads the same patterns, can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import import_module
from time import thread_time
from typing import Any, Literal

from toolgrade._internal.budget import REGEX_SECONDS, current_budget
from toolgrade._internal.json import short_repr
from toolgrade._internal.options import require
from toolgrade.errors import ConfigurationError, LimitError

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
