"""Which messages are in this value of a trace? What each says, whoever's form it has.

A span holds messages as JSON, as JSON text, inside of a request or a response, or as a list of calls alone. Nothing
here is refused: what holds no message gives none. Every model is given its history anew, so that traces repeat most of
their messages many times; each is read once, and remembered while traces are read (`remembering`).
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from toolmark.capture import Request
from toolmark.formats.messages import langchain
from toolmark.formats.messages.content_parts import answer_of, call_of, piece_of
from toolmark.formats.messages.field_readers import Fields, Notes, as_object, decoded, first_of, text_of
from toolmark.formats.messages.lenient_arguments import read_tolerantly
from toolmark.formats.messages.openai_responses import read_responses_answer, read_responses_call
from toolmark.formats.messages.transcript import Answer
from toolmark.matching.json_compare import ABSENT

Who: TypeAlias = Literal["user", "model", "tool", "system"]

_DEEPEST = 12
"""Levels of holders around messages; state objects nest, but not for ever."""

_WHO: dict[str, Who] = {
    "user": "user",
    "human": "user",
    "assistant": "model",
    "ai": "model",
    "model": "model",
    "tool-call": "model",
    "tool": "tool",
    "function": "tool",
    "tool-response": "tool",
    "system": "system",
    "developer": "system",
}

_FRAME = re.compile(r"(?:Call id: ([^\n]*)\n)?(Error|Observation):\n(.*)", re.DOTALL)
"""What smolagents makes of an observation or an error before its model is shown it."""
_PART_KEYS = frozenset({"type", "text", "toolUse", "toolResult"})

_HOLDERS: tuple[tuple[str, Who | None], ...] = (
    ("messages", None),
    ("generations", "model"),
    ("choices", "model"),
    ("candidates", "model"),
    ("replies", "model"),
    ("contents", "user"),
    ("message", None),
    ("new_message", "user"),
    ("output_messages", "model"),
    ("toolCalls", "model"),
    ("prompt", "user"),
    ("input", "user"),
    ("output", "model"),
    ("response", "model"),
    ("content", None),
)
"""Keys of objects under which messages stand, and who speaks there where they do not say."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one message says.

    Attributes:
        who: Who speaks; `"tool"` gives an answer.
        path: Where it stands.
        text: The words, `None` where there are none.
        requests: The calls that it asks for, in their order; each has its place as `source`.
        answer: The answer to a call.
        bare: It is a call outside of any message; those that stand side by side are one message.
    """

    who: Who
    path: str
    text: str | None = None
    requests: tuple[Request, ...] = ()
    answer: Answer | None = None
    bare: bool = False


_Memory: TypeAlias = "dict[tuple[bytes, Hashable], tuple[Said, ...]]"
_MEMORY: ContextVar[_Memory | None] = ContextVar("_MEMORY", default=None)
_JSON_TYPES = frozenset({str, int, float, bool, type(None)})


@contextmanager
def remembering() -> Generator[None, None, None]:
    """Inside this block, read equal messages once; what they say is forgotten at its end."""
    token = _MEMORY.set({})
    try:
        yield
    finally:
        _MEMORY.reset(token)


def read_once(
    value: Any,  # noqa: ANN401 - a JSON value, as a rule
    path: str,
    how: Hashable,
    read: Callable[[], Iterable[Said]],
) -> list[Said]:
    """Return what a message says, from memory if an equal one was read before.

    Args:
        value: The message, as it stands in the trace.
        path: Where it stands.
        how: What else decides what `read` gives; equal for readers that give the same.
        read: Reads the message, with paths that begin at the message itself, where `""` is.
    """
    memory = _MEMORY.get()
    try:
        # Unlike JSON text, this text tells every type from every other. Version 2 writes equal values equally.
        key = None if memory is None else (marshal.dumps(value, 2), how)
    except ValueError:  # objects of SDKs, or deeper than this goes
        key = None
    found = None if memory is None or key is None else memory.get(key)
    if found is None:
        found = tuple(read())
        if memory is not None and key is not None and _is_json(value):
            memory[key] = found
    return [_placed(said, path) for said in found]


def _is_json(value: object) -> bool:
    """Return whether a value is of nothing but JSON's types; `marshal` takes the memory of other objects for bytes."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            waiting += [*one, *one.values()]
        elif type(one) is list:
            waiting += one
        elif type(one) not in _JSON_TYPES:
            return False
    return True


