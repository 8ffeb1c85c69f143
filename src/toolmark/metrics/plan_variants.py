"""Expectations as the matching algorithms see them: every way in which a plan can be followed.

The ways come from the choices in a plan: which of several plans, and which alternative of each `OneOf`. Where all
alternatives are single required calls there is nothing to try: one slot accepts any of them, and the assignment
chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import count
from typing import Protocol

from toolmark._internal.text import number_text, printable
from toolmark.calls import ToolCall, ToolCallType
from toolmark.errors import ConfigurationError
from toolmark.expect import (
    Alternatives,
    Expect,
    Expectation,
    Forbid,
    Matcher,
    OneOf,
    Parallel,
    Plan,
    PlanItem,
    read_place,
    walk,
    with_matchers,
)
from toolmark.expect.argument_paths import Place
from toolmark.expect.plan import Name, matchers_in, name_text, single_calls
from toolmark.matching.alignment import Alignment, Item
from toolmark.matching.argument_pattern import Template
from toolmark.matching.json_compare import ABSENT, Absent
from toolmark.matching.plan import Entry, Layout, align_layout
from toolmark.matching.plan_slots import Want
from toolmark.metrics.comparable_calls import called_item, expected_item


class Aligner(Protocol):
    """Aligns the called tools of a case with ways of a plan; see `aligner`."""

    def __call__(self, layout: Layout, *, ordered: bool) -> Alignment:
        """Return the best alignment with one way, in the order of both sides or in any."""
        ...


def align_plan(
    expected: Expectation,
    called: Sequence[ToolCall],
    score: Callable[[Alignment], float],
    *,
    ordered: bool,
    arguments: bool,
    output: bool,
    keep: Callable[[Want], bool] | None = None,
) -> Alignment:
    """Return the best alignment of the called tools with the way of an expectation that scores best.

    Of ways that score the same the first one is taken.

    Args:
        expected: The expectation.
        called: What was called.
        score: The score of an alignment.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
        output: Compare the outputs, all or nothing.
        keep: Which of the expected calls count; the others are dropped, as if the plan did not name them.
    """
    align = aligner(called, arguments=arguments, output=output)
    found: Alignment | None = None
    for whole in layouts_of(expected, output=output):
        made = align(whole if keep is None else _kept(whole, keep), ordered=ordered)
        if found is None or score(made) > score(found):
            found = made
    if found is None:  # pragma: no cover - there is always a way, and be it to call nothing
        raise ConfigurationError("the expectation leaves no way to follow it")
    return found


def aligner(called: Sequence[ToolCall], *, arguments: bool, output: bool = False) -> Aligner:
    """Return what aligns the called tools with one way after the other.

    Args:
        called: What was called.
        arguments: Compare the argument objects, with partial credit.
        output: Compare the outputs, all or nothing.
    """
    items = [called_item(call, output=output) for call in called]
    steps = [None if call.execution is None else call.execution.step for call in called]

    def align(layout: Layout, *, ordered: bool) -> Alignment:
        return align_layout(layout, items, steps, ordered=ordered, arguments=arguments, output=output)

    return align


def _kept(layout: Layout, keep: Callable[[Want], bool]) -> Layout:
    """Return a way without the calls that do not count; where one alternative of several does not, none is required."""
    entries: list[Entry] = []
    for entry in layout.entries:
        wants = tuple(filter(keep, entry.wants))
        if len(wants) == len(entry.wants):
            entries.append(entry)
        elif wants:
            entries.append(entry._replace(wants=wants, least=0))
    return replace(layout, entries=tuple(entries))


def wants_of(expected: Expectation) -> list[Want]:
    """Return all calls that an expectation names, those of all its alternatives among them, but no forbidden ones."""
    return [want for layout in layouts_of(expected) for entry in layout.entries for want in entry.wants]


def layouts_of(expected: Expectation, *, output: bool = False) -> Iterator[Layout]:
    """Yield every way in which an expectation can be followed, in the order in which it is written."""
    several = isinstance(expected, Alternatives) and len(expected.plans) > 1
    for place, plan in enumerate(expected.plans):
        told = f" {plan.name!r}" if plan.name else ""
        choice = (f"plan #{place + 1} of {len(expected.plans)}{told}",) if several else ()
        yield from _Reader(plan, output).layouts(choice)


def taken(alignment: Alignment) -> list[str]:
    """Return the line that says which way of several was taken; none where there is only one."""
    return [f"Of what would do, this scores best: {', '.join(alignment.choices)}."] if alignment.choices else []


def notes_of(expected: Expectation, alignment: Alignment, *, arguments: bool) -> Iterator[str]:
    """Yield what makes the score less sure."""
    if not arguments and _matches_arguments(expected):
        yield "the matchers of arguments were not asked: evaluation_params does not hold INPUT_PARAMETERS"
    if alignment.gap:
        gap = number_text(alignment.gap)
        yield f"the search for the best order was given up: the matched weight may be up to {gap} higher"


def _matches_arguments(expected: Expectation) -> bool:
    """Return whether an expectation says of arguments what a list of calls could not say."""
    items = [item for plan in expected.plans for item in walk(plan.calls)]
    return any(plan.tools for plan in expected.plans) or any(
        isinstance(item, Expect) and (item.at or any(matchers_in(item.input_parameters))) for item in items
    )


@dataclass(frozen=True, slots=True)
class _Context:
    """What a call takes over from what it stands in."""

    labels: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    group: int | None = None

    def within(self, item: Expect | OneOf | Parallel, group: int | None = None) -> _Context:
        """Return the context inside of an item."""
        own = frozenset() if item.label is None else frozenset({item.label})
        return _Context(self.labels | own, self.after | frozenset(item.after), self.group if group is None else group)


_Way = tuple[tuple[Entry | tuple[Want, str], ...], tuple[str, ...]]
"""Expected calls and forbidden ones, and the choices that led to them."""


class _Reader:
    """Turns a plan into layouts."""

    def __init__(self, plan: Plan, output: bool) -> None:
        self.plan = plan
        self.output = output
        self._groups = count()
        self._choices = count(1)

    def layouts(self, choice: tuple[str, ...]) -> Iterator[Layout]:
        """Yield the layouts of the plan."""
        extras = self.plan.allow_extra
        forbids = any(isinstance(item, Forbid) for item in walk(self.plan.calls))
        if extras is None and forbids and not any(self.plan.expected_calls()):
            extras = True  # a plan that does nothing but forbid says nothing against other calls
        for parts, choices in self._ways(self.plan.calls, _Context()):
            entries = tuple(part for part in parts if isinstance(part, Entry))
            forbidden = tuple(part for part in parts if not isinstance(part, Entry))
            yield Layout(entries, forbidden, extras, (*choice, *choices))

    def _ways(self, items: Sequence[PlanItem], context: _Context) -> list[_Way]:
        ways: list[_Way] = [((), ())]
        for item in items:
            options = self._options(item, context)
            ways = [((*parts, *more), (*chosen, *choice)) for parts, chosen in ways for more, choice in options]
        return ways

    def _options(self, item: PlanItem, context: _Context) -> list[_Way]:
        if isinstance(item, Forbid):
            return [((self._forbidden(item),), ())]
        if isinstance(item, (ToolCall, Expect)):
            return [((self._entry([item], context),), ())]
        if isinstance(item, Parallel):
            return self._ways(item.calls, context.within(item, next(self._groups)))
        if single_calls(item):
            return [((self._entry([one[0] for one in item.alternatives], context.within(item)),), ())]
        number, inside = next(self._choices), context.within(item)
        return [
            (parts, (f"alternative #{place + 1} of {len(item.alternatives)} of choice #{number}", *chosen))
            for place, alternative in enumerate(item.alternatives)
            for parts, chosen in self._ways(alternative, inside)
        ]

    def _entry(self, calls: Sequence[PlanItem], context: _Context) -> Entry:
        wants: list[Want] = []
        texts: list[str] = []
        last: ToolCall | Expect | None = None
        for call in calls:
            if isinstance(call, (ToolCall, Expect)):
                wants.append(self._want(call))
                texts.append(name_text(call.name))
                last = call
        if isinstance(last, Expect):
            inside = context.within(last)
            return Entry(
                tuple(wants), " or ".join(texts), last.least, last.most, inside.labels, inside.after, context.group
            )
        return Entry(tuple(wants), " or ".join(texts), 1, 1, context.labels, context.after, context.group)

    def _want(self, call: ToolCall | Expect) -> Want:
        defaults = self._defaults(call.name)
        if isinstance(call, Expect):
            arguments = _template(call, *defaults)
            output = call.output
            return _named(call.name, Item("", _type_of(call), arguments, output))
        item = expected_item(call, output=self.output)
        if defaults and isinstance(item.arguments, dict):
            item = item._replace(arguments=Template(with_matchers(item.arguments, *defaults)))
        return Want(item)

    def _forbidden(self, item: Forbid) -> tuple[Want, str]:
        return _named(item.name, Item("", None, _template(item), ABSENT)), printable(item.text)

    def _defaults(self, name: Name) -> list[dict[Place, Matcher]]:
        """Return what the plan says of the arguments of every call of a tool; an exact name wins over a pattern."""
        if not isinstance(name, str):
            return []
        tools = self.plan.tools
        fitting = [places for tool, places in tools.items() if tool != name and fnmatchcase(name, tool)]
        return list(map(_places, [*([tools[name]] if name in tools else []), *fitting[::-1]]))


def _template(call: Expect | Forbid, *defaults: Mapping[Place, Matcher]) -> Template | Absent:
    """Return the arguments that a call must have; where it says nothing but `at`, only those places count."""
    if call.input_parameters is not ABSENT:
        extras = isinstance(call, Forbid) or call.extra_arguments
        return Template(with_matchers(call.input_parameters, _places(call.at), *defaults), extras)
    return Template(with_matchers({}, _places(call.at)), extras=True) if call.at else ABSENT


def _places(at: Mapping[str, Matcher]) -> dict[Place, Matcher]:
    return {read_place(place): matcher for place, matcher in at.items()}


def _type_of(call: Expect) -> str | None:
    return None if call.type is None else ToolCallType(call.type).value


def _named(name: Name, item: Item) -> Want:
    if isinstance(name, Matcher):
        return Want(item._replace(name=printable(name_text(name))), name)
    return Want(item._replace(name=name))
