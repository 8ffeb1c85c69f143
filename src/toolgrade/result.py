"""Results of metrics: a score or the reason why there is none, with findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from toolgrade._internal.json import REDACTED
from toolgrade._internal.locks import ForkSafeLock
from toolgrade.errors import NotMeasuredError
from toolgrade.matching.alignment import Alignment
from toolgrade.matching.argument_pattern import is_pattern, json_of
from toolgrade.matching.json_compare import ABSENT
from toolgrade.matching.value_text import PairText, pair_text, value_text

if TYPE_CHECKING:
    from toolgrade.redact import Redactor

_MAPPINGS = ("parts", "judge", "usage")
_EMPTY: Mapping[str, Any] = MappingProxyType({})

TOLERANCE = 1e-9
"""Scores within this of the threshold pass: 0.1 + 0.2 is not less than 0.3."""

FindingKind: TypeAlias = Literal[
    "missing",
    "unexpected",
    "out_of_order",
    "wrong_argument",
    "missing_argument",
    "extra_argument",
    "wrong_output",
    "wrong_type",
    "equal_by_meaning",
    "missing_text",
    "wrong_answer",
    "not_ended",
    "no_answer",
    "admits_failure",
    "not_compared",
    "unknown_tool",
    "schema_violation",
    "wrong_tool",
    "wrong_arguments",
    "missing_call",
    "not_judged",
    "invalid_schema",
    "redundant",
    "loop",
    "over_budget",
    "failed_call",
    "error_text",
    "abandoned",
    "repeated",
    "forbidden",
    "forbidden_argument",
    "not_approved",
    "too_early",
    "not_parallel",
    "unknown_effect",
    "ungrounded",
    "wrong_source",
    "traced",
]
"""Kinds of findings; see `Finding`."""

NOTHING_WRONG: Final = frozenset[FindingKind]({"equal_by_meaning", "traced"})
"""Kinds of findings that only explain a result."""


class ResultStatus(str, Enum):
    """Whether there is a score. A case that was not measured does not count as zero.

    Example:
        >>> from toolgrade import LLMTestCase, ResultStatus, ToolSuccessRate
        >>> result = ToolSuccessRate().measure(LLMTestCase(tools_called=[]))
        >>> result.status is ResultStatus.SKIPPED
        True
        >>> result.reason
        'Skipped: no call was made.'
    """

    SCORED = "scored"
    SKIPPED = "skipped"
    """The metric does not apply to this case."""
    ERRORED = "errored"
    """An error prevented the measurement; see `error`."""


class Finding(NamedTuple):
    """One difference that lowers the score, or one that could not be checked or costs nothing.

    Not checked are `not_compared` and `not_judged`. Nothing is wrong with `equal_by_meaning`, two spellings of one
    value, and with `traced`, a value and where it comes from.

    Attributes:
        kind: `missing` (expected, not called), `unexpected` (called, not expected), `out_of_order` (both, but not in
            order), `wrong_argument`, `missing_argument`, `extra_argument`, `wrong_output`, `wrong_type`, and
            `not_compared` (the recording did not keep the field). Where tools are judged, also `unknown_tool` and
            `schema_violation` (found by code), `wrong_tool`, `wrong_arguments` and `missing_call` (found by the judge),
            and `not_judged` (no verdict).
            Of calls alone: `invalid_schema` (of a tool), `redundant`, `loop` and `over_budget`; `failed_call`,
            `error_text` (a failure that only the answer shows), `abandoned` and `repeated` (failures that were not
            recovered from); `forbidden`, `forbidden_argument`, `not_approved` and `too_early` (policy). Of plans:
            `forbidden`, and `not_parallel` (in another step than its group). `unknown_effect`: not scored, because it
            is unknown whether the call changes something. Of the success of a task: `missing_text` (a required text
            that the agent did not say), `wrong_answer` and `not_ended`. Of the health of a run: `no_answer` and
            `admits_failure` (the answer says that the agent failed). Of the sources of values: `ungrounded` (from
            nowhere) and `wrong_source` (from where it must not come from). See docs/metrics.md.
        message: One sentence for people; positions in it count from 1.
        tool: Name of the tool.
        expected: Position of the expected call, from 0; `None` if there is none.
        called: Position of the called one, from 0; `None` if there is none. In a conversation, among all its calls.
        turn: The turn of the user in a conversation, from 1.
        path: JSON path within the call, e.g. `$.input_parameters.city`; `None` for a whole call.
        expected_value: The value expected there, a matcher (see `toolgrade.expect`), or `ABSENT`.
        called_value: The value found there, or `ABSENT`.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather", input_parameters={"city": "Rome"})],
        ...     expected_tools=[ToolCall(name="get_weather", input_parameters={"city": "Paris"})],
        ... )
        >>> finding = ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).findings[0]
        >>> print(finding.kind, finding.path, finding.expected_value, finding.called_value)
        wrong_argument $.input_parameters.city Paris Rome
        >>> print(finding.message)
        'get_weather' (expected #1, called #1): $.input_parameters.city expected "Paris", called with "Rome".
    """

    kind: FindingKind
    message: str
    tool: str
    expected: int | None = None
    called: int | None = None
    path: str | None = None
    expected_value: Any = ABSENT
    called_value: Any = ABSENT
    turn: int | None = None

    def to_dict(self, redactor: Redactor | None = None) -> dict[str, Any]:
        """Return this as JSON values, redacted (by default with `toolgrade.redact.DEFAULT`), without missing values."""
        redactor = redactor or _default_redactor()
        names = ("kind", "message", "tool", "expected", "called", "turn", "path")
        plain = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        plain["message"] = redactor(self.message)  # it may quote a judge, an error or an output
        for name in ("expected_value", "called_value"):
            if getattr(self, name) is not ABSENT:
                plain[name] = redact_at_path(json_of(getattr(self, name)), self.path, redactor)
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionResult:
    """One question about a case, and its decision.

    Attributes:
        criterion: `tool_selection` or `arguments` of a call, or `missing_calls` of a unit.
        decided_by: `judge`, or `code` if no judge was needed.
        outcome: A value of `toolgrade.errors.JudgeOutcome`; `ok` if there is a decision.
        decision: `yes`, `no` or `cannot_tell`; `None` unless `ok`.
        missing: How many calls are missing; 0 unless the criterion is `missing_calls` and the decision `no`.
        tool: Name of the called tool; `None` for a unit.
        called: Position of the call among all of the case, from 0; `None` for a unit.
        turn: Its turn of the user, from 1; `None` in a case without turns.
        probability: Share of the samples that agree, in [0, 1]; `None` with one sample.
        rationale: Text of the judge, or of the check in code; `None` if the judge gives none.
        evidence: References: `c2` is the second call of the case, `m1` its first message, `t3` the third tool.
        flip_rate: Share of samples with another decision, in [0, 1]; `None` for one sample.
        problem: The reason if there is no decision.
    """

    criterion: Literal["tool_selection", "arguments", "missing_calls"]
    decided_by: Literal["code", "judge"]
    outcome: str = "ok"
    decision: Literal["yes", "no", "cannot_tell"] | None = None
    missing: int = 0
    tool: str | None = None
    called: int | None = None
    turn: int | None = None
    probability: float | None = None
    rationale: str | None = None
    evidence: tuple[str, ...] = ()
    flip_rate: float | None = None
    problem: str | None = None

    def to_dict(self, redactor: Redactor | None = None) -> dict[str, Any]:
        """Return this as JSON values, redacted as by `Finding.to_dict`; missing values are left out."""
        redactor = redactor or _default_redactor()
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        plain["evidence"] = list(self.evidence)
        return {name: redactor(value) for name, value in plain.items() if value not in (None, [])}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """Decisions about one unit interaction.

    Attributes:
        index: Position among the units of the case, from 0.
        turn: Its turn of the user, from 1; `None` in a case without turns.
        selection: Its selection score, in [0, 1]; `None` if nothing was decided.
        arguments: Its argument score, likewise; also `None` without a call, or if arguments were not judged.
        questions: Every question about it.
    """

    index: int
    turn: int | None = None
    selection: float | None = None
    arguments: float | None = None
    questions: tuple[QuestionResult, ...] = ()

    def to_dict(self, redactor: Redactor | None = None) -> dict[str, Any]:
        """Return this as JSON values, redacted; a missing score is null."""
        return {
            "index": self.index,
            "turn": self.turn,
            "selection": self.selection,
            "arguments": self.arguments,
            "questions": [question.to_dict(redactor) for question in self.questions],
        }


class LateFields(NamedTuple):
    """The fields that explain a result, which it may make when one of them is first read."""

    reason: str | None = None
    findings: tuple[Finding, ...] = ()
    parts: Mapping[str, float] = _EMPTY
    alignment: Alignment | None = None
    warnings: tuple[str, ...] = ()


class Explainer(Protocol):
    """Makes the late fields of a result.

    It is called at most once in each thread, and gives equal values whenever that is: it reads nothing that can change,
    such as a case, and runs no code of the user.
    """

    def late_fields(self, result: MetricResult, /) -> LateFields:
        """Return these fields of a result, of which it reads the other fields alone."""
        ...


class _Deferring:
    """Room for the explainer of a result that was not read yet; `None` afterwards. It is not a field of the result."""

    __slots__ = ("_explainer",)

    _explainer: Explainer | None


_write: Final = object.__setattr__
"""Sets an attribute of a frozen result that is being made."""

_publishing: Final = ForkSafeLock()
"""Held to store late fields, so that all threads read the same objects."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetricResult(_Deferring):
    """Result of one metric for one case.

    Against a number it is compared, ordered, rounded and formatted as its score, so that `result >= 0.8` and
    `f"{result:.2f}"` work; `bool(result)` is whether it passed. Without a score it is false and equal to no number, and
    ordering, rounding and formatting with a format specification raise `NotMeasuredError`. Two results are equal if all
    their fields are, and ordered by their scores. What explains the score (`reason`, `findings`, `parts`, `alignment`,
    `warnings`) is made when it is first read; a case that changes after it was measured changes nothing.

    Attributes:
        metric: Name of the metric, with the options that differ from its defaults.
        status: Whether there is a score.
        score: In [0, 1]; `None` unless scored.
        threshold: The least score that passes.
        passed: Whether `score >= threshold` (within 1e-9); `None` unless scored.
        reason: The arithmetic and the findings in words, or why there is no score; `None` if reasons are off.
        findings: What lowered the score, by position.
        parts: Named numbers that the score is computed from or that complement it, e.g. `precision`, `recall`, `f1`.
        alignment: Pairs of expected and called tools.
        warnings: Reasons to doubt the score: an incomplete recording, a part that was not judged.
        error: `"TypeName: text"` of a failed result.
        units: Decisions of the judge by unit; empty if nothing was judged.
        judge: `model`, `prompts` (their version) and `samples` of the judge; `None` if nothing was judged. Scores of
            different judges or prompts are not comparable.
        usage: Tokens of the judge by name, including failed attempts, and `requests`; cached answers count none.
        cost: Cost at the prices of the judge; `None` if they are unknown.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather")],
        ...     expected_tools=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ... )
        >>> result = ToolCorrectnessMetric(threshold=0.8).measure(case)
        >>> print(result.score, result.passed)
        0.5 False
        >>> print(result.reason)
        1 matched / 2 expected = 0.5 (failed at 0.8).
        Missing: expected #2 'book_flight' was not called.
    """

    metric: str
    status: ResultStatus
    threshold: float
    score: float | None = None
    passed: bool | None = None
    reason: str | None = None
    findings: tuple[Finding, ...] = ()
    parts: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    alignment: Alignment | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None
    units: tuple[UnitResult, ...] = ()
    judge: Mapping[str, str] | None = None
    usage: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    cost: float | None = None

    def __post_init__(self) -> None:
        """Make the mappings read-only."""
        for name in _MAPPINGS:
            mapping = getattr(self, name)
            if mapping is not None and mapping is not _EMPTY:
                object.__setattr__(self, name, MappingProxyType(dict(mapping)))

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> object:
            """Make the late fields when one of them is first read: until then, their slots are empty."""
            if name not in LateFields._fields:
                message = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(message, name=name, obj=self)
            explainer = self._explainer
            if explainer is not None:  # else another thread has just made it
                values = explainer.late_fields(self)
                with _publishing:
                    if self._explainer is not None:
                        for field_name, value in zip(LateFields._fields, values, strict=True):
                            _write(self, field_name, value)
                        _write(self, "_explainer", None)
            return object.__getattribute__(self, name)

    def __reduce__(self) -> tuple[Callable[..., MetricResult], tuple[dict[str, Any]]]:
        """Pickle the read-only mappings as dictionaries."""
        state = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        plain = {name: dict(state[name]) for name in _MAPPINGS if state[name] is not None}
        return _restored, ({**state, **plain},)

    def __float__(self) -> float:
        """Return the score.

        Raises:
            NotMeasuredError: There is none; the message says why.
        """
        if self.score is None:
            message = f"{self.metric} has no score: it was {self.status.value} ({self.reason or self.error})"
            raise NotMeasuredError(message)
        return self.score

    def __bool__(self) -> bool:
        """Return whether it passed; False without a score."""
        return self.passed is True

    def __eq__(self, other: object) -> bool:
        """Return whether all fields of two results are equal, or the score equals a number."""
        if isinstance(other, MetricResult):
            return self._values == other._values
        if self.score is None:
            return NotImplemented
        # Not only for numbers: a `pytest.approx` compares itself with a number, not with a result.
        return bool(self.score == other)

    def __hash__(self) -> int:
        """Return the hash of the score, since a result and a number can be equal."""
        return hash(self.score)

    def __lt__(self, other: MetricResult | float) -> bool:
        """Return whether the score is lower; raises `NotMeasuredError` without one."""
        return float(self) < _number(other)

    def __le__(self, other: MetricResult | float) -> bool:
        """Return whether the score is lower or equal; see `__lt__`."""
        return float(self) <= _number(other)

    def __gt__(self, other: MetricResult | float) -> bool:
        """Return whether the score is higher; see `__lt__`."""
        return float(self) > _number(other)

    def __ge__(self, other: MetricResult | float) -> bool:
        """Return whether the score is higher or equal; see `__lt__`."""
        return float(self) >= _number(other)

    @property
    def _values(self) -> tuple[object, ...]:
        """The fields, in their order."""
        return tuple(getattr(self, entry.name) for entry in fields(self))

    def __round__(self, digits: int | None = None) -> float:
        """Return the rounded score; raises `NotMeasuredError` without one."""
        return round(float(self), digits)

    def __format__(self, specification: str) -> str:
        """Return the formatted score, or without a specification the text of the result."""
        return format(float(self), specification) if specification else str(self)

    def renamed(self, metric: str) -> MetricResult:
        """Return the same result under another metric name."""
        return self if metric == self.metric else replace(self, metric=metric)

    def to_dict(self, redactor: Redactor | None = None) -> dict[str, Any]:
        """Return this as JSON values, redacted as by `Finding.to_dict`; missing values are left out."""
        redactor = redactor or _default_redactor()
        plain: dict[str, Any] = {"metric": self.metric, "status": self.status.value, "threshold": self.threshold}
        for name in ("score", "passed", "reason", "error"):
            if getattr(self, name) is not None:
                plain[name] = redactor(getattr(self, name))
        collections = {
            "parts": dict(self.parts),
            "findings": [finding.to_dict(redactor) for finding in self.findings],
            "warnings": list(map(redactor, self.warnings)),
        }
        plain |= {name: items for name, items in collections.items() if items}
        if self.alignment is not None:
            plain["alignment"] = self.alignment.to_dict()
        if self.judge is not None:
            plain["judge"] = redactor(dict(self.judge))
            plain["units"] = [unit.to_dict(redactor) for unit in self.units]
            plain["usage"] = dict(self.usage)
            plain["cost"] = self.cost
        return plain


def _number(value: MetricResult | float) -> float:
    """Return the score of a result, or the number itself."""
    return float(value) if isinstance(value, MetricResult) else value


def _default_redactor() -> Redactor:
    from toolgrade.redact import DEFAULT  # noqa: PLC0415 - its expressions take long to compile

    return DEFAULT


def redact_at_path(value: Any, path: str | None, redactor: Redactor | None = None) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value at a JSON path, redacted; any key of the path may be secret."""
    default = _default_redactor()
    redactor = redactor or default
    if redactor is default and not _has_secret_key(path or ""):
        return redactor(value)
    return redactor.at(_names_in(path or ""), value)


@lru_cache(maxsize=1024)
def _has_secret_key(path: str) -> bool:
    return _default_redactor().at(_names_in(path), 1) == REDACTED


def _names_in(path: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^.\[\]\"]+", path))


_LONGEST_VALUE = 80
_NUMBERS = frozenset({int, float, bool, type(None)})
"""Types of values without a text in which a secret may be."""


def display_value(value: Any, path: str | None) -> str:  # noqa: ANN401 - a JSON value or a matcher
    """Return the value at a JSON path as text for people, without secrets; matchers stand in their own words."""
    return value_text(redacted_value(value, path), _LONGEST_VALUE)


def display_pair(expected: Any, called: Any, path: str | None) -> PairText:  # noqa: ANN401 - as above
    """Return two different values at a JSON path as text for people, without secrets; see `pair_text`."""
    return pair_text(redacted_value(expected, path), redacted_value(called, path), _LONGEST_VALUE)


def redacted_value(value: Any, path: str | None, redactor: Redactor | None = None) -> Any:  # noqa: ANN401 - as above
    """Return the value at a JSON path with its secrets redacted; a matcher with a secret becomes the mark."""
    if redactor is None and _holds_numbers(value) and not _has_secret_key(path or ""):
        return value
    plain = json_of(value)
    return _redacted_parts(value, plain, redact_at_path(plain, path, redactor))


def _redacted_parts(value: Any, plain: Any, safe: Any) -> Any:  # noqa: ANN401 - as above
    """Return a value with its redacted parts in place of the original ones."""
    if safe == plain:
        return value
    if type(value) is dict and type(safe) is dict:
        return {key: _redacted_parts(item, plain[key], safe[key]) for key, item in value.items()}
    if type(value) is list and type(safe) is list:
        return [_redacted_parts(*parts) for parts in zip(value, plain, safe, strict=True)]
    return REDACTED if is_pattern(value) else safe


def _holds_numbers(value: Any) -> bool:  # noqa: ANN401 - a JSON value or a matcher
    """Return whether a value is one of `_NUMBERS`, or a list of such."""
    return type(value) in _NUMBERS or (type(value) is list and _NUMBERS.issuperset(map(type, value)))


def _restored(state: dict[str, Any]) -> MetricResult:
    return MetricResult(**state)


def deferred_result(
    explainer: Explainer,
    *,
    metric: str,
    status: ResultStatus,
    threshold: float,
    score: float | None,
    passed: bool | None,
    error: str | None,
) -> MetricResult:
    """Return a result whose late fields are made when one of them is first read."""
    result = object.__new__(MetricResult)
    values: dict[str, object] = {
        "metric": metric,
        "status": status,
        "threshold": threshold,
        "score": score,
        "passed": passed,
        "error": error,
        "units": (),
        "judge": None,
        "usage": _EMPTY,
        "cost": None,
        "_explainer": explainer,
    }
    for name, value in values.items():
        _write(result, name, value)
    return result


def errored_result(metric: str, threshold: float, error: BaseException) -> MetricResult:
    """Return the result of a metric that an error kept from measuring."""
    text = f"{type(error).__name__}: {error}"
    return MetricResult(
        metric=metric, status=ResultStatus.ERRORED, threshold=threshold, reason=f"Not measured: {error}", error=text
    )
