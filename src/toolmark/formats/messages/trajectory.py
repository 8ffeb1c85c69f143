"""What did the agent of this list of OpenAI chat messages do? The list as one run; `openai_chat` reads it."""

from __future__ import annotations

from toolmark.cases import Run
from toolmark.formats.messages.field_readers import Notes
from toolmark.formats.messages.openai_chat import tell_messages
from toolmark.formats.messages.transcript import Telling, entries


def run_from_messages(messages: object, *, path: str = "$.messages", tolerant_arguments: bool = False) -> Run:
    """Return the run that a list of OpenAI chat messages shows.

    Calls stand in the model's order: message, then position in it. Answers are paired by id; where ids are missing or
    stand more than once, in order, with a warning. A call that was answered has status `ok`, one that was not
    `not_executed`; no call counts as `executed`, for messages cannot show that the tool itself ran. Argument text that
    is no JSON object gives the status `invalid_arguments`, empty arguments, the raw text in `requested_parameters`,
    and a warning; what was answered to such a call is no output and stands in `model_output`.

    An output is the text of the tool message. Content parts that are all text are joined; of other lists the texts are
    plain and the parts stay; objects are kept as they are. A tool message without content leaves `output` unset and
    marks it as not captured.

    `input` is the first text of the user. `actual_output` is the final answer: the last text of the assistant, if no
    call stands beside or after it. Without one the run's status is `stopped`.

    Args:
        messages: The list; each message is an object, or an SDK object with `model_dump`.
        path: JSON path of the list in what it was read from; it begins every warning and every problem.
        tolerant_arguments: Read argument texts that are no JSON object as what they can only mean: Python literals,
            JSON text inside of JSON text or a code fence, trailing commas. Each is a warning, its call is not
            `invalid_arguments`, and its text stays in `requested_parameters`.

    Raises:
        InvalidDataError: It is no list of such messages; `problems` has every place that is wrong. Calls in the form of
            another provider or framework (content blocks, items, parts) are such a problem, never an empty list.
    """
    notes = Notes(tolerant=tolerant_arguments)
    run = read_run(messages, path, notes)
    notes.raise_problems()
    return run


def read_run(messages: object, path: str, notes: Notes) -> Run:
    """Return what `run_from_messages` does, but put problems and warnings into `notes`."""
    return read_run_and_answers(messages, path, notes)[0]


def read_run_and_answers(messages: object, path: str, notes: Notes) -> tuple[Run, dict[str, str]]:
    """Return the run, and the path of the answer to each call that got one, by the call's `execution.source`."""
    telling = Telling(notes)
    tell_messages(entries(messages, path, notes), telling)
    if not telling.spoken and not notes.problems:
        notes.warn(path, "holds no message of the assistant, so that no call was made is all it can say")
    return telling.finish("openai-chat").run, telling.answered
