"""Scoring of cases in Arrow tables, batch by batch; results are rows.

Cases are JSON text, either each in a column `case`, or each field in a column of its own. Nested columns are an error:
all rows of such a column have the same keys, and a key that a row lacks is null, so `{}` and `{"to": null}`, which are
different arguments, would be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic.alias_generators import to_camel

from toolgrade._internal.json import json_path, json_text, parse_json, to_json_value
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.options import require
from toolgrade._internal.text import plural
from toolgrade.cases import LLMTestCase, TestCase
from toolgrade.dataset import file_error, problems_of, read_case
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError, Problem
from toolgrade.formats.records import looks_like_record
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.scale.files import check_cluster, scorable
from toolgrade.scale.score_part import Options, measure_case
from toolgrade.scale.totals import Column, Totals

Unreadable: TypeAlias = Literal["keep", "raise"]
"""How to handle a row that is not a case."""

UNREADABLE: Final = "unreadable"
"""Status of such a row in the results."""

_CASE: Final = "case"
"""Name of the column that holds whole cases."""

_TEXT_NAMES: Final = (
    *("id", "name", "input", "actual_output", "expected_output"),
    *("query", "generated_response", "expected_response"),
)
_TEXTS: Final = {spelling for name in _TEXT_NAMES for spelling in (name, to_camel(name))}
"""Fields of a case or a record that are texts; all others are JSON text."""

_FIELDS: Final = {spelling for name in LLMTestCase.model_fields for spelling in (name, to_camel(name))}

_TEXT_TYPES: Final = {"string", "large_string", "string_view", "null"}

_BATCH: Final = 256
"""Number of rows that are converted to objects at a time."""

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

_TOTALLED: Final = ["metric", "threshold", "status", "score", "passed", "cluster", "reason"]
"""Columns of which totals are made."""


@dataclass(frozen=True)
class ArrowScorer:
    """Scores cases in Arrow tables, where the tables are; it can be pickled.

    A row of the input is a case: either a column `case` holds its JSON text, and other columns are ignored, or there is
    a text column for each field of a case or a record. `id`, `name`, `input` and other texts are texts as they are, all
    other fields are JSON text, and null is *not set*.

    Each case gives a row of results for each metric, in the order of the input: `id`, `name`, `cluster`, `metric`,
    `threshold`, `status` (`scored`, `skipped`, `failed`), `score`, `passed`, `reason` (or the error), and `result`, the
    whole result as JSON text, without secrets, as in a file of results. Values that do not apply are null.

    Attributes:
        metrics: At least one metric; metrics that ask a judge are not supported.
        cluster: Path of the cluster in a case, such as `metadata.task`; see `score_files`.
        unreadable: How to handle a row that is not a case: `keep` makes it one row of results, with the status
            `unreadable` and its problems as the reason; `raise` ends the job with a `DataFileError`.
        allow_nan: See `toolgrade.read_cases`.

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

    def __post_init__(self) -> None:
        """Check the options before the scorer is sent to many machines."""
        object.__setattr__(self, "metrics", scorable(self.metrics))
        check_cluster(self.cluster)
        require(self.unreadable in get_args(Unreadable), "unreadable must be 'keep' or 'raise'", self.unreadable)

    @property
    def schema(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The columns of the results, as a `pyarrow.Schema`."""
        arrow = _arrow()
        return arrow.schema([(name, getattr(arrow, kind)()) for name, kind in _COLUMNS.items()])

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of record batches as record batches.

        Raises:
            DataFileError: A column is not a text or not a field of a case, or a row is not a case and `unreadable` is
                `raise`.
        """
        arrow, schema = _arrow(), self.schema
        options = Options(tuple(self.metrics), self.cluster)
        for batch in batches:
            _check_columns(batch.schema)
            rows_batch = batch.select([_CASE]) if _CASE in batch.schema.names else batch
            for start in range(0, rows_batch.num_rows, _BATCH):
                rows = rows_batch.slice(start, _BATCH).to_pylist()
                results = [result for row in rows for result in self._results(row, options)]
                yield arrow.RecordBatch.from_pylist(results, schema=schema)

    def table(self, table: Any) -> Any:  # noqa: ANN401 - as above
        """Return the results of a `pyarrow.Table` as one.

        Raises:
            DataFileError: See `batches`.
        """
        _check_columns(table.schema)  # also if there are no rows
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
        value = self._parse_json(_CASE, row[_CASE] or "") if _CASE in row else self._fields(row)
        return read_case(value, "")

    def _fields(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a case that are set in a row with a column for each.

        Raises:
            InvalidDataError: Some are not JSON; `problems` lists all of them.
        """
        fields: dict[str, Any] = {}
        problems: list[Problem] = []
        for name, text in row.items():
            if text is None:
                continue
            try:
                fields[name] = text if name in _TEXTS else self._parse_json(name, text)
            except InvalidDataError as error:
                problems += error.problems
        if problems:
            raise InvalidDataError("the row is not a case", problems)
        return fields

    def _parse_json(self, column: str, text: str) -> Any:  # noqa: ANN401 - a JSON value
        """Return the value of the JSON text in a column; problems have the path of the field."""
        try:
            return parse_json(text, allow_nan=self.allow_nan)
        except InvalidDataError as error:
            prefix = "$" if column == _CASE else json_path((column,))
            problems = [Problem(prefix + one.path.removeprefix("$"), one.message) for one in problems_of(error)]
            raise InvalidDataError(str(error), problems) from None


def _result(row: Mapping[str, Any]) -> MetricResult:
    names = ("metric", "threshold", "score", "passed", "reason")
    return MetricResult(status=ResultStatus(row["status"]), **{name: row[name] for name in names})


def _storable(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value for Arrow; lone surrogates in a text, which UTF-8 cannot encode, are escaped."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _check_columns(schema: Any) -> None:  # noqa: ANN401 - pyarrow has no types
    """Check that the columns of a table are fields of a case, as texts.

    Raises:
        DataFileError: Some are not; `problems` lists all of them.
    """
    types: dict[str, Any] = {field.name: field.type for field in schema}
    repeated = [name for name, count in Counter(schema.names).items() if count > 1]
    problems = [Problem(json_path((name,)), "several columns have this name; keep one of them") for name in repeated]
    if _CASE in types:
        types = {_CASE: types[_CASE]}
    for name, kind in types.items():
        if not (name == _CASE or name in _FIELDS or looks_like_record({name: None})):
            remedy = "leave it out, or move it into the column metadata, as JSON text"
            problems.append(Problem(json_path((name,)), f"no field of a case is called like this column; {remedy}"))
        elif str(kind).removeprefix("dictionary<values=").partition(",")[0] not in _TEXT_TYPES:
            is_nested = _arrow().types.is_nested(kind)
            reason = ", because absent keys would become null in a nested column" if is_nested else ""
            message = f"the column must hold texts, got {kind}; write JSON text{reason}"
            problems.append(Problem(json_path((name,)), message))
    if problems:
        raise file_error("the table", problems)


def _arrow() -> Any:  # noqa: ANN401 - as above
    return import_extra("pyarrow", "pyarrow", "scoring tables of Arrow")
