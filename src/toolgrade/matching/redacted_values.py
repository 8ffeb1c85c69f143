"""What is compared where values were redacted: a mark says that the value is not known, not that it differs.

A key whose value is marked on either side is left out on both, as if neither side had ever named it. Objects are gone
into; a list is compared as a whole or not at all, so one mark anywhere inside leaves it out. An output is compared as a
whole too.
"""

from __future__ import annotations

import json
from typing import Any

from toolgrade._internal.markers import is_redacted
from toolgrade.matching.json_compare import Path


def has_mark(value: Any) -> bool:  # noqa: ANN401 - a JSON value
    """Return whether a value holds the mark, on its own or at any depth; keys are not looked at."""
    if type(value) is not dict and type(value) is not list:
        return is_redacted(value)
    for item in value.values() if type(value) is dict else value:  # noqa: SIM110 - `any` would take more stack
        if has_mark(item):
            return True
    return False


def without_marks(
    a: dict[str, Any], b: dict[str, Any], path: Path = ()
) -> tuple[dict[str, Any], dict[str, Any], list[Path]]:
    """Return two argument objects without the keys that cannot be compared, and the paths of those keys.

    Objects inside of both are gone into; other values stay as they are, so an object that holds a mark still differs
    from a number, and from a key that is not there.
    """
    left, right = dict(a), dict(b)
    hidden: list[Path] = []
    for key in {**a, **b}:
        value, other = a.get(key), b.get(key)
        if type(value) is dict and type(other) is dict:
            left[key], right[key], inner = without_marks(value, other, (*path, key))
            hidden += inner
        elif is_hidden(value) or is_hidden(other):
            left.pop(key, None)
            right.pop(key, None)
            hidden.append((*path, key))
    return left, right, hidden


def is_hidden(value: object) -> bool:
    """Return whether a value cannot be compared with anything: an object can, as far as its keys are known."""
    return type(value) is not dict and has_mark(value)


def place(field: str, path: Path) -> str:
    """Return where something stands in a call, such as `input_parameters.api_key`."""
    return field + "".join(
        f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{json.dumps(part)}]" for part in path
    )
