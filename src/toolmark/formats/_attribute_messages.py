"""Which messages do the attributes and events of a span hold? In the conventions that `_conventions` names.

Messages stand in one attribute as JSON, are spelled out field by field (`llm.input_messages.0.message.role`), or are
events. What nobody kept is told apart from what says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from toolmark.capture import Request
from toolmark.formats._parts import cut_off, decoded, first_of, text_of
from toolmark.formats._reading import as_object
from toolmark.formats._said import Said, Who, messages_in, read_once
from toolmark.formats._spans import Span
from toolmark.matching import ABSENT

Attributes: TypeAlias = Mapping[str, Any]

_ASKED = (
    "gen_ai.input.messages",
    "ai.prompt.messages",
    "ai.prompt",
    "gcp.vertex.agent.llm_request",
    "gen_ai.prompt",
    "input.value",
    "langfuse.observation.input",
    "traceloop.entity.input",
    "haystack.agent.step.llm.input",
    "haystack.agent.input",
    "haystack.component.input",
    "mlflow.spanInputs",
)
_SAID = (
    "gen_ai.output.messages",
    "gen_ai.output",
    "gcp.vertex.agent.llm_response",
    "gen_ai.completion",
    "output.value",
    "langfuse.observation.output",
    "traceloop.entity.output",
    "haystack.agent.step.llm.output",
    "haystack.agent.output",
    "haystack.component.output",
    "mlflow.spanOutputs",
)
_ALL_MESSAGES = ("pydantic_ai.all_messages", "all_messages_events", "events")
"""A whole conversation in one attribute, what was asked and what was answered."""

INDEXED_ASKED = ("gen_ai.prompt.", "llm.input_messages.", "llm.prompts.")
INDEXED_SAID = ("gen_ai.completion.", "llm.output_messages.", "llm.completions.")
HIDDEN = frozenset({"__REDACTED__", "<redacted>", "[REDACTED]"})
"""What instrumentations write in the place of what they were told not to keep."""

LLAMA_INDEX_ASKED, LLAMA_INDEX_SAID = "LLMChatStartEvent", "LLMChatEndEvent"
"""Events in which LlamaIndex's own tracing tells what a model was asked and answered."""

_EMPTY = frozenset({"", "{}", "[]", "null", "<not serializable>"})
"""What they write where there is nothing to keep."""

_STEP = re.compile(r"\.?(\d+)\.")
_EVENT = re.compile(r"^gen_ai\.(system|user|assistant|tool)\.message$")


@dataclass(slots=True)
class Event:
    """An event of a span, or a log record that names one."""

    name: str
    attributes: Attributes
    body: Any = None
    path: str = "$"


@dataclass(slots=True)
class RawSpan:
    """A span as OpenTelemetry has it, whatever file it was in; see `Span` for the fields of the same names."""

    span: Span
    attributes: dict[str, Any]
    events: list[Event] = field(default_factory=list)


