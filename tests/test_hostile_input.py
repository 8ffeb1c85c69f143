"""Every reader refuses hostile data with an error of toolmark that names it, or reads it with a warning."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hostile import mutated, mutated_bytes
from processes import ROOT
from toolmark import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate, read_cases
from toolmark._internal.atomic_files import atomic_write, write_text
from toolmark._internal.text import printable
from toolmark.convert import read_transcripts
from toolmark.errors import ConfigurationError, DataFileError, InvalidDataError, ToolmarkError
from toolmark.formats import case_from_record, read, read_traces
from toolmark.results import read_results

MESSAGES: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Add."}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "1"},
    {"role": "assistant", "content": "It is 1."},
]
STREAM: list[Any] = [
    {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "add"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
PLAN = [
    {"expect": "add", "input_parameters": {"a": {"$is": "regex", "pattern": "a+"}}, "times": [1, 2]},
    {"one_of": [{"name": "b"}, [{"expect": "c", "at": {"x[0]": {"$is": "approx", "value": 1}}}]]},
    {"forbid": {"$is": "glob", "pattern": "z*"}},
]
RECORD: dict[str, Any] = {
    "query": "Add.",
    "tools_called": [{"name": "add", "args": {"a": 1}, "output": "1"}],
    "expected_tools": PLAN,
    "agent_trajectory": MESSAGES,
    "available_tools": [{"name": "add", "parameters": {"type": "object"}}],
    "metadata": {"reward": 1},
}
EMITTED = ROOT / "tests" / "formats" / "emitted"
TRACES: list[Any] = [
    document
    for name in ("otel-openai-spans", "langsmith-langchain", "langfuse-observe", "agents-handoff")
    for document in json.loads((EMITTED / f"{name}.json").read_text(encoding="utf-8"))["documents"]
]


def lines(*values: Any) -> bytes:
    """A file with a value on each line."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def results_of(cases: list[LLMTestCase], path: Path) -> bytes:
    """The file of results of an evaluation."""
    evaluate(cases, [ToolCorrectnessMetric()], results=path, show_progress=False)
    return path.read_bytes()


CASES = [LLMTestCase(id=f"c{number}", tools_called=[ToolCall(name="a")], expected_tools=[]) for number in range(2)]


def _read_mutated_cases(chance: random.Random) -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # the mutations have integers that Python does not write by default
    data = lines(mutated(RECORD, chance), RECORD)
    sys.set_int_max_str_digits(limit)
    read_cases(io.BytesIO(mutated_bytes(data, chance) if chance.random() < 0.3 else data), allow_nan=True)


DOORS: dict[str, Callable[[random.Random], object]] = {
    "messages": lambda chance: read(mutated(chance.choice([MESSAGES, STREAM]), chance), tolerant_arguments=True),
    "traces": lambda chance: read_traces(mutated(chance.choice(TRACES), chance, changes=4)),
    "record": lambda chance: case_from_record(mutated(RECORD, chance)),
    "cases": _read_mutated_cases,
    "conversations": lambda chance: read_transcripts(io.BytesIO(mutated_bytes(lines(MESSAGES, MESSAGES), chance))),
}


@pytest.mark.filterwarnings("ignore::toolmark.ToolmarkWarning")
@pytest.mark.parametrize("door", DOORS)
def test_mutated_data_is_read_or_refused(door: str) -> None:
    """No other exception than one of toolmark leaves a reader, whatever the types, sizes and depths are."""
    for number in range(80 if door == "traces" else 200):
        with suppress(ToolmarkError):
            DOORS[door](random.Random(f"{door} {number}"))


@pytest.mark.filterwarnings("ignore::toolmark.ToolmarkWarning")
def test_mutated_results_are_read_or_refused(tmp_path: Path) -> None:
    """The same for files of results, by bytes, and for JSON reports, by values."""
    data = results_of(CASES, tmp_path / "results.jsonl")
    report = read_results(io.BytesIO(data)).to_dict()
    for number in range(150):
        chance = random.Random(f"results {number}")
        with suppress(ToolmarkError):
            read_results(io.BytesIO(mutated_bytes(data, chance)))
        with suppress(ToolmarkError, ValueError):  # `json.dumps` refuses integers of thousands of digits
            read_results(io.BytesIO(lines(mutated(report, chance))))


