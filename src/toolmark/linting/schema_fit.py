"""Checks of expected arguments against the JSON Schema of their tool; only certain problems are reported."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from toolmark._argument_validation import not_taken, violation_text
from toolmark._internal.json import canonical_json, json_path
from toolmark._internal.json_schema import build_validator
from toolmark._internal.text import short_json
from toolmark.calls import ToolSpec
from toolmark.errors import ToolmarkError
from toolmark.expect import Absent, Predicate, Schema
from toolmark.linting.sample_values import MOST_SAMPLES, Mark, Sample, Steps, samples
from toolmark.result import redact_at_path

_ABOUT_SIZE = frozenset({"type", "required", "additionalProperties", "minItems", "maxItems"})
"""Rules that do not depend on the values inside."""

_CONDITIONS = frozenset({"then", "else", "dependentSchemas"})


@dataclass(frozen=True)
class Misfit:
    """A problem at the place that the keys lead to; with `broken`, a problem of the schema itself."""

    keys: Steps
    message: str
    broken: bool = False


@dataclass(frozen=True)
class Tools:
    """The available tools (`None` if they are unknown), and the validators of their schemas."""

    specs: Sequence[ToolSpec] | None
    validators: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def of(self, specs: Sequence[ToolSpec] | None) -> Tools:
        """Return other tools that share the validators, so that each is built once."""
        return Tools(specs, self.validators)

    def named(self, accepts: Callable[[str], bool]) -> list[ToolSpec]:
        """Return the tools whose names are accepted."""
        return [spec for spec in self.specs or () if accepts(spec.name)]

    def misfits(self, specs: Sequence[ToolSpec], tree: Mapping[str, Any], *, extras: bool) -> list[Misfit]:
        """Return the problems of expected arguments with the first tool, or none if they fit any of the tools.

        With `extras`, a call may also have other arguments.

        Raises:
            MissingPackageError: There is a schema, and jsonschema is not installed.
        """
        by_tool: list[list[Misfit]] = []
        for spec in specs:
            by_tool.append(list(dict.fromkeys(self._misfits(spec, tree, extras=extras))))
            if not by_tool[-1]:
                return []
        return by_tool[0] if by_tool else []

    def _misfits(self, spec: ToolSpec, tree: Mapping[str, Any], *, extras: bool) -> Iterator[Misfit]:
        if spec.input_schema is None:
            return
        unusable = f"the tool {spec.name!r} cannot be checked against: "
        validator = self._validator(spec.input_schema)
        if isinstance(validator, str):
            yield Misfit((), unusable + validator, broken=True)
            return
        tried = list(islice(samples(dict(tree)), MOST_SAMPLES))
        fixed = len(tried) == 1 and not tried[0].marks and not extras
        for sample in tried:
            try:
                errors = list(validator.iter_errors(sample.value))
            except Exception as fault:  # noqa: BLE001 - an unresolvable $ref, an invalid pattern
                text = f"its input_schema cannot be used ({type(fault).__name__}: {fault})"
                yield Misfit((), unusable + text, broken=True)
                return
            for error in errors:
                if fixed or _depends_on_one_value(error):
                    yield from _certain_misfits(error, sample, tree, extras=extras)

    def _validator(self, schema: dict[str, Any]) -> Any:
        key = canonical_json(schema)
        if key not in self.validators:
            self.validators[key] = build_validator(schema, formats=False)
        return self.validators[key]


def _certain_misfits(error: Any, sample: Sample, tree: Mapping[str, Any], *, extras: bool) -> Iterator[Misfit]:
    """Yield the problems that an error of a sample proves for all accepted values."""
    keys: Steps = tuple(error.absolute_path)
    rule = str(error.validator)
    if not _proves(error, keys, rule, sample.marks):
        return
    if rule == "required":
        for name in error.validator_value:
            if name not in error.instance and (keys or not extras or name in tree):
                yield Misfit((*keys, name), _missing_text(name, sample.left_out.get((*keys, name))))
    elif rule == "additionalProperties" and error.validator_value is False:
        properties = list(error.schema.get("properties", {}))
        for name in not_taken(error):
            hint = suggestion(name, properties, "it takes")
            yield Misfit((*keys, name), f"the tool does not take {name!r}; {hint}")
    else:
        mark = sample.marks.get(keys)
        value = mark.matcher.describe() if mark else short_json(redact_at_path(error.instance, json_path(keys)))
        yield Misfit(keys, f"{value} {violation_text(error)}")


def suggestion(name: str, names: Sequence[str], verb: str) -> str:
    """Return `did you mean 'x'?` with the nearest of these names, or all of them after the verb."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"{verb} {', '.join(map(repr, names)) or 'none'}"


def _depends_on_one_value(error: Any) -> bool:
    """Return whether an error depends on one value alone, so that no other choice elsewhere avoids it."""
    if not _CONDITIONS.isdisjoint(map(str, error.absolute_schema_path)):
        return False
    return not isinstance(error.instance, (dict, list)) or str(error.validator) in _ABOUT_SIZE


def _missing_text(name: str, left_out: object) -> str:
    if left_out is None:
        return f"lacks {name!r}, which the tool requires"
    how = "must not be given" if isinstance(left_out, Absent) else "may be left out"
    return f"{name!r} {how}, and the tool requires it"


def _proves(error: Any, keys: Steps, rule: str, marks: Mapping[Steps, Mark]) -> bool:
    """Return whether all values that the marked parts represent have the error of a sample."""
    own = marks.get(keys)
    if own and rule in ("enum", "const"):
        allowed = error.validator_value if rule == "enum" else [error.validator_value]
        return not any(_may_accept(own, value) for value in allowed)
    above = [marks[keys[:length]] for length in range(len(keys)) if keys[:length] in marks]
    if any(mark.certainty != "types" for mark in above):
        return False
    if own:
        return rule == "type" and own.certainty != "nothing"
    if above:
        return rule == "type"
    inside = any(steps[: len(keys)] == keys for steps in marks)
    return rule in _ABOUT_SIZE if inside else "prefixItems" not in error.absolute_schema_path


def _may_accept(mark: Mark, value: object) -> bool:
    if mark.certainty == "nothing" or isinstance(mark.matcher, (Predicate, Schema)):
        return True
    try:
        return mark.matcher.accepts(value)
    except ToolmarkError:
        return True