def _placed(said: Said, path: str) -> Said:
    """Return the same said at `path`."""
    requests = tuple([replace(request, source=f"{path}{request.source or ''}") for request in said.requests])
    return Said(said.who, f"{path}{said.path}", said.text, requests, said.answer, said.bare)


def messages_in(value: object, path: str, by: Who) -> list[Said]:
    """Return what the messages in a value say, in their order; none where it holds no message.

    Args:
        value: A message, a list of them, an object that holds them, the JSON text of any of these, or a plain text.
        path: Where it stands.
        by: Who says what no message attributes to anybody.
    """
    return list(_walk(value, path, by, 0))


def tools_beside(value: object) -> Iterator[Fields]:
    """Yield the tools that stand beside messages: under `tools`, or among them, as Langfuse's handler has it.

    Args:
        value: What a model was given, or its JSON text.
    """
    plain = decoded(value)
    if isinstance(plain, list):
        yield from (tool for entry in plain if (tool := _defined(as_object(entry) or {})) is not None)
        return
    tools = (as_object(plain) or {}).get("tools")
    for entry in tools if isinstance(tools, list) else ():
        fields = as_object(entry) or {}
        yield (as_object(fields.get("data")) or fields) if str(fields.get("type")).startswith("haystack.") else fields


def _defined(message: Fields) -> Fields | None:
    """Return the tool that a message defines, `None` if it is one that says something."""
    content = as_object(decoded(message.get("content"))) or {}
    told = as_object(content.get("function")) or {}
    defines = message.get("role") == "tool" and "tool_call_id" not in message and text_of(told.get("name")) is not None
    return content if defines and "arguments" not in told else None


def final_text(said: list[Said]) -> str | None:
    """Return the last words of the model, if no call or answer comes after or with them."""
    last = next((entry for entry in reversed(said) if entry.who != "system"), None)
    return last.text if last is not None and last.who == "model" and not last.requests else None


def _walk(value: object, path: str, by: Who, depth: int) -> Iterator[Said]:
    if depth > _DEEPEST or value is None:
        return
    if isinstance(value, str):
        plain = decoded(value)
        if isinstance(plain, (dict, list)):
            found = list(_walk(plain, path, by, depth + 1))
            if found:
                yield from found
                return
            if isinstance(plain, list) and plain and all("role" in (as_object(entry) or {}) for entry in plain):
                return  # messages that say nothing, such as those of which the content was left out
        text = plain if isinstance(plain, str) else value
        if text:
            yield Said(by, path, text)
    elif isinstance(value, (list, tuple)):
        yield from _listed(value, path, by, depth)
    else:
        fields = as_object(value)
        if fields is not None:
            yield from _object(fields, path, by, depth)


def _listed(values: list[Any] | tuple[Any, ...], path: str, by: Who, depth: int) -> Iterator[Said]:
    """Yield what a list says; calls that stand side by side, outside of messages, are one message."""
    calls: list[Request] = []
    for index, entry in enumerate(values):
        place = f"{path}[{index}]"
        if isinstance(entry, (list, tuple)):  # its entries are remembered, one by one
            found = list(_listed(entry, place, by, depth + 1)) if depth < _DEEPEST else []
        else:
            found = read_once(entry, place, ("entry", by, depth), partial(_entry, entry, by, depth))
        if found and found[0].bare:
            calls += found[0].requests
            continue
        if calls:
            yield Said("model", path, None, tuple(calls))
            calls = []
        yield from found
    if calls:
        yield Said("model", path, None, tuple(calls))


def _entry(entry: object, by: Who, depth: int) -> Iterator[Said]:
    """Yield what an entry of a list says, with paths that begin at the entry."""
    fields = as_object(entry)
    call = None if fields is None else _bare_call(fields, "")
    if call is not None:
        yield Said("model", "", None, (call,), bare=True)
    else:
        yield from _walk(entry, "", by, depth + 1)


def _bare_call(fields: Fields, path: str) -> Request | None:
    """Return the call that an object outside of a message is."""
    if "role" in fields or "content" in fields:
        return None
    kind = str(fields.get("type") or "")
    if "tool.name" in fields or ("toolCallId" in fields and "result" not in fields and "output" not in fields):
        return call_of(fields, path=path)
    if as_object(fields.get("function")) is not None or (kind in ("tool_call", "tool-call") and "name" in fields):
        return call_of(fields, path=path)
    if kind.endswith("_call") and "lc" not in fields:
        item = read_responses_call(fields)
        return None if item is None else replace(item, source=path)
    return piece if isinstance(piece := piece_of(fields, path), Request) else None


