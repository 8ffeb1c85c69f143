"""Files of cases: all forms are read, nothing is dropped, and all bad lines are reported at once."""

import contextlib
import gzip
import io
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import case_fields, golden_fields, image_case_fields
from toolgrade import (
    DataFileError,
    Golden,
    LLMTestCase,
    MLLMImage,
    MLLMTestCase,
    ToolCall,
    case_from_record,
    read_cases,
    write_cases,
)
from toolgrade.dataset import read_goldens
from toolgrade.errors import InvalidDataError

CASE = b'{"id": "a", "tools_called": [{"name": "look"}], "expected_tools": []}'
RECORD = {
    "query": "What?",
    "agent_trajectory": [
        {"role": "user", "content": "What?"},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
    ],
    "expected_tools": [{"name": "look"}],
}


def read(data: bytes, **options: Any) -> list[Any]:
    """The cases of a file that holds these bytes."""
    return read_cases(io.BytesIO(data), **options)


def complaints(data: bytes, **options: Any) -> list[str]:
    """What is wrong with a file that holds these bytes, line by line."""
    with pytest.raises(DataFileError) as raised:
        read(data, **options)
    return str(raised.value).split("\n")


# What can be read


@given(
    st.lists(
        case_fields.map(lambda fields: LLMTestCase(**fields))
        | image_case_fields.filter(lambda fields: isinstance(fields.get("input"), list)).map(
            lambda fields: MLLMTestCase(**fields)
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["cases.jsonl", "cases.jsonl.gz"]),
)
def test_written_cases_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, cases: list[LLMTestCase | MLLMTestCase], name: str
) -> None:
    """Every field, set or not, plain and compressed; an unnamed case is named by its line."""
    path = tmp_path_factory.mktemp("written") / name
    write_cases(path, cases)

    for number, (before, after) in enumerate(zip(cases, read_cases(path), strict=True), start=1):
        if before.id or before.name:
            assert after == before
            assert after.model_fields_set == before.model_fields_set
        else:
            assert after.model_dump(exclude={"name"}) == before.model_dump(exclude={"name"})
            assert after.name == f"line {number}"


@given(st.lists(golden_fields.map(lambda fields: Golden(**fields)), min_size=1, max_size=3))
def test_written_goldens_are_read_back(tmp_path_factory: pytest.TempPathFactory, goldens: list[Golden]) -> None:
    """Questions, turns and simulated users, with every field, set or not."""
    path = tmp_path_factory.mktemp("written") / "goldens.jsonl"
    write_cases(path, goldens)

    assert Golden.load(path) == goldens
    assert [golden.model_fields_set for golden in Golden.load(path)] == [golden.model_fields_set for golden in goldens]


def test_a_line_is_a_case_or_a_record() -> None:
    """snake_case, camelCase and multimodal cases and records are distinguished by their keys."""
    image = {"input": ["What is this?", {"url": "https://host.example/a.png"}], "tools_called": []}
    lines = [json.loads(CASE), {"toolsCalled": [{"name": "look", "args": '{"a": 1}'}]}, image, RECORD]
    snake, camel, picture, record = read("\n".join(map(json.dumps, lines)).encode())

    assert snake == LLMTestCase(id="a", tools_called=[ToolCall(name="look")], expected_tools=[])
    assert camel.tools_called == [ToolCall(name="look", input_parameters={"a": 1})]
    assert isinstance(picture, MLLMTestCase)
    assert picture.input == ["What is this?", MLLMImage(url="https://host.example/a.png")]
    assert record == case_from_record(RECORD).model_copy(update={"name": "line 4"})