@pytest.mark.parametrize("depth", [500, 5000])
def test_deep_values_are_refused_with_the_limit(depth: int) -> None:
    """Python's own error about recursion leaves no reader."""
    deep: Any = "x"
    for _ in range(depth):
        deep = {"a": [deep]}
    span = {"name": "x", "span_id": "1", "start_time": 1, "attributes": {"gen_ai.tool.name": "a", "deep": deep}}
    for door in (lambda: read([{"role": "user", "content": deep}, *MESSAGES]), lambda: read_traces([span])):
        with suppress(InvalidDataError):
            door()
    with pytest.raises(InvalidDataError, match="deeper than 200 levels"):
        read_traces([span])


def test_integers_of_thousands_of_digits_are_refused() -> None:
    """In a file and in values of Python, with the remedy."""
    with pytest.raises(DataFileError, match=r"<file>:2: \$: an integer has more than 4,000 digits; write it as text"):
        read_cases(io.BytesIO(lines(RECORD) + b'{"query": "q", "metadata": {"x": %b}}\n' % (b"9" * 5000)))
    with pytest.raises(InvalidDataError, match="an integer has more than 4,000 digits"):
        read([{"role": "tool", "tool_call_id": 10**5000, "content": "x"}], format="openai-chat")


def test_duplicate_keys_of_a_file_are_an_error_with_their_line() -> None:
    """Which of the two values counts would depend on the program that reads the file."""
    with pytest.raises(DataFileError, match=r"<file>:2: \$: the key 'query' occurs twice in one object; remove one"):
        read_cases(io.BytesIO(lines(RECORD) + b'{"query": "a", "query": "b"}\n'))
    with pytest.raises(DataFileError, match="occurs twice"):
        read_cases(io.BytesIO(b'{"query": "a", "metadata": {"x": NaN, "x": 1}}\n'), allow_nan=True)
    with pytest.raises(DataFileError, match="occurs twice"):
        read_transcripts(io.BytesIO(b'[{"role": "user", "role": "assistant", "content": "x"}]'))


def test_duplicate_keys_in_arguments_are_invalid_arguments() -> None:
    """The model wrote them, so the call stays; tolerant reading takes the last value, as most parsers do."""
    call = {"id": "c", "function": {"name": "add", "arguments": '{"a": 1, "a": 2}'}}
    messages = [{"role": "assistant", "tool_calls": [call]}]
    strict, tolerant = read(messages).run, read(messages, tolerant_arguments=True).run

    (execution,) = [call.execution for call in strict.calls]
    assert execution is not None
    assert execution.status.value == "invalid_arguments"
    assert execution.requested_parameters == '{"a": 1, "a": 2}'
    assert "the key 'a' occurs twice" in strict.warnings[0]
    assert [call.arguments for call in tolerant.calls] == [{"a": 2}]
    assert "with the last value of each key" in tolerant.warnings[0]


def packed(data: bytes, form: str) -> bytes:
    """Data in a compressed form."""
    return gzip.compress(data) if form == "gzip" else pytest.importorskip("zstandard").compress(data)


