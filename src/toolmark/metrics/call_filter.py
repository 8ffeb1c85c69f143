"""Which calls of a case are compared? Those that did something, of one kind if so wished, and where they stand in it.

What is left out here is left out on both sides before anything is counted. Alignments of what remains are brought back
to the positions that the calls have in the case, so that findings, reasons and tables name the calls people see there.
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
from toolmark.matching.plan_slots import Want
from toolmark.metrics.call_metric import one, seen_by_answers, status_of
from toolmark.metrics.tool_effects import Effects, Split, assumed, listed, read_effects
from toolmark.result import Finding

Only: TypeAlias = Literal["read", "write"]
"""Which calls are compared, by what they do."""

UNDONE: Final = frozenset({*CallStatus} - {CallStatus.OK, CallStatus.PENDING})
"""Statuses of calls that did nothing. One that waits has not failed: the agent's part of it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """The options that decide which calls are compared; see `Preparation.read`.

    Attributes:
        only: Compare calls of this effect alone; `None` for all.
        ignore_failed: Leave out calls that did nothing: their status is in `UNDONE`, or `failure` fits their answer.
        effects: Declared effects, by name or pattern.
        guess: Whether the verb of a name may decide where nothing else does.
        failure: Fits the answers that tell of a failure.
        tools: The available tools that the metric was given.
    """

    only: ToolEffect | None = None
    ignore_failed: bool = False
    effects: Mapping[str, ToolEffect]
    guess: bool = False
    failure: BoundedPattern | None = None
    tools: Sequence[ToolSpec] = ()

    @classmethod
    def read(
        cls,
        *,
        only: object,
        ignore_failed: bool,
        effects: object,
        guess_effects: bool,
        error_pattern: object,
        tools: Sequence[ToolSpec] = (),
    ) -> Preparation:
        """Return the preparation that a metric's options describe.

        Raises:
            ConfigurationError: One of them is none of its values, or has no use beside the others.
        """
        if only not in (None, "read", "write"):
            message = f"only must be 'read', 'write' or None for all calls, got {short_repr(only)}"
            raise ConfigurationError(message)
        if error_pattern is not None and not ignore_failed:
            message = (
                "error_pattern tells which calls failed, and ignore_failed=True leaves those out; give both or none"
            )
            raise ConfigurationError(message)
        return cls(
            only=None if only is None else ToolEffect(only),
            ignore_failed=ignore_failed,
            effects=read_effects({} if effects is None else effects),
            guess=guess_effects,
            failure=None if error_pattern is None else read_pattern(error_pattern),
            tools=tools,
        )

    def of_case(self, available: Sequence[object] | None) -> Effects:
        """Return what is known of the effects of tools in a case with these available tools."""
        specs = tuple(map(read_tool_spec, available or ()))
        return Effects(self.effects, (self.tools, specs), self.guess)

    def prepare(
        self, expected: Sequence[ToolCall], called: Sequence[ToolCall], available: Sequence[object] | None
    ) -> Prepared:
        """Return the calls of a case that are compared, with everything that there is to say of the others."""
        everything = Prepared.all(expected, called)
        done = self.done(everything)
        if self.only is None:
            return done
        return self._only(done, expected, called, self.of_case(available))

    def _only(
        self, done: Prepared, expected: Sequence[ToolCall], called: Sequence[ToolCall], effects: Effects
    ) -> Prepared:
        """Return the calls of the one effect, and say what is not known and what was guessed."""
        split = Split.of(expected, done.called, effects)
        warnings = (*effects.guessed(call.name for call in (*expected, *called)), *assumed(expected, effects))
        kept = done.kept(
            [index for index in range(len(done.expected)) if split.expected[index] is self.only],
            [index for index, effect in enumerate(split.called) if effect is self.only],
        )
        unknown = [done.called_at[index] for index, effect in enumerate(split.called) if effect is None]
        warnings = (*kept.warnings, *warnings, *unscored(called, unknown))
        return replace(kept, warnings=warnings, findings=unknown_effects(called, unknown))

    def prepare_plan(
        self, wants: Sequence[Want], called: Sequence[ToolCall], available: Sequence[object] | None
    ) -> tuple[Prepared, Callable[[Want], bool] | None]:
        """Return the called tools that are compared with a plan, and which of its calls are; `None` for all.

        Args:
            wants: The calls that the plan names.
            called: The called tools.
            available: The available tools of the case.
        """
        done = self.done(Prepared.all((), called))
        if self.only is None:
            return done, None
        effects = self.of_case(available)
        effect, expected = effects_of_plan(wants, called, effects)
        return self._only(done, expected, called, effects), lambda want: effect(want) is self.only

    def done(self, calls: Prepared) -> Prepared:
        """Return the calls without those that did nothing, if they are to be left out."""
        if not self.ignore_failed:
            return calls
        left_out = [index for index, call in enumerate(calls.called) if self._undone(call)]
        kept = [index for index in range(len(calls.called)) if index not in set(left_out)]
        told = ", ".join(one(calls.called[index], calls.called_at[index]) for index in left_out[:10])
        more = f" and {len(left_out) - 10} more" if len(left_out) > 10 else ""  # noqa: PLR2004 - ten are named
        warnings = [f"{plural(len(left_out), 'call')} left out that did nothing: {told}{more}"] if left_out else []
        if self.failure is None:
            warnings += seen_by_answers([calls.called[index] for index in kept])
        prepared = calls.kept(range(len(calls.expected)), kept)
        return replace(prepared, warnings=(*prepared.warnings, *warnings))

    def _undone(self, call: ToolCall) -> bool:
        if status_of(call) in UNDONE:
            return True
        if self.failure is None:
            return False
        return any(self.failure.search(text) for text in _answers(call))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The calls that are compared.

    Attributes:
        expected: The expected calls.
        called: The called tools.
        expected_at: The position in the case of each expected call, from 0.
        called_at: Of each called tool, likewise.
        findings: Calls that could not be looked at.
        warnings: What makes the score less sure.
    """

    expected: Sequence[ToolCall]
    called: Sequence[ToolCall]
    expected_at: Sequence[int]
    called_at: Sequence[int]
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def all(cls, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Prepared:
        """Return all calls of a case."""
        return cls(expected=expected, called=called, expected_at=range(len(expected)), called_at=range(len(called)))

    def kept(self, expected: Sequence[int], called: Sequence[int]) -> Prepared:
        """Return only the calls at these places, which count among the calls here."""
        return replace(
            self,
            expected=[self.expected[index] for index in expected],
            called=[self.called[index] for index in called],
            expected_at=[self.expected_at[index] for index in expected],
            called_at=[self.called_at[index] for index in called],
        )

    def placed(self, alignment: Alignment) -> Alignment:
        """Return an alignment of these calls with the positions that they have in the case."""
        if isinstance(self.expected_at, range) and isinstance(self.called_at, range):
            return alignment  # all are there, in their own places
        return alignment.placed(self.expected_at, self.called_at)


def read_pattern(value: object) -> BoundedPattern:
    """Return the regular expression of an option.

    Raises:
        ConfigurationError: It is none.
    """
    if not isinstance(value, str) or not value:
        message = f"error_pattern must be a regular expression that fits the answers of failed calls, got {value!r}"
        raise ConfigurationError(message)
    return BoundedPattern(value)


def effects_of_plan(
    wants: Sequence[Want], called: Sequence[ToolCall], effects: Effects
) -> tuple[Callable[[Want], ToolEffect], list[ToolCall]]:
    """Return what calls that a plan names do, and all calls, by name alone, that would do for one of them.

    A name that is a pattern reads if every called or available tool that it accepts does, and there is one.

    Args:
        wants: The calls that the plan names.
        called: The called tools.
        effects: What is known of the effects of tools.
    """
    tools = {*(call.name for call in called), *(tool.name for specs in effects.tools for tool in specs)}

    def effect(want: Want) -> ToolEffect:
        names = [want.item.name] if want.pattern is None else sorted(filter(want.named, tools))
        return ToolEffect.READ if {effects.of(name) for name in names} == {ToolEffect.READ} else ToolEffect.WRITE

    named = sorted({*tools, *(want.item.name for want in wants if not want.pattern)})
    return effect, [ToolCall(name=name) for name in named if any(want.named(name) for want in wants)]


def unknown_effects(called: Sequence[ToolCall], places: Sequence[int]) -> tuple[Finding, ...]:
    """Return a finding for each call that is not scored because nobody knows what its tool does."""
    return tuple(
        Finding(
            "unknown_effect",
            f"Not scored: {one(called[index], index)}, nobody knows whether it changes something.",
            called[index].name,
            called=index,
        )
        for index in places
    )


def unscored(called: Sequence[ToolCall], places: Sequence[int]) -> list[str]:
    """Return the warning that goes with `unknown_effects`; none where there is none."""
    if not places:
        return []
    names = listed(called[index].name for index in places)
    return [f"{plural(len(places), 'call')} not scored, since the effect of the tool is not known: {names}"]


def _answers(call: ToolCall) -> list[str]:
    """Return what a call gave back, its output and what the model was shown, each as text or JSON text."""
    values = [call.output, None if call.execution is None else call.execution.model_output]
    return [value if isinstance(value, str) else json_text(value) for value in values if value is not None]
