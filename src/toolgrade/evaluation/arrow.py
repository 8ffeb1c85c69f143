"""Evaluation of cases in Arrow record batches, so that Ray Data, Spark, DuckDB or Polars evaluate them where they are.

A batch has one text column with JSON: `case` (what a line of a file of cases holds) or `messages` (the messages of a
conversation). Struct columns are refused: all rows of such a column have the same keys, and a key that a row lacks is
null, so `{}` and `{"to": null}`, which are different arguments, would be equal.

Totals of the results can be added in any order: sums of scores are fractions, which do not round, so the mean is the
same to the last bit, whichever machine scored which part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from toolgrade._internal.json import json_text, parse_json, to_json_value
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.text import unique_labels
from toolgrade.cases import LLMTestCase
from toolgrade.dataset import Document, problems_of
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError
from toolgrade.evaluation.measuring import checked_metrics, measure_in_thread, waits
from toolgrade.failed_calls import ErrorTexts
from toolgrade.inputs import Reading, read_each
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT
from toolgrade.report import Report
from toolgrade.report.field_paths import cluster_of, value_at
from toolgrade.report.report import MetricSummary
from toolgrade.result import MetricResult, errored_result
from toolgrade.stats import interval_of_mean, interval_of_rate
from toolgrade.verdict import OUTCOMES, Gate, Outcome, outcome_of, wrong_end

__all__ = ["result_schema", "score_batch", "totals_of"]

_TEXTS: Final = {"string", "large_string", "string_view", "null"}

_COLUMNS: Final[Mapping[str, str]] = {
    "id": "string",
    "name": "string",
    "cluster": "string",
    "outcome": "string",
    "metric": "string",
    "threshold": "float64",
    "status": "string",
    "score": "float64",
    "passed": "bool_",
    "reason": "string",
    "result": "string",
}
"""Columns of the results, with the names of their types in pyarrow."""

_KEYS: Final = ("metric", "threshold", "outcome", "score", "passed", "cluster")
"""Columns by which totals are counted, besides `status` and `reason`."""


def result_schema() -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the columns of the results, as a `pyarrow.Schema`.

    Example:
        >>> from toolgrade.evaluation.arrow import result_schema
        >>> result_schema().names
        ['id', 'name', 'cluster', 'outcome', 'metric', 'threshold', 'status', 'score', 'passed', 'reason', 'result']
    """
    arrow = _arrow()
    return arrow.schema([(name, getattr(arrow, kind)()) for name, kind in _COLUMNS.items()])


def score_batch(
    batch: Any,  # noqa: ANN401 - as above
    metrics: Sequence[MetricLike],
    *,
    cluster: str | None = None,
    error_texts: str | None = "default",
    text_tools: Sequence[str] = (),
    allow_nan: bool = False,
) -> Any:  # noqa: ANN401 - as above
    """Return the results of the cases of a record batch: a row for each case and metric, in the order of the cases.

    A row is `id`, `name`, `cluster`, `outcome` (of the case), `metric`, `threshold`, `status` (`scored`, `skipped`,
    `errored`), `score`, `passed`, `reason` (or the error), and `result`, the whole result as JSON text, without
    secrets, as in a file of results. What does not apply is null. A row of the batch that cannot be read is errored in
    every metric. A conversation with `turns` is measured as a whole.

    Args:
        batch: A `pyarrow.RecordBatch` or `pyarrow.Table` with a text column `case` or `messages`; a column `id` has
            the ids of cases without one. Other columns are ignored.
        metrics: At least one metric; metrics that ask a judge are not supported.
        cluster: Path of the field of a case that says which are repetitions of one another, such as `metadata.task`.
            A case without it is independent of all others.
        error_texts: See `toolgrade.evaluate`.
        text_tools: See `toolgrade.evaluate`.
        allow_nan: See `toolgrade.read_cases`.

    Returns:
        A batch or table, as `batch` is one, with the columns of `result_schema`.

    Raises:
        ConfigurationError: A metric asks a judge or is invalid, or `cluster` is not a path.
        DataFileError: There is not one such column, or it does not hold texts.
        MissingPackageError: pyarrow is not installed.

    Example:
        >>> import pyarrow as pa
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.evaluation.arrow import score_batch
        >>> case = '{"id": "paris", "tools_called": [], "expected_tools": [{"name": "get_weather"}]}'
        >>> results = score_batch(pa.record_batch({"case": [case, "not a case"]}), [ToolCorrectnessMetric()])
        >>> results.select(["id", "status", "score"]).to_pylist()
        [{'id': 'paris', 'status': 'scored', 'score': 0.0}, {'id': None, 'status': 'errored', 'score': None}]
    """
    named = _scorable(metrics)
    name = _text_column(batch.schema)
    reading = Reading(unit="any", allow_nan=allow_nan)
    if cluster is not None:
        value_at(LLMTestCase(), cluster, "cluster")  # a wrong path is an error of the call, not of each row
    columns = [name, "id"] if "id" in batch.schema.names else [name]
    with ErrorTexts(error_texts, text_tools).applied():
        rows = [
            row
            for values in batch.select(columns).to_pylist()
            for row in _rows(values[name], values.get("id"), named, cluster, reading)
        ]
    return type(batch).from_pylist(rows, schema=result_schema())


