"""Values read from the items, inputs and outputs of a run."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from enum import Enum
from importlib.util import find_spec
from typing import Any, Final

from pydantic import BaseModel

from toolgrade.capture import ABSENT, Request, image_parts, json_equal
from toolgrade.cases import MLLMImage
from toolgrade.formats import Answer, read_responses_answer, read_responses_call
from toolgrade_openai_agents._tools import field_of

_DATA: Final = (str, int, float, bytes, bytearray, set, frozenset, date, time, Enum, Mapping, BaseModel)
"""Types whose values the core stores as JSON values without loss of their content; `datetime` is a `date`."""


_COUNTS: Final = (
    ("input_tokens", None, "input_tokens"),
    ("output_tokens", None, "output_tokens"),
    ("total_tokens", None, "total_tokens"),
    ("input_cached_tokens", "input_tokens_details", "cached_tokens"),
    ("output_reasoning_tokens", "output_tokens_details", "reasoning_tokens"),
)
"""Names of token counts, each with the attribute of the usage that holds it, if any, and its attribute there."""


def raw_item(item: Any) -> Any:
    """Return the provider's item in an item of a run; the item itself if it is the provider's."""
    return getattr(item, "raw_item", item)


def agent_name(holder: Any) -> str | None:
    """Return the name of an agent; `None` if it has none, or is none."""
    name = getattr(holder, "name", None)
    return name if isinstance(name, str) else None


def model_name(agent: Any, run_config: Any) -> str | None:
    """Return the name of the model that an agent runs on; the run's configuration overrides the agent."""
    for holder in (run_config, agent):
        model = field_of(holder, "model")
        if model is not None:
            name = model if isinstance(model, str) else getattr(model, "model", None)
            return name if isinstance(name, str) else None
    return None


def usage_of(response: Any) -> dict[str, int]:
    """Return the token counts of a model response that are not zero."""
    usage = getattr(response, "usage", None)
    counts: dict[str, int] = {}
    for name, details, field in _COUNTS:
        count = getattr(usage if details is None else getattr(usage, details, None), field, 0)
        if count and isinstance(count, int):
            counts[name] = count
    return counts


# Calls and their results


def requests_in(output: Sequence[Any]) -> list[Request]:
    """Return the calls in a response of the model, each with the reasoning before it."""
    requests: list[Request] = []
    reasoning: str | None = None
    for item in output:
        request = read_responses_call(item)
        if request is not None:
            requests.append(replace(request, reasoning=reasoning) if reasoning else request)
        elif field_of(item, "type") == "reasoning":
            # One thought precedes all of the calls up to the next.
            parts = [*(field_of(item, "content") or ()), *(field_of(item, "summary") or ())]
            texts = [field_of(part, "text") for part in parts]
            reasoning = "\n".join(text for text in texts if isinstance(text, str) and text) or None
    return requests


def has_own_result(request: Request) -> bool:
    """Return whether the result of a call comes in an item of its own, and not in the item of the call."""
    return not request.ran and request.result is ABSENT and request.failure is None


def same_call(first: Request, second: Request) -> bool:
    """Return whether two requests have the same id and name."""
    return (first.id, first.name) == (second.id, second.name)


def is_repeated(request: Request, earlier: Iterable[Request]) -> bool:
    """Return whether an earlier call has the same id, name and arguments."""
    return bool(request.id) and any(
        same_call(request, other) and request.arguments == other.arguments for other in earlier
    )


def repetition_warning(request: Request) -> str:
    """Return the warning for a call that was repeated and run once."""
    return f"the call {request.id!r} of {request.name!r} came twice with the same arguments and ran once; counted once"


@functools.cache
def runs_repeated_calls_once() -> bool:
    """Return whether the installed SDK runs a call once that a provider repeats with the same id and arguments."""
    return find_spec("agents._tool_invocation") is not None


def new_results(items: Any) -> list[tuple[Any, Answer]]:
    """Return the results at the end of a model's input, which the model has not been shown before, with their items."""
    results: list[tuple[Any, Answer]] = []
    for item in reversed(items if isinstance(items, (list, tuple)) else ()):
        raw = raw_item(item)
        answer = read_responses_answer(raw)
        if answer is None:
            break
        results.append((raw, answer))
    return results[::-1]


def is_of_unknown(answer: Answer, request: Request) -> bool:
    """Return whether a result is the SDK's answer to a call of a tool that its agent does not have."""
    return str(answer.content).startswith(f"Tool {request.name!r} not found.")


