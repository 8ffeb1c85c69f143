"""Base classes of the metrics, and the measurement that becomes a `MetricResult`.

A metric is frozen and stores nothing, so one object can measure many cases at once. `metric.score` after
`metric.measure(case)` still works: the last result is in a context variable, per thread and per task, keyed weakly by
the metric.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from toolgrade._internal.budget import CaseBudget
from toolgrade._internal.json import is_number
from toolgrade._internal.options import require_flags
from toolgrade._internal.text import number_text, plural, printable, shorten
from toolgrade.calls import CallStatus, ToolCall, ToolSpec, read_tool_spec
from toolgrade.cases import ConversationalTestCase, LLMTestCase, MLLMTestCase, TestCase
from toolgrade.errors import ConfigurationError, MissingFieldError, NotMeasuredError
from toolgrade.matching.alignment import Alignment
from toolgrade.matching.json_compare import frozen
from toolgrade.matching.redacted_values import has_mark
from toolgrade.metrics.wording import reason_text
from toolgrade.result import TOLERANCE, Finding, FindingKind, MetricResult, ResultStatus, redact_at_path

if TYPE_CHECKING:
    from toolgrade.expect.plan import Expectation
    from toolgrade.judge import JudgeLike
    from toolgrade.judge.driver import Flow
    from toolgrade.judge.protocol import Prompt

_Results = WeakKeyDictionary["Metric", MetricResult]

_last_results: ContextVar[_Results | None] = ContextVar("toolgrade_last_results", default=None)

FAILED: Final = frozenset({CallStatus.ERROR, CallStatus.INVALID_ARGUMENTS, CallStatus.UNKNOWN_TOOL})
"""Statuses of failed calls. A call that was rejected or cancelled, is pending or never ran is not a failure."""

NO_CALLS: Final = "no call was made"

_MAX_ERROR_LENGTH = 120
_EMPTY: Mapping[str, Any] = MappingProxyType({})


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
    """Base of toolgrade's metrics: frozen dataclasses, all of which have these four options.

    `score`, `reason`, `success` and `result` are those of the last case that this thread or task measured. For a metric
    of your own, see `toolgrade.metrics.MetricLike`.

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
    def _measure(self, case: Any) -> MetricResult | Flow[MetricResult]:
        """Return the result of one case, or the generator that asks a judge for it; read only case and options."""

    def measure(self, case: Any, /) -> MetricResult:
        """Return the result of one case, and remember it for `score`, `reason`, `success` and `result`.

        Raises:
            ToolgradeError: The case cannot be measured; the message names the missing or wrong field.
        """
        return self._remember(self._finished(self._outcome(case)), case)

    def _outcome(self, case: Any) -> MetricResult | Flow[MetricResult]:
        """Return what `_measure` returns, within the limits of one case."""
        with CaseBudget():
            return self._measure(case)

    def _finished(self, outcome: MetricResult | Flow[MetricResult]) -> MetricResult:
        """Return the result; ask the judge for it if `outcome` is a generator."""
        if isinstance(outcome, MetricResult):
            return outcome
        from toolgrade.judge.driver import drive  # noqa: PLC0415 - loaded only when a judge is asked

        return drive(outcome)

    async def a_measure(self, case: Any, /) -> MetricResult:
        """Return what `measure` returns; await the judge instead of blocking."""
        outcome = self._outcome(case)
        if not isinstance(outcome, MetricResult):
            from toolgrade.judge.driver import a_drive  # noqa: PLC0415 - loaded only when a judge is asked

            outcome = await a_drive(outcome)
        return self._remember(outcome, case)

    def prompts(self, case: Any, /) -> tuple[Prompt, ...]:
        """Return the prompts for the judge without sending them; empty if no judge is needed.

        Raises:
            ToolgradeError: As for `measure`.
        """
        outcome = self._outcome(case)
        if isinstance(outcome, MetricResult):
            return ()
        first_request = next(outcome, None)
        outcome.close()
        return () if first_request is None else first_request.prompts

    def _remember(self, result: MetricResult, case: Any) -> MetricResult:
        # A new mapping each time: a task inherits the context of its parent and must not write into it.
        before = _last_results.get()
        has_others = before is not None and (len(before) > 1 or self not in before)
        results = _Results(before if has_others else None)
        results[self] = result
        _last_results.set(results)
        if self.verbose_mode:
            from toolgrade.report.terminal import print_result  # noqa: PLC0415 - loaded only when printing

            print_result(result, case)
        return result

    @property
    def result(self) -> MetricResult:
        """The result of the last `measure` of this metric in this thread or task.

        Raises:
            NotMeasuredError: This metric has measured nothing here.
        """
        result = (_last_results.get() or _Results()).get(self)
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


