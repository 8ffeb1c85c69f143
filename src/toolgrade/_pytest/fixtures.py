"""Classes of the fixtures `toolgrade` and `toolgrade_golden`; see docs/pytest.md. They do not import pytest."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

from toolgrade._internal.atomic_files import atomic_write
from toolgrade._internal.json import parse_json
from toolgrade._pytest.approval import approve, approve_conversation, case_of, written_calls
from toolgrade.calls import ToolCall
from toolgrade.cases import AnyCase, ConversationalTestCase, LLMTestCase, Run
from toolgrade.dataset import Golden, read_golden, without_schema
from toolgrade.errors import InvalidDataError, NothingRecordedError
from toolgrade.evaluation.files import stated_turns
from toolgrade.evaluation.run import evaluate as _evaluate
from toolgrade.evaluation.run import evaluate_async as _evaluate_async
from toolgrade.evaluation.run import passed_results
from toolgrade.metrics import MetricLike, ToolCorrectnessMetric
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report import Report
from toolgrade.report.redaction import redact
from toolgrade.report.text.first_problem import entry_problem, first_problem
from toolgrade.report.text.phrases import is_bad, one_line, score_text
from toolgrade.result import MetricResult
from toolgrade.verdict import run_end, without_status

P = ParamSpec("P")
R = TypeVar("R")

Note: TypeAlias = "dict[str, Any]"
"""An entry for the summary of a test run, as JSON values: `{"case": ..., "number": ..., "problems": [...]}`, a case
with its results, its number in the test, and the first problem of each result, or `{"golden": ...}`."""


AnyGolden: TypeAlias = LLMTestCase | Golden
"""The golden of a single question, or of a conversation."""


def _with_options_of(function: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Show type checkers, editors and `help` the parameters of a function as those of a method that passes them on."""

    def decorate(method: Callable[..., R]) -> Callable[Concatenate[Any, P], R]:
        parameters = inspect.signature(function).parameters.values()
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        method.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
        return method

    return decorate


class Checks:
    """The fixture `toolgrade`: measures cases, and adds every result to the summary of the run.

    Calling it is the same as `assert_test`.

    ```python
    from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
    from toolgrade.pytest_plugin import Checks


    def test_weather(toolgrade: Checks) -> None:  # pytest passes the fixture
        weather = ToolCall(name="get_weather")
        case = LLMTestCase(tools_called=[weather], expected_tools=[weather])
        [result] = toolgrade(case, [ToolCorrectnessMetric()])
        assert result.score == 1
    ```
    """

    def __init__(self, note: Callable[[Note], None]) -> None:
        self._note = note
        self._count = 0

    def __call__(self, test_case: AnyCase, metrics: Sequence[MetricLike]) -> tuple[MetricResult, ...]:
        """Do what `assert_test` does."""
        __tracebackhide__ = True
        return self.assert_test(test_case, metrics)

    def assert_test(
        self, test_case: AnyCase, metrics: Sequence[MetricLike], *, remedy: str = ""
    ) -> tuple[MetricResult, ...]:
        """Measure one case, and fail the test unless it passes every metric that applies; see `toolgrade.assert_test`.

        Args:
            test_case: The case.
            metrics: At least one metric.
            remedy: Last line of the message of a failure.

        Raises:
            MetricAssertionError: A metric did not pass.
            ConfigurationError: There is no metric.
        """
        __tracebackhide__ = True
        one_case = iter([test_case])  # not a list: a list of texts names files
        return passed_results(self.evaluate(one_case, metrics), remedy)

    async def a_assert_test(self, test_case: AnyCase, metrics: Sequence[MetricLike]) -> tuple[MetricResult, ...]:
        """Do what `assert_test` does, inside a running event loop."""
        __tracebackhide__ = True
        return passed_results(await self.a_evaluate(iter([test_case]), metrics))  # not a list, as above

    @_with_options_of(_evaluate)
    def evaluate(self, *args: Any, **options: Any) -> Report:  # noqa: ANN401 - checked by the function
        """Do what `toolgrade.evaluate` does. Scores do not fail the test; assert what must hold of the report."""
        __tracebackhide__ = True
        return self._add_notes(_evaluate(*args, **{"show_progress": False, **options}))

    @_with_options_of(_evaluate_async)
    async def a_evaluate(self, *args: Any, **options: Any) -> Report:  # noqa: ANN401 - likewise
        """Do what `evaluate` does, inside a running event loop."""
        __tracebackhide__ = True
        return self._add_notes(await _evaluate_async(*args, **{"show_progress": False, **options}))

    def _add_notes(self, report: Report) -> Report:
        """Add each case of the report to the summary of the test run, and return the report.

        Cases are numbered within a test, and the trials of a golden have one number: if the test evaluates two goldens,
        each in three trials, and then a single case, these are #1, #2 and #3.
        """
        for case in report.cases:
            plain = case.to_dict()
            # A position within this report means nothing in the summary of all tests.
            plain.pop("golden", None)  # a position within this report, which the summary of all tests does not have
            number = self._count + case.cluster + 1
            variant = f" ({case.variant})" if case.variant else ""
            label = f"{plain.get('id') or plain.get('name') or f'#{number}'}{variant}"
            problems = [first_problem(result) for result in redact(case).own_results]
            self._note({"case": {**plain, "label": label}, "number": number, "problems": problems})
        self._count += len({case.cluster for case in report.cases})
        return report


