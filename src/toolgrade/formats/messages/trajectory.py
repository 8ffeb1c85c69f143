"""Trajectories: lists of OpenAI chat messages, each read as one run."""

from __future__ import annotations

from toolgrade._internal.json import within_limits
from toolgrade.cases import Run
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.messages.openai_chat import read_messages
from toolgrade.formats.messages.transcript import TranscriptBuilder, entries_of


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
    call stands in the same message or after it. Without one the run's status is `stopped`.

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
    transcript = TranscriptBuilder(notes)
    read_messages(entries_of(messages, path, notes), transcript)
    transcript.warn_without_model(path)
    return transcript.build("openai-chat").run, transcript.answer_paths
