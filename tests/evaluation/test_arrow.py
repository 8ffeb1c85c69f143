"""Cases in Arrow record batches: the results and the report of `evaluate`, however the rows are divided."""

from __future__ import annotations

import json
import pickle
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging import RuleJudge
from scale_files import case, metrics
from toolgrade import (
    ConfigurationError,
    DataFileError,
    InvalidDataError,
    Report,
    ToolCorrectnessMetric,
    ToolUseMetric,
    evaluate,
)
from toolgrade.evaluation.arrow import Totals, result_schema, score_batch, totals_of

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed here")

GOOD = '{"id": "a", "tools_called": [], "expected_tools": []}'
BAD = ["no", None, "[]", '{"idd": 1}', '{"tools_called": [7]}', '{"turns": []}', '{"id": "b", "metadata": {"a": NaN}}']
MESSAGE = {"role": "user", "content": "And Rome?"}
SECRET = "sk-0123456789abcdefghij0123"


def texts(number: int, seed: int = 3) -> list[str]:
    """Cases as JSON texts, with names, since a row has no number to be called by."""
    rng = random.Random(seed)
    return [json.dumps({"name": f"n{index}", **case(index, rng)}) for index in range(number)]


def evaluated(folder: Path, lines: list[str], cluster: str | None = None) -> Report:
    """Evaluate cases in a file, which is how `evaluate` takes a cluster."""
    (folder / "cases.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return evaluate(folder / "cases.jsonl", metrics(), cluster=cluster, processes=1, show_progress=False)


def rows_of(column: list[str | None], **columns: Any) -> list[dict[str, Any]]:
    """Return the rows of results of a column `case`, by one metric."""
    results = score_batch(pa.table({"case": column, **columns}), [ToolCorrectnessMetric()])
    return list(results.to_pylist())


@pytest.mark.parametrize("cluster", [None, "metadata.task"])
@pytest.mark.filterwarnings("ignore::toolgrade.errors.BadLineWarning")
def test_results_and_report_equal_those_of_evaluate(tmp_path: Path, cluster: str | None) -> None:
    """Row by row, also after a row that cannot be read; the report has the same numbers, and does not pass."""
    # No id occurs twice: in a file, its cases would be trials of one golden, while rows know nothing of each other.
    lines = [*texts(300), '{"tools_called": [7]}', *[text.replace('"case ', '"other ') for text in texts(20, seed=4)]]
    report = evaluated(tmp_path, lines, cluster)

    results = score_batch(pa.record_batch({"case": lines}), pickle.loads(pickle.dumps(metrics())), cluster=cluster)  # noqa: S301 - our own

    assert results.schema == result_schema()
    for row, (entry, result) in zip(results.to_pylist(), report.results(), strict=True):
        plain = result.to_dict()
        if "expected an object" not in row["reason"]:
            assert (row["id"], row["name"]) == (entry.case.id, entry.case.name)
        assert json.loads(row["result"]) == plain
        assert row["reason"] == (plain.get("error") or plain["reason"])
        assert [row[name] for name in ("metric", "threshold", "status", "score", "passed")] == [
            plain.get(name) for name in ("metric", "threshold", "status", "score", "passed")
        ]
    assert SECRET not in json.dumps(results.to_pylist())
    totals = totals_of([results], metrics()).report()
    assert totals.case_count == len(report.cases) == 321
    assert totals.passed is report.passed is False
    for one, other in zip(totals.summaries, report.summaries, strict=True):
        assert str(one) == str(other)
        assert one.mean == other.mean
        assert one.mean_interval == pytest.approx(other.mean_interval)
        assert one.rate_interval == pytest.approx(other.rate_interval)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 60), max_size=4), st.randoms(use_true_random=False))
def test_totals_do_not_depend_on_how_rows_are_divided(cuts: list[int], rng: random.Random) -> None:
    """Batches of cases and of results may end anywhere, and come in any order."""
    cases = pa.table({"case": [*texts(29), "not a case"]})
    whole = score_batch(cases, metrics(), cluster="metadata.task")
    bounds = [0, *sorted(cuts), whole.num_rows]
    slices = [(start, end - start) for start, end in pairwise(bounds)]
    rng.shuffle(slices)
    results = [whole.slice(*one) for one in slices]
    scored = [score_batch(cases.slice(*one), metrics(), cluster="metadata.task") for one in slices]

    expected = totals_of([whole], metrics())

    assert expected.report().case_count == 30
    assert totals_of(results, metrics()) == totals_of(scored, metrics()) == expected
    assert sum((totals_of([part], metrics()) for part in results), Totals()) == expected


@pytest.mark.parametrize("form", [pa.table, pa.record_batch])
def test_a_batch_gives_a_batch_and_a_table_a_table(form: Any) -> None:
    """Spark takes only record batches, Ray Data only tables; both may be empty."""
    for column in ([GOOD, "no"], []):
        batch = form({"case": pa.array(column, pa.string())})
        results = score_batch(batch, metrics())

        assert type(results) is type(batch)
        assert results.schema == result_schema()
        assert results.num_rows == 2 * len(column)


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.uint32(), pa.large_string()),
    ],
    ids=str,
)
def test_every_text_type_is_read(kind: Any) -> None:
    """Polars and DuckDB write others than pyarrow."""
    column = pa.array([GOOD, GOOD, None], pa.string()).cast(kind)

    assert [row["status"] for row in rows_of(column)] == ["scored", "scored", "errored"]


