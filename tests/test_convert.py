"""`toolgrade convert`: recorded messages into cases that `toolgrade score` reads, all of them or none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from processes import COMMAND, run_python
from toolgrade import ConversationalTestCase, DataFileError, read_cases
from toolgrade.cli.main import main
from toolgrade.convert import read_transcripts
from toolgrade.formats.traces.read import TRACE_FORMATS
from tracing import FORMS, Script, ScriptedCall, Step, langfuse, langsmith, new_genai, openai_agents, otlp, otlp_spans

Plain = dict[str, Any]
SCRIPT = Script(
    "Go.", [Step("boss", [ScriptedCall("add", "c1", {"a": 1}, "3")]), Step("boss", [], "Done.")], session="s1"
)


def asks(name: str, call_id: str = "c1") -> Plain:
    """A chat message that asks for a call."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def answers(call_id: str = "c1") -> Plain:
    """The answer to it."""
    return {"role": "tool", "tool_call_id": call_id, "content": "3"}


USER = {"role": "user", "content": "Go."}
DONE = {"role": "assistant", "content": "Done."}
CHAT = [
    USER,
    asks("add"),
    answers(),
    DONE,
    {"role": "user", "content": "Again."},
    asks("sub", "c2"),
    answers("c2"),
    DONE,
]
CLAUDE = [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]}]
ITEMS = {"input": "Go.", "output": [{"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"}]}
EXPECTING = {"id": "x", "tags": ["a"], "messages": CHAT, "expected_tools": [{"name": "add"}, {"name": "sub"}]}


def lines(*values: Any) -> bytes:
    """A file of JSON Lines."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def convert(data: bytes, *options: str, folder: Path | None = None) -> Result:
    """The outcome of `toolgrade convert` on standard input, inside this process."""
    target = "-" if folder is None else str(folder / "cases.jsonl")
    return RUNNER.invoke(main, ["convert", "-", "--to", target, *options], input=data)


def written(result: Result) -> list[Plain]:
    """What was written to standard output."""
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def names(case: Plain) -> list[str]:
    """The names of a case's calls."""
    return [call["name"] for call in case["tools_called"]]


