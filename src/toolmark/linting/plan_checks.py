"""Checks of one expectation that can be read: contradictions, unknown tools, arguments, matchers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from toolmark.calls import ToolCall, ToolCallType
from toolmark.expect import Expect, Expectation, Forbid, Glob, Matcher, OneOf, Parallel, Plan, PlanItem
from toolmark.expect.argument_paths import parse_argument_path, with_matchers
from toolmark.expect.matcher import MARK
from toolmark.expect.plan import Name, matchers_in, name_text, walk
from toolmark.linting.findings import LintFinding, LintKind
from toolmark.linting.json_locations import Spot
from toolmark.linting.schema_fit import Tools
from toolmark.matching.argument_pattern import ONE, Template
from toolmark.matching.json_compare import ABSENT
from toolmark.metrics.plan_variants import variants_of

_PROVIDED = (ToolCallType.HOSTED, ToolCallType.MCP)
"""Types of tools that are offered under names other than those of their calls."""


@dataclass(frozen=True)
class _Place:
    """An item of a plan, its location, and the forbidden calls that apply to it."""

    item: PlanItem
    spot: Spot
    forbidden: tuple[tuple[Forbid, Spot], ...]


def check_expectation(expected: Sequence[ToolCall] | Expectation, spot: Spot, tools: Tools) -> Iterator[LintFinding]:
    """Yield the findings of the expectation of a case, which is at a location in the file.

    Raises:
        MissingPackageError: A tool has a schema, and jsonschema is not installed.
    """
    plans = expected.plans if not isinstance(expected, Sequence) else (Plan(list(expected)),)
    spots = [spot.at("alternatives", index) if len(plans) > 1 else spot for index in range(len(plans))]
    for first, second in combinations(range(len(plans)), 2):
        if plans[first] == plans[second]:
            yield _finding(LintKind.SAME_ALTERNATIVE, spots[second], f"is the same plan as {spots[first].path}")
    for plan, where in zip(plans, spots, strict=True):
        yield from _PlanCheck(plan, where, tools).findings()


def _finding(kind: LintKind, spot: Spot, message: str) -> LintFinding:
    return LintFinding(kind, spot.path, message)


@dataclass(frozen=True)
class _PlanCheck:
    """Checks one plan."""

    plan: Plan
    spot: Spot
    tools: Tools

    def findings(self) -> Iterator[LintFinding]:
        """Yield all findings."""
        yield from self._unconditional()
        for tool in self.plan.tools if self.tools.specs is not None else ():
            yield from self._unknown(_pattern(tool), self.spot.at("tools").under(tool), "has matchers for")
        for place in _places(self.plan.calls, self.spot.at("plan")):
            item = place.item
            if isinstance(item, OneOf):
                yield from _same_alternatives(item, place.spot)
            elif isinstance(item, Parallel):
                yield from _order_in_one_step(item, place.spot)
            else:
                yield from self._call(item, place)

    def _unconditional(self) -> Iterator[LintFinding]:
        items = list(walk(self.plan.calls))
        calls = [item for item in items if isinstance(item, (ToolCall, Expect))]
        excludes = self.plan.allow_extra is False or any(isinstance(item, Forbid) for item in items)
        if calls and not excludes and all(isinstance(call, Expect) and call.least == 0 for call in calls):
            message = "every call is optional and no other call is excluded, so an agent that calls nothing scores 1"
            yield _finding(LintKind.ASKS_NOTHING, self.spot, message)

    def _call(self, call: ToolCall | Expect | Forbid, place: _Place) -> Iterator[LintFinding]:
        spot = place.spot
        if isinstance(call, ToolCall):
            yield from _literal_matchers(call, spot)
        else:
            yield from _without_effect(call, spot)
        arguments = self._arguments(call)
        if not isinstance(call, Forbid):
            yield from self._forbidden(call, arguments, place)
        if self.tools.specs is None or getattr(call, "type", None) in _PROVIDED:
            return
        at = spot.at("forbid" if isinstance(call, Forbid) else "expect" if isinstance(call, Expect) else "name")
        unknown = list(self._unknown(call.name, at, "forbids" if isinstance(call, Forbid) else "expects"))
        yield from unknown
        if not unknown and arguments is not ABSENT:
            yield from self._misfits(call, arguments, spot)

    def _unknown(self, name: Name, spot: Spot, verb: str) -> Iterator[LintFinding]:
        if self.tools.named(_accepting(name)):
            return
        names = [spec.name for spec in self.tools.specs or ()]
        near = difflib.get_close_matches(name, names, n=1) if isinstance(name, str) else []
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names) or 'none'}"
        what = (
            f"the tool {name!r}, which is not available"
            if isinstance(name, str)
            else f"{name_text(name)}, which matches no available tool"
        )
        yield _finding(LintKind.UNKNOWN_TOOL, spot, f"{verb} {what}; {hint}")

    def _misfits(self, call: ToolCall | Expect | Forbid, arguments: Any, spot: Spot) -> Iterator[LintFinding]:
        template = arguments if isinstance(arguments, Template) else Template(arguments)
        specs = self.tools.named(_accepting(call.name))
        misfits = self.tools.misfits(specs, template.tree, extras=template.extras)
        # Several values of one matcher have the same location in the file.
        yield from dict.fromkeys(
            _finding(
                LintKind.SCHEMA if misfit.broken else LintKind.ARGUMENTS,
                _argument(call, spot, misfit.keys),
                misfit.message,
            )
            for misfit in misfits
        )

    def _arguments(self, call: ToolCall | Expect | Forbid) -> Any:
        """Return the arguments that a metric compares: an object, a template, or `ABSENT`."""
        alone = replace(call, label=None, after=()) if isinstance(call, Expect) else call
        layout = next(variants_of(Plan([alone], tools=self.plan.tools)))
        if layout.forbidden:
            return layout.forbidden[0][0].item.arguments
        return layout.entries[0].patterns[0].item.arguments

    def _forbidden(self, call: ToolCall | Expect, arguments: Any, place: _Place) -> Iterator[LintFinding]:
        for forbid, spot in place.forbidden:
            if self._covers(forbid.name, call.name) and _hits(self._arguments(forbid), arguments):
                message = f"is forbidden by {spot.path}, so a call exactly as expected scores 0"
                yield _finding(LintKind.CONTRADICTION, place.spot, message)

    def _covers(self, forbidden: Name, expected: Name) -> bool:
        """Return whether every expected name is certainly forbidden."""
        if isinstance(expected, str):
            return _accepting(forbidden)(expected)
        specs = self.tools.named(expected.accepts)
        return forbidden == expected or (bool(specs) and all(_accepting(forbidden)(spec.name) for spec in specs))


def _accepting(name: Name) -> Callable[[str], bool]:
    return name.accepts if isinstance(name, Matcher) else lambda other: other == name


def _pattern(tool: str) -> Name:
    """Return the name or the pattern that a key of a plan's `tools` is."""
    return Glob(tool) if any(letter in tool for letter in "*?[") else tool


