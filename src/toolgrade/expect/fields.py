"""Types of the fields of a case that hold expectations.

Most cases have lists of calls and plain texts, so the plans and matchers are loaded with the first value that may be
one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import WrapSerializer, WrapValidator

from toolgrade._internal.model import names_of
from toolgrade.calls import ToolCall
from toolgrade.matching.argument_pattern import is_pattern

if TYPE_CHECKING:
    from toolgrade.expect.matcher import Matcher
    from toolgrade.expect.plan import Alternatives, Plan

    ExpectedTools: TypeAlias = list[ToolCall] | Plan | Alternatives
    ExpectedOutput: TypeAlias = str | Matcher
else:

    def _read(value: Any, calls: Callable[[Any], list[ToolCall]]) -> Any:
        if is_list_of_calls(value):
            return calls(value)
        from toolgrade.expect.json_form import is_expectation, read_expectation  # noqa: PLC0415 - see above

        return read_expectation(value) if is_expectation(value) else calls(value)

    def _write(value: Any, calls: Callable[[Any], Any]) -> Any:
        if isinstance(value, list):
            return calls(value)
        from toolgrade.expect.json_form import expectation_json  # noqa: PLC0415 - see above
        from toolgrade.expect.plan import Alternatives, Plan  # noqa: PLC0415 - see above

        return expectation_json(value) if isinstance(value, (Plan, Alternatives)) else calls(value)

    def _read_output(value: Any, text: Callable[[Any], str]) -> Any:
        return read_matcher(value) if is_pattern(value) or isinstance(value, Mapping) else text(value)

    def _write_output(value: Any, text: Callable[[Any], Any]) -> Any:
        return value.to_json() if is_pattern(value) else text(value)

    ExpectedTools = Annotated[list[ToolCall], WrapValidator(_read), WrapSerializer(_write)]
    ExpectedOutput = Annotated[str, WrapValidator(_read_output), WrapSerializer(_write_output)]


def is_silence(expected: ExpectedTools | None) -> bool:
    """Return whether an expectation says that nothing is called: an empty list, or a plan without any item."""
    return expected is not None and not len(expected) and getattr(expected, "allow_extra", None) is not True


_CALLS: Final = frozenset({ToolCall})
_CALL_KEYS: Final = frozenset[str]().union(*(names_of(*field) for field in ToolCall.model_fields.items()))


def is_list_of_calls(value: object) -> bool:
    """Return whether a value is a list of calls whose keys are all those of a call."""
    if not isinstance(value, (list, tuple)):
        return False
    if _CALLS.issuperset(map(type, value)):
        return True
    return all(type(item) is ToolCall or (type(item) is dict and _CALL_KEYS.issuperset(item)) for item in value)


def read_matcher(value: object) -> Matcher:
    """Return the matcher that a JSON form describes, as `toolgrade.expect.json_form.read_matcher` does."""
    from toolgrade.expect.json_form import read_matcher  # noqa: PLC0415 - see above

    return read_matcher(value)
