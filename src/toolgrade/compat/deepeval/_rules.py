"""Metrics with another rule than those of `toolgrade.metrics`, under the names of `metrics` beside this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from toolgrade import metrics
from toolgrade.calls import read_tool_spec
from toolgrade.cases import ConversationalTestCase, TestCase
from toolgrade.judge.evidence import Unit
from toolgrade.judge.questions import Questions, questions_about
from toolgrade.metrics.base import CALLING, Details, Measurement, result_of
from toolgrade.result import MetricResult

_UNKNOWN_TOOLS: Final = "available_tools was not given, so the selection was judged among the tools that were called"


@dataclass(frozen=True, eq=False)
class MultimodalToolCorrectnessMetric(metrics.ToolCorrectnessMetric):
    """Tool correctness that is 0 as soon as an expected call was made out of order."""

    _name: ClassVar[str] = "multimodal_tool_correctness"

    def _compare(self, case: TestCase, extra_warnings: Sequence[str] = ()) -> Measurement:
        measurement = super()._compare(case, extra_warnings)
        details = measurement.details()
        late = sum(finding.kind == "out_of_order" for finding in details.findings)
        if not late or self.should_exact_match:
            return measurement
        steps = [f"In order: {details.arithmetic[CALLING]}.", *details.steps]
        details = details._replace(arithmetic={CALLING: f"{late} out of order = 0"}, steps=steps)
        return measurement._replace(scores={CALLING: 0.0}, explanation=details)


@dataclass(frozen=True, eq=False)
class ToolUseMetric(metrics.ToolUseMetric):
    """Tool use that takes the called tools for the available ones where nothing says which these are."""

    def _questions(self, case: ConversationalTestCase) -> Questions | None:
        if not self._is_unknown(case):
            return super()._questions(case)
        calls = [call for turn in case.turns for call in turn.tools_called or ()]
        called = {call.name: read_tool_spec(call) for call in calls}
        return super()._questions(case.model_copy(update={"available_tools": [*called.values()]}))

    def _units(self, case: ConversationalTestCase) -> tuple[tuple[Unit, ...], list[str]]:
        units, notes = super()._units(case)
        return units, [*notes, *([_UNKNOWN_TOOLS] if self._is_unknown(case) else [])]

    def _is_unknown(self, case: ConversationalTestCase) -> bool:
        return self.available_tools is None and case.available_tools is None


@dataclass(frozen=True, eq=False)
class ArgumentCorrectnessMetric(metrics.ToolUseMetric):
    """The argument score of tool use alone."""

    _name: ClassVar[str] = "argument_correctness"
    measures_conversations: ClassVar[bool] = False

    def _questions(self, case: ConversationalTestCase) -> Questions | None:
        units, _ = self._units(case)
        if not any(unit.calls for unit in units):
            return None
        tools = case.available_tools or ()
        return questions_about(self.judge, units, tools, arguments=True, selection=False, at_once=self.async_mode)

    def _compute(self, case: ConversationalTestCase) -> MetricResult:  # noqa: ARG002 - one without calls
        details = Details({"arguments": "no call was made, so none has wrong arguments: 1"})
        return result_of(self, Measurement({"arguments": 1.0}, details))
