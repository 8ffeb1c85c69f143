"""Readers of recorded messages: in any supported format, and of OpenAI chat messages alone (trajectories)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Literal, get_args

from toolgrade._internal.json import within_limits
from toolgrade.cases import Run
from toolgrade.errors import ConfigurationError
from toolgrade.formats.messages import anthropic, bedrock, gemini, langchain, ollama, openai_chat, openai_responses
from toolgrade.formats.messages.claude_code import read_lines
from toolgrade.formats.messages.detect import chat_format, detect_format, entries_in_format
from toolgrade.formats.messages.envelopes import unpack
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.messages.google_adk import read_events
from toolgrade.formats.messages.message import Entry, ModelUse, NeutralMessage, OfferedTools, entries_of
from toolgrade.formats.messages.offered_tools import offered_tools
from toolgrade.formats.messages.transcript import FormatName, Transcript, read_transcript, run_of

FORMATS: tuple[FormatName, ...] = get_args(FormatName)
"""The formats that `read` supports."""

_READERS: dict[FormatName, Callable[[Iterable[Entry], Notes], Iterator[tuple[str, NeutralMessage]]]] = {
    "openai-chat": openai_chat.read_messages,
    "openai-responses": openai_responses.read_items,
    "anthropic": anthropic.read_messages,
    "gemini": gemini.read_messages,
    "bedrock": bedrock.read_messages,
    "ollama": ollama.read_messages,
    "langchain": langchain.read_messages,
    "claude-code": read_lines,
    "google-adk": read_events,
}


@within_limits
def read(
    value: object,
    *,
    format: FormatName | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    path: str = "$",
) -> Transcript:
    """Return the transcript of recorded messages: the run, its turns, and the conversation.

    The value is a list of messages (Chat Completions, Anthropic's, Gemini's, Bedrock's, Ollama's, LangChain's) or items
    (Responses), the events of one stream, the body of a request, of a response, or of both (in one object, or under
    `request` and `response`); plain objects or the packages' own. All formats give the same calls and results.

    Messages that are plain text are equal in nearly all formats and are read as `openai-chat`.

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
    known: list[NeutralMessage] = [OfferedTools(*offered_tools(name, envelope.tools)), *envelope.instructions]
    uses = [ModelUse(model, usage) for model, usage in envelope.usage]
    messages = chain([(path, one) for one in known], _READERS[name](entries, notes), [(path, use) for use in uses])
    transcript = read_transcript(messages, path, notes, format=name, handoff_names=handoff_names, end=envelope.end)
    notes.raise_problems()
    return transcript


@within_limits
def run_from_messages(messages: object, *, path: str = "$.messages") -> Run:
    """Return the run that a list of OpenAI chat messages records.

    Calls are in the model's order: message, then position in it. Answers are paired by id; where ids are missing or
    repeat, in order, with a warning. An answered call has status `ok`, another one `not_executed`; no call counts as
    `executed`, because messages cannot show that the tool itself ran. Argument text that is not a JSON object gives the
    status `invalid_arguments`, empty arguments, the raw text in `requested_parameters`, and a warning; an answer to
    such a call is not an output and goes to `model_output`.

    An output is the text of the tool message. Content parts that are all text are concatenated; in other lists the
    texts become plain strings and the other parts stay; objects stay as they are. A tool message without content leaves
    `output` unset and marks it as not captured.

    `input` is the first text of the user. `actual_output` is the final answer: the last text of the assistant, if no
    call stands in the same message or after it; empty if the last message, after calls or in a later turn, says
    nothing. Without a text the run's status is `stopped`.

    Args:
        messages: The list; each message is an object, or an SDK object with `model_dump`.
        path: JSON path of the list in what it was read from; it begins every warning and every problem.

    Raises:
        InvalidDataError: It is not a list of such messages; `problems` has every wrong place. Calls in the form of
            another provider or framework (content blocks, items, parts) are such a problem, never an empty list.

    Example:
        >>> from toolgrade import run_from_messages
        >>> function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        >>> messages = [
        ...     {"role": "user", "content": "What is the weather in Paris?"},
        ...     {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        ...     {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ... ]
        >>> call = run_from_messages(messages).tools_called[0]
        >>> print(call.name, call.arguments, call.output)
        get_weather {'city': 'Paris'} sunny
    """
    notes = Notes()
    run, _ = read_run(messages, path, notes)
    notes.raise_problems()
    return run


def read_run(messages: object, path: str, notes: Notes) -> tuple[Run, dict[str, str]]:
    """Return the run, and the path of the answer to each call that has one, by the call's `execution.source`.

    Problems and warnings go to `notes`.
    """
    entries = entries_of(messages, path, notes)
    return run_of(openai_chat.read_messages(entries, notes), path, notes, chat_format(entries))
