"""Cases, conversations and calls of DeepEval from those of toolgrade, and back."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any, Final

from toolgrade import calls as core_calls
from toolgrade import cases as core
from toolgrade import dataset as core_dataset
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.model import Model, drop_none, set_fields
from toolgrade.compat.deepeval._goldens import ConversationalGolden, Golden
from toolgrade.compat.deepeval.test_case import (
    ConversationalTestCase,
    LLMTestCase,
    MLLMTestCase,
    ToolCall,
    Turn,
    measured_case,
)
from toolgrade.errors import ConfigurationError, InvalidDataError

_ORIGINAL: Final = "toolgrade.case"
"""Key in the metadata of a case of DeepEval: the case of toolgrade that it was made of, as JSON values."""

_CALL_FIELDS = ("name", "description", "reasoning", "input_parameters", "output")
_TEXTS = ("input", "actual_output", "expected_output")
_GOLDENS: dict[str, type[Model]] = {"Golden": Golden, "ConversationalGolden": ConversationalGolden}


def is_of_deepeval(value: object) -> bool:
    """Return whether something is an object of a class of DeepEval, or of one that a suite based on it."""
    return any(one.__module__.partition(".")[0] == "deepeval" for one in type(value).mro())


def own_case_of(case: object) -> core.AnyCase:
    """Return any case as toolgrade's own, a copy if it may change: of toolgrade, of this package or of DeepEval.

    Raises:
        ConfigurationError: It is not a case.
    """
    own = converted(case)
    if not isinstance(own, core.AnyCase):
        raise ConfigurationError(f"a test case must be an LLMTestCase or a conversation, got {type(case).__name__}")
    return own


def converted(case: object) -> Any:  # noqa: ANN401 - as `own_case_of`
    """Do what `own_case_of` does, but return what is not a case as it is."""
    return measured_case(from_case(case) if is_of_deepeval(case) else case)


def to_case(value: Model) -> Any:  # noqa: ANN401 - of deepeval
    """Return DeepEval's form of a case, a conversation or a call."""
    if isinstance(value, core_calls.ToolCall):
        return _to_call(value)
    if not isinstance(value, core.AnyCase):
        raise ConfigurationError(f"DeepEval has a form of cases, conversations and calls, got {type(value).__name__}")
    is_conversation = isinstance(value, core.ConversationalTestCase)
    kind = _theirs("ConversationalTestCase" if is_conversation else "LLMTestCase")
    fields = _to_fields(value, kind)
    if isinstance(value, core.ConversationalTestCase):
        turn = _theirs("Turn")
        fields["turns"] = [turn(**_to_fields(one, turn)) for one in value.turns]
    else:
        fields = {"input": "", **fields}
    made = kind(**fields)
    if from_case(made).to_dict() != value.to_dict():
        made.metadata = {**(made.metadata or {}), _ORIGINAL: value.to_dict()}
    return made


def from_case(value: Any) -> Any:  # noqa: ANN401 - of deepeval
    """Return toolgrade's form of a case, a conversation or a call of DeepEval."""
    if isinstance(value, Model):
        return value
    if not is_of_deepeval(value) or not hasattr(value, "model_fields_set"):
        text = "must be a metric, a test case, a golden or a call of DeepEval"
        raise ConfigurationError(f"the value of from_deepeval {text}, got {type(value).__name__}")
    if {"tools_called", "turns"}.isdisjoint(type(value).model_fields):
        return _call_of(value)
    kind: type[Model] = ConversationalTestCase if hasattr(value, "turns") else LLMTestCase
    kind = _GOLDENS.get(type(value).__name__, kind)
    fields = _fields_of(value)
    original = fields.get("metadata", {}).get(_ORIGINAL)
    if isinstance(original, dict):
        with suppress(InvalidDataError):  # else it is the user's own
            case = _case_of(original, kind)
            if _fields_of(to_case(case)) == _fields_of(value):
                return case
            del fields["metadata"][_ORIGINAL]
    if not fields.get("metadata"):
        fields.pop("metadata", None)
    if "turns" in fields:
        fields["turns"] = [Turn(**_fields_of(turn)) for turn in fields["turns"]]
    return kind(**fields)


