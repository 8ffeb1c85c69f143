"""Tool use: did the agent choose the right tools in each part of a conversation, with the right arguments?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any

from toolmark.calls import ToolCall, ToolSpec, read_tool_spec
from toolmark.cases import ConversationalTestCase
from toolmark.errors import ConfigurationError, MissingFieldError
from toolmark.metrics.base import Metric, check_threshold
from toolmark.metrics.outcome import Outcome, outcome
from toolmark.result import MetricResult, ResultStatus

if TYPE_CHECKING:
    from toolmark.judge import JudgeLike
    from toolmark.judge.driver import Flow
    from toolmark.judge.interactions import Unit


@dataclass(frozen=True, eq=False)
class ToolUseMetric(Metric):
    """Judges the tool calls of a conversation, unit by unit: what a user asked, and what the agent did about it.

    The score is the lower one of two means: selection over all units, arguments over the units that have calls. A mean
    without units is left out. What code can decide (an unknown tool, arguments that do not fit the schema) is not
    asked. See docs/judge.md.

    Args:
        available_tools: The tools the agent could choose from, in any form that `ToolSpec` reads; by default those of
            the case. One of the two must be given.
        threshold: A score at or above it passes; in [0, 1].
        judge: Who judges: the name of a model, a model, a function, or a `Judge`; by default what the
            `TOOLMARK_JUDGE_*` variables say.
        include_reason: Put the arithmetic and the findings into words.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        async_mode: Ask all questions about a case at the same time, else one after the other.
        verbose_mode: Print the result of each measured case.
        model: Another name of `judge`.

    Raises:
        ConfigurationError: An option is out of range, both `judge` and `model` are given, or it is nothing that can
            judge.
    """

    available_tools: Sequence[ToolSpec | ToolCall | dict[str, Any]] | None = None
    threshold: float = 0.5
    judge: JudgeLike | None = None
    include_reason: bool = True
    strict_mode: bool = False
    async_mode: bool = True
    verbose_mode: bool = False
    model: InitVar[JudgeLike | None] = None

    def __post_init__(self, model: JudgeLike | None) -> None:
        """Check the options, and bring them into one form."""
        from toolmark.judge import Judge  # noqa: PLC0415 - loaded with the first metric that judges

        if model is not None and self.judge is not None:
            message = "judge and model are two names of one option; give one of them"
            raise ConfigurationError(message)
        set_field = object.__setattr__  # the dataclass is frozen from here on
        set_field(self, "threshold", 1.0 if self.strict_mode else check_threshold(self.threshold))
        set_field(self, "judge", Judge.of(self.judge if model is None else model))
        if self.available_tools is not None:
            set_field(self, "available_tools", tuple(read_tool_spec(tool) for tool in self.available_tools))

    @property
    def label(self) -> str:
        """`tool_use`, followed by the options that differ from the defaults."""
        return "tool_use(strict)" if self.strict_mode else "tool_use"

    @property
    def waits(self) -> bool:
        """Always: there is a judge to wait for."""
        return True

    def _measure(self, case: ConversationalTestCase) -> MetricResult | Flow[MetricResult]:
        from toolmark.metrics.judging import units_of  # noqa: PLC0415 - as above

        if not isinstance(case, ConversationalTestCase):
            message = f"{type(self).__name__} measures a ConversationalTestCase, got {type(case).__name__}"
            raise ConfigurationError(message)
        given = self.available_tools if self.available_tools is not None else case.available_tools
        if given is None:
            label = f" of case {case.id or case.name!r}" if case.id or case.name else ""
            message = f"{type(self).__name__} needs available_tools{label}, of the metric or of the case; [] is none"
            raise MissingFieldError(message)
        units, notes = units_of(case)
        if not units:
            reason = "; ".join(["Skipped: the conversation has no unit interaction", *notes])
            return MetricResult(
                metric=self.label, status=ResultStatus.SKIPPED, threshold=self.threshold, reason=f"{reason}."
            )
        return self._judged(units, notes, tuple(map(read_tool_spec, given)))

    def _judged(self, units: Sequence[Unit], notes: Sequence[str], tools: Sequence[ToolSpec]) -> Flow[MetricResult]:
        from toolmark.metrics.judging import Judge, judgement_of_units  # noqa: PLC0415 - as above

        judgement = yield from judgement_of_units(Judge.of(self.judge), units, tools, at_once=self.async_mode)
        return outcome(
            Outcome(
                metric=self.label,
                threshold=self.threshold,
                strict=self.strict_mode,
                include_reason=self.include_reason,
                judged=("selection", "arguments"),
                judgement=judgement,
                warnings=tuple(notes),
            )
        )

    def _show(self, result: MetricResult, case: ConversationalTestCase) -> None:
        if self.verbose_mode:
            from toolmark.report.terminal import print_result  # noqa: PLC0415 - the terminal is loaded when used

            print_result(result, case)
