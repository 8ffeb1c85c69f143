"""Checks of one expectation that can be read: contradictions, unknown tools, arguments, matchers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from operator import eq
from typing import Any, Final

from toolgrade._internal.json import MARK, json_items
from toolgrade._internal.text import short_json
from toolgrade.calls import ToolCall, ToolCallType, ToolEffect
from toolgrade.expect import Expect, Forbid, Glob, Matcher, OneOf, Parallel, Plan
from toolgrade.expect.plan import Expectation, Name, PlanItem, name_text, parse_argument_path, walk, with_matchers
from toolgrade.failed_calls import looks_failed
from toolgrade.linting.findings import LintFinding, LintKind, Spot
from toolgrade.linting.schema_fit import Tools, suggestion
from toolgrade.matching.argument_pattern import ONE, Template, holds_matcher
from toolgrade.matching.json_compare import ABSENT, AbsentType
from toolgrade.metrics.call_filter import CallFilter
from toolgrade.metrics.plan_variants import has_forbidden_calls, variants_of
from toolgrade.metrics.seen_values import SeenValues
from toolgrade.metrics.tool_effects import guess_effect

_PROVIDED = (ToolCallType.HOSTED, ToolCallType.MCP)
"""Types of tools that are offered under names other than those of their calls."""

_PLACEHOLDER: Final = re.compile(r"\.{2,}|…|TODO|TBD|FIXME|<[\w .-]+>|\{\{[^{}]*\}\}|\?{2,}")

_WILDCARDS: Final = frozenset("*?[")

_SUCCESSES: Final = CallFilter(ignore_failed=True, effects=None, guess_effects=False, tools=None)

_NAME_KEYS: dict[type, tuple[str, str]] = {Expect: ("expect", "expects"), Forbid: ("forbid", "forbids")}
"""The key that holds the name of a call in a file, and the verb of its findings."""


@dataclass(frozen=True)
class _LocatedItem:
    """An item of a plan, its location, and the forbidden calls that apply to it."""

    item: PlanItem
    spot: Spot
    forbidden: tuple[tuple[Forbid, Spot], ...]


def check_expectation(
    expected: Sequence[ToolCall] | Expectation,
    spot: Spot,
    tools: Tools,
    called: Sequence[ToolCall] = (),
    seen: SeenValues | None = None,
) -> Iterator[LintFinding]:
    """Yield the findings of the expectation of a case, which is at `spot` in the file.

    `called` are the calls of its recording, `seen` what the agent saw in it, if all of that is known.
    """
    plans = (Plan(list(expected)),) if isinstance(expected, Sequence) else expected.plans
    spots = [spot.at("alternatives", index) for index in range(len(plans))] if len(plans) > 1 else [spot]
    yield from _same_alternatives(plans, spots, "is the same plan as")
    for plan, where in zip(plans, spots, strict=True):
        yield from _PlanCheck(plan, where, tools, called, seen).findings()


def _finding(kind: LintKind, spot: Spot, message: str) -> LintFinding:
    return LintFinding(kind, spot.path, message)


@dataclass(frozen=True)
class _PlanCheck:
    """Checks one plan."""

    plan: Plan
    spot: Spot
    tools: Tools
    called: Sequence[ToolCall] = ()
    seen: SeenValues | None = None

    def findings(self) -> Iterator[LintFinding]:
        """Yield all findings."""
        if _asks_nothing(self.plan):
            message = "every call is optional and no other call is excluded, so an agent that calls nothing scores 1"
            yield _finding(LintKind.ASKS_NOTHING, self.spot, message)
        for tool in self.plan.tools:
            name = tool if _WILDCARDS.isdisjoint(tool) else Glob(tool)
            yield from self._unknown(name, self.spot.at("tools").under(tool), "has matchers for")
        for place in _places(self.plan.calls, self.spot.at("plan")):
            yield from self._item(place.item, place)

    def _item(self, item: PlanItem, place: _LocatedItem) -> Iterator[LintFinding]:
        if isinstance(item, OneOf):
            spots = [inside for _, inside in _nested(item, place.spot)]
            yield from _same_alternatives(item.alternatives, spots, "is the same as")
        elif isinstance(item, Parallel):
            yield from _order_in_one_step(item, place.spot)
        else:
            yield from self._call(item, place)

    def _call(self, call: ToolCall | Expect | Forbid, place: _LocatedItem) -> Iterator[LintFinding]:
        yield from _literal_matchers(call, place.spot) if isinstance(call, ToolCall) else _no_effect(call, place.spot)
        arguments = self._arguments(call)
        if not isinstance(call, Forbid):
            yield from self._forbidden(call, arguments, place)
            yield from self._failed(call, arguments, place.spot)
            yield from _placeholders(call.input_parameters, place.spot.at("input_parameters"))
            if self.seen is not None and not _reads(call.name):
                yield from _untraced(call.input_parameters, place.spot.at("input_parameters"), self.seen)
        if getattr(call, "type", None) not in _PROVIDED:
            key, verb = _NAME_KEYS.get(type(call), ("name", "expects"))
            yield from self._unknown(call.name, place.spot.at(key), verb)
            yield from self._misfits(call, arguments, place.spot)

    def _unknown(self, name: Name, spot: Spot, verb: str) -> Iterator[LintFinding]:
        if self.tools.specs is None or self.tools.named(_accepting(name)):
            return
        names = [spec.name for spec in self.tools.specs]
        what, mistyped = f"{name_text(name)}, which matches no available tool", ""
        if isinstance(name, str):
            what, mistyped = f"the tool {name!r}, which is not available", name
        hint = suggestion(mistyped, names, "there are")
        yield _finding(LintKind.UNKNOWN_TOOL, spot, f"{verb} {what}; {hint}")

    def _misfits(self, call: ToolCall | Expect | Forbid, arguments: Any, spot: Spot) -> Iterator[LintFinding]:
        """Yield problems of the arguments with the schema; none if there are no arguments or the tool is unknown."""
        if arguments is ABSENT:
            return
        template = Template.of(arguments)
        specs = self.tools.named(_accepting(call.name))
        for misfit in self.tools.misfits(specs, template.tree, extras=template.extras):
            kind = LintKind.SCHEMA if misfit.broken else LintKind.ARGUMENTS
            yield _finding(kind, _argument(call, spot, misfit.keys), misfit.message)

    def _arguments(self, call: ToolCall | Expect | Forbid) -> Any:
        """Return the arguments that a metric compares: an object, a template, or `ABSENT`."""
        alone = replace(call, label=None, after=()) if isinstance(call, Expect) else call
        layout = next(variants_of(Plan([alone], tools=self.plan.tools)))
        patterns = [pattern for pattern, _ in layout.forbidden] or layout.entries[0].patterns
        return patterns[0].item.arguments

    def _forbidden(self, call: ToolCall | Expect, arguments: Any, place: _LocatedItem) -> Iterator[LintFinding]:
        for forbid, spot in place.forbidden:
            if self._covers(forbid.name, call.name) and _hits(self._arguments(forbid), arguments):
                message = f"is forbidden by {spot.path}, so a call exactly as expected scores 0"
                yield _finding(LintKind.CONTRADICTION, place.spot, message)

    def _failed(self, call: ToolCall | Expect, arguments: Any, spot: Spot) -> Iterator[LintFinding]:
        """Yield a finding if the recording has this write, and it failed each time."""
        if arguments is ABSENT or _reads(call.name):
            return
        same = self._same_calls(_accepting(call.name), Template.of(arguments))
        done = _SUCCESSES.without_failed([], list(same.values())).called
        # Calls that were rejected, cancelled or not executed show nothing about the tool.
        if not done and any(looks_failed(one) for one in same.values()):
            message = f"was called exactly so (called #{min(same)}) and failed, so the expectation can hardly be met"
            yield _finding(LintKind.FAILED_CALL, spot, message)

    def _same_calls(self, accepts: Callable[[str], bool], template: Template) -> dict[int, ToolCall]:
        """Return the called tools that are exactly as expected, by their numbers."""
        return {
            number: one
            for number, one in enumerate(self.called, start=1)
            if accepts(one.name) and one.captured("input_parameters") and template.ratio(one.arguments) == ONE
        }

    def _covers(self, forbidden: Name, expected: Name) -> bool:
        """Return whether every expected name is certainly forbidden."""
        if isinstance(expected, str):
            return _accepting(forbidden)(expected)
        specs = self.tools.named(expected.accepts)
        return forbidden == expected or (bool(specs) and all(_accepting(forbidden)(spec.name) for spec in specs))


def _asks_nothing(plan: Plan) -> bool:
    """Return whether an agent fulfills a plan with calls without any call, and the plan excludes no other calls."""
    least = {getattr(call, "least", 1) for call in plan.expected_calls()}
    return least == {0} and plan.allow_extra is not False and not has_forbidden_calls(plan)


def _accepting(name: Name) -> Callable[[str], bool]:
    """Return the test whether another name is accepted."""
    return name.accepts if isinstance(name, Matcher) else partial(eq, name)


def _places(
    items: Sequence[PlanItem], spot: Spot, forbidden: tuple[tuple[Forbid, Spot], ...] = ()
) -> Iterator[_LocatedItem]:
    """Yield all items, also nested ones, with their locations and the forbidden calls that apply to them."""
    located = [(item, spot.at(index)) for index, item in enumerate(items)]
    forbidden += tuple((item, at) for item, at in located if isinstance(item, Forbid))
    for item, at in located:
        yield _LocatedItem(item, at, forbidden)
        for inner, where in _nested(item, at):
            yield from _places(inner, where, forbidden)


def _nested(item: PlanItem, spot: Spot) -> list[tuple[Sequence[PlanItem], Spot]]:
    """Return the lists of items inside an item, with their locations."""
    if isinstance(item, Parallel):
        return [(item.calls, spot.at("parallel"))]
    if isinstance(item, OneOf):
        return [(alternative, spot.at("one_of", index)) for index, alternative in enumerate(item.alternatives)]
    return []


def _same_alternatives(alternatives: Sequence[object], spots: Sequence[Spot], verb: str) -> Iterator[LintFinding]:
    for (first, earlier), (second, later) in combinations(zip(alternatives, spots, strict=True), 2):
        if first == second:
            yield _finding(LintKind.SAME_ALTERNATIVE, later, f"{verb} {earlier.path}")


def _order_in_one_step(item: Parallel, spot: Spot) -> Iterator[LintFinding]:
    """Yield calls of one step that must come after each other."""
    # Only these items have labels.
    members = [[one for one in walk([call]) if isinstance(one, (Expect, OneOf))] for call in item.calls]
    for index, inner in enumerate(members):
        others = chain.from_iterable(members[:index] + members[index + 1 :])
        after = set[str]().union(*(one.after for one in inner))
        for label in sorted(after.intersection(one.label for one in others)):
            message = f"must come after {label!r}, which must be called in the same step"
            yield _finding(LintKind.CONTRADICTION, spot.at("parallel", index), message)


def _literal_matchers(call: ToolCall, spot: Spot) -> Iterator[LintFinding]:
    for name in ("input_parameters", "output"):
        for keys in _literal_marks(getattr(call, name)):
            message = f"{MARK!r} is read as a key of the value; write the call as {{'expect': {call.name!r}, ...}}"
            yield _finding(LintKind.LITERAL_MATCHER, spot.at(name).under(*keys), message)


def _literal_marks(value: Any, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the keys that lead to objects that look like a matcher."""
    if isinstance(value, dict) and MARK in value:
        yield keys
        return
    for key, item in json_items(value):
        yield from _literal_marks(item, (*keys, key))