@pytest.mark.parametrize("form", ["gzip", "zst"])
def test_small_files_that_unpack_to_large_records_are_refused(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for a line and for an array, and not for a long file of short lines."""
    monkeypatch.setenv("TOOLMARK_MAX_RECORD_MIB", "1")
    short = lines({"query": "q" * 1000})
    many = b"\n".join([short] * 6000)

    with pytest.raises(DataFileError, match=r":2: \$: a record must have at most 1 MiB unpacked; split it, or set"):
        read_cases(io.BytesIO(packed(short + b'{"query": "%b"}\n' % (b" " * (1 << 21)), form)))
    with pytest.raises(DataFileError, match="read as a whole must have at most 4 MiB unpacked"):
        read_cases(io.BytesIO(packed(b"[\n" + b" " * (1 << 23) + b"]", form)))
    with pytest.raises(DataFileError, match="read as a whole must have at most 4 MiB unpacked"):
        read_results(io.BytesIO(packed(b" " * (1 << 23), form)))
    assert len(read_cases(io.BytesIO(packed(many, form)))) == 6000


def test_setting_of_the_limit_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a number of MiB."""
    monkeypatch.setenv("TOOLMARK_MAX_RECORD_MIB", "1e3")

    with pytest.raises(ConfigurationError, match="TOOLMARK_MAX_RECORD_MIB must be a number of MiB from 1 to 999999999"):
        read_cases(io.BytesIO(lines(RECORD)))


def test_changed_digit_in_results_is_an_error(tmp_path: Path) -> None:
    """The checksum of the line tells; a line without one is accepted as it is."""
    data = results_of(CASES, tmp_path / "results.jsonl")
    changed = data.replace(b'"score": 0.0', b'"score": 0.5', 1)
    assert changed != data

    with pytest.raises(DataFileError, match=r":2: \$: the line must be as it was written, and its checksum differs"):
        read_results(io.BytesIO(changed))
    bare = b"".join(line[: line.rindex(b', "checksum"')] + b"}\n" for line in changed.splitlines())
    assert read_results(io.BytesIO(bare)).cases[0].results[0].score == 0.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::error::x", r"\x3a:error::x"),
        (" ::stop-commands::x", r" \x3a:stop-commands::x"),
        ("a\n::set-output name=x::y", r"a\n\x3a:set-output name=x::y"),
        ("wrapped-anywhere::warning file=a::x", r"wrapped-anywhere\x3a:warning file=a::x"),
        ("a ##[error]x", r"a \x23#[error]x"),
        ("##vso[task.x]y", r"\x23#vso[task.x]y"),
        ("##teamcity[x]", r"\x23#teamcity[x]"),
        ("server::tool", "server::tool"),
        ("## title", "## title"),
    ],
)
def test_commands_of_ci_logs_are_escaped(text: str, expected: str) -> None:
    """Services obey `::name::` at the start of a line, and `##[name]` anywhere in it."""
    assert printable(text) == expected


def test_drafts_follow_no_link(tmp_path: Path) -> None:
    """A draft is a new file of its own, and a link that the user owns is written through."""
    victim = tmp_path / "victim"
    victim.write_text("old", encoding="utf-8")
    link = tmp_path / "report.json"
    link.symlink_to(victim)
    with atomic_write(tmp_path / "other.json") as draft:
        assert draft.is_file()
        assert not draft.is_symlink()
        with pytest.raises(FileExistsError):
            draft.touch(exist_ok=False)
        draft.write_text("x", encoding="utf-8")

    write_text(link, "new")

    assert (link.is_symlink(), victim.read_text(encoding="utf-8")) == (True, "new")


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can make a link of another user")
def test_links_of_other_users_are_refused(tmp_path: Path) -> None:
    """In a shared folder, such a link chooses the file that is overwritten."""
    victim = tmp_path / "victim"
    victim.write_text("old", encoding="utf-8")
    link = tmp_path / "out"
    link.symlink_to(victim)
    os.lchown(link, 12345, 12345)

    with pytest.raises(ConfigurationError, match="'out' must not be a symbolic link of another user"):
        write_text(link, "new")
    with pytest.raises(ConfigurationError, match="must not be a symbolic link"):
        evaluate(CASES, [ToolCorrectnessMetric()], results=link, resume=True, show_progress=False)
    assert victim.read_text(encoding="utf-8") == "old"


def test_two_spans_with_one_id_are_a_warning() -> None:
    """Copies of a span count once in silence; another span under the same id is told."""

    def span(name: str, end: int) -> dict[str, Any]:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        times = {"start_time": 1, "end_time": end}
        return {"name": name, "trace_id": "a", "span_id": "b", "attributes": attributes, **times}

    (same,) = read_traces([span("add", 2), span("add", 2)]).runs
    (other,) = read_traces([span("add", 2), span("sub", 2)]).runs

    assert same.warnings == []
    assert other.warnings == ["$[1]: the id 'b' is that of another span, too; the more complete one counts"]