def _places(items: Sequence[PlanItem], spot: Spot, forbidden: tuple[tuple[Forbid, Spot], ...] = ()) -> Iterator[_Place]:
    """Yield all items, also nested ones, with their locations and the forbidden calls that apply to them."""
    spots = [spot.at(index) for index in range(len(items))]
    own = tuple((item, at) for item, at in zip(items, spots, strict=True) if isinstance(item, Forbid))
    for item, at in zip(items, spots, strict=True):
        yield _Place(item, at, forbidden + own)
        if isinstance(item, Parallel):
            yield from _places(item.calls, at.at("parallel"), forbidden + own)
        elif isinstance(item, OneOf):
            for index, alternative in enumerate(item.alternatives):
                yield from _places(alternative, at.at("one_of", index), forbidden + own)


def _same_alternatives(item: OneOf, spot: Spot) -> Iterator[LintFinding]:
    for first, second in combinations(range(len(item.alternatives)), 2):
        if item.alternatives[first] == item.alternatives[second]:
            other = spot.at("one_of", first).path
            yield _finding(LintKind.SAME_ALTERNATIVE, spot.at("one_of", second), f"is the same as {other}")


def _order_in_one_step(item: Parallel, spot: Spot) -> Iterator[LintFinding]:
    """Yield calls of one step that must come after each other."""
    members = [list(walk([call])) for call in item.calls]
    labels = [{one.label for one in inner if isinstance(one, (Expect, OneOf)) and one.label} for inner in members]
    for index, inner in enumerate(members):
        other_labels = {label for number, others in enumerate(labels) if number != index for label in others}
        required = {label for one in inner if isinstance(one, (Expect, OneOf)) for label in one.after}
        for label in sorted(required & other_labels):
            message = f"must come after {label!r}, which must be called in the same step"
            yield _finding(LintKind.CONTRADICTION, spot.at("parallel", index), message)


def _literal_matchers(call: ToolCall, spot: Spot) -> Iterator[LintFinding]:
    for name in ("input_parameters", "output"):
        for keys in _literal_marks(getattr(call, name)):
            message = f"{MARK!r} is read as a key of the value; write the call as {{'expect': {call.name!r}, ...}}"
            yield _finding(LintKind.LITERAL_MATCHER, spot.at(name).under(*keys), message)


def _literal_marks(value: Any, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict) and MARK in value:
        yield keys
        return
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from _literal_marks(item, (*keys, key))


def _without_effect(call: Expect | Forbid, spot: Spot) -> Iterator[LintFinding]:
    tree: Mapping[str, Any] = {} if call.input_parameters is ABSENT else call.input_parameters
    for place, matcher in call.at.items():
        if not matcher.complete and with_matchers(tree, {parse_argument_path(place): matcher}) == tree:
            message = f"has no value, and input_parameters has none at {place}, so it does nothing"
            yield _finding(LintKind.NO_EFFECT, spot.at("at").under(place), message)


def _argument(call: ToolCall | Expect | Forbid, spot: Spot, keys: tuple[str | int, ...]) -> Spot:
    """Return the location of an argument: in `at`, or in the arguments."""
    if not isinstance(call, ToolCall):
        for place in call.at:
            steps = parse_argument_path(place)
            if keys[: len(steps)] == steps:
                return spot.at("at").under(place)
    return spot.at("input_parameters").under(*keys) if keys else spot.at("input_parameters")


def _hits(forbidden: Any, arguments: Any) -> bool:
    """Return whether a call exactly as expected is certainly forbidden."""
    if forbidden is ABSENT:
        return True
    tree = arguments.tree if isinstance(arguments, Template) else arguments
    if not isinstance(forbidden, Template) or not isinstance(tree, dict) or any(matchers_in(tree)):
        return False
    return not forbidden.mismatches(tree).hidden and forbidden.ratio(tree) == ONE
