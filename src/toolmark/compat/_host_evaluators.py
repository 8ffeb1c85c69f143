"""What evaluators of other libraries share: a case out of what they are handed, and every metric's result of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from toolmark._internal.text import unique_labels
from toolmark.cases import LLMTestCase, Run
from toolmark.errors import InvalidDataError
from toolmark.evaluation.run import checked_metrics
from toolmark.formats import case_from_record, read
from toolmark.metrics import MetricLike
from toolmark.redact import Redactor
from toolmark.result import MetricResult, ResultStatus

_ASKED = ("input", "query", "question")
_CALLED = ("tools_called", "agent_trajectory")
_ANSWERED = ("actual_output", "generated_response")
_WANTED = ("expected_tools", "expected_agent_trajectory", "expected_output", "expected_response")


@dataclass(frozen=True)
class Told:
    """What a metric says of a case, without secrets.

    Attributes:
        name: Name of the metric.
        score: In [0, 1]; `None` where there is none.
        passed: Whether it passed; `None` where there is no score.
        comment: The reason, or why there is no score; `None` if reasons were switched off.
        failed: An error kept it from being measured.
    """

    name: str
    score: float | None = None
    passed: bool | None = None
    comment: str | None = None
    failed: bool = False


def names_of(metrics: Sequence[MetricLike]) -> tuple[str, ...]:
    """Return the names under which `evaluate` reports metrics, each of them once.

    Raises:
        ConfigurationError: There is none, or something is no metric.
    """
    return tuple(unique_labels([metric.label for metric in checked_metrics(metrics)]))


def told(result: MetricResult, name: str, redactor: Redactor) -> Told:
    """Return what a result says; one that has no score always says why."""
    plain = result.to_dict(redactor)
    if result.status is ResultStatus.SCORED:
        return Told(name, result.score, result.passed, plain.get("reason"))
    failed = result.status is ResultStatus.FAILED
    why = f"Not measured: {plain.get('error')}" if failed else plain.get("reason") or "Skipped."
    return Told(name, comment=why, failed=failed)


def unread(error: Exception, names: Iterable[str], redactor: Redactor) -> list[Told]:
    """Return what is to be said by each metric where there is no case to measure."""
    why = redactor(f"Not measured: {type(error).__name__}: {error}")
    return [Told(name, comment=str(why), failed=True) for name in names]


def case_of(inputs: object, outputs: object, reference: object) -> LLMTestCase:
    """Return the case that is told by the inputs, the outputs and the reference of a task.

    Each is a mapping, or an object with these attributes; snake_case or camelCase.

    Args:
        inputs: May have `input`, `query` or `question`, a text, and `available_tools`; or is the text.
        outputs: Has `tools_called` or `agent_trajectory`, as `toolmark.formats.case_from_record` reads them, or
            `messages`, as `toolmark.formats.read` does; may have `actual_output` or `generated_response`, and
            `available_tools`. Or it is a `Run`.
        reference: Has `expected_tools` or `expected_agent_trajectory`, and may have `expected_output` or
            `expected_response`.

    Raises:
        InvalidDataError: The outputs do not say what was called, or say it twice, or parts of it are wrong; or messages
            of the inputs show calls already, of which nobody can say whether they count.
    """
    asked = {"input": inputs} if isinstance(inputs, str) else _texts(inputs, _ASKED)
    told_tools = _fields(inputs, ("available_tools",)) | _fields(outputs, ("available_tools",))
    wanted = _fields(reference, _WANTED)
    if isinstance(outputs, Run):
        return _case_of_run(outputs, {**asked, **told_tools, **wanted})
    called = _fields(outputs, _CALLED)
    messages = _fields(outputs, ("messages",))
    if bool(called) == bool(messages):
        keys = "'tools_called', 'agent_trajectory' or 'messages'"
        wrong = "say twice what was called; give one of" if called else "do not say what was called; give one of"
        raise InvalidDataError(f"the outputs {wrong} {keys} in them, or say with to_case= what the case is")
    if messages:
        _refuse_earlier(inputs)
        run = read(messages["messages"], path="$.messages").run
        return _case_of_run(run, {**asked, **_fields(outputs, _ANSWERED), **told_tools, **wanted})
    return case_from_record({**asked, **called, **_fields(outputs, _ANSWERED), **told_tools, **wanted})


def _case_of_run(run: Run, record: Mapping[str, object]) -> LLMTestCase:
    """Return the case of a run, with what the record says beside it."""
    said = case_from_record(record)
    noted = [] if said.run is None else said.run.warnings
    kept = run.model_copy(update={"warnings": [*run.warnings, *noted]}) if noted else run
    case = kept.to_test_case()
    given = {
        name: getattr(said, name)
        for name in ("input", "actual_output", "expected_tools", "expected_output", "available_tools")
        if getattr(said, name) is not None
    }
    return case.model_copy(update=given)


def _refuse_earlier(inputs: object) -> None:
    """Refuse messages in which calls were made before the task began: they would count as its own."""
    before = _fields(inputs, ("messages",)).get("messages")
    if isinstance(before, (list, tuple)) and before and read(list(before), path="$.messages").run.calls:
        raise InvalidDataError(
            "the messages of the inputs show calls already, which may stand in the messages of the outputs again; "
            "say with to_case= which calls count"
        )


def _texts(value: object, names: Iterable[str]) -> dict[str, object]:
    """Return the first of these fields that is a text, as the input of a case."""
    texts = [text for text in _fields(value, names).values() if isinstance(text, str)]
    return {"input": texts[0]} if texts else {}


def _fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    """Return those of these fields that a mapping or an object has, as it spells them; `None` is not given."""
    spellings = [spelling for name in names for spelling in dict.fromkeys((name, to_camel(name)))]
    if isinstance(value, Mapping):
        found = {name: value[name] for name in spellings if name in value}
    else:
        found = {name: getattr(value, name) for name in spellings if hasattr(value, name)}
    return {name: item for name, item in found.items() if item is not None}


def says_what_is_wanted(reference: object) -> bool:
    """Return whether a value has a key of a reference."""
    return bool(_fields(reference, _WANTED))
