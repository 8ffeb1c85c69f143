"""Base classes of the metrics, and the measurement of a case, from which they make its result.

A metric is frozen and stores nothing, so one object can measure many cases at once. `metric.score` after
`metric.measure(case)` still works: the last result is in a context variable, per thread and per task, with a weak
reference to the metric.

In a metric of toolgrade, `_compute` makes the result of a case that needs no judge. If it has a judge, `_questions`
asks about the case, and `_result_from_replies` makes the result from the replies. `measure` and `a_measure` call these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias
from weakref import ReferenceType, ref

from toolgrade._internal.budget import CaseBudget
from toolgrade._internal.options import label_text, read_share, require_flags
from toolgrade._internal.text import number_text, plural
from toolgrade.calls import ToolCall
from toolgrade.cases import TestCase, WholeConversation
from toolgrade.errors import MissingExpectationError, MissingFieldError, NotMeasuredError
from toolgrade.matching.alignment import Alignment
from toolgrade.metrics.called_tools import as_case, called_tools, case_label, run_notes
from toolgrade.metrics.wording import reason_text
from toolgrade.result import TOLERANCE, Finding, LateFields, MetricResult, ResultStatus, deferred_result

if TYPE_CHECKING:
    from toolgrade.judge.protocol import Prompt
    from toolgrade.judge.questions import Questions, Replies

_Results: TypeAlias = "tuple[tuple[ReferenceType[Metric], MetricResult], ...]"

_last_results: ContextVar[_Results] = ContextVar("toolgrade_last_results", default=())

NO_CALLS: Final = "no call was made"

CALLING: Final = "calling"
"""The score of the calls in tool correctness. If it is the only score, its arithmetic is shown without its name."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Details(NamedTuple):
    """What explains the scores of a case."""

    arithmetic: Mapping[str, str] = _EMPTY
    """For each score, how it was computed, such as `{"valid": "3 / 4 checked calls = 0.75"}`."""
    steps: Sequence[str] = ()
    """Lines of the reason that explain the terms of the arithmetic."""
    parts: Mapping[str, float] = _EMPTY
    """Further numbers of the result, which do not decide the score."""
    findings: Sequence[Finding] = ()
    warnings: Sequence[str] = ()
    alignment: Alignment | None = None


class Measurement(NamedTuple):
    """The scores of one case before the threshold is applied, and how to explain them."""

    scores: Mapping[str, float] = _EMPTY
    """By name, in [0, 1]; the lowest one is the score of the case. Empty if the metric does not apply to the case."""
    explanation: Details | Callable[[], Details] = Details()
    """The details, or a function that makes them when the result is first read. By then the case may have changed, so
    the function holds what was compared, and neither the case nor the metric."""
    notes: Sequence[str] = ()
    """Warnings about the recording, which come before those of the details."""
    skip_reason: str = NO_CALLS
    """Why there is no score, if `scores` is empty."""
    failure: str = ""
    """Why the judge could not decide a score; the result of such a case is errored, so the case is not measured."""
    expected_turns: Sequence[int | None] = ()
    """For each expected call, the turn of the user in which it must be made; `None` if it may be made in any turn."""
    has_reason: bool = True
    """Whether a scored result has a reason; a result without a score always has one."""

    def details(self) -> Details:
        """Return the details, which are made now if that was deferred."""
        return self.explanation if isinstance(self.explanation, Details) else self.explanation()

    def late_fields(self, result: MetricResult, /) -> LateFields:
        """Return what explains the result of this measurement."""
        details = self.details()
        findings, warnings = tuple(details.findings), (*self.notes, *details.warnings)
        is_explained = self.has_reason or result.score is None
        return LateFields(
            reason=reason_text(self._head(details, result), findings, warnings) if is_explained else None,
            findings=findings,
            parts=MappingProxyType({**self.scores, **details.parts}),
            alignment=details.alignment,
            warnings=warnings,
        )

    def _head(self, details: Details, result: MetricResult) -> str:
        """Return the arithmetic with its steps, or why there is no score."""
        if self.failure:
            return f"Not measured: {self.failure.rstrip('.')}."
        if result.score is None:
            return f"Skipped: {self.skip_reason}."
        strict_note = "" if result.score == min(self.scores.values()) else ", strict: 0"
        verdict = f"{strict_note} ({'passed' if result.passed else 'failed'} at {result.threshold:g})."
        return "\n".join([*_arithmetic_lines(self.scores, details.arithmetic, verdict), *details.steps])