def test_converted_cases_can_be_scored(tmp_path: Path) -> None:
    """Expectations next to the messages are the case's; the report needs nothing else."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(EXPECTING))

    converted = run_python([*COMMAND, "convert", str(path), "--to", "cases.jsonl"], tmp_path)
    scored = run_python([*COMMAND, "score", "cases.jsonl"], tmp_path)

    assert (converted.code, converted.out, scored.code) == (0, "", 0)
    assert converted.err == "read 1 conversation (openai-chat); wrote 1 case with 2 calls to cases.jsonl\n"
    (case,) = read_cases(tmp_path / "cases.jsonl")
    assert (case.id, case.tags, case.input, case.actual_output) == ("x", ["a"], "Go.", "Done.")
    assert [call.name for call in case.expected_tools or ()] == ["add", "sub"]


def test_statements_next_to_the_messages_are_those_of_the_case() -> None:
    """Texts, the end and the answer; the run has the texts of the agent, and each call its turn."""
    answer = {"$is": "contains", "value": "a"}
    stated = {"expected_output": answer, "required_texts": ["b"], "must_end": True, "ended": True}
    (case,) = written(convert(lines({**EXPECTING, **stated})))

    assert {name: case[name] for name in stated} == stated
    assert case["run"]["agent_texts"] == ["Done.", "Done."]
    assert [call["turn"] for call in case["tools_called"]] == [1, 2]


def test_each_line_has_its_own_format() -> None:
    """Detected formats are reported with counts; unnamed cases are named after their place."""
    result = convert(lines(CHAT) + b"\n" + lines(CLAUDE, ITEMS))

    assert [(case.get("name"), names(case)) for case in written(result)] == [
        ("line 1", ["add", "sub"]),
        ("line 3", ["look"]),
        ("line 4", ["find"]),
    ]
    assert "3 conversations (1 openai-chat, 1 anthropic, 1 openai-responses)" in result.stderr
    assert "wrote 3 cases with 4 calls to standard output" in result.stderr


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (CHAT, 1),
        ({"messages": CHAT}, 1),
        ([CHAT, CLAUDE], 2),
        ([{"messages": CHAT}, ITEMS], 2),
        ([ITEMS["output"][0]], 1),
        ([{"role": "assistant", "content": "a", "stop_reason": "end_turn"}] * 2, 2),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, b"\xef\xbb\xbf".__add__])
def test_one_json_value_is_one_conversation_or_a_list_of_them(value: Any, count: int, indent: int, pack: Any) -> None:
    """On one line or many, packed or not, with a mark at the beginning or not."""
    assert len(written(convert(pack(json.dumps(value, indent=indent).encode())))) == count


def test_conversations() -> None:
    """All turns are one conversation; expectations of the whole are left out with a warning."""
    conversations = convert(lines(EXPECTING), "--as", "conversations")

    (conversation,) = (ConversationalTestCase.from_json(line) for line in conversations.stdout.splitlines())
    assert [turn.content for turn in conversation.turns] == ["Go.", "Done.", "Again.", "Done."]
    assert conversation.id == "x"
    assert "warning: line 1: left out the expectations" not in conversations.stderr
    assert "warning: left out the expectations of the conversation; use --as cases" in conversations.stderr
    assert "wrote 1 conversation with 2 calls" in conversations.stderr


def test_options_reach_the_reader() -> None:
    """The format, and the names of hand-offs."""
    assert convert(lines(CHAT), "--from", "anthropic").exit_code == 2
    assert convert(lines(CHAT), "--from", "gemini").exit_code == 2
    assert [names(case) for case in written(convert(lines(CHAT), "--handoff", "sub"))] == [["add"]]
    assert convert(b'{"messages": [{"role": "assistant", "content": NaN}]}').exit_code == 2
    assert convert(b'{"messages": [{"role": "assistant", "content": NaN}]}', "--allow-nan").exit_code == 0


def test_warnings_have_their_place() -> None:
    """On standard error and in the case."""
    result = convert(lines(CHAT, [DONE, answers("c9")]))

    assert "warning: line 2: $[1]: answers no open call before it (id 'c9'); it was left out\n" in result.stderr
    assert written(result)[1]["run"]["warnings"] == ["$[1]: answers no open call before it (id 'c9'); it was left out"]


BAD = [
    {"messages": [{"role": "x"}]},
    USER,
    {"tools_called": []},
    {"query": "q", "agent_trajectory": CHAT},
    {"a": 1},
    [],
    {"messages": CHAT, "expected_tools": [{"nam": "add"}]},
]


def test_all_bad_lines_are_reported_and_nothing_is_written(tmp_path: Path) -> None:
    """With line and path; an existing file stays unchanged."""
    (tmp_path / "cases.jsonl").write_text("old")
    result = convert(lines(CHAT, *BAD) + b"{oops\n", folder=tmp_path)

    assert result.exit_code == 2
    assert [line.split(": ")[0] for line in result.stderr.splitlines()[1:-1]] == [f"<stdin>:{n}" for n in range(3, 10)]
    assert result.stderr.startswith("error: <stdin>:2: $.messages[0].role: expected one of user")
    assert "<stdin>:3: $: is a single message" in result.stderr
    assert "<stdin>:4: $: is a case or a record already" in result.stderr
    assert "<stdin>:8: $.expected_tools[0].name: a call needs the name" in result.stderr
    assert result.stderr.endswith("8 problems; nothing was written\n")
    assert (tmp_path / "cases.jsonl").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["cases.jsonl"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file holds no conversation"),
        (b"\n \n", "the file holds no conversation"),
        (b"{", "not JSON"),
        (b'[\n  {"role": "user",\n', "not JSON"),
        (b"[3]", "$[0]: expected a message"),
        (json.dumps([CHAT, [{"role": "x"}]]).encode(), "$[1][0].role: expected one of"),
        (gzip.compress(lines(CHAT))[:-9], "broken gzip data"),
        (b"{no json here", "not JSON: unexpected 'n' at character 2"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(data: bytes, message: str) -> None:
    """One error for a problem of the whole file, rather than one for each line."""
    result = convert(data)

    assert result.exit_code == 2
    assert message in result.stderr
    assert "1 problem; nothing was written" in result.stderr


def test_text_without_json_is_one_error() -> None:
    """With the forms that can be read, unless JSON follows."""
    result = convert(b"10:00 started\n10:01 failed\n" * 9)
    remedy = "give JSON Lines, with a JSON object on each line, or a JSON array"

    assert result.stderr == f"error: <stdin> is text without JSON; {remedy}; nothing was written\n"
    assert "<stdin>:1: $: not JSON" in convert(b"10:00 started\n" + lines(CHAT, CHAT)).stderr


def test_files_that_cannot_be_opened_exit_with_2(tmp_path: Path) -> None:
    """Neither side raises."""
    (tmp_path / "log.json").write_text(json.dumps(CHAT))
    missing = RUNNER.invoke(main, ["convert", str(tmp_path / "none"), "--to", "-"])
    nowhere = RUNNER.invoke(main, ["convert", str(tmp_path / "log.json"), "--to", str(tmp_path / "no" / "cases")])

    assert (missing.exit_code, nowhere.exit_code) == (2, 2)
    assert "cannot read" in missing.stderr
    assert "cannot write" in nowhere.stderr


def test_a_packed_file_is_converted_to_a_packed_one(tmp_path: Path) -> None:
    """Gzipped if the name says so."""
    path, target = tmp_path / "log.jsonl.gz", tmp_path / "cases.jsonl.gz"
    path.write_bytes(gzip.compress(lines(EXPECTING)))

    done = RUNNER.invoke(main, ["convert", str(path), "--to", str(target)])

    assert done.exit_code == 0
    assert [case.id for case in read_cases(target)] == ["x"]


def test_hostile_text_never_reaches_the_terminal() -> None:
    """Message text is escaped, also in warnings and problems."""
    evil = "\x1b[31mred"
    warned = convert(lines([DONE, answers(evil)]))
    refused = convert(lines([{"role": evil}]))

    assert "\x1b" not in warned.stderr + refused.stderr
    assert warned.stderr.count("\n") == 2


def test_the_reader_of_files_names_every_place(tmp_path: Path) -> None:
    """In code as on the command line."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(CHAT, [{"role": "x"}]))

    with pytest.raises(DataFileError) as raised:
        read_transcripts(path)

    assert [(problem.line, problem.path) for problem in raised.value.problems] == [(2, "$[0].role")]