def _object(fields: Fields, path: str, by: Who, depth: int) -> Iterator[Said]:
    chain = langchain.message_fields(fields)
    if chain is not None:
        yield from _chain_message(chain, path)
        return
    call = _bare_call(fields, path)
    if call is not None:
        yield Said("model", path, None, (call,))
        return
    kind = str(fields.get("type") or "")
    if kind.endswith("_output") and "call_id" in fields:
        answer = read_responses_answer(fields)
        if answer is not None:
            yield Said("tool", path, answer=answer)
        return
    if fields.get("role") is not None and not isinstance(fields.get("message"), dict):
        yield from _message(fields, path)
        return
    if isinstance(fields.get("parts"), list):
        yield from _message({**fields, "role": by}, path)
        return
    yield from _held(fields, path, by, depth)


def _held(fields: Fields, path: str, by: Who, depth: int) -> Iterator[Said]:
    """Yield what the messages say that an object holds, under the first of the usual keys that has any."""
    for key, who in _HOLDERS:
        value = fields.get(key)
        # Words alone are a message only where the key says so: `content` and `message` may be anybody's.
        if value is None or (who is None and not isinstance(decoded(value), (dict, list))):
            continue
        if key == "generations" and isinstance(value, list):  # a list of alternatives for each prompt
            value = [entry[0] if isinstance(entry, list) and entry else entry for entry in value]
        found = list(_walk(value, f"{path}.{key}", who or by, depth + 1))
        if found:
            yield from found
            return


def _chain_message(fields: Fields, path: str) -> Iterator[Said]:
    kind, notes = fields["type"], Notes()
    if kind in ("tool", "function"):
        yield Said("tool", path, answer=langchain.result_of(fields, path, notes))
    elif kind == "ai":
        requests, answers = langchain.calls_of(fields, path, notes)
        requests += [Request("", ABSENT, source=problem.path) for problem in notes.problems]
        yield Said("model", path, _texts(fields.get("content"), path), tuple(requests))
        for answer in answers:
            yield Said("tool", path, answer=answer)
    else:
        yield Said("user" if kind == "human" else "system", path, _texts(fields.get("content"), path))


def _texts(content: object, path: str) -> str | None:
    pieces = [piece_of(part, path) for part in langchain.blocks_of(content)]
    return "".join(piece for piece in pieces if isinstance(piece, str)) or None


def _message(fields: Fields, path: str) -> Iterator[Said]:
    """Yield what a message with a role says: of one with several answers, each; then its words and calls."""
    role = str(fields["role"])
    who: Who = _WHO.get(role, "tool")
    if who == "user" and text_of(fields.get("tool_call_id")):  # OpenInference writes Anthropic's answers on Bedrock so
        who = "tool"
    content = first_of(fields, "content", "parts", "contents", "blocks")
    key = next((name for name in ("content", "parts", "contents", "blocks") if fields.get(name) is not None), "content")
    inner = as_object(content)
    if inner is not None and isinstance(inner.get("parts"), list):
        content, key = inner["parts"], f"{key}.parts"
    if _defined(fields) is not None:
        return
    calls = _told_calls(fields, path)
    content = _parts_in_text(content, who) or content
    listed = _calls_in_text(content, f"{path}.{key}") if isinstance(content, str) and who in ("model", "tool") else []
    if who == "tool" and not calls and not listed:
        yield from _answers(fields, content, f"{path}.{key}", None if role in _WHO else role)
        return
    if isinstance(content, str):
        yield Said("model" if listed or calls else who, path, None if listed else content or None, (*calls, *listed))
        return
    yield from _parts(langchain.blocks_of(content), path, key, who, calls)


def _parts(parts: list[Any], path: str, key: str, who: Who, calls: list[Request]) -> Iterator[Said]:
    texts: list[str] = []
    requests: list[Request] = []
    answers: list[Said] = []
    printed = _printed(parts[0], path) if len(parts) == 1 and who == "model" and not calls else []
    if printed:
        yield from printed
        return
    for index, part in enumerate(parts):
        place = f"{path}.{key}[{index}]"
        piece = piece_of(part, place)
        if isinstance(piece, str):
            texts.append(piece)
        elif isinstance(piece, Request):
            requests.append(piece)
        elif isinstance(piece, Answer):
            answers.append(Said("tool", place, answer=piece))
    if calls and all(request.id in {call.id for call in calls} for request in requests):
        # Some converters leave the provider's blocks beside the calls they made from them; empty arguments only there.
        blocks = {request.id: request for request in requests if request.id is not None}
        calls, requests = [fuller(call, blocks.get(call.id or "")) for call in calls], []
    asked, text = (*calls, *requests), "".join(texts) or None
    if who == "user":
        yield from answers
        answers = []
    if asked or text is not None:
        yield Said("model" if asked else who, path, text, asked)
    yield from answers


