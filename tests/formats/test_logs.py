"""Logs of agents: Claude Code and its Agent SDK, sessions and eval sets of Google's Agent Development Kit.

The files in `logs` were written by Claude Code 2.1.332, claude-agent-sdk and google-adk 2.13.0 with scripted models;
what says nothing of calls was cut out of them. The lines of Claude Code below follow what `_internal/sessions.py` of
its SDK reads, for older versions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolgrade import ConversationalTestCase, Golden, read_cases
from toolgrade.calls import ToolCall
from toolgrade.cases import Run, RunStatus
from toolgrade.cli.inputs import expand
from toolgrade.errors import DataFileError, InvalidDataError
from toolgrade.formats import read
from toolgrade.inputs import Reading, read_entries

LOGS = Path(__file__).parent / "logs"

Plain = dict[str, Any]


def brief(call: ToolCall) -> tuple[Any, ...]:
    """Turn, name, status, step and children."""
    how = call.execution
    assert how is not None
    children = tuple(f"{one.name} {one.output}" for one in how.children)
    return call.turn, call.name, how.status.value, how.step, *children


def run_of(path: Path) -> Run:
    """The run of the only case of a file."""
    (case,) = read_cases(path)
    assert case.run is not None
    assert case.run.warnings == []
    return case.run


def turns_of(path: Path) -> list[tuple[str, str]]:
    """Role and text of each turn of the only conversation of a file."""
    (entry,) = read_entries(path, Reading(unit="conversations"))
    (conversation,) = entry.cases
    assert isinstance(conversation, ConversationalTestCase)
    return [(turn.role, turn.content) for turn in conversation.turns]


RECORDED: dict[str, tuple[list[tuple[Any, ...]], tuple[str | None, str | None], RunStatus, int]] = {
    "claude-code-session.jsonl": (
        [
            *((1, "Bash", "ok", 0), (1, "Read", "ok", 0), (2, "Bash", "error", 1), (3, "Write", "rejected", 2)),
            *((4, "Agent", "ok", 3), (5, "Nosuch", "unknown_tool", 4)),
        ],
        ("PAR what is 1+2?", "No such tool."),
        RunStatus.OK,
        110,
    ),
    "claude-code-rewound.jsonl": (
        [(1, "Bash", "error", 0), (2, "mcp__calc__add", "unknown_tool", 1), (2, "Bash", "ok", 2)],
        ("BOOM list", "3 and 12."),
        RunStatus.OK,
        50,
    ),
    "claude-code-commands.jsonl": (
        [(None, "Bash", "ok", 0), (None, "Read", "ok", 0)],
        ("/hello world", "It is 3."),
        RunStatus.OK,
        20,
    ),
    "claude-code-stream.jsonl": (
        [(None, "Agent", "ok", 0, "Bash 2 notes.txt")],
        (None, "Two lines."),
        RunStatus.OK,
        30,
    ),
    "claude-agent-sdk.json": (
        [
            *((1, "mcp__calc__add", "ok", 0), (1, "Bash", "ok", 1)),
            *((2, "Write", "rejected", 2), (3, "Bash", "cancelled", 3)),
        ],
        (None, None),
        RunStatus.ERROR,
        60,
    ),
}
"""Calls, the words of the user and the agent, the end, and the tokens that went in."""


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_logs(name: str) -> None:
    """Each call is read once, with what became of it, in its turn."""
    calls, words, status, tokens = RECORDED[name]
    run = run_of(LOGS / name)
    assert [brief(call) for call in run.calls] == calls
    assert (run.input, run.actual_output) == words
    assert (run.status, (run.usage or {})["input_tokens"], run.models) == (status, tokens, ["claude-sonnet-4-5"])


def test_each_question_is_a_turn() -> None:
    """Notices of finished work and results of tools begin no turn."""
    users = [text for role, text in turns_of(LOGS / "claude-code-session.jsonl") if role == "user"]
    assert users == ["PAR what is 1+2?", "BOOM list it", "DENY write it", "SUB count lines", "NOSUCH"]
    assert turns_of(LOGS / "claude-agent-sdk.json")[:3] == [("user", ""), ("assistant", "3 and 12."), ("user", "")]


def test_ends_of_turns() -> None:
    """Only the turn that was interrupted, or failed, ends so."""
    runs = read(json.loads((LOGS / "claude-agent-sdk.json").read_text(encoding="utf-8"))).turns
    ends = [(run.status.value, run.error) for run in runs]
    failed = ("error", "API Error: 400 too long")
    assert ends == [("ok", None), ("ok", None), ("stopped", "interrupted by the user"), failed, failed]


@pytest.mark.parametrize("form", ["list", "lines", "with the class", "without what is not set"])
def test_forms_of_messages_of_the_sdk(form: str, tmp_path: Path) -> None:
    """They read alike without the system's messages, too: a list, a line each, with their class, and as objects."""
    messages = json.loads((LOGS / "claude-agent-sdk.json").read_text(encoding="utf-8"))
    messages = [one for one in messages if "data" not in one]
    if form == "with the class":
        messages = [{"type": "AssistantMessage" if "model" in one else "UserMessage", **one} for one in messages]
    if form == "without what is not set":
        messages = [{key: value for key, value in one.items() if value is not None} for one in messages]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(messages) if form == "list" else "\n".join(map(json.dumps, messages)), encoding="utf-8")
    assert [brief(call) for call in run_of(path).calls] == RECORDED["claude-agent-sdk.json"][0]


