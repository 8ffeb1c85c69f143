"""Cases in Parquet files: one a row, the same as in JSON Lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scale_files import body, metrics, without_start, write_lines
from toolgrade import DataFileError
from toolgrade._internal.file_kinds import is_parquet
from toolgrade.errors import MissingPackageError
from toolgrade.scale import score_files

pa = pytest.importorskip("pyarrow", reason="pyarrow, of the extra `parquet`, is not installed here")
pq = pytest.importorskip("pyarrow.parquet")

CALL = {"name": "look", "args": {"to": None}}


def write(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    """A Parquet file of these rows."""
    pq.write_table(pa.Table.from_pylist(rows), path, **options)
    return path


@pytest.fixture
def lines(tmp_path: Path) -> list[dict[str, Any]]:
    """Return twenty cases as JSON; the file `plain` holds them, too."""
    path = write_lines(tmp_path / "plain", 20)
    rows = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
    path.write_text("".join(json.dumps(line) + "\n" for line in rows))
    return rows


def columns(line: dict[str, Any]) -> dict[str, Any]:
    """A case as a row, a field a column."""
    names = ("id", "name", "tools_called", "expected_tools", "metadata")
    texts = {name: line.get(name) for name in ("id", "name")}
    return {**texts, **{name: json.dumps(line[name]) if name in line else None for name in names[2:]}}


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("form", ["whole", "columns"])
def test_rows_are_the_cases_of_json_lines(
    tmp_path: Path, lines: list[dict[str, Any]], form: str, processes: int
) -> None:
    """Whether a column has whole cases or each field has one, the results are those of JSON Lines, byte by byte."""
    rows = [{"case": json.dumps(line), "day": 7} if form == "whole" else columns(line) for line in lines]
    path = write(tmp_path / "p", rows, row_group_size=6)

    summary = score_files([path], metrics(), results=tmp_path / "r", processes=processes, part_bytes=100)
    expected = score_files([tmp_path / "plain"], metrics(), results=tmp_path / "s", processes=1)

    assert summary == expected
    assert without_start(tmp_path / "r") == without_start(tmp_path / "s")


def test_texts_are_texts_and_null_is_not_set(tmp_path: Path) -> None:
    """A text that looks like JSON stays text in a text field; a null argument stays null."""
    row = {
        "input": '{"a": 1}',
        "actualOutput": None,
        "tags": ["x"],
        "toolsCalled": json.dumps([CALL]),
        "expected_tools": json.dumps([CALL]),
    }
    path = write(tmp_path / "p", [row])

    totals = score_files([path], metrics(), results=tmp_path / "r", processes=1)

    content = body(tmp_path / "r")[0]["content"]
    assert content["input"] == '{"a": 1}'
    assert content["tags"] == ["x"]
    assert "actual_output" not in content
    assert totals.metrics[0].mean == 1
    assert body(tmp_path / "r")[0]["name"] == "line 1"


def test_records_have_columns_too(tmp_path: Path) -> None:
    """A column that only a record has makes the rows records."""
    path = write(tmp_path / "p", [{"query": "[1]", "tools_called": "[]", "expected_tools": "[]"}])

    score_files([path], metrics(), results=tmp_path / "r", processes=1)

    assert body(tmp_path / "r")[0]["content"]["input"] == "[1]"


def test_wrong_columns_are_reported_at_once(tmp_path: Path) -> None:
    """Nested columns, which cannot tell null from missing, and unknown ones are refused."""
    path = write(tmp_path / "p", [{"id": 7, "tools_called": [CALL], "toolz": "x", "metadata": {"a": 1}}])

    with pytest.raises(DataFileError) as caught:
        score_files([path], metrics(), processes=1)

    messages = {problem.path: problem.message for problem in caught.value.problems}
    assert set(messages) == {"$.id", "$.tools_called", "$.toolz", "$.metadata"}
    assert messages["$.toolz"].startswith("no field of a case is called like this column")
    assert "write JSON text, because nested columns cannot" in messages["$.tools_called"]


def test_wrong_rows_are_reported_with_their_numbers(tmp_path: Path) -> None:
    """Problems have the row number and the path in it, across row groups."""
    good = {"id": "a", "tools_called": "[]", "expected_tools": "[]"}
    rows = [good, {**good, "tools_called": "[7]"}, good, {**good, "expected_tools": "no", "tools_called": "{"}, {}]
    path = write(tmp_path / "p", rows, row_group_size=2)
    whole = write(tmp_path / "w", [{"case": '{"id": "a"}'}, {"case": None}, {"case": "[]"}])

    with pytest.raises(DataFileError) as caught:
        score_files([path, whole], metrics(), processes=1)

    places = [(problem.line, problem.path) for problem in caught.value.problems]
    assert places == [(2, "$.tools_called[0]"), (4, "$.tools_called"), (4, "$.expected_tools"), (2, "$"), (3, "$")]


def test_empty_and_broken_files(tmp_path: Path) -> None:
    """A file without rows is empty; one with only a Parquet header is broken."""
    pq.write_table(pa.table({"case": pa.array([], pa.string())}), tmp_path / "empty")
    (tmp_path / "broken").write_bytes(b"PAR1 and no more")

    with pytest.raises(DataFileError, match="the file is empty"):
        score_files([tmp_path / "empty"], metrics(), processes=1)
    with pytest.raises(DataFileError, match="broken Parquet data"):
        score_files([tmp_path / "broken"], metrics(), processes=1)
    rows = [{"case": json.dumps({"query": "q" * 500, "id": str(number)})} for number in range(50)]
    data = bytearray(write(tmp_path / "damaged", rows).read_bytes())
    data[10:200] = bytes(190)
    (tmp_path / "damaged").write_bytes(data)
    with pytest.raises(DataFileError, match=r"damaged: .*broken Parquet data: .*; write the file again"):
        score_files([tmp_path / "damaged"], metrics(), processes=1)
    assert is_parquet(str(tmp_path / "broken"))
    assert not is_parquet(str(tmp_path / "nowhere"))


def test_missing_parquet_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "p").write_bytes(b"PAR1")

    with pytest.raises(MissingPackageError, match=r"toolgrade\[parquet\]"):
        score_files([tmp_path / "p"], metrics(), processes=1)
