"""`toolgrade convert`: recorded messages into cases that `toolgrade score` reads, all of them or none."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from processes import COMMAND, run_python
from toolgrade import ConversationalTestCase, Run, ToolCall, read_cases
from toolgrade.cli.main import main
from toolgrade.formats.traces.read import TRACE_FORMATS
from toolgrade.verdict import run_end
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
    stated = {"expected_output": answer, "required_texts": ["b"], "ends": "ok", "ended": True}
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
    """All turns are one conversation, with the expectations of the whole."""
    conversations = convert(lines(EXPECTING), "--as", "conversations")

    (conversation,) = (ConversationalTestCase.from_json(line) for line in conversations.stdout.splitlines())
    assert [turn.content for turn in conversation.turns] == ["Go.", "Done.", "Again.", "Done."]
    assert conversation.id == "x"
    assert [call.name for call in conversation.expected_tools or ()] == ["add", "sub"]
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


BAD = [{"messages": [{"role": "x"}]}, USER, {"a": 1}, [], {"messages": CHAT, "expected_tools": [{"nam": "add"}]}]


def test_bad_lines_are_named_and_left_out(tmp_path: Path) -> None:
    """With line and path, ten at most; or nothing is written, and an existing file stays unchanged."""
    data = lines(CHAT, *BAD) + b"{oops\n" + lines(*[{"messages": 3}] * 20, CLAUDE)
    target = tmp_path / "cases.jsonl"
    target.write_text("old")
    refused = convert(data, "--reject-bad-lines", folder=tmp_path)

    assert (refused.exit_code, target.read_text(), [*tmp_path.iterdir()]) == (2, "old", [target])
    assert refused.stderr.startswith("error: <stdin>:2: $.messages[0].role: expected one of user")
    assert refused.stderr.endswith("\n... and 16 more\nnothing was written\n")
    done = convert(data, folder=tmp_path)

    assert done.exit_code == 1
    assert [case.name for case in read_cases(target)] == ["line 1", "line 28"]
    warnings = [line.removeprefix("warning: ") for line in done.stderr.splitlines()]
    assert [line.split(": ")[0] for line in warnings[:10]] == [f"<stdin>:{number}" for number in range(2, 12)]
    assert "<stdin>:3: $: is a single message" in warnings[1]
    assert "<stdin>:6: $.expected_tools[0].name: a call needs the name" in warnings[4]
    assert warnings[10:12] == ["... and 16 more", "26 lines cannot be read; each was left out"]
    assert "wrote 2 cases with 3 calls" in warnings[12]
    assert convert(lines(*BAD), folder=tmp_path).exit_code == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "<stdin>:1: $: the file is empty"),
        (b'[\n  {"role": "user",\n', "not JSON"),
        (json.dumps([[{"role": "x"}]]).encode(), "$[0][0].role: expected one of"),
        (gzip.compress(lines([3]), mtime=0)[:-9], "broken gzip data"),
        (b"{no json here", "a torn line: its writer stopped before its end"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(data: bytes, message: str) -> None:
    """One error for a problem of the whole file, rather than one for each line."""
    result = convert(data)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.endswith("; nothing was written\n")


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
    """As a whole; its questions have the warnings of their recording and the trace that they are from."""
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
    outcome = RUNNER.invoke(main, ["score", str(path), "--metric", "tool-success-rate"])
    assert outcome.exit_code == 0
    assert "2 passed" in outcome.stdout


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


def test_a_file_of_traces_has_nothing_else() -> None:
    """Values that are not traces, or of another form, are named with their line, and the traces are read."""
    other, broken = langsmith(SCRIPT)[0], {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}
    done = convert(lines(otlp(SCRIPT), CHAT, other, broken) + b"{\n")

    assert (done.exit_code, [json.loads(line)["id"] for line in done.stdout.splitlines()]) == (1, [SCRIPT.trace])
    assert [line[: len("warning: <stdin>:2: $")] for line in done.stderr.splitlines()[:4]] == [
        f"warning: <stdin>:{number}: $" for number in range(2, 6)
    ]
    spans = {"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "", "name": "x", "attributes": []}]}]}]}
    refused = convert(lines(otlp(SCRIPT), spans), "--from", "otel", "--reject-bad-lines")
    assert refused.stderr.startswith("error: <stdin>:2: $.resourceSpans[0].scopeSpans[0].spans[0]: ")


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
    assert mixed.exit_code == 1
    assert mixed.stderr.count("is a single message") == 2


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
    assert [case.id or case.name for case in cases] == [f"{first} line 1", "x", "b.json line 1", SCRIPT.trace]
    assert "wrote 4 cases with 6 calls to cases.jsonl.gz" in done.stderr


def test_files_of_a_folder_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    """They are counted and named as lines are; without any valid one nothing is written, and all are named."""
    logs, target = tmp_path / "logs", tmp_path / "cases.jsonl"
    logs.mkdir()
    (logs / "a.json").write_bytes(b"id,name\n1,2\n")
    (logs / "b.jsonl").write_bytes(b"{\n{\n")
    arguments = ["convert", str(logs), "--to", str(target)]
    refused = RUNNER.invoke(main, arguments)

    assert (refused.exit_code, target.exists()) == (2, False)
    assert refused.stderr.startswith(f"error: {logs / 'a.json'} looks like CSV")
    assert f"{logs / 'b.jsonl'}: $: not JSON" in refused.stderr
    (logs / "c.jsonl").write_bytes(lines(CHAT, CHAT))
    done = RUNNER.invoke(main, arguments)
    assert done.exit_code == 1
    assert len(read_cases(target)) == 2
    assert f"warning: {logs / 'a.json'} looks like CSV" in done.stderr
    assert "2 lines cannot be read; each was left out" in done.stderr


def test_conversations_have_the_expectations_of_the_run() -> None:
    """They have what a log states; that the run did not come to its own end is said of the last turn."""
    stated = {"expected_tools": [], "ends": "ok", "expected_output": "x", "required_texts": ["x"]}
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "x"}]
    line = {"id": "a", "tags": ["t"], "metadata": {"ticket": 1}, "messages": messages, **stated}
    first, second = written(convert(lines({**line, "ended": True}, {**line, "ended": False}), "--as", "conversations"))

    assert first == {**{name: value for name, value in line.items() if name != "messages"}, "turns": first["turns"]}
    assert [turn["content"] for turn in first["turns"]] == ["Hi", "x"]
    assert run_end(ConversationalTestCase.model_validate(second)) == ("stopped", "the run did not come to its own end")


def _run(text: str, minute: int, *calls: ToolCall, **fields: Any) -> dict[str, Any]:
    start = datetime(2026, 5, 3, 9, minute, tzinfo=timezone.utc)
    run = Run(input=text, calls=list(calls), conversation_id="c", started_at=start, **fields)
    return run.to_test_case().to_dict()


def test_runs_of_one_conversation_are_joined(tmp_path: Path) -> None:
    """In whichever order and file they are; other cases are conversations by themselves, a dialogue of its turns."""
    runs = [_run("Find.", 0, ToolCall(name="find"), tags=["a"]), _run("Book.", 1, ToolCall(name="book"), tags=["b"])]
    alone = {"id": "x", "input": "Hi", "actual_output": "Hello", "tools_called": [], "expected_tools": [{"name": "a"}]}
    dialogue = written(convert(lines(CHAT)))
    (tmp_path / "one.jsonl").write_bytes(lines(runs[1], alone))
    (tmp_path / "two.jsonl").write_bytes(lines(*dialogue, runs[0]))

    talk, single, said = written(RUNNER.invoke(main, ["convert", str(tmp_path), "--to", "-", "--as", "conversations"]))

    assert (talk["id"], talk["tags"]) == ("c", ["b", "a"])
    assert [(turn["content"], [call["name"] for call in turn.get("tools_called", ())]) for turn in talk["turns"]] == [
        *(("Find.", []), ("", ["find"]), ("Book.", []), ("", ["book"])),
    ]
    assert single["expected_tools"] == alone["expected_tools"]
    assert single["turns"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "tools_called": []},
    ]
    (direct,) = written(convert(lines(CHAT), "--as", "conversations"))
    del said["turns"][-1]["metadata"]  # what is known of the run of a case
    assert said["turns"] == direct["turns"]


def test_goldens_stay_goldens() -> None:
    """Those of conversations, too; an eval set of Google's ADK becomes a file of them."""
    goldens: list[Plain] = [{"turns": ["Go.", "Again."]}, {"input": "Go.", "expected_tools": [{"name": "add"}]}]
    uses = {"tool_uses": [{"name": "add", "args": {"a": 1}}]}
    turns = [{"user_content": {"parts": [{"text": text}]}, "intermediate_data": uses} for text in ("Go.", "Again.")]
    expected = [{"name": "add", "input_parameters": {"a": 1}}]
    eval_set = {"eval_cases": [{"eval_id": "sums", "conversation": turns}]}

    assert [one["turns"] for one in written(convert(lines(goldens[0])))] == [goldens[0]["turns"]]
    assert [one["expected_tools"] for one in written(convert(lines(*goldens)))[1:]] == [goldens[1]["expected_tools"]]
    assert written(convert(lines(eval_set))) == [
        {"turns": [{"content": text, "expected_tools": expected} for text in ("Go.", "Again.")], "id": "sums"}
    ]
    assert convert(lines(*goldens), "--as", "conversations").exit_code == 1
