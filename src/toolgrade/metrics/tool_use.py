"""Tool use: a metric for conversations, in which a judge scores the selection of tools and their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from toolgrade._internal.model import drop_none
from toolgrade._internal.options import require_one_name
from toolgrade.calls import ToolCall, ToolSpec
from toolgrade.cases import ConversationalTestCase, TestCase, Turn
from toolgrade.metrics.base import Measurement, Metric, result_of
from toolgrade.metrics.called_tools import called_tools, needed_tools, read_tools, refuse_spoilt, text_of
from toolgrade.result import MetricResult

if TYPE_CHECKING:
    from toolgrade.judge.evidence import Unit
    from toolgrade.judge.judge import JudgeLike
    from toolgrade.judge.questions import Questions, Replies


@dataclass(frozen=True, eq=False)
class ToolUseMetric(Metric):
    """Judges the tool calls of a conversation in units: a user's question and the agent's reaction to it.

    The score is the lower of two means: selection over all units, arguments over the units that have calls. A mean
    without units is left out. The judge is not asked what code can decide: an unknown tool, or arguments that do not
    match the schema. See docs/judge.md.

    Args:
        available_tools: The tools the agent could choose from, in any form that `ToolSpec` reads; by default those of
            the case. One of the two is required.
        threshold: The lowest score that passes, in [0, 1].
        judge: The name of a model, a model, a function, or a `Judge`; by default the one that the `TOOLGRADE_JUDGE_*`
            variables configure.
        include_reason: Put the arithmetic and the findings into words.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        async_mode: Ask all questions about a case at the same time instead of one after the other.
        verbose_mode: Print the result of each measured case.
        model: Another name of `judge`.

    Raises:
        ConfigurationError: An option is out of range, both `judge` and `model` are given, or the judge is
            not one of these.

    Example:
        >>> import json
        >>> from toolgrade import ConversationalTestCase, ToolCall, ToolUseMetric, Turn
        >>> def judge(messages):
        ...     reply = {"evidence": ["m1"], "reasoning": "The user asked for it.", "verdict": "yes"}
        ...     return json.dumps(reply | {"missing": []} if '"missing"' in messages[0]["content"] else reply)
        >>> turns = [
        ...     Turn(role="user", content="What is the weather in Paris?"),
        ...     Turn(role="assistant", content="Sunny.", tools_called=[ToolCall(name="get_weather")]),
        ... ]
        >>> metric = ToolUseMetric(available_tools=[{"name": "get_weather"}], judge=judge)
        >>> print(metric.measure(ConversationalTestCase(turns=turns)).reason)
        min(selection 1, arguments 1) = 1 (passed at 0.5).
        Selection: 1 yes / (1 yes + 0 no) = 1.
        Arguments: 1 yes / (1 yes + 0 no) = 1.
    """

    _name: ClassVar[str] = "tool_use"
    measures_conversations: ClassVar[bool] = True
    """Files of conversations are not divided into a case for each question."""

    available_tools: Sequence[ToolSpec | ToolCall | dict[str, Any]] | None = None
    threshold: float = 0.5
    judge: JudgeLike | None = None
    include_reason: bool = True
    strict_mode: bool = False
    async_mode: bool = True
    verbose_mode: bool = False
    model: InitVar[JudgeLike | None] = None

    def __post_init__(self, model: JudgeLike | None) -> None:
        """Check the options and normalize them."""
        from toolgrade.judge import Judge  # noqa: PLC0415 - loaded with the first metric that judges

        super().__post_init__()
        require_one_name("judge", self.judge, "model", model)
        judge = Judge.of(self.judge if model is None else model)
        self._set(judge=judge, available_tools=read_tools(self.available_tools))

    @property
    def waits(self) -> bool:
        """True: this metric always waits for a judge."""
        return True

    def _normalize(self, case: TestCase | ConversationalTestCase) -> ConversationalTestCase:
        """Return a conversation; a case of one question is one of a single turn."""
        refuse_spoilt(case)
        if isinstance(case, ConversationalTestCase):
            return case
        calls = called_tools(case, type(self).__name__)
        answer = Turn(role="assistant", content=text_of(case.actual_output or ""), tools_called=calls)
        turns = [answer] if case.input is None else [Turn(role="user", content=text_of(case.input)), answer]
        fields = {"id": case.id, "name": case.name, "available_tools": case.available_tools}
        return ConversationalTestCase(turns=turns, **drop_none(fields))

    def _compute(self, case: ConversationalTestCase) -> MetricResult:
        _, notes = self._units(case)
        return result_of(self, Measurement(skip_reason="; ".join(["the conversation has no unit interaction", *notes])))

    def _questions(self, case: ConversationalTestCase) -> Questions | None:
        from toolgrade.judge.questions import questions_about  # noqa: PLC0415 - loaded with the judge

        units, _ = self._units(case)
        tools = needed_tools(self.available_tools, case, type(self).__name__)
        return questions_about(self.judge, units, tools, arguments=True, at_once=self.async_mode) if units else None

    def _result_from_replies(self, case: ConversationalTestCase, replies: Replies | None) -> MetricResult:
        if replies is None:
            return super()._result_from_replies(case, None)
        from toolgrade.metrics.judging import judged_result  # noqa: PLC0415 - loaded with the judge

        return judged_result(self, Measurement(notes=self._units(case)[1]), replies)

    def _units(self, case: ConversationalTestCase) -> tuple[tuple[Unit, ...], list[str]]:
        """Return the units of a conversation, and notes about the turns that are in none."""
        from toolgrade.judge.evidence import units_of  # noqa: PLC0415 - loaded with the judge

        return units_of(case)
