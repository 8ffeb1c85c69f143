"""Reader of Claude Code's logs: session files, `--output-format stream-json`, and messages of the Claude Agent SDK.

Each line wraps a message of Anthropic's form. It differs from a list of those messages in what stands around them: a
response has a line for each of its blocks, results come while it is still being written, lines of sub-agents stand
between those of the agent, a session file keeps the branches that were left, and not every text of the role `user` was
written by the user.

Source: the package `claude-agent-sdk`, `types.py` (messages), `_internal/message_parser.py` (lines of a stream) and
`_internal/sessions.py` (session files: the chain of `parentUuid`, parallel calls beside it, texts that are not shown).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

from toolgrade._internal.message_content import Fields, object_of, part_text, parts_of, text_of
from toolgrade.cases import RunStatus
from toolgrade.formats.messages.anthropic import read_assistant, read_user
from toolgrade.formats.messages.envelopes import token_counts
from toolgrade.formats.messages.field_readers import Notes, list_of
from toolgrade.formats.messages.message import Answer, Entry, ModelMessage, ModelUse, NeutralMessage, UserInput

_Messages: TypeAlias = Iterator[tuple[str, NeutralMessage]]

_HARNESS: Final = re.compile(r"\s*<(local-command-|session-start-hook|tick>|goal>|ide_|system-reminder|task-not|bash-)")
"""Beginnings of texts that Claude Code itself writes in the role of the user."""
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>(?:.*<command-args>(.*?)</command-args>)?", re.DOTALL)
_ADDED: Final = re.compile(r"(?:\s*<(system-reminder|ide_\w+)>.*?</\1>)+\s*(?=\S)", re.DOTALL)
"""What Claude Code adds before the words of the user in one text."""
_INTERRUPTION: Final = "[Request interrupted by user"
_UNKNOWN_TOOL: Final = "<tool_use_error>Error: No such tool available"
_STOPPED: Final = "this call was stopped while running"
_CUT_OFF: Final = (
    *(_INTERRUPTION, "Request was aborted.", "API Error: Request was aborted."),
    *("<tool_use_error>Cancelled: ", "<tool_use_error>Sibling tool call errored"),
)
_REFUSALS: Final = (
    *("The user doesn't want to ", "Permission to ", "Permission for this ", "Permission denied by hook"),
    *("Claude requested permissions to ", "The agent proposed a plan that was rejected"),
    *("PreToolUse:", "Hook PreToolUse:"),
)
"""Beginnings of results of refused calls, and of those cut off, in versions that do not mark them."""


def sessions_of(values: Iterable[object]) -> dict[str, list[object]]:
    """Return the lines of each session by its id; a line without an id belongs to the session that comes next.

    A session that follows the end of another one goes on with it: a session may be resumed under a new id.
    """
    sessions: dict[str, list[object]] = {}
    names: dict[str, str] = {}
    ends: dict[str, str] = {}
    """The last line of each session."""
    waiting: list[object] = []
    for value in values:
        waiting.append(value)
        fields = object_of(value)
        own, uuid = text_of(fields.get("sessionId") or fields.get("session_id")), text_of(fields.get("uuid"))
        if not own or own == "default":  # the SDK's name of the session in what it sends
            continue
        if uuid and own not in names:
            names[own] = next((name for name, end in ends.items() if end == fields.get("parentUuid")), own)
        if uuid:
            ends[names[own]] = uuid
        if _role_of(fields):
            sessions.setdefault(names.get(own, own), []).extend(waiting)
            waiting.clear()
    if waiting:
        sessions.setdefault(next(reversed(sessions), ""), []).extend(waiting)
    return sessions


def read_lines(entries: Iterable[Entry], notes: Notes) -> _Messages:
    """Yield the messages; the calls of a sub-agent come after the call that started it."""
    entries = list(entries)
    sessions = sessions_of(entry for _, entry in entries)
    if len(sessions) > 1:
        first, second = list(sessions)[:2]
        place = next(path for path, entry in entries if entry is sessions[second][0])
        notes.problem(place, f"begins the session {second!r} after {first!r}; a list has one: log each by itself")
    lines = [_Line(path, object_of(entry)) for path, entry in entries]
    for line in lines:
        if "role" in line.fields:
            notes.problem(line.path, "expected a line of a log of Claude Code, got a message with a role")
    yield from _Log(lines, notes).read(None)


class _Line:
    """A line with the message in it."""

    def __init__(self, path: str, fields: Fields) -> None:
        self.fields, self.uuid = fields, str(fields.get("uuid"))
        self.is_of_subagent = bool(fields.get("isSidechain"))
        self.message = _queued_message(fields) or object_of(fields.get("message")) or fields
        self.path = path if self.message is fields else f"{path}.message"
        self.role = _role_of(fields)
        own_id = text_of(self.message.get("id") or fields.get("message_id"))
        self.response_id = own_id if self.role == "assistant" else None
        self.entries: list[tuple[str, Fields]] = []
        self.calls: dict[str, Fields] = {}
        self.text = ""
        is_shown = self.role and not (fields.get("isMeta") or fields.get("isCompactSummary"))
        for index, part in enumerate(parts_of(self.message.get("content")) if is_shown else []):
            block = _typed(part)
            self.entries.append((f"{self.path}.content[{index}]", block))
            self.text += part_text(block) or ""
            if str(block["type"]).endswith("tool_use"):
                self.calls[str(block.get("id"))] = block

    @property
    def answered(self) -> list[str]:
        """The ids of the calls that it answers."""
        return [str(block["tool_use_id"]) for _, block in self.entries if "tool_use_id" in block]


def _role_of(fields: Fields) -> str | None:
    kind = fields.get("type")
    if kind in ("user", "assistant"):
        return str(kind)
    if _queued_message(fields):
        return "user"
    if "content" in fields and kind != "system":  # a message of the SDK, which has its class as its type
        return "assistant" if "model" in fields else "user"
    return "result" if "num_turns" in fields else None


def _queued_message(fields: Fields) -> Fields:
    """Return the message that the user typed while the agent worked; nothing if the line has none."""
    queued = object_of(fields.get("attachment"))
    is_typed = queued.get("commandMode") in (None, "prompt") and not queued.get("isMeta")
    is_typed &= object_of(queued.get("origin")).get("kind", "human") == "human"
    return {"content": queued.get("prompt")} if is_typed and queued.get("type") == "queued_command" else {}


def _typed(block: object) -> Fields:
    """Return a block of content with its type, which blocks of the SDK do not have, and its own text alone."""
    fields = {"text": block} if isinstance(block, str) else object_of(block)
    added = _ADDED.match(str(fields.get("text")))
    if added is not None:
        fields = {**fields, "text": str(fields["text"])[added.end() :]}
    kinds = {"tool_use_id": "tool_result", "input": "tool_use", "thinking": "thinking"}
    return {"type": next((kind for key, kind in kinds.items() if key in fields), "text"), **fields}


class _Log:
    """The lines of a log, by the id of the call that started their agent; `None` for the agent itself."""

    def __init__(self, lines: list[_Line], notes: Notes) -> None:
        self._notes = notes
        self._calls = dict(chain.from_iterable(line.calls.items() for line in lines))
        roles = [line.role for line in lines]
        self._has_agent, self._results = "assistant" in roles, roles.count("result")
        denials = chain.from_iterable(list_of(line.fields.get("permission_denials")) for line in lines)
        self._denied = {str(object_of(one).get("tool_use_id")) for one in denials}
        self._responses = self._by_agent(_without_abandoned(lines))
        of_user = [line.text for line in lines if line.role == "user" and not line.fields.get("parent_tool_use_id")]
        self._has_texts = any(text and not (_HARNESS.match(text) or text.startswith(_INTERRUPTION)) for text in of_user)
        self._turn_begins = self._results > 1
        self._command: tuple[str, UserInput] | None = None

    def _by_agent(self, lines: list[_Line]) -> dict[str | None, list[list[_Line]]]:
        """Return the lines of each agent, those of one response together."""
        by_agent: dict[str | None, list[list[_Line]]] = {}
        responses: dict[Any, list[_Line]] = {}
        agents: dict[str, str | None] = {}
        is_own_file = all(line.is_of_subagent for line in lines if line.role)
        for line in lines:
            agent = text_of(line.fields.get("parent_tool_use_id"))
            if line.is_of_subagent and not is_own_file:
                agent = agents.get(str(line.fields.get("parentUuid"))) or self._call_that_starts(line, agents)
                agents[line.uuid] = agent
            key = (agent, line.response_id) if line.response_id else id(line)
            if key not in responses:
                responses[key] = []
                by_agent.setdefault(agent, []).append(responses[key])
            responses[key].append(line)
        callers = {None, *self._calls}
        lost = [one[0].path for agent, all_of_it in by_agent.items() if agent not in callers for one in all_of_it]
        self._notes.warn_once(lost, "is of a sub-agent whose start is not in the log; its calls were left out")
        return by_agent

    def _call_that_starts(self, first: _Line, agents: dict[str, str | None]) -> str:
        """Return the id of the call that starts the sub-agent with this first line, its prompt."""
        ids = (one for one, call in self._calls.items() if object_of(call.get("input")).get("prompt") == first.text)
        return next((call_id for call_id in ids if call_id not in agents.values()), "")

    def read(self, agent: str | None) -> _Messages:
        """Yield the messages of an agent; of a sub-agent only calls and their results."""
        for lines in self._responses.pop(agent, ()):
            if lines[0].role == "assistant":
                yield from self._read_response(lines, agent)
            elif lines[0].role == "user":
                yield from self._read_user(lines[0], agent)
            elif lines[0].role == "result":
                yield from self._read_only_result(lines[0])
                yield lines[0].path, ModelUse(None, token_counts(lines[0].fields), _end_of(lines[0].fields))
                self._turn_begins = True

    def _read_only_result(self, line: _Line) -> _Messages:
        """Yield the answer in a result whose messages are not in the log, as in the output format `json`.

        After one turn it is the first message of the model, so that there were no calls.
        """
        text = text_of(line.fields.get("result"))
        if text and not self._has_agent and _end_of(line.fields)[0] is RunStatus.OK:
            if line.fields.get("num_turns") != 1:
                self._notes.problem(
                    line.path, "has the answer without the calls before it; log the format `stream-json`"
                )
            yield from self._begin_turn(line.path)
            yield line.path, ModelMessage(text)

    def _read_response(self, lines: list[_Line], agent: str | None) -> _Messages:
        path = lines[0].path
        is_of_model = lines[-1].message.get("model") != "<synthetic>"  # written by Claude Code
        is_error = lines[0].fields.get("isApiErrorMessage") or lines[0].fields.get("error")
        if agent is None and (is_of_model or is_error):
            yield from self._begin_turn(path)
        if is_of_model:
            yield from self._read_model(lines, agent)
        elif is_error:
            yield path, ModelUse(None, end=(RunStatus.ERROR, lines[0].text))

    def _begin_turn(self, path: str) -> _Messages:
        """Yield the command that the agent answers, or an empty text: the SDK does not repeat what the user said."""
        if self._command is not None:
            yield self._command
        elif self._turn_begins and not self._has_texts:
            yield path, UserInput("")
        self._command, self._turn_begins = None, False

    def _read_model(self, lines: list[_Line], agent: str | None) -> _Messages:
        path, message = lines[0].path, lines[-1].message
        usage = {} if self._results else token_counts(message)  # results have those of all responses
        entries = chain.from_iterable(line.entries for line in lines)
        for place, one in read_assistant(list(entries), path, self._notes):
            if not isinstance(one, ModelMessage):
                yield place, one
                continue
            for call in one.calls:
                call.caller = agent or call.caller
            if one.calls or agent is None:
                parts = one.calls if agent else one.parts
                yield place, ModelMessage(parts, None, text_of(message.get("model")), usage)
            for call in one.calls:
                yield from self.read(call.id) if call.id else ()

    def _read_user(self, line: _Line, agent: str | None) -> _Messages:
        if agent is None and line.text:
            self._command = None  # the agent did not answer it: Claude Code runs commands such as /cost itself
        entries = [(place, block) for place, block in line.entries if not _HARNESS.match(part_text(block) or "")]
        for place, message in read_user(entries, line.path, self._notes):
            if isinstance(message, Answer):
                self._complete(message, line.fields)
                yield place, message
            elif isinstance(message, UserInput) and agent is None:
                command = _COMMAND.search(message.text)
                if command is not None:
                    self._command = (place, UserInput(" ".join(filter(None, command.groups()))))
                elif message.text.startswith(_INTERRUPTION):
                    yield place, ModelUse(None, end=(RunStatus.STOPPED, "interrupted by the user"))
                else:
                    yield place, message

    def _complete(self, answer: Answer, line: Fields) -> None:
        """Set what a failed answer says besides its text: that a call was refused, cut off, or of an unknown tool."""
        if not answer.failed:
            return
        text, call_id = str(answer.content), str(answer.call_id)
        answer.unknown_tool = text.startswith(_UNKNOWN_TOOL)
        # A server chooses its own texts, so they say nothing of what Claude Code did; it does not name its tool so.
        name = str(self._calls.get(call_id, {}).get("name"))
        if name.startswith("mcp__") and name not in text:
            text = ""
        kinds = (object_of(one).get("non_execution_kind") for one in list_of(line.get("tool_result_meta")))
        kind = line.get("toolDenialKind") or next(kinds, None)
        if kind in ("interrupted", "cancelled") or text.startswith(_CUT_OFF) or _STOPPED in text:
            answer.cancelled = True
        elif kind or call_id in self._denied or text.startswith(_REFUSALS):
            answer.approved = False


def _end_of(result: Fields) -> tuple[RunStatus, str | None]:
    kind = str(result.get("subtype"))
    if kind == "success" and not result.get("is_error"):
        return RunStatus.OK, None
    error = "; ".join(map(str, list_of(result.get("errors")))) or text_of(result.get("result")) or kind
    return (RunStatus.STOPPED if kind.startswith("error_max_") else RunStatus.ERROR), error


def _without_abandoned(lines: list[_Line]) -> list[_Line]:
    """Return the lines without the branches that the user left by going back.

    The chain from the last message to the first leaves out parallel calls and their results.
    """
    places = _chain_of(lines)
    responses = {lines[place].response_id for place in places} - {None}
    calls = {call_id for line in lines if line.response_id in responses for call_id in line.calls}
    return [
        line
        for place, line in enumerate(lines)
        if place in places
        or line.response_id in responses
        or not calls.isdisjoint(line.answered)
        or line.is_of_subagent
        or not line.role
    ]


def _chain_of(lines: list[_Line]) -> set[int]:
    """Return the places of the last message, its parent, and so on; all places if no line has a parent."""
    if not any("parentUuid" in line.fields for line in lines):
        return set(range(len(lines)))
    places = {line.uuid: place for place, line in enumerate(lines)}
    place = max((place for place, line in enumerate(lines) if line.entries and not line.is_of_subagent), default=-1)
    visited: set[int] = set()
    while place >= 0 and place not in visited:
        visited.add(place)
        parent = _parent_of(lines[place].fields)
        # A line whose parent is not in the file, or that names none, follows the line before it.
        place = -1 if parent is None else places.get(parent, place - 1)
    return visited


def _parent_of(fields: Fields) -> str | None:
    """Return the id of the line before a line: `None` if it is the first, empty if it names none."""
    parent = fields.get("parentUuid") or fields.get("logicalParentUuid")
    return None if not parent and "parentUuid" in fields else str(parent or "")
