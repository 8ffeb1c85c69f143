"""Drawing a sample of files: the same one however they are read, with nothing of a case lost, and nothing made up."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scale_files import write_lines
from toolgrade import (
    ConfigurationError,
    ConversationalTestCase,
    DataFileError,
    LLMTestCase,
    MLLMImage,
    MLLMTestCase,
    ToolCall,
    Turn,
    read_cases,
)
from toolgrade.cases import AnyCase
from toolgrade.dataset import Document, write_cases
from toolgrade.errors import TornLineWarning
from toolgrade.expect import Expect, Plan
from toolgrade.scale import Sample, sample_files
from toolgrade.scale import sample as sample_module
from toolgrade.scale.partition import Part
from toolgrade.scale.sample import names_of


def origin(case: AnyCase) -> dict[str, Any]:
    """Where a drawn case came from."""
    entry: dict[str, Any] = case.metadata["toolgrade_sample"]
    return entry


def places(sample: Sample) -> list[tuple[str, int]]:
    """The file, without its endings, and line of each drawn case."""
    return [(origin(case)["file"].split(".")[0], origin(case)["line"]) for case in sample.cases]


@pytest.fixture
def days(tmp_path: Path) -> list[Path]:
    """Two files of forty and sixty cases."""
    return [write_lines(tmp_path / "monday.jsonl", 40, 1), write_lines(tmp_path / "tuesday.jsonl", 60, 2)]


def test_each_case_has_its_origin(days: list[Path], tmp_path: Path) -> None:
    """Nothing else changes, except that an unnamed case is named after its place."""
    lines = {path.name: path.read_text(encoding="utf-8").split("\n") for path in days}

    sample = sample_files(days, 30, seed=7, out=tmp_path / "sample.jsonl")

    assert (len(sample.cases), sample.population, sample.strata) == (30, 100, ())
    assert len(set(places(sample))) == 30
    for case in sample.cases:
        entry = origin(case)
        assert entry.keys() == {"file", "line", "seed", "population", "drawn"}
        assert (entry["seed"], entry["population"], entry["drawn"]) == (7, 100, 30)
        before = LLMTestCase.model_validate(json.loads(lines[entry["file"]][entry["line"] - 1])).to_dict()
        after = case.to_dict()
        metadata = {name: value for name, value in after.pop("metadata").items() if name != "toolgrade_sample"}
        if "id" not in before and "name" not in before:
            assert after.pop("name") == f"{entry['file']} line {entry['line']}"
        assert metadata == before.pop("metadata", {})
        assert after == before
    assert read_cases(tmp_path / "sample.jsonl") == list(sample.cases)


def test_order_of_the_files_does_not_matter(days: list[Path]) -> None:
    """The same cases, in the same order."""
    assert sample_files(days, 20) == sample_files(days[::-1], 20)


def test_how_they_are_packed_plays_no_part(days: list[Path], tmp_path: Path) -> None:
    """gzip, one array, or another folder: the same cases, by the names that the files have below their folder."""
    expected = sample_files(days, 20)
    packed = tmp_path / "deep" / "er"
    packed.mkdir(parents=True)
    (packed / "monday.jsonl.gz").write_bytes(gzip.compress(days[0].read_bytes()))
    lines = [json.loads(line) for line in days[1].read_text(encoding="utf-8").split("\n") if line.strip()]
    text = days[1].read_text(encoding="utf-8")
    (packed / "tuesday.json").write_text(json.dumps(lines), encoding="utf-8")
    (packed / "again").mkdir()
    (packed / "again" / "tuesday.jsonl").write_text(text, encoding="utf-8")

    sample = sample_files([packed / "monday.jsonl.gz", tmp_path / "tuesday.jsonl"], 20)
    array = sample_files([packed / "tuesday.json"], 60)

    assert sorted(line for _, line in places(array)) == list(range(1, 61))
    assert {origin(case)["file"] for case in sample.cases} == {"deep/er/monday.jsonl.gz", "tuesday.jsonl"}
    moved = sample_files([packed / "again" / "tuesday.jsonl"], 20)
    assert places(moved) == places(sample_files([days[1]], 20))
    (packed / "tuesday.jsonl").write_text(text, encoding="utf-8")
    assert places(sample_files([packed / "monday.jsonl.gz", packed / "tuesday.jsonl"], 20)) == places(expected)


def test_zstd_and_parquet_are_the_same(tmp_path: Path) -> None:
    """Their extras read them; a row counts as a line."""
    zstandard, arrow = pytest.importorskip("zstandard"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = [json.dumps({"id": f"{number}", "tools_called": []}) for number in range(50)]
    plain = tmp_path / "cases.jsonl"
    plain.write_text("\n".join(lines) + "\n")
    (tmp_path / "cases.jsonl.zst").write_bytes(zstandard.compress(plain.read_bytes()))
    parquet.write_table(arrow.table({"case": lines}), tmp_path / "cases.parquet", row_group_size=7)

    expected = places(sample_files([plain], 12))

    assert places(sample_files([tmp_path / "cases.jsonl.zst"], 12)) == expected
    assert places(sample_files([tmp_path / "cases.parquet"], 12)) == expected


def test_how_many_processes_read_plays_no_part(days: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a file is read in many parts: the lines keep their numbers."""
    expected = sample_files(days, 20, processes=1)
    monkeypatch.setattr(sample_module, "_WORTH_READING", 1000)
    monkeypatch.setattr(sample_module, "PART_BYTES", 2000)
    reports: list[tuple[int, int]] = []

    sample = sample_files(days, 20, processes=2, progress=lambda done, of: reports.append((done, of)))

    assert sample == expected
    assert reports[-1][0] == reports[-1][1] == sum(path.stat().st_size for path in days)
    assert len(reports) > 4


