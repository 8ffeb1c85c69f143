"""Which cases can be scored by the sum of their similarities alone, and what is compared of them?

Most cases say plainly what was expected and what was called: names, and arguments that are JSON values. Those are taken
as they stand, from the fields of a case or from the object that a JSON parser returned, of which no models are made.
Whatever is not plain (a plan, an argument left open, a type, a value that needs converting, anything that would be an
error) is not taken; it goes the long way, which reads it, scores it or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final, NamedTuple

from toolmark._internal.json import parse_json
from toolmark.calls import ToolCall, ToolCallType
from toolmark.cases import LLMTestCase, MLLMTestCase
from toolmark.errors import ConfigurationError, InvalidDataError, MissingFieldError, Problem
from toolmark.matching._contained import contained
from toolmark.matching._kinds import Kinds, kinds_of
from toolmark.matching._weight import Calls, weight
from toolmark.matching.alignment import Denominator, quotient

_SIDES: Final = frozenset({"expected_tools", "tools_called"})
_TEXTS: Final = frozenset({"id", "name", "input", "actual_output", "expected_output"})
_CALL_TEXTS: Final = frozenset({"description", "reasoning", "id"})
_ARGUMENTS: Final = frozenset({"input_parameters", "inputParameters", "args", "arguments"})
_TYPES: Final = frozenset(member.value for member in ToolCallType)
_TWO: Final = frozenset({2})
_DICT: Final[frozenset[type]] = frozenset({dict})
_STR: Final[frozenset[type]] = frozenset({str})


class Sides(NamedTuple):
    """What is compared of a case.

    Attributes:
        expected: The expected calls.
        called: The called tools.
        kinds: What stands in their arguments.
        open: Some expected call leaves its arguments open; `{}` stands for them.
    """

    expected: Calls
    called: Calls
    kinds: Kinds
    open: bool = False


class Sum(NamedTuple):
    """What scores are made of, without the alignment that it could be read off.

    Attributes:
        top: The matched weight, w, is `top / bottom`.
        bottom: At least 1.
        expected: Number of expected calls, m.
        called: Number of called tools, n.
    """

    top: int
    bottom: int
    expected: int
    called: int

    def score(self, denominator: Denominator) -> float:
        """Return what `Alignment.score` returns, to the last bit."""
        m, n = self.expected, self.called
        if not m or not n:
            return float(m == n)
        if denominator == "f1":
            return quotient(2 * self.top, self.bottom * (m + n))
        divisor = m if denominator == "expected" else n if denominator == "called" else max(m, n)
        return quotient(self.top, self.bottom * divisor)

    @property
    def exact(self) -> bool:
        """Whether the two sides are the same call by call; of a sum in order."""
        return self.expected == self.called and self.top == self.expected * self.bottom


def sum_of(sides: Sides, *, ordered: bool, arguments: bool) -> Sum | None:
    """Return the sum of a case, or `None` where it takes an alignment to know it.

    Args:
        sides: What is compared.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
    """
    if sides.open and arguments:
        return None
    found = weight(sides.expected, sides.called, ordered=ordered, arguments=arguments, kinds=sides.kinds)
    return None if found is None else Sum(*found, len(sides.expected[0]), len(sides.called[0]))


def is_full(sides: Sides, denominator: Denominator, *, ordered: bool, arguments: bool) -> bool | None:
    """Return whether the score of a case is 1, or `None` where it takes an alignment to know it.

    Args:
        sides: What is compared.
        denominator: What the sum is divided by.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects.
    """
    m, n = len(sides.expected[0]), len(sides.called[0])
    if not m or not n or (m != n and denominator in {"longest", "f1"}):
        return m == n
    if sides.open and arguments:
        return None
    inner, outer = (sides.called, sides.expected) if denominator == "called" else (sides.expected, sides.called)
    return contained(inner, outer, ordered=ordered, arguments=arguments, kinds=sides.kinds)


def sides_of_calls(expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Sides | None:
    """Return what is compared of the calls of a case by names and arguments, or `None` where that is not all."""
    plain = _of_models(expected, called)
    return None if plain is None else _sides(*plain, [])


def _of_models(expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> tuple[Calls, Calls, bool] | None:
    """Return names and arguments of both sides, and whether some expected call leaves its arguments open."""
    is_open = False
    for call in expected:
        if call.type is not None:
            return None
        if "input_parameters" not in call.model_fields_set:
            is_open = True
    for call in called:
        if call.execution is not None and call.execution.not_captured:
            return None
    ours, theirs = (
        ([call.name for call in calls], [call.input_parameters or {} for call in calls]) for calls in (expected, called)
    )
    return ours, theirs, is_open


def sides_of_cases(cases: Sequence[object]) -> list[Sides | None]:
    """Return what is compared of cases, or of objects as a JSON parser returns them; `None` of one that is not plain.

    Cases are looked at together, which costs a fraction of looking at each; one by one where something is special.
    """
    if any(isinstance(case, (LLMTestCase, MLLMTestCase)) for case in cases):
        return _of_cases(cases)
    found = _together(cases)
    return [_alone(case) for case in cases] if found is None else found


def _of_cases(cases: Sequence[object]) -> list[Sides | None]:
    """Return the sides of cases; those beside them that are objects are left to others."""
    plain = [_of_case(case) for case in cases]
    kinds = kinds_of([arguments for found in plain if found for calls in found[:2] for arguments in calls[1]])
    if kinds is None:
        return [None] * len(plain)
    return [None if found is None else Sides(found[0], found[1], kinds, found[2]) for found in plain]


def _of_case(case: object) -> tuple[Calls, Calls, bool] | None:
    if not isinstance(case, (LLMTestCase, MLLMTestCase)):
        return None
    expected, called = case.expected_tools, case.tools_called
    return _of_models(expected, called) if isinstance(expected, list) and called is not None else None


def _together(cases: Sequence[object]) -> list[Sides | None] | None:
    """Return the sides of cases whose calls are names and arguments and nothing else."""
    beside: list[dict[str, Any]] = []
    lists: list[list[Any]] = []
    for case in cases:
        calls = _call_lists(case, beside)
        if calls is None:
            return None
        lists += calls
    calls = _names_and_arguments(list(chain.from_iterable(lists)))
    if calls is None:
        return None
    names, arguments = calls
    kinds = kinds_of([*arguments, *beside])
    if kinds is None:
        return None
    found: list[Sides | None] = []
    start = 0
    for expected, called in zip(lists[::2], lists[1::2], strict=True):
        middle = start + len(expected)
        stop = middle + len(called)
        ours, theirs = slice(start, middle), slice(middle, stop)
        found.append(Sides((names[ours], arguments[ours]), (names[theirs], arguments[theirs]), kinds))
        start = stop
    return found


def _alone(case: object) -> Sides | None:
    beside: list[dict[str, Any]] = []
    lists = _call_lists(case, beside)
    if lists is None:
        return None
    ours, theirs = _plain_calls(lists[0], beside, is_expected=True), _plain_calls(lists[1], beside)
    return None if ours is None or theirs is None else _sides(ours[0], theirs[0], ours[1], beside)


def _call_lists(case: object, beside: list[dict[str, Any]]) -> tuple[list[Any], list[Any]] | None:
    """Return the expected and the called tools of a case whose other fields need no reading.

    Args:
        case: What may be a case.
        beside: Takes the objects in the other fields.
    """
    if type(case) is not dict:
        return None
    expected: Any = case.get("expected_tools")
    called: Any = case.get("tools_called")
    if type(expected) is not list or type(called) is not list:
        return None
    for key, value in case.items():
        if type(value) is str or value is None:
            if key not in _TEXTS or not _is_text(value):
                return None
        elif key not in _SIDES and not _plain_field(key, value, beside):
            return None
    return expected, called


@contextmanager
def at_place(index: int) -> Generator[None, None, None]:
    """Say of an error which of several cases it is about.

    Args:
        index: Position of the case, from 0.
    """
    try:
        yield
    except InvalidDataError as error:
        problems = [Problem(f"$[{index}]{one.path.removeprefix('$')}", one.message) for one in error.problems]
        raise InvalidDataError(f"case #{index + 1}: {error}", problems) from error
    except (ConfigurationError, MissingFieldError) as error:
        raise type(error)(f"case #{index + 1}: {error}") from error


def _sides(ours: Calls, theirs: Calls, is_open: bool, beside: list[dict[str, Any]]) -> Sides | None:
    kinds = kinds_of([*ours[1], *theirs[1], *beside])
    return None if kinds is None else Sides(ours, theirs, kinds, is_open)


def _plain_field(key: object, value: object, beside: list[dict[str, Any]]) -> bool:
    """Return whether a field of a case, which is no text, is one that needs no reading; `beside` takes its values."""
    if key == "id":
        return type(value) is int
    if key == "tags":
        return type(value) is list and all(type(tag) is str and _is_text(tag) for tag in value)
    if key == "metadata" and type(value) is dict:
        beside.append(value)
        return True
    return False


def _is_text(value: str | None) -> bool:
    """Return whether a text can be written as UTF-8, which one with lone surrogates cannot."""
    if value is None or value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names_and_arguments(calls: list[Any]) -> tuple[list[str], list[dict[str, Any]]] | None:
    """Return names and arguments of calls that are nothing but that, as most are; `None` if any is more or less."""
    if not _DICT.issuperset(map(type, calls)) or not _TWO.issuperset(map(len, calls)):
        return None
    try:
        names: list[str] = [call["name"] for call in calls]
        arguments: list[dict[str, Any]] = [call["input_parameters"] for call in calls]
    except KeyError:
        return None
    if not _STR.issuperset(map(type, names)) or not all(names) or not _is_text("".join(names)):
        return None
    return (names, arguments) if _DICT.issuperset(map(type, arguments)) else None


def _plain_calls(
    calls: list[Any], beside: list[dict[str, Any]], *, is_expected: bool = False
) -> tuple[Calls, bool] | None:
    """Return names and arguments of calls, and whether some leave them open; `None` if any needs reading."""
    names: list[str] = []
    arguments: list[dict[str, Any]] = []
    is_open = False
    for call in calls:
        plain = _plain_call(call, beside, is_expected) if type(call) is dict else None
        if plain is None:
            return None
        is_open = is_open or plain[1] is None
        names.append(plain[0])
        arguments.append(plain[1] or {})
    return (names, arguments), is_open


def _plain_call(
    call: dict[str, Any], beside: list[dict[str, Any]], is_expected: bool
) -> tuple[str, dict[str, Any] | None] | None:
    """Return name and arguments of a call, `None` for arguments left open; or `None` if it needs reading."""
    name: Any = call.get("name")
    if type(name) is not str or not name or not _is_text(name):
        return None
    arguments: dict[str, Any] | None = None
    for key, value in call.items():
        if key in _ARGUMENTS:
            if arguments is not None:
                return None  # given twice
            arguments = _read_arguments(value)
            if arguments is None:
                return None
        elif key == "output":
            beside.append({"output": value})
        elif key == "type":
            if value is not None and (is_expected or type(value) is not str or value.lower() not in _TYPES):
                return None
        elif key in _CALL_TEXTS:
            if value is not None and (type(value) is not str or not _is_text(value)):
                return None
        elif key != "name":
            return None
    return name, arguments


def _read_arguments(value: object) -> dict[str, Any] | None:
    """Return the argument object that a value is, or is the JSON text of; `None` for anything else."""
    if value is None:
        return {}
    if type(value) is str:
        try:
            value = parse_json(value)
        except InvalidDataError:
            return None
    return value if type(value) is dict else None
