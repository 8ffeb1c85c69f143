"""The trajectory match evaluator of agentevals, as documented there, over toolgrade's alignment.

docs/coming-from/agentevals.md lists where agentevals differs from its documentation, and what a case does not show.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

from toolgrade._internal.json import JsonObject, short_repr
from toolgrade._internal.options import require, require_one_of
from toolgrade._internal.text import printable
from toolgrade.calls import Execution, ToolCall
from toolgrade.compat._matching_presets import (
    KeysMode,
    Preset,
    PresetMetric,
    Rule,
    align_slices,
    called_items,
    key_differences,
    ruled_item,
)
from toolgrade.errors import ConfigurationError
from toolgrade.matching.alignment import Alignment, Item
from toolgrade.matching.json_compare import ABSENT, Difference, json_equal
from toolgrade.metrics.comparable_calls import expected_item
from toolgrade.result import Finding

__all__ = ["TrajectoryMatch"]

TrajectoryMatchMode: TypeAlias = Literal["strict", "unordered", "subset", "superset"]
"""Relation of the called tools to the expected ones; see `TrajectoryMatch`."""

ToolArgsMatchMode: TypeAlias = Literal["exact", "ignore", "subset", "superset"]
"""Relation of the arguments of a called tool to the expected ones; see `TrajectoryMatch`."""

ToolArgsMatcher: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], bool]
"""A function of called and expected arguments that returns whether they match."""

ToolArgsMatchOverrides: TypeAlias = Mapping[str, ToolArgsMatchMode | Sequence[str] | ToolArgsMatcher]
"""By tool: a mode, the paths of the arguments that must be equal, or a function."""

_PRESETS: Final[Mapping[TrajectoryMatchMode, Preset]] = {
    "strict": Preset("strict"),
    "unordered": Preset("unordered"),
    "subset": Preset("subset", allowed="missing"),
    "superset": Preset("superset", allowed="unexpected"),
}


@dataclass(frozen=True, eq=False)
class TrajectoryMatch(PresetMetric):
    """1 if the called tools are the expected ones, else 0.

    `strict`: the same calls in the same order. `unordered`: the same calls in any order. `subset`: every called tool is
    an expected one. `superset`: every expected call was made. No call stands for two, and any pairing that makes the
    score 1 is found, so that the order of the lists only matters in `strict`.

    agentevals compares messages, and a case has calls. So `strict` takes calls of one step, if the recording knows
    steps, as one message: they may be in any order. If the expected calls have steps too (they come from a recording
    themselves), the same calls must be in one step; otherwise only their sequence counts. A message without calls, such
    as an answer in between, cannot be seen, while agentevals counts messages and compares their roles.

    Args:
        trajectory_match_mode: `"strict"`, `"unordered"`, `"subset"` or `"superset"`.
        tool_args_match_mode: How called arguments must relate to expected ones: `"exact"`: equal; `"ignore"`: not
            compared; `"subset"`: none that is not expected; `"superset"`: all that are expected. Values are compared by
            toolgrade's rules, and objects among them as a whole. An expected call without specified arguments matches
            any, in every mode.
        tool_args_match_overrides: By tool, what applies instead: a mode; a list of paths of arguments that must be
            equal, with dots for nested objects (a key that contains the dots itself takes precedence), where an
            argument missing on both sides is equal and one missing on one side is not; or a function of the called and
            the expected arguments, passed as copies, that returns True or False.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1.
        include_reason: Write a reason with the arithmetic and the findings.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range; or, when measured, a function returned neither True nor False.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.agentevals import TrajectoryMatch
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="book_flight", input_parameters={"to": "Paris", "note": "by the window"})],
        ...     expected_tools=[ToolCall(name="book_flight", input_parameters={"to": "Paris"})],
        ... )
        >>> TrajectoryMatch(tool_args_match_overrides={"book_flight": ["to"]}).measure(case).score
        1.0
    """

    _name: ClassVar[str] = "agentevals.trajectory_match"
    _choices: ClassVar[Mapping[str, object]] = {
        "trajectory_match_mode": TrajectoryMatchMode,
        "tool_args_match_mode": ToolArgsMatchMode,
    }
    _labels: ClassVar[Mapping[str, str]] = {"trajectory_match_mode": "{}", "tool_args_match_mode": "args={}"}

    trajectory_match_mode: TrajectoryMatchMode = "strict"
    tool_args_match_mode: ToolArgsMatchMode = "exact"
    tool_args_match_overrides: ToolArgsMatchOverrides | None = None
    _overrides: dict[str, Any] = field(init=False, repr=False, default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        """Check the options."""
        overrides: Any = {} if self.tool_args_match_overrides is None else self.tool_args_match_overrides
        require(
            isinstance(overrides, Mapping),
            "tool_args_match_overrides must map tools to a mode, paths or a function",
            overrides,
        )
        checked = {tool: _check_override(tool, override) for tool, override in overrides.items()}
        self._set(_overrides=checked)
        super().__post_init__()

    @property
    def _options(self) -> Sequence[str]:
        overrides = "+".join(map(printable, self._overrides))
        return [*super()._options, *([f"overrides={overrides}"] if overrides else [])]

    @property
    def _preset(self) -> Preset:
        return _PRESETS[self.trajectory_match_mode]

    def _expected_item(self, call: ToolCall) -> Item:
        override = self._overrides.get(call.name, self.tool_args_match_mode)
        if override == "exact":
            return expected_item(call)
        if override == "ignore":
            return expected_item(call)._replace(arguments=ABSENT)
        return ruled_item(call, _rule(call.name, override))

    def _align(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Alignment:
        if not self._compares_steps(expected, called):
            return super()._align(expected, called)
        items = [self._expected_item(call) for call in expected]
        return align_slices(items, called_items(called), list(accumulate(map(int, _step_starts(called)))))

    def _extra_findings(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Sequence[Finding]:
        return _step_findings(expected, called) if self._compares_steps(expected, called) else ()

    def _compares_steps(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> bool:
        """Return whether the sequence of steps is compared; with different numbers of calls no sequence is equal."""
        return self.trajectory_match_mode == "strict" and len(expected) == len(called)

    def _warnings(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> list[str]:
        return [*super()._warnings(expected, called), *self._unused_paths(expected, called)]

    def _unused_paths(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Iterator[str]:
        """Yield a warning for each argument path that no call has: a misspelled one would compare nothing."""
        on_both_sides = {call.name for call in expected} & {call.name for call in called}
        for tool, paths in self._overrides.items():
            if tool not in on_both_sides or not isinstance(paths, tuple):
                continue
            arguments = [call.arguments for call in (*expected, *called) if call.name == tool]
            for path in paths:
                if all(_at(one, path) is ABSENT for one in arguments):
                    yield f"no call of {tool!r}, expected or called, has the argument {path!r}, so it was not compared"


def _check_override(tool: str, override: object) -> object:
    """Return an override, a list of paths as a tuple.

    Raises:
        ConfigurationError: It is not a mode, a list of paths or a plain function.
    """
    option = f"tool_args_match_overrides[{tool!r}]"
    if isinstance(override, str):
        require_one_of(option, override, get_args(ToolArgsMatchMode))
        return override
    if inspect.iscoroutinefunction(override):
        raise ConfigurationError(f"{option} is an async function; give a plain one that returns True or False")
    if isinstance(override, (list, tuple)) and all(isinstance(path, str) and path for path in override):
        return tuple(override)
    require(callable(override), f"{option} must be a mode, a list of argument paths or a function", override)
    return override


def _rule(tool: str, override: ToolArgsMatchMode | Sequence[str] | ToolArgsMatcher) -> Rule:
    if isinstance(override, str):
        return partial(key_differences, mode=cast("KeysMode", override))
    if callable(override):
        return partial(_differences_by_function, tool=tool, function=override)
    return partial(_differences_at_paths, paths=override)


def _differences_by_function(
    expected: JsonObject, called: JsonObject, *, tool: str, function: ToolArgsMatcher
) -> Iterator[Difference]:
    """Yield one difference if a function returns that the arguments do not match."""
    answer: object = function(deepcopy(called), deepcopy(expected))
    if not any(answer == truth for truth in (True, False)):  # also true of NumPy's booleans, unlike `isinstance`
        option = f"tool_args_match_overrides[{tool!r}]"
        raise ConfigurationError(f"the function in {option} returned {short_repr(answer)}; return True or False")
    if not answer:
        yield Difference("wrong_argument", (), expected, called)


def _differences_at_paths(expected: JsonObject, called: JsonObject, *, paths: Sequence[str]) -> Iterator[Difference]:
    """Yield the paths at which two argument objects differ."""
    for path in paths:
        left, right, keys = _at(expected, path), _at(called, path), tuple(path.split("."))
        if json_equal(left, right):  # also if both are missing
            continue
        if right is ABSENT:
            yield Difference("missing_argument", keys, left, right)
        elif left is ABSENT:
            yield Difference("extra_argument", keys, left, right)
        else:
            yield Difference("wrong_argument", keys, left, right)


def _at(arguments: JsonObject, path: str) -> Any:  # noqa: ANN401 - a JSON value, or ABSENT
    """Return the value at a dotted path; a key that equals the whole rest of the path takes precedence."""
    value: Any = arguments
    while isinstance(value, dict):
        if path in value:
            return value[path]
        first, dot, path = path.partition(".")
        if not dot or first not in value:
            return ABSENT
        value = value[first]
    return ABSENT


def _steps(calls: Sequence[ToolCall]) -> list[tuple[int | None, str | None]]:
    """Return the step, `None` where it was not recorded, and the agent of each call."""
    executions = [call.execution or Execution() for call in calls]
    return [(execution.step, execution.agent) for execution in executions]


def _step_starts(calls: Sequence[ToolCall]) -> list[bool]:
    """Return for each call whether it begins a step; a call without a recorded step is a separate step."""
    steps = _steps(calls)
    return [step[0] is None or step != before for before, step in zip([None, *steps], steps, strict=False)]


def _step_findings(expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> list[Finding]:
    """Return where neighbouring calls share a step on one side only, if the steps of all calls are recorded."""
    if any(step is None for step, _ in (*_steps(expected), *_steps(called))):
        return []
    findings: list[Finding] = []
    for index, (apart, called_apart) in enumerate(zip(_step_starts(expected), _step_starts(called), strict=True)):
        if apart != called_apart:
            expected_text, called_text = _STEP_TEXTS[apart], _STEP_TEXTS[called_apart]
            calls = f"#{index} and #{index + 1}"
            text = f"Other steps: expected {calls} were asked for {expected_text}, called {calls} {called_text}."
            findings.append(Finding("out_of_order", text, expected[index].name, index, index))
    return findings


_STEP_TEXTS: Final = {True: "in different steps", False: "in one step"}