def totals_of(results: Iterable[Any], metrics: Sequence[MetricLike]) -> Totals:
    """Return the exact totals of results of `score_batch`; totals of several parts can be added in any order.

    Args:
        results: Tables or record batches of results, in any order, as `pyarrow.dataset` reads them from a folder. The
            rows of one case may be in different parts if the totals of these parts are added.
        metrics: The metrics that were measured.

    Raises:
        ConfigurationError: A metric asks a judge or is invalid.
        InvalidDataError: There are rows of other metrics. Filter by `metric` to leave them out.

    Example:
        >>> import pyarrow as pa
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.evaluation.arrow import score_batch, totals_of
        >>> metrics = [ToolCorrectnessMetric()]
        >>> case = '{"tools_called": [], "expected_tools": []}'
        >>> results = score_batch(pa.record_batch({"case": [case, case]}), metrics)
        >>> print(totals_of([results], metrics).report())
        Passed: 2 cases passed.
        tool_correctness: mean 1 over 2 cases; 2 passed, 0 failed (at 0.5), 0 skipped, 0 errored
    """
    totals = {(name, one.threshold): MetricTotals(name, one.threshold) for name, one in _scorable(metrics).items()}
    for part in results:
        *columns, statuses, reasons = (part.column(name).to_pylist() for name in (*_KEYS, "status", "reason"))
        errors = [reason if status == "errored" else None for status, reason in zip(statuses, reasons, strict=True)]
        # Many rows are equal in what is counted; adding a fraction for each would be slow.
        counts = Counter(zip(*columns, statuses, errors, strict=True))
        for (name, threshold, outcome, score, passed, cluster, status, error), times in counts.items():
            metric = totals.get((name, threshold))
            if metric is None:
                expected = ", ".join(map(str, totals.values()))
                other = f"{name!r} (threshold {threshold})"
                raise InvalidDataError(f"results must be of the metrics {expected}, got {other}; leave out the others")
            metric.outcomes[outcome] += times
            if score is not None and status == "scored":
                metric.add(score, passed, cluster, times)
            elif score is None and status in {"skipped", "errored"}:
                metric.add_unscored(status, error, times)
            else:  # counted nowhere, it would read as passed
                raise InvalidDataError(f"results must be those of score_batch, got the status {status!r} of {score}")
    return Totals(tuple(totals.values()))


def _scorable(metrics: object) -> dict[str, MetricLike]:
    """Return metrics that score batches, by their names in a report.

    Raises:
        ConfigurationError: One asks a judge or is not a metric.
    """
    checked = checked_metrics(metrics)
    for metric in checked:
        if waits(metric):
            remedy = "read the cases with read_cases and call evaluate"
            raise ConfigurationError(f"{metric.label} asks a judge, which is not possible in a batch; {remedy}")
    return dict(zip(unique_labels([metric.label for metric in checked]), checked, strict=True))


def _text_column(schema: Any) -> str:  # noqa: ANN401 - pyarrow has no types
    """Return the name of the column with the cases.

    Raises:
        DataFileError: There is not one, or it does not hold texts.
    """
    names = [name for name in schema.names if name in {"case", "messages"}]
    if len(names) != 1:
        columns = ", ".join(map(repr, schema.names))
        raise DataFileError.of(f"the batch must have one column 'case' or 'messages' with JSON texts, got {columns}")
    kind = schema.field(names[0]).type
    if not _is_text(kind):
        is_nested = _arrow().types.is_nested(kind)
        reason = ", because absent keys would become null in a nested column" if is_nested else ""
        raise DataFileError.of(f"the column {names[0]!r} must hold texts, got {kind}; write JSON text{reason}")
    return str(names[0])


def _is_text(kind: Any) -> bool:  # noqa: ANN401 - pyarrow has no types
    return str(kind).removeprefix("dictionary<values=").partition(",")[0] in _TEXTS