class Measurement(NamedTuple):
    """The scores of one case with their evidence, before the threshold is applied."""

    scores: Mapping[str, float] = _EMPTY
    """By name, in [0, 1]; the lowest one is the score of the case. Empty if the metric does not apply to the case."""
    sums: Mapping[str, str] = _EMPTY
    """By name of the score, its arithmetic as text."""
    steps: Sequence[str] = ()
    """Lines of the reason that explain the terms of the arithmetic."""
    parts: Mapping[str, float] = _EMPTY
    """Further numbers of the result, which do not decide the score."""
    findings: Sequence[Finding] = ()
    warnings: Sequence[str] = ()
    alignment: Alignment | None = None
    skip_reason: str = NO_CALLS
    """Why there is no score, if `scores` is empty."""
    failure: str = ""
    """Why the judge could not decide a score; such a case fails."""


def result_of(metric: Metric, measured: Measurement) -> MetricResult:
    """Return the result of a measurement: failed, skipped, or the lowest score against the threshold."""
    findings, warnings = tuple(measured.findings), tuple(measured.warnings)
    score, passed, reason, error = None, None, None, None
    status = ResultStatus.SCORED
    if measured.failure:
        status, error = ResultStatus.ERRORED, f"JudgeError: {measured.failure}"
        reason = reason_text(f"Not measured: {measured.failure.rstrip('.')}.", findings, warnings)
    elif not measured.scores:
        status = ResultStatus.SKIPPED
        reason = reason_text(f"Skipped: {measured.skip_reason}.", findings, warnings)
    else:
        lowest = min(measured.scores.values())
        score = float(lowest >= 1) if metric.strict_mode else lowest
        passed = score >= metric.threshold - TOLERANCE
        if metric.include_reason:
            strict_note = "" if score == lowest else ", strict: 0"
            verdict = f"{strict_note} ({'passed' if passed else 'failed'} at {metric.threshold:g})."
            lines = [*_arithmetic_lines(measured, verdict), *measured.steps]
            reason = reason_text("\n".join(lines), findings, warnings)
    return MetricResult(
        metric=metric.label,
        status=status,
        score=score,
        threshold=metric.threshold,
        passed=passed,
        reason=reason,
        findings=findings,
        parts={**measured.scores, **measured.parts},
        alignment=measured.alignment,
        warnings=warnings,
        error=error,
    )


def _arithmetic_lines(measured: Measurement, verdict: str) -> list[str]:
    """Return the arithmetic of the score with the verdict; of several scores, first the minimum, then each of them."""
    if len(measured.scores) == 1:
        ((name, text),) = measured.sums.items()
        return [f"{text if name == 'calling' else f'{name}: {text}'}{verdict}"]
    terms = ", ".join(f"{name} {number_text(score)}" for name, score in measured.scores.items())
    total = f"min({terms}) = {number_text(min(measured.scores.values()))}{verdict}"
    return [total, *(f"{name.capitalize()}: {measured.sums[name]}." for name in measured.scores)]


class CallMetric(Metric):
    """Base of the metrics that need no judge: they score the called tools of a single-turn case."""

    @abstractmethod
    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase, /) -> Measurement:
        """Return the measurement of a case; `calls` may be empty."""

    def _measure(self, case: TestCase) -> MetricResult:
        measured = self._score_calls(called_tools(case, type(self).__name__), case)
        return result_of(self, measured._replace(warnings=(*run_notes(case), *measured.warnings)))


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
    """Return the measurement whose only score is `good / total`; if `total` is 0, the case is skipped."""
    evidence = Measurement(findings=findings, warnings=warnings, skip_reason=skip_reason if calls else NO_CALLS)
    if not total:
        return evidence
    score = good / total
    text = f"{good} / {plural(total, noun)} = {number_text(score)}"
    return evidence._replace(scores={name: score}, sums={name: text})


def label_text(name: str, options: Sequence[str]) -> str:
    """Return `name(option, option)`, or the name alone."""
    return f"{name}({', '.join(options)})" if options else name


def enabled(options: Mapping[str, object]) -> list[str]:
    """Return the texts of the options that are set, for a label."""
    return [text for text, is_set in options.items() if is_set]


def read_share(value: object, option: str) -> float:
    """Return an option as a float.

    Raises:
        ConfigurationError: It is not a number from 0 to 1.
    """
    if not is_number(value) or not 0 <= value <= 1:
        raise ConfigurationError(f"{option} must be a number from 0 to 1, got {value!r}")
    return float(value)


def read_judge(judge: JudgeLike | None, model: JudgeLike | None) -> JudgeLike | None:
    """Return the judge of a metric, which DeepEval calls its model.

    Raises:
        ConfigurationError: Both are given.
    """
    if model is not None and judge is not None:
        raise ConfigurationError("judge and model are two names of one option; give one of them")
    return judge if model is None else model


# Fields of a case


def run_notes(case: TestCase) -> list[str]:
    """Return the notes on what the recording of a case lacks."""
    return [] if case.run is None else case.run.notes


def case_label(case: TestCase | ConversationalTestCase) -> str:
    """Return ` of case 'id'`, or nothing if the case has neither id nor name."""
    return f" of case {case.id or case.name!r}" if case.id or case.name else ""


def check_case(case: object, metric: str) -> None:
    """Raise `ConfigurationError` unless it is a case of a single question."""
    if not isinstance(case, (LLMTestCase, MLLMTestCase)):
        raise ConfigurationError(f"{metric} measures an LLMTestCase or MLLMTestCase, got {type(case).__name__}")


