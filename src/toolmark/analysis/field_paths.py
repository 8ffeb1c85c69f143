"""What stands at a place of a case? And which place did somebody mean who mistyped one?"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from toolmark._internal.model import Model
from toolmark.cases import AnyCase
from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.matching.json_compare import ABSENT
from toolmark.report import CaseResult

Place: TypeAlias = str | Callable[[Any], object]
"""Where something stands in a case, as names with dots between (`metadata.reward`), or a function of the case."""

_SAMPLED = 200


def values_at(cases: Sequence[AnyCase], place: Place, option: str) -> list[Any]:
    """Return what stands there in each case, `None` where nothing does.

    Raises:
        ConfigurationError: Nothing stands there in any case.
        InvalidDataError: A function raised.
    """
    if callable(place):
        found = [_called(place, case, name_of(cases, index), option) for index, case in enumerate(cases)]
        where = f"{path_of(place)}, the {option}, returned None for every case"
    else:
        parts = _parts(place, option)
        found = [_at(case, parts) for case in cases]
        if cases and all(value is ABSENT for value in found):
            raise ConfigurationError(f"no case has {place!r}, the {option}; {_nearest(cases, place)}")
        found = [None if value is ABSENT else value for value in found]
        where = f"{place!r}, the {option}, is null in every case that has it"
    if cases and all(value is None for value in found):
        raise ConfigurationError(where)
    return found


def value_at(case: AnyCase, path: str, option: str) -> Any:  # noqa: ANN401 - whatever stands there
    """Return what stands at a path of one case, or `None`.

    Raises:
        ConfigurationError: It is no path.
    """
    found = _at(case, _parts(path, option))
    return None if found is ABSENT else found


def _parts(place: object, option: str) -> list[str]:
    if not isinstance(place, str) or not place:
        raise ConfigurationError(f"{option} must be a path such as 'metadata.reward', or a function, got {place!r}")
    return place.removeprefix("$.").split(".")


def _called(function: Callable[[Any], object], case: AnyCase, name: str, option: str) -> object:
    try:
        return function(case)
    except Exception as error:
        message = f"the function {path_of(function)}, the {option}, raised {type(error).__name__} on {name}: {error}"
        raise InvalidDataError(message) from error


def _at(value: object, parts: Sequence[str]) -> Any:  # noqa: ANN401 - whatever stands there
    """Return what stands at a path, or `ABSENT`; a key may have dots in it."""
    if not parts:
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Model):
        known = parts[0] in type(value).model_fields
        return _at(getattr(value, parts[0]), parts[1:]) if known else ABSENT
    if isinstance(value, Mapping):
        for size in range(1, len(parts) + 1):
            key = ".".join(parts[:size])
            found = _at(value[key], parts[size:]) if key in value else ABSENT
            if found is not ABSENT:
                return found
    if isinstance(value, list) and parts[0].isdecimal() and int(parts[0]) < len(value):
        return _at(value[int(parts[0])], parts[1:])
    return ABSENT


def _nearest(cases: Sequence[AnyCase], wanted: str) -> str:
    """Return what a reader who mistyped a path needs: the nearest one that exists, or all of them."""
    known = list(dict.fromkeys(path for case in cases[:_SAMPLED] for path in _paths(case, "")))
    last = wanted.rpartition(".")[2]
    near = [path for path in known if path.rpartition(".")[2] == last]
    near += difflib.get_close_matches(wanted, known, n=1)
    near += [path for path in known if difflib.get_close_matches(last, [path.rpartition(".")[2]])]
    if near:
        return f"did you mean {near[0]!r}?"
    listed = ", ".join(known[:20])
    return f"there is {listed or 'nothing'}"


def _paths(value: object, prefix: str) -> Iterator[str]:
    """Yield the paths of what a case says of itself, without its calls."""
    if isinstance(value, Model):
        entries = [(name, getattr(value, name)) for name in type(value).model_fields if name in value.model_fields_set]
    elif isinstance(value, Mapping):
        entries = list(value.items())
    else:
        return
    for name, inner in entries:
        if isinstance(inner, (Model, Mapping)):
            yield from _paths(inner, f"{prefix}{name}.")
        elif not isinstance(inner, list):
            yield f"{prefix}{name}"


def path_of(place: Place) -> str:
    """Return how messages call a place: its path, or the name of its function."""
    return place if isinstance(place, str) else getattr(place, "__name__", type(place).__name__)


def name_of(cases: Sequence[AnyCase], index: int) -> str:
    """Return the name that reports give a case."""
    return CaseResult(index, cases[index], ()).label