def _rows(
    text: str | None,
    row_id: object,
    metrics: Mapping[str, MetricLike],
    cluster: str | None,
    reading: Reading,
) -> list[dict[str, Any]]:
    """Return the rows of results of one row of a batch."""
    row_name = None if row_id is None else str(row_id)
    entry = next(iter(read_each([_document(text or "", row_name, reading)], reading)))
    rows: list[dict[str, Any]] = []
    if entry.problems:
        wrong = InvalidDataError("; ".join(map(str, entry.problems)))
        about: dict[str, str | None] = {"id": row_name, "outcome": "not_measured"}
        for name, metric in metrics.items():
            rows.append(_row(about, None, errored_result(name, metric.threshold, wrong)))
    for case in entry.cases:
        results = [measure_in_thread(metric, case).renamed(name) for name, metric in metrics.items()]
        about = {
            "id": case.id or row_name,
            "name": (case.name or "").removeprefix(f"line {_LINE}, ") or None,
            "outcome": outcome_of(results, wrong_end(case)),
        }
        key = None if cluster is None else cluster_of(case, cluster)
        rows += [_row(about, key, result) for result in results]
    return rows


def _document(text: str, row_name: str | None, reading: Reading) -> Document:
    try:
        value = parse_json(text, allow_nan=reading.allow_nan)
    except InvalidDataError as error:
        return Document(problems=problems_of(error))
    if row_name is not None and isinstance(value, dict) and "turns" in value and not value.get("id"):
        value = {**value, "id": row_name}  # from which its questions get theirs
    return Document(value, line=_LINE)


_LINE: Final = 0
"""Number of the line of each row, so that a lone message is refused as it is in a file; names do not show it."""


def _row(about: Mapping[str, str | None], cluster: str | None, result: MetricResult) -> dict[str, Any]:
    plain = result.to_dict(DEFAULT)
    values = {
        **about,
        "cluster": cluster,
        **{name: plain.get(name) for name in ("metric", "threshold", "status", "score", "passed")},
        "reason": plain.get("error") or plain.get("reason"),
        "result": json_text(to_json_value(plain, [])),
    }
    return {name: _storable(value) for name, value in values.items()}