def fuller(request: Request, other: Request | None) -> Request:
    """Return a call with the arguments that only another telling of it has."""
    if other is None or request.arguments is not ABSENT:
        return request
    return replace(request, arguments=other.arguments, error=other.error)


def _printed(part: object, path: str) -> list[Said]:
    """Return what a message says that a tracer printed as a Python object, and put into the words of the model."""
    text = piece_of(part, path)
    meant = read_tolerantly(text) if isinstance(text, str) and text.startswith("{'") else None
    fields = {} if meant is None else meant[0]
    if fields.get("role") == "assistant" or isinstance(fields.get("output"), list):
        return list(_object(fields, path, "model", _DEEPEST - 2))
    return []


def _told_calls(fields: Fields, path: str) -> list[Request]:
    """Return the calls under the keys that messages have for them."""
    found: list[Request] = []
    for key in ("tool_calls", "toolCalls"):
        value = decoded(fields.get(key))
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            inner = as_object(decoded(entry)) or {}
            call = call_of(as_object(inner.get("tool_call")) or inner, path=f"{path}.{key}[{index}]", sure=True)
            found += [] if call is None else [call]
    legacy = as_object(fields.get("function_call"))
    if legacy is not None and not found and legacy.get("name"):
        call = call_of(legacy, path=f"{path}.function_call")
        found += [] if call is None else [call]
    return found


def _calls_in_text(text: str, path: str) -> list[Request]:
    """Return the calls that a text is the JSON list of, as some frameworks write them into their traces."""
    value = decoded(text)
    if not isinstance(value, list) or not value:
        return []
    found = [_bare_call(as_object(entry) or {}, f"{path}[{index}]") for index, entry in enumerate(value)]
    return [] if None in found else [call for call in found if call is not None]


def _parts_in_text(content: object, who: Who) -> list[Any]:
    """Return the parts that a text is the JSON list of, as some tracers write content that is no text."""
    value = decoded(content) if isinstance(content, str) else None
    if not isinstance(value, list) or not all(_PART_KEYS & (as_object(entry) or {}).keys() for entry in value):
        return []
    pieces = [piece_of(entry, "") for entry in value]
    if who == "tool":  # what a tool returned may look like parts of a message
        return value if any(isinstance(piece, Answer) for piece in pieces) else []
    return value if any(isinstance(piece, str) for piece in pieces) else []


def _answers(fields: Fields, content: object, path: str, name: str | None) -> Iterator[Said]:
    """Yield the answers in a message of a tool: those among its parts, else the message itself."""
    parts = langchain.blocks_of(content)
    pieces = [(index, piece_of(part, f"{path}[{index}]")) for index, part in enumerate(parts)]
    found = [Said("tool", f"{path}[{index}]", answer=piece) for index, piece in pieces if isinstance(piece, Answer)]
    if found:
        yield from found
        return
    texts = [piece for _, piece in pieces if isinstance(piece, str)]
    if (
        isinstance(content, list)
        and len(texts) == len(content)
        and any("content" in (as_object(one) or {}) for one in content)
    ):
        content = "".join(texts)  # texts in OpenTelemetry's form, beside the id of the call, as LiteLLM has it
    told = {key: value for key, value in fields.items() if key not in ("parts", "contents", "role")}
    known = answer_of({"content": content, **told}, name=text_of(fields.get("name")) or name)
    yield Said("tool", path, answer=_unframed(known) if fields.get("role") == "tool-response" else known)


def _unframed(answer: Answer) -> Answer:
    """Return an answer without the words that smolagents puts before it, of which one says that a step failed."""
    found = _FRAME.fullmatch(answer.content) if isinstance(answer.content, str) else None
    if found is None:
        return answer
    call_id, kind, text = found.groups()
    return replace(answer, call_id=answer.call_id or call_id, content=text, failed=answer.failed or kind == "Error")
