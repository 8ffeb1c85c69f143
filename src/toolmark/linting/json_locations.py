"""Where in the file does a part of an expectation stand? Paths as the file spells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from toolmark._internal.json import json_path

_OTHERS = {"input_parameters": ("args", "arguments")}


@dataclass(frozen=True)
class Spot:
    """A place in the JSON value of a case.

    Attributes:
        value: What stands there.
        steps: The keys and positions that lead there.
    """

    value: Any
    steps: tuple[str | int, ...] = ()

    @property
    def path(self) -> str:
        """The JSON path."""
        return json_path(self.steps)

    def at(self, *fields: str | int) -> Spot:
        """Return the place of a field, by any of its spellings, or of an item.

        A step that leads nowhere is left out: an expectation may be a bare list where another one is `{"plan": [...]}`,
        and the nearest place that there is tells the reader enough.
        """
        spot = self
        for field in fields:
            spellings = (field,) if isinstance(field, int) else (field, to_camel(field), *_OTHERS.get(field, ()))
            spot = next((found for one in spellings if (found := spot._inner(one)) is not None), spot)
        return spot

    def under(self, *keys: str | int) -> Spot:
        """Return the place under keys of the user's own, as far as they lead."""
        spot = self
        for key in keys:
            found = spot._inner(key)
            if found is None:
                break
            spot = found
        return spot

    def _inner(self, key: str | int) -> Spot | None:
        value = self.value
        if isinstance(key, int):
            there = isinstance(value, (list, tuple)) and key < len(value)
            return Spot(value[key], (*self.steps, key)) if there else None
        return Spot(value[key], (*self.steps, key)) if isinstance(value, Mapping) and key in value else None
