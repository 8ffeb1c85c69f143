"""Locations of the parts of an expectation in a JSON file, with the keys that the file uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from toolgrade._internal.json import json_path

_ALIASES = {"expected_tools": ("expected_agent_trajectory",), "input_parameters": ("args", "arguments")}


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
        """Return the location of a field, by any of its aliases, or of an item.

        Steps that do not exist are skipped: an expectation may be a bare list where another one is `{"plan": [...]}`,
        and the nearest existing location is good enough for the reader.
        """
        spot = self
        for field in fields:
            keys: tuple[str | int, ...] = (field,)
            if isinstance(field, str):
                keys = (field, to_camel(field), *_ALIASES.get(field, ()))
            spot = next(filter(None, map(spot._inside, keys)), spot)
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
        may_have_key = isinstance(self.value, (list, tuple) if isinstance(key, int) else Mapping)
        try:
            return Spot(self.value[key], (*self.steps, key)) if may_have_key else None
        except LookupError:
            return None
