"""How does a case stand in a file of results, and how is it read back?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolmark._internal.json import to_json_value
from toolmark._internal.model import Model
from toolmark.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMTestCase
from toolmark.errors import InvalidDataError
from toolmark.expect import is_expectation, read_expectation
from toolmark.redact import DEFAULT, Redactor

_TYPES: Mapping[str, type[AnyCase]] = {
    "case": LLMTestCase,
    "multimodal": MLLMTestCase,
    "conversation": ConversationalTestCase,
}


def written_case(case: object, redactor: Redactor = DEFAULT, *, plain: object = None) -> dict[str, Any]:
    """Return a case as JSON values, with its type and without secrets; of one that cannot be written, why.

    Args:
        case: The case.
        redactor: What finds secrets.
        plain: What `plain_of` says of the case, if that is known.
    """
    kind = next((name for name, model in _TYPES.items() if type(case) is model), None)
    if kind is None or not isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)):
        return {"not_written": f"{type(case).__name__} is no case"}
    try:
        shown = redactor.model(case)
        return {"type": kind, "content": plain if shown is case and isinstance(plain, dict) else shown.to_dict()}
    except InvalidDataError as error:
        return {"not_written": str(error)}


def read_content(kind: str | None, content: Mapping[str, Any] | None, **named: str | None) -> AnyCase:
    """Return a case from what was written of it; where that is nothing, one that only has an id or a name.

    Raises:
        InvalidDataError: It is no such case.
    """
    if content is None:
        given = {name: value for name, value in named.items() if value is not None}
        return LLMTestCase.model_validate(given)
    model = _TYPES[kind or "case"]
    if '"$is": "predicate"' not in json.dumps(content.get("expected_tools")):
        return model.model_validate(content)
    expected = content["expected_tools"]
    plan = read_expectation(expected, as_told=True) if is_expectation(expected) else expected
    return model.model_validate({**content, "expected_tools": plan})


def plain_of(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return what was evaluated, whatever it is, as JSON values for a fingerprint."""
    if isinstance(value, Model):
        try:
            return value.to_dict()
        except InvalidDataError as error:
            return str(error)
    return to_json_value(value, [])