def said(text: Any, **more: Any) -> Plain:
    """A line of the user."""
    return {"type": "user", "sessionId": "s", "message": {"role": "user", "content": text}, **more}


def asks(call_id: str, name: str = "Bash", arguments: Plain | None = None, **more: Any) -> Plain:
    """A line of the agent with a call."""
    block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {}}
    return {"type": "assistant", "sessionId": "s", "message": {"role": "assistant", "content": [block]}, **more}


def gets(call_id: str, text: str = "done", *, failed: bool = False, **more: Any) -> Plain:
    """A line with the result of a call."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": failed}
    return said([block], **more)


def answers(text: str, **more: Any) -> Plain:
    """A line of the agent with a text."""
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "sessionId": "s", "message": {"role": "assistant", "content": content}, **more}


def link(lines: list[Plain]) -> list[Plain]:
    """The lines as a chain, each after the one before it, unless they say otherwise."""
    ids = [None, *map(str, range(len(lines)))]
    links = [{"uuid": str(number), "parentUuid": ids[number]} for number in range(len(lines))]
    # Snapshots of files have neither; the line of a summary names another parent.
    bare = [line["type"] in ("file-history-snapshot", "system") for line in lines]
    return [line if bare[number] else {**links[number], **line} for number, line in enumerate(lines)]


REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"
PROMPT = {"prompt": "Count the lines."}


@dataclass
class Scene:
    """Lines, and what is read of them: calls, and the words of the user and the agent."""

    lines: list[Plain]
    calls: list[tuple[Any, ...]]
    words: tuple[str | None, str | None] = ("Go.", "Done.")


SCENES = {
    "lines of a sub-agent between those of the agent": Scene(
        [
            *(said("Go."), asks("t1", "Task", PROMPT)),
            *(said("Count the lines.", isSidechain=True, parentUuid=None), asks("t2", isSidechain=True)),
            *(gets("t2", "2", isSidechain=True), answers("Two.", isSidechain=True)),
            *(gets("t1", "Two.", parentUuid="1"), answers("Done.")),
        ],
        [(None, "Task", "ok", 0, "Bash 2")],
    ),
    "two sub-agents with one prompt": Scene(
        [
            *(said("Go."), asks("t1", "Task", PROMPT), asks("t2", "Task", PROMPT)),
            *(said("Count the lines.", isSidechain=True, parentUuid=None), asks("t3", isSidechain=True)),
            *(said("Count the lines.", isSidechain=True, parentUuid=None), asks("t4", "Read", isSidechain=True)),
            *(gets("t3", "2", isSidechain=True, parentUuid="4"), gets("t4", "3", isSidechain=True, parentUuid="6")),
            *(gets("t1", parentUuid="2"), gets("t2"), answers("Done.")),
        ],
        [(None, "Task", "ok", 0, "Bash 2"), (None, "Task", "ok", 1, "Read 3")],
    ),
    "a branch that the user left": Scene(
        [said("Go."), asks("t1"), gets("t1"), answers("Hm."), said("Go.", parentUuid=None), answers("Done.")], []
    ),
    "what came before a summary": Scene(
        [
            *(said("Go."), asks("t1"), gets("t1")),
            {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "logicalParentUuid": "2"},
            *(said("This session continues ...", isCompactSummary=True), answers("Done.")),
        ],
        [(None, "Bash", "ok", 0)],
    ),
    "a parent that is not in the file": Scene(
        [said("Go."), asks("t1"), gets("t1", parentUuid="lost"), answers("Done.")], [(None, "Bash", "ok", 0)]
    ),
    "a parent before a summary alone": Scene(
        [
            *(said("Go."), asks("t1"), gets("t1"), asks("left")),
            {"type": "system", "subtype": "compact_boundary", "logicalParentUuid": "2"},
            *(said("This session continues ...", isCompactSummary=True), answers("Done.")),
        ],
        [(None, "Bash", "ok", 0)],
    ),
    "a line without a parent before such a line": Scene(
        [said("Go."), asks("t1"), gets("t1"), {"type": "file-history-snapshot"}, answers("Done.", parentUuid="lost")],
        [(None, "Bash", "ok", 0)],
    ),
    "a refusal that older versions do not mark": Scene(
        [said("Go."), asks("t1"), gets("t1", REFUSED, failed=True), answers("Done.")], [(None, "Bash", "rejected", 0)]
    ),
    "a server that writes the text of a refusal": Scene(
        [said("Go."), asks("t1", "mcp__calc__add"), gets("t1", REFUSED, failed=True), answers("Done.")],
        [(None, "mcp__calc__add", "error", 0)],
    ),
    "a refusal of a tool of a server": Scene(
        [
            *(said("Go."), asks("t1", "mcp__calc__add")),
            gets(
                "t1", "Claude requested permissions to use mcp__calc__add, but you haven't granted it yet.", failed=True
            ),
            answers("Done."),
        ],
        [(None, "mcp__calc__add", "rejected", 0)],
    ),
    "a refusal that is marked": Scene(
        [
            *(said("Go."), asks("t1", "mcp__calc__add")),
            *(gets("t1", "No.", failed=True, toolDenialKind="permission-rule"), answers("Done.")),
        ],
        [(None, "mcp__calc__add", "rejected", 0)],
    ),
    "a call that was cut off": Scene(
        [said("Go."), asks("t1"), gets("t1", "", failed=True, toolDenialKind="cancelled"), answers("Done.")],
        [(None, "Bash", "cancelled", 0)],
    ),
    "a command that the agent does not see": Scene(
        [
            said("<command-name>/model</command-name><command-args>opus</command-args>"),
            *(said("<local-command-stdout>Set.</local-command-stdout>"), said("Go."), answers("Done.")),
        ],
        [],
    ),
    "a file that the editor shows": Scene(
        [
            said(
                [{"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"}, {"type": "text", "text": "Go."}]
            ),
            answers("Done."),
        ],
        [],
    ),
    "the file of a sub-agent": Scene(
        [said("Go.", isSidechain=True), asks("t1", isSidechain=True), answers("Done.", isSidechain=True)],
        [(None, "Bash", "not_executed", 0)],
    ),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_lines_of_a_session(scene: Scene, tmp_path: Path) -> None:
    """What stands around the messages decides which of them count, and whose they are."""
    path = tmp_path / "session.jsonl"
    lines = [{"type": "summary", "summary": "Go", "leafUuid": "1"}, *link(scene.lines)]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    run = run_of(path)
    assert ([brief(call) for call in run.calls], (run.input, run.actual_output)) == (scene.calls, scene.words)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Claude requested permissions to write to /etc/hosts, but you haven't granted it yet.", "rejected"),
        ("PreToolUse:Bash hook error: [./check.sh]: not on a Friday", "rejected"),
        ("Hook PreToolUse:Bash denied this tool", "rejected"),
        ("<tool_use_error>Cancelled: parallel tool call Read(a.py) errored</tool_use_error>", "cancelled"),
        ("Request was aborted.", "cancelled"),
        ("Exit code 1\nPreToolUse: no such file", "error"),
    ],
)
def test_texts_of_calls_that_were_not_made(text: str, status: str) -> None:
    """Session files of many versions show it by the text alone."""
    run = read([said("Go."), asks("t1"), gets("t1", text, failed=True), answers("Done.")]).run
    assert [brief(call)[2] for call in run.calls] == [status]


def queued(prompt: Any, **more: Any) -> Plain:
    """A line with what waited for the agent."""
    return {"type": "attachment", "sessionId": "s", "attachment": {"type": "queued_command", "prompt": prompt, **more}}


def test_words_of_the_user_while_the_agent_works() -> None:
    """They are a turn; what the harness queues is none."""
    harness = (
        queued("x", commandMode="task-notification"),
        queued("x", isMeta=True),
        queued("x", origin={"kind": "peer"}),
    )
    for prompt in ("And B.", [{"type": "text", "text": "And B."}]):
        lines = [said("Go."), asks("t1"), gets("t1"), *harness, queued(prompt, commandMode="prompt"), answers("Done.")]
        assert [run.input for run in read(link(lines)).turns] == ["Go.", "And B."]


@pytest.mark.parametrize("content", ["{}", [{"type": "text", "text": "{}"}]], ids=["text", "block"])
def test_words_of_the_user_after_what_is_added_to_them(content: Any) -> None:
    """Only the words count."""
    added = "<system-reminder>\nToday is Monday.\n</system-reminder>\n<ide_selection>a.py</ide_selection>\n"
    for text, words in ((f"{added}Go.", "Go."), (added, None)):
        line = json.loads(json.dumps(said(content)).replace("{}", json.dumps(text)[1:-1]))
        assert read([line, answers("Done.")]).run.input == words


def test_the_result_alone() -> None:
    """The output format `json` has the answer without the calls before it, which must not read as none."""
    result = {"type": "result", "subtype": "success", "num_turns": 1, "session_id": "s", "result": "Done."}
    run = read(result).run
    assert (run.calls, run.actual_output, run.warnings) == ([], "Done.", [])
    with pytest.raises(
        InvalidDataError, match="has the answer without the calls before it; log the format `stream-json`"
    ):
        read({**result, "num_turns": 3})
    failed = read({**result, "is_error": True, "result": "Not logged in"}).run
    assert (failed.actual_output, failed.status, failed.error) == (None, RunStatus.ERROR, "Not logged in")


def in_session(session: str, key: str, lines: list[Plain]) -> list[Plain]:
    """The lines with the id of their session under this key, but for the words of the user, which have none."""
    bare = [{name: value for name, value in line.items() if name != "sessionId"} for line in lines]
    return [line if line["type"] == "user" else {**line, key: session} for line in bare]


@pytest.mark.parametrize("key", ["sessionId", "session_id"])
def test_sessions_in_one_file(key: str, tmp_path: Path) -> None:
    """Each one is a conversation with its id; a list is one, so that two in it are an error."""
    first = in_session("wipe", key, [said("Go."), asks("t1"), answers("Gone.")])
    second = in_session("hello", key, [said("Hi."), answers("Hello.")])
    if key == "sessionId":
        first, second = link(first), [{**line, "uuid": f"h{line['uuid']}"} for line in link(second)]
        second[1]["parentUuid"] = "h0"
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(map(json.dumps, [*first, *second])) + "\n", encoding="utf-8")
    read_back = [(case.id, case.input, len(case.tools_called or [])) for case in read_cases(path)]
    assert read_back == [("wipe", "Go.", 1), ("hello", "Hi.", 0)]
    with pytest.raises(InvalidDataError, match=r"^\$\[3\]: begins the session 'hello' after 'wipe'; "):
        read([*first, *second])


def test_a_session_that_got_another_id() -> None:
    """It goes on with the session whose end it follows, not with one that it leaves; lines of no message are none."""
    lines = link([said("Go."), asks("t1"), gets("t1"), answers("Done.")])
    lines[2]["sessionId"] = lines[3]["sessionId"] = "s2"
    run = read([*lines, {"type": "queue-operation", "sessionId": "s3"}]).run
    assert ([call.name for call in run.calls], run.actual_output) == (["Bash"], "Done.")
    with pytest.raises(InvalidDataError, match="begins the session 's4' after 's'"):
        read([*lines, {**answers("Bye."), "uuid": "9", "parentUuid": "0", "sessionId": "s4"}])


def test_errors_of_the_api_in_older_versions() -> None:
    """The text is not one of the model."""
    failure = answers("API Error: 500", isApiErrorMessage=True)
    failure["message"]["model"] = "<synthetic>"
    run = read([said("Go."), asks("t1"), gets("t1"), failure]).run
    assert (run.status, run.error, run.actual_output) == (RunStatus.ERROR, "API Error: 500", None)
    run = read([said("Go."), answers("Done."), said("And?"), failure]).run
    assert (run.status, run.actual_output) == (RunStatus.ERROR, None)


def test_a_folder_of_sessions(tmp_path: Path) -> None:
    """What is kept beside the session of a sub-agent is no run."""
    folder = tmp_path / "s" / "subagents"
    folder.mkdir(parents=True)
    for path in (tmp_path / "s.jsonl", folder / "agent-1.jsonl"):
        path.write_bytes((LOGS / "claude-code-commands.jsonl").read_bytes())
    (folder / "agent-1.meta.json").write_text('{"agentType": "general-purpose"}', encoding="utf-8")
    assert [Path(name).name for name in expand([str(tmp_path)], "")] == ["agent-1.jsonl", "s.jsonl"]


def test_results_between_the_lines_of_one_response() -> None:
    """A response is one message, with one step, although a tool returned before its last line."""
    lines = [said("Go."), asks("t1"), gets("t1"), asks("t2", "Read"), gets("t2"), answers("Done.")]
    for place in (1, 3):
        lines[place]["message"]["id"] = "m1"
    run = read(lines, format="claude-code").run
    assert [brief(call) for call in run.calls] == [(None, "Bash", "ok", 0), (None, "Read", "ok", 0)]


def test_a_subagent_without_its_start_is_a_warning() -> None:
    """Its calls are not those of the agent."""
    run = read([said("Go."), asks("t2", isSidechain=True), answers("Done.")]).run
    assert run.calls == []
    assert run.warnings == ["$[1].message: is of a sub-agent whose start is not in the log; its calls were left out"]


def test_other_messages_among_the_lines_are_refused(tmp_path: Path) -> None:
    """A message or a case in such a file must not read as a line that says nothing."""
    for other in ({"role": "user", "content": "And?"}, {"input": "And?", "tools_called": []}):
        path = tmp_path / "mixed.jsonl"
        path.write_text("\n".join(map(json.dumps, [said("Go."), answers("Done."), other])) + "\n", encoding="utf-8")
        with pytest.raises(DataFileError):
            read_cases(path)


def test_a_long_session_is_read_in_one_pass() -> None:
    """Thousands of calls of one tool stay what they are."""
    lines = [said("Go.")]
    for number in range(3000):
        lines += [asks(f"t{number}", arguments={"command": f"echo {number}"}), gets(f"t{number}", str(number))]
    run = read(link([*lines, answers("Done.")])).run
    assert [call.output for call in run.calls] == [str(number) for number in range(3000)]


ADK: dict[str, tuple[list[tuple[Any, ...]], str | None, str]] = {
    "turns": ([(1, "add", "ok", 0), (1, "now", "ok", 0), (2, "boom", "error", 1)], "It failed.", "ok"),
    "transfer": ([(1, "transfer_to_agent", "ok", 0), (1, "add", "ok", 1)], "Bye.", "ok"),
    "agent_tool": ([(None, "helper", "ok", 0)], "It is 3.", "ok"),
    "waits": ([(None, "ask_person", "pending", 0)], None, "interrupted"),
    "waited": ([(None, "ask_person", "ok", 0)], "I asked.", "ok"),
    "confirm": ([(None, "pay", "pending", 0)], None, "interrupted"),
    "confirmed": ([(None, "pay", "ok", 0)], "Done.", "ok"),
    "rejected": ([(None, "pay", "rejected", 0)], "Done.", "ok"),
    "order": ([(None, "order", "ok", 0)], "Shipped.", "ok"),
    "rewound": ([(1, "now", "ok", 0)], "Bye.", "ok"),
    "unknown": ([(None, "nosuch", "unknown_tool", 0)], "Sorry.", "ok"),
    "raises": ([(None, "bad", "not_executed", 0)], None, "error"),
    "stopped": ([(None, "add", "ok", 0)], None, "stopped"),
    "schema": ([(None, "add", "ok", 0)], '{"total": 3}', "ok"),
}
"""Calls, the answer and the end of each session, by its id."""


def test_adk_sessions() -> None:
    """Each session is a case with its id; what the kit asks a person, and the structured answer, are no calls."""
    cases = read_cases(LOGS / "adk-sessions.jsonl")
    assert [case.id for case in cases] == [*ADK]
    for case in cases:
        assert case.run is not None
        assert case.run.warnings == []
        read_back = ([brief(call) for call in case.run.calls], case.run.actual_output, case.run.status.value)
        assert read_back == ADK[str(case.id)], case.id


def test_answers_of_adk_sessions() -> None:
    """The last answer of a long-running tool counts, and the agent is the author of its calls."""
    runs = {case.id: case.run for case in read_cases(LOGS / "adk-sessions.jsonl")}
    order, transfer = runs["order"], read(json.loads((LOGS / "adk-session.json").read_text(encoding="utf-8"))).run
    assert order is not None
    assert (order.calls[0].output, runs["transfer"]) == ({"status": "shipped"}, transfer)
    assert [call.name for call in transfer.tools_called] == ["add"]
    assert [call.execution and call.execution.agent for call in transfer.calls] == ["boss", "helper"]
    handoffs = [(one.call, one.from_agent, one.to_agent) for one in transfer.handoffs]
    assert (handoffs, transfer.usage) == (
        [(0, "boss", "helper")],
        {"input_tokens": 40, "output_tokens": 20, "total_tokens": 60},
    )


@pytest.mark.parametrize("form", ["lines", "list"])
def test_adk_events_without_their_session(form: str, tmp_path: Path) -> None:
    """Events alone are the session; pieces of a streamed text are not."""
    first = (LOGS / "adk-sessions.jsonl").read_text(encoding="utf-8").splitlines()[0]
    events = json.loads(first)["events"]
    piece = {**events[-1], "partial": True}
    events.insert(-1, piece)
    path = tmp_path / "events.json"
    path.write_text("\n".join(map(json.dumps, events)) if form == "lines" else json.dumps(events), encoding="utf-8")
    run = run_of(path)
    assert ([brief(call) for call in run.calls], run.actual_output) == ADK["turns"][:2]
    assert run.agent_texts == ["Adding.", "It is 3.", "It failed."]


def test_a_piece_of_a_stream_may_ask_for_a_confirmation() -> None:
    """The whole event may come without the question."""
    call = {"functionCall": {"id": "1", "name": "pay", "args": {}}}
    refusal = {"functionResponse": {"id": "1", "name": "pay", "response": {"error": "This tool call is rejected."}}}
    asking = {"partial": True, "actions": {"requestedToolConfirmations": {"1": {}}}}
    events = [
        {"author": "boss", "invocationId": "e1", **more}
        for more in ({"content": {"parts": [call]}}, asking, {"content": {"parts": [refusal]}})
    ]
    (call_read,) = read(events).run.calls
    assert call_read.execution is not None
    assert call_read.execution.status.value == "rejected"


def test_a_failure_that_the_agent_survived() -> None:
    """Only how the last response ended counts."""
    first = (LOGS / "adk-sessions.jsonl").read_text(encoding="utf-8").splitlines()[0]
    events = json.loads(first)["events"]
    failure = {"author": "boss", "invocationId": "e1", "errorCode": "503", "errorMessage": "busy"}
    assert read([*events[:-1], failure, events[-1]]).run.status is RunStatus.OK
    assert read([*events[:-1], failure]).run.error == "busy"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"errorCode": "MALFORMED_FUNCTION_CALL", "errorMessage": "Malformed function call: f("},
            "Malformed function call: f(",
        ),
        ({"finish_reason": "UNEXPECTED_TOOL_CALL", "content": {"parts": [{"text": "Hm"}]}}, "UNEXPECTED_TOOL_CALL"),
    ],
)
def test_a_call_that_the_api_could_not_read(more: Plain, text: str) -> None:
    """It is an invalid call, as in Gemini's messages; one that is in the event is none."""
    event = {"author": "boss", "invocationId": "e1", **more}
    run = read([event]).run
    (call,) = run.calls
    assert call.execution is not None
    assert (call.execution.status.value, call.execution.requested_parameters) == ("invalid_arguments", text)
    assert (call.execution.agent, run.status, run.error) == ("boss", RunStatus.STOPPED, text)
    content = {"parts": [{"functionCall": {"name": "add", "args": {}}}]}
    assert [call.name for call in read([{**event, "content": content}]).run.calls] == ["add"]


