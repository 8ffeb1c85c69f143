"""Regular expressions that cannot hang: a pattern that takes too long on a text is an error, not an endless run.

Patterns come from people who write expectations, texts from models. `(a|aa)+$` on sixty letters would keep Python's own
`re` busy for years, and it cannot be stopped; the package regex, which reads the same patterns, can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from toolmark._internal.json import short_repr
from toolmark.errors import ConfigurationError, ToolmarkError

SECONDS = 2.0
"""How long one search may take. The usual one takes microseconds, so that a busy machine does not matter."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A regular expression in Python's notation.

    Args:
        pattern: The expression.
        ignore_case: Letters match in either case.

    Raises:
        ConfigurationError: It is no regular expression.
    """

    pattern: str
    ignore_case: bool = False
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the expression."""
        regex = import_module("regex")  # loaded with the first pattern
        try:
            compiled = regex.compile(self.pattern, regex.IGNORECASE if self.ignore_case else 0)
        except (regex.error, TypeError) as error:
            message = f"{short_repr(self.pattern)} is no regular expression: {error}"
            raise ConfigurationError(message) from None
        object.__setattr__(self, "_compiled", compiled)

    def __reduce__(self) -> tuple[type[BoundedPattern], tuple[str, bool]]:
        """Compile anew in another process."""
        return type(self), (self.pattern, self.ignore_case)

    def search(self, text: str) -> bool:
        """Return whether the expression fits somewhere in a text.

        Raises:
            ToolmarkError: It takes longer than `SECONDS`.
        """
        return self._runs("search", text)

    def fullmatch(self, text: str) -> bool:
        """Return whether the expression fits a text as a whole.

        Raises:
            ToolmarkError: It takes longer than `SECONDS`.
        """
        return self._runs("fullmatch", text)

    def _runs(self, how: str, text: str) -> bool:
        try:
            return getattr(self._compiled, how)(text, timeout=SECONDS) is not None
        except TimeoutError:
            message = (
                f"the regular expression {short_repr(self.pattern)} took longer than {SECONDS:g} s on a text of "
                f"{len(text)} characters; write it without nested repetition, as in '(a|aa)+'"
            )
            raise ToolmarkError(message) from None
