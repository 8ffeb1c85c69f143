"""JSON form of results and of their cases: models that validate results, and the encoding of cases."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple, cast

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import to_jsonable_python

from toolgrade._internal.json import json_path, json_text, short_repr, to_json_value
from toolgrade._internal.model import Model, drop_none
from toolgrade.calls import Execution, ToolCall, ToolSpec
from toolgrade.cases import AnyCase, ConversationalTestCase, Handoff, LLMTestCase, MLLMImage, MLLMTestCase, Run, Turn
from toolgrade.errors import ConfigurationError, InvalidDataError, Problem
from toolgrade.expect import read_expectation
from toolgrade.expect.json_form import is_expectation, read_value
from toolgrade.expect.plan import parse_argument_path
from toolgrade.matching.alignment import Alignment, Pair
from toolgrade.matching.json_compare import ABSENT, Difference
from toolgrade.redact import DEFAULT, may_hold_secret
from toolgrade.result import Finding, MetricResult, QuestionResult, ResultStatus, UnitResult
from toolgrade.verdict import Gate

if TYPE_CHECKING:
    from typing_extensions import Self


def _parse_nonfinite(value: object) -> object:
    return float(value) if isinstance(value, str) and value in {"NaN", "Infinity", "-Infinity"} else value


Number = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(_parse_nonfinite)]
"""A number; NaN and infinities are written as texts."""

Position = Annotated[int, Field(ge=0)]
"""A position, from 0."""

_DIFFERENCES: Final = ("wrong_argument", "missing_argument", "extra_argument", "wrong_output", "wrong_type")
"""Kinds of findings that describe a difference between the two calls of a pair."""

_MAX_DENOMINATOR = 10**6
_NO_VALUE: Any = ABSENT


class Written(Model):
    """Base of the JSON forms. Unknown keys, which newer versions may write, are ignored; no value is coerced."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore",
        strict=True,
        allow_inf_nan=False,
        defer_build=True,  # most programs only write results, so validators are built at the first read
    )

    def values(self, **replaced: object) -> dict[str, Any]:
        """Return the fields as arguments of a result class: lists as tuples, and some fields replaced."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return {**values, **lists, **replaced}


class WrittenGate(Written):
    """The shares of a gate that differ from its defaults."""

    pass_rate: float = 1.0
    per_golden: float = 1.0
    not_measured: float = 0.0
    agent_errors: float = 0.0
    min_answered: float | None = None

    def to_gate(self) -> Gate:
        """Convert to a `Gate`; for errors see there."""
        return Gate(**self.values())


class WrittenFinding(Written):
    """One thing that cost score."""

    message: str
    kind: str = "not_compared"
    tool: str = ""
    expected: int | None = None
    called: int | None = None
    turn: int | None = None
    path: str | None = None
    expected_value: JsonValue = _NO_VALUE
    called_value: JsonValue = _NO_VALUE

    def to_finding(self) -> Finding:
        """Convert to a `Finding`; the expected value may be a matcher."""
        return Finding(**self.values(expected_value=read_value(self.expected_value)))


class WrittenPair(Written):
    """An expected call and the called tool it is paired with."""

    expected: Position
    called: Position
    similarity: float
    not_compared: list[str] = Field(default_factory=list[str])
    redacted: list[str] = Field(default_factory=list[str])
    breaks: Literal["after", "parallel"] | None = None
    why: str = ""

    def to_pair(self, findings: Sequence[Finding]) -> Pair:
        """Convert to a `Pair`; its differences are written as findings."""
        place = (self.expected, self.called)
        own = [one for one in findings if (one.expected, one.called) == place and one.kind in _DIFFERENCES]
        values = self.values(
            differences=tuple(map(_difference, own)),
            breaks=None if self.breaks is None else (self.breaks, self.why),
        )
        del values["why"]
        return Pair(**values)


class WrittenForbidden(Written):
    """A called tool that a plan forbids."""

    called: Position
    by: str


class WrittenAlignment(Written):
    """The pairs of expected and called tools."""

    expected_count: Position
    called_count: Position
    ordered: bool
    matched: float
    pairs: list[WrittenPair]
    out_of_order: list[WrittenPair]
    missing: list[Position]
    unexpected: list[Position]
    unused: list[Position] = Field(default_factory=list[int])
    labels: list[str] = Field(default_factory=list[str])
    choices: list[str] = Field(default_factory=list[str])
    forbidden: list[WrittenForbidden] = Field(default_factory=list[WrittenForbidden])
    extras: bool | None = None
    gap: float = 0.0
    excess: list[Position] = Field(default_factory=list[int])

    def to_alignment(self, findings: Sequence[Finding]) -> Alignment:
        """Convert to an `Alignment`."""
        return Alignment(
            **self.values(
                matched=_fraction(self.matched),
                pairs=tuple(pair.to_pair(findings) for pair in self.pairs),
                out_of_order=tuple(pair.to_pair(findings) for pair in self.out_of_order),
                forbidden=tuple((call.called, call.by) for call in self.forbidden),
            )
        )


class WrittenQuestion(Written):
    """One question about a case."""

    decided_by: str
    criterion: str = "tool_selection"
    outcome: str = "ok"
    decision: str | None = None
    missing: int = 0
    tool: str | None = None
    called: int | None = None
    turn: int | None = None
    probability: float | None = None
    rationale: str | None = None
    evidence: list[str] = Field(default_factory=list[str])
    flip_rate: float | None = None
    problem: str | None = None


class WrittenUnit(Written):
    """The judgement of one interaction."""

    index: int = 0
    turn: int | None = None
    selection: float | None = None
    arguments: float | None = None
    questions: list[WrittenQuestion] = Field(default_factory=list[WrittenQuestion])

    def to_unit(self) -> UnitResult:
        """Convert to a `UnitResult`."""
        questions = tuple(QuestionResult(**question.values()) for question in self.questions)
        return UnitResult(**self.values(questions=questions))


class WrittenResult(Written):
    """The result of one metric for one case."""

    metric: str
    status: Literal["scored", "skipped", "errored"]
    threshold: float
    score: float | None = None
    passed: bool | None = None
    reason: str | None = None
    error: str | None = None
    findings: list[WrittenFinding] = Field(default_factory=list[WrittenFinding])
    parts: dict[str, Number] = Field(default_factory=dict[str, float])
    alignment: WrittenAlignment | None = None
    warnings: list[str] = Field(default_factory=list[str])
    judge: dict[str, str] | None = None
    units: list[WrittenUnit] = Field(default_factory=list[WrittenUnit])
    usage: dict[str, int] = Field(default_factory=dict[str, int])
    cost: float | None = None

    @model_validator(mode="after")
    def _fits_its_status(self) -> Self:
        is_scored = self.status == "scored"
        rule = f"{'is required' if is_scored else 'must be absent'} with the status {self.status!r}"
        wrong = [name for name in ("score", "passed") if (getattr(self, name) is not None) != is_scored]
        if wrong:
            raise InvalidDataError(rule, [Problem(f"$.{name}", rule) for name in wrong])
        return self

    def to_result(self) -> MetricResult:
        """Convert to a `MetricResult`."""
        findings = tuple(finding.to_finding() for finding in self.findings)
        return MetricResult(
            **self.values(
                status=ResultStatus(self.status),
                findings=findings,
                alignment=None if self.alignment is None else self.alignment.to_alignment(findings),
                units=tuple(unit.to_unit() for unit in self.units),
            )
        )


def _difference(finding: Finding) -> Difference:
    """Return the difference of a pair that a finding describes."""
    text = (finding.path or "").removeprefix("$").removeprefix(".")
    try:
        root, *inner = parse_argument_path(text)
    except ConfigurationError:
        place: tuple[str | int, ...] = (text,)
    else:
        # Places are relative to the arguments; a finding about the output has none.
        place = tuple(inner) if root == "input_parameters" else ()
    kind = cast('Literal["wrong_argument"]', finding.kind)
    return Difference(kind, place, finding.expected_value, finding.called_value)


def _fraction(value: float) -> Fraction:
    """Return a sum of similarities that was written as a float."""
    if not math.isfinite(value):
        return Fraction(0)
    # The sum is a fraction with a small denominator: take it only if it has exactly this float.
    near = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    return near if float(near) == value else Fraction(value)


def missing_results(results: Sequence[WrittenResult], metrics: Sequence[str], *path: str | int) -> Problem:
    """Return the problem of a case, whose results `path` leads to, that has not one result of each metric."""
    actual = ", ".join(result.metric for result in results)
    message = f"expected one result of each metric ({', '.join(metrics)}), got {actual or 'none'}"
    return Problem(json_path(path), message)


_TYPES: Mapping[str, type[AnyCase]] = {
    "case": LLMTestCase,
    "multimodal": MLLMTestCase,
    "conversation": ConversationalTestCase,
}
_NAMES = {model: name for name, model in _TYPES.items()}
# Models whose fields hold JSON values or such models only, since their validators convert them.
_PLAIN_MODELS = frozenset(
    {LLMTestCase, ConversationalTestCase, Turn, Run, MLLMImage, ToolCall, Execution, ToolSpec, Handoff}
)
_MAX_DEPTH = 20


class EncodedCase(NamedTuple):
    """A case or a golden with its JSON text; of one that cannot be written the text is the reason."""

    case: object
    text: bytes


def encode_case(case: object) -> EncodedCase:
    """Return any case or golden with its JSON text."""
    try:
        text = encode_model(case) if isinstance(case, Model) else json_text(to_json_value(case, [])).encode()
    except InvalidDataError as error:
        text = json_text(str(error)).encode()
    return EncodedCase(case, text)


def case_members(encoded: EncodedCase) -> bytes:
    """Return the type and content of a case in a line of results, without secrets, or why it cannot be written."""
    case, text = encoded
    if not isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)) or type(case) not in _NAMES:
        return _not_written(json_text(f"{type(case).__name__} is not a case").encode())
    if may_hold_secret(text):
        text = encode_case(DEFAULT.model(case)).text
    if not text.startswith(b"{"):
        return _not_written(text)
    return b'"type": "%b", "content": %b' % (_NAMES[type(case)].encode(), text)


def _not_written(reason: bytes) -> bytes:
    return b'"not_written": ' + reason


def case_from_json(type_name: str | None, content: Mapping[str, Any] | None, **names: str | None) -> AnyCase:
    """Return a case from its JSON form; without content, a case with an id or a name only.

    The content of a case that is named by its place has no name.

    Raises:
        InvalidDataError: The content does not fit the type.
    """
    if content is None:
        return LLMTestCase.model_validate(drop_none(names))
    content = {**drop_none(names), **content}
    model = _TYPES.get(type_name or "case")
    if model is None:
        message = f"expected one of {', '.join(_TYPES)}, got {short_repr(type_name)}"
        raise InvalidDataError(message, [Problem("$.type", message)])
    # A predicate is written as its name; only `read_expectation(allow_predicates=True)` accepts that.
    if '"$is": "predicate"' not in json.dumps(content.get("expected_tools")):
        return model.model_validate(content)
    expected = content["expected_tools"]
    plan = read_expectation(expected, allow_predicates=True) if is_expectation(expected) else expected
    return model.model_validate({**content, "expected_tools": plan})


class _UnusualError(Exception):
    """A value that only `to_dict` can write."""


def encode_model(model: Model) -> bytes:
    """Return the JSON text of what `to_dict` returns, several times faster.

    Raises:
        InvalidDataError: See `Model.to_dict`.
    """
    try:
        return _encode(model).encode()
    except UnicodeEncodeError:  # lone surrogates
        return _encode_ascii(model).encode()
    except (_UnusualError, ValueError, RecursionError):  # also NaN and integers of thousands of digits
        return json_text(model.to_dict()).encode()


def _to_plain(value: object) -> object:
    if type(value) in _PLAIN_MODELS and isinstance(value, Model):
        if type(value) is Execution and value.children and _is_deep(value, _MAX_DEPTH):
            raise _UnusualError
        return _set_fields(value)
    if isinstance(value, Enum):
        return value.value
    if type(value) is datetime:
        return to_jsonable_python(value)
    raise _UnusualError


def _set_fields(model: Model) -> dict[str, Any]:
    names = model.__pydantic_fields_set__
    return {name: value for name, value in model.__dict__.items() if name in names}


def _is_deep(execution: Execution, levels: int) -> bool:
    children = [call.execution for call in execution.children if call.execution is not None]
    return levels == 0 or any(_is_deep(child, levels - 1) for child in children)


# Models are frozen, and their values are JSON, so none contains itself.
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, default=_to_plain).encode
_encode_ascii = json.JSONEncoder(check_circular=False, allow_nan=False, default=_to_plain).encode