GOLDENS = [
    {
        "input": "Add 1 and 2.",
        "id": "one",
        "expected_output": "It is 3.",
        "expected_tools": [{"name": "add", "input_parameters": {"a": 1, "b": 2}}],
    },
    {
        "turns": [
            {
                "content": "Add 1 and 2.",
                "expected_tools": [
                    {"name": "add", "input_parameters": {"a": 1, "b": 2}},
                    {"name": "now", "input_parameters": {}},
                ],
            },
            {"content": "Now fail.", "expected_tools": [{"name": "boom", "input_parameters": {}}]},
        ],
        "id": "two",
        "expected_output": "It failed.",
    },
    {"input": "Hello.", "id": "silent", "expected_tools": []},
    {"input": "Hello.", "id": "open"},
]


@pytest.mark.parametrize("form", ["snake_case", "camelCase", "several in a list"])
def test_eval_sets_are_goldens(form: str, tmp_path: Path) -> None:
    """Each case is a golden; a hand-over is not an expected call, and no data of calls expects nothing."""
    text = (LOGS / "sums.evalset.json").read_text(encoding="utf-8")
    if form == "camelCase":
        for key in ("eval_id", "user_content", "final_response", "intermediate_data", "tool_uses", "function_call"):
            first, second = key.split("_")
            text = text.replace(key, first + second.capitalize())
        text = text.replace("invocation_events", "invocationEvents").replace("eval_cases", "evalCases")
    path = tmp_path / "sums.json"
    path.write_text(f"[{text}, {text}]" if form == "several in a list" else text, encoding="utf-8")
    goldens = [golden.to_dict() for golden in Golden.load(path)]
    assert goldens == (GOLDENS * 2 if form == "several in a list" else GOLDENS)


