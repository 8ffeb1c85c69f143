"""Envelopes of messages: lists, a stream, requests, responses, and pairs of the two.

What a request or response has besides its messages (tools, model, tokens, an early end) is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from toolgrade._internal.json import JsonObject, short_repr, to_json_value
from toolgrade._internal.message_content import (
    Fields,
    as_object,
    first_of,
    object_of,
    part_text,
    parts_of,
    text_of,
    text_or_empty,
)
from toolgrade.cases import RunStatus
from toolgrade.formats.messages.detect import Hint, evidence_of, is_adk_session
from toolgrade.formats.messages.field_readers import Notes, present_keys, read_list, read_object
from toolgrade.formats.messages.gemini import camel_keys
from toolgrade.formats.messages.message import Entry, Instructions, entries_of
from toolgrade.formats.messages.stream_assembly import assemble_response

if TYPE_CHECKING:
    from toolgrade.formats.messages.transcript import FormatName

_TOKENS = {
    "input_tokens": ("prompt_tokens", "input_tokens", "inputTokens", "promptTokenCount", "prompt_eval_count"),
    "output_tokens": ("completion_tokens", "output_tokens", "outputTokens", "candidatesTokenCount", "eval_count"),
    "total_tokens": ("total_tokens", "totalTokens", "totalTokenCount"),
}

_REQUEST_KEYS = ("messages", "input", "contents")
HISTORY_KEYS: Final = ("automatic_function_calling_history", "automaticFunctionCallingHistory")
"""Keys of what google-genai sent in all for one response: the contents of the request, and the calls that it made."""
_SYSTEM_KEYS = ("system", "instructions", "systemInstruction", "system_instruction")
"""Keys of the system prompt: of Anthropic and Bedrock, of OpenAI's Responses API, and of Gemini."""
_RESPONSE_KEYS = ("choices", "output", "response", "candidates")
_OTHER_RESPONSE_KEYS = ("message", "promptFeedback")
"""Keys of a response, if their value is an object and it has none of the others."""
_HINTS: dict[str, tuple[FormatName, str]] = {
    "choices": ("openai-chat", "a response of OpenAI's Chat Completions API"),
    "contents": ("gemini", "a request of Google's Gemini API"),
}
"""Keys of bodies that are evidence for a format."""

_CONTENT_KEYS = ("role", "content", "parts", "tool_calls", "function_call")
"""Keys with the content of a message; others differ between a request and the response that it repeats."""

_EARLY_ENDS = re.compile(
    "length|content_filter(ed)?|max_tokens|model_context_window_exceeded|pause_turn|guardrail_intervened|"
    "malformed_model_output|malformed_tool_use"
)
"""Reasons for which a response stops before its end."""

_CALL_PARTS = ("toolUse", "functionCall", "function_call")
"""Keys of content parts that are calls."""
LOST_CALLS: Final = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "malformed_tool_use")
"""Reasons of Gemini and Bedrock: the model wrote a call that the API could not read, and left out."""

_CALL_REASON = re.compile(r"(?:^|[ ._-])(?:tool|function)[ _-]?(?:call|use)s?$", re.IGNORECASE)
"""Reasons for which a response ends so that tools are called; servers spell `tool_calls` in their own ways."""


