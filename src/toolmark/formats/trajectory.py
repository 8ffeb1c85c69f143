"""What did the agent of this list of OpenAI chat messages do?

The messages are those of the Chat Completions API: roles `user`, `assistant` (whose `tool_calls` are the calls) and
`tool` (whose `tool_call_id` names the call it answers); `system` and `developer` say nothing about calls. The older
`function_call` with role `function` is read too, with a warning. What cannot be read is an error with its JSON path;
what was understood only in part is a text in `Run.warnings`. No call is ever left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolmark._json import to_json_value
from toolmark.calls import CallStatus, Execution, ToolCall, ToolCallType
from toolmark.cases import Run, RunStatus
from toolmark.errors import InvalidDataError
from toolmark.formats._foreign import foreign_shape
from toolmark.formats._pairing import Answer, Asked, pair
from toolmark.formats._reading import Notes, as_object, identifier, part_text, read_arguments, read_text, shown

_SILENT_ROLES = ("system", "developer")
_ROLES = ("user", "assistant", "tool", *_SILENT_ROLES, "function")

_CALL_IN_TEXT = "<tool_call>"
"""How several open models write a call when the server that runs them was not told to parse it."""


@dataclass
class Trajectory:
    """A list of messages, read: the calls with their answers, and the texts round them."""

    calls: list[Asked] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    input: str | None = None
    actual_output: str | None = None
    spoken: bool = False
    """There is an assistant's message, so that an empty list of calls says that nothing was called."""


def run_from_messages(messages: object, *, path: str = "$.messages") -> Run:
    """Return the run that a list of OpenAI chat messages shows.

    Calls stand in the model's order: message, then position in it. Answers are paired by id; where ids are missing or
    stand more than once, in order, with a warning. A call that was answered has status `ok`, one that was not
    `not_executed`; no call counts as `executed`, for messages cannot show that the tool itself ran. Argument text that
    is no JSON object gives the status `invalid_arguments`, empty arguments, the raw text in `requested_parameters`,
    and a warning; what was answered to such a call is no output and stands in `model_output`.

    An output is the text of the tool message. Content parts that are all text are joined, other lists and objects are
    kept as they are. A tool message without content leaves `output` unset and marks it as not captured.

    `input` is the first text of the user. `actual_output` is the final answer: the last text of the assistant, if no
    call stands beside or after it. Without one the run's status is `stopped`.

    Args:
        messages: The list; each message is an object, or an SDK object with `model_dump`.
        path: JSON path of the list in what it was read from; it begins every warning and every problem.

    Raises:
        InvalidDataError: It is no list of such messages; `problems` has every place that is wrong. Calls in the form of
            another provider or framework (content blocks, items, parts) are such a problem, never an empty list.
    """
    notes = Notes()
    run = read_run(messages, path, notes)
    notes.raise_problems()
    return run.model_copy(update={"warnings": notes.warnings}) if notes.warnings else run


def read_run(messages: object, path: str, notes: Notes) -> Run:
    """Return what `run_from_messages` does, but put problems and warnings into `notes`."""
    trajectory = read_trajectory(messages, path, notes)
    fields: dict[str, Any] = {"calls": tool_calls(trajectory, notes)}
    if trajectory.input is not None:
        fields["input"] = trajectory.input
    if trajectory.actual_output is not None:
        fields["actual_output"] = trajectory.actual_output
    else:
        fields["status"] = RunStatus.STOPPED
    return Run(**fields)


def read_trajectory(messages: object, path: str, notes: Notes) -> Trajectory:
    """Return the calls of the messages, each with its answer; what is wrong or doubtful goes into `notes`."""
    trajectory = Trajectory()
    if not isinstance(messages, (list, tuple)):
        notes.problem(path, f"expected a list of chat messages, got {shown(messages)}")
        return trajectory
    for index, message in enumerate(messages):
        _read_message(message, index, f"{path}[{index}]", trajectory, notes)
    pair(trajectory.calls, trajectory.answers, notes)
    if not trajectory.spoken and not notes.problems:
        notes.warn(path, "holds no message of the assistant, so that no call was made is all it can say")
    return trajectory


def _read_message(message: object, index: int, path: str, trajectory: Trajectory, notes: Notes) -> None:
    fields = as_object(message)
    if fields is None:
        notes.problem(path, f"expected a message (an object with a role), got {shown(message)}")
        return
    shape = foreign_shape(fields)
    role = fields.get("role")
    if shape is not None:
        notes.problem(path, f"expected an OpenAI chat message; this looks like {shape}")
    elif role not in _ROLES:
        notes.problem(f"{path}.role", f"expected one of {', '.join(_ROLES)}, got {shown(role)}")
    elif role == "assistant":
        _read_assistant(fields, index, path, trajectory, notes)
    elif fields.get("tool_calls") or fields.get("function_call"):
        notes.problem(path, f"calls stand in a message of role {role!r}; only an assistant's message can hold them")
    elif role in ("tool", "function"):
        trajectory.actual_output = None
        trajectory.answers.append(_answer(fields, index, path, notes))
    elif role == "user" and trajectory.input is None:
        trajectory.input = _text(fields, path, notes)


def _text(fields: Mapping[str, object], path: str, notes: Notes) -> str | None:
    text, left_out = read_text(fields.get("content"))
    if left_out:
        kinds = ", ".join(dict.fromkeys(map(repr, left_out)))
        notes.warn(f"{path}.content", f"holds more than text ({kinds}); only the text was kept")
    return text or None