def waits_for_approval(items: Sequence[Any]) -> bool:
    """Return whether the last item asks for approval of a hosted MCP server's call."""
    return bool(items) and field_of(raw_item(items[-1]), "type") == "mcp_approval_request"


def plain_output(output: object, text: object) -> object:
    """Return a tool's output as a recordable value: text parts as text, unusual objects as their text.

    Args:
        output: What the tool returned.
        text: What the model is shown of it, if that is a text.
    """
    if isinstance(output, ShownAs):
        return output.value
    part = _part(output)
    if part is not None:
        return part
    if isinstance(output, (list, tuple)):
        return _plain_parts(output)
    is_data = output is None or isinstance(output, _DATA) or _is_dataclass(output)
    if is_data and not isinstance(output, BaseException):
        return output
    return text if isinstance(text, str) else str(output)


def _plain_parts(output: Sequence[object]) -> object:
    """Return a list that a tool returned: as one text if all of its items are text parts."""
    parts = [_part(item) for item in output]
    if output and all(isinstance(item, str) for item in parts):
        return "".join(map(str, parts))
    return [output[index] if item is None else item for index, item in enumerate(parts)]


def _part(value: object) -> object:
    """Return the text of a text part, the fields of an image or a file; `None` for anything else."""
    fields = value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
    if not isinstance(fields, Mapping):
        return None
    kind = fields.get("type")
    if kind in ("text", "input_text") and isinstance(fields.get("text"), str):
        return fields["text"]
    return dict(fields) if kind in ("image", "file", "input_image", "input_file") else None


@dataclass(frozen=True)
class ShownAs:
    """A recorded output of a tool that had no JSON type, such as a model: the model was shown another text of it."""

    value: Any
    text: str

    def __str__(self) -> str:
        """Return what the model was shown."""
        return self.text


def as_output(value: Any, shown: Any) -> Any:
    """Return what a tool may have returned that is recorded as this value, and of which the model was shown a text."""
    if isinstance(shown, str) and shown != str(value) and not _is_json_of(value, shown):
        return ShownAs(value, shown)
    if isinstance(value, list) and not isinstance(shown, str) and any(isinstance(_part(part), dict) for part in value):
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in value]
    return value


def _is_json_of(value: object, text: str) -> bool:
    try:
        return json_equal(json.loads(text), value)
    except ValueError:
        return False


def text_shown(output: Any) -> Any:
    """Return the text of an output that the model is shown; `ABSENT` of images and other parts."""
    parts = output if isinstance(output, (list, tuple)) else [output]
    return ABSENT if any(_part(part) is not None for part in parts) else str(output)


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


# Question and answer


def question_of(input: object) -> str | None:
    """Return the text of the user in the input of a run; of a list, that of the last user messages."""
    if isinstance(input, str):
        return input
    texts = [_message_text(content) for content in _user_contents(input)]
    return "\n".join(text for text in texts if text) or None


def prompts_in(input: object) -> list[str]:
    """Return the texts of the system and of the developer in the input of a model."""
    items = input if isinstance(input, (list, tuple)) else ()
    return [
        _message_text(field_of(one, "content")) for one in items if field_of(one, "role") in ("system", "developer")
    ]


def images_of_question(input: object) -> list[str | MLLMImage] | None:
    """Return the texts and images of the same messages as `question_of`; `None` if they have no image."""
    if isinstance(input, str):
        return None
    parts: list[Any] = []
    for content in _user_contents(input):
        parts += content if isinstance(content, (list, tuple)) else [{"type": "input_text", "text": content}]
    return image_parts(parts)


def _user_contents(input: object) -> list[Any]:
    """Return the contents of the last user messages that stand together, unless the last text is an answer to them.

    Instructions, calls and their results may follow.
    """
    contents: list[Any] = []
    has_calls = False
    for item in reversed(input if isinstance(input, (list, tuple)) else ()):
        role = field_of(item, "role")
        if role == "user":
            contents.append(field_of(item, "content"))
        elif contents or (role == "assistant" and not has_calls):
            break
        has_calls = has_calls or role is None
    return contents[::-1]


def _message_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts: Iterable[Any] = content if isinstance(content, (list, tuple)) else ()
    texts = [field_of(part, "text") for part in parts if field_of(part, "type") in ("input_text", "text")]
    return "".join(str(text or "") for text in texts)


def answer_of(output: object) -> str | None:
    """Return the final output as text; of a model or another value, its JSON form."""
    if output is None or isinstance(output, str):
        return output
    if isinstance(output, BaseModel):
        return output.model_dump_json()
    value = dataclasses.asdict(output) if _is_dataclass(output) else output  # type: ignore[call-overload]
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
