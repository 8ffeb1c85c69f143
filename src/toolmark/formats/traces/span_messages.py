"""Which messages do the attributes and events of a span hold? In the conventions that `_conventions` names.

Messages stand in one attribute as JSON, are spelled out field by field (`llm.input_messages.0.message.role`), or are
events. What nobody kept is told apart from what says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from toolmark.capture import Request
from toolmark.formats.messages.content_parts import cut_off
from toolmark.formats.messages.field_readers import as_object, decoded, first_of, text_of
from toolmark.formats.messages.transcript import Answer
from toolmark.formats.traces.span_tree import Span
from toolmark.formats.traces.trace_messages import Said, Who, fuller, messages_in, read_once
from toolmark.matching.json_compare import ABSENT, json_equal

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

_TELLS_FAILURE = re.compile(r'"(?:status": ?"error"|is_error": ?true)')
_APART = re.compile(r'"invalid_tool_calls": ?\[\{')
"""Where JSON text says that a tool failed, and where LangChain keeps calls whose arguments are no JSON."""

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
    """Return the entries of a list that attributes spell out one by one: `llm.tools.0.name`, `llm.tools.1.name`.

    A field that was hidden is left out of its entry.
    """
    found: dict[int, dict[str, Any]] = {}
    for key, value in said.items():
        if key.startswith(prefix):
            number, dot, rest = key.removeprefix(prefix).partition(".")
            if dot and number.isdigit():
                entry = found.setdefault(int(number), {})
                if not (isinstance(value, str) and value in HIDDEN):
                    entry[rest] = value
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
    kept = [_kept(said, key) for key in (*_SAID, "ai.response.text", "ai.response.object")]
    return all(value in _EMPTY or cut_off(value) for value in kept if isinstance(value, str)) and not any(
        value and not isinstance(value, str) for value in kept
    )


def _spoken(raw: RawSpan, prefixes: Iterable[str], keys: Iterable[str], by: Who) -> list[Said]:
    said, path = raw.attributes, f"{raw.span.path}.attributes"
    for prefix in prefixes:
        entries = indexed(said, prefix)
        if entries:
            places = [f"{path}.{prefix}{index}" for index in range(len(entries))]
            listed = [one for entry, place in zip(entries, places, strict=True) for one in _entry(entry, place, by)]
            if not listed:
                continue
            whole = {f"{path}['{key}']": said[key] for key in keys if "value" in key and isinstance(said.get(key), str)}
            return _completed(listed, whole, by)
    told: list[list[Said]] = []
    for key in keys:
        value = _kept(said, key)
        if value is None:
            continue
        if cut_off(value):
            note_cut_off(raw.span, f"{path}['{key}']")
            continue
        found = messages_in(value, f"{path}['{key}']", by)
        if found and not (by == "user" and _is_request(found, value)):
            told.append(found)
            if by == "user" or not raw.span.wants_tools or any(one.requests for one in found):
                break
    # OpenLLMetry leaves out calls that stand beside words, and keeps them in what the framework returned.
    return next((found for found in told if any(one.requests for one in found)), told[0] if told else [])


def _kept(said: Attributes, key: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return what an attribute keeps; `None` where it was hidden, or where Phoenix put which model answered there."""
    value = said.get(key)
    if isinstance(value, str) and value in HIDDEN:
        return None
    named = {name: said[f"gen_ai.response.{name}"] for name in ("id", "model") if said.get(f"gen_ai.response.{name}")}
    return None if named and key == "output.value" and decoded(value) == named else value


def _is_request(found: list[Said], value: object) -> bool:
    """Return whether a value is an object of which no message could be read: how a method was called.

    It is one in JSON, or as Python prints it, as Haystack does where it cannot write JSON.
    """
    return found[0].text == value and (as_object(decoded(value)) is not None or str(value).startswith("{'"))


