"""The names of `deepeval.evaluate`: `evaluate` and `assert_test` with DeepEval's arguments and results."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from toolgrade._internal.json import json_text, to_json_value
from toolgrade._internal.options import require
from toolgrade._internal.text import plural, unique_labels
from toolgrade.cases import AnyCase, ConversationalTestCase, MLLMTestCase
from toolgrade.compat.deepeval import _absent
from toolgrade.compat.deepeval._conversion import as_golden, own_case_of
from toolgrade.compat.deepeval._traces import forget_runs, traced_app
from toolgrade.compat.deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from toolgrade.compat.deepeval.metrics import as_metric, suite_name
from toolgrade.errors import ConfigurationError, MetricAssertionError, NotMeasuredError
from toolgrade.evaluation.execute import EvaluationOptions, run_evaluation
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT
from toolgrade.report import CaseResult, Report
from toolgrade.report.html import write_html
from toolgrade.report.markdown import render_markdown
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.verdict import OUTCOME_WORDS

__all__ = [
    "AsyncConfig",
    "CacheConfig",
    "DisplayConfig",
    "ErrorConfig",
    "EvaluationResult",
    "MetricData",
    "TestResult",
    "assert_test",
    "evaluate",
]

_NO_EXPECTATION = "the case does not state it"


@dataclass
class MetricData:
    """The result of one metric for one case."""

    name: str
    threshold: float | None
    success: bool | None
    score: float | None = None
    reason: str | None = None
    strict_mode: bool = False
    evaluation_model: str | None = None
    error: str | None = None
    evaluation_cost: float | None = None
    verbose_logs: str | None = None

    def model_dump(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


@dataclass
class TestResult:
    """The results of one case, or of one call of a component. `success` is whether its outcome is `passed`."""

    __test__ = False

    name: str
    success: bool
    metrics_data: list[MetricData]
    conversational: bool
    index: int
    multimodal: bool
    input: Any = None
    actual_output: Any = None
    expected_output: Any = None
    context: list[str] | None = None
    retrieval_context: list[str] | None = None
    turns: list[Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def additional_metadata(self) -> dict[str, Any] | None:
        """Older name of `metadata`."""
        return self.metadata


@dataclass
class EvaluationResult:
    """What `evaluate` returns: DeepEval's `test_results`, and toolgrade's `report`, whose attributes it has, too."""

    test_results: list[TestResult]
    report: Report = field(repr=False)
    confident_link: str | None = None
    test_run_id: str | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an attribute of the report
        """Return an attribute of the report, such as `passed`."""
        if name.startswith("__") or name == "report":
            raise AttributeError(name)
        return getattr(self.report, name)


def evaluate(
    test_cases: Iterable[Any] | None = None,
    metrics: Sequence[Any] | None = None,
    *,
    metric_collection: str | None = None,
    identifier: str | None = None,
    async_config: AsyncConfig | None = None,
    display_config: DisplayConfig | None = None,
    cache_config: CacheConfig | None = None,
    error_config: ErrorConfig | None = None,
    observed_callback: Any = None,  # noqa: ANN401 - an app
    goldens: Iterable[Any] | None = None,
    **others: Any,  # noqa: ANN401 - options of DeepEval without effect
) -> EvaluationResult:
    """Measure every case with every metric, show the report, and return the results.

    The cases are copied first, so that the results do not change with them.

    Args:
        test_cases: Cases of toolgrade, of this package or of DeepEval, or an `EvaluationDataset`.
        metrics: Metrics of this package, of toolgrade, of DeepEval, or your own with the base `BaseMetric`.
        metric_collection: Refused: it names metrics that Confident AI keeps.
        identifier: Title of the report.
        async_config: See `AsyncConfig`, as for the following ones.
        display_config: What is shown and written.
        cache_config: Without effect.
        error_config: What happens to cases that cannot be measured.
        observed_callback: A function that calls functions decorated with `@observe`, to which each golden's input is
            passed; components with `metrics=` have results of their own.
        goldens: The goldens of `observed_callback`.
        others: Options of DeepEval that have no effect, such as `hyperparameters`; a warning says so.

    Raises:
        Exception: What a metric raised, or a `NotMeasuredError`, unless `error_config` ignores it. All cases have been
            measured and shown before; `report` of the error has them.
        ConfigurationError: There is no case or no metric, or a metric is invalid.

    Example:
        >>> from toolgrade.compat.deepeval import evaluate
        >>> from toolgrade.compat.deepeval.evaluate import DisplayConfig
        >>> from toolgrade.compat.deepeval.metrics import ToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, ToolCall
        >>> weather = ToolCall(name="get_weather")
        >>> case = LLMTestCase(input="Weather in Paris?", tools_called=[weather], expected_tools=[weather])
        >>> quiet = DisplayConfig(show_indicator=False, print_results=False)
        >>> result = evaluate([case], [ToolCorrectnessMetric()], display_config=quiet)
        >>> [(data.name, data.score, data.success) for data in result.test_results[0].metrics_data]
        [('Tool Correctness', 1.0, True)]
        >>> result.report.passed
        True
    """
    if metric_collection is not None:
        raise ConfigurationError("metric_collection names metrics that Confident AI keeps; give metrics=[...]")
    _absent.warn_of(_known(others), "evaluate")
    if goldens is None:
        source: dict[str, Any] = {"test_cases": _cases(test_cases)}
    else:
        source = {"goldens": [*map(as_golden, goldens)], "observed_callback": observed_callback}
    return run_suite(metrics, async_config, display_config, cache_config, error_config, identifier, **source)


_WITHOUT_EFFECT = ("hyperparameters", "classifiers", "mcp_servers", "official", "_skip_reset")


def _known(options: dict[str, Any]) -> dict[str, Any]:
    """Return options that DeepEval has, and no other."""
    for name in options.keys() - {*_WITHOUT_EFFECT}:
        raise TypeError(f"unexpected argument {name!r}")
    return options


def _cases(test_cases: object) -> list[AnyCase]:
    listed = getattr(test_cases, "test_cases", test_cases)
    if not isinstance(listed, Iterable) or isinstance(listed, str | bytes | BaseModel | Mapping):
        raise ConfigurationError(f"test_cases must be a list of test cases, got {type(test_cases).__name__}")
    cases = list(listed)
    _absent.warn_of({"flaky": any(getattr(case, "flaky", False) for case in cases)}, "a case")
    return [*map(own_case_of, cases)]


def run_suite(
    metrics: Sequence[Any] | None,
    run: AsyncConfig | None = None,
    display: DisplayConfig | None = None,
    cache: CacheConfig | None = None,
    errors: ErrorConfig | None = None,
    title: str | None = None,
    **source: Any,  # noqa: ANN401 - cases, or goldens with an app
) -> EvaluationResult:
    """Measure, show and write the report, and return the results."""
    run, display = run or AsyncConfig(), display or DisplayConfig()
    cache, errors = cache or CacheConfig(), errors or ErrorConfig()
    title = title or "Evaluation"
    _absent.warn_of({"throttle_value": run.throttle_value, "use_cache": cache.use_cache}, "the configs")
    options = _options(metrics, run, display, skips=errors.skip_on_missing_params, source=source)
    report = run_evaluation(options)
    if display.print_results:
        report.print(title=title)
    metrics_by_label = dict(zip(unique_labels([one.label for one in options.metrics]), options.metrics, strict=True))
    open_ended = {label for label, one in metrics_by_label.items() if getattr(one, "is_open_ended", False)}
    result = EvaluationResult([_test_result(case, open_ended) for case in report.cases], report)
    _write(result, display, title)
    if not errors.ignore_errors:
        _raise_first_error(report, metrics_by_label)
    return result


def _options(
    metrics: Sequence[Any] | None, run: AsyncConfig, display: DisplayConfig, *, skips: bool, source: dict[str, Any]
) -> EvaluationOptions:
    require(isinstance(metrics, Sequence | None), "metrics must be a list", metrics)
    listed: list[Any] = list(metrics or ())
    if listed and all(getattr(metric, "threshold", 0) is None for metric in listed):
        raise ConfigurationError("at least one metric must have a threshold, got none")
    shown = [_with_verbose_mode(metric, display.verbose_mode) for metric in listed]
    return EvaluationOptions(
        metrics=[as_metric(metric, waits=bool(run.run_async), skips=skips) for metric in shown],
        max_concurrency=run.max_concurrent if run.run_async else 1,
        show_progress=None if display.show_indicator else False,
        no_golden=None if skips else _NO_EXPECTATION,
        **source,
    )


def _with_verbose_mode(metric: Any, verbose_mode: bool | None) -> Any:  # noqa: ANN401 - a metric of any kind
    if verbose_mode is not None and hasattr(metric, "is_successful"):
        metric = copy.copy(metric)
        metric.verbose_mode = verbose_mode
    return metric


def _test_run(result: EvaluationResult) -> Any:  # noqa: ANN401 - JSON
    """Return the results in the form of DeepEval's file of a test run, with secrets redacted."""
    passed = [one.success for one in result.test_results]
    cases = [
        {**one.__dict__, "metrics_data": [_camel(data.__dict__) for data in one.metrics_data]}
        for one in result.test_results
    ]
    run = {"test_passed": passed.count(True), "test_failed": passed.count(False), "test_cases": [*map(_camel, cases)]}
    return DEFAULT(to_json_value(_camel(run)))


