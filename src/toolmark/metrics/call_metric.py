"""What the metrics share that need no judge: most look at the calls of a case alone, some at what was expected too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from toolmark._internal.text import plural, printable, shorten
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import LLMTestCase, MLLMTestCase, TestCase
from toolmark.errors import ConfigurationError, MissingFieldError
from toolmark.expect import Expectation, Plan
from toolmark.matching.alignment import Alignment
from toolmark.matching.json_compare import frozen
from toolmark.matching.redacted_values import has_mark
from toolmark.metrics.base import Metric, check_threshold
from toolmark.metrics.outcome import Outcome, outcome
from toolmark.metrics.wording import reason_of
from toolmark.result import Finding, MetricResult, ResultStatus, redact_at_path

FAILED: Final = frozenset({CallStatus.ERROR, CallStatus.INVALID_ARGUMENTS, CallStatus.UNKNOWN_TOOL})
"""Statuses of calls that failed. A call that was rejected, waits, was cancelled or never ran did not."""

_LONGEST_ERROR = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a metric found in the calls of one case.

    Attributes:
        scores: By name, each in [0, 1]; the lowest one counts. Empty where the question does not apply.
        sums: How each of them came about.
        steps: Lines for the reason that show how a sum's own terms came about.
        parts: Numbers that stand beside the scores.
        findings: What cost score, by position.
        warnings: What makes the score less sure.
        alignment: Of the calls, where they were compared with expected ones.
        skipped: Why there is no score, where there is none.
    """

    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    sums: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: Sequence[str] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    findings: Sequence[Finding] = ()
    warnings: Sequence[str] = ()
    alignment: Alignment | None = None
    skipped: str = "no call was made"


class PlainMetric(Metric):
    """Base of metrics that say in `Found` what they found: frozen dataclasses with these options among theirs."""

    threshold: float
    strict_mode: bool
    include_reason: bool
    verbose_mode: bool

    @property
    @abstractmethod
    def _name(self) -> str:
        """The name of the metric, without options."""

    @property
    def _told(self) -> Sequence[str]:
        """The options that differ from the defaults, as the label tells them."""
        return ()

    @abstractmethod
    def _found(self, calls: Sequence[ToolCall], case: TestCase) -> Found:
        """Return what there is to say of the calls of a case, of which there may be none."""

    def _set_threshold(self) -> None:
        """Check the threshold; strict mode makes it 1."""
        object.__setattr__(self, "threshold", 1.0 if self.strict_mode else check_threshold(self.threshold))

    @property
    def label(self) -> str:
        """The name, followed by the options that differ from the defaults."""
        options = [*self._told, *(["strict"] if self.strict_mode else [])]
        return f"{self._name}({', '.join(options)})" if options else self._name

    def _measure(self, case: TestCase) -> MetricResult:
        checked = check_case(case, type(self).__name__)
        found = self._found(calls_of(checked, "tools_called", type(self).__name__), checked)
        warnings = (*(checked.run.notes if checked.run is not None else ()), *found.warnings)
        findings = tuple(found.findings)
        if not found.scores:
            return MetricResult(
                metric=self.label,
                status=ResultStatus.SKIPPED,
                threshold=self.threshold,
                reason=reason_of(f"Skipped: {found.skipped}.", findings, warnings),
                findings=findings,
                warnings=warnings,
            )
        return outcome(
            Outcome(
                metric=self.label,
                threshold=self.threshold,
                strict=self.strict_mode,
                include_reason=self.include_reason,
                judged=(),
                judgement=None,
                scores=found.scores,
                sums=found.sums,
                steps=tuple(found.steps),
                parts=found.parts,
                findings=findings,
                warnings=warnings,
                alignment=found.alignment,
            )
        )

    def _show(self, result: MetricResult, case: TestCase) -> None:
        if self.verbose_mode:
            from toolmark.report.terminal import print_result  # noqa: PLC0415 - the terminal is loaded when used

            print_result(result, case)


class CallMetric(PlainMetric):
    """Base of the metrics that look at the calls of a case alone, and expect none."""


def check_case(case: object, metric: str) -> TestCase:
    """Return the case.

    Raises:
        ConfigurationError: It is no case of one question.
    """
    if not isinstance(case, (LLMTestCase, MLLMTestCase)):
        message = f"{metric} measures an LLMTestCase or MLLMTestCase, got {type(case).__name__}"
        raise ConfigurationError(message)
    return case


