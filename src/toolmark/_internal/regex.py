"""Regular expressions with a time limit: a pattern that takes too long on a text raises an error instead of hanging.

Patterns come from people who write expectations, texts from models. `(a|aa)+$` on sixty letters would occupy Python's
own `re` for years, and it cannot be interrupted; the package regex, which reads the same patterns, can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from toolmark._internal.json import short_repr
from toolmark.errors import ConfigurationError, ToolmarkError

SECONDS = 2.0
"""Time limit of one search. A usual search takes microseconds, so the limit holds on a busy machine, too."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A regular expression in Python's notation whose searches have a time limit.

    Both methods raise `ToolmarkError` after `SECONDS`.

    Raises:
        ConfigurationError: `pattern` is not a regular expression.
    """

    pattern: str
    ignore_case: bool = False
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the expression."""
        regex = import_module("regex")  # loaded with the first pattern
        try:
            compiled = regex.compile(self.pattern, regex.IGNORECASE if self.ignore_case else 0)
        except (regex.error, TypeError, OverflowError, RecursionError) as error:
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
        try:
            return getattr(self._compiled, method)(text, timeout=SECONDS) is not None
        except TimeoutError:
            message = (
                f"the regular expression {short_repr(self.pattern)} took longer than {SECONDS:g} s on a text of "
                f"{len(text)} characters; write it without nested repetition, as in '(a|aa)+'"
            )
            raise ToolmarkError(message) from None