def _camel(fields: dict[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in fields.items()}


def _write(result: EvaluationResult, display: DisplayConfig, title: str) -> None:
    """Write the report where the config says."""
    report = result.report
    require(display.file_type in ("html", "md", None), "file_type must be 'html' or 'md'", display.file_type)
    if display.file_output_dir is not None and display.file_type == "html":
        write_html(_folder(display.file_output_dir) / "report.html", report, title=title)
    elif display.file_output_dir is not None:
        (_folder(display.file_output_dir) / "report.md").write_text(
            render_markdown(report, title=title), encoding="utf-8"
        )
    if display.results_folder is not None:
        folder = _folder(Path(display.results_folder) / (display.results_subfolder or ""))
        now = f"{datetime.now(timezone.utc):%Y%m%d_%H%M%S_%f}"
        (folder / f"test_run_{now}.json").write_text(json_text(_test_run(result), indent=2), encoding="utf-8")


def _raise_first_error(report: Report, metrics: Mapping[str, MetricLike]) -> None:
    """Raise what a metric of the suite raised, or an error for any other result that could not be measured.

    A component that lacks what its metric needs has failed already, and its example in DeepEval's page runs.
    """
    errored = [
        f"{case.label}: {result.metric}: {result.error}"
        for case in report.cases
        for result in case.own_results
        if result.status is ResultStatus.ERRORED
        and (result.metric in metrics or not str(result.error).startswith("MissingFieldError"))
    ]
    if errored:
        message = f"{plural(len(errored), 'result')} could not be measured:\n" + "\n".join(errored[:10])
        errors = filter(None, (getattr(metric, "first_error", None) for metric in metrics.values()))
        error: Exception = next(errors, NotMeasuredError(message))
        error.report = report  # type: ignore[attr-defined]
        raise error


def _folder(path: str | os.PathLike[str]) -> Path:
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _test_result(case: CaseResult, open_ended: set[str]) -> TestResult:
    """Return the results of a case as DeepEval's; the metrics of these labels have no threshold."""
    of, measured = case.case, [one for one in case.own_results if one.status is not ResultStatus.SKIPPED]
    fields: dict[str, Any] = {name: getattr(of, name) for name in TestResult.__dataclass_fields__ if hasattr(of, name)}
    fields |= {
        "name": of.name or of.id or f"test_case_{case.index}",
        "success": case.outcome == "passed",
        "metrics_data": [
            _metric_data(result, of.name, has_verdict=result.metric not in open_ended) for result in measured
        ],
        "conversational": isinstance(of, ConversationalTestCase),
        "index": case.index,
        "multimodal": isinstance(of, MLLMTestCase),
    }
    return TestResult(**fields)


def _metric_data(result: MetricResult, component: str | None, *, has_verdict: bool) -> MetricData:
    return MetricData(
        name=suite_name(result.metric.removeprefix(f"{component}: ")),
        threshold=result.threshold if has_verdict else None,
        success=bool(result.passed) if has_verdict else None,
        score=result.score,
        reason=result.reason,
        strict_mode="strict" in result.metric.partition("(")[2],
        evaluation_model=(result.judge or {}).get("model"),
        error=result.error,
        evaluation_cost=result.cost,
    )


def assert_test(
    test_case: Any = None,  # noqa: ANN401 - a case of any kind
    metrics: Sequence[Any] | None = None,
    golden: Any = None,  # noqa: ANN401 - a golden
    run_async: bool = True,
    *,
    observed_callback: Any = None,  # noqa: ANN401 - see `evaluate`
    **others: Any,  # noqa: ANN401 - options without effect
) -> None:
    """Measure one case, and raise an error unless it passes.

    Args:
        test_case: A case of toolgrade, of this package or of DeepEval.
        metrics: As for `evaluate`.
        golden: In place of a case, a golden: of `observed_callback`, or, in a test of pytest, of the observed functions
            that the test has called since the last `assert_test`.
        run_async: Measure with all metrics at the same time, where they wait for a model.
        observed_callback: As for `evaluate`.
        others: Options of DeepEval that have no effect, which a warning says.

    Raises:
        MetricAssertionError: The case did not pass; the message has every reason. It is an `AssertionError`.
        ConfigurationError: There is no case, or no metric.

    Example:
        >>> from toolgrade.compat.deepeval import assert_test
        >>> from toolgrade.compat.deepeval.metrics import ToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, ToolCall
        >>> call = ToolCall(name="get_weather")
        >>> case = LLMTestCase(input="Weather in Paris?", tools_called=[call], expected_tools=[call])
        >>> assert_test(case, [ToolCorrectnessMetric()])
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    _absent.warn_of(_known(others), "assert_test")
    quiet = DisplayConfig(show_indicator=False, print_results=False)
    if test_case is not None:
        source: dict[str, Any] = {"test_cases": _cases([test_case])}
    elif golden is not None:
        source = {"goldens": [as_golden(golden)], "observed_callback": observed_callback or traced_app()}
    else:
        raise ConfigurationError("assert_test needs a test_case, or a golden")
    try:
        result = run_suite(metrics, AsyncConfig(run_async=run_async), quiet, **source)
    finally:
        if golden is not None:
            forget_runs()
    if not all(one.success for one in result.test_results):
        raise MetricAssertionError(str(DEFAULT("\n".join(_failures(result)))), result.report)


def _failures(result: EvaluationResult) -> Iterator[str]:
    """Yield a text for each metric that did not pass, and for each case that failed otherwise."""
    for one, case in zip(result.test_results, result.report.cases, strict=True):
        if case.wrong_end is not None:
            yield f"{OUTCOME_WORDS[case.wrong_end.outcome]}: {case.wrong_end.why}"
        for data in one.metrics_data:
            if data.success is False:
                yield f"{data.name} (score: {data.score}, threshold: {data.threshold}): {data.reason or data.error}"
        if not one.metrics_data:
            yield f"{case.label}: no metric applies to it"


__getattr__: _absent.Getter = _absent.getter(__name__, "compare")