@dataclass
class Envelope:
    """The content of a recorded value.

    `entries` are the messages or items in their order, `hints` the formats that the form of the value is evidence for,
    `tools` the offered tools as they were recorded, `instructions` the system prompt beside the messages, `usage` the
    model and the tokens of each response, and `end` the status and the error of the last response.
    """

    notes: Notes
    entries: list[Entry] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    tools: list[object] = field(default_factory=list)
    instructions: list[Instructions] = field(default_factory=list)
    usage: list[tuple[str | None, dict[str, int]]] = field(default_factory=list)
    end: tuple[RunStatus, str | None] = (RunStatus.OK, None)

    def add(self, value: object, path: str) -> None:
        """Add a list of messages or streamed events, a message, a request, a response, or a pair of the two."""
        if not isinstance(value, (list, tuple)):
            self._add_object(value, path)
            return
        response = assemble_response(value, path, self.notes)
        if response is None:
            self.entries += entries_of(value, path, self.notes)
        elif not self.notes.problems:
            self._add_object(response, path)

    def _add_object(self, value: object, path: str) -> None:
        """Add anything but a list."""
        fields = read_object(value, path, self.notes, "a list of messages, or an object that holds one")
        if fields is None:
            return
        if _is_message(fields):
            self._add_message(fields, path)
        elif is_adk_session(fields):
            self.add(fields["events"], f"{path}.events")
        elif "request" in fields or isinstance(fields.get("body"), Mapping):
            for key in present_keys(fields, ("request", "response", "body")):
                before = len(self.entries)
                self.add(fields[key], f"{path}.{key}")
                self._drop_repeated(before)
        else:
            self._add_body(fields, path)

    def _add_message(self, fields: Fields, path: str) -> None:
        self.entries.append((path, fields))
        if "stop_reason" in fields:
            self.hints.append(("anthropic", path, "a response of Anthropic's Messages API"))
            self._set_end(fields["stop_reason"], path)
            self._add_usage(fields)

    def _add_body(self, fields: Fields, path: str) -> None:
        """Add the body of a request, of a response, or of both in one object."""
        if not fields.keys().isdisjoint(("contents", "candidates", "prompt_feedback")):
            fields = {**camel_keys(fields), **fields}  # google-genai's are in snake_case
        keys = self._content_keys(fields, path)
        if not keys:
            return
        for key in _HINTS.keys() & keys:
            self.hints.append((_HINTS[key][0], f"{path}.{key}", _HINTS[key][1]))
        self._add_tools(fields, path)
        for key in present_keys(fields, ("toolConfig", "config")):  # of Bedrock, and of google-genai
            self._add_tools(object_of(fields[key]), f"{path}.{key}")
        if fields.get("previous_response_id"):
            message = "continues a response that is not in the data; its calls are missing"
            self.notes.warn(f"{path}.previous_response_id", message)
        for key in keys:
            before = len(self.entries)
            self._add_content(key, fields[key], f"{path}.{key}")
            self._drop_repeated(before)
        self._add_end(fields, path)
        if keys[-1] not in _REQUEST_KEYS or "modelId" in fields:  # a response of Bedrock does not name its model
            self._add_usage(fields)

    def _add_end(self, fields: Fields, path: str) -> None:
        """Add how a response ended that says so beside its message."""
        if fields.get("object") == "response":
            self.hints.append(("openai-responses", path, "a response of OpenAI's Responses API"))
            self._set_response_end(fields)
        elif self.entries and ({"output", "stopReason"} <= fields.keys() or {"message", "done"} <= fields.keys()):
            if "stopReason" in fields:
                self.hints.append(("bedrock", path, "a response of Amazon Bedrock's Converse API"))
            place, message = self.entries[-1]
            self.entries[-1] = place, {**object_of(message), "done": fields.get("done")}  # which marks Ollama's
            self._set_end(first_of(fields, "stopReason", "done_reason"), place)
            self.notes.check_stream(path, is_several=False, has_end=fields.get("done") is not False)

    def _content_keys(self, fields: Fields, path: str) -> list[str]:
        """Return the keys of a body with messages, that of the request first; none, with a problem, if unclear."""
        requests = [key for key in HISTORY_KEYS if fields.get(key)][:1] or present_keys(fields, _REQUEST_KEYS)
        responses = present_keys(fields, _RESPONSE_KEYS)
        responses = responses or [key for key in _OTHER_RESPONSE_KEYS if as_object(fields.get(key))][:1]
        for keys in (requests, responses):
            if len(keys) > 1:
                both = " and ".join(map(repr, keys))
                self.notes.problem(path, f"has {both}, which hold the same kind of content; give one of them")
                return []
        if not requests + responses:
            self.notes.problem(path, _missing_content(fields))
        return requests + responses

    def _add_content(self, key: str, value: object, path: str) -> None:
        """Add the value under a key of a body."""
        if key in HISTORY_KEYS:
            self.entries.clear()  # it repeats the request
        if key in ("choices", "candidates"):
            self._add_choices(value, path)
        elif key == "promptFeedback":  # Gemini did not answer
            self.entries.append((path, {"role": "model", "parts": []}))
            self.end = RunStatus.STOPPED, str(to_json_value(camel_keys(value).get("blockReason")))
        elif isinstance(value, str):
            self.entries.append((path, {"role": "user" if key in _REQUEST_KEYS else "assistant", "content": value}))
        else:
            self.add(value, path)

    def _add_candidate(self, fields: Fields, path: str) -> None:
        """Add the answer of Gemini."""
        content, reason = object_of(fields.get("content")), to_json_value(fields.get("finishReason"))
        self.entries.append((path, {"parts": [], **content, "role": "model"}))
        self._set_end(reason, path, text_or_empty(fields.get("finishMessage")))
        if reason not in (None, "STOP", "FINISH_REASON_UNSPECIFIED"):
            self.end = RunStatus.STOPPED, str(reason)

    def _add_choices(self, choices: object, path: str) -> None:
        if not isinstance(choices, (list, tuple)) or len(choices) != 1:
            number = f"{len(choices)} choices" if isinstance(choices, (list, tuple)) else short_repr(choices)
            reason = "choices are alternatives; give the messages of the one that was continued"
            self.notes.problem(path, f"expected one choice, got {number}: {reason}")
            return
        choice = object_of(choices[0])
        if path.endswith("candidates"):
            self._add_candidate(camel_keys(choice), f"{path}[0].content")
            return
        if "message" not in choice:
            remedy = (
                "; it is a piece of a stream: log the response that the client assembles" if "delta" in choice else ""
            )
            self.notes.problem(f"{path}[0]", f"expected a choice with a message, got {short_repr(choices[0])}{remedy}")
            return
        self.entries.append((f"{path}[0].message", choice["message"]))
        self._set_end(choice.get("finish_reason"), f"{path}[0].message")

    def _drop_repeated(self, before: int) -> None:
        """Drop the messages from a position on, if those just before it are the same: they would count twice.

        A request never ends with its own response, but it does in the logs of programs that keep the list itself, to
        which they then add the response.
        """
        new = self.entries[before:]
        old = self.entries[max(before - len(new), 0) : before]
        if len(old) == len(new) > 0 and all(map(_is_same, old, new)):
            del self.entries[before:]
            self.notes.warn(new[0][0], f"repeats {old[0][0]}; it counts once")

    def _add_tools(self, fields: Fields, path: str) -> None:
        for key in present_keys(fields, ("tools", "functions")):
            tools = read_list(fields[key], f"{path}.{key}", self.notes, "a list of tools")
            self.tools += [tool for tool in tools if tool not in self.tools]
        for key in present_keys(fields, _SYSTEM_KEYS):
            parts = parts_of(first_of(object_of(fields[key]), "parts") or fields[key])
            self.instructions += [Instructions(part_text(part) or "") for part in parts]

    def _add_usage(self, fields: Fields) -> None:
        self.usage.append((text_of(first_of(fields, "model", "modelVersion", "modelId")), token_counts(fields)))

    def _set_end(self, reason: object, path: str, details: str = "") -> None:
        """Set how the response ended whose message was added last."""
        place, message = self.entries[-1][0], object_of(self.entries[-1][1])
        text, is_call = text_or_empty(reason), has_calls(message)
        if text in LOST_CALLS and not is_call and not message.keys().isdisjoint(("parts", "done")):
            self.entries[-1] = place, with_lost_call(message, text, details)
        elif _CALL_REASON.search(text) and text != "TOO_MANY_TOOL_CALLS" and not is_call:
            self.notes.warn(path, f"the response ended with {reason!r} and has no call; at least one call is missing")
        self.end = (RunStatus.STOPPED, str(reason)) if _EARLY_ENDS.fullmatch(text) else (RunStatus.OK, None)

    def _set_response_end(self, fields: Fields) -> None:
        status, error = fields.get("status"), object_of(fields.get("error"))
        if status == "failed":
            self.end = RunStatus.ERROR, str(error.get("message") or error.get("code") or status)
        elif status not in (None, "completed"):
            details = object_of(fields.get("incomplete_details"))
            self.end = RunStatus.STOPPED, str(details.get("reason") or status)