@pytest.mark.parametrize(
    "data",
    [
        CASE,
        CASE + b"\n",
        b"\xef\xbb\xbf" + CASE + b"\n",
        CASE + b"\r\n",
        b"\n \n\t\r\n" + CASE + b"\n\n",
        b"  " + CASE + b"  ",
        gzip.compress(CASE),
        gzip.compress(b"\xef\xbb\xbf" + CASE + b"\r\n"),
        gzip.compress(CASE[:20]) + gzip.compress(CASE[20:]),
        b"[" + CASE + b"]",
        b"\xef\xbb\xbf\r\n[\r\n" + CASE.replace(b", ", b",\r\n") + b"]\r\n",
        gzip.compress(b"[" + CASE + b"]"),
    ],
    ids=[
        *("no-newline", "newline", "byte-order-mark", "windows-newline", "blank-lines", "blanks", "gzip"),
        *("gzip-byte-order-mark", "gzip-in-two-parts", "array", "pretty-windows-array", "gzip-array"),
    ],
)
def test_every_way_of_writing_one_case_is_read(tmp_path: Path, data: bytes) -> None:
    """From a path, a string path, an open file or any readable object; gzip is detected by content."""
    path = tmp_path / "cases.anything"
    path.write_bytes(data)
    case = LLMTestCase.from_json(CASE)

    assert read_cases(path) == [case]
    assert read_cases(str(path)) == [case]
    assert read(data) == [case]
    with path.open("rb") as file:
        assert read_cases(file) == [case]


def test_line_separators_inside_texts_do_not_end_a_line() -> None:
    """Only a newline does; JSON texts may contain other Unicode separators."""
    text = "a\u2028b\u2029c\u0085d\x0be"
    cases = read(json.dumps({"input": text, "id": "x"}, ensure_ascii=False).encode() + b"\n" + CASE)

    assert [case.input for case in cases] == [text, None]


def test_cases_without_a_name_are_called_by_their_place() -> None:
    """By the line of the file, blank ones counted, or by the item of an array."""
    lines = read(b'{"tools_called": []}\n\n{"name": "mine"}\n{"tools_called": []}')
    items = read(b'[{"tools_called": []}, {"id": 7}, {"tools_called": []}]')

    assert [case.name for case in lines] == ["line 1", "mine", "line 4"]
    assert [(case.id, case.name) for case in items] == [(None, "item 1"), ("7", None), (None, "item 3")]


def test_the_key_that_names_a_schema_is_ignored() -> None:
    """In cases, conversations, records and goldens, in lines and in arrays; it is not in their metadata."""
    mark = {"$schema": "./x.json"}
    values = [
        {"input": "q", "tools_called": [{"name": "a"}]},
        {"turns": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}]},
        {"query": "q", "metadata": {"a": 1}},
        {"input": ["see"], "tools_called": []},
    ]
    marked = [mark | value for value in values]
    golden = {"input": "q", "id": "1"}

    assert read(_lines(marked)) == read(_lines(values))
    assert read(json.dumps(marked).encode()) == read(json.dumps(values).encode())
    assert read_goldens(io.BytesIO(_lines([mark | golden]))) == read_goldens(io.BytesIO(_lines([golden])))
    assert case_from_record(marked[2]) == case_from_record(values[2])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"turns": [{"content": "Hi", "expectd_tools": []}]}, "did you mean 'expected_tools'?"),
        ({"turns": [{"role": "user", "content": "Hi"}]}, "has calls that were made, not goldens"),
        ({"turns": [{"content": "Hi", "tools_called": []}]}, "has calls that were made, not goldens"),
    ],
    ids=["misspelled", "roles", "calls"],
)
def test_turns_that_are_no_golden(value: dict[str, Any], problem: str) -> None:
    """A misspelled golden is not taken for recorded calls."""
    with pytest.raises(InvalidDataError, match=re.escape(problem)):
        read_goldens(io.BytesIO(_lines([value])))


