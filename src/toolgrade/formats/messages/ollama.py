"""What Ollama's chat API has apart from OpenAI's, whose messages it takes over; and assembly of its streamed replies.

Arguments are objects and calls may have no ids; a message of role `tool` names its tool in `tool_name`. A stream has
one response per line, each with the next piece of the text or whole calls; the last one is `done`.

Source: Ollama API documentation, "Generate a chat completion"; `ollama.Message`, `ollama.ChatResponse`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from toolgrade._internal.json import JsonObject
from toolgrade._internal.message_content import Fields, object_of, parts_of, text_or_empty
from toolgrade.formats.messages import openai_chat
from toolgrade.formats.messages.field_readers import Notes, sum_of
from toolgrade.formats.messages.message import Entry, NeutralMessage


def read_messages(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`."""
    return openai_chat.read_messages([(path, _with_images(entry)) for path, entry in entries], notes)


def _with_images(entry: object) -> object:
    """Return a message with its `images` (base64 text) as parts of its content."""
    fields = object_of(entry)
    images = [{"type": "image", "data": data} for data in parts_of(fields.get("images"))]
    if not images:
        return entry
    return {**fields, "content": [{"type": "text", "text": text_or_empty(fields.get("content"))}, *images]}


def assemble(pieces: Sequence[tuple[str, Fields]], path: str, notes: Notes) -> JsonObject:
    """Return the response of the pieces of one stream."""
    goes_on = any(piece.get("done") is True for _, piece in pieces[:-1])
    notes.check_stream(path, is_several=goes_on)  # a response without an end is a warning anyway
    return reduce(sum_of, [piece for _, piece in pieces], JsonObject())
