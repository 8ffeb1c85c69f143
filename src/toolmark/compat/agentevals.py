"""The trajectory match evaluator of agentevals, as its documentation has it, over toolmark's alignment.

docs/compat.md lists where agentevals differs from its documentation, and what cannot be seen from a case.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, cast

from toolmark._internal.json import JsonObject, short_repr
from toolmark._internal.text import printable
from toolmark.calls import ToolCall
from toolmark.compat._matching_presets import (
    KeysMode,
    Rule,
    Side,
    View,
    align_slices,
    by_rule,
    called_items,
    differing,
    no_objects,
    one_of,
    verdict,
)
from toolmark.errors import ConfigurationError
from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Item
from toolmark.matching.json_compare import ABSENT, Absent, Difference, json_equal
from toolmark.metrics.base import Measurement
from toolmark.metrics.comparable_calls import expected_item
from toolmark.result import Finding

TrajectoryMatchMode: TypeAlias = Literal["strict", "unordered", "subset", "superset"]
"""How the called tools relate to the expected ones; see `TrajectoryMatch`."""

ToolArgsMatchMode: TypeAlias = Literal["exact", "ignore", "subset", "superset"]
"""How the arguments of a called tool relate to the expected ones; see `TrajectoryMatch`."""

ToolArgsMatcher: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], bool]
"""A function of called and expected arguments that says whether they match."""

ToolArgsMatchOverrides: TypeAlias = Mapping[str, ToolArgsMatchMode | Sequence[str] | ToolArgsMatcher]
"""By tool: a mode, the paths of the arguments that must be equal, or a function."""

_WHOLE: Final[Mapping[TrajectoryMatchMode, tuple[Side, ...]]] = {
    "strict": ("expected", "called"),
    "unordered": ("expected", "called"),
    "subset": ("called",),
    "superset": ("expected",),
}


@dataclass(frozen=True, eq=False)
class TrajectoryMatch(View):
    """1 if the tools that were called are the expected ones, else 0.

    `strict`: the same calls in the same order. `unordered`: the same calls in any order. `subset`: every call that was
    made is an expected one. `superset`: every expected call was made. No call stands for two, and whichever pairing
    makes it 1 is found, so that the order in which calls are listed only plays a part in `strict`.

    agentevals compares messages, and a case has calls. So `strict` takes calls of one step, where the recording knows
    steps, as one message: they may be in any order. Where the expected calls know theirs too (they come from a
    recording themselves), the same calls must stand together; otherwise only their sequence counts. A message without
    calls, such as an answer in between, cannot be seen, where agentevals counts messages and compares their roles.

    Args:
        trajectory_match_mode: `"strict"`, `"unordered"`, `"subset"` or `"superset"`.
        tool_args_match_mode: Which arguments a call must have to be the expected one: `"exact"`: the same; `"ignore"`:
            any; `"subset"`: none that is not expected; `"superset"`: all that are expected. Values are compared by
            toolmark's rules, and objects among them as a whole. An expected call that does not say which arguments it
            expects matches any, whatever the mode.
        tool_args_match_overrides: By tool, what counts in place of that: a mode; a list of arguments that must be
            equal, dots leading into objects (a key that has the dots itself goes first), where an argument that is on
            neither side is equal and one that is on one side alone is not; or a function of the called and the expected
            arguments, which it gets as copies, that returns True or False.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range; or, when measured, a function returned neither True nor False.

    Example:
        >>> from toolmark import LLMTestCase, ToolCall
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="book", input_parameters={"seats": 2, "note": "by the sea"})],
        ...     expected_tools=[ToolCall(name="book", input_parameters={"seats": 2})],
        ... )
        >>> TrajectoryMatch(tool_args_match_overrides={"book": ["seats"]}).measure(case).score
        1.0
    """

    trajectory_match_mode: TrajectoryMatchMode = "strict"
    tool_args_match_mode: ToolArgsMatchMode = "exact"
    tool_args_match_overrides: ToolArgsMatchOverrides | None = None
    _overrides: dict[str, Any] = field(init=False, repr=False, default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("trajectory_match_mode", self.trajectory_match_mode, TrajectoryMatchMode)
        one_of("tool_args_match_mode", self.tool_args_match_mode, ToolArgsMatchMode)
        object.__setattr__(self, "_overrides", _read(self.tool_args_match_overrides))  # the dataclass is frozen
        super().__post_init__()

    @property
    def _name(self) -> str:
        return "agentevals.trajectory_match"

    @property
    def _options(self) -> Sequence[str]:
        overrides = [printable(tool) for tool in self._overrides]
        return [
            *([self.trajectory_match_mode] if self.trajectory_match_mode != "strict" else []),
            *([f"args={self.tool_args_match_mode}"] if self.tool_args_match_mode != "exact" else []),
            *([f"overrides={'+'.join(overrides)}"] if overrides else []),
        ]

    def _compared(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Measurement:
        mode = self.trajectory_match_mode
        wanted, made = [self._item(call) for call in expected], called_items(called)
        also: list[Finding] = []
        if mode == "strict" and len(expected) == len(called):
            starts = _starts(called)
            bounds = [index for index, start in enumerate(starts) if start]
            steps = [range(first, last) for first, last in pairwise([*bounds, len(called)])]
            alignment = align_slices(wanted, made, [(step, step) for step in steps])
            also = _other_steps(expected, called)
        else:  # where the numbers differ no order helps
            alignment = align(wanted, made, arguments=True)
        found = verdict(alignment, expected, called, mode=mode, whole=_WHOLE[mode], also=also)
        return replace(found, warnings=[*no_objects(called), *self._nowhere(expected, called)])

    def _item(self, call: ToolCall) -> Item:
        """Return an expected call whose arguments are compared as the options have it."""
        override = self._overrides.get(call.name, self.tool_args_match_mode)
        if override == "exact":
            return expected_item(call)
        if override == "ignore":
            return expected_item(call)._replace(arguments=ABSENT)
        return by_rule(call, _rule(call.name, override))

    def _nowhere(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Iterator[str]:
        """Yield a warning for each argument path that no call has: a misspelt one would compare nothing."""
        for tool, override in self._overrides.items():
            sides = [[call.arguments for call in side if call.name == tool] for side in (expected, called)]
            if not all(sides) or isinstance(override, str) or callable(override):
                continue
            for path in override:
                if all(isinstance(_at(arguments, path), Absent) for side in sides for arguments in side):
                    yield f"no call of {tool!r}, expected or called, has the argument {path!r}, so it was not compared"


def _read(value: object) -> dict[str, Any]:
    """Return the overrides as they are kept, or say what is wrong with them."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        message = f"tool_args_match_overrides is a mapping from tool to mode, paths or function; got {value!r}"
        raise ConfigurationError(message)
    kept: dict[str, Any] = {}
    for tool, override in value.items():
        place = f"tool_args_match_overrides[{tool!r}]"
        if isinstance(override, str):
            one_of(place, override, ToolArgsMatchMode)
        elif inspect.iscoroutinefunction(override):
            message = f"{place} is an async function; give a plain one that returns True or False"
            raise ConfigurationError(message)
        elif not callable(override) and not _are_paths(override):
            message = f"{place} must be a mode, a list of argument paths or a function; got {override!r}"
            raise ConfigurationError(message)
        kept[tool] = tuple(override) if isinstance(override, list) else override
    return kept