def indexed(said: Attributes, prefix: str) -> list[dict[str, Any]]:
    """Return the entries of a list that attributes spell out one by one: `llm.tools.0.name`, `llm.tools.1.name`."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in said.items():
        if key.startswith(prefix):
            number, dot, rest = key.removeprefix(prefix).partition(".")
            if dot and number.isdigit():
                found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]


def asked_of(raw: RawSpan) -> list[Said]:
    """Return what a model was given."""
    return _spoken(raw, INDEXED_ASKED, _ASKED, "user") or _from_events(raw, answers=False) or _all(raw, answers=False)


def answered_of(raw: RawSpan) -> list[Said] | None:
    """Return what a model answered, `None` where nobody kept it."""
    found = _spoken(raw, INDEXED_SAID, _SAID, "model") or _from_events(raw, answers=True) or _vercel_said(raw)
    return found or _all(raw, answers=True) or (None if _silent(raw) else [])


def _silent(raw: RawSpan) -> bool:
    """Return whether nothing of what the model said was kept."""
    said = raw.attributes
    if any(key.startswith(INDEXED_SAID) for key in said):
        return False
    kept = [said[key] for key in (*_SAID, "ai.response.text", "ai.response.object") if said.get(key) is not None]
    return all(
        value in HIDDEN or value in _EMPTY or cut_off(value) for value in kept if isinstance(value, str)
    ) and not any(value and not isinstance(value, str) for value in kept)


def _spoken(raw: RawSpan, prefixes: Iterable[str], keys: Iterable[str], by: Who) -> list[Said]:
    said, path = raw.attributes, f"{raw.span.path}.attributes"
    for prefix in prefixes:
        entries = indexed(said, prefix)
        if entries:
            places = [f"{path}.{prefix}{index}" for index in range(len(entries))]
            listed = [one for entry, place in zip(entries, places, strict=True) for one in _entry(entry, place, by)]
            return _with_arguments(listed, [said.get(key) for key in keys if "value" in key], by)
    for key in keys:
        value = said.get(key)
        if value is None or (isinstance(value, str) and value in HIDDEN):
            continue
        if cut_off(value):
            note_cut_off(raw.span, f"{path}['{key}']")
            continue
        found = messages_in(value, f"{path}['{key}']", by)
        if found and not (by == "user" and _is_request(found, value)):
            return found
    return []


def _is_request(found: list[Said], value: object) -> bool:
    """Return whether a value is an object of which no message could be read: how a method was called.

    It is one in JSON, or as Python prints it, as Haystack does where it cannot write JSON.
    """
    return found[0].text == value and (as_object(decoded(value)) is not None or str(value).startswith("{'"))


def _with_arguments(listed: list[Said], values: list[Any], by: Who) -> list[Said]:
    """Return messages with arguments that were left out of them, as OpenInference does where they are `{}`."""
    if all(request.arguments is not ABSENT for said in listed for request in said.requests):
        return listed
    whole = [said for value in values for said in messages_in(value, "", by)]
    known = {f"{one.id} {one.name}": one for said in whole for one in said.requests if one.id is not None}
    return [
        replace(said, requests=tuple(_fuller(one, known.get(f"{one.id} {one.name}")) for one in said.requests))
        for said in listed
    ]


def _fuller(request: Request, other: Request | None) -> Request:
    if other is None or request.arguments is not ABSENT:
        return request
    return replace(request, arguments=other.arguments, error=other.error)


def _entry(entry: Mapping[str, Any], path: str, by: Who) -> list[Said]:
    """Return what a message says that attributes spell out."""

    def read() -> list[Said]:
        return messages_in({"role": "assistant" if by == "model" else "user", **nested(entry)}, "", by)

    return read_once(entry, path, ("spelled out", by), read)


def note_cut_off(span: Span, path: str) -> None:
    """Note messages of which the end is missing, once."""
    doubt = f"{path}: is no JSON text, as if cut off; what it says, calls too, was not read"
    if doubt not in span.doubts:
        span.doubts.append(doubt)


def nested(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message that attributes spell out, as the object that it was; `message.` in front of keys is dropped."""
    told: dict[str, Any] = {}
    for key, value in entry.items():
        plain = key.removeprefix("message.")
        if _STEP.search(f".{plain}."):
            continue
        told[plain] = value
    for name, inner in (("tool_calls", "tool_call."), ("contents", "message_content.")):
        for prefix in (f"message.{name}.", f"{name}."):
            listed = indexed(entry, prefix)
            if listed:
                told[name] = [_nested_part({key.removeprefix(inner): part[key] for key in part}) for part in listed]
    if told.get("function_call_name"):
        told["function_call"] = {
            "name": told["function_call_name"],
            "arguments": told.get("function_call_arguments_json"),
        }
    return told