def test_scenarios_of_eval_sets(tmp_path: Path) -> None:
    """The plan is the goal of a simulated user; a case with neither is invalid."""
    path = tmp_path / "scene.json"
    scenario = {"starting_prompt": "Hello.", "conversation_plan": "Ask for a refund."}
    path.write_text(json.dumps({"eval_cases": [{"eval_id": "a", "conversation_scenario": scenario}]}), encoding="utf-8")
    (golden,) = Golden.load(path)
    user = {"goal": "Ask for a refund.", "facts": {"first message": "Hello."}}
    assert golden.to_dict() == {"id": "a", "user": user}
    path.write_text(json.dumps({"eval_cases": [{"eval_id": "a"}]}), encoding="utf-8")
    with pytest.raises(DataFileError, match=r"scene\.json: \$\[0\]\.user\.goal: "):
        Golden.load(path)


def test_old_eval_sets_are_an_error(tmp_path: Path) -> None:
    """Their questions must not read as cases without calls."""
    path = tmp_path / "old.test.json"
    path.write_text(json.dumps([{"query": "1+2?", "expected_tool_use": [], "reference": "3"}]), encoding="utf-8")
    for load in (Golden.load, read_cases):
        with pytest.raises(
            DataFileError, match=r"old\.test\.json: \$\[0\]: is an eval of an old ADK; convert the file"
        ):
            load(path)