def _are_paths(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(path, str) and path for path in value)


def _rule(tool: str, override: ToolArgsMatchMode | Sequence[str] | ToolArgsMatcher) -> Rule:
    if isinstance(override, str):
        return partial(differing, mode=cast("KeysMode", override))  # the others need no rule
    if callable(override):
        return partial(_judged, tool=tool, matcher=override)
    return partial(_at_paths, paths=override)


def _judged(expected: JsonObject, called: JsonObject, *, tool: str, matcher: ToolArgsMatcher) -> Iterator[Difference]:
    """Yield one difference if a function says that the arguments do not match."""
    answer: object = matcher(deepcopy(called), deepcopy(expected))
    if not any(answer == known for known in (True, False)):  # NumPy has a truth of its own
        message = (
            f"the function in tool_args_match_overrides[{tool!r}] returned {short_repr(answer)}; return True or False"
        )
        raise ConfigurationError(message)
    if not answer:
        yield Difference("wrong_argument", (), expected, called)


def _at_paths(expected: JsonObject, called: JsonObject, *, paths: Sequence[str]) -> Iterator[Difference]:
    """Yield the paths at which two argument objects differ."""
    for path in paths:
        wanted, made, where = _at(expected, path), _at(called, path), tuple(path.split("."))
        if isinstance(made, Absent):
            if not isinstance(wanted, Absent):
                yield Difference("missing_argument", where, wanted, ABSENT)
        elif isinstance(wanted, Absent):
            yield Difference("extra_argument", where, ABSENT, made)
        elif not json_equal(wanted, made):
            yield Difference("wrong_argument", where, wanted, made)


def _at(arguments: JsonObject, path: str) -> Any:  # noqa: ANN401 - a JSON value, or ABSENT
    """Return what stands at a path with dots; a key that is all that is left of the path goes first."""
    value: Any = arguments
    while isinstance(value, dict):
        if path in value:
            return value[path]
        first, dot, path = path.partition(".")
        if not dot or first not in value:
            return ABSENT
        value = value[first]
    return ABSENT


def _steps(calls: Sequence[ToolCall]) -> list[tuple[str | None, int] | None]:
    """Return the step of each call, and whose it is; `None` where it is not known."""
    made = [call.execution for call in calls]
    return [None if it is None or it.step is None else (it.agent, it.step) for it in made]


def _starts(calls: Sequence[ToolCall]) -> list[bool]:
    """Return for each call whether it begins a step; one whose step is not known stands alone."""
    steps = _steps(calls)
    return [not index or step is None or step != steps[index - 1] for index, step in enumerate(steps)]


def _other_steps(expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> list[Finding]:
    """Return where calls stand together in one step on one side only, if the steps of all of them are known."""
    if None in _steps(expected) or None in _steps(called):
        return []
    found: list[Finding] = []
    for index, (ours, theirs) in enumerate(zip(_starts(expected), _starts(called), strict=True)):
        if ours != theirs:
            asked = "in one step" if theirs else "in different steps"
            made = "in different steps" if theirs else "in one step"
            places = f"#{index} and #{index + 1}"
            text = f"Other steps: expected {places} were asked for {asked}, called {places} {made}."
            found.append(Finding("out_of_order", text, expected[index].name, index, index))
    return found
