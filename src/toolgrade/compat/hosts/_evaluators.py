"""Shared parts of evaluators for other libraries: a case from their fields, and feedback from a metric's result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pydantic.alias_generators import to_camel

from toolgrade._internal.model import drop_none
from toolgrade._internal.text import unique_labels
from toolgrade.cases import AnyCase, LLMTestCase, Run
from toolgrade.errors import InvalidDataError, ToolgradeError
from toolgrade.evaluation.execute import EvaluationOptions, run_evaluation, run_evaluation_async
from toolgrade.evaluation.measuring import checked_metrics
from toolgrade.formats import case_from_record, read
from toolgrade.metrics import MetricLike
from toolgrade.redact import Redactor
from toolgrade.report import Report
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.verdict import OUTCOME_WORDS

_INPUT = ("input", "query", "question")
_TOOLS = ("available_tools",)
_CALLED = ("tools_called", "agent_trajectory")
_OUTPUT = ("actual_output", "generated_response")
_EXPECTED = ("expected_tools", "expected_agent_trajectory", "expected_output", "expected_response")
_NO_EXPECTATION = "the reference does not state it"
_CASE_FIELDS = ("input", "actual_output", "expected_tools", "expected_output", "available_tools")


@dataclass(frozen=True)
class Feedback:
    """A metric's feedback on one case, with secrets redacted.

    `score` is in [0, 1]; `score` and `passed` are `None` for a case without a score. `comment` is the reason, or why
    there is no score; `None` if reasons are switched off. `failed` says that an error prevented the measurement.
    It does where the case states no expectation that the metric needs, as the runner has a reference for each case.
    `result` is the result of the metric as JSON values; empty if no case could be read.
    """

    name: str
    score: float | None = None
    passed: bool | None = None
    comment: str | None = None
    failed: bool = False
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class HostMetrics:
    """Metrics that measure the cases in what another library passes to its evaluators."""

    metrics: Sequence[MetricLike]
    names: tuple[str, ...]
    to_case: Callable[..., AnyCase]
    redactor: Redactor = field(repr=False)  # its patterns fill a page

    def feedback(self, *parts: object) -> list[Feedback]:
        """Return the feedback of each metric; toolgrade's errors become comments."""
        try:
            case = self.to_case(*parts)
        except ToolgradeError as error:
            return self._failed(error)
        return self._feedback_on(run_evaluation(self._options(case)))

    async def feedback_async(self, *parts: object) -> list[Feedback]:
        """Do what `feedback` does, inside a running event loop."""
        try:
            case = self.to_case(*parts)
        except ToolgradeError as error:
            return self._failed(error)
        return self._feedback_on(await run_evaluation_async(self._options(case)))

    def _options(self, case: AnyCase) -> EvaluationOptions:
        # Nothing is skipped silently because the key of the expectation is misspelt.
        return EvaluationOptions(
            test_cases=[case], metrics=self.metrics, no_golden=_NO_EXPECTATION, show_progress=False
        )

    def _failed(self, error: ToolgradeError) -> list[Feedback]:
        comment = str(self.redactor(f"Not measured: {type(error).__name__}: {error}"))
        return [Feedback(name, comment=comment, failed=True) for name in self.names]

    def _feedback_on(self, report: Report) -> list[Feedback]:
        case, end = report.cases[0], report.cases[0].wrong_end
        feedback = [
            feedback_of(result, name, self.redactor) for result, name in zip(case.results, self.names, strict=True)
        ]
        if end is None:
            return feedback
        why = f"{OUTCOME_WORDS[end.outcome]}: {self.redactor(end.why)}"
        # Scores are still shown, and pass nothing.
        return [one if one.score is None else replace(one, passed=False, comment=why) for one in feedback]


def host_metrics(metrics: Sequence[MetricLike], to_case: Callable[..., AnyCase], redactor: Redactor) -> HostMetrics:
    """Return metrics with the unique names under which `evaluate` reports them.

    Raises:
        ConfigurationError: There is no metric, or one of them is not a metric.
    """
    names = unique_labels([metric.label for metric in checked_metrics(metrics)])
    return HostMetrics(metrics, tuple(names), to_case, redactor)


