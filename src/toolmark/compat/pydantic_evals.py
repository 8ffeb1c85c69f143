"""ToolCorrectness, TrajectoryMatch and ArgumentCorrectness of pydantic-evals, over toolmark's alignment; and back.

pydantic-evals reads spans and is told in each evaluator what is expected; here calls and expectations are those of the
case. docs/compat.md has the differences. `evaluator` goes the other way: toolmark's metrics in a dataset of
pydantic-evals.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from toolmark._internal.text import plural, printable
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import AnyCase
from toolmark.compat._matching_presets import (
    Side,
    View,
    by_rule,
    called_items,
    differing,
    findings,
    no_objects,
    one_of,
    verdict,
)
from toolmark.compat._pydantic_evaluator import evaluator_of
from toolmark.errors import ConfigurationError
from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Alignment
from toolmark.metrics import MetricLike
from toolmark.metrics.base import (
    FAILED,
    Measurement,
    call_text,
    inferred_success_warnings,
    omission_warnings,
    status_of,
)
from toolmark.metrics.comparable_calls import expected_item
from toolmark.metrics.wording import arithmetic
from toolmark.redact import DEFAULT, Redactor
from toolmark.result import Finding

TrajectoryOrder: TypeAlias = Literal["exact", "in_order", "any_order"]
"""How the called tools are compared with the expected ones; see `TrajectoryMatch`."""

ArgumentMatchMode: TypeAlias = Literal["exact", "subset"]
"""How arguments are compared; see `ArgumentCorrectness`."""

ArgumentOccurrence: TypeAlias = Literal["first", "last"]
"""Which of several calls of a tool is looked at."""

_NEVER_RAN: Final = frozenset({CallStatus.REJECTED, CallStatus.PENDING, CallStatus.NOT_EXECUTED})
_DID_NOT_SUCCEED: Final = FAILED | {CallStatus.CANCELLED}


@dataclass(frozen=True, eq=False, kw_only=True)
class _View(View):
    """Base of these views: calls that never ran do not count, and those that failed only if asked for."""

    include_failed: bool = False

    @property
    def _options(self) -> Sequence[str]:
        return ["include_failed"] if self.include_failed else []

    @abstractmethod
    def _of(self, expected: Sequence[ToolCall], called: Sequence[ToolCall], places: Sequence[int]) -> Measurement:
        """Return what there is to say of two lists of calls; of the called ones those at `places` count."""

    def _compared(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Measurement:
        statuses = [status_of(call) for call in called]
        left = _NEVER_RAN if self.include_failed else _NEVER_RAN | _DID_NOT_SUCCEED
        places = [index for index, status in enumerate(statuses) if status not in left]
        never = sum(status in _NEVER_RAN for status in statuses)
        warnings = [
            *omission_warnings(never, "never executed"),
            *omission_warnings(len(called) - len(places) - never, "failed; include_failed=True counts them"),
            *([] if self.include_failed else inferred_success_warnings([called[index] for index in places])),
        ]
        found = self._of(expected, called, places)
        return replace(found, warnings=[*warnings, *found.warnings])

    def _names(
        self, expected: Sequence[ToolCall], called: Sequence[ToolCall], places: Sequence[int], *, ordered: bool
    ) -> Alignment:
        """Return the alignment by name, with the positions of the case."""
        made = called_items(called[index] for index in places)
        alignment = align([expected_item(call) for call in expected], made, ordered=ordered)
        return alignment.placed(range(len(expected)), places)


@dataclass(frozen=True, eq=False)
class ToolCorrectness(_View):
    """1 if the tools of the expected names were called, each as often as expected, in any order; else 0.

    Arguments are not compared.

    Args:
        allow_extra: Other calls may have been made too.
        include_failed: Calls that failed or were cancelled count. Calls that were rejected, wait, or never ran never
            do.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.
    """

    allow_extra: bool = False

    @property
    def _name(self) -> str:
        return "pydantic_evals.tool_correctness"

    @property
    def _options(self) -> Sequence[str]:
        return [*(["allow_extra"] if self.allow_extra else []), *super()._options]

    def _of(self, expected: Sequence[ToolCall], called: Sequence[ToolCall], places: Sequence[int]) -> Measurement:
        alignment = self._names(expected, called, places, ordered=False)
        mode = "extra calls allowed" if self.allow_extra else "no extra calls"
        sides: tuple[Side, ...] = ("expected",) if self.allow_extra else ("expected", "called")
        return verdict(alignment, expected, called, mode=mode, whole=sides)


@dataclass(frozen=True, eq=False)
class TrajectoryMatch(_View):
    """How alike the names of the called and of the expected tools are.

    `exact`: 1 if the two sequences are the same, else 0. `in_order`: 2w / (m + n), where w is the length of the longest
    common subsequence of m expected and n called names. `any_order`: the same, where w is how many names they have in
    common, each as often as both have it. Nothing expected and nothing called scores 1; exactly one of the two 0.

    Args:
        order: `"exact"`, `"in_order"` or `"any_order"`.
        include_failed: Calls that failed or were cancelled count. Calls that were rejected, wait, or never ran never
            do.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.
    """

    order: TrajectoryOrder = "in_order"

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("order", self.order, TrajectoryOrder)
        super().__post_init__()

    @property
    def _name(self) -> str:
        return "pydantic_evals.trajectory_match"

    @property
    def _options(self) -> Sequence[str]:
        return [*([self.order] if self.order != "in_order" else []), *super()._options]

    def _of(self, expected: Sequence[ToolCall], called: Sequence[ToolCall], places: Sequence[int]) -> Measurement:
        alignment = self._names(expected, called, places, ordered=self.order != "any_order")
        if self.order == "exact":
            return verdict(alignment, expected, called, mode="exact", whole=("expected", "called"))
        return Measurement(
            scores={"f1": alignment.f1},
            sums={"f1": arithmetic(alignment, "f1", exact=False)},
            findings=findings(alignment, expected, called),
            alignment=alignment,
        )


@dataclass(frozen=True, eq=False)
class ArgumentCorrectness(_View):
    """1 if one call of a tool got the arguments that the expected call of that tool has, else 0.

    The first call of the tool is compared with the first expected one, or the last with the last, or the one at a
    position with the one at that position. Where the tool was not called so often, the score is 0. Where the case
    expects no such call, or does not say which arguments it expects, or the recording did not keep those of the call,
    the question does not apply: the case is skipped.

    Args:
        tool_name: The tool.
        match_mode: `"subset"`: the expected arguments are among those that were called, with equal values (objects as a
            whole); `"exact"`: and there are no others.
        occurrence: `"first"`, `"last"`, or a position among the calls of the tool, from 0.
        include_failed: Calls that failed or were cancelled count. Calls that were rejected, wait, or never ran never
            do.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.
    """

    tool_name: str
    match_mode: ArgumentMatchMode = "subset"
    occurrence: ArgumentOccurrence | int = "first"

    def __post_init__(self) -> None:
        """Check the options."""
        tool: object = self.tool_name
        if not isinstance(tool, str) or not tool:
            message = f"tool_name must be the name of a tool, got {tool!r}"
            raise ConfigurationError(message)
        one_of("match_mode", self.match_mode, ArgumentMatchMode)
        position = isinstance(self.occurrence, int) and not isinstance(self.occurrence, bool) and self.occurrence >= 0
        if not position:
            one_of("occurrence, unless it is a position from 0,", self.occurrence, ArgumentOccurrence)
        super().__post_init__()

    @property
    def _name(self) -> str:
        return "pydantic_evals.argument_correctness"

    @property
    def _options(self) -> Sequence[str]:
        return [
            printable(self.tool_name),
            *([self.match_mode] if self.match_mode != "subset" else []),
            *([str(self.occurrence)] if self.occurrence != "first" else []),
            *super()._options,
        ]

    def _of(self, expected: Sequence[ToolCall], called: Sequence[ToolCall], places: Sequence[int]) -> Measurement:
        ours = self._select(expected, range(len(expected)))
        theirs = self._select(called, places)
        tool = repr(printable(self.tool_name))
        which = f"{self.occurrence} call" if isinstance(self.occurrence, str) else f"call at {self.occurrence}"
        if ours is None:
            return Measurement(skip_reason=f"the case expects no {which} of {tool}")
        if "input_parameters" not in expected[ours].model_fields_set:
            return Measurement(skip_reason=f"expected #{ours + 1} {tool} does not say which arguments it expects")
        if theirs is None:
            amount = plural(sum(called[index].name == self.tool_name for index in places), "time")
            text = f"Missing: expected #{ours + 1} {tool} was not called (no {which}; called {amount})."
            missing = Finding("missing", text, self.tool_name, expected=ours)
            return Measurement(scores={"match": 0.0}, sums={"match": f"no {which} of {tool} = 0"}, findings=[missing])
        if not called[theirs].captured("input_parameters"):
            return Measurement(
                skip_reason=f"the recording did not keep the arguments of {call_text(called[theirs], theirs)}"
            )
        rule = partial(differing, mode="exact" if self.match_mode == "exact" else "superset")
        pair = align([by_rule(expected[ours], rule)], called_items([called[theirs]]), arguments=True)
        found = verdict(
            pair.placed([ours], [theirs]), expected, called, mode=f"{which} of {tool}", whole=("expected", "called")
        )
        return replace(found, warnings=no_objects([called[theirs]]))

    def _select(self, calls: Sequence[ToolCall], places: Sequence[int]) -> int | None:
        """Return the position of the call that is looked at, if there is one."""
        found = [index for index in places if calls[index].name == self.tool_name]
        position = {"first": 0, "last": len(found) - 1}.get(str(self.occurrence), self.occurrence)
        return found[int(position)] if 0 <= int(position) < len(found) else None


def evaluator(
    metric: MetricLike, *, to_case: Callable[[Any], AnyCase] | None = None, redactor: Redactor = DEFAULT
) -> Any:  # noqa: ANN401 - a class of theirs, whose package need not be installed
    """Return a metric of toolmark as an evaluator for `pydantic_evals.Dataset(..., evaluators=[...])`.

    It gives the score with its reason under the name of the metric, and whether it passed as the assertion
    `<name> passed`. Where the metric was skipped it gives the label `skipped` with the reason, and no score. Where it
    could not be measured, or no case could be read, it raises, which pydantic-evals reports as an evaluator's failure.

    Args:
        metric: What measures each case.
        to_case: Makes a case of an `EvaluatorContext`. By default the output says what was called, under
            `tools_called`, `messages` or `agent_trajectory`, or is a `Run`; and the expected output, or the metadata,
            what was expected, under `expected_tools`; docs/traces.md has all keys.
        redactor: Takes secrets out of reasons and errors.

    Raises:
        MissingPackageError: pydantic-evals is not installed.
        ConfigurationError: It is no metric.
    """
    return evaluator_of(metric, to_case, redactor)
