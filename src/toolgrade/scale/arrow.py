"""Scoring of cases in tables of Spark, Ray Data or Arrow, batch by batch; results are rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from toolgrade._internal.json import json_text, to_json_value
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.options import require
from toolgrade._internal.text import plural
from toolgrade.cases import TestCase
from toolgrade.dataset import problems_of, read_case
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError, Problem
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.scale.files import check_cluster, scorable
from toolgrade.scale.parquet import BATCH, CASE, check_columns, read_row
from toolgrade.scale.score_part import Options, measure_case
from toolgrade.scale.totals import Column, Totals

Unreadable: TypeAlias = Literal["keep", "raise"]
"""How to handle a row that is not a case."""

UNREADABLE: Final = "unreadable"
"""Status of such a row in the results."""

_COLUMNS: Final[Mapping[str, str]] = {
    "id": "string",
    "name": "string",
    "cluster": "string",
    "metric": "string",
    "threshold": "double",
    "status": "string",
    "score": "double",
    "passed": "boolean",
    "reason": "string",
    "result": "string",
}
"""Columns of the results, with the types of Spark."""

_TOTALLED: Final = ["metric", "threshold", "status", "score", "passed", "cluster", "reason"]
"""Columns of which totals are made."""

_ARROW: Final[Mapping[str, str]] = {"string": "string", "double": "float64", "boolean": "bool_"}


@dataclass(frozen=True)
class ArrowScorer:
    """Scores cases in tables of Spark, Ray Data or Arrow, where the tables are; it can be pickled.

    A row of the input is a case, as in Parquet files: either a column `case` holds its JSON text, and other columns are
    ignored, or there is a column for each field. Each case gives a row of results for each metric, in the order of the
    input: `id`, `name`, `cluster`, `metric`, `threshold`, `status` (`scored`, `skipped`, `failed`), `score`, `passed`,
    `reason` (or the error), and `result`, the whole result as JSON text, without secrets, as in a file of results.
    Values that do not apply are null.

    Attributes:
        metrics: At least one metric; metrics that ask a judge are not supported.
        cluster: Path of the cluster in a case, such as `metadata.task`; see `score_files`.
        unreadable: How to handle a row that is not a case: `keep` makes it one row of results, with the status
            `unreadable` and its problems as the reason; `raise` ends the job with a `DataFileError`.
        allow_nan: See `toolgrade.read_cases`.
        tolerant_arguments: See `toolgrade.read_cases`.

    Raises:
        ConfigurationError: An option is invalid.

    Example:
        >>> import pyarrow as pa
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.scale import ArrowScorer
        >>> scorer = ArrowScorer([ToolCorrectnessMetric()])
        >>> case = '{"id": "paris", "tools_called": [], "expected_tools": [{"name": "get_weather"}]}'
        >>> results = scorer.table(pa.table({"case": [case, "not a case"]}))
        >>> results.select(["id", "status", "score"]).to_pylist()
        [{'id': 'paris', 'status': 'scored', 'score': 0.0}, {'id': None, 'status': 'unreadable', 'score': None}]
    """

    metrics: Sequence[MetricLike]
    cluster: str | None = None
    unreadable: Unreadable = "keep"
    allow_nan: bool = False
    tolerant_arguments: bool = False

    def __post_init__(self) -> None:
        """Check the options before the scorer is sent to many machines."""
        object.__setattr__(self, "metrics", scorable(self.metrics))
        check_cluster(self.cluster)
        require(self.unreadable in get_args(Unreadable), "unreadable must be 'keep' or 'raise'", self.unreadable)

    @property
    def schema(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The columns of the results, as a `pyarrow.Schema`."""
        arrow = _arrow()
        return arrow.schema([(name, getattr(arrow, _ARROW[kind])()) for name, kind in _COLUMNS.items()])

    @property
    def spark_schema(self) -> str:
        """The columns of the results, as `DataFrame.mapInArrow` takes them."""
        return ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of record batches as record batches.

        For Spark: `table.mapInArrow(scorer.batches, scorer.spark_schema)`.

        Raises:
            DataFileError: A column is not a field of a case, or a row is not a case and `unreadable` is `raise`.
            MissingPackageError: pyarrow is not installed.
        """
        arrow, schema = _arrow(), self.schema
        options = Options(tuple(self.metrics), self.cluster)
        for batch in batches:
            check_columns(batch.schema, "the table")
            rows_batch = batch.select([CASE]) if CASE in batch.schema.names else batch
            for start in range(0, rows_batch.num_rows, BATCH):
                rows = rows_batch.slice(start, BATCH).to_pylist()
                results = [result for row in rows for result in self._results(row, options)]
                yield arrow.RecordBatch.from_pylist(results, schema=schema)

    def table(self, table: Any) -> Any:  # noqa: ANN401 - as above
        """Return the results of a `pyarrow.Table` as one: `dataset.map_batches(scorer.table, batch_format="pyarrow")`.

        Raises:
            DataFileError: See `batches`.
            MissingPackageError: pyarrow is not installed.
        """
        check_columns(table.schema, "the table")  # also if there are no rows
        return _arrow().Table.from_batches(self.batches(table.to_batches()), schema=self.schema)

    def totals(self, results: Iterable[Any]) -> Totals:
        """Return the exact totals of results; totals of several parts can be added.

        Args:
            results: Tables or record batches of results, in any order. The rows of one case may be in different parts
                if the totals of these parts are added.

        Raises:
            InvalidDataError: There are rows that could not be read, or of other metrics. Filter by `status` or `metric`
                to leave them out.
            ConfigurationError: `cluster` is set, and no row has a cluster.
        """
        names = Options(tuple(self.metrics)).names
        columns = {name: Column(name, metric.threshold) for name, metric in zip(names, self.metrics, strict=True)}
        counts = Counter[str]()
        for part in results:
            for row in part.select(_TOTALLED).to_pylist():
                self._add_row(row, columns, counts)
        if counts["unread"]:
            rest = "the others are not all cases; filter by status to leave them out"
            raise InvalidDataError(f"{plural(counts['unread'], 'row')} could not be read, and {rest}")
        if counts["rows"] and self.cluster is not None and not counts["clustered"]:
            raise ConfigurationError(f"no row has {self.cluster!r}, the cluster")
        metrics = tuple(column.totals() for column in columns.values())
        return Totals(sum(getattr(metrics[0], name) for name in ("scored", "skipped", "errored")), metrics)

    def _add_row(self, row: Mapping[str, Any], columns: Mapping[str, Column], counts: Counter[str]) -> None:
        """Add a row of a result to the column of its metric, and count it."""
        counts["rows"] += 1
        if row["status"] == UNREADABLE:
            counts["unread"] += 1
            return
        counts["clustered"] += row["cluster"] is not None
        self._column(columns, row).add(_result(row), row["cluster"])

    def _column(self, columns: Mapping[str, Column], row: Mapping[str, Any]) -> Column:
        column = columns.get(row["metric"])
        if column is None or column.threshold != row["threshold"]:
            expected = ", ".join(f"{one.metric} (threshold {one.threshold:g})" for one in columns.values())
            raise InvalidDataError(
                f"there are results of {row['metric']!r} (threshold {row['threshold']}), and these are of {expected}"
            )
        return column

    def _results(self, row: Mapping[str, Any], options: Options) -> Iterator[dict[str, Any]]:
        """Yield the rows of results of one row of the input."""
        try:
            case = self._case(row)
        except InvalidDataError as error:
            problems = problems_of(error)
        else:
            yield from self._scored_rows(case, options)
            return
        yield self._unreadable_row(row, problems)

    def _scored_rows(self, case: TestCase, options: Options) -> Iterator[dict[str, Any]]:
        results, cluster = measure_case(case, options)
        for result in results:
            plain = result.to_dict(DEFAULT)
            values = {
                "id": getattr(case, "id", None),
                "name": getattr(case, "name", None) or None,
                "cluster": cluster,
                **{name: plain.get(name) for name in ("metric", "threshold", "status", "score", "passed")},
                "reason": plain.get("error") or plain.get("reason"),
                "result": json_text(to_json_value(plain, [])),
            }
            yield {name: _storable(value) for name, value in values.items()}

    def _unreadable_row(self, row: Mapping[str, Any], problems: Sequence[Problem]) -> dict[str, Any]:
        """Return the row of a case that cannot be read.

        Raises:
            DataFileError: Such cases are not to be left out.
        """
        text = "\n".join(map(str, problems))
        if self.unreadable == "raise":
            place = f"the row with the id {row['id']!r}" if row.get("id") else "a row"
            raise DataFileError(f"{place} is not a case:\n{text}", problems)
        values = {"id": row.get("id"), "name": row.get("name"), "status": UNREADABLE, "reason": DEFAULT(text)}
        return {name: _storable(value) for name, value in values.items()}

    def _case(self, row: Mapping[str, Any]) -> TestCase:
        document = read_row(row, None, allow_nan=self.allow_nan)
        if document.problems:
            raise InvalidDataError("the row is not a case", document.problems)
        return read_case(document.value, "", tolerant_arguments=self.tolerant_arguments)


def _result(row: Mapping[str, Any]) -> MetricResult:
    names = ("metric", "threshold", "score", "passed", "reason")
    return MetricResult(status=ResultStatus(row["status"]), **{name: row[name] for name in names})


def _storable(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value for Arrow; lone surrogates in a text, which UTF-8 cannot encode, are escaped."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _arrow() -> Any:  # noqa: ANN401 - as above
    return import_extra("pyarrow", "parquet", "scoring tables of Arrow")
