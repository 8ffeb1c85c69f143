"""Cases in tables of Arrow: the results and totals of the same cases in files, wherever the rows are."""

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
from scale_files import body, case, metrics
from toolgrade import ConfigurationError, DataFileError, InvalidDataError, ToolCorrectnessMetric, ToolUseMetric
from toolgrade.scale import ArrowScorer, Totals, score_files

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed here")

GOOD = '{"id": "a", "tools_called": [], "expected_tools": []}'


def cases(number: int, seed: int = 3) -> list[dict[str, Any]]:
    """Cases with names, since a row has no number to be called by."""
    rng = random.Random(seed)
    return [{"name": f"n{index}", **case(index, rng)} for index in range(number)]


def rows_of(items: list[dict[str, Any]]) -> Any:
    """A table with a case a row."""
    return pa.table({"day": list(range(len(items))), "case": [json.dumps(one) for one in items]})


@pytest.mark.parametrize("cluster", [None, "metadata.task"])
def test_results_are_those_of_files(tmp_path: Path, cluster: str | None) -> None:
    """Rows equal the results of a file, and the totals equal those of `score_files` exactly."""
    items = cases(600)
    (tmp_path / "a").write_text("".join(json.dumps(one) + "\n" for one in items))
    totals = score_files([tmp_path / "a"], metrics(), results=tmp_path / "r", processes=1, cluster=cluster)
    scorer = pickle.loads(pickle.dumps(ArrowScorer(metrics(), cluster=cluster)))  # noqa: S301 - our own

    results = scorer.table(rows_of(items))

    assert results.schema == scorer.schema
    rows = iter(results.to_pylist())
    for line in body(tmp_path / "r"):
        for result in line["results"]:
            row = next(rows)
            assert (row["id"], row["name"]) == (line.get("id"), line.get("name"))
            assert json.loads(row["result"]) == result
            assert {name: row[name] for name in ("metric", "threshold", "status", "score", "passed")} == {
                name: result.get(name) for name in ("metric", "threshold", "status", "score", "passed")
            }
            assert row["reason"] == (result.get("error") or result.get("reason"))
    assert next(rows, None) is None
    assert scorer.totals([results]) == totals
    assert "sk-0123456789" not in json.dumps(results.to_pylist())


@settings(max_examples=30)
@given(st.lists(st.integers(0, 60), max_size=4), st.randoms(use_true_random=False))
def test_totals_do_not_depend_on_how_results_are_divided(cuts: list[int], rng: random.Random) -> None:
    """Parts may end within a case, and come in any order; what they add up to is the same."""
    scorer = ArrowScorer(metrics())
    results = scorer.table(rows_of(cases(30)))
    bounds = [0, *sorted(cuts), results.num_rows]
    parts = [results.slice(start, end - start) for start, end in pairwise(bounds)]
    rng.shuffle(parts)

    together = sum((scorer.totals([part]) for part in parts), Totals())

    assert together.metrics == scorer.totals([results]).metrics == scorer.totals(parts).metrics
    assert scorer.totals(parts).cases == 30


def test_columns_may_be_fields() -> None:
    """A text field is a text even if it looks like JSON, other fields are JSON text, and null is not set."""
    scorer = ArrowScorer([ToolCorrectnessMetric(evaluation_params=["input_parameters"])])
    calls = '[{"name": "a", "input_parameters": {"to": null}}]'
    fields = {"id": ["x"], "input": ['{"a": 1}'], "actualOutput": [None], "toolsCalled": [calls], "tags": ['["t"]']}

    (row,) = scorer.table(pa.table({**fields, "expected_tools": [calls]})).to_pylist()
    (record,) = scorer.table(
        pa.table({"query": ["[1]"], "tools_called": [calls], "expected_tools": [calls]})
    ).to_pylist()

    assert (row["id"], row["name"], row["score"], row["passed"]) == ("x", None, 1.0, True)
    assert record["score"] == 1.0


@pytest.mark.parametrize("rows", [1, 0], ids=["a row", "no row"])
def test_wrong_columns_are_refused(rows: int) -> None:
    """All of them are reported before any row: unknown ones, other types, and nested ones with the reason."""
    row = {"id": 7, "tools_called": [{"name": "a"}], "tags": ["t"], "metadata": {"to": None}, "toolz": "x", "name": "n"}
    table = pa.Table.from_pylist([row]).slice(0, rows)
    table = table.append_column("name", pa.array(["m"] * rows, pa.string()))
    scorer = ArrowScorer([ToolCorrectnessMetric()])

    with pytest.raises(DataFileError, match="the table: ") as caught:
        scorer.table(table)
    with pytest.raises(DataFileError):
        list(scorer.batches(table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]))

    messages = {problem.path: problem.message for problem in caught.value.problems}
    assert set(messages) == {"$.id", "$.tools_called", "$.tags", "$.metadata", "$.toolz", "$.name"}
    assert messages["$.name"] == "several columns have this name; keep one of them"
    assert messages["$.id"] == "the column must hold texts, got int64; write JSON text"
    assert messages["$.metadata"] == (
        "the column must hold texts, got struct<to: null>; write JSON text, because absent keys would become null in a "
        "nested column"
    )
    assert messages["$.toolz"].startswith("no field of a case is called like this column")


