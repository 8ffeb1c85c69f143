"""What code can decide about a call, so that no judge is asked: is there such a tool, do its arguments fit?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from toolmark._argument_validation import Fit, Schemas, Violation
from toolmark.calls import ToolCall, ToolSpec

__all__ = ["Checked", "Checks", "Violation"]

State: TypeAlias = Literal["invalid", "open", "unknown"]

_STATES: Final[dict[Fit, State]] = {"invalid": "invalid", "unknown_tool": "unknown", "not_captured": "unknown"}


class Checked(NamedTuple):
    """What code says of the arguments of a call.

    Attributes:
        state: `invalid` (they are wrong), `open` (a judge must be asked), `unknown` (nobody can tell: they were not
            recorded, or there is no such tool).
        violations: What is wrong.
        note: Why a schema could not be used.
    """

    state: State
    violations: tuple[Violation, ...] = ()
    note: str | None = None


class Checks:
    """Checks calls against the tools that were available; `format` is left to the judge."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        """Take the tools; of several with one name, a call must fit one."""
        self._schemas = Schemas(tools)

    def known(self, call: ToolCall) -> bool:
        """Return whether a tool of this name was available."""
        return self._schemas.known(call)

    def arguments(self, call: ToolCall) -> Checked:
        """Return what code can say of a call's arguments.

        Raises:
            MissingPackageError: The tool has a schema, and jsonschema is not installed.
        """
        fit, violations, note = self._schemas.check(call)
        return Checked(_STATES.get(fit, "open"), violations, note)