def test_other_columns_are_refused() -> None:
    """With the columns that there are, and the reason if one is nested, also without a row."""
    for columns, message in (
        ({"text": [GOOD], "id": ["a"]}, "one column 'case' or 'messages' with JSON texts, got 'text', 'id'"),
        ({"case": [GOOD], "messages": ["[]"]}, "got 'case', 'messages'"),
        ({"case": [7]}, "'case' must hold texts, got int64; write JSON text$"),
        ({"case": [{"to": None}]}, "write JSON text, because absent keys would become null in a nested column"),
        ({"messages": [[MESSAGE]]}, "'messages' must hold texts, got list.*absent keys would become null"),
    ):
        table = pa.table(columns)
        for batch in (table, table.slice(0, 0)):
            with pytest.raises(DataFileError, match=message):
                score_batch(batch, metrics())


def test_unreadable_rows_are_errored_in_every_metric() -> None:
    """Each with the problem and its path, in its place among the others."""
    results = score_batch(pa.table({"case": [GOOD, *BAD, GOOD]}), metrics())

    rows = results.to_pylist()

    assert [row["status"] for row in rows] == ["scored"] * 2 + ["errored"] * 2 * len(BAD) + ["scored"] * 2
    for row in rows[2:-2]:
        assert row["reason"].startswith("InvalidDataError: $")
        assert (row["score"], row["passed"]) == (None, None)
    report = totals_of([results], metrics()).report()
    assert [(one.passed, one.errored) for one in report.summaries] == [(2, len(BAD))] * 2
    assert not report.passed
    (row,) = score_batch(pa.table({"case": BAD[-1:]}), [ToolCorrectnessMetric()], allow_nan=True).to_pylist()
    assert (row["id"], row["status"], row["outcome"]) == ("b", "skipped", "not_measured")
    assert "needs expected_tools" in row["reason"]


def test_a_row_is_what_a_line_of_a_file_may_be() -> None:
    """A conversation is one case; a single message is refused, as it says nothing of the calls."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [MESSAGE, {"role": "assistant", "tool_calls": [call]}]
    turns = [MESSAGE, {"role": "assistant", "content": "Rain."}] * 2
    column = [{"messages": messages, "expected_tools": [{"name": "look"}]}, messages, MESSAGE, {"turns": turns}]
    lines = [json.dumps(value) for value in column]

    rows = rows_of(lines)

    assert (rows[0]["score"], rows[0]["id"], rows[0]["name"]) == (1, None, None)
    assert "needs expected_tools" in rows[1]["reason"]
    assert "is a single message" in rows[2]["reason"]
    assert [row["id"] for row in rows[3:]] == [None]
    assert [row["id"] for row in rows_of(lines[-1:], id=[7])] == ["7"]
    logs = score_batch(pa.table({"messages": lines[:2]}), [ToolCorrectnessMetric()]).to_pylist()
    assert [row["result"] for row in logs] == [row["result"] for row in rows[:2]]


def test_ids_of_a_column_are_those_of_cases_without_one() -> None:
    """Of rows that cannot be read, too; a case without both has none."""
    bare = GOOD.replace('"id": "a", ', "")

    assert [row["id"] for row in rows_of([GOOD, bare, "no", bare], id=[1, 2, 3, None])] == ["a", "2", "3", None]
    assert [row["id"] for row in rows_of([bare])] == [None]


def test_results_hold_no_secrets() -> None:
    """Neither in reasons and findings nor in problems of a row."""
    calls = [[{"name": "pay", "input_parameters": {"key": text}}] for text in (SECRET, "other")]
    column = [{"tools_called": calls[0], "expected_tools": calls[1]}, {"tools_called": [{SECRET: 1}]}]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])

    rows = score_batch(pa.table({"case": list(map(json.dumps, column))}), [metric]).to_pylist()

    assert [(row["status"], row["score"]) for row in rows] == [("scored", 0), ("errored", None)]
    assert SECRET not in json.dumps(rows)


def test_lone_surrogates_do_not_end_a_job() -> None:
    """JSON may hold what UTF-8 does not."""
    (row,) = rows_of(['{"id": "\\ud800", "tools_called": [], "expected_tools": []}'])

    assert row["id"] == "\\ud800"


def test_totals_are_of_the_given_metrics() -> None:
    """Results of others are refused, and so are rows that no call of `score_batch` made."""
    results = score_batch(pa.table({"case": texts(3)}), metrics())
    metric = ToolCorrectnessMetric()
    changed = results.set_column(results.schema.get_field_index("status"), "status", pa.array(["failed"] * 6))

    with pytest.raises(InvalidDataError, match=r"metrics 'tool_correctness.*' \(threshold 0\.5\), got 'budget"):
        totals_of([results], metrics()[:1])
    with pytest.raises(InvalidDataError, match=r"\(threshold 0\.5\), got .* \(threshold 0\.7\)"):
        totals_of([score_batch(pa.table({"case": [GOOD]}), [ToolCorrectnessMetric(threshold=0.7)])], [metric])
    with pytest.raises(InvalidDataError, match="got the status 'failed'"):
        totals_of([changed], metrics())


def test_wrong_arguments_are_refused_at_once() -> None:
    """Not in every row."""
    batch = pa.table({"case": [GOOD]})

    with pytest.raises(ConfigurationError, match="asks a judge"):
        score_batch(batch, [ToolUseMetric(judge=RuleJudge())])
    with pytest.raises(ConfigurationError, match="at least one metric"):
        score_batch(batch, [])
    with pytest.raises(ConfigurationError, match="cluster must be a path"):
        score_batch(batch, metrics(), cluster="")
