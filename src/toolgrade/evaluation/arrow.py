"""Evaluation of cases in Arrow record batches, so that Ray Data, Spark, DuckDB or Polars evaluate them where they are.

A batch has one text column with JSON: `case` (what a line of a file of cases holds) or `messages` (the messages of a
conversation). Struct columns are refused: all rows of such a column have the same keys, and a key that a row lacks is
null, so `{}` and `{"to": null}`, which are different arguments, would be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from toolgrade._internal.json import json_text, parse_json, to_json_value
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.text import unique_labels
from toolgrade.cases import LLMTestCase
from toolgrade.dataset import Document, problems_of
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError
from toolgrade.evaluation.field_paths import cluster_of, value_at
from toolgrade.evaluation.measuring import checked_metrics, measure_in_thread, waits
from toolgrade.evaluation.totals import MetricTotals, Totals
from toolgrade.inputs import Reading, read_each
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT
from toolgrade.result import MetricResult, errored_result

__all__ = ["result_schema", "score_batch", "totals_of"]

_TEXTS: Final = {"string", "large_string", "string_view", "null"}

_COLUMNS: Final[Mapping[str, str]] = {
    "id": "string",
    "name": "string",
    "cluster": "string",
    "metric": "string",
    "threshold": "float64",
    "status": "string",
    "score": "float64",
    "passed": "bool_",
    "reason": "string",
    "result": "string",
}
"""Columns of the results, with the names of their types in pyarrow."""

_KEYS: Final = ("metric", "threshold", "score", "passed", "cluster")
"""Columns by which totals are counted, besides `status` and `reason`."""


def result_schema() -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the columns of the results, as a `pyarrow.Schema`.

    Example:
        >>> from toolgrade.evaluation.arrow import result_schema
        >>> result_schema().names
        ['id', 'name', 'cluster', 'metric', 'threshold', 'status', 'score', 'passed', 'reason', 'result']
    """
    arrow = _arrow()
    return arrow.schema([(name, getattr(arrow, kind)()) for name, kind in _COLUMNS.items()])


def score_batch(
    batch: Any,  # noqa: ANN401 - as above
    metrics: Sequence[MetricLike],
    *,
    cluster: str | None = None,
    allow_nan: bool = False,
) -> Any:  # noqa: ANN401 - as above
    """Return the results of the cases of a record batch: a row for each case and metric, in the order of the cases.

    A row is `id`, `name`, `cluster`, `metric`, `threshold`, `status` (`scored`, `skipped`, `errored`), `score`,
    `passed`, `reason` (or the error), and `result`, the whole result as JSON text, without secrets, as in a file of
    results. What does not apply is null. A row of the batch that cannot be read is errored in every metric. A
    conversation with `turns` gives a case for each question of the user.

    Args:
        batch: A `pyarrow.RecordBatch` or `pyarrow.Table` with a text column `case` or `messages`; a column `id` has
            the ids of cases without one. Other columns are ignored.
        metrics: At least one metric; metrics that ask a judge are not supported.
        cluster: Path of the field of a case that says which are repetitions of one another, such as `metadata.task`.
            A case without it is independent of all others.
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
    checked = _scorable(metrics)
    name = _text_column(batch.schema)
    reading = Reading(allow_nan=allow_nan)
    if cluster is not None:
        value_at(LLMTestCase(), cluster, "cluster")  # a wrong path is an error of the call, not of each row
    columns = [name, "id"] if "id" in batch.schema.names else [name]
    rows = [
        row
        for values in batch.select(columns).to_pylist()
        for row in _rows(values[name], values.get("id"), checked, cluster, reading)
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
        tool_correctness: mean 1 over 2 cases; 2 passed, 0 failed (at 0.5), 0 skipped, 0 errored
    """
    checked = _scorable(metrics)
    names = unique_labels([metric.label for metric in checked])
    totals = {name: MetricTotals(name, metric.threshold) for name, metric in zip(names, checked, strict=True)}
    for part in results:
        *columns, statuses, reasons = (part.column(name).to_pylist() for name in (*_KEYS, "status", "reason"))
        errors = [reason if status == "errored" else None for status, reason in zip(statuses, reasons, strict=True)]
        # Many rows are equal in what is counted; adding a fraction for each would be slow.
        counts = Counter(zip(*columns, statuses, errors, strict=True))
        for (name, threshold, *result), times in counts.items():
            metric = totals.get(name)
            if metric is None or metric.threshold != threshold:
                expected = ", ".join(map(str, totals.values()))
                other = f"{name!r} (threshold {threshold})"
                raise InvalidDataError(f"results must be of the metrics {expected}, got {other}; leave out the others")
            _add_results(metric, *result, times=times)
    return Totals(tuple(totals.values()))


def _add_results(
    metric: MetricTotals,
    score: float | None,
    passed: bool,
    cluster: str | None,
    status: str,
    error: str | None,
    *,
    times: int,
) -> None:
    """Add equal results to the totals of their metric."""
    if score is not None and status == "scored":
        metric.add(score, passed, cluster, times)
    elif score is None and status in {"skipped", "errored"}:
        metric.add_unscored(status, error, times)
    else:  # counted nowhere, it would read as passed
        raise InvalidDataError(f"results must be those of score_batch, got the status {status!r} of {score}")


def _scorable(metrics: object) -> list[MetricLike]:
    """Return metrics that score batches.

    Raises:
        ConfigurationError: One asks a judge or is not a metric.
    """
    checked = checked_metrics(metrics)
    for metric in checked:
        if waits(metric):
            remedy = "read the cases with read_cases and call evaluate"
            raise ConfigurationError(f"{metric.label} asks a judge, which is not possible in a batch; {remedy}")
    return checked


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
    metrics: Sequence[MetricLike],
    cluster: str | None,
    reading: Reading,
) -> list[dict[str, Any]]:
    """Return the rows of results of one row of a batch."""
    names = unique_labels([metric.label for metric in metrics])
    row_name = None if row_id is None else str(row_id)
    entry = next(iter(read_each([_document(text or "", row_name, reading)], reading)))
    rows: list[dict[str, Any]] = []
    if entry.problems:
        wrong = InvalidDataError("; ".join(map(str, entry.problems)))
        for name, metric in zip(names, metrics, strict=True):
            rows.append(_row({"id": row_name}, None, errored_result(name, metric.threshold, wrong)))
    for case in entry.cases:
        about = {"id": case.id or row_name, "name": (case.name or "").removeprefix(f"line {_LINE}, ") or None}
        key = None if cluster is None else cluster_of(case, cluster)
        for name, metric in zip(names, metrics, strict=True):
            rows.append(_row(about, key, measure_in_thread(metric, case).renamed(name)))
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
"""A row is read like a line of a file, of which a single message is refused; it has no number that says anything."""


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