def _case_of(fields: dict[str, Any], kind: type[Model]) -> Model:
    """Return the case with these JSON values, which is of another class if it has images."""
    is_multimodal = any(isinstance(fields.get(name), list) for name in _TEXTS)
    return (MLLMTestCase if is_multimodal else kind).model_validate(fields)


def as_golden(golden: Any) -> core_dataset.Golden:  # noqa: ANN401 - a golden of any kind
    """Return a golden of one question as toolgrade's own: of toolgrade, of this package or of DeepEval.

    Raises:
        ConfigurationError: It is not one.
    """
    golden = from_case(golden) if is_of_deepeval(golden) else golden
    if not isinstance(golden, core_dataset.Golden):
        raise ConfigurationError(f"a golden must be a Golden with an input, got {type(golden).__name__}")
    names = core_dataset.Golden.model_fields.keys() - {"context", "retrieval_context", "comments"}
    fields = {name: value for name, value in set_fields(golden).items() if name in names}
    if isinstance(golden, Golden) and golden.id is None and golden.name is not None:
        fields["id"] = golden.name
    return core_dataset.Golden(**fields)


def _theirs(name: str) -> Any:  # noqa: ANN401 - a class of deepeval, which may be missing
    return getattr(import_extra("deepeval.test_case", "deepeval", "a case of DeepEval"), name)


def _to_call(call: core_calls.ToolCall) -> Any:  # noqa: ANN401 - of deepeval
    fields = {name: getattr(call, name) for name in _CALL_FIELDS if name in call.model_fields_set}
    types = _theirs("ToolCallType")
    kind = types.MCP if call.type is core_calls.ToolCallType.MCP else types.FUNCTION
    return _theirs("ToolCall")(**fields, **({} if call.type is None else {"type": kind}))


def _to_fields(value: Model, kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a class of deepeval
    """Return the set fields that a class of DeepEval has, too."""
    fields = {
        name: field for name, field in set_fields(value).items() if name in kind.model_fields and field is not None
    }
    for name in fields.keys() & {"tools_called", "expected_tools"}:
        if not isinstance(fields[name], list):
            kind = type(fields[name]).__name__
            raise InvalidDataError(f"{name} must be a list of calls for DeepEval, got {kind}")
        fields[name] = [_to_call(call) for call in fields[name]]
    for name in fields.keys() & {*_TEXTS}:
        if isinstance(fields[name], list):
            fields[name] = "".join(part if isinstance(part, str) else _mark(part) for part in fields[name])
        elif not isinstance(fields[name], str):  # a matcher
            del fields[name]
    return fields


def _mark(image: core.MLLMImage) -> str:
    """Return the mark of an image in a text, for the class of DeepEval's images to know it."""
    if not image.data:
        return f"[DEEPEVAL:IMAGE:{image.url or image.path}]"
    name = hashlib.sha256(image.data.encode()).hexdigest()[:32]
    return str(_theirs("MLLMImage")(dataBase64=image.data, mimeType=image.mime_type or "image/png", _id=name))


def _call_of(call: Any) -> ToolCall:  # noqa: ANN401 - of deepeval
    kind = call.type.value if "type" in call.model_fields_set else None
    return ToolCall(**drop_none({**{name: getattr(call, name) for name in _CALL_FIELDS}, "type": kind}))


def _fields_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - of deepeval
    """Return the fields of an object of DeepEval that are not at their default."""
    fields = drop_none({name: getattr(value, name) for name in value.model_fields_set - {"multimodal"}})
    for name in fields.keys() & {"tools_called", "expected_tools"}:
        fields[name] = [_call_of(call) for call in fields[name]]
    if "metadata" in fields:
        fields["metadata"] = dict(fields["metadata"])
    return fields