def _read_assistant(fields: Mapping[str, object], index: int, path: str, trajectory: Trajectory, notes: Notes) -> None:
    trajectory.spoken = True
    before = len(trajectory.calls)
    step = trajectory.calls[-1].step + 1 if trajectory.calls else 0
    calls = fields.get("tool_calls")
    if isinstance(calls, (list, tuple)):
        for position, entry in enumerate(calls):
            asked = _asked(entry, f"{path}.tool_calls[{position}]", index, step, notes)
            if asked is not None:
                trajectory.calls.append(asked)
    elif calls is not None:
        notes.problem(f"{path}.tool_calls", f"expected a list of calls, got {shown(calls)}")
    legacy = fields.get("function_call")
    if legacy is not None:
        _read_legacy(legacy, index, path, step, trajectory.calls, notes)
    text = _text(fields, path, notes)
    if len(trajectory.calls) > before:
        trajectory.actual_output = None
        return
    if text is not None and _CALL_IN_TEXT in text:
        notes.warn(f"{path}.content", f"{_CALL_IN_TEXT!r} in the text was not read as a call; parse it into tool_calls")
    refusal = fields.get("refusal")
    trajectory.actual_output = text or (refusal if isinstance(refusal, str) else None) or trajectory.actual_output


def _read_legacy(value: object, index: int, path: str, step: int, calls: list[Asked], notes: Notes) -> None:
    asked = _asked({"type": "function", "function": value}, f"{path}.function_call", index, step, notes, legacy=True)
    if asked is None:
        return
    for other in calls:
        if other.message == index and (other.name, other.arguments) == (asked.name, asked.arguments):
            notes.warn(asked.path, f"repeats the call {other.path}; it counts once")
            return
    calls.append(asked)


def _asked(entry: object, path: str, index: int, step: int, notes: Notes, *, legacy: bool = False) -> Asked | None:
    fields = as_object(entry)
    if fields is None:
        notes.problem(path, f"expected a call (an object), got {shown(entry)}")
        return None
    body, kind = call_body(fields)
    name = body.get("name")
    if not isinstance(name, str) or not name:
        where = f"{path}.function.name" if "function" in fields and not legacy else f"{path}.name"
        notes.problem(where, f"a call needs the name of its tool, got {shown(name)}")
        return None
    arguments = body.get("input") if kind is ToolCallType.CUSTOM else body.get("arguments", body.get("args"))
    return Asked(path, index, step, identifier(fields.get("id"), f"{path}.id", notes), name, kind, arguments, legacy)


def call_body(fields: Mapping[str, object]) -> tuple[Mapping[str, object], ToolCallType]:
    """Return the object that has the name and the arguments of a call, and the call's type.

    That is the value of `function` or of `custom`, or the entry itself where a framework has flattened it.
    """
    custom = as_object(fields.get("custom"))
    if custom is not None and as_object(fields.get("function")) is None:
        return custom, ToolCallType.CUSTOM
    return as_object(fields.get("function")) or fields, ToolCallType.FUNCTION


def _answer(fields: Mapping[str, object], index: int, path: str, notes: Notes) -> Answer:
    name = fields.get("name", fields.get("tool_name"))
    return Answer(
        path,
        index,
        identifier(fields.get("tool_call_id"), f"{path}.tool_call_id", notes),
        name if isinstance(name, str) and name else None,
        _output(fields.get("content")),
        legacy=fields.get("role") == "function",
    )


def _output(content: object) -> object:
    """Return the text of content whose parts are all text, and any other content as it is."""
    if not isinstance(content, (list, tuple)) or not content:
        return content
    texts = [part_text(part) for part in content]
    return content if None in texts else "".join(text for text in texts if text is not None)


def tool_calls(trajectory: Trajectory, notes: Notes) -> list[ToolCall]:
    """Return the calls of a trajectory as recorded calls, in the model's order."""
    calls: list[ToolCall] = []
    for asked in trajectory.calls:
        try:
            calls.append(_tool_call(asked, notes))
        except InvalidDataError as error:
            notes.adopt(error, asked.path)
    return calls


def _tool_call(asked: Asked, notes: Notes) -> ToolCall:
    if asked.type is ToolCallType.CUSTOM:
        arguments, reason = to_json_value({} if asked.arguments is None else {"input": asked.arguments}), None
    else:
        arguments, reason = read_arguments(asked.arguments)
    answer = asked.answer
    known: dict[str, Any] = {} if asked.id is None else {"id": asked.id}
    status = CallStatus.NOT_EXECUTED if answer is None else CallStatus.OK
    execution: dict[str, Any] = {"executed": False, "step": asked.step, "source": asked.path.removeprefix("$.")}
    if reason is not None:
        status = CallStatus.INVALID_ARGUMENTS
        execution["requested_parameters"] = asked.arguments
        notes.warn(asked.path, f"the arguments of {asked.name!r} are no JSON object ({reason}); they count as {{}}")
        if answer is not None and answer.content is not None:
            execution["model_output"] = answer.content
    elif answer is not None and answer.content is None:
        notes.warn(answer.path, f"the tool message has no content; the output of {asked.name!r} was not captured")
        execution["not_captured"] = ["output"]
    elif answer is not None:
        known["output"] = answer.content
    return ToolCall(
        name=asked.name,
        type=asked.type,
        input_parameters=arguments,
        execution=Execution(status=status, **execution),
        **known,
    )