BAD = ["no", None, "[]", '{"idd": 1}', '{"tools_called": [7]}', '{"turns": []}', '{"id": "b", "metadata": {"a": NaN}}']


def test_invalid_rows_are_listed_or_raised() -> None:
    """Each gives a result row with the problem, is counted as unreadable, and raises on request."""
    table = pa.table({"case": [GOOD, *BAD, GOOD]})
    scorer = ArrowScorer(metrics())

    rows = scorer.table(table).to_pylist()

    assert [row["status"] for row in rows] == ["scored"] * 2 + ["unreadable"] * len(BAD) + ["scored"] * 2
    for row in rows[2:-2]:
        assert row["reason"].startswith("$")
        assert {row[name] for name in ("metric", "score", "passed", "threshold", "result")} == {None}
    with pytest.raises(InvalidDataError, match="7 rows could not be read"):
        scorer.totals([scorer.table(table)])
    strict = ArrowScorer(metrics(), unreadable="raise")
    with pytest.raises(DataFileError, match="a row is not a case:\n"):
        strict.table(table)
    fields = pa.table({"id": ["late"], "tools_called": ["{"]})
    with pytest.raises(DataFileError, match=r"the row with the id 'late' is not a case:\n\$\.tools_called"):
        strict.table(fields)
    assert scorer.table(fields).to_pylist()[0]["id"] == "late"
    assert ArrowScorer(metrics(), allow_nan=True).table(pa.table({"case": [BAD[-1]]})).to_pylist()[0]["id"] == "b"


def test_a_case_without_id_and_name_has_neither() -> None:
    """It has no line number as a name."""
    (row,) = (
        ArrowScorer([ToolCorrectnessMetric()]).table(pa.table({"case": [GOOD.replace('"id": "a", ', "")]})).to_pylist()
    )

    assert (row["id"], row["name"], row["status"]) == (None, None, "scored")


def test_results_hold_no_secrets() -> None:
    """Neither in reasons and findings nor in problems of a row."""
    secret = "sk-0123456789abcdefghij0123"
    calls = [json.dumps([{"name": "pay", "args": {"key": text}}]) for text in (secret, "other")]
    table = pa.table({"tools_called": [*calls], "expected_tools": [calls[1], f'[{{"{secret}": 1}}]']})
    scorer = ArrowScorer([ToolCorrectnessMetric(evaluation_params=["input_parameters"])])

    rows = scorer.table(table).to_pylist()

    assert [row["status"] for row in rows] == ["scored", "unreadable"]
    assert rows[0]["score"] == 0
    assert secret not in json.dumps(rows)


def test_half_letters_do_not_end_a_job() -> None:
    """JSON may hold what UTF-8 does not."""
    table = pa.table({"case": ['{"id": "\\ud800", "tools_called": [], "expected_tools": []}']})

    assert ArrowScorer([ToolCorrectnessMetric()]).table(table).to_pylist()[0]["id"] == "\\ud800"


def test_totals_are_of_the_scorer_s_metrics() -> None:
    """Results of others are refused; where clusters were asked for and none is there, intervals would be wrong."""
    results = ArrowScorer(metrics()).table(rows_of(cases(3)))

    with pytest.raises(InvalidDataError, match="there are results of"):
        ArrowScorer([ToolCorrectnessMetric()]).totals([results])
    with pytest.raises(InvalidDataError, match=r"threshold 0\.5"):
        ArrowScorer([ToolCorrectnessMetric(threshold=0.7)]).totals(
            [ArrowScorer([ToolCorrectnessMetric()]).table(rows_of(cases(3)))]
        )
    with pytest.raises(ConfigurationError, match=r"no row has 'metadata\.nothing', the cluster"):
        ArrowScorer(metrics(), cluster="metadata.nothing").totals([results])
    assert ArrowScorer(metrics(), cluster="metadata.nothing").totals([]).cases == 0


def test_invalid_setups_are_refused_early() -> None:
    """Before anything is sent to other machines."""
    with pytest.raises(ConfigurationError, match="'keep' or 'raise'"):
        ArrowScorer(metrics(), unreadable="drop")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="asks a judge"):
        ArrowScorer([ToolUseMetric(judge=RuleJudge())])
    with pytest.raises(ConfigurationError):
        ArrowScorer([])
    with pytest.raises(ConfigurationError):
        ArrowScorer(metrics(), cluster="")