def _lines(values: list[dict[str, Any]]) -> bytes:
    """Return values as JSON Lines."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_an_empty_array_has_no_cases() -> None:
    """It is a file without cases, unlike an empty file."""
    assert read(b"[]") == []


def test_open_files_stay_open() -> None:
    """Who opened a file closes it."""
    file = io.BytesIO(CASE)
    read_cases(file)

    assert not file.closed


# What cannot be read


def test_all_bad_lines_are_reported_at_once(tmp_path: Path) -> None:
    """With file, line, path, expected and actual value."""
    path = tmp_path / "runs.jsonl"
    lines = [CASE.decode()] * 20
    lines[1] = "{broken"
    lines[6] = '{"tools_caled": []}'
    lines[12] = '{"query": "x", "tools_called": [{"name": "a"}, {"nam": "b"}], "expected_tools": 3}'
    lines[16] = '{"tools_called": [{"name": 3}]}'
    lines[18] = '"text"'
    lines[19] = '{"turns": []}'
    path.write_text("\n".join(lines))
    with pytest.raises(DataFileError) as raised:
        read_cases(path)

    messages = str(raised.value).split("\n")
    assert [line.removeprefix(f"{path}:").split(":")[0] for line in messages] == [
        *("2", "7", "13", "13", "17", "19", "20"),
    ]
    assert f"{path}:17: $.tools_called[0].name: expected a string, got 3" in messages
    assert (
        f"{path}:7: $.tools_caled: unknown field 'tools_caled'; did you mean 'tools_called'? valid fields"
        in messages[1]
    )
    assert messages[5] == f"{path}:19: $: expected an object (a test case or a record), got str"
    assert [problem.line for problem in raised.value.problems] == [2, 7, 13, 13, 17, 19, 20]
    assert raised.value.problems[4].path == "$.tools_called[0].name"


def test_the_message_has_ten_of_many_problems() -> None:
    """And how many more there are; `problems` has all of them."""
    with pytest.raises(DataFileError) as raised:
        read(b'{"id": []}\n' * 3000)
    *first, last = str(raised.value).split("\n")

    assert first == [f"<file>:{line}: $.id: expected a string, got []" for line in range(1, 11)]
    assert last == "... and 2990 more"
    assert [problem.line for problem in raised.value.problems] == [*range(1, 3001)]


def test_lines_of_text_before_json_lines_are_bad_lines() -> None:
    """Blank ones are counted, and the cases after them are read."""
    data = b"started\n\nstill starting\n" + CASE + b"\noops\n"

    assert [line.split(": ")[0] for line in complaints(data)] == ["<file>:1", "<file>:3", "<file>:5"]


def test_bad_items_of_an_array_have_paths() -> None:
    """Without line numbers."""
    data = b'[{"id": "a"}, {"tools_called": [{"name": 3}]}, 4, {"turns": []}]'

    assert complaints(data)[:2] == [
        "<file>: $[1].tools_called[0].name: expected a string, got 3",
        "<file>: $[2]: expected an object (a test case or a record), got int",
    ]
    assert complaints(data)[2].startswith("<file>: $[3].turns: has no question that an assistant answered")
    assert complaints(b"[1,\n2")[0].startswith("<file>: $: not JSON: the text ends too early, at line 2")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_bare_constants_are_refused_with_their_path(constant: str) -> None:
    """JSON has no NaN; reading it as text or null would change a score, so the file must be explicit."""
    line = b'{"tools_called": [{"name": "a", "args": {"x": [1, %s]}}]}' % constant.encode()

    path = "tools_called[0].args.x[1]: bare"
    assert complaints(CASE + b"\n" + line) == [
        f"<file>:2: $.{path} {constant} is not JSON; write it as text, or allow NaN"
    ]
    assert complaints(b"[" + line + b"]")[0].startswith(f"<file>:1: $[0].{path} {constant} is not JSON")


@pytest.mark.parametrize("form", [b"%s", b"[%s]"], ids=["lines", "array"])
def test_bare_constants_are_read_if_allowed(form: bytes) -> None:
    """Then they are numbers."""
    (case,) = read(form % b'{"tools_called": [{"name": "a", "args": {"x": -Infinity}}]}', allow_nan=True)

    assert case.tools_called[0].arguments == {"x": -float("inf")}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "<file>:1: $: the file is empty"),
        (b"\n  \n\r\n", "<file>:1: $: the file is empty"),
        (b"\xef\xbb\xbf", "<file>:1: $: the file is empty"),
        (gzip.compress(b""), "<file>:1: $: the file is empty"),
        (CASE + b'\n{"id": "\xe9"}', "<file>:2: $: not UTF-8: invalid continuation byte at byte 8"),
        (b"[" + CASE + b', {"id": "\xff"}]', "<file>:1: $: not UTF-8: invalid start byte at byte 80"),
        (CASE.decode().encode("utf-16"), "<file> is UTF-16 text; save it as UTF-8"),
        (b"PAR1\x15\x04", "<file> is Parquet, which cannot be read here; give JSON Lines or a JSON array"),
        (b"started\nfailed\n", "<file> is text without JSON; give JSON Lines, with a JSON object on each line, or a "),
        (b"started\n{}\n", "<file>:1: $: not JSON: unexpected 's' at character 1"),
        (b"\x00\x01\x02", "<file> is binary, or text that is not UTF-8; give JSON Lines or a JSON array in UTF-8"),
        (b"[" * 100_000, "<file>:1: $: nested too deeply to be read"),
        (b'{"metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "<file>:1: $: nested too deeply to be read"),
        (b'{}\n["a"]', "<file>:2: $[0]: expected a message"),
        (gzip.compress(CASE)[:-9], ": $: broken gzip data: Compressed file ended before"),
        (gzip.compress(CASE) + b"junk", ": $: broken gzip data: Not a gzipped file"),
        (b"\x1f\x8b", "<file>:1: $: broken gzip data: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_without_cases_are_refused(data: bytes, message: str) -> None:
    """One clear sentence with the place, never a Python error."""
    (complaint,) = complaints(data)

    assert message in complaint


def test_corrupted_gzip_data_is_reported() -> None:
    """The checksum or the format detects any wrong byte."""
    generator = random.Random(7)
    lines = b"\n".join(b'{"id": "%d"}' % generator.getrandbits(64) for _ in range(200))
    packed = gzip.compress(lines)
    for place in range(12, len(packed), 97):
        damaged = packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :]
        with pytest.raises(DataFileError) as raised:
            read(damaged)
        assert any("broken gzip data: " in problem.message for problem in raised.value.problems), place


@given(st.binary(max_size=40) | st.binary(max_size=40).map(gzip.compress))
def test_junk_never_escapes_as_another_error(data: bytes) -> None:
    """Any bytes are read, or refused with a `DataFileError`."""
    with contextlib.suppress(DataFileError):
        read(data)


def test_a_file_name_cannot_forge_a_message(tmp_path: Path) -> None:
    """A newline or an escape sequence in the name is escaped."""
    path = tmp_path / "a\nb\x1b[31m.jsonl"
    try:
        path.write_bytes(b"3")
    except OSError:
        pytest.skip("this file system refuses such names")
    with pytest.raises(DataFileError) as raised:
        read_cases(path)

    assert str(raised.value).startswith(f"{tmp_path}{os.sep}a\\nb\\x1b[31m.jsonl:1: $: expected an object")


@pytest.mark.parametrize("place", ["absent.jsonl", "."])
def test_unreadable_path_is_an_os_error(tmp_path: Path, place: str) -> None:
    """A missing file and a folder are not data errors."""
    with pytest.raises(OSError, match=r"absent|directory|denied"):
        read_cases(tmp_path / place)


# Writing


def test_writing_leaves_the_old_file_when_it_fails(tmp_path: Path) -> None:
    """A file of cases is whole or absent: what fails half-way changes nothing and leaves nothing behind."""
    path = tmp_path / "cases.jsonl"
    write_cases(path, [LLMTestCase(id="old")])

    def cases() -> Any:
        yield LLMTestCase(id="new")
        raise RuntimeError("the source ran dry")

    with pytest.raises(RuntimeError, match="ran dry"):
        write_cases(path, cases())
    assert [case.id for case in read_cases(path)] == ["old"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["cases.jsonl"]


def test_gz_in_the_name_packs_the_file(tmp_path: Path) -> None:
    """The same cases, compressed."""
    cases = [LLMTestCase(id=str(number), input="x" * 100) for number in range(100)]
    write_cases(tmp_path / "cases.jsonl", cases)
    write_cases(str(tmp_path / "cases.jsonl.gz"), cases)

    plain, packed = (tmp_path / name for name in ("cases.jsonl", "cases.jsonl.gz"))
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert plain.read_bytes().count(b"\n") == 100
    assert packed.stat().st_size < plain.stat().st_size / 5