def _arithmetic_lines(scores: Mapping[str, float], arithmetic: Mapping[str, str], verdict: str) -> list[str]:
    """Return the arithmetic of the score with the verdict; of several scores, first the minimum, then each of them."""
    if len(scores) == 1:
        ((name, text),) = arithmetic.items()
        return [f"{text if name == CALLING else f'{name}: {text}'}{verdict}"]
    terms = ", ".join(f"{name} {number_text(score)}" for name, score in scores.items())
    total = f"min({terms}) = {number_text(min(scores.values()))}{verdict}"
    return [total, *(f"{name.capitalize()}: {arithmetic[name]}." for name in scores)]


def result_of(metric: Metric, measurement: Measurement) -> MetricResult:
    """Return the result of a measurement: errored, skipped, or the lowest score against the threshold."""
    score, passed, error = None, None, None
    status = ResultStatus.SCORED
    if measurement.failure:
        status, error = ResultStatus.ERRORED, f"JudgeError: {measurement.failure}"
    elif not measurement.scores:
        status = ResultStatus.SKIPPED
    else:
        lowest = min(measurement.scores.values())
        score = float(lowest >= 1) if metric.strict_mode else lowest
        passed = score >= metric.threshold - TOLERANCE
    return deferred_result(
        measurement if metric.include_reason else measurement._replace(has_reason=False),
        metric=metric.label,
        status=status,
        threshold=metric.threshold,
        score=score,
        passed=passed,
        error=error,
    )


class MetricLike(Protocol):
    """The interface that `evaluate` needs of a metric; a class with these members needs no base.

    Example:
        >>> from toolgrade import LLMTestCase, MetricResult, ResultStatus, ToolCall, evaluate
        >>> class AnyCall:
        ...     label, threshold = "any_call", 1.0
        ...
        ...     def measure(self, case):
        ...         score = 1.0 if case.tools_called else 0.0
        ...         fields = {"metric": self.label, "status": ResultStatus.SCORED, "threshold": self.threshold}
        ...         return MetricResult(**fields, score=score, passed=score >= self.threshold)
        ...
        ...     async def a_measure(self, case):
        ...         return self.measure(case)
        >>> print(evaluate([LLMTestCase(tools_called=[ToolCall(name="get_weather")])], [AnyCall()]))
        Passed: 1 case passed.
        any_call: mean 1 over 1 case; 1 passed, 0 failed (at 1), 0 skipped, 0 errored
    """

    @property
    def label(self) -> str:
        """The name under which results are reported."""
        ...

    @property
    def threshold(self) -> float:
        """The lowest score that passes."""
        ...

    def measure(self, case: Any, /) -> MetricResult:
        """Measure one case."""
        ...

    async def a_measure(self, case: Any, /) -> MetricResult:
        """Measure one case; await the judge, if there is one."""
        ...