def named(case: TestCase) -> str:
    """Return ` of case 'id'`, or nothing where it has neither id nor name."""
    return f" of case {case.id or case.name!r}" if case.id or case.name else ""


def calls_of(case: TestCase, side: Literal["expected_tools", "tools_called"], metric: str) -> list[ToolCall]:
    """Return the calls of one side of a case.

    Raises:
        MissingFieldError: The case does not say.
        ConfigurationError: Its expectation says more than a list of calls can.
    """
    if side == "expected_tools":
        expected = expected_of(case, metric)
        if isinstance(expected, list):
            return expected
        message = f"{metric} compares lists of ToolCall, and expected_tools{named(case)} is a {type(expected).__name__}"
        raise ConfigurationError(f"{message}; ToolCorrectnessMetric and TaskEffectMetric understand it")
    if case.tools_called is None:
        raise _lacks(case, side, metric)
    return case.tools_called


def expected_of(case: TestCase, metric: str) -> list[ToolCall] | Expectation:
    """Return what should be called; a plan that says no more than a list of calls is one.

    Raises:
        MissingFieldError: The case does not say.
    """
    expected = case.expected_tools
    if expected is None:
        raise _lacks(case, "expected_tools", metric)
    if isinstance(expected, Plan) and expected.allow_extra is None and not expected.tools:
        calls = [item for item in expected.calls if isinstance(item, ToolCall)]
        if len(calls) == len(expected.calls):
            return calls
    return expected


def _lacks(case: TestCase, side: str, metric: str) -> MissingFieldError:
    notes = case.run.notes[:1] if case.run is not None and side == "tools_called" else []
    return MissingFieldError(
        "; ".join([f"{metric} needs {side}{named(case)}", *notes, "give the calls, or [] for none"])
    )


def status_of(call: ToolCall) -> CallStatus | None:
    """Return what became of a call; `None` of a call without an `execution`, of which nobody knows."""
    return None if call.execution is None else call.execution.status


def failed(call: ToolCall) -> bool:
    """Return whether a call is known to have failed."""
    return status_of(call) in FAILED


def went_well(call: ToolCall) -> bool:
    """Return whether a call succeeded; one without an `execution` did, for all that is known."""
    return status_of(call) in {None, CallStatus.OK}


def together(one: ToolCall, other: ToolCall) -> bool:
    """Return whether the model asked for two calls at the same time, so that neither answers to the other."""
    if one.execution is None or other.execution is None or one.execution.step is None:
        return False
    return one.execution.step == other.execution.step


def identity(call: ToolCall) -> Hashable | None:
    """Return a key that identical calls share: name and arguments; `None` where the arguments are not all known."""
    if not call.captured("input_parameters") or status_of(call) is CallStatus.INVALID_ARGUMENTS:
        raw = call.execution.requested_parameters if call.execution is not None else None
        return None if raw is None or has_mark(raw) else (call.name, "raw", frozen(raw))
    return None if has_mark(call.arguments) else (call.name, frozen(call.arguments))


def one(call: ToolCall, index: int) -> str:
    """Return `called #3 'search'`."""
    return f"called #{index + 1} {printable(call.name)!r}"


def why(call: ToolCall) -> str:
    """Return how a call failed, such as `error: TimeoutError: 30 s`; no secret of known shape is in it."""
    status = status_of(call)
    text = "" if call.execution is None or call.execution.error is None else call.execution.error
    told = shorten(printable(str(redact_at_path(text, None))), _LONGEST_ERROR).rstrip(".")
    kind = "" if status is None else status.value
    return f"{kind}: {told}" if told else kind


def left_out(amount: int, why: str) -> list[str]:
    """Return the warning that calls were left out, or nothing where none was."""
    return [f"{plural(amount, 'call')} left out: {why}"] if amount else []


def seen_by_answers(calls: Sequence[ToolCall]) -> list[str]:
    """Return the warning that some calls count as successful because nothing marks their answers as errors."""
    amount = sum(
        call.execution is not None and call.execution.status is CallStatus.OK and not call.execution.executed
        for call in calls
    )
    if not amount:
        return []
    return [f"{plural(amount, 'call')} known by answers alone: a failure that only their text tells of is not seen"]