def _nested_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return one part of such a message: `function.name` and the like become an object."""
    plain: dict[str, Any] = {}
    for key, value in part.items():
        head, dot, rest = key.partition(".")
        if dot:
            plain.setdefault(head, {})
            if isinstance(plain[head], dict):
                plain[head][rest.removeprefix("function.")] = value
        else:
            plain[key] = value
    return plain


def _from_events(raw: RawSpan, *, answers: bool) -> list[Said]:
    """Return what events say: a message each, as it was until 2025, or all of them in one, as it is now."""
    found: list[Said] = []
    for event in raw.events:
        body = as_object(decoded(event.body)) or {}
        fields = {**event.attributes, **body}
        whole = _whole_event(event, fields, answers=answers)
        if whole is not None:
            found += whole
            continue
        match = _EVENT.match(event.name)
        if event.name == (LLAMA_INDEX_SAID if answers else LLAMA_INDEX_ASKED):
            found += _llama_index(event, answers=answers)
        if match is not None and not answers:
            found += _event_message({"role": match.group(1), **fields}, event.path)
        elif event.name == "gen_ai.choice" and answers:
            message = decoded(fields.pop("message", None))
            told = {**fields, **(as_object(message) or ({} if message is None else {"content": message}))}
            found += _event_message({"role": "assistant", **told}, event.path)
    return found


def _whole_event(event: Event, fields: Mapping[str, Any], *, answers: bool) -> list[Said] | None:
    """Return what an event says that holds several messages; `None` if it does not."""
    keys = ("gen_ai.output.messages", "gen_ai.completion") if answers else ("gen_ai.input.messages", "gen_ai.prompt")
    if not any(key in fields for key in (*_ASKED[:1], *_SAID[:1], "gen_ai.prompt", "gen_ai.completion")):
        return None
    value = first_of(fields, *keys)
    return [] if value is None else messages_in(value, f"{event.path}['{keys[0]}']", "model" if answers else "user")


def _llama_index(event: Event, *, answers: bool) -> list[Said]:
    """Return what LlamaIndex's own tracing says that a chat began or ended with."""
    if not answers:
        return messages_in(event.attributes.get("messages"), f"{event.path}['messages']", "user")
    blocks = decoded(event.attributes.get("response.message.blocks"))
    return _event_message({"role": "assistant", "blocks": blocks}, event.path)


def _event_message(fields: Mapping[str, Any], path: str) -> list[Said]:
    def read() -> list[Said]:
        told = {key: decoded(value) if key == "tool_calls" else value for key, value in fields.items()}
        if told.get("role") == "tool" and told.get("tool_call_id") is None:
            told["tool_call_id"] = told.get("id")
        return messages_in({"content": None, **told}, "", "user")

    return read_once(fields, path, "event", read)


def _vercel_said(raw: RawSpan) -> list[Said]:
    said, path = raw.attributes, f"{raw.span.path}.attributes"
    calls = messages_in(said.get("ai.response.toolCalls"), f"{path}['ai.response.toolCalls']", "model")
    text = text_of(said.get("ai.response.text")) or text_of(said.get("ai.response.object"))
    if text is None or calls:
        return calls
    return [Said("model", f"{path}['ai.response.text']", text)]


def _all(raw: RawSpan, *, answers: bool) -> list[Said]:
    """Return one side of a whole conversation: what came after the last words that were no answer, or what before."""
    said = raw.attributes
    for key in _ALL_MESSAGES:
        if said.get(key) is None:
            continue
        if cut_off(said[key]):
            note_cut_off(raw.span, f"{raw.span.path}.attributes['{key}']")
            continue
        found = messages_in(said[key], f"{raw.span.path}.attributes['{key}']", "user")
        cut = max((index + 1 for index, one in enumerate(found) if one.who != "model"), default=0)
        return found[cut:] if answers else found[:cut]
    return []


def around_of(raw: RawSpan) -> tuple[list[Said], list[Said]]:
    """Return what an agent or chain was given, and what came out of it; a whole conversation comes out."""
    said, path = raw.attributes, f"{raw.span.path}.attributes"
    key = next((key for key in _ALL_MESSAGES if said.get(key) is not None), None)
    if key is None:
        asked = _spoken(raw, INDEXED_ASKED, _ASKED, "user") or _from_events(raw, answers=False)
        return asked, _spoken(raw, INDEXED_SAID, _SAID, "model") or _from_events(raw, answers=True)
    if cut_off(said[key]):
        note_cut_off(raw.span, f"{path}['{key}']")
        return [], []
    return [], messages_in(said[key], f"{path}['{key}']", "user")