def _storable(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value for Arrow; lone surrogates in a text, which UTF-8 cannot encode, are escaped."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _arrow() -> Any:  # noqa: ANN401 - as above
    return import_extra("pyarrow", "pyarrow", "scoring of Arrow batches")


_ZERO = Fraction(0)


@dataclass(frozen=True)
class Totals:
    """Totals of the results of many cases; two of the same metrics can be added, in any order.

    `toolgrade.evaluation.arrow.totals_of` makes them, and `report()` shows them.

    Attributes:
        metrics: The totals of each metric, in the order of the metrics.

    Example:
        >>> import pyarrow as pa
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.evaluation.arrow import score_batch, totals_of
        >>> metrics = [ToolCorrectnessMetric()]
        >>> good, bad = '{"tools_called": [], "expected_tools": []}', "not a case"
        >>> monday, tuesday = (score_batch(pa.record_batch({"case": [case]}), metrics) for case in (good, bad))
        >>> report = (totals_of([monday], metrics) + totals_of([tuesday], metrics)).report()
        >>> report.passed, report.case_count, report.summaries[0].mean
        (False, 2, 1.0)
    """

    metrics: tuple[MetricTotals, ...] = ()

    def __add__(self, other: Totals) -> Totals:
        """Return the sum of both; `Totals()` adds nothing.

        Raises:
            InvalidDataError: They are of different metrics.
        """
        if not self.metrics or not other.metrics:
            return Totals(self.metrics or other.metrics)
        names, other_names = (", ".join(map(str, one.metrics)) for one in (self, other))
        if names != other_names:
            raise InvalidDataError(f"totals must be of the same metrics to be added, got {names} and {other_names}")
        return Totals(tuple(one.plus(another) for one, another in zip(self.metrics, other.metrics, strict=True)))

    def report(self, gate: Gate | None = None) -> Report:
        """Return a report without single cases, by default of the default gate.

        Its counts and means equal those of `evaluate` on all cases exactly, its intervals up to rounding. Each case is
        a golden of its own for the gate.

        Raises:
            InvalidDataError: There is no result, or the metrics have different numbers of results, so that some are
                missing, or outcomes of cases are.
        """
        summaries = tuple(metric.summary() for metric in self.metrics)
        amounts = {summary.metric: summary.total for summary in summaries}
        if not any(amounts.values()):
            raise InvalidDataError("totals must have at least one result to be reported, got none")
        if len(set(amounts.values())) > 1:
            raise InvalidDataError(f"each metric must have a result of each case, got {amounts}; add what is missing")
        outcomes = self.metrics[0].outcomes
        with_outcome = sum(outcomes[outcome] for outcome in OUTCOMES)
        if with_outcome != max(amounts.values()) or any(metric.outcomes != outcomes for metric in self.metrics):
            listed = {str(metric): dict(metric.outcomes) for metric in self.metrics}
            raise InvalidDataError(f"results must have the outcomes of all cases, as score_batch returns, got {listed}")
        return Report(tuple(amounts), (), gate=gate or Gate(), totals=summaries, outcomes=dict(outcomes))


@dataclass
class MetricTotals:
    """The results of one metric so far.

    `counts` has the numbers of results by status, `outcomes` those of their cases by outcome, `total` the sum of the
    scores, `squares` that of their squares for cases without a cluster, and `clusters` the number of scored cases of
    each cluster, of those that passed, and the sum of their scores. A case without a cluster is independent of all
    others, and is not in there.
    """

    metric: str
    threshold: float
    counts: Counter[str] = field(default_factory=Counter[str])
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    total: Fraction = _ZERO
    squares: Fraction = _ZERO
    clusters: dict[str, tuple[int, int, Fraction]] = field(default_factory=dict[str, tuple[int, int, Fraction]])
    error: str | None = None
    in_range: bool = True

    def __str__(self) -> str:
        """Return the name and the threshold, which together identify a metric."""
        return f"{self.metric!r} (threshold {self.threshold:g})"

    def add(self, score: float, passed: bool, cluster: str | None, times: int) -> None:
        """Add equal scores.

        Raises:
            InvalidDataError: The score is not a finite number.
        """
        if not math.isfinite(score):
            raise InvalidDataError(f"the score of {self.metric} must be a finite number, got {score!r}")
        self.counts["passed" if passed else "failed"] += times
        self.total += Fraction(score) * times
        self.in_range &= 0 <= score <= 1
        if cluster is None:
            self.squares += Fraction(score) ** 2 * times
        else:
            self._add_cluster(cluster, (times, times * passed, Fraction(score) * times))

    def add_unscored(self, status: str, error: str | None, times: int) -> None:
        """Add equal results without a score: `skipped` or `errored`."""
        self.counts[status] += times
        # The first in the alphabet, so that it does not depend on the order.
        self.error = min(filter(None, (self.error, error)), default=None)

    def _add_cluster(self, key: str, more: tuple[int, int, Fraction]) -> None:
        scored, passed, total = self.clusters.get(key, (0, 0, _ZERO))
        self.clusters[key] = (scored + more[0], passed + more[1], total + more[2])

    def plus(self, other: MetricTotals) -> MetricTotals:
        """Return the sum of both, which are of the same metric."""
        result = MetricTotals(
            metric=self.metric,
            threshold=self.threshold,
            counts=self.counts + other.counts,
            outcomes=self.outcomes + other.outcomes,
            total=self.total + other.total,
            squares=self.squares + other.squares,
            clusters=dict(self.clusters),
            error=min(filter(None, (self.error, other.error)), default=None),
            in_range=self.in_range and other.in_range,
        )
        for key, cluster in other.clusters.items():
            result._add_cluster(key, cluster)
        return result

    def summary(self) -> MetricSummary:
        """Return the line of this metric in a report, with the intervals that `toolgrade.stats` gives single scores."""
        passed = self.counts["passed"]
        scored = passed + self.counts["failed"]
        mean = float(self.total) / scored if scored else None
        mean_interval = rate_interval = None
        if mean is not None:
            sums = [(number, total) for number, _, total in self.clusters.values()]
            passes = [(number, Fraction(passing)) for number, passing, _ in self.clusters.values()]
            independent = scored - sum(number for number, _ in sums) + len(sums)  # a case without a cluster is its own
            if self.in_range:
                error = _standard_error(self.total, self.squares, sums, scored)
                mean_interval = interval_of_mean(mean, error, independent)
            squares = passed - sum((number for _, number in passes), _ZERO)
            error = _standard_error(Fraction(passed), squares, passes, scored)
            rate_interval = interval_of_rate(passed / scored, error, independent, scored)
        return MetricSummary(
            metric=self.metric,
            threshold=self.threshold,
            passed=passed,
            failed=self.counts["failed"],
            skipped=self.counts["skipped"],
            errored=self.counts["errored"],
            mean=mean,
            mean_interval=mean_interval,
            rate_interval=rate_interval,
            error=None if self.error is None else str(DEFAULT(self.error)),
        )


def _standard_error(
    total: Fraction, squares: Fraction, clusters: Sequence[tuple[int, Fraction]], number: int
) -> float | None:
    """Return the standard error of the mean of so many values, or `None` for fewer than two clusters.

    `total` is the sum of all values, `squares` that of the squares of the values outside clusters; `clusters` has the
    count and the sum of each cluster.
    """
    alone = number - sum(count for count, _ in clusters)
    independent = alone + len(clusters)
    if independent < 2:  # noqa: PLR2004 - a single cluster cannot vary
        return None
    mean = total / number
    alone_total = total - sum((one for _, one in clusters), _ZERO)
    deviation = squares - 2 * mean * alone_total + mean * mean * alone
    deviation += sum(((one - mean * count) ** 2 for count, one in clusters), _ZERO)
    return math.sqrt(Fraction(independent, independent - 1) * deviation) / number
