"""JSON form of a case in a file of results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from operator import is_
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from toolgrade._internal.json import json_text, short_repr, to_json_value
from toolgrade._internal.model import Model, drop_none
from toolgrade.calls import Execution, ToolCall, ToolSpec
from toolgrade.cases import AnyCase, ConversationalTestCase, Handoff, LLMTestCase, MLLMImage, MLLMTestCase, Run, Turn
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.expect import read_expectation
from toolgrade.expect.json_form import is_expectation
from toolgrade.redact import DEFAULT, may_hold_secret

_TYPES: Mapping[str, type[AnyCase]] = {
    "case": LLMTestCase,
    "multimodal": MLLMTestCase,
    "conversation": ConversationalTestCase,
}
_NAMES = {model: name for name, model in _TYPES.items()}
# Models whose fields hold JSON values or such models only, since their validators convert them.
_PLAIN_MODELS = frozenset(
    {LLMTestCase, ConversationalTestCase, Turn, Run, MLLMImage, ToolCall, Execution, ToolSpec, Handoff}
)
_MAX_DEPTH = 20

_SHARED = "calls of the case and of its run"
_SHARED_TEXT = f'"{_SHARED}"'.encode()


class EncodedCase(NamedTuple):
    """A case or a golden with its JSON text: `shared`, and the texts between which it stands.

    `shared` is that of the calls that a case shares with its run, which is encoded and searched once; else it is empty.
    Of a case that cannot be written the text is the reason.
    """

    case: object
    shared: bytes
    pieces: Sequence[bytes]

    @property
    def text(self) -> bytes:
        """The whole text."""
        return self.shared.join(self.pieces)


def encode_case(case: object) -> EncodedCase:
    """Return any case or golden with its JSON text."""
    if type(case) is LLMTestCase and type(case.run) is Run:
        calls, run = case.tools_called, case.run
        if calls and len(calls) == len(run.calls) and all(map(is_, calls, run.calls)):
            rest = {**_set_fields(case), "tools_called": _SHARED, "run": {**_set_fields(run), "calls": _SHARED}}
            shared, text = _encode_plain(calls), _encode_plain(rest)
            pieces = [] if text is None else text.split(_SHARED_TEXT)
            if shared is not None and len(pieces) == 3:  # noqa: PLR2004 - the case does not hold this text itself
                return EncodedCase(case, shared, pieces)
    try:
        text = encode_model(case) if isinstance(case, Model) else json_text(to_json_value(case, [])).encode()
    except InvalidDataError as error:
        text = json_text(str(error)).encode()
    return EncodedCase(case, b"", [text])


def case_members(encoded: EncodedCase) -> bytes:
    """Return the type and content of a case in a line of results, without secrets, or why it cannot be written."""
    case = encoded.case
    if not isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)) or type(case) not in _NAMES:
        return _not_written(json_text(f"{type(case).__name__} is not a case").encode())
    redacted = DEFAULT.model(case) if any(map(may_hold_secret, (encoded.shared, *encoded.pieces))) else case
    if redacted is not case:
        encoded = encode_case(redacted)
    text = encoded.text
    if not text.startswith(b"{"):
        return _not_written(text)
    if isinstance(redacted, MLLMTestCase) and isinstance(redacted.run, Run) and isinstance(redacted.input, list):
        text = json_text(_without_copied_input(redacted.to_dict())).encode()
    return b'"type": "%b", "content": %b' % (_NAMES[type(case)].encode(), text)


def _not_written(reason: bytes) -> bytes:
    return b'"not_written": ' + reason


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

    The content of a case that is named by its place has no name.

    Raises:
        InvalidDataError: The content does not fit the type.
    """
    if content is None:
        return LLMTestCase.model_validate(drop_none(names))
    content = {**drop_none(names), **content}
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


class _UnusualError(Exception):
    """A value that only `to_dict` can write."""


def encode_model(model: Model) -> bytes:
    """Return the JSON text of what `to_dict` returns, several times faster.

    Raises:
        InvalidDataError: See `Model.to_dict`.
    """
    text = _encode_plain(model)
    return json_text(model.to_dict()).encode() if text is None else text


def _encode_plain(value: object) -> bytes | None:
    """Return the JSON text of models and JSON values, `None` if only `to_dict` can write them."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # lone surrogates
        return _encode_ascii(value).encode()
    except (_UnusualError, ValueError, RecursionError):  # also NaN and integers of thousands of digits
        return None


def _to_plain(value: object) -> object:
    if type(value) in _PLAIN_MODELS and isinstance(value, Model):
        if type(value) is Execution and value.children and _is_deep(value, _MAX_DEPTH):
            raise _UnusualError
        return _set_fields(value)
    if isinstance(value, Enum):
        return value.value
    if type(value) is datetime:
        return to_jsonable_python(value)
    raise _UnusualError


def _set_fields(model: Model) -> dict[str, Any]:
    names = model.__pydantic_fields_set__
    return {name: value for name, value in model.__dict__.items() if name in names}


def _is_deep(execution: Execution, levels: int) -> bool:
    children = [call.execution for call in execution.children if call.execution is not None]
    return levels == 0 or any(_is_deep(child, levels - 1) for child in children)


# Models are frozen, and their values are JSON, so none contains itself.
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, default=_to_plain).encode
_encode_ascii = json.JSONEncoder(check_circular=False, allow_nan=False, default=_to_plain).encode