def unpack(value: object, path: str, notes: Notes) -> Envelope:
    """Return the content of a recorded value; what cannot be read is a problem.

    The value is a list of messages or items; one of them; the events of a stream; the body of a request (`messages`, or
    `input`) or of a response (`choices`, `output`, or a message); both in one object, or under `request` and
    `response`; any of these as an SDK object.
    """
    envelope = Envelope(notes)
    envelope.add(value, path)
    if not envelope.entries and not notes.problems:
        notes.problem(path, "holds no message")
    return envelope


def _is_message(fields: Fields) -> bool:
    """Return whether an object is a message or an item of a supported format."""
    evidence = None if "role" in fields else evidence_of(fields)
    return "role" in fields or (evidence is not None and evidence.format is not None)


def token_counts(response: Fields) -> dict[str, int]:
    """Return the token counts of a response by name."""
    usage = object_of(response.get("usage")) or camel_keys(response.get("usageMetadata")) or response  # Ollama's
    numbers = {name: [usage[key] for key in keys if type(usage.get(key)) is int] for name, keys in _TOKENS.items()}
    counts = {name: of_name[0] for name, of_name in numbers.items() if of_name}
    thoughts = usage.get("thoughtsTokenCount")  # Gemini does not count them among those of the candidates
    if type(thoughts) is int:
        counts["output_tokens"] = counts.get("output_tokens", 0) + thoughts
    return counts


