"""Goldens that are joined with recorded runs: each case gets the expectations of its golden."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from toolgrade._internal.text import join_first, plural
from toolgrade.cases import TestCase
from toolgrade.dataset import Golden, read_goldens, source_name
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.field_paths import value_at

_NAMED = 5
"""Cases and goldens without a partner that a warning names."""
_OWN_FIELDS = {"id", "input", "tags", "metadata"}
"""Fields of a golden that are no expectations."""


class Joined(NamedTuple):
    """A case with its golden's expectations, and the position of the golden; `None` without one."""

    case: TestCase
    golden: int | None


class GoldenSet:
    """Goldens of recorded runs.

    A golden belongs to a case if its id is the id or the name of the case, or else if their inputs are equal and no
    other golden has this input. With `field`, a path such as `metadata.task`, its id must be the value of that field.
    """

    def __init__(self, goldens: Sequence[Golden], name: str, field: str | None) -> None:
        """Take the goldens; messages call them `name`.

        Raises:
            ConfigurationError: Two have the same id.
        """
        self.goldens = goldens
        self.name = name
        self.field = field
        ids = Counter(golden.id for golden in goldens if golden.id)
        repeated = [repr(golden_id) for golden_id, count in ids.items() if count > 1]
        if repeated:
            listed = join_first(repeated, _NAMED)
            raise ConfigurationError(f"{name} has several goldens with one id: {listed}; ids of goldens must differ")
        inputs = Counter(golden.input for golden in goldens)
        self._by_id = {golden.id: place for place, golden in enumerate(goldens) if golden.id}
        self._by_input = {golden.input: place for place, golden in enumerate(goldens) if inputs[golden.input] == 1}

    @classmethod
    def load(cls, path: str | os.PathLike[str], field: str | None, *, allow_nan: bool = False) -> GoldenSet:
        """Return the goldens of a file.

        Raises:
            ConfigurationError: Two goldens have the same id.
            DataFileError: It has no goldens, or something else.
            OSError: It cannot be opened or read.
        """
        return cls(read_goldens(path, allow_nan=allow_nan), source_name(path), field)

    def join(self, case: TestCase) -> Joined:
        """Return the case with what its golden says, as `evaluate` does with an agent; an id of its own stays."""
        place = self._golden_of(case)
        if place is None:
            return Joined(case, None)
        golden = self.goldens[place]
        fields = type(case).model_fields.keys()
        update = {name: getattr(golden, name) for name in golden.model_fields_set - _OWN_FIELDS if name in fields}
        is_of_run = case.run is not None and case.id == case.run.run_id
        if golden.id is not None and (case.id is None or is_of_run):
            update["id"] = golden.id
        if golden.metadata:
            update["metadata"] = {**case.metadata, **golden.metadata}
        if golden.tags:
            update["tags"] = [*dict.fromkeys([*golden.tags, *case.tags])]
        return Joined(case.model_copy(update=update), place)

    def _golden_of(self, case: TestCase) -> int | None:
        if self.field is not None:
            value = value_at(case, self.field, "golden_id")
            return None if value is None else self._by_id.get(str(value))
        text = case.input if isinstance(case.input, str) else ""
        for key, places in ((case.id, self._by_id), (case.name, self._by_id), (text, self._by_input)):
            if key and key in places:
                return places[key]
        return None

    def missing_partners(self, used: Collection[int], without: Sequence[str]) -> list[str]:
        """Return the warnings about goldens without a case and cases `without` a golden, by their names.

        Raises:
            ConfigurationError: No golden has a case.
        """
        if not used:
            how = "by id, name or input" if self.field is None else f"by the field {self.field!r}"
            remedy = "name the field that has the id with golden_id (--golden-id)"
            raise ConfigurationError(f"no case has a golden in {self.name}, {how}; {remedy}")
        unused = [golden.id or golden.input for place, golden in enumerate(self.goldens) if place not in used]
        texts = [_missing(without, "case", f"without a golden in {self.name}")]
        texts.append(_missing(unused, "golden", f"of {self.name} without a case"))
        return [text for text in texts if text]


def _missing(names: Sequence[str], noun: str, problem: str) -> str:
    return f"{plural(len(names), noun)} {problem}: {join_first(names, _NAMED)}" if names else ""
