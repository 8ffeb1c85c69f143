"""JSON form of a case in a file of results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolmark._internal.json import to_json_value
from toolmark._internal.model import Model
from toolmark.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMTestCase
from toolmark.errors import InvalidDataError
from toolmark.expect import read_expectation
from toolmark.expect.json_form import is_expectation
from toolmark.redact import DEFAULT, Redactor

_TYPES: Mapping[str, type[AnyCase]] = {
    "case": LLMTestCase,
    "multimodal": MLLMTestCase,
    "conversation": ConversationalTestCase,
}
_NAMES = {model: name for name, model in _TYPES.items()}


def case_to_json(case: object, redactor: Redactor = DEFAULT, *, plain: object = None) -> dict[str, Any]:
    """Return a case with its type as JSON values, without secrets, or why it cannot be written.

    `plain` is the result of `to_plain(case)` if the caller has it.
    """
    if not isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)) or type(case) not in _NAMES:
        return {"not_written": f"{type(case).__name__} is not a case"}
    try:
        redacted = redactor.model(case)
        content = plain if redacted is case and isinstance(plain, dict) else redacted.to_dict()
    except InvalidDataError as error:
        return {"not_written": str(error)}
    return {"type": _NAMES[type(case)], "content": content}


def case_from_json(type_name: str | None, content: Mapping[str, Any] | None, **names: str | None) -> AnyCase:
    """Return a case from its JSON form; without content, a case with an id or a name only.

    Raises:
        InvalidDataError: The content does not fit the type.
    """
    if content is None:
        return LLMTestCase.model_validate({name: value for name, value in names.items() if value is not None})
    model = _TYPES[type_name or "case"]
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
            return value.to_dict()
        except InvalidDataError as error:
            return str(error)
    return to_json_value(value, [])
