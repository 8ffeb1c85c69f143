"""Do calls of a tool change something? What options and tool descriptions say of it, or, if asked for, a guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolmark._internal.json import short_repr
from toolmark._internal.text import plural, printable
from toolmark.calls import ToolCall, ToolEffect, ToolSpec
from toolmark.errors import ConfigurationError
from toolmark.metrics.effect_verbs import guess_effect
from toolmark.metrics.name_patterns import matches

MOST_NAMES = 10
"""Names that a warning spells out."""


def read_effects(value: object) -> dict[str, ToolEffect]:
    """Return the effects that an option declares, by name or pattern, in its order.

    Raises:
        ConfigurationError: It is no mapping of names or patterns to `read` or `write`.
    """
    found: dict[str, ToolEffect] = {}
    for name, effect in value.items() if isinstance(value, Mapping) else ((None, value),):
        text = effect.lower() if isinstance(effect, str) and not isinstance(effect, ToolEffect) else effect
        if not isinstance(name, str) or not name or text not in ("read", "write"):
            message = (
                "effects must map names or patterns of tools to 'read' or 'write', as in "
                f"{{'get_*': 'read', 'book': 'write'}}; got {short_repr(value)}"
            )
            raise ConfigurationError(message)
        found[name] = ToolEffect(text)
    return found


@dataclass(frozen=True, slots=True)
class Effects:
    """Knows the effect of each tool of one case.

    What decides, in this order: the exact name among the declared; the first declared pattern that fits; the tools of
    the metric; those of the case; the guess, if it is switched on. Tools of one list that share a name and contradict
    each other decide nothing.

    Attributes:
        declared: By name or pattern.
        tools: Lists of available tools; the earlier one wins.
        guess: Whether a name's verb may decide.
    """

    declared: Mapping[str, ToolEffect]
    tools: Sequence[Sequence[ToolSpec]] = ()
    guess: bool = False

    def of(self, name: str) -> ToolEffect | None:
        """Return the effect of a tool; `None` where nobody knows."""
        known = self._known(name)
        return guess_effect(name) if known is None and self.guess else known

    def _known(self, name: str) -> ToolEffect | None:
        if name in self.declared:
            return self.declared[name]
        for pattern, effect in self.declared.items():
            if matches(name, [pattern]):
                return effect
        for specs in self.tools:
            stated = {spec.effect for spec in specs if spec.name == name and spec.effect is not None}
            if len(stated) == 1:
                return next(iter(stated))
        return None

    def guessed(self, names: Iterable[str]) -> list[str]:
        """Return the warning that effects were guessed, with what was guessed of which tools; none if none was."""
        if not self.guess:
            return []
        guesses = {name: guess_effect(name) for name in dict.fromkeys(names) if self._known(name) is None}
        told = [
            f"{effect.value}: {listed(name for name, guess in guesses.items() if guess is effect)}"
            for effect in ToolEffect
            if effect in guesses.values()
        ]
        return [f"effects guessed from the names of tools: {'; '.join(told)}"] if told else []


@dataclass(frozen=True, slots=True)
class Split:
    """The calls of both sides by effect, as positions from 0.

    Attributes:
        expected: Of each expected call; one whose effect is not known counts as a write.
        called: Of each called tool; `None` where it is not known. A tool that is expected as a write is one.
    """

    expected: tuple[ToolEffect, ...]
    called: tuple[ToolEffect | None, ...]

    @classmethod
    def of(cls, expected: Sequence[ToolCall], called: Sequence[ToolCall], effects: Effects) -> Split:
        """Return what the calls of one case do."""
        by_name = {call.name: effects.of(call.name) for call in (*expected, *called)}
        wanted = {call.name: by_name[call.name] or ToolEffect.WRITE for call in expected}
        return cls(
            tuple(wanted[call.name] for call in expected),
            tuple(wanted.get(call.name, by_name[call.name]) for call in called),
        )


def assumed(expected: Sequence[ToolCall], effects: Effects) -> list[str]:
    """Return the warning that expected calls count as writes because nobody knows their effect; none if none does."""
    unknown = [call.name for call in expected if effects.of(call.name) is None]
    if not unknown:
        return []
    told = f"{plural(len(unknown), 'expected call')} of unknown effect taken for writes ({listed(unknown)})"
    return [f"{told}; say what they do with effects=, or in available_tools"]


def listed(names: Iterable[str]) -> str:
    """Return names in quotes, each once, the first ones of many."""
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    return ", ".join(repr(printable(name)) for name in found[:MOST_NAMES]) + more