def feedback_of(result: MetricResult, name: str, redactor: Redactor) -> Feedback:
    """Return the feedback of a result; without a score it always has a comment."""
    fields = result.to_dict(redactor)
    if result.status is ResultStatus.SCORED:
        return Feedback(name, result.score, result.passed, fields.get("reason"), result=fields)
    if result.status is ResultStatus.ERRORED:
        return Feedback(name, comment=f"Not measured: {fields.get('error')}", failed=True, result=fields)
    return Feedback(name, comment=fields.get("reason") or "Skipped.", result=fields)


def case_of(inputs: object, outputs: object, reference: object) -> LLMTestCase:
    """Return the case in the inputs, the outputs and the reference of a task.

    Each is a mapping or an object with attributes; names are in snake_case or camelCase. `inputs` may have `input`,
    `query` or `question`, and `available_tools`, or be the text itself. `outputs` is a `Run`, or has `tools_called` or
    `agent_trajectory` (as in `case_from_record`) or `messages` (as in `read`); it may have `actual_output` or
    `generated_response`, and `available_tools`. `reference` has `expected_tools` or `expected_agent_trajectory`, and
    may have `expected_output` or `expected_response`.

    Raises:
        InvalidDataError: The outputs do not contain the called tools, contain them twice, or are invalid; or messages
            of the inputs contain calls, which may or may not count.
    """
    record: dict[str, Any] = {"input": inputs} if isinstance(inputs, str) else _input_text(inputs)
    record |= {**_fields(inputs, _TOOLS), **_fields(outputs, _TOOLS), **_fields(reference, _EXPECTED)}
    if isinstance(outputs, Run):
        return _case_of_run(outputs, record)
    called, messages = _fields(outputs, _CALLED), _fields(outputs, ("messages",))
    if bool(called) == bool(messages):
        problem = "contain the called tools twice" if called else "do not contain the called tools"
        keys = "'tools_called', 'agent_trajectory' or 'messages'"
        raise InvalidDataError(f"the outputs {problem}; give one of {keys} in them, or the case with to_case=")
    record |= {**called, **_fields(outputs, _OUTPUT)}
    if called:
        return case_from_record(record)
    _refuse_earlier_calls(inputs)
    return _case_of_run(read(messages["messages"], path="$.messages").run, record)


def _case_of_run(run: Run, record: Mapping[str, object]) -> LLMTestCase:
    """Return the case of a run, completed by the fields of a record."""
    case = case_from_record(record)
    if case.run is not None:
        run = run.model_copy(update={"warnings": [*run.warnings, *case.run.warnings]})
    update = drop_none({name: getattr(case, name) for name in _CASE_FIELDS})
    return run.to_test_case(id=run.run_id).model_copy(update=update)


def _refuse_earlier_calls(inputs: object) -> None:
    """Refuse input messages with calls: whether the output messages repeat them is unknown, so they may count twice."""
    before = _fields(inputs, ("messages",)).get("messages")
    if isinstance(before, (list, tuple)) and before and read(list(before), path="$.messages").run.calls:
        problem = "the messages of the inputs contain calls already, which the messages of the outputs may repeat"
        raise InvalidDataError(f"{problem}; select the calls that count with to_case=")


def _input_text(value: object) -> dict[str, Any]:
    """Return the first input field that is a text, as the input of a case."""
    texts = [text for text in _fields(value, _INPUT).values() if isinstance(text, str)]
    return {"input": texts[0]} if texts else {}


def _fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the named fields that a mapping or an object has, in either spelling; `None` counts as missing."""
    get: Callable[..., Any] = value.get if isinstance(value, Mapping) else partial(getattr, value)
    fields = {spelling: get(spelling, None) for name in names for spelling in (name, to_camel(name))}
    return drop_none(fields)


def case_of_item(inputs: object, outputs: object, expected: object, metadata: object) -> LLMTestCase:
    """Return the case of an item of a dataset: the reference is what it expects if that has one, else its metadata."""
    return case_of(inputs, outputs, expected if _fields(expected, _EXPECTED) else metadata)
