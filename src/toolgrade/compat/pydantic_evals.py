"""ToolCorrectness, TrajectoryMatch and ArgumentCorrectness of pydantic-evals over toolgrade's alignment; an adapter.

pydantic-evals reads spans, and its evaluators hold the expectations; here calls and expectations are those of the case.
docs/coming-from/pydantic-evals.md lists the differences. `evaluator` goes the other way: toolgrade's metrics in a
dataset of pydantic-evals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from toolgrade._internal.options import require, require_one_of
from toolgrade._internal.text import plural, printable
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.cases import AnyCase
from toolgrade.compat._host_evaluators import HostMetrics, case_of_item, host_metrics, import_host
from toolgrade.compat._matching_presets import (
    Preset,
    PresetMetric,
    broken_argument_warnings,
    called_items,
    key_differences,
    ruled_item,
)
from toolgrade.errors import NotMeasuredError
from toolgrade.matching.align_calls import align
from toolgrade.matching.alignment import Alignment
from toolgrade.metrics import MetricLike
from toolgrade.metrics.base import (
    FAILED,
    Measurement,
    call_text,
    inferred_success_warnings,
    omission_warnings,
    status_of,
)
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.result import Finding

__all__ = ["ArgumentCorrectness", "ToolCorrectness", "TrajectoryMatch", "evaluator"]

TrajectoryOrder: TypeAlias = Literal["exact", "in_order", "any_order"]
"""Rule for comparing the called tools with the expected ones; see `TrajectoryMatch`."""

ArgumentMatchMode: TypeAlias = Literal["exact", "subset"]
"""Rule for comparing arguments; see `ArgumentCorrectness`."""

ArgumentOccurrence: TypeAlias = Literal["first", "last"]
"""Choice of the call that is compared if a tool was called several times."""

_NEVER_RAN: Final = frozenset({CallStatus.REJECTED, CallStatus.PENDING, CallStatus.NOT_EXECUTED})
_DID_NOT_SUCCEED: Final = FAILED | {CallStatus.CANCELLED}

_EXTRA_PRESETS: Final = {
    False: Preset("no extra calls", arguments=False),
    True: Preset("extra calls allowed", allowed="unexpected", arguments=False),
}
_ORDER_PRESETS: Final[Mapping[TrajectoryOrder, Preset]] = {
    "exact": Preset("exact", ordered=True, arguments=False),
    "in_order": Preset("in_order", ordered=True, arguments=False, binary=False),
    "any_order": Preset("any_order", arguments=False, binary=False),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class _ToolMetric(PresetMetric):
    """Base of these views: calls that never ran do not count, and failed ones only if the option says so."""

    include_failed: bool = False

    def _positions(self, called: Sequence[ToolCall]) -> list[int]:
        """Return the positions of the calls that count."""
        excluded = _NEVER_RAN if self.include_failed else _NEVER_RAN | _DID_NOT_SUCCEED
        return [index for index, call in enumerate(called) if status_of(call) not in excluded]

    def _align(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Alignment:
        positions = self._positions(called)
        alignment = super()._align(expected, [called[index] for index in positions])
        return alignment.placed(range(len(expected)), positions)

    def _warnings(self, _expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> list[str]:
        positions = self._positions(called)
        never_ran = sum(status_of(call) in _NEVER_RAN for call in called)
        failed = len(called) - len(positions) - never_ran
        warnings = [
            *omission_warnings(never_ran, "never executed"),
            *omission_warnings(failed, "failed; include_failed=True counts them"),
        ]
        if not self.include_failed:
            warnings += inferred_success_warnings([called[index] for index in positions])
        return warnings


@dataclass(frozen=True, eq=False)
class ToolCorrectness(_ToolMetric):
    """1 if tools of the expected names were called, each as often as expected, in any order; else 0.

    Arguments are not compared.

    Args:
        allow_extra: Further calls are allowed.
        include_failed: Calls that failed or were cancelled count too. Calls that were rejected, are pending or never
            ran never count.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1.
        include_reason: Write a reason with the arithmetic and the findings.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.pydantic_evals import ToolCorrectness
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ...     expected_tools=[ToolCall(name="get_weather")],
        ... )
        >>> ToolCorrectness().measure(case).score, ToolCorrectness(allow_extra=True).measure(case).score
        (0.0, 1.0)
    """

    _name: ClassVar[str] = "pydantic_evals.tool_correctness"
    _labels: ClassVar[Mapping[str, str]] = {"allow_extra": "allow_extra", "include_failed": "include_failed"}

    allow_extra: bool = False

    @property
    def _preset(self) -> Preset:
        return _EXTRA_PRESETS[bool(self.allow_extra)]


@dataclass(frozen=True, eq=False)
class TrajectoryMatch(_ToolMetric):
    """Similarity of the names of the called and the expected tools.

    `exact`: 1 if the two sequences are equal, else 0. `in_order`: 2w / (m + n), where w is the length of the longest
    common subsequence of m expected and n called names. `any_order`: the same, where w is the number of names in
    common, each as often as both have it. Nothing expected and nothing called scores 1; exactly one of the two scores
    0.

    Args:
        order: `"exact"`, `"in_order"` or `"any_order"`.
        include_failed: Calls that failed or were cancelled count too. Calls that were rejected, are pending or never
            ran never count.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Write a reason with the arithmetic and the findings.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.pydantic_evals import TrajectoryMatch
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="book_flight"), ToolCall(name="get_weather")],
        ...     expected_tools=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ... )
        >>> {order: TrajectoryMatch(order).measure(case).score for order in ("exact", "in_order", "any_order")}
        {'exact': 0.0, 'in_order': 0.5, 'any_order': 1.0}
    """

    _name: ClassVar[str] = "pydantic_evals.trajectory_match"
    _choices: ClassVar[Mapping[str, object]] = {"order": TrajectoryOrder}
    _labels: ClassVar[Mapping[str, str]] = {"order": "{}", "include_failed": "include_failed"}

    order: TrajectoryOrder = "in_order"

    @property
    def _preset(self) -> Preset:
        return _ORDER_PRESETS[self.order]


@dataclass(frozen=True, eq=False)
class ArgumentCorrectness(_ToolMetric):
    """1 if one call of a tool has the arguments of the expected call of that tool, else 0.

    The first call of the tool is compared with the first expected one, the last with the last, or the one at a position
    with the one at that position. If the tool was not called often enough, the score is 0. If the case expects no such
    call or specifies no arguments for it, or the arguments of the call were not recorded, the case is skipped.

    Args:
        tool_name: The tool.
        match_mode: `"subset"`: the expected arguments are among the called ones, with equal values (objects as a
            whole); `"exact"`: and there are no others.
        occurrence: `"first"`, `"last"`, or a position among the calls of the tool, from 0.
        include_failed: Calls that failed or were cancelled count too. Calls that were rejected, are pending or never
            ran never count.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1.
        include_reason: Write a reason with the arithmetic and the findings.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.pydantic_evals import ArgumentCorrectness
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather", input_parameters={"city": "Paris", "days": 3})],
        ...     expected_tools=[ToolCall(name="get_weather", input_parameters={"city": "Paris"})],
        ... )
        >>> ArgumentCorrectness("get_weather").measure(case).score
        1.0
        >>> ArgumentCorrectness("get_weather", "exact").measure(case).score
        0.0
    """

    _name: ClassVar[str] = "pydantic_evals.argument_correctness"
    _choices: ClassVar[Mapping[str, object]] = {"match_mode": ArgumentMatchMode}
    _labels: ClassVar[Mapping[str, str]] = {
        "tool_name": "{}",
        "match_mode": "{}",
        "occurrence": "{}",
        "include_failed": "include_failed",
    }

    tool_name: str
    match_mode: ArgumentMatchMode = "subset"
    occurrence: ArgumentOccurrence | int = "first"

    def __post_init__(self) -> None:
        """Check the options."""
        tool: object = self.tool_name
        require(isinstance(tool, str) and tool, "tool_name must be the name of a tool", tool)
        super().__post_init__()
        if type(self.occurrence) is not int or self.occurrence < 0:
            require_one_of("occurrence, unless it is a position from 0,", self.occurrence, get_args(ArgumentOccurrence))

    @property
    def _preset(self) -> Preset:
        return Preset(f"{self._which} of {printable(self.tool_name)!r}")

    @property
    def _which(self) -> str:
        return f"{self.occurrence} call" if isinstance(self.occurrence, str) else f"call at {self.occurrence}"

    def _compare(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Measurement:
        warnings = self._warnings(expected, called)
        positions = self._matching(called, self._positions(called))
        left, right = self._select(self._matching(expected, range(len(expected)))), self._select(positions)
        tool, which = repr(printable(self.tool_name)), self._which
        if left is None:
            return Measurement(skip_reason=f"the case expects no {which} of {tool}", warnings=warnings)
        if "input_parameters" not in expected[left].model_fields_set:
            return Measurement(skip_reason=f"expected #{left + 1} {tool} does not specify arguments", warnings=warnings)
        if right is None:
            times = plural(len(positions), "time")
            text = f"Missing: expected #{left + 1} {tool} was not called (no {which}; called {times})."
            return Measurement(
                scores={"match": 0.0},
                sums={"match": f"no {which} of {tool} = 0"},
                findings=[Finding("missing", text, self.tool_name, expected=left)],
                warnings=warnings,
            )
        if not called[right].captured("input_parameters"):
            reason = f"the arguments of {call_text(called[right], right)} were not recorded"
            return Measurement(skip_reason=reason, warnings=warnings)
        rule = partial(key_differences, mode="exact" if self.match_mode == "exact" else "superset")
        pair = align([ruled_item(expected[left], rule)], called_items([called[right]]), arguments=True)
        warnings += broken_argument_warnings([called[right]])
        return self._measure_alignment(pair.placed([left], [right]), expected, called, warnings)

    def _matching(self, calls: Sequence[ToolCall], positions: Iterable[int]) -> list[int]:
        """Return the positions of the calls of the tool."""
        return [index for index in positions if calls[index].name == self.tool_name]

    def _select(self, positions: Sequence[int]) -> int | None:
        """Return the position of the selected call, if there is one."""
        occurrence = {"first": 0, "last": len(positions) - 1}.get(str(self.occurrence), self.occurrence)
        return positions[int(occurrence)] if 0 <= int(occurrence) < len(positions) else None


def evaluator(
    metric: MetricLike, *, to_case: Callable[[Any], AnyCase] | None = None, redactor: Redactor = DEFAULT
) -> Any:  # noqa: ANN401 - a class of pydantic-evals, whose package may be missing
    """Return a metric of toolgrade as an evaluator for `pydantic_evals.Dataset(..., evaluators=[...])`.

    It returns the score with its reason under the name of the metric, and the assertion `<name> passed`. If the metric
    was skipped, it returns the label `skipped` with the reason, and no score. If the metric failed or no case could be
    read, it raises, which pydantic-evals reports as an evaluator's failure.

    Args:
        metric: The metric.
        to_case: Builds a case from an `EvaluatorContext`. By default the output contains the called tools, under
            `tools_called`, `messages` or `agent_trajectory`, or is a `Run`; and the expected output, or the metadata,
            contains the expected ones, under `expected_tools`; docs/runners.md lists all keys.
        redactor: Redacts secrets in reasons and errors.

    Raises:
        MissingPackageError: pydantic-evals is not installed.
        ConfigurationError: `metric` is not a metric.

    Example:
        >>> import asyncio
        >>> from pydantic_evals import Case, Dataset
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.compat.pydantic_evals import evaluator
        >>> async def agent(question: str) -> dict:
        ...     return {"tools_called": [{"name": "get_weather", "args": {"city": "Paris"}}]}
        >>> expected = {"expected_tools": [{"name": "get_weather"}]}
        >>> case = Case(inputs="What is the weather in Paris?", expected_output=expected)
        >>> dataset = Dataset(name="weather", cases=[case], evaluators=[evaluator(ToolCorrectnessMetric())])
        >>> report = asyncio.run(dataset.evaluate(agent, progress=False))
        >>> {name: score.value for name, score in report.cases[0].scores.items()}
        {'tool_correctness': 1.0}
    """
    return _evaluator_class()(host_metrics([metric], _case_of if to_case is None else to_case, redactor))


def _case_of(context: Any) -> AnyCase:  # noqa: ANN401 - of pydantic-evals
    """Return the case of a context; its expected output or else its metadata is the reference."""
    return case_of_item(context.inputs, context.output, context.expected_output, context.metadata)


@cache
def _evaluator_class() -> type[Any]:
    """Return the class of these evaluators, built on first use since its base is pydantic-evals'.

    Raises:
        MissingPackageError: pydantic-evals is not installed.
    """
    evaluators: Any = import_host("pydantic_evals.evaluators", "pydantic-evals", "an evaluator of pydantic-evals")

    @dataclass(repr=False)
    class ToolgradeEvaluator(evaluators.Evaluator):  # type: ignore[misc]  # their package may be missing
        """One metric of toolgrade."""

        measuring: HostMetrics

        async def evaluate(self, ctx: Any) -> dict[str, Any]:  # noqa: ANN401 - of pydantic-evals
            (feedback,) = await self.measuring.feedback_async(ctx)
            name = feedback.name
            if feedback.failed:
                raise NotMeasuredError(printable(feedback.comment or ""))
            if feedback.score is None:
                return {name: evaluators.EvaluationReason("skipped", feedback.comment)}
            score = evaluators.EvaluationReason(float(feedback.score), feedback.comment)
            return {name: score, f"{name} passed": bool(feedback.passed)}

        def get_default_evaluation_name(self) -> str:
            return self.measuring.names[0]

        def build_serialization_arguments(self) -> dict[str, Any]:
            return {"measuring": self.measuring.names[0]}

    return ToolgradeEvaluator