def _completed(listed: list[Said], texts: Mapping[str, str], by: Who) -> list[Said]:
    """Return messages with what was left out of them, and stands in the same messages as the library had them.

    OpenInference leaves out arguments that are `{}`, that an answer tells of a failure, sometimes whose answer it is,
    and calls that LangChain keeps apart because their arguments are no JSON.

    Args:
        listed: What is spelled out.
        texts: The whole messages as JSON text, each with its path.
        by: Who says what no message attributes to anybody.
    """
    if not _may_lack(listed, texts.values()):
        return listed
    whole = [said for path, text in texts.items() for said in messages_in(text, path, by)]
    if _says_more(whole, listed, by):
        return whole
    asked, spelled = _requests(whole), _requests(listed)
    fitting = len(asked) == len(spelled) and all(map(_may_be, spelled, asked))
    known: dict[tuple[str, str | None], Request] = {(one.name, one.id): one for one in asked if one.id is not None}
    others = iter(asked if fitting else [known.get((one.name, one.id)) for one in spelled])
    failed = {said.answer.call_id for said in whole if said.answer is not None and said.answer.failed} - {None}
    return [_fuller(said, others, failed) for said in listed]


def _may_lack(listed: list[Said], texts: Collection[str]) -> bool:
    """Return whether messages lack something that these texts may have, without reading the texts."""
    if any(request.arguments is ABSENT or request.id is None for request in _requests(listed)):
        return True
    if any(map(_APART.search, texts)):
        return True
    answers = [said.answer for said in listed if said.answer is not None]
    return any(map(_nameless, answers)) or (bool(answers) and any(map(_TELLS_FAILURE.search, texts)))


def _says_more(whole: list[Said], listed: list[Said], by: Who) -> bool:
    """Return whether the whole messages show calls that are not spelled out, or whose answers those are."""
    asked, spelled = ([(one.name, one.id) for one in _requests(some)] for some in (whole, listed))
    if by == "model" and len(asked) > len(spelled) and set(spelled) <= set(asked):
        return True
    told, heard = ([said.answer for said in some if said.answer is not None] for some in (whole, listed))
    return asked == spelled and any(map(_nameless, heard)) and bool(told) and not any(map(_nameless, told))


def _requests(said: Iterable[Said]) -> list[Request]:
    return [request for one in said for request in one.requests]


def _nameless(answer: Answer) -> bool:
    return answer.call_id is None and answer.name is None


def _may_be(spelled: Request, whole: Request) -> bool:
    """Return whether two tellings of a request may be of the same one: what both have is equal."""
    if spelled.name != whole.name or spelled.id not in (None, whole.id):
        return False
    return spelled.arguments is ABSENT or json_equal(spelled.arguments, whole.arguments)


def _fuller(said: Said, others: Iterator[Request | None], failed: Collection[str | None]) -> Said:
    """Return a message with what the next other requests say beyond its own, and with an answer that failed as such."""
    requests = tuple(_filled(request, next(others, None)) for request in said.requests)
    answer = said.answer
    if answer is not None and answer.call_id in failed:
        answer = replace(answer, failed=True)
    return replace(said, requests=requests, answer=answer)


def _filled(request: Request, other: Request | None) -> Request:
    if other is not None and request.id is None:
        request = replace(request, id=other.id)
    return fuller(request, other)


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
    for name in ("tool_calls", "contents"):
        for prefix in (f"message.{name}.", f"{name}."):
            listed = indexed(entry, prefix)
            if listed:
                told[name] = [_nested_part(part) for part in listed]
    name = first_of(told, "function_call_name", "function_call.name")
    if name:
        arguments = first_of(told, "function_call_arguments_json", "function_call.arguments")
        told["function_call"] = {"name": name, "arguments": arguments}
    return told


def _nested_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return one part of such a message: `tool_call.function.name` and the like become an object."""
    plain: dict[str, Any] = {}
    for key, value in part.items():
        head, dot, rest = key.removeprefix("message_content.").removeprefix("tool_call.").partition(".")
        if dot:
            plain.setdefault(head, {})
            if isinstance(plain[head], dict):
                plain[head][rest.removeprefix("function.")] = value
        else:
            plain[head] = value
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
