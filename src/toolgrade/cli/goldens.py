"""Goldens of `toolgrade score --goldens`: expectations that are joined with recorded runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from toolgrade._internal.text import join_first, plural, printable
from toolgrade.analysis.field_paths import value_at
from toolgrade.cases import TestCase
from toolgrade.cli.io import name_of, stop, title_of, warn
from toolgrade.dataset import Golden
from toolgrade.formats.file_kind import has_calls, kind_of_file

_CONSEQUENCE = "nothing was scored"
_NAMED = 5
"""Cases and goldens without a partner that a warning names."""
_OWN_FIELDS = {"id", "input", "tags", "metadata"}
"""Fields of a golden that are no expectations."""


def joined(cases: Sequence[TestCase], goldens: Sequence[Golden], file: str, field: str | None) -> list[TestCase]:
    """Return the cases with the expectations of their goldens; exit if no case has one.

    A golden belongs to a case if its id is the id or the name of the case, or else if their inputs are equal and no
    other golden has this input. With `field`, a path such as `metadata.task`, its id must be the value of that field.
    What has no partner is a warning. `file` is the file of the goldens, for messages.
    """
    name = printable(title_of(file))
    by_id = _by_id(goldens, name)
    by_input = _by_input(goldens)
    results: list[TestCase] = []
    without: list[str] = []
    used: set[int] = set()
    for number, case in enumerate(cases, 1):
        golden = _golden_of(case, by_id, by_input, field)
        if golden is None:
            without.append(name_of(case, number))
            results.append(case)
        else:
            used.add(id(golden))
            results.append(_with_golden(case, golden))
    if not used:
        how = "by id, name or input" if field is None else f"by the field {field!r}"
        stop(f"no case has a golden in {name}, {how}; name the field that has the id with --golden-id FIELD")
    _warn_of_missing_partners(without, "case", f"without a golden in {name}")
    unused = [golden.id or golden.input for golden in goldens if id(golden) not in used]
    _warn_of_missing_partners(unused, "golden", f"of {name} without a case")
    return results


def refuse_other_kinds(path: str) -> None:
    """Exit if the file that should have goldens has recorded calls, or results."""
    kind = kind_of_file(path)
    name = printable(title_of(path))
    if kind == "results":
        stop(f"{name} has results, not goldens; name the file that says which calls are expected; {_CONSEQUENCE}")
    if has_calls(path, kind):
        remedy = f"`toolgrade approve {name} --out goldens.jsonl` makes goldens of them"
        stop(f"{name} has calls that were made, not goldens; {remedy}; {_CONSEQUENCE}")


def _warn_of_missing_partners(names: Sequence[str], noun: str, problem: str) -> None:
    if names:
        warn(f"{plural(len(names), noun)} {problem}: {join_first(names, _NAMED)}")


def _by_id(goldens: Sequence[Golden], name: str) -> dict[str, Golden]:
    """Return the goldens that have an id by it; exit if two have the same."""
    counts = Counter(golden.id for golden in goldens)
    del counts[None]
    repeated = [repr(golden_id) for golden_id, count in counts.items() if count > 1]
    if repeated:
        stop(f"{name} has several goldens with one id: {join_first(repeated, _NAMED)}; ids of goldens must differ")
    return {golden.id: golden for golden in goldens if golden.id}


def _by_input(goldens: Sequence[Golden]) -> dict[str, Golden]:
    """Return the goldens whose input no other golden has by it."""
    counts = Counter(golden.input for golden in goldens)
    return {golden.input: golden for golden in goldens if counts[golden.input] == 1}


def _golden_of(
    case: TestCase, by_id: Mapping[str, Golden], by_input: Mapping[str, Golden], field: str | None
) -> Golden | None:
    """Return the golden of a case."""
    if field is not None:
        value = value_at(case, field, "--golden-id")
        return None if value is None else by_id.get(str(value))
    text = case.input if isinstance(case.input, str) else ""
    return by_id.get(case.id or "") or by_id.get(case.name or "") or by_input.get(text)


def _with_golden(case: TestCase, golden: Golden) -> TestCase:
    """Return a case with what its golden says, as `evaluate` does; an id of its own stays."""
    fields = type(case).model_fields.keys()
    update = {name: getattr(golden, name) for name in golden.model_fields_set - _OWN_FIELDS if name in fields}
    is_of_run = case.run is not None and case.id == case.run.run_id
    if golden.id is not None and (case.id is None or is_of_run):
        update["id"] = golden.id
    if golden.metadata:
        update["metadata"] = {**case.metadata, **golden.metadata}
    if golden.tags:
        update["tags"] = [*dict.fromkeys([*golden.tags, *case.tags])]
    return case.model_copy(update=update)
