"""JSON form of a case in a file of results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from toolmark._internal.json import json_text, short_repr, to_json_value
from toolmark._internal.model import Model, drop_none
from toolmark.calls import Execution, ToolCall, ToolSpec
from toolmark.cases import AnyCase, ConversationalTestCase, Handoff, LLMTestCase, MLLMImage, MLLMTestCase, Run, Turn
from toolmark.errors import InvalidDataError, Problem
from toolmark.expect import read_expectation
from toolmark.expect.json_form import is_expectation
from toolmark.redact import DEFAULT, may_hold_secret

_TYPES: Mapping[str, type[AnyCase]] = {
    "case": LLMTestCase,
    "multimodal": MLLMTestCase,
    "conversation": ConversationalTestCase,
}
_NAMES = {model: name for name, model in _TYPES.items()}
# Models whose dictionaries and lists hold JSON values or such models only, since their validators convert them.
_PLAIN_MODELS = frozenset(
    {LLMTestCase, ConversationalTestCase, Turn, Run, MLLMImage, ToolCall, Execution, ToolSpec, Handoff}
)
_JSON_TYPES = frozenset({str, int, float, bool, type(None), dict})
_MAX_DEPTH = 20

_SHARED = "calls of the case and of its run"
_SHARED_TEXT = f'"{_SHARED}"'.encode()


def encode_case(plain: object) -> tuple[bytes, list[bytes]]:
    """Return the JSON text of a case, given as JSON values: a text, and the texts between which it stands.

    It is that of the calls that the case shares with its run, which is encoded and searched once; else it is empty.
    """
    run = plain.get("run") if isinstance(plain, dict) else None
    if isinstance(plain, dict) and isinstance(run, dict):
        calls = plain.get("tools_called")
        if calls and calls == run.get("calls"):
            rest = {**plain, "tools_called": _SHARED, "run": {**run, "calls": _SHARED}}
            pieces = json_text(rest).encode().split(_SHARED_TEXT)
            if len(pieces) == 3:  # noqa: PLR2004 - the case does not hold this text itself
                return json_text(calls).encode(), pieces
    return b"", [json_text(plain).encode()]


def case_members(case: object, plain: object, shared: bytes, pieces: Sequence[bytes]) -> bytes:
    """Return the type and content of a case in a line of results, without secrets, or why it cannot be written.

    Args:
        case: The case.
        plain: Its JSON values, from `to_plain`.
        shared: The text of these from `encode_case`.
        pieces: As above.
    """
    if not isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)) or type(case) not in _NAMES:
        return _not_written(f"{type(case).__name__} is not a case")
    if not isinstance(plain, dict):
        return _not_written(str(plain))
    if any(map(may_hold_secret, (shared, *pieces))):
        redacted = DEFAULT.model(case)
        if redacted is not case:
            try:
                plain = model_to_dict(redacted)
            except InvalidDataError as error:
                return _not_written(str(error))
            shared, pieces = encode_case(plain)
    content = _without_copied_input(plain)
    text = shared.join(pieces) if content is plain else json_text(content).encode()
    return b'"type": "%b", "content": %b' % (_NAMES[type(case)].encode(), text)


def _not_written(reason: str) -> bytes:
    return b'"not_written": ' + json_text(reason).encode()


def _without_copied_input(content: dict[str, Any]) -> dict[str, Any]:
    """Return a case without the `input_parts` of its run where they are its own input: images are large.

    They are `null` where there are none, which distinguishes the two.
    """
    run, parts = content.get("run"), content.get("input")
    if not isinstance(run, dict) or not isinstance(parts, list):
        return content
    shortened = {"input_parts": None, **run}
    if shortened["input_parts"] == parts:
        del shortened["input_parts"]
    return {**content, "run": shortened}


def _with_copied_input(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a case with the `input_parts` of its run that `_without_copied_input` left out."""
    run, parts = content.get("run"), content.get("input")
    if not isinstance(run, dict) or "input_parts" in run or not isinstance(parts, list):
        return content
    return {**content, "run": {**run, "input_parts": parts}}


def case_from_json(type_name: str | None, content: Mapping[str, Any] | None, **names: str | None) -> AnyCase:
    """Return a case from its JSON form; without content, a case with an id or a name only.

    Raises:
        InvalidDataError: The content does not fit the type.
    """
    if content is None:
        return LLMTestCase.model_validate(drop_none(names))
    model = _TYPES.get(type_name or "case")
    if model is None:
        message = f"expected one of {', '.join(_TYPES)}, got {short_repr(type_name)}"
        raise InvalidDataError(message, [Problem("$.type", message)])
    content = _with_copied_input(content)
    # A predicate is written as its name; only `read_expectation(allow_predicates=True)` accepts that.
    if '"$is": "predicate"' not in json.dumps(content.get("expected_tools")):
        return model.model_validate(content)
    expected = content["expected_tools"]
    plan = read_expectation(expected, allow_predicates=True) if is_expectation(expected) else expected
    return model.model_validate({**content, "expected_tools": plan})


def to_plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return any case or golden as JSON values, for a fingerprint."""
    if isinstance(value, Model):
        try:
            return model_to_dict(value)
        except InvalidDataError as error:
            return str(error)
    return to_json_value(value, [])


class _UnusualError(Exception):
    """A value that only `to_dict` can write."""


def model_to_dict(model: Model) -> dict[str, Any]:
    """Return what `to_dict` does, several times faster; NaN and huge integers are left to `json_text`.

    Raises:
        InvalidDataError: See `Model.to_dict`.
    """
    try:
        plain: dict[str, Any] = _fields(model, {}, 0)
    except _UnusualError:
        return model.to_dict()
    return plain


def _fields(value: Any, plain_by_id: dict[int, Any], depth: int) -> Any:  # noqa: ANN401 - a JSON value
    kind = type(value)
    if kind in _JSON_TYPES:
        return value
    if isinstance(value, list):
        return [_fields(item, plain_by_id, depth) for item in value]
    if isinstance(value, Enum):
        return value.value
    if kind not in _PLAIN_MODELS or depth > _MAX_DEPTH:
        raise _UnusualError
    plain = plain_by_id.get(id(value))
    if plain is None:  # a case and its run share their calls
        fields_set = value.__pydantic_fields_set__
        plain = plain_by_id[id(value)] = {
            name: item if type(item) in _JSON_TYPES else _fields(item, plain_by_id, depth + 1)
            for name, item in value.__dict__.items()
            if name in fields_set
        }
    return plain