def test_a_larger_sample_contains_the_smaller(days: list[Path]) -> None:
    """It begins with the smaller one and can be extended; another seed draws another sample."""
    small, large, other = (places(sample_files(days, size, seed=seed)) for size, seed in ((10, 0), (25, 0), (10, 1)))

    assert large[:10] == small
    assert set(other) != set(small)


def test_small_populations_are_drawn_completely(days: list[Path]) -> None:
    """Each case once."""
    sample = sample_files(days, 1000)

    assert len(sample.cases) == len(set(places(sample))) == sample.population == 100
    assert {origin(case)["drawn"] for case in sample.cases} == {100}
    assert str(sample) == "100 of 100 cases"


def test_equal_cases_have_chances_of_their_own(tmp_path: Path) -> None:
    """In one file, and in files of one name in different folders."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cases.jsonl").write_text('{"id": "same"}\n' * 50)

    sample = sample_files([tmp_path / "a" / "cases.jsonl", tmp_path / "b" / "cases.jsonl"], 50)

    drawn = {
        name: {line for file, line in ((origin(c)["file"], origin(c)["line"]) for c in sample.cases) if file[0] == name}
        for name in "ab"
    }
    assert len(sample.cases) == 50
    assert 10 < len(drawn["a"]) < 40
    assert drawn["a"] != drawn["b"]


def test_each_stratum_gets_the_same_number(tmp_path: Path) -> None:
    """Or all of its cases; each case has the size of its stratum."""
    tasks = ["common"] * 900 + ["rare"] * 60 + [None] * 3 + [4] * 37
    random.Random(0).shuffle(tasks)
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps({"metadata": {"task": task} if task else {}}) + "\n" for task in tasks))

    sample = sample_files([file], 100, by="metadata.task")

    assert [(one.value, one.population, one.drawn) for one in sample.strata] == [
        ("common", 900, 33),
        ("rare", 60, 32),
        (4, 37, 32),
        (None, 3, 3),
    ]
    assert str(sample).split("\n")[:2] == ["100 of 1,000 cases", '  "common": 33 of 900']
    assert len(sample.cases) == 100
    assert {case.metadata.get("task") for case in sample.cases[:10]} > {"common", "rare"}  # not one after the other
    for one in sample.strata:
        members = [case for case in sample.cases if case.metadata.get("task") == one.value]
        stratum = {"by": "metadata.task", "value": one.value, "population": one.population, "drawn": one.drawn}
        assert len(members) == one.drawn
        assert all(origin(case)["stratum"] == stratum for case in members)
        assert {(origin(case)["population"], origin(case)["drawn"]) for case in members} == {(1000, 100)}


def test_cases_of_every_kind_keep_all_they_have(tmp_path: Path) -> None:
    """Conversations, images, plans and records; a record becomes the case that it is."""
    call = ToolCall(name="a", input_parameters={"x": None})
    cases: list[Any] = [
        ConversationalTestCase(turns=[Turn(role="user", content="?")], metadata={"k": [1]}),
        MLLMTestCase(id="i", input=["see", MLLMImage(data=b"\x89PNG")], tools_called=[call]),
        LLMTestCase(id="p", expected_tools=Plan([Expect("a", times=(1, 3))]), tools_called=[]),
    ]
    write_cases(tmp_path / "cases.jsonl", cases)
    with (tmp_path / "cases.jsonl").open("a") as file:
        file.write('{"query": "q", "toolsCalled": [{"name": "a"}], "more": 1}\n')

    by_line = {origin(case)["line"]: case for case in sample_files([tmp_path / "cases.jsonl"], 9).cases}

    for line, case in enumerate(cases, start=1):
        drawn = by_line[line].to_dict()
        assert drawn["metadata"].pop("toolgrade_sample")["line"] == line
        named = {} if case.to_dict().get("id") else {"name": f"cases.jsonl line {line}"}
        assert type(by_line[line]) is type(case)
        assert drawn == {"metadata": {}, **named, **case.to_dict()}
    assert by_line[4].input == "q"  # type: ignore[union-attr]
    assert by_line[4].metadata["more"] == 1


def test_all_unreadable_input_is_reported(tmp_path: Path) -> None:
    """For all files at once, and nothing is written; a case that was sampled before is refused."""
    write_lines(tmp_path / "good.jsonl", 5)
    sample_files([tmp_path / "good.jsonl"], 2, out=tmp_path / "drawn.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"id": 1}\nno\n{"tools": []}\n{"turns": 3}\n')
    (tmp_path / "empty.jsonl").write_text("")
    files = [tmp_path / f"{name}.jsonl" for name in ("good", "bad", "drawn", "empty")]

    with pytest.raises(DataFileError) as caught:
        sample_files(files, 3, out=tmp_path / "out.jsonl")

    message = str(caught.value).replace(f"{tmp_path}/", "")
    assert "bad.jsonl:2: $: not JSON" in message
    assert "bad.jsonl:3: $.tools" in message
    assert "bad.jsonl:4: $.turns" in message
    assert "drawn.jsonl:1: $.metadata.toolgrade_sample: is already a case of a sample" in message
    assert "drawn.jsonl:2: " not in message  # one message covers all cases of a file
    assert "empty.jsonl:1: $: the file is empty" in message
    assert not (tmp_path / "out.jsonl").exists()


def test_torn_last_line_is_not_a_case(tmp_path: Path) -> None:
    """It is reported and not counted."""
    (tmp_path / "cases.jsonl").write_text('{"id": 1}\n{"id": 2}\n{"id": ')

    with pytest.warns(TornLineWarning, match=r"cases.jsonl:3: left out"):
        assert sample_files([tmp_path / "cases.jsonl"], 5).population == 2


def test_bare_nan_and_python_literals_are_read_on_request(tmp_path: Path) -> None:
    """As in `read_cases`."""
    (tmp_path / "cases.jsonl").write_text('{"tools_called": [{"name": "a", "args": "{\'x\': 1}", "output": NaN}]}\n')
    with pytest.raises(DataFileError):
        sample_files([tmp_path / "cases.jsonl"], 5)

    (case,) = sample_files([tmp_path / "cases.jsonl"], 5, allow_nan=True, tolerant_arguments=True).cases

    assert isinstance(case, LLMTestCase)
    assert case.tools_called is not None
    assert case.tools_called[0].input_parameters == {"x": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size must be a whole number of at least 1, got 0"),
        ({"size": True}, "size must be a whole number"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"processes": 0}, "processes must be a whole number"),
        ({"by": ""}, "stratum must be a path"),
        ({"by": "metadata.nothing"}, "no case has 'metadata.nothing', the stratum"),
        ({"by": "metadata.task", "size": 5}, "a sample of 5 has fewer than two cases for each stratum"),
        ({"files": []}, "files must be a list of at least one path"),
        ({"files": ["-"]}, "standard input can be read only once"),
    ],
)
def test_wrong_options(days: list[Path], options: dict[str, Any], message: str) -> None:
    """Each error lists the accepted values."""
    with pytest.raises(ConfigurationError, match=message):
        sample_files(**{"files": days, "size": 10, **options})


def test_file_changed_while_sampling_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The population size would be unknown."""
    file = write_lines(tmp_path / "cases.jsonl", 10)
    read = sample_module.read_part

    def while_somebody_writes(part: Part, path: str, *, allow_nan: bool) -> Iterator[Document]:
        for document in read(part, path, allow_nan=allow_nan):
            with file.open("a") as more:
                more.write('{"id": "late"}\n')
            yield document

    monkeypatch.setattr(sample_module, "read_part", while_somebody_writes)

    with pytest.raises(DataFileError, match=r"cases\.jsonl: \$: changed while it was read"):
        sample_files([file], 3, processes=1)


def test_nothing_is_written_over(days: list[Path]) -> None:
    """Least of all one of the files that are drawn from."""
    before = days[0].read_bytes()

    with pytest.raises(ConfigurationError, match=r"monday\.jsonl exists; use another file"):
        sample_files(days, 5, out=days[0])

    assert days[0].read_bytes() == before


def test_names_of_files() -> None:
    """Below the folder that all share, without endings, unless two would be called alike."""
    names = names_of(["/d/a/x.jsonl", "/d/b/x.jsonl.gz", "/d/b/y.JSON", "/d/b/y.parquet", "/d/z"])

    assert [name.relative for name in names] == ["a/x.jsonl", "b/x.jsonl.gz", "b/y.JSON", "b/y.parquet", "z"]
    assert [name.drawn for name in names] == ["a/x", "b/x", "b/y.JSON", "b/y.parquet", "z"]
    assert [name.relative for name in names_of(["/d/a/x.jsonl"])] == ["x.jsonl"]
