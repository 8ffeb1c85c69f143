"""What was recorded here, in whichever of the formats? The one reader that finds out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal, get_args

from toolmark.errors import ConfigurationError
from toolmark.formats.messages import anthropic, langchain, openai_chat, openai_responses
from toolmark.formats.messages.detect import sign_of
from toolmark.formats.messages.envelopes import Held, unpack
from toolmark.formats.messages.field_readers import Notes, as_object
from toolmark.formats.messages.offered_tools import offered_tools
from toolmark.formats.messages.transcript import Entry, FormatName, Telling, Transcript

FORMATS: tuple[FormatName, ...] = get_args(FormatName)
"""The formats that `read` knows."""

_TELL: dict[FormatName, Callable[[Iterable[Entry], Telling], None]] = {
    "openai-chat": openai_chat.tell_messages,
    "openai-responses": openai_responses.tell_items,
    "anthropic": anthropic.tell_messages,
    "langchain": langchain.tell_messages,
}


def read(
    value: object,
    *,
    format: FormatName | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    path: str = "$",
    tolerant_arguments: bool = False,
) -> Transcript:
    """Return what messages of OpenAI, Anthropic or LangChain record: the run, its turns, and the conversation.

    The value is a list of messages (Chat Completions, Anthropic's, LangChain's) or items (Responses), the body of a
    request, of a response, or of both (in one object, or under `request` and `response`); plain objects or the
    packages' own. What the calls and their results become is the same in all formats.

    Messages that are plain text read alike in all formats and are taken for `openai-chat`.

    Args:
        value: What was recorded.
        format: What it is; by default, what it looks like, which stands in the `format` of the result.
        handoff_names: Names of tools that hand over to another agent; their calls are hand-offs of the run, and not
            among its called tools.
        path: JSON path of the value in what it was read from; it begins every warning and every problem.
        tolerant_arguments: See `run_from_messages`.

    Raises:
        InvalidDataError: It is none of these, holds no message, mixes formats, or has several choices; `problems` has
            every place that is wrong.
        ConfigurationError: `format` is no format.
    """
    if format != "auto" and format not in FORMATS:
        raise ConfigurationError(f"format must be 'auto' or one of {', '.join(map(repr, FORMATS))}; got {format!r}")
    notes = Notes(tolerant=tolerant_arguments)
    held = unpack(value, path, notes)
    notes.raise_problems()
    found = _detected(held) if format == "auto" else format
    notes.raise_problems()
    telling = Telling(notes, handoff_names=handoff_names)
    specs, all_known = offered_tools(found, held.tools)
    telling.offered(specs, all_known=all_known)
    _TELL[found](held.entries, telling)
    for model, usage in held.used:
        telling.model_used(model, usage)
    telling.ended(*held.end)
    if not telling.spoken and not notes.problems:
        notes.warn(path, "holds no message of the assistant, so that no call was made is all it can say")
    transcript = telling.finish(found)
    notes.raise_problems()
    return transcript


def _detected(held: Held) -> FormatName:
    """Return the one format that the messages are of; what speaks for another, or for two, is a problem."""
    sure: dict[FormatName, tuple[str, str]] = {}
    hinted: list[FormatName] = []
    for name, path, phrase in held.hints:
        sure.setdefault(name, (path, phrase))
    for path, entry in held.entries:
        sign = sign_of(as_object(entry) or {})
        if sign is None:
            continue
        if sign.format is None:
            known = "messages of OpenAI, Anthropic or LangChain"
            held.notes.problem(path, f"expected {known}; this looks like {sign.phrase}")
        elif sign.sure:
            sure.setdefault(sign.format, (path, sign.phrase))
        else:
            hinted.append(sign.format)
    if len(sure) > 1:
        (first, one), (second, other) = list(sure.values())[:2]
        held.notes.problem(second, f"looks like {other}, but {first} like {one}; one list has one format")
    found: list[FormatName] = [*sure, *hinted, "openai-chat"]
    return found[0]
