"""Reading of values of a case by their path, with suggestions for mistyped paths."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from types import NoneType
from typing import Any, TypeAlias

from toolgrade._internal.json import canonical_json, to_json_value
from toolgrade._internal.model import Model
from toolgrade.cases import AnyCase
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.matching.json_compare import ABSENT, AbsentType
from toolgrade.report.report import CaseResult

Place: TypeAlias = str | Callable[[Any], object]
"""Path of a value in a case (`metadata.reward`), or a function from a case to the value."""

_MAX_CASES = 200


def values_at(cases: Sequence[AnyCase], place: Place, option: str) -> list[Any]:
    """Return the value at a path in each case, `None` for cases without one.

    Raises:
        ConfigurationError: The place is not a path or a function, or no case has a value there.
        InvalidDataError: The function raised an exception.
    """
    if callable(place):
        values = [_call(place, case, name_of(cases, index), option) for index, case in enumerate(cases)]
        problem = f"{path_of(place)}, the {option}, returned None for every case"
    else:
        parts = _parts(place, option)
        stored = [_at(case, parts) for case in cases]
        values = list(map(_json_value, stored))
        problem = f"{place!r}, the {option}, is null in every case that has it"
        if {*map(type, stored)} == {AbsentType}:
            problem = f"no case has {place!r}, the {option}; {_nearest(cases, place)}"
    if {*map(type, values)} == {NoneType}:
        raise ConfigurationError(problem)
    return values


def value_at(case: AnyCase, path: str, option: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at a path in one case, or `None`.

    Raises:
        ConfigurationError: `path` is not a path.
    """
    return _json_value(_at(case, _parts(path, option)))


def cluster_of(case: AnyCase, path: str) -> str | None:
    """Return what repetitions of one case share, from the value at a path; `None` without one."""
    value = value_at(case, path, "cluster")
    return None if value is None else canonical_json(to_json_value(value, []))


def _parts(place: object, option: str) -> list[str]:
    if not isinstance(place, str) or not place:
        raise ConfigurationError(f"{option} must be a path such as 'metadata.reward', or a function, got {place!r}")
    return place.removeprefix("$.").split(".")


def _call(function: Callable[[Any], object], case: AnyCase, name: str, option: str) -> object:
    try:
        return function(case)
    except Exception as error:
        message = f"the function {path_of(function)}, the {option}, raised {type(error).__name__} on {name}: {error}"
        raise InvalidDataError(message) from error


def _at(value: object, parts: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at a path, or `ABSENT`."""
    if not parts or value is ABSENT:
        return value
    for size in range(1, len(parts) + 1):  # a key may contain dots
        inner = _at(_child(value, ".".join(parts[:size])), parts[size:])
        if inner is not ABSENT:
            return inner
    return ABSENT


def _child(value: object, key: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a field, a key or an item, or `ABSENT`."""
    if isinstance(value, Model):
        return getattr(value, key) if key in type(value).model_fields else ABSENT
    if isinstance(value, Mapping):
        return value.get(key, ABSENT)
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        return value[int(key)]
    return ABSENT


def _json_value(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value as a JSON value; `None` if it is absent."""
    if value is ABSENT:
        return None
    return value.value if isinstance(value, Enum) else value


def _nearest(cases: Sequence[AnyCase], mistyped: str) -> str:
    """Return a hint for a mistyped path: a path with the same last key, or a similar one, or a list of paths."""
    paths = list(dict.fromkeys(chain.from_iterable(map(_paths, cases[:_MAX_CASES]))))
    last = mistyped.rpartition(".")[2]
    near = [path for path in paths if path.rpartition(".")[2] == last]
    near += difflib.get_close_matches(mistyped, paths, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"the cases have {', '.join(paths[:20]) or 'no fields'}"


def _paths(value: object, keys: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the paths of the set fields of a case that are outside lists, which leaves out its calls."""
    if isinstance(value, Model):
        value = {name: getattr(value, name) for name in type(value).model_fields if name in value.model_fields_set}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _paths(inner, (*keys, str(name)))
    elif not isinstance(value, list):
        yield ".".join(keys)


def path_of(place: Place) -> str:
    """Return the name of a place in messages: its path, or the name of its function."""
    return place if isinstance(place, str) else getattr(place, "__name__", type(place).__name__)


def name_of(cases: Sequence[AnyCase], index: int) -> str:
    """Return the name of a case in reports."""
    return CaseResult(index, cases[index], ()).label
