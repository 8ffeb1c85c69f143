"""The calls of a case that a metric compares: without those that did nothing, and of one effect if asked for.

Calls are left out on both sides before anything is counted. An alignment of the remaining calls is brought back to
their positions in the case, so that findings, reasons and tables refer to the calls that people see there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from toolgrade._internal.options import require
from toolgrade._internal.text import join_first, plural
from toolgrade.calls import CallStatus, ToolCall, ToolEffect, ToolSpec
from toolgrade.failed_calls import applied_error_texts, looks_failed
from toolgrade.matching.alignment import Alignment, CallItem
from toolgrade.metrics.called_tools import (
    Undone,
    call_finding,
    call_text,
    called_item,
    error_text_finding,
    expected_item,
    inferred_success_warnings,
    name_alone,
    read_tools,
    status_of,
)
from toolgrade.metrics.tool_effects import MAX_LISTED, ToolEffects, list_names, read_effects
from toolgrade.result import Finding

if TYPE_CHECKING:
    from toolgrade.expect.plan import Expectation
    from toolgrade.matching.alignment import CallPattern


Only: TypeAlias = Literal["read", "write"]
"""The effect of the calls that are compared."""

UNDONE: Final = frozenset({*CallStatus} - {CallStatus.OK, CallStatus.PENDING})
"""Statuses of calls that did nothing. A pending call is not one of them: the agent has done its part."""

EffectOf: TypeAlias = "Callable[[CallPattern], ToolEffect]"
"""Returns the effect of a call of a plan."""


class ComparedCalls(NamedTuple):
    """The calls of a case that are compared, by their positions in the case."""

    expected: Mapping[int, ToolCall]
    called: Mapping[int, ToolCall]
    effects: Mapping[str, ToolEffect | None] = MappingProxyType({})
    """The effect of each tool; empty if the effects do not matter."""
    findings: tuple[Finding, ...] = ()
    """Calls that were left out because their answer is an error, and those whose effect is unknown."""
    warnings: tuple[str, ...] = ()
    undone: tuple[Undone, ...] = ()
    """Calls that were left out because they did nothing."""

    def with_effect(self, effect: ToolEffect) -> ComparedCalls:
        """Return only the calls of tools that have this effect."""

        def select(calls: Mapping[int, ToolCall]) -> dict[int, ToolCall]:
            return {index: call for index, call in calls.items() if self.effects[call.name] is effect}

        return self._replace(expected=select(self.expected), called=select(self.called))

    def in_turns(self, turns: Collection[int] | None) -> ComparedCalls:
        """Return only the called tools of these turns of the user; `None` for all."""
        if turns is None:
            return self
        called = {index: call for index, call in self.called.items() if call.turn in turns}
        return self._replace(called=called)

    def items(self, *, output: bool = False) -> tuple[list[CallItem], list[CallItem]]:
        """Return both sides in the form that the matching algorithms compare.

        Of calls that nothing expects, only the name is looked at.
        """
        names = {call.name for call in self.expected.values()}
        called = self.called.values()
        return (
            [expected_item(call, output=output) for call in self.expected.values()],
            [called_item(call, output=output) if call.name in names else name_alone(call) for call in called],
        )

    def in_case(self, alignment: Alignment) -> Alignment:
        """Return an alignment of these calls with their positions in the case; slots of a plan keep their own."""
        expected = list(range(len(alignment.labels))) if alignment.labels else list(self.expected)
        called = list(self.called)
        if expected == list(range(len(expected))) and called == list(range(len(called))):
            return alignment  # no call was left out
        return alignment.placed(expected, called)


class CallFilter:
    """The options of a metric that decide which calls it compares.

    Raises:
        ConfigurationError: An option has none of its values, or no effect together with the others.
    """

    def __init__(
        self,
        *,
        ignore_failed: bool,
        effects: object,
        guess_effects: bool,
        tools: Sequence[ToolSpec] | None,
        only: object = None,
    ) -> None:
        """Check the options."""
        require(only in (None, "read", "write"), "only must be 'read', 'write' or None for all calls", only)
        self.only = None if only is None else ToolEffect(only)
        self.ignore_failed = ignore_failed
        self.declared = read_effects({} if effects is None else effects)
        self.guess_effects = guess_effects
        self.tools = tools or ()

    def tool_effects(self, available: Sequence[object] | None) -> ToolEffects:
        """Return the effects of the tools of a case with these available tools."""
        return ToolEffects(self.declared, (self.tools, read_tools(available) or ()), self.guess_effects)

    def all_tools(self, available: Sequence[object] | None) -> tuple[ToolSpec, ...]:
        """Return the tools of the metric, then those of a case."""
        return (*self.tools, *(read_tools(available) or ()))

    def select(
        self, expected: Sequence[ToolCall], called: Sequence[ToolCall], available: Sequence[object] | None
    ) -> ComparedCalls:
        """Return the calls of a case that are compared."""
        if self.only is None:
            return self.without_failed(expected, called)
        return self.by_effect(expected, called, self.tool_effects(available)).with_effect(self.only)

    def select_for_plan(
        self, expected: Expectation, called: Sequence[ToolCall], available: Sequence[object] | None
    ) -> tuple[ComparedCalls, Callable[[CallPattern], bool]]:
        """Return the called tools that are compared with a plan, and which of its calls are."""
        only = self.only
        if only is None:
            return self.without_failed((), called), lambda _: True
        calls, effect_of = self.by_effect_of_plan(expected, called, self.tool_effects(available))
        return calls.with_effect(only), lambda pattern: effect_of(pattern) is only

    def by_effect(
        self, expected: Sequence[ToolCall], called: Sequence[ToolCall], effects: ToolEffects
    ) -> ComparedCalls:
        """Return the calls that did something, with the effect of each tool and findings for unknown effects."""
        calls = self.without_failed(expected, called)
        effects = effects.among(expected, called)
        by_name = effects.by_name(expected, called)
        unknown = {index: call for index, call in calls.called.items() if by_name[call.name] is None}
        detail = ", it is unknown whether it changes something"
        warnings = [*calls.warnings, *effects.warnings(expected, called)]
        if unknown:
            names = list_names(call.name for call in unknown.values())
            amount = plural(len(unknown), "call")
            warnings.append(f"{amount} not scored, since the effect of the tool is unknown: {names}")
        return calls._replace(
            effects=by_name,
            findings=(
                *calls.findings,
                *(call_finding("unknown_effect", "Not scored", unknown[at], at, detail) for at in unknown),
            ),
            warnings=tuple(warnings),
        )

    def by_effect_of_plan(
        self, expected: Expectation, called: Sequence[ToolCall], effects: ToolEffects
    ) -> tuple[ComparedCalls, EffectOf]:
        """Return the calls as `by_effect` does, for any call of a plan, and the effect of each call of the plan.

        A name pattern reads if it accepts at least one called or available tool, and every tool that it accepts reads.
        """
        from toolgrade.metrics.plan_variants import plan_patterns  # noqa: PLC0415 - loaded with the first plan

        patterns = plan_patterns(expected)
        tools = {call.name for call in called} | effects.tool_names
        accepted = [ToolCall(name=name) for name in _accepted_names(patterns, tools)]
        effects = effects.among(accepted, called)
        return self.by_effect(accepted, called, effects), partial(_pattern_effect, effects, tools)

    def without_failed(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> ComparedCalls:
        """Return the calls of a case without called ones that did nothing, if these are to be left out."""
        calls = ComparedCalls(expected=dict(enumerate(expected)), called=dict(enumerate(called)))
        if not self.ignore_failed:
            return calls
        undone = {
            index: call for index, call in calls.called.items() if status_of(call) in UNDONE or looks_failed(call)
        }
        done = {index: call for index, call in calls.called.items() if index not in undone}
        by_text = [error_text_finding(call, at) for at, call in undone.items() if status_of(call) not in UNDONE]
        warnings = [*_undone_warnings(undone), *_inferred_success_warnings(done.values())]
        what = tuple([Undone.of(call, index) for index, call in undone.items()])
        return calls._replace(called=done, findings=tuple(by_text), warnings=tuple(warnings), undone=what)


def _pattern_effect(effects: ToolEffects, tools: Iterable[str], pattern: CallPattern) -> ToolEffect:
    """Return the effect of a call of a plan; a pattern stands for those of the tools that it accepts."""
    return effects.of_any([pattern.item.name] if pattern.pattern is None else filter(pattern.named, tools))


def _accepted_names(patterns: Sequence[CallPattern], tools: set[str]) -> list[str]:
    """Return the names of expected calls, and of the tools that their patterns accept."""
    names = tools | {pattern.item.name for pattern in patterns if not pattern.pattern}
    return sorted(name for name in names if any(pattern.named(name) for pattern in patterns))


def _inferred_success_warnings(done: Collection[ToolCall]) -> list[str]:
    """Return warnings about calls whose success is only inferred."""
    if applied_error_texts().own is not None:
        return []  # a pattern of the user covers the answers of these tools
    warnings = inferred_success_warnings(done)
    without_status = sum(call.execution is None for call in done)
    if without_status:
        warnings.append(f"{plural(without_status, 'call')} without a recorded status: taken as successful")
    return warnings


def _undone_warnings(undone: Mapping[int, ToolCall]) -> list[str]:
    if not undone:
        return []
    listed = join_first([call_text(call, index) for index, call in undone.items()], MAX_LISTED, count_rest=True)
    return [f"{plural(len(undone), 'call')} left out that did nothing: {listed}"]
