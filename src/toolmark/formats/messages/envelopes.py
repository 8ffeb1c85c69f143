"""Where in this value do the messages stand? Lists, requests, responses, and the two together.

What a provider's request or response says beside its messages (tools, model, tokens, an early end) is taken along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from toolmark._internal.json import short_repr, to_json_value
from toolmark.cases import RunStatus
from toolmark.formats.messages.detect import sign_of
from toolmark.formats.messages.field_readers import Notes, as_object
from toolmark.formats.messages.stream_assembly import response_of
from toolmark.formats.messages.transcript import Entry, FormatName, entries

_Fields: TypeAlias = Mapping[str, object]

_TOKENS = {
    "prompt_tokens": "input_tokens",
    "input_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "output_tokens": "output_tokens",
    "total_tokens": "total_tokens",
}

_SAID = ("role", "content", "tool_calls", "function_call")
"""Keys under which a message says what it says; the others differ between a request and the response it repeats."""

_CUT_SHORT = frozenset({"length", "content_filter", "max_tokens", "model_context_window_exceeded", "pause_turn"})
"""Reasons for which a response stops before its end."""


@dataclass
class Held:
    """What a value holds.

    Attributes:
        entries: The messages or items, in their order.
        hints: Formats that the form of the value itself speaks for, with the path and a phrase.
        tools: What the model was offered, as it stands.
        used: Model and tokens of each response.
        end: How the last response says that it ended, where that is not well.
    """

    notes: Notes
    entries: list[Entry] = field(default_factory=list)
    hints: list[tuple[FormatName, str, str]] = field(default_factory=list)
    tools: list[object] = field(default_factory=list)
    used: list[tuple[str | None, dict[str, int]]] = field(default_factory=list)
    end: tuple[RunStatus, str | None] = (RunStatus.OK, None)


def unpack(value: object, path: str, notes: Notes) -> Held:
    """Return what a value holds; what cannot be read is a problem.

    Args:
        value: A list of messages or items; one of them; the events of a stream; the body of a request (`messages`, or
            `input`) or of a response (`choices`, `output`, or a message); both in one object, or under `request` and
            `response`; any of these as an SDK object.
        path: JSON path of the value.
        notes: Takes the problems.
    """
    held = Held(notes)
    _hold(value, path, held)
    if not held.entries and not notes.problems:
        notes.problem(path, "holds no message")
    return held


def _hold(value: object, path: str, held: Held) -> None:
    if isinstance(value, (list, tuple)):
        streamed = response_of(value, path, held.notes)
        held.entries += entries(value, path, held.notes) if streamed is None else []
        value = streamed
        if streamed is None:
            return
    fields = as_object(value)
    if fields is None:
        held.notes.problem(path, f"expected a list of messages, or an object that holds one, got {short_repr(value)}")
    elif "role" in fields or ((sign := sign_of(fields)) is not None and sign.format is not None):
        _hold_message(fields, path, held)
    elif "request" in fields or isinstance(fields.get("body"), Mapping):
        for key in ("request", "response", "body"):
            before = len(held.entries)
            if fields.get(key) is not None:
                _hold(fields[key], f"{path}.{key}", held)
            _drop_repeated(held, before)
    else:
        _hold_body(fields, path, held)


def _hold_message(fields: _Fields, path: str, held: Held) -> None:
    held.entries.append((path, fields))
    if "stop_reason" in fields:
        held.hints.append(("anthropic", path, "a response of Anthropic's Messages API"))
        _note_end(fields.get("stop_reason"), held)
        _note_use(fields, held)


def _hold_body(fields: _Fields, path: str, held: Held) -> None:
    notes = held.notes
    asked = [key for key in ("messages", "input") if fields.get(key) is not None]
    answered = [key for key in ("choices", "output", "response") if fields.get(key) is not None]
    if len(asked) > 1 or len(answered) > 1:
        both = " and ".join(map(repr, asked if len(asked) > 1 else answered))
        notes.problem(path, f"has {both}, which hold the same kind of thing; give one of them")
        return
    if not asked and not answered:
        error = fields.get("error")
        told = f"is an error, not a response: {short_repr(error)}" if error else _unknown(fields)
        notes.problem(path, told)
        return
    _hold_tools(fields, path, held)
    if fields.get("previous_response_id"):
        notes.warn(f"{path}.previous_response_id", "goes on from a response that is not here; its calls are not either")
    for key in (*asked, *answered):
        before = len(held.entries)
        place, content = f"{path}.{key}", fields[key]
        if isinstance(content, str):
            held.entries.append((place, {"role": "user" if key in asked else "assistant", "content": content}))
        elif key == "choices":
            _hold_choices(content, place, held)
        else:
            _hold(content, place, held)
        _drop_repeated(held, before)
    if fields.get("object") == "response":
        held.hints.append(("openai-responses", path, "a response of OpenAI's Responses API"))
        _note_response(fields, held)
    if answered:
        _note_use(fields, held)


def _unknown(fields: _Fields) -> str:
    keys = ", ".join(map(repr, list(fields)[:8]))
    return (
        "expected a list of messages or items, a request ('messages' or 'input'), a response ('choices', 'output' or a "
        f"message), or both; got an object with {f'the keys {keys}' if keys else 'no key'}"
    )


def _hold_choices(choices: object, path: str, held: Held) -> None:
    held.hints.append(("openai-chat", path, "a response of OpenAI's Chat Completions API"))
    if not isinstance(choices, (list, tuple)) or len(choices) != 1:
        number = f"{len(choices)} choices" if isinstance(choices, (list, tuple)) else short_repr(choices)
        told = "choices are alternatives, of which one went on; give the messages of that one"
        held.notes.problem(path, f"expected one choice, got {number}: {told}")
        return
    choice = as_object(choices[0]) or {}
    if "message" not in choice:
        held.notes.problem(f"{path}[0]", f"expected a choice with a message, got {short_repr(choices[0])}")
        return
    held.entries.append((f"{path}[0].message", choice["message"]))
    _note_end(choice.get("finish_reason"), held)


def _drop_repeated(held: Held, before: int) -> None:
    """Drop the messages from a position on, if those just before it are the same: they would count twice.

    No request ends with what its response says; programs that log the list to which they then add the response make it
    look so.
    """
    new = held.entries[before:]
    old = held.entries[max(before - len(new), 0) : before]
    if new and [_essence(entry) for _, entry in old] == [_essence(entry) for _, entry in new]:
        del held.entries[before:]
        held.notes.warn(new[0][0], f"repeats what stands at {old[0][0]}; it counts once")


def _essence(entry: object) -> object:
    """Return what a message or item says, without what a request leaves out of a response that it repeats."""
    fields = as_object(entry) or {}
    keys = _SAID if "role" in fields else [key for key in fields if key not in ("id", "status")]
    return {key: to_json_value(fields[key]) for key in keys if fields.get(key) not in (None, "", [])}


def _hold_tools(fields: _Fields, path: str, held: Held) -> None:
    for key in ("tools", "functions"):
        tools = fields.get(key)
        if isinstance(tools, (list, tuple)):
            held.tools += [tool for tool in tools if tool not in held.tools]
        elif tools is not None:
            held.notes.problem(f"{path}.{key}", f"expected a list of tools, got {short_repr(tools)}")


def _note_use(fields: _Fields, held: Held) -> None:
    model, usage = fields.get("model"), as_object(fields.get("usage")) or {}
    counts = {
        name: count
        for key, name in _TOKENS.items()
        if isinstance(count := usage.get(key), int) and not isinstance(count, bool)
    }
    held.used.append((model if isinstance(model, str) else None, counts))


def _note_end(reason: object, held: Held) -> None:
    held.end = (RunStatus.STOPPED, str(reason)) if reason in _CUT_SHORT else (RunStatus.OK, None)


def _note_response(fields: _Fields, held: Held) -> None:
    status = fields.get("status")
    error, details = as_object(fields.get("error")) or {}, as_object(fields.get("incomplete_details")) or {}
    if status == "failed":
        held.end = RunStatus.ERROR, str(error.get("message") or error.get("code") or status)
    elif status not in (None, "completed"):
        held.end = RunStatus.STOPPED, str(details.get("reason") or status)
