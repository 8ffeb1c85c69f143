"""Runs that were recorded before they are measured: in the loop over a dataset, or in a test of pytest."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from toolgrade._internal.text import error_text
from toolgrade.capture.observation.spans import ObserveRecorder
from toolgrade.cases import LLMTestCase, Run, RunStatus
from toolgrade.dataset import Golden
from toolgrade.errors import ConfigurationError, NothingRecordedError, NotMeasuredError
from toolgrade.evaluation.session import ObservedApp, Pending, component_cases, expectations_of
from toolgrade.metrics import MetricLike
from toolgrade.report.report import label_of_question


class RecordedApp(ObservedApp):
    """The answers to goldens that were recorded before, with a recorder for each golden."""

    def __init__(self, recorders: Sequence[ObserveRecorder], errors: Mapping[int, BaseException] | None = None) -> None:
        """Store the recorders, and what was raised around the answers, by the position of the golden."""
        self._of_goldens = recorders
        self._errors = errors or {}

    async def ask(
        self,
        golden: Golden,
        place: int,
        metrics: Sequence[MetricLike],
        limit: float | None,  # noqa: ARG002
    ) -> list[Pending]:
        """Return the cases of the runs that were recorded for a golden, then those of their components."""
        recorder = self._of_goldens[place]
        expected = expectations_of(golden)
        own = {name: value for name in ("id", "tags", "metadata") if (value := getattr(golden, name))}
        components = list(component_cases(recorder, expected, label_of_question(golden.id, golden.question, place)))
        cases = recorder.cases_with(expected | own)
        if not cases:
            text = "no observed function was called for this golden; decorate the function that answers with @observe"
            case = LLMTestCase(**expected | own)
            return [Pending(case, metrics, error=NothingRecordedError(text)), *components]
        raised = self._errors.get(place)
        error = recorder.lost() if raised is None else NotMeasuredError(f"the answer raised {error_text(raised)}")
        if not metrics:
            if error is not None:
                components = [part._replace(error=error) for part in components]
            if components and all(_ended_well(case.run) for case in cases):
                return components
        no_golden = "neither its golden nor its trace states it"
        return [*(Pending(case, metrics, error=error, no_golden=no_golden) for case in cases), *components]


def _ended_well(run: Run | None) -> bool:
    return run is None or run.status is RunStatus.OK


class _CurrentTest:
    """The recorder of the test that pytest runs."""

    recorder: ClassVar[ObserveRecorder | None] = None


def is_ours(value: object) -> bool:
    """Return whether something in a module of tests is `assert_test` or a part of this package."""
    name = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    return isinstance(name, str) and name.startswith("toolgrade.compat.deepeval")


@contextmanager
def tracing_test() -> Generator[None, None, None]:
    """Record the observed functions that a test of pytest calls, for `assert_test(golden=...)`."""
    _CurrentTest.recorder = recorder = ObserveRecorder()
    try:
        with recorder.listening():
            yield
    finally:
        _CurrentTest.recorder = None


def traced_app() -> RecordedApp:
    """Return what the current test has recorded.

    Raises:
        ConfigurationError: No test of pytest runs with the plugin of toolgrade.
    """
    recorder = _CurrentTest.recorder
    if recorder is None:
        remedy = "call it in a test of pytest, or pass a test_case or observed_callback"
        raise ConfigurationError(f"assert_test(golden=...) needs the calls that a test recorded; {remedy}")
    return RecordedApp([recorder])


def forget_runs() -> None:
    """Forget the runs of the current test: they were measured."""
    if _CurrentTest.recorder is not None:
        _CurrentTest.recorder.pop()