# Traces


def test_traces_become_cases_that_can_be_scored(tmp_path: Path) -> None:
    """Of every form, by what it looks like, and by the name of the form."""
    for form in ("otlp, genai", "jaeger", "phoenix", "langfuse", "langsmith", "openai-agents"):
        value = FORMS[form](SCRIPT)
        name = form if form in TRACE_FORMATS else "otel"
        (tmp_path / "trace.json").write_text(json.dumps(value))

        for options in ([], ["--from", name]):
            result = RUNNER.invoke(main, ["convert", str(tmp_path / "trace.json"), "--to", "-", *options])
            (case,) = written(result)
            assert (case["id"], names(case), case["input"]) == (SCRIPT.trace, ["add"], "Go.")
            assert f"read 1 trace ({name}); wrote 1 case with 1 call" in result.stderr
            assert "warning" not in result.stderr


def test_spans_of_one_trace_may_be_on_any_lines() -> None:
    """As collectors and exporters write them; a line with logs belongs to them."""
    spans = otlp_spans(SCRIPT, new_genai)
    apart = [{"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]} for span in spans]

    for listed in (
        apart,
        [*apart, {"resourceLogs": []}],
        langsmith(SCRIPT),
        openai_agents(SCRIPT),
        langfuse(SCRIPT)["observations"],
    ):
        assert [names(case) for case in written(convert(lines(*listed)))] == [["add"]]


@pytest.mark.parametrize("unit", ["cases", "conversations"])
def test_metadata_is_kept(unit: str) -> None:
    """Such as the reward of a task, beside what the reader notes itself."""
    line = {**EXPECTING, "metadata": {"reward": 1.0, "task": {"id": 7}}}

    assert [case["metadata"] for case in written(convert(lines(line), "--as", unit))] == [line["metadata"]]


def test_written_conversations_can_be_scored(tmp_path: Path) -> None:
    """Each question of the user is a case, with the warnings of its recording and the trace that it is from."""
    log = convert(lines({"id": "x", "messages": [*CHAT, asks("late", "c9")]}), "--as", "conversations")
    traced = convert(json.dumps(otlp(SCRIPT)).encode(), "--as", "conversations")
    path = tmp_path / "conversations.jsonl"
    path.write_text(log.stdout + traced.stdout)
    first, second, third = read_cases(path)

    assert [(case.id, case.input) for case in (first, second, third)] == [
        ("x, turn 1", "Go."),
        ("x, turn 2", "Again."),
        ("s1, turn 1", "Go."),
    ]
    assert [[call.name for call in case.tools_called or ()] for case in (first, second, third)] == [
        ["add"],
        ["sub", "late"],
        ["add"],
    ]
    assert [case.actual_output for case in (first, second, third)] == ["Done."] * 3
    assert third.run is not None
    assert (third.run.run_id, third.run.metadata) == (SCRIPT.trace, {"span_id": f"{1:016x}"})
    outcome = RUNNER.invoke(main, ["score", str(path), "--metric", "tool-error-rate"])
    assert outcome.exit_code == 0
    assert "3" in outcome.stdout


def test_sessions_become_conversations() -> None:
    """A turn of the user and one of the assistant for each trace, in their order."""
    other = Script("And now?", [Step("boss", [], "Done.")], trace="b" * 32, session="s1")
    alone = Script("Hi", [Step("boss", [], "Done.")], trace="c" * 32)
    data = json.dumps(otlp(SCRIPT, other, alone)).encode()

    first, second = written(convert(data, "--as", "conversations"))

    assert first["id"] == "s1"
    assert [turn["content"] for turn in first["turns"]] == ["Go.", "Done.", "And now?", "Done."]
    assert [turn["content"] for turn in second["turns"]] == ["Hi", "Done."]
    assert second["id"] == "c" * 32
    assert len(written(convert(data))) == 3


def test_trace_warnings_are_reported_with_their_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along with warnings about the file, and of several files with the file."""
    monkeypatch.chdir(tmp_path)
    spans = otlp_spans(SCRIPT, new_genai)
    rest = {"traceId": "d" * 32, "spanId": "1" * 16, "name": "GET /", "attributes": []}
    value = {
        "resourceSpans": [{"scopeSpans": [{"spans": [*(span for span in spans if span["name"] != "agent"), rest]}]}]
    }

    Path("one.json").write_text(json.dumps(value))
    Path("two.json").write_text(json.dumps(value))
    messages = RUNNER.invoke(main, ["convert", "one.json", "--to", "cases"]).stderr.splitlines()
    several = RUNNER.invoke(main, ["convert", "one.json", "two.json", "--to", "cases"]).stderr.splitlines()
    scored = RUNNER.invoke(main, ["score", "one.json", "two.json"]).stderr.splitlines()

    placed = [text.removeprefix("warning: ") for text in messages[:2]]
    assert several[:4] == [f"warning: {file}: {text}" for file in ("one.json", "two.json") for text in placed]
    assert scored[:2] == [f"warning: {file}: {placed[0]}" for file in ("one.json", "two.json")]
    assert [line.partition(" ")[0] for line in messages] == ["warning:", "warning:", "read"]
    assert "traces show no model, agent or tool; left out" in messages[0]
    assert messages[1].startswith(
        f"warning: trace {SCRIPT.trace}: $.resourceSpans[0].scopeSpans[0].spans[0] (and 2 more)"
    )


def test_a_file_of_traces_holds_nothing_else(tmp_path: Path) -> None:
    """Values that are not traces, or of another form, are reported with their line, and nothing is written."""
    trace, other = otlp(SCRIPT), langsmith(SCRIPT)[0]

    result = convert(
        lines(trace, CHAT, other, {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}), folder=tmp_path
    )

    assert result.exit_code == 2
    messages = result.stderr.removeprefix("error: ").splitlines()
    assert [line[: len("<stdin>:2: $")] for line in messages[:-1]] == [
        "<stdin>:2: $",
        "<stdin>:3: $",
        "<stdin>:4: $",
    ]
    assert not (tmp_path / "cases.jsonl").exists()
    bad = convert(
        lines(trace, {"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "", "name": "x", "attributes": []}]}]}]}),
        "--from",
        "otel",
    )
    assert bad.stderr.startswith("error: <stdin>:2: $.resourceSpans[0].scopeSpans[0].spans[0]: ")


def test_tools_that_hand_over_are_named_for_traces_too() -> None:
    """As for messages."""
    (case,) = written(convert(json.dumps(otlp(SCRIPT)).encode(), "--handoff", "add"))

    assert case["tools_called"] == []


def test_a_message_on_each_line_is_one_conversation() -> None:
    """If each line has one; among conversations, a single message is an error."""
    langchain = [{"type": "human", "content": "Go."}, {"type": "ai", "content": "Done."}]
    (case,) = written(convert(lines(*langchain)))
    (chat,) = written(convert(lines(*CHAT)))
    mixed = convert(lines(CHAT, *langchain))

    assert (case["input"], case["actual_output"]) == ("Go.", "Done.")
    assert names(chat) == ["add", "sub"]
    assert mixed.exit_code == 2
    assert "is a single message" in mixed.stderr


def test_several_files_and_folders_are_written_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has neither id nor name is named after its file and line, also in warnings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_bytes(lines(CHAT, EXPECTING))
    (tmp_path / "b.json").write_text(json.dumps(CLAUDE))
    (tmp_path / "t.json").write_text(json.dumps(otlp(SCRIPT)))
    done = RUNNER.invoke(main, ["convert", "logs", "b.json", "t.json", "--to", "cases.jsonl.gz"])

    assert done.exit_code == 0
    first = str(Path("logs/a.jsonl"))
    cases = read_cases("cases.jsonl.gz")
    assert [case.id or case.name for case in cases] == [f"{first} line 1", "x", "b.json", SCRIPT.trace]
    assert "wrote 4 cases with 6 calls to cases.jsonl.gz" in done.stderr


def test_invalid_conversations_can_be_skipped(tmp_path: Path) -> None:
    """They are counted and named, ten at most; without any valid one nothing is written."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(CHAT, {"role": "user", "content": "x"}) + b"{\n" + lines(*[{"messages": 3}] * 20, CLAUDE))
    target = tmp_path / "cases.jsonl"
    arguments = ["convert", str(path), "--to", str(target)]
    strict = RUNNER.invoke(main, arguments)
    assert (strict.exit_code, target.exists()) == (2, False)
    done = RUNNER.invoke(main, [*arguments, "--skip-invalid"])

    assert done.exit_code == 0
    assert [case.name for case in read_cases(target)] == ["line 1", "line 24"]
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert [line.split(": ")[1].rpartition(":")[2] for line in warnings[:10]] == [str(n) for n in range(2, 12)]
    assert warnings[10:] == ["warning: ... and 12 more", "warning: left out 22 conversations with 22 problems"]
    path.write_bytes(b"{\n{\n")
    assert RUNNER.invoke(main, [*arguments, "--skip-invalid"]).exit_code == 2


def test_invalid_traces_can_be_skipped(tmp_path: Path) -> None:
    """Lines that hold something else, or no JSON."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(lines(otlp(SCRIPT)) + b"{\n" + lines(CHAT))
    done = RUNNER.invoke(main, ["convert", str(path), "--to", "-", "--skip-invalid"])

    assert [case["id"] for case in written(done)] == [SCRIPT.trace]
    assert "left out 2 conversations" in done.stderr


def test_files_of_a_folder_that_cannot_be_read_can_be_skipped(tmp_path: Path) -> None:
    """They are counted and named as lines are; without any valid one nothing is written, and all are named."""
    logs, target = tmp_path / "logs", tmp_path / "cases.jsonl"
    logs.mkdir()
    (logs / "a.json").write_bytes(b"id,name\n1,2\n")
    (logs / "b.jsonl").write_bytes(b"{\n{\n")
    arguments = ["convert", str(logs), "--to", str(target), "--skip-invalid"]
    refused = RUNNER.invoke(main, arguments)

    assert (refused.exit_code, target.exists()) == (2, False)
    assert f"warning: {logs / 'a.json'} looks like CSV" in refused.stderr
    assert refused.stderr.endswith("error: no conversation can be read, of 2; nothing was written\n")
    (logs / "c.jsonl").write_bytes(lines(CHAT, CHAT))
    assert RUNNER.invoke(main, arguments[:-1]).exit_code == 2
    done = RUNNER.invoke(main, arguments)
    assert done.exit_code == 0
    assert len(read_cases(target)) == 2
    assert f"warning: {logs / 'a.json'} looks like CSV" in done.stderr
    assert "left out 2 conversations with 2 problems" in done.stderr


def test_conversations_have_no_expectations_of_the_run(tmp_path: Path) -> None:
    """They have the labels of a log, and no expectation of the whole run."""
    texts = {"expected_output": "x", "required_texts": ["x"]}
    expectations = {"expected_tools": [], "must_end": True, "ended": True, **texts}
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "x"}]
    line = {"id": "a", "tags": ["t"], "metadata": {"ticket": 1}, "messages": messages, **expectations}
    (tmp_path / "log.jsonl").write_text(json.dumps(line), encoding="utf-8")
    [recorded] = read_transcripts(tmp_path / "log.jsonl")
    [one] = recorded.cases("conversations")

    assert (one.tags, one.metadata) == (["t"], {"ticket": 1})
    assert not one.to_dict().keys() & expectations.keys()
