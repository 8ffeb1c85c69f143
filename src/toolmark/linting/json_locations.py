"""Locations of the parts of an expectation in a JSON file, with keys as the file spells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from toolmark._internal.json import json_path

_OTHER_SPELLINGS = {"input_parameters": ("args", "arguments")}


@dataclass(frozen=True)
class Spot:
    """A value in the JSON of a case, and the keys and positions that lead to it."""

    value: Any
    steps: tuple[str | int, ...] = ()

    @property
    def path(self) -> str:
        """The JSON path."""
        return json_path(self.steps)

    def at(self, *fields: str | int) -> Spot:
        """Return the location of a field, in any spelling, or of an item.

        Steps that do not exist are skipped: an expectation may be a bare list where another one is `{"plan": [...]}`,
        and the nearest existing location is good enough for the reader.
        """
        spot = self
        for field in fields:
            spellings: tuple[str | int, ...] = (field,)
            if isinstance(field, str):
                spellings = (field, to_camel(field), *_OTHER_SPELLINGS.get(field, ()))
            spot = next(filter(None, map(spot._inside, spellings)), spot)
        return spot

    def under(self, *keys: str | int) -> Spot:
        """Return the location under the user's own keys, as deep as they exist."""
        spot = self
        for key in keys:
            inside = spot._inside(key)
            if inside is None:
                break
            spot = inside
        return spot

    def _inside(self, key: str | int) -> Spot | None:
        value = self.value
        steps = (*self.steps, key)
        if isinstance(key, int):
            return Spot(value[key], steps) if isinstance(value, (list, tuple)) and key < len(value) else None
        return Spot(value[key], steps) if isinstance(value, Mapping) and key in value else None
