"""Effects of tools (`read` or `write`), from options, from tool descriptions or, if allowed, guessed from names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from toolgrade._internal.json import short_repr
from toolgrade._internal.text import join_first, plural, printable
from toolgrade.calls import ToolCall, ToolEffect, ToolSpec
from toolgrade.errors import ConfigurationError
from toolgrade.metrics.effect_verbs import guess_effect
from toolgrade.metrics.name_patterns import first_match

MAX_LISTED = 10
"""Names or calls that a warning lists."""


def read_effects(value: object) -> dict[str, ToolEffect]:
    """Return the effects that an option declares, by name or pattern, in their order.

    Raises:
        ConfigurationError: The value does not map names or patterns to `read` or `write`.
    """
    if not isinstance(value, Mapping) or not all(map(_is_entry, value.items())):
        expected = "effects must map names or patterns of tools to 'read' or 'write'"
        example = "{'get_*': 'read', 'book': 'write'}"
        raise ConfigurationError(f"{expected}, as in {example}; got {short_repr(value)}")
    return {name: ToolEffect(effect.lower()) for name, effect in value.items()}


def _is_entry(entry: tuple[object, object]) -> bool:
    name, effect = entry
    return isinstance(name, str) and name != "" and isinstance(effect, str) and effect.lower() in ("read", "write")


class ToolEffects(NamedTuple):
    """The effect of each tool of one case.

    The first of these decides: the exact name among the declared effects; the first declared pattern that matches; the
    tools of the metric; those of the case; the guess, if it is on. Tools of one list that share a name and contradict
    each other decide nothing.
    """

    declared: Mapping[str, ToolEffect]
    tools: Sequence[Sequence[ToolSpec]] = ()
    guess: bool = False

    def of(self, name: str) -> ToolEffect | None:
        """Return the effect of a tool; `None` if it is unknown."""
        effect = self._declared_effect(name)
        return guess_effect(name) if effect is None and self.guess else effect

    def of_any(self, names: Iterable[str]) -> ToolEffect:
        """Return the effect of a call of one of these tools: a read only if there are any and all of them read."""
        return ToolEffect.READ if set(map(self.of, names)) == {ToolEffect.READ} else ToolEffect.WRITE

    @property
    def tool_names(self) -> set[str]:
        """The names of the available tools."""
        return {spec.name for spec in chain.from_iterable(self.tools)}

    def _declared_effect(self, name: str) -> ToolEffect | None:
        pattern = name if name in self.declared else first_match(name, self.declared)
        if pattern is not None:
            return self.declared[pattern]
        for specs in self.tools:
            effects = {spec.effect for spec in specs if spec.name == name} - {None}
            if len(effects) == 1:
                return effects.pop()
        return None

    def by_name(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> dict[str, ToolEffect | None]:
        """Return the effect of each tool of a case; an expected tool of unknown effect counts as a write."""
        effects = {call.name: self.of(call.name) for call in called}
        effects.update((call.name, self.of(call.name) or ToolEffect.WRITE) for call in expected)
        return effects

    def warnings(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> list[str]:
        """Return warnings about effects that were guessed, and about expected calls of unknown effect."""
        names = dict.fromkeys(call.name for call in (*expected, *called))
        warnings = self._guess_warnings(names) if self.guess else []
        unknown = [call.name for call in expected if self.of(call.name) is None]
        if unknown:
            amount = plural(len(unknown), "expected call")
            advice = "declare them with effects=, or in available_tools"
            warnings.append(f"{amount} of unknown effect counted as writes ({list_names(unknown)}); {advice}")
        return warnings

    def _guess_warnings(self, names: Iterable[str]) -> list[str]:
        """Return the warning which effects were guessed."""
        guesses: dict[ToolEffect | None, list[str]] = defaultdict(list)
        for name in names:
            if self._declared_effect(name) is None:
                guesses[guess_effect(name)].append(name)
        groups = [f"{effect.value}: {list_names(guesses[effect])}" for effect in ToolEffect if guesses[effect]]
        return [f"effects guessed from the names of tools: {'; '.join(groups)}"] if groups else []


def list_names(names: Iterable[str]) -> str:
    """Return the distinct names in quotes; of many, the first ten and how many more there are."""
    return join_first([repr(printable(name)) for name in dict.fromkeys(names)], MAX_LISTED, count_rest=True)
