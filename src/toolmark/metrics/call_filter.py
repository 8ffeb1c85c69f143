"""The calls of a case that a metric compares: without those that did nothing, and of one effect if asked for.

Calls are left out on both sides before anything is counted. An alignment of the remaining calls is brought back to
their positions in the case, so that findings, reasons and tables refer to the calls that people see there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from toolmark._internal.json import json_text, short_repr
from toolmark._internal.regex import BoundedPattern
from toolmark._internal.text import plural
from toolmark.calls import CallStatus, ToolCall, ToolEffect, ToolSpec, read_tool_spec
from toolmark.errors import ConfigurationError
from toolmark.matching.alignment import Alignment
from toolmark.matching.plan_slots import CallPattern
from toolmark.metrics.base import call_text, inferred_success_warnings, status_of
from toolmark.metrics.tool_effects import ToolEffects, list_names, read_effects
from toolmark.result import Finding

Only: TypeAlias = Literal["read", "write"]
"""The effect of the calls that are compared."""

UNDONE: Final = frozenset({*CallStatus} - {CallStatus.OK, CallStatus.PENDING})
"""Statuses of calls that did nothing. A pending call is not one of them: the agent has done its part."""

_MOST_CALLS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCalls:
    """The calls of a case that are compared, with their positions in the case."""

    expected: Sequence[ToolCall]
    called: Sequence[ToolCall]
    expected_at: Sequence[int]
    called_at: Sequence[int]
    findings: tuple[Finding, ...] = ()
    """Calls that are not scored because their effect is unknown."""
    warnings: tuple[str, ...] = ()

    @classmethod
    def all_of(cls, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> ComparedCalls:
        """Return all calls of a case."""
        return cls(expected=expected, called=called, expected_at=range(len(expected)), called_at=range(len(called)))

    def select(self, expected: Sequence[int], called: Sequence[int]) -> ComparedCalls:
        """Return only the calls at these indices."""
        return replace(
            self,
            expected=[self.expected[index] for index in expected],
            called=[self.called[index] for index in called],
            expected_at=[self.expected_at[index] for index in expected],
            called_at=[self.called_at[index] for index in called],
        )

    def with_effect(self, effects: Mapping[str, ToolEffect | None], effect: ToolEffect) -> ComparedCalls:
        """Return only the calls of tools that have this effect."""
        return self.select(
            [index for index, call in enumerate(self.expected) if effects[call.name] is effect],
            [index for index, call in enumerate(self.called) if effects[call.name] is effect],
        )

    def in_case(self, alignment: Alignment) -> Alignment:
        """Return an alignment of these calls with their positions in the case."""
        if isinstance(self.expected_at, range) and isinstance(self.called_at, range):
            return alignment  # no call was left out
        return alignment.placed(self.expected_at, self.called_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """The options of a metric that decide which calls it compares; see `CallFilter.read`."""

    only: ToolEffect | None = None
    ignore_failed: bool = False
    declared: Mapping[str, ToolEffect]
    guess_effects: bool = False
    error_pattern: BoundedPattern | None = None
    tools: Sequence[ToolSpec] = ()

    @classmethod
    def read(
        cls,
        *,
        ignore_failed: bool,
        effects: object,
        guess_effects: bool,
        error_pattern: object,
        tools: Sequence[ToolSpec] | None,
        only: object = None,
    ) -> CallFilter:
        """Return the filter that a metric's options describe.

        Raises:
            ConfigurationError: An option has none of its values, or no effect together with the others.
        """
        if only not in (None, "read", "write"):
            message = f"only must be 'read', 'write' or None for all calls, got {short_repr(only)}"
            raise ConfigurationError(message)
        if error_pattern is not None and not ignore_failed:
            message = "error_pattern must be used with ignore_failed=True, which leaves the failed calls out"
            raise ConfigurationError(message)
        if error_pattern is not None and not (isinstance(error_pattern, str) and error_pattern):
            message = (
                f"error_pattern must be a regular expression for the answers of failed calls, got {error_pattern!r}"
            )
            raise ConfigurationError(message)
        return cls(
            only=None if only is None else ToolEffect(only),
            ignore_failed=ignore_failed,
            declared=read_effects({} if effects is None else effects),
            guess_effects=guess_effects,
            error_pattern=None if error_pattern is None else BoundedPattern(error_pattern),
            tools=tools or (),
        )

    def tool_effects(self, available: Sequence[object] | None) -> ToolEffects:
        """Return the effects of the tools of a case with these available tools."""
        specs = tuple(map(read_tool_spec, available or ()))
        return ToolEffects(self.declared, (self.tools, specs), self.guess_effects)

    def select(
        self, expected: Sequence[ToolCall], called: Sequence[ToolCall], available: Sequence[object] | None
    ) -> ComparedCalls:
        """Return the calls of a case that are compared."""
        if self.only is None:
            return self.without_failed(expected, called)
        calls, effects = self.by_effect(expected, called, self.tool_effects(available))
        return calls.with_effect(effects, self.only)

    def select_for_plan(
        self, patterns: Sequence[CallPattern], called: Sequence[ToolCall], available: Sequence[object] | None
    ) -> tuple[ComparedCalls, Callable[[CallPattern], bool] | None]:
        """Return the called tools that are compared with a plan, and which of its calls are; `None` for all."""
        if self.only is None:
            return self.without_failed((), called), None
        effects = self.tool_effects(available)
        effect, expected = plan_effects(patterns, called, effects)
        calls, by_name = self.by_effect(expected, called, effects)
        return calls.with_effect(by_name, self.only), lambda want: effect(want) is self.only

    def by_effect(
        self, expected: Sequence[ToolCall], called: Sequence[ToolCall], effects: ToolEffects
    ) -> tuple[ComparedCalls, dict[str, ToolEffect | None]]:
        """Return the calls that did something, with findings for unknown effects, and the effect of each tool."""
        calls = self.without_failed(expected, called)
        by_name = effects.by_name(expected, called)
        findings: list[Finding] = []
        for call, index in zip(calls.called, calls.called_at, strict=True):
            if by_name[call.name] is None:
                text = f"Not scored: {call_text(call, index)}, it is unknown whether it changes something."
                findings.append(Finding("unknown_effect", text, call.name, called=index))
        warnings = [*calls.warnings, *effects.warnings(expected, called)]
        if findings:
            names = list_names(finding.tool for finding in findings)
            warnings.append(
                f"{plural(len(findings), 'call')} not scored, since the effect of the tool is unknown: {names}"
            )
        return replace(calls, findings=tuple(findings), warnings=tuple(warnings)), by_name

    def without_failed(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> ComparedCalls:
        """Return the calls of a case without called ones that did nothing, if these are to be left out."""
        calls = ComparedCalls.all_of(expected, called)
        if not self.ignore_failed:
            return calls
        undone = [index for index, call in enumerate(called) if self._did_nothing(call)]
        done = [index for index in range(len(called)) if index not in set(undone)]
        warnings: list[str] = []
        if undone:
            listed = ", ".join(call_text(called[index], index) for index in undone[:_MOST_CALLS])
            more = f" and {len(undone) - _MOST_CALLS} more" if len(undone) > _MOST_CALLS else ""
            warnings.append(f"{plural(len(undone), 'call')} left out that did nothing: {listed}{more}")
        if self.error_pattern is None:
            warnings += inferred_success_warnings([called[index] for index in done])
        return replace(calls.select(range(len(expected)), done), warnings=tuple(warnings))

    def _did_nothing(self, call: ToolCall) -> bool:
        if status_of(call) in UNDONE:
            return True
        if self.error_pattern is None:
            return False
        answers = [call.output, None if call.execution is None else call.execution.model_output]
        texts = [value if isinstance(value, str) else json_text(value) for value in answers if value is not None]
        return any(map(self.error_pattern.search, texts))


def plan_effects(
    patterns: Sequence[CallPattern], called: Sequence[ToolCall], effects: ToolEffects
) -> tuple[Callable[[CallPattern], ToolEffect], list[ToolCall]]:
    """Return the effect of each call of a plan as a function, and one call for every tool that the plan accepts.

    A name pattern reads if it accepts at least one called or available tool, and every tool that it accepts reads.
    """
    tools = {call.name for call in called}
    for specs in effects.tools:
        tools.update(spec.name for spec in specs)

    def effect(want: CallPattern) -> ToolEffect:
        names = [want.item.name] if want.pattern is None else filter(want.named, tools)
        return ToolEffect.READ if {effects.of(name) for name in names} == {ToolEffect.READ} else ToolEffect.WRITE

    names = sorted(tools.union(want.item.name for want in patterns if not want.pattern))
    return effect, [ToolCall(name=name) for name in names if any(want.named(name) for want in patterns)]
