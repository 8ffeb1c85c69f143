"""Variants of an expectation: every way to follow a plan, in the form that the matching algorithms align.

A variant takes one of several plans, and one alternative of each `OneOf`. Where all alternatives of a `OneOf` are
single required calls, no variants are needed: one slot accepts any of these calls, and the assignment chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import count

from toolgrade._internal.text import number_text, printable
from toolgrade.calls import ToolCall, ToolCallType, ToolSpec, step_of
from toolgrade.expect.matcher import Matcher
from toolgrade.expect.plan import (
    ArgumentPath,
    Expect,
    Expectation,
    Forbid,
    Name,
    OneOf,
    Parallel,
    Plan,
    PlanItem,
    is_single_slot,
    matchers_in,
    name_text,
    parse_argument_path,
    walk,
    with_matchers,
)
from toolgrade.matching.alignment import Alignment, CallItem, CallPattern
from toolgrade.matching.argument_pattern import Template
from toolgrade.matching.engine import Layout, LayoutEntry, align_layout, places_of
from toolgrade.matching.json_compare import ABSENT, AbsentType
from toolgrade.metrics.called_tools import called_item, expected_item, item_by_meaning


class Aligner:
    """Aligns the called tools of a case with one variant of a plan after the other."""

    def __init__(self, called: Iterable[ToolCall], *, arguments: bool, output: bool = False) -> None:
        """Prepare the called tools."""
        calls = list(called)
        self.items = [called_item(call, output=output) for call in calls]
        self._steps = list(map(step_of, calls))
        self._compared = {"arguments": arguments, "output": output}

    def align(self, variant: Layout, *, ordered: bool) -> Alignment:
        """Return the best alignment with a variant, in the order of both sides or in any order."""
        return align_layout(variant, self.items, self._steps, ordered=ordered, **self._compared)

    def turns(self, variant: Layout) -> list[int | None]:
        """Return the turn of the user in which each slot of a variant must be called."""
        places = zip(variant.entries, places_of(variant, self.items), strict=True)
        return [entry.patterns[0].item.turn for entry, size in places for _ in range(size)]


def align_plan(
    expected: Expectation,
    called: Iterable[ToolCall],
    score: Callable[[Alignment], float],
    is_included: Callable[[CallPattern], bool],
    *,
    ordered: bool,
    arguments: bool,
    output: bool,
    by_meaning: bool = False,
    tools: Sequence[ToolSpec] = (),
) -> tuple[Alignment, list[int | None]]:
    """Return the best alignment of the called tools with the variant that scores best; of equal scores the first.

    The second result has the turn in which each slot must be called.

    Expected calls that `is_included` rejects are dropped, as if the plan did not contain them. `tools` say which
    arguments may be left out, if they are compared by meaning.
    """
    aligner = Aligner(called, arguments=arguments, output=output)
    variants = (_reduced(variant, is_included) for variant in variants_of(expected, output=output))
    compared = (layout_by_meaning(variant, tools) for variant in variants) if by_meaning else variants
    aligned = ((aligner.align(variant, ordered=ordered), variant) for variant in compared)
    best, variant = max(aligned, key=lambda one: score(one[0]))
    return best, aligner.turns(variant)


def _reduced(variant: Layout, is_included: Callable[[CallPattern], bool]) -> Layout:
    """Return a variant without the rejected calls; an entry that loses one of several alternatives is not required."""
    entries: list[LayoutEntry] = []
    for entry in variant.entries:
        patterns = tuple(filter(is_included, entry.patterns))
        if len(patterns) == len(entry.patterns):
            entries.append(entry)
        elif patterns:
            entries.append(entry._replace(patterns=patterns, least=0))
    return replace(variant, entries=tuple(entries))


def layout_by_meaning(layout: Layout, tools: Sequence[ToolSpec]) -> Layout:
    """Return a variant of a plan whose arguments are compared by meaning; those of forbidden calls stay exact."""

    def of_meaning(entry: LayoutEntry) -> LayoutEntry:
        patterns = (pattern._replace(item=item_by_meaning(pattern.item, tools)) for pattern in entry.patterns)
        return entry._replace(patterns=tuple(patterns))

    return replace(layout, entries=tuple(map(of_meaning, layout.entries)))


def plan_patterns(expected: Expectation) -> list[CallPattern]:
    """Return all calls that an expectation asks for in any of its variants, without forbidden ones."""
    return [pattern for variant in variants_of(expected) for entry in variant.entries for pattern in entry.patterns]


def variants_of(expected: Expectation, *, output: bool = False) -> Iterator[Layout]:
    """Yield every variant of an expectation in written order."""
    plans = len(expected.plans)
    for index, plan in enumerate(expected.plans):
        name = f" {plan.name!r}" if plan.name else ""
        choices = (f"plan #{index + 1} of {plans}{name}",) if plans > 1 else ()
        yield from _PlanReader(plan, output).variants(choices)


def plan_warnings(expected: Expectation, alignment: Alignment, *, arguments: bool) -> list[str]:
    """Return warnings about matchers that were not used and about a search that stopped early."""
    warnings: list[str] = []
    if not arguments and _has_argument_matchers(expected):
        warnings.append("argument matchers were not used: evaluation_params does not contain INPUT_PARAMETERS")
    if alignment.gap:
        gap = number_text(alignment.gap)
        warnings.append(f"the search for the best order was given up: the matched weight may be up to {gap} higher")
    return warnings


def _has_argument_matchers(expected: Expectation) -> bool:
    if any(plan.tools for plan in expected.plans):
        return True
    calls = [call for call in expected.expected_calls() if isinstance(call, Expect)]
    return any(call.at or any(matchers_in(call.input_parameters)) for call in calls)


def has_forbidden_calls(plan: Plan) -> bool:
    """Return whether a plan forbids calls."""
    return any(isinstance(item, Forbid) for item in walk(plan.calls))


@dataclass(frozen=True, slots=True)
class _Context:
    """Settings that a call inherits from the items around it."""

    labels: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    group: int | None = None

    def inside(self, item: Expect | OneOf | Parallel, group: int | None = None) -> _Context:
        labels = self.labels if item.label is None else self.labels | {item.label}
        return _Context(labels, self.after | frozenset(item.after), self.group if group is None else group)


class _PlanReader:
    """Turns a plan into its variants."""

    def __init__(self, plan: Plan, output: bool) -> None:
        self.plan = plan
        self.output = output
        self._groups = count()
        self._choices = count(1)

    def variants(self, choices: tuple[str, ...]) -> Iterator[Layout]:
        extras = self.plan.allow_extra
        if extras is None and has_forbidden_calls(self.plan) and not any(self.plan.expected_calls()):
            extras = True  # a plan that only forbids calls allows all others
        for variant in self._sequence(self.plan.calls, _Context()):
            yield replace(variant, extras=extras, choices=choices + variant.choices)

    def _sequence(self, items: Sequence[PlanItem], context: _Context) -> list[Layout]:
        variants = [Layout(())]
        for item in items:
            options = self._options(item, context)
            variants = [_joined(first, option) for first in variants for option in options]
        return variants

    def _options(self, item: PlanItem, context: _Context) -> list[Layout]:
        if isinstance(item, Forbid):
            pattern = _pattern(item.name, CallItem("", None, _arguments(item), ABSENT, item.turn))
            return [Layout((), forbidden=((pattern, printable(name_text(item.name))),))]
        if isinstance(item, (ToolCall, Expect)):
            return [Layout((self._entry([item], context),))]
        if isinstance(item, Parallel):
            return self._sequence(item.calls, context.inside(item, next(self._groups)))
        inside = context.inside(item)
        if is_single_slot(item):
            return [Layout((self._entry([alternative[0] for alternative in item.alternatives], inside),))]
        return list(self._alternatives(item, inside))

    def _alternatives(self, item: OneOf, context: _Context) -> Iterator[Layout]:
        number = next(self._choices)
        for place, alternative in enumerate(item.alternatives, 1):
            choice = f"alternative #{place} of {len(item.alternatives)} of choice #{number}"
            for option in self._sequence(alternative, context):
                yield replace(option, choices=(choice, *option.choices))

    def _entry(self, items: Sequence[PlanItem], context: _Context) -> LayoutEntry:
        """Return the entry that accepts any of these calls."""
        calls = [item for item in items if isinstance(item, (ToolCall, Expect))]
        patterns = tuple(map(self._pattern_of, calls))
        text = " or ".join(name_text(call.name) for call in calls)
        # Alternatives of one entry are required once each, so the conditions of the last one are those of all.
        last = calls[-1]
        times: tuple[int, int | None] = (1, 1)
        if isinstance(last, Expect):
            context, times = context.inside(last), (last.least, last.most)
        return LayoutEntry(patterns, text, *times, context.labels, context.after, context.group)

    def _pattern_of(self, call: ToolCall | Expect) -> CallPattern:
        defaults = self._default_matchers(call.name)
        if isinstance(call, Expect):
            kind = None if call.type is None else ToolCallType(call.type).value
            return _pattern(call.name, CallItem("", kind, _arguments(call, *defaults), call.output, call.turn))
        item = expected_item(call, output=self.output)
        if defaults and isinstance(item.arguments, dict):
            item = item._replace(arguments=Template(with_matchers(item.arguments, *defaults)))
        return CallPattern(item)

    def _default_matchers(self, name: Name) -> list[dict[ArgumentPath, Matcher]]:
        """Return the plan's matchers for the arguments of a tool, strongest first: exact name, then later patterns."""
        if not isinstance(name, str):
            return []
        tools = self.plan.tools
        patterns = [tool for tool in list(tools)[::-1] if tool != name and fnmatchcase(name, tool)]
        return [_parsed(tools[tool]) for tool in (name, *patterns) if tool in tools]


def _joined(first: Layout, second: Layout) -> Layout:
    return Layout(
        first.entries + second.entries, first.forbidden + second.forbidden, choices=first.choices + second.choices
    )


def _arguments(call: Expect | Forbid, *defaults: Mapping[ArgumentPath, Matcher]) -> Template | AbsentType:
    """Return the arguments that a call must have; with `at` alone, only those places count."""
    if call.input_parameters is not ABSENT:
        extras = isinstance(call, Forbid) or call.extra_arguments
        return Template(with_matchers(call.input_parameters, _parsed(call.at), *defaults), extras)
    return Template(with_matchers({}, _parsed(call.at)), extras=True) if call.at else ABSENT


def _parsed(at: Mapping[str, Matcher]) -> dict[ArgumentPath, Matcher]:
    return {parse_argument_path(path): matcher for path, matcher in at.items()}


def _pattern(name: Name, item: CallItem) -> CallPattern:
    if isinstance(name, Matcher):
        return CallPattern(item._replace(name=printable(name_text(name))), name)
    return CallPattern(item._replace(name=name))
