"""What the fixtures `toolmark` and `toolmark_golden` hand to a test; see docs/pytest.md. Nothing here knows pytest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from toolmark._internal.atomic_files import atomic_write
from toolmark._pytest.approval import approved_calls, case_of, written_calls
from toolmark.agents import DEFAULT_CONCURRENCY, AgentCallable
from toolmark.calls import ToolCall
from toolmark.cases import AnyCase, Golden, LLMTestCase, Run, TestCase
from toolmark.errors import InvalidDataError, NothingRecordedError
from toolmark.evaluation.run import evaluate, evaluate_async, passed_results
from toolmark.metrics import MetricLike, ToolCorrectnessMetric
from toolmark.redact import DEFAULT, Redactor
from toolmark.report import Report
from toolmark.report.redaction import redact_case, redact_report
from toolmark.report.text.first_problem import first_problem
from toolmark.report.text.ordering import is_bad
from toolmark.result import MetricResult

__all__ = ["Checks", "GoldenChecks", "GoldenPlace", "Note"]

Note: TypeAlias = "dict[str, Any]"
"""What the end of a test run tells of a test, as JSON values: `{"case": ..., "problems": [...]}`, a case with its
results and where each first goes wrong, or `{"golden": ...}`."""


class Checks:
    """Measures cases within one test, and keeps every result for the summary of the run.

    Called itself, it does what `assert_test` does.

    Args:
        note: Takes what there is to tell.
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
        """Measure one case, and fail the test unless every metric that applies passes; see `toolmark.assert_test`.

        Args:
            test_case: The case.
            metrics: At least one metric.
            remedy: Ends the message of a failure.

        Raises:
            MetricAssertionError: A metric did not pass.
            ConfigurationError: There is no metric.
        """
        __tracebackhide__ = True
        return passed_results(self.evaluate([test_case], metrics), remedy)

    async def a_assert_test(self, test_case: AnyCase, metrics: Sequence[MetricLike]) -> tuple[MetricResult, ...]:
        """Do what `assert_test` does, without keeping a running event loop waiting."""
        __tracebackhide__ = True
        return passed_results(await self.a_evaluate([test_case], metrics))

    def evaluate(
        self,
        test_cases: Iterable[AnyCase] | None = None,
        metrics: Sequence[MetricLike] = (),
        *,
        goldens: Iterable[Golden] | None = None,
        agent: AgentCallable | None = None,
        trials: int | None = None,
        max_concurrency: int = DEFAULT_CONCURRENCY,
    ) -> Report:
        """Do what `toolmark.evaluate` does. No score fails the test: what must hold of the report is for it to say."""
        __tracebackhide__ = True
        return self._noted(
            evaluate(
                test_cases,
                metrics,
                goldens=goldens,
                agent=agent,
                trials=trials,
                max_concurrency=max_concurrency,
                show_progress=False,
            )
        )

    async def a_evaluate(
        self,
        test_cases: Iterable[AnyCase] | None = None,
        metrics: Sequence[MetricLike] = (),
        *,
        goldens: Iterable[Golden] | None = None,
        agent: AgentCallable | None = None,
        trials: int | None = None,
        max_concurrency: int = DEFAULT_CONCURRENCY,
    ) -> Report:
        """Do what `evaluate` does, inside a running event loop."""
        __tracebackhide__ = True
        return self._noted(
            await evaluate_async(
                test_cases,
                metrics,
                goldens=goldens,
                agent=agent,
                trials=trials,
                max_concurrency=max_concurrency,
                show_progress=False,
            )
        )

    def _noted(self, report: Report) -> Report:
        for case in report.cases:
            self._count += 1
            plain = case.to_dict()
            plain.pop("golden", None)  # its position among those of this test is none among those of all tests
            label = plain.get("id") or plain.get("name") or f"#{self._count}"
            if case.trial is not None:
                label = f"{label} (trial {case.trial})"
            problems = [first_problem(result) for result in redact_case(case).own_results]
            self._note({"case": {**plain, "label": label}, "problems": problems})
        return report


class GoldenPlace(NamedTuple):
    """Where the goldens of a test lie, and what may be done to them.

    Attributes:
        folder: The folder `__toolmark__` beside the test.
        stem: The name of the test, as it can stand in a file's name.
        shown: How messages call the folder.
        update: Goldens that differ are written anew.
        must_exist: A golden that is missing fails the test.
    """

    folder: Path
    stem: str
    shown: str
    update: bool
    must_exist: bool


