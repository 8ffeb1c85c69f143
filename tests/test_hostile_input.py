"""Every reader refuses hostile data with an error of toolgrade that names it, or reads it with a warning."""

from __future__ import annotations

import gzip
import io
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fuzz.doors import DOORS

from seeds import CASES, MESSAGES, RECORD, lines
from toolgrade import ToolCorrectnessMetric, evaluate, read_cases
from toolgrade._internal.atomic_files import atomic_write, write_text
from toolgrade._internal.text import printable
from toolgrade.compat.gllm_evals import ToolCallParser
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError, ToolgradeError
from toolgrade.evaluation import read_results
from toolgrade.expect import read_expectation
from toolgrade.formats import read, read_traces


@pytest.mark.filterwarnings("ignore::toolgrade.ToolgradeWarning")
@pytest.mark.parametrize("name", DOORS)
def test_random_input_is_read_or_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other exception than one of toolgrade leaves a reader, and what must hold of its result holds."""
    monkeypatch.delenv("TOOLGRADE_SHARED", raising=False)  # the built-in seeds, so that the inputs are always the same
    door = DOORS[name]
    for number in range(100):
        with suppress(ToolgradeError):
            door.check(door.write(random.Random(f"{name} {number}")))


def deep_value(depth: int) -> Any:
    """Return objects inside of lists inside of objects."""
    value: Any = "x"
    for _ in range(depth):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize("value", [10**5000, deep_value(2000)], ids=["long", "deep"])
@pytest.mark.parametrize(
    "door",
    [
        lambda value: read_expectation([{"expect": "a", "input_parameters": {"x": {"$is": value}}}]),
        lambda value: read_expectation([{"expect": "a", "input_parameters": {"x": {"$is": "exact", "value": value}}}]),
        lambda value: ToolCallParser().create_tool_call_object([{"name": "a", "tool_call_id": value}]),
    ],
)
def test_values_beyond_the_limits_are_refused(door: Callable[[Any], object], value: Any) -> None:
    """Readers of Python values raise an error of toolgrade, wherever Python first meets the value, or read it."""
    with suppress(InvalidDataError):
        door(value)


@pytest.mark.parametrize("depth", [500, 5000])
def test_deep_values_are_refused_with_the_limit(depth: int) -> None:
    """Python's own error about recursion leaves no reader."""
    deep = deep_value(depth)
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
        read_cases(io.BytesIO(b'[{"role": "user", "role": "assistant", "content": "x"}]'))


def test_duplicate_keys_in_arguments_are_invalid_arguments() -> None:
    """The model wrote them, so the call stays."""
    call = {"id": "c", "function": {"name": "add", "arguments": '{"a": 1, "a": 2}'}}
    messages = [{"role": "assistant", "tool_calls": [call]}]
    run = read(messages).run

    (execution,) = [call.execution for call in run.calls]
    assert execution is not None
    assert execution.status.value == "invalid_arguments"
    assert execution.requested_parameters == '{"a": 1, "a": 2}'
    assert "the key 'a' occurs twice" in run.warnings[0]


def packed(data: bytes) -> io.BytesIO:
    """A file in a compressed form."""
    return io.BytesIO(gzip.compress(data))


def test_small_files_that_unpack_to_large_records_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for a line and for an array, and not for a long file of short lines."""
    monkeypatch.setenv("TOOLGRADE_MAX_RECORD_MIB", "1")
    short = lines({"query": "q" * 1000})
    many = b"\n".join([short] * 6000)

    with pytest.raises(DataFileError, match=r":2: \$: a record must have at most 1 MiB unpacked; split it, or set"):
        read_cases(packed(short + b'{"query": "%b"}\n' % (b" " * (1 << 21))))
    with pytest.raises(DataFileError, match="read as a whole must have at most 4 MiB unpacked"):
        read_cases(packed(b"[\n" + b'"%b",\n' % (b"q" * 1000) * 9000 + b"]"))
    with pytest.raises(DataFileError, match="read as a whole must have at most 4 MiB unpacked"):
        read_results(packed(b" " * (1 << 23)))
    assert len(read_cases(packed(many))) == 6000


@pytest.mark.parametrize("blank", [b"\n", b" \r\n"])
def test_blank_lines_have_a_limit(blank: bytes) -> None:
    """A megabyte of gzip unpacks to a billion of them, which took minutes to count."""
    with pytest.raises(DataFileError, match=r":2: \$: more than 1,000,000 lines in a row are blank"):
        read_cases(io.BytesIO(gzip.compress(lines(RECORD) + blank * 1_000_001 + lines(RECORD))))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_without_a_writer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening it waits; the warning comes once, and what is written later is read."""
    pipe, warning = tmp_path / "pipe", threading.Event()
    os.mkfifo(pipe)
    monkeypatch.setattr("toolgrade.dataset._PATIENCE", 0)
    monkeypatch.setattr("warnings.warn", lambda text, _: warning.set() if "waiting for a program" in text else None)

    with ThreadPoolExecutor(1) as pool:
        cases = pool.submit(read_cases, pipe)
        assert warning.wait(30)
        pipe.write_bytes(lines(RECORD))
        assert len(cases.result()) == 1


def test_setting_of_the_limit_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a number of MiB."""
    monkeypatch.setenv("TOOLGRADE_MAX_RECORD_MIB", "1e3")

    with pytest.raises(
        ConfigurationError, match="TOOLGRADE_MAX_RECORD_MIB must be a number of MiB from 1 to 999999999"
    ):
        read_cases(io.BytesIO(lines(RECORD)))


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