def _placeholders(value: Any, spot: Spot) -> Iterator[LintFinding]:
    """Yield the texts in an expected value that look like placeholders."""
    yield from check_placeholder(value, spot)
    for key, item in json_items(value):
        yield from _placeholders(item, spot.under(key))


def check_placeholder(text: object, spot: Spot) -> Iterator[LintFinding]:
    """Yield a finding if an expected value is a text that looks like a placeholder."""
    if isinstance(text, str) and _PLACEHOLDER.fullmatch(text.strip()):
        message = f"{short_json(text)} looks like a placeholder, which no agent says or passes; write the real value"
        yield _finding(LintKind.PLACEHOLDER, spot, message)


def _reads(name: Name) -> bool:
    return isinstance(name, str) and guess_effect(name) is ToolEffect.READ


def _untraced(value: Any, spot: Spot, seen: SeenValues) -> Iterator[LintFinding]:
    """Yield the values that a recorded agent could not know."""
    if not seen.explains(value):
        message = f"no task and no output mentions {short_json(value)}; use Ignore(), or From() if a call returns it"
        yield _finding(LintKind.UNTRACED, spot, message)
    for key, item in json_items(value):
        yield from _untraced(item, spot.under(key), seen)


def _no_effect(call: Expect | Forbid, spot: Spot) -> Iterator[LintFinding]:
    tree: Mapping[str, Any] = {} if call.input_parameters is ABSENT else call.input_parameters
    for place, matcher in call.at.items():
        if not matcher.complete and with_matchers(tree, {parse_argument_path(place): matcher}) == tree:
            message = f"has no value, and input_parameters has none at {place}, so it does nothing"
            yield _finding(LintKind.NO_EFFECT, spot.at("at").under(place), message)


def _argument(call: ToolCall | Expect | Forbid, spot: Spot, keys: tuple[str | int, ...]) -> Spot:
    """Return the location of an argument: in `at`, or in the arguments."""
    for place in getattr(call, "at", ()):
        steps = parse_argument_path(place)
        if keys[: len(steps)] == steps:
            return spot.at("at").under(place)
    return spot.at("input_parameters").under(*keys)


def _hits(forbidden: Template | AbsentType, arguments: Any) -> bool:
    """Return whether a call exactly as expected is certainly forbidden."""
    if isinstance(forbidden, AbsentType):
        return True
    tree = getattr(arguments, "tree", arguments)
    return isinstance(tree, dict) and not holds_matcher(tree) and forbidden.surely_fits(tree)