class GoldenPlace(NamedTuple):
    """Place of the goldens of a test, and whether they may be written.

    `folder` is `__toolgrade__` next to the test, `label` its name in messages, and `stem` the name of the test as a
    file name. With `update`, goldens that differ are rewritten; with `must_exist`, a missing one fails the test.
    """

    folder: Path
    stem: str
    label: str
    update: bool
    must_exist: bool


class GoldenChecks:
    """The fixture `toolgrade_golden`: compares the calls of a test with those in its golden.

    The golden is a file in the folder `__toolgrade__` next to the test. The first run records it, later runs compare
    with it, and `pytest --toolgrade-update` rewrites it.

    ```python
    from toolgrade import ToolCall
    from toolgrade.pytest_plugin import GoldenChecks


    def test_weather(toolgrade_golden: GoldenChecks) -> None:  # pytest passes the fixture
        calls = [ToolCall(name="get_weather", input_parameters={"city": "Paris"})]
        [result] = toolgrade_golden(calls)
        assert result.score == 1
    ```
    """

    def __init__(self, checks: Checks, note: Callable[[Note], None], place: GoldenPlace) -> None:
        self._checks = checks
        self._note = note
        self._place = place
        self._count = 0

    def __call__(
        self,
        measured: Run | AnyCase | Sequence[ToolCall],
        metrics: Sequence[MetricLike] | None = None,
        *,
        name: str | None = None,
        redactor: Redactor = DEFAULT,
    ) -> tuple[MetricResult, ...]:
        """Compare with the golden, or record it if there is none.

        Args:
            measured: A run, a case or conversation, or a list of calls. The expectations of a case are ignored.
            metrics: Metrics that compare; by default one that only the same calls with the same arguments in the same
                order pass.
            name: Name of the golden, if a test has several; by default they are numbered.
            redactor: Removes secrets from a golden.

        Raises:
            MetricAssertionError: The calls differ from the golden.
            NothingRecordedError: There is no golden, and `CI` is set, so none is recorded.
            InvalidDataError: The golden cannot be read or has another number of turns, or the run to record is not
                fit to be an example: it did not end well, arguments are broken or unknown, or the calls break the rules
                of the plan to update.
            MissingFieldError: The case has no `tools_called`.
            ConfigurationError: `measured` is not a run, case, conversation or list of calls, or there is no metric.
        """
        __tracebackhide__ = True
        case = case_of(measured)
        used = [_SAME_CALLS] if metrics is None else metrics
        file = self._file(name)
        label = f"{self._place.label}/{file.name}"
        if not file.exists():
            if self._place.must_exist and not self._place.update:
                raise NothingRecordedError(
                    f"golden {label} does not exist, and none is recorded while CI is set; "
                    "run this test once on your machine, review the file, and commit it"
                )
            golden, notes = _approved(case, redactor, None)
            self._write(file, label, golden, "recorded", notes)
        elif self._place.update and (difference := _difference(case, file, label, used)):
            golden, notes = _approved(case, redactor, _former_golden(case, file, label))
            self._write(file, label, golden, "updated", [*notes, difference])
        remedy = f"The golden is {label}; pytest --toolgrade-update rewrites it."
        return self._checks.assert_test(_with_expectations(case, file, label), used, remedy=remedy)

    def _file(self, name: str | None) -> Path:
        if name is None:
            self._count += 1
            name = str(self._count) if self._count > 1 else ""
        return self._place.folder / f"{self._place.stem}{'.' if name else ''}{file_name(name)}.json"

    def _write(self, file: Path, label: str, golden: AnyGolden, became: str, texts: Sequence[str]) -> None:
        """Write a golden, and tell the summary what became of it, and these texts about it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as draft:
            draft.write_text(golden.to_json(indent=2) + "\n", encoding="utf-8", newline="\n")
        self._note({"golden": {"path": label, "became": became, "difference": "\n".join(texts)}})


_SAME_CALLS = ToolCorrectnessMetric(
    evaluation_params=["input_parameters"], should_consider_ordering=True, denominator="f1", threshold=1
)
_MAX_FILE_NAME = 120


def file_name(text: str) -> str:
    """Return a text as a file name for all systems; a text that must be changed gets a hash of itself."""
    safe = re.sub(r"[^\w.,=+\[\]-]", "-", text, flags=re.ASCII)[:_MAX_FILE_NAME]
    if safe == text:
        return safe
    return f"{safe}-{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"


def difference_text(report: Report) -> str:
    """Return expected and called side by side, for each result of a report that did not pass."""
    from toolgrade.report.terminal.results import result_text  # noqa: PLC0415 - loaded only if something differs

    return "\n\n".join(
        result_text(result, case.case, case.label)
        for case, result in redact(report).results()
        if is_bad((case, result))
    )


def failure_text(report: Report) -> str:
    """Return where the first result of a report that did not pass first goes wrong, on one line."""
    case, result = next(filter(is_bad, redact(report).results()))
    problem = entry_problem(case, result)
    return without_status(problem) or one_line(f"{result.metric}: {result.reason or score_text(result)}")


def _approved(case: AnyCase, redactor: Redactor, former: Golden | LLMTestCase | None) -> tuple[AnyGolden, list[str]]:
    """Return the golden of a case, without secrets, and notes; matchers of a former golden stay that still match."""
    if isinstance(case, ConversationalTestCase):
        return approve_conversation(case, redactor, former if isinstance(former, Golden) else None)
    expected, notes = approve(case, redactor, None if former is None else former.expected_tools)
    question = redactor.model(LLMTestCase(input=case.input) if isinstance(case.input, str) else LLMTestCase())
    update: dict[str, Any] = {"expected_tools": expected}  # `approve` has redacted it
    if run_end(case)[0] == "interrupted":
        update["ends"] = "interrupted"
    return question.model_copy(update=update), notes


def _former_golden(case: AnyCase, file: Path, label: str) -> AnyGolden | None:
    """Return the golden in a file, for its update; `None` if it cannot be read, or is of another conversation."""
    with suppress(InvalidDataError):
        if not isinstance(case, ConversationalTestCase):
            return _read_case(file, label)
        golden = _read_golden(file, label, read_golden)
        _expecting_turns(case, golden, label)
        return golden
    return None


def _with_expectations(case: AnyCase, file: Path, label: str) -> AnyCase:
    """Return the case with the expectations of its golden."""
    if isinstance(case, ConversationalTestCase):
        return _expecting_turns(case, _read_golden(file, label, read_golden), label)
    golden = _read_case(file, label)
    calls = {"tools_called": written_calls(case), "expected_tools": golden.expected_tools}
    return case.model_copy(update={**calls, "ends": golden.ends or case.ends})


def _expecting_turns(case: ConversationalTestCase, golden: Golden, label: str) -> ConversationalTestCase:
    """Return a conversation with the expectations of its golden.

    Raises:
        InvalidDataError: The golden has another number of turns, or none.
    """
    turns, _, note = stated_turns(golden, ConversationalTestCase.from_json(case.to_json()))
    if note or not golden.turns:
        raise InvalidDataError(f"the golden {label} is of another conversation: {note or 'it has no turns'}")
    stated = ("expected_tools", "expected_output", "required_texts")
    update = {"turns": turns, **{name: getattr(golden, name) for name in stated}}
    return case.model_copy(update={**update, "ends": golden.ends or case.ends})


def _read_case(file: Path, label: str) -> LLMTestCase:
    """Return the golden of a single question."""
    golden = _read_golden(file, label, lambda value: LLMTestCase.model_validate(without_schema(value)))
    if golden.expected_tools is None:
        raise InvalidDataError(f"the golden {label} has no expected_tools; write [] if no call is expected")
    return golden


def _read_golden(file: Path, label: str, read: Callable[[Any], R]) -> R:
    try:
        return read(parse_json(file.read_bytes()))
    except InvalidDataError as error:
        raise InvalidDataError(f"the golden {label} cannot be read: {error}", error.problems) from None


def _difference(case: AnyCase, file: Path, label: str, metrics: Sequence[MetricLike]) -> str:
    """Return how a case differs from its golden; empty if every metric passes."""
    try:
        expecting = _with_expectations(case, file, label)
    except InvalidDataError as error:
        return str(error)
    report = _evaluate([expecting], metrics, show_progress=False)
    # A run that did not end well does not differ from its golden by that.
    return "" if all(result.passed for _, result in report.results()) else difference_text(report)