def called_tools(case: TestCase, metric: str) -> list[ToolCall]:
    """Return the called tools of a case.

    Raises:
        ConfigurationError: It is not a single-turn case.
        MissingFieldError: The case has no `tools_called`.
    """
    check_case(case, metric)
    if case.tools_called is None:
        needs = f"{metric} needs tools_called{case_label(case)}"
        raise MissingFieldError("; ".join([needs, *run_notes(case)[:1], "give the calls, or [] for none"]))
    return case.tools_called


def expectation_of(case: TestCase, metric: str) -> list[ToolCall] | Expectation:
    """Return the expected tools of a case; a plan of calls without further rules is returned as their list.

    Raises:
        ConfigurationError: It is not a case of a single question.
        MissingFieldError: The case has no `expected_tools`.
    """
    check_case(case, metric)
    expected = case.expected_tools
    if expected is None:
        needs = f"{metric} needs expected_tools{case_label(case)}"
        raise MissingFieldError(f"{needs}; give the calls, or [] for none")
    if isinstance(expected, list):
        return expected
    from toolgrade.expect.plan import without_rules  # noqa: PLC0415 - loaded with the first plan

    return without_rules(expected)


def read_tools(option: Iterable[object] | None) -> tuple[ToolSpec, ...] | None:
    """Return available tools as specs; `None` if they are not set."""
    return None if option is None else tuple(map(read_tool_spec, option))


def needed_tools(
    option: Iterable[object] | None, case: TestCase | ConversationalTestCase, metric: str
) -> tuple[ToolSpec, ...]:
    """Return the available tools of a metric, by default those of the case.

    Raises:
        MissingFieldError: Neither the metric nor the case has tools.
    """
    tools = read_tools(case.available_tools if option is None else option)
    if tools is None:
        needs = f"{metric} needs available_tools{case_label(case)}, of the metric or of the case"
        raise MissingFieldError(f"{needs}; give the tools, or [] for none")
    return tools


# Called tools


def status_of(call: ToolCall) -> CallStatus | None:
    """Return the status of a call; `None` without an `execution`, as the status was not recorded."""
    return None if call.execution is None else call.execution.status


def has_failed(call: ToolCall) -> bool:
    """Return whether a call is recorded as failed."""
    return status_of(call) in FAILED


def has_succeeded(call: ToolCall) -> bool:
    """Return whether a call succeeded; a call without an `execution` counts as successful."""
    return status_of(call) in {None, CallStatus.OK}


def step_of(call: ToolCall) -> int | None:
    """Return the step in which the model asked for a call; `None` if it was not recorded."""
    return None if call.execution is None else call.execution.step


def in_same_step(call: ToolCall, other: ToolCall) -> bool:
    """Return whether the model asked for two calls at the same time, so that neither can react to the other."""
    return step_of(call) is not None and step_of(call) == step_of(other)


def identity_key(call: ToolCall) -> Hashable | None:
    """Return a key that identical calls share: name and arguments; `None` if not all arguments are known."""
    # Without valid, captured arguments, those that the model requested are compared.
    uses_requested = not call.captured("input_parameters") or status_of(call) is CallStatus.INVALID_ARGUMENTS
    arguments: Any = call.arguments
    if uses_requested:
        arguments = call.execution and call.execution.requested_parameters
        if arguments is None:
            return None
    return None if has_mark(arguments) else (call.name, uses_requested, frozen(arguments))


def call_text(call: ToolCall, index: int) -> str:
    """Return `called #3 'search'` for the call at position 2."""
    return f"called #{index + 1} {printable(call.name)!r}"


def call_finding(kind: FindingKind, title: str, call: ToolCall, index: int, detail: str = "", **values: Any) -> Finding:
    """Return a finding about one called tool, such as `Failed: called #3 'search', error: full`."""
    return Finding(kind, f"{title}: {call_text(call, index)}{detail}.", call.name, called=index, **values)


def error_text(call: ToolCall) -> str:
    """Return how a call failed, such as `error: TimeoutError: 30 s`, without secrets of a known form."""
    if call.execution is None:
        return ""
    message = str(redact_at_path(call.execution.error or "", None))
    detail = shorten(printable(message), _MAX_ERROR_LENGTH).rstrip(".")
    return f"{call.execution.status.value}: {detail}" if detail else call.execution.status.value


def omission_warnings(amount: int, reason: str, noun: str = "call") -> list[str]:
    """Return the warning that calls were left out of the score; empty if there are none."""
    return [f"{plural(amount, noun)} left out: {reason}"] if amount else []


def inferred_success_warnings(calls: Iterable[ToolCall]) -> list[str]:
    """Return the warning that calls count as successful only because their answers are not marked as errors."""
    amount = sum(_is_inferred_success(call) for call in calls)
    text = "recorded by the answer alone: a failure that only its text reports is not detected"
    return [f"{plural(amount, 'call')} {text}"] if amount else []


def _is_inferred_success(call: ToolCall) -> bool:
    execution = call.execution
    return execution is not None and execution.status is CallStatus.OK and not execution.executed
