"""Reader of recorded messages in any supported format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal, get_args

from toolgrade._internal.json import within_limits
from toolgrade.errors import ConfigurationError
from toolgrade.formats.messages import anthropic, langchain, openai_chat, openai_responses
from toolgrade.formats.messages.detect import detect_format, entries_in_format
from toolgrade.formats.messages.envelopes import unpack
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.messages.offered_tools import offered_tools
from toolgrade.formats.messages.transcript import Entry, FormatName, Transcript, TranscriptBuilder

FORMATS: tuple[FormatName, ...] = get_args(FormatName)
"""The formats that `read` supports."""

_READERS: dict[FormatName, Callable[[Iterable[Entry], TranscriptBuilder], None]] = {
    "openai-chat": openai_chat.read_messages,
    "openai-responses": openai_responses.read_items,
    "anthropic": anthropic.read_messages,
    "langchain": langchain.read_messages,
}


@within_limits
def read(
    value: object,
    *,
    format: FormatName | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    path: str = "$",
) -> Transcript:
    """Return the transcript of messages of OpenAI, Anthropic or LangChain: the run, its turns, and the conversation.

    The value is a list of messages (Chat Completions, Anthropic's, LangChain's) or items (Responses), the body of a
    request, of a response, or of both (in one object, or under `request` and `response`); plain objects or the
    packages' own. All formats give the same calls and results.

    Messages that are plain text are equal in all formats and are read as `openai-chat`.

    Args:
        value: The recorded value.
        format: Its format; detected by default, and then named in the `format` of the result.
        handoff_names: Names of tools that hand over to another agent; their calls are hand-offs of the run, and not
            among its called tools.
        path: JSON path of the value in what it was read from; it begins every warning and every problem.

    Raises:
        InvalidDataError: The value has another format, has no message, mixes formats, or has several choices;
            `problems` has every wrong place.
        ConfigurationError: `format` is not one of `FORMATS`.

    Example:
        >>> from toolgrade.formats import read
        >>> call = {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Paris"}}
        >>> messages = [
        ...     {"role": "user", "content": "What is the weather in Paris?"},
        ...     {"role": "assistant", "content": [call]},
        ... ]
        >>> transcript = read(messages)
        >>> print(transcript.format, transcript.run.tools_called[0].arguments)
        anthropic {'city': 'Paris'}
    """
    if format != "auto" and format not in FORMATS:
        raise ConfigurationError(f"format must be 'auto' or one of {', '.join(map(repr, FORMATS))}; got {format!r}")
    notes = Notes()
    envelope = unpack(value, path, notes)
    notes.raise_problems()
    entries = envelope.entries
    if format == "auto":
        name = detect_format(entries, envelope.hints, notes)
        notes.raise_problems()
    else:
        name = format
        entries = entries_in_format(name, entries, notes)
    transcript = TranscriptBuilder(notes, handoff_names=handoff_names)
    specs, all_known = offered_tools(name, envelope.tools)
    transcript.offer_tools(specs, all_known=all_known)
    _READERS[name](entries, transcript)
    for model, usage in envelope.usage:
        transcript.add_model_use(model, usage)
    transcript.end(*envelope.end)
    transcript.warn_without_model(path)
    result = transcript.build(name)
    notes.raise_problems()
    return result