class GoldenChecks:
    """Compares what a test called with what it called when its golden was recorded; the fixture `toolmark_golden`.

    Args:
        checks: Measures.
        note: Takes what there is to tell of files.
        place: Where the goldens lie.
    """

    def __init__(self, checks: Checks, note: Callable[[Note], None], place: GoldenPlace) -> None:
        self._checks = checks
        self._note = note
        self._place = place
        self._count = 0

    def __call__(
        self,
        measured: Run | TestCase | Sequence[ToolCall],
        metrics: Sequence[MetricLike] | None = None,
        *,
        name: str | None = None,
        redactor: Redactor = DEFAULT,
    ) -> tuple[MetricResult, ...]:
        """Compare with the golden, or record it where there is none.

        Args:
            measured: What was called: a run, a case, or the calls. What a case expects itself is not looked at.
            metrics: What compares; by default `ToolCorrectnessMetric`, which only the same calls with the same
                arguments in the same order pass.
            name: Tells several goldens of one test apart; by default they are counted.
            redactor: Takes secrets out of what is recorded.

        Raises:
            MetricAssertionError: What was called is not what the golden expects.
            NothingRecordedError: There is no golden, and none may be recorded since `CI` is set.
            InvalidDataError: The golden cannot be read, or an error ended the run that would become one.
            MissingFieldError: The case does not say what was called.
            ConfigurationError: `measured` is nothing that calls tools, or there is no metric.
        """
        __tracebackhide__ = True
        case = case_of(measured)
        used = [_SAME_CALLS] if metrics is None else metrics
        file = self._file(name)
        shown = f"{self._place.shown}/{file.name}"
        if not file.exists():
            if self._place.must_exist and not self._place.update:
                raise NothingRecordedError(
                    f"there is no golden {shown}, and none is recorded where CI is set; "
                    "run this test once on your machine, look at the file, and commit it"
                )
            self._write(file, shown, redactor.model(_recorded(case)), became="recorded")
        elif self._place.update:
            difference = _difference(case, file, shown, used)
            if difference:
                self._write(file, shown, redactor.model(_recorded(case)), became="updated", difference=difference)
        expecting = _expecting(case, file, shown)
        return self._checks.assert_test(
            expecting, used, remedy=f"The golden is {shown}; pytest --toolmark-update writes it anew."
        )

    def _file(self, name: str | None) -> Path:
        if name is None:
            self._count += 1
            name = str(self._count) if self._count > 1 else ""
        return self._place.folder / f"{self._place.stem}{'.' if name else ''}{file_name(name)}.json"

    def _write(self, file: Path, shown: str, golden: LLMTestCase, *, became: str, difference: str = "") -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as draft:
            draft.write_text(golden.to_json(indent=2) + "\n", encoding="utf-8", newline="\n")
        self._note({"golden": {"path": shown, "became": became, "difference": difference}})


_SAME_CALLS = ToolCorrectnessMetric(
    evaluation_params=["input_parameters"], should_consider_ordering=True, denominator="f1", threshold=1
)
_LONGEST = 120


def file_name(text: str) -> str:
    """Return a text as it can stand in a file's name anywhere; one that has to be changed ends in a hash of itself."""
    safe = re.sub(r"[^\w.,=+\[\]-]", "-", text, flags=re.ASCII)[:_LONGEST]
    if safe == text:
        return safe
    return f"{safe}-{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"


def difference_text(report: Report) -> str:
    """Return expected and called side by side, for each result of a report that did not pass."""
    from toolmark.report.terminal.results import result_text  # noqa: PLC0415 - the terminal is loaded where something differs

    return "\n\n".join(
        result_text(result, case.case, case.label)
        for case, result in redact_report(report, DEFAULT).results()
        if is_bad(result)
    )


def _recorded(case: TestCase) -> LLMTestCase:
    """Return what a golden of the case holds, still with its secrets."""
    golden = LLMTestCase(expected_tools=approved_calls(case))
    return golden.model_copy(update={"input": case.input}) if isinstance(case.input, str) else golden


def _expecting(case: TestCase, file: Path, shown: str) -> TestCase:
    """Return the case with what its golden expects."""
    try:
        golden = LLMTestCase.from_json(file.read_bytes())
    except InvalidDataError as error:
        raise InvalidDataError(f"the golden {shown} cannot be read: {error}", error.problems) from None
    if golden.expected_tools is None:
        raise InvalidDataError(f"the golden {shown} has no expected_tools; [] says that nothing should be called")
    return case.model_copy(update={"tools_called": written_calls(case), "expected_tools": golden.expected_tools})


def _difference(case: TestCase, file: Path, shown: str, metrics: Sequence[MetricLike]) -> str:
    """Return how a case differs from its golden; empty where every metric passes."""
    try:
        expecting = _expecting(case, file, shown)
    except InvalidDataError as error:
        return str(error)
    return difference_text(evaluate([expecting], metrics, show_progress=False))