def has_calls(message: Fields) -> bool:
    """Return whether a message has calls."""
    if message.get("tool_calls") or message.get("function_call"):
        return True
    parts = [object_of(part) for part in parts_of(first_of(message, "content", "parts"))]
    return any(str(part.get("type")).endswith("tool_use") or first_of(part, *_CALL_PARTS) for part in parts)


def with_lost_call(message: Fields, reason: str, details: str) -> JsonObject:
    """Return a message of Gemini or Bedrock with the call that the API left out of it."""
    key, part = ("parts", "functionCall") if "parts" in message else ("content", "toolUse")
    call = {"name": "(unnamed)", "args": details or reason, "input": reason}
    return {**message, key: [*parts_of(message.get(key)), {part: call}]}


def _missing_content(fields: Fields) -> str:
    """Return the problem of a body without messages."""
    error = fields.get("error")
    if error:
        return f"is an error, not a response: {short_repr(error)}"
    keys = ", ".join(map(repr, list(fields)[:8]))
    return (
        "expected a list of messages or items, a request ('messages', 'input' or 'contents'), a response ('choices', "
        f"'output', 'candidates' or a message), or both; got an object with {f'the keys {keys}' if keys else 'no key'}"
    )


def _is_same(one: Entry, other: Entry) -> bool:
    return _essence(one[1]) == _essence(other[1])


def _essence(entry: object) -> object:
    """Return the content of a message or item, without what a request that repeats a response changes."""
    fields = object_of(entry)
    keys = _CONTENT_KEYS if "role" in fields else [key for key in fields if key not in ("id", "status")]
    return {key: to_json_value(fields[key]) for key in keys if fields.get(key) not in (None, "", [])}