class Metric(ABC):
    """Base of toolgrade's metrics.

    A metric is a frozen dataclass that derives from this class and declares the four options below as fields of its
    own, with its own default of the threshold. `score`, `reason`, `success` and `result` are those of the last case
    that this thread or task measured. For a metric of your own, see `toolgrade.metrics.MetricLike`.

    Attributes:
        threshold: The lowest score that passes, in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> metric = ToolCorrectnessMetric(threshold=0.8, strict_mode=True)
        >>> case = LLMTestCase(tools_called=[], expected_tools=[ToolCall(name="get_weather")])
        >>> result = metric.measure(case)
        >>> print(metric.label, metric.threshold, metric.score, metric.is_successful())
        tool_correctness(strict) 1.0 0.0 False
    """

    _name: ClassVar[str]
    """The name of the metric, without options."""
    needs_expectation: ClassVar[bool] = False
    """Whether the metric compares with what a golden states, so that `evaluate` refuses goldens that state nothing."""

    threshold: float
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the flags and the threshold; strict mode makes it 1."""
        require_flags(self)
        self._set(threshold=1.0 if self.strict_mode else read_share(self.threshold, "threshold"))

    def _set(self, **options: object) -> None:
        """Set options to their normalized values, although the dataclass is frozen."""
        for name, value in options.items():
            object.__setattr__(self, name, value)

    @property
    def label(self) -> str:
        """The name under which results are reported, with the options that differ from the defaults."""
        return label_text(self._name, [*self._options, *(["strict"] if self.strict_mode else [])])

    @property
    def _options(self) -> Sequence[str]:
        """The options that differ from the defaults, for the label."""
        return ()

    @property
    def waits(self) -> bool:
        """Whether measuring waits for a judge; `evaluate` then measures several cases at the same time."""
        return False

    @abstractmethod
    def _compute(self, case: Any, /) -> MetricResult:
        """Return the result of one case that needs no judge; it depends on the case and the options alone."""

    def _questions(self, case: Any, /) -> Questions | None:  # noqa: ARG002 - for metrics with a judge
        """Return the questions to a judge about one case; `None` if the case needs no judge."""
        return None

    def _result_from_replies(self, case: Any, replies: Replies | None, /) -> MetricResult:  # noqa: ARG002 - as above
        """Return the result of one case from the replies to its questions; they are `None` if it needs no judge."""
        with CaseBudget():
            return self._compute(case)

    def _normalize(self, case: Any, /) -> Any:
        """Return a case in the form that this metric measures: a conversation as one case."""
        return as_case(case)

    def measure(self, case: Any, /) -> MetricResult:
        """Return the result of one case, and remember it for `score`, `reason`, `success` and `result`.

        Raises:
            ToolgradeError: The case cannot be measured; the message names the missing or wrong field.
        """
        normalized = self._normalize(case)
        questions = self._questions(normalized)
        replies = None if questions is None else questions.ask()
        return self._remember(self._result_from_replies(normalized, replies), case)

    async def a_measure(self, case: Any, /) -> MetricResult:
        """Return what `measure` returns; await the judge instead of blocking."""
        normalized = self._normalize(case)
        questions = self._questions(normalized)
        replies = None if questions is None else await questions.a_ask()
        return self._remember(self._result_from_replies(normalized, replies), case)

    def prompts(self, case: Any, /) -> tuple[Prompt, ...]:
        """Return the prompts for the judge without sending them; empty if no judge is needed.

        Raises:
            ToolgradeError: As for `measure`.
        """
        questions = self._questions(self._normalize(case))
        return () if questions is None else questions.prompts

    def _with_notes_and_turns(self, case: TestCase, measurement: Measurement) -> Measurement:
        """Return a measurement with notes on the recording of its case; the findings of a conversation name turns."""
        measurement = measurement._replace(notes=run_notes(case))
        stated_turns = {*measurement.expected_turns} - {None}
        if not isinstance(case, WholeConversation) and not stated_turns:
            return measurement
        called_turns = tuple(call.turn for call in case.tools_called or ())
        in_turns = partial(_details_in_turns, measurement, called_turns, self._scores_of_turns(case))
        return measurement._replace(explanation=in_turns)

    def _scores_of_turns(self, case: TestCase) -> Mapping[str, float]:
        """Return the scores of the turns of a conversation, each measured by itself, such as `{"turn 2": 0.5}`.

        Turns that do not state what this metric compares have none.
        """
        scores: dict[str, float] = {}
        if not isinstance(case, WholeConversation) or not self.needs_expectation:
            return scores
        for number, turn in case.conversation.stating_turns:
            with suppress(MissingExpectationError):
                score = self._compute(turn).score
                if score is not None:
                    scores[f"turn {number}"] = score
        return scores

    def _remember(self, result: MetricResult, case: Any) -> MetricResult:
        # A new tuple each time: a task inherits the context of its parent and must not write into it.
        others = [entry for entry in _last_results.get() if entry[0]() not in (None, self)]
        _last_results.set((*others, (ref(self), result)))
        if self.verbose_mode:
            from toolgrade.report.terminal.results import print_result  # noqa: PLC0415 - loaded only when printing

            print_result(result, case)
        return result

    @property
    def result(self) -> MetricResult:
        """The result of the last `measure` of this metric in this thread or task.

        Raises:
            NotMeasuredError: This metric has measured nothing here.
        """
        result = next((result for metric, result in _last_results.get() if metric() is self), None)
        if result is None:
            advice = "call measure(case) here, or use the result that measure, a_measure or evaluate returned"
            raise NotMeasuredError(f"{self.label} has measured nothing in this thread or task; {advice}")
        return result

    @property
    def score(self) -> float | None:
        """The last score, in [0, 1]; `None` if the case was skipped. See `result`."""
        return self.result.score

    @property
    def reason(self) -> str | None:
        """The last reason. See `result`."""
        return self.result.reason

    @property
    def success(self) -> bool | None:
        """Whether the last score passed. See `result`."""
        return self.result.passed

    def is_successful(self) -> bool:
        """Return whether the last score passed; False if the case has no score."""
        return bool(self.result.passed)


class CallMetric(Metric):
    """Base of the metrics that need no judge: they score the called tools of a single-turn case."""

    @abstractmethod
    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase, /) -> Measurement:
        """Return the measurement of a case; `calls` may be empty."""

    def _compute(self, case: TestCase) -> MetricResult:
        measurement = self._score_calls(called_tools(case, type(self).__name__), case)
        return result_of(self, self._with_notes_and_turns(case, measurement))


def share_of_calls(
    calls: Sequence[ToolCall],
    name: str,
    good: int,
    total: int,
    noun: str,
    *,
    findings: Sequence[Finding] = (),
    warnings: Sequence[str] = (),
    skip_reason: str = "no call could be checked",
) -> Measurement:
    """Return the measurement whose only score is `good / total`.

    If `total` is 0, the case is skipped: because no call was made if `calls` is empty, else for the `skip_reason`.
    """
    explanation = partial(_details_of_share, name, good, total, noun, tuple(findings), tuple(warnings))
    scores = {name: good / total} if total else _EMPTY
    return Measurement(scores, explanation, skip_reason=skip_reason if calls else NO_CALLS)


def refuse_unknown(metric: Metric, case: TestCase, unknown: int, wrong: float, reason: str) -> None:
    """Raise if a metric cannot check some calls, unless the known wrong calls fail the case anyway.

    With 1 wrong call of 4 the score is at most 0.75: at the threshold 0.8 the case fails, whatever they are.

    Raises:
        MissingFieldError: `unknown` is not 0, and `wrong`, the share of wrong calls, does not fail the case.
    """
    best_possible = 1 - wrong
    if unknown and best_possible >= metric.threshold - TOLERANCE:
        needs = f"{type(metric).__name__} cannot check {plural(unknown, 'call')}{case_label(case)}: {reason}"
        raise MissingFieldError(f"{needs}; record them")


def _details_in_turns(
    measurement: Measurement, called_turns: Sequence[int | None], scores: Mapping[str, float]
) -> Details:
    """Return the details of a conversation: each finding names its turn, and `parts` has the scores of the turns."""
    details = measurement.details()
    findings = [_in_turn(finding, called_turns, measurement.expected_turns) for finding in details.findings]
    return details._replace(findings=findings, parts={**details.parts, **scores})


def _in_turn(finding: Finding, called: Sequence[int | None], expected: Sequence[int | None]) -> Finding:
    """Return a finding with its turn, from the turns of the called and the expected tools."""
    turn = finding.turn
    if turn is None and finding.called is not None:
        turn = called[finding.called]
    if turn is None and finding.expected is not None and finding.expected < len(expected):
        turn = expected[finding.expected]
    return finding if turn is None else finding._replace(turn=turn, message=f"Turn {turn}: {finding.message}")


def _details_of_share(
    name: str, good: int, total: int, noun: str, findings: Sequence[Finding], warnings: Sequence[str]
) -> Details:
    """Return the arithmetic of `good / total` with the findings."""
    arithmetic: dict[str, str] = {}
    if total:
        arithmetic[name] = f"{good} / {plural(total, noun)} = {number_text(good / total)}"
    return Details(arithmetic, findings=findings, warnings=warnings)
