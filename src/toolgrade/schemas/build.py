"""Derivation of the JSON Schemas from the models, the keys of plans, and the matchers.

The published files are what `build` returns; a test compares them. The dialect is draft 7, which most editors know.
Where a reader converts values (the text "3" for a number), a schema accepts only the form that toolgrade writes.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from itertools import pairwise
from typing import Any, Final, TypeAlias

from pydantic import AliasChoices
from pydantic.alias_generators import to_camel

from toolgrade._internal.model import Model
from toolgrade.calls import CallOrigin, CallStatus, Execution, ToolCall, ToolCallType
from toolgrade.cases import ConversationalTestCase, Handoff, LLMTestCase, MLLMImage, MLLMTestCase, Run, RunStatus, Turn
from toolgrade.dataset import Golden
from toolgrade.expect.check_matchers import Predicate
from toolgrade.expect.json_form import ALIASES, KINDS, PLAN_ITEMS, keys_of
from toolgrade.expect.matcher import MARK, MATCHERS, Matcher
from toolgrade.formats.records import RECORD_KEYS, RECORD_ONLY

Schema: TypeAlias = dict[str, Any]

_MODELS: Final[tuple[type[Model], ...]] = (
    *(LLMTestCase, MLLMTestCase, ConversationalTestCase, Golden),
    *(ToolCall, Execution, Run, Handoff, Turn, MLLMImage),
)
_ENUMS: Final[tuple[type[Enum], ...]] = (CallOrigin, CallStatus, RunStatus)
_ROOTS: Final = {"cases": "Case", "goldens": "Golden", "records": "Record"}
"""The definition of one line, or of one item of an array, by kind of file."""


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _any_of(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def _list_of(items: Schema, **limits: int) -> Schema:
    return {"type": "array", "items": items, **limits}


_NULL: Final[Schema] = {"type": "null"}
_TEXT: Final[Schema] = {"type": "string"}
_NAME: Final[Schema] = {"type": "string", "minLength": 1}
_FLAG: Final[Schema] = {"type": ["boolean", "null"]}
_OBJECT: Final[Schema] = {"type": "object"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_NONFINITE: Final[Schema] = {"enum": ["NaN", "Infinity", "-Infinity"]}
_PARTS: Final = _list_of(_any_of(_TEXT, _ref("MLLMImage")))
_TEXT_OR_PARTS: Final = _any_of(_TEXT, _NULL, _PARTS)
_TOOLS: Final = _list_of(
    {
        "type": "object",
        "description": "An available tool, in the form of toolgrade, OpenAI, Anthropic or MCP.",
        "properties": {key: {} for key in ("name", "description", "input_schema", "parameters", "type", "effect")},
    }
)
_TYPES: Final = [member.value for member in ToolCallType]
# A schema cannot ignore case, so a pattern lists both cases of each letter.
_ANY_CASE: Final = ["".join(f"[{letter.upper()}{letter}]" for letter in name) for name in _TYPES]
_TYPE: Final = _any_of({"enum": _TYPES}, {"type": "string", "pattern": f"^({'|'.join(_ANY_CASE)})$"}, _NULL)

_FIELDS: Final[dict[str, Schema]] = {
    "additional_metadata": _OBJECT,
    "available_tools": _any_of(_TOOLS, _NULL),
    "expected_output": _any_of(_TEXT, _NULL, _ref("Matcher")),
    "expected_tools": _any_of(_ref("ExpectedTools"), _NULL),
    "hyperparameters": _OBJECT,
    "input_parameters": {"type": ["object", "string", "null"], "description": "Arguments, or the JSON text of them."},
    "input_parts": _any_of(_PARTS, _NULL),
    "metadata": _OBJECT,
    "started_at": {"type": ["string", "number", "null"]},
    "type": _TYPE,
}
"""Schemas of fields that toolgrade's own validators read, so that pydantic cannot derive their schemas."""
_ID: Final[Schema] = {"type": ["string", "integer", "null"]}
_MULTIMODAL: Final = {
    "input": _TEXT_OR_PARTS,
    "actual_output": _TEXT_OR_PARTS,
    "expected_output": _any_of(_TEXT_OR_PARTS, _ref("Matcher")),
}
_FIELDS_OF: Final[dict[type[Model], dict[str, Schema]]] = {
    LLMTestCase: {"id": _ID},
    MLLMTestCase: {"id": _ID, **_MULTIMODAL},
    ConversationalTestCase: {"id": _ID},
    Golden: {"id": _ID},
}


def build(kind: str) -> Schema:
    """Return the schema of a file: an array, or a single object such as a line of JSON Lines.

    Args:
        kind: One of `toolgrade.schemas.KINDS`.
    """
    definitions: dict[str, Schema] = {model.__name__: _model(model) for model in _MODELS}
    for enum in _ENUMS:
        definitions[enum.__name__] = {"enum": [member.value for member in enum]}
    definitions |= {"Matcher": _matcher(), **_expectations(), "Record": _record()}
    conversation_keys = ("turns",)
    record_keys = tuple(sorted(_spellings(RECORD_ONLY)))
    single_case = {
        "if": {"properties": {"input": {"type": "array"}}, "required": ["input"]},
        "then": _ref("MLLMTestCase"),
        "else": _ref("LLMTestCase"),
    }
    definitions["Case"] = _first_that_has(
        {conversation_keys: _ref("ConversationalTestCase"), record_keys: _ref("Record")}, single_case
    )
    root = _ref(_ROOTS[kind])
    used = _used(root, definitions)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"toolgrade {kind}",
        "description": f"A file of {kind}: one array of them, or one of them, as on a line of JSON Lines.",
        "if": {"type": "array"},
        "then": {"items": root},
        "else": root,
        "$defs": {name: definitions[name] for name in sorted(used)},
    }


def _used(schema: Any, definitions: Mapping[str, Schema]) -> set[str]:  # noqa: ANN401 - a JSON value
    """Return the names of the definitions that a schema refers to, directly or through other definitions."""
    names: set[str] = set()
    queue = [schema]
    while queue:
        value = queue.pop()
        if isinstance(value, list):
            queue += value
        elif isinstance(value, dict):
            queue += value.values()
            name = str(value.get("$ref", "")).removeprefix("#/$defs/")
            if name and name not in names:
                names.add(name)
                queue.append(definitions[name])
    return names


def _first_that_has(branches: Mapping[tuple[str, ...], Schema], otherwise: Schema) -> Schema:
    """Return a schema that applies the first branch with a key that the object has, else `otherwise`."""
    schema = otherwise
    for keys, branch in reversed(list(branches.items())):
        schema = {"if": _has_one_of(keys), "then": branch, "else": schema}
    return {"type": "object", **schema}


def _closed(entries: Mapping[tuple[str, ...], Schema], required: Sequence[str] = (), description: str = "") -> Schema:
    """Return the schema of an object that must not have any other keys.

    Args:
        entries: The schema of each value by the names of its key (aliases); an object may use only one of them.
        required: Keys that an object must have.
        description: What the object is.
    """
    exclusions: dict[str, Schema] = {}
    for names in entries:
        for at, name in enumerate(names[1:], 1):  # each name excludes those before it
            exclusions[name] = {"not": _has_one_of(names[:at])}
    schema: Schema = {
        "type": "object",
        "additionalProperties": False,
        "description": description,
        "properties": {name: value for names, value in entries.items() for name in names},
        "required": list(required),
        "dependencies": exclusions,
    }
    return {keyword: value for keyword, value in schema.items() if value not in ("", [], {})}


def _has_one_of(keys: Iterable[str]) -> Schema:
    """Return the schema of an object that has at least one of these keys."""
    return {"anyOf": [{"required": [key]} for key in keys]}


# Models


def _model(model: type[Model]) -> Schema:
    """Return the schema of a model with all names of its fields."""
    document = model.model_json_schema()
    # Pydantic puts a model that contains itself under `$defs`, any other at the top.
    generated = document.get("$defs", {}).get(model.__name__, document)
    replaced = {**_FIELDS, **_FIELDS_OF.get(model, {})}
    descriptions = _field_docstrings(model)
    entries: dict[tuple[str, ...], Schema] = {}
    if model in _FIELDS_OF:  # it can be the root of a file
        entries["$schema",] = _TEXT
    for name, field in model.model_fields.items():
        schema = replaced.get(name) or _cleaned(generated["properties"][name])
        if name in descriptions:
            schema = {**schema, "description": descriptions[name]}
        alias = field.validation_alias
        names = map(str, alias.choices) if isinstance(alias, AliasChoices) else [name]
        entries[tuple(dict.fromkeys(names))] = schema
    summary = inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return _closed(entries, generated.get("required", ()), description=summary)


def _cleaned(schema: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a schema of pydantic without titles and null defaults; a number may also be `"NaN"` and the like."""
    if isinstance(schema, list):
        return list(map(_cleaned, schema))
    if not isinstance(schema, dict):
        return schema
    keywords = {
        key: _cleaned(value) for key, value in schema.items() if key != "title" and (key, value) != ("default", None)
    }
    return _any_of(keywords, _NONFINITE) if keywords.get("type") == "number" else keywords


def _field_docstrings(model: type[Model]) -> dict[str, str]:
    """Return the docstrings of the fields of a model: the texts below them in its source."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    lines = body.body if isinstance(body, ast.ClassDef) else []
    texts: dict[str, str] = {}
    for field, text in pairwise(lines):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            texts[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return texts


# Plans and matchers

_ARGUMENTS: Final[Schema] = {"type": ["object", "null"], "description": "Arguments; matchers may be among the values."}
_LABELS: Final[Schema] = {"type": ["array", "null"], "items": _NAME}
_PLACES: Final[Schema] = {"type": "object", "additionalProperties": _ref("Matcher")}
_KEYS: Final[dict[str, Schema]] = {
    "expect": _any_of(_NAME, _ref("Matcher")),
    "forbid": _any_of(_NAME, _ref("Matcher")),
    "one_of": _list_of(_any_of(_ref("PlanItem"), _list_of(_ref("PlanItem"))), minItems=1),
    "parallel": _list_of(_ref("PlanItem"), minItems=1),
    "plan": _list_of(_ref("PlanItem")),
    "alternatives": _list_of(_any_of(_ref("Plan"), _list_of(_ref("PlanItem"))), minItems=1),
    "input_parameters": _ARGUMENTS,
    "output": {},
    "type": _TYPE,
    "turn": _any_of(_COUNT, _NULL),
    "optional": _FLAG,
    "extra_arguments": _FLAG,
    "allow_extra": _FLAG,
    "times": _any_of(
        {"type": "integer", "minimum": 1},
        {
            **_list_of(_any_of(_COUNT, _NULL), minItems=2, maxItems=2),
            "description": "Least and most; null: any number.",
        },
        _NULL,
    ),
    "label": _any_of(_NAME, _NULL),
    "after": _LABELS,
    "at": _any_of(_PLACES, _NULL),
    "tools": {"type": "object", "additionalProperties": _PLACES},
    "name": {"type": ["string", "null"]},
}
"""Schemas of the values of all keys in the JSON form of plans."""


def _expectations() -> dict[str, Schema]:
    """Return the definitions of expected tools: plans, their items, and alternatives."""
    definitions = {_title(name): _plan_object(name) for name in KINDS}
    branches = {tuple(sorted(_spellings([name]))): _ref(_title(name)) for name in PLAN_ITEMS}
    definitions["PlanItem"] = _first_that_has(branches, _ref("ToolCall"))
    plans = _first_that_has({("alternatives",): _ref("Alternatives")}, _ref("Plan"))
    definitions["ExpectedTools"] = {"if": {"type": "array"}, "then": {"items": _ref("PlanItem")}, "else": plans}
    return definitions


def _title(name: str) -> str:
    camel = to_camel(name)
    return camel[0].upper() + camel[1:]


def _plan_object(name: str) -> Schema:
    """Return the schema of one kind of object in a plan, which the key `name` identifies."""
    summary = inspect.cleandoc(KINDS[name].__doc__ or "").partition("\n")[0]
    entries = {tuple(_spellings([key])): _KEYS[key] for key in keys_of(name)}
    return {**_closed(entries, description=summary), **_has_one_of(_spellings([name]))}


def _spellings(keys: Sequence[str] | frozenset[str]) -> list[str]:
    """Return all accepted names of some keys: in snake_case, in camelCase, and their aliases."""
    names: dict[str, None] = {}
    for key in keys:
        aliases = [alias for alias, canonical in ALIASES.items() if canonical == key]
        names |= dict.fromkeys([key, to_camel(key), *aliases])
    return list(names)


_OPTIONS: Final[dict[str, Schema]] = {
    "value": {},
    "values": {"type": "array"},
    "rel": {"type": ["number", "null"]},
    "abs": {"type": ["number", "null"]},
    "pattern": _TEXT,
    "ignore_case": {"type": "boolean"},
    "search": {"type": "boolean"},
    "drop": _TEXT,
    "schema": _OBJECT,
}
"""Schemas of the options of matchers."""
_OPTIONS_OF: Final[dict[str, dict[str, Schema]]] = {
    "date": {"formats": _list_of(_TEXT)},
    "schema": {"formats": {"type": "boolean"}},
}


def _matcher() -> Schema:
    """Return the schema of a matcher, an object with the key `$is`."""
    kinds = {name: kind for name, kind in sorted(MATCHERS.items()) if kind is not Predicate}
    choices = [
        {"if": {"properties": {MARK: {"const": name}}}, "then": _options(name, kind)} for name, kind in kinds.items()
    ]
    return {
        "type": "object",
        "description": "A matcher of one value.",
        "properties": {MARK: {"enum": list(kinds)}},
        "required": [MARK],
        "allOf": choices,
    }


def _options(name: str, kind: type[Matcher]) -> Schema:
    schemas = {**_OPTIONS, **_OPTIONS_OF.get(name, {})}
    entries = [entry for entry in fields(kind) if entry.init]  # type: ignore[arg-type]
    required = [entry.name for entry in entries if entry.default is MISSING]
    description = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
    options: dict[tuple[str, ...], Schema] = {(entry.name,): schemas[entry.name] for entry in entries}
    return _closed({(MARK,): {"description": description}, **options}, required)


# Records

_RECORD: Final[dict[str, Schema]] = {
    **{name: {"type": ["string", "null"]} for name in ("query", "generated_response", "expected_response")},
    **{name: {"type": ["string", "null"]} for name in ("name", "input", "actual_output")},
    **{name: {"type": ["array", "object", "null"]} for name in ("agent_trajectory", "expected_agent_trajectory")},
    **{name: {"type": ["array", "null"], "items": _TEXT} for name in ("agent_texts", "required_texts", "tags")},
    "id": _ID,
    "ended": _FLAG,
    "must_end": _FLAG,
    "expected_output": _FIELDS["expected_output"],
    "metadata": {"type": ["object", "null"]},
    "tools_called": {"type": ["array", "null"], "items": _OBJECT},
    "expected_tools": _any_of({"type": ["array", "null"], "items": _OBJECT}, _ref("Plan"), _ref("Alternatives")),
    "available_tools": _FIELDS["available_tools"],
}


def _record() -> Schema:
    """Return the schema of a record, which may have other keys too: they are metadata."""
    properties = {spelling: _RECORD[key] for key in RECORD_KEYS for spelling in dict.fromkeys((key, to_camel(key)))}
    return {"type": "object", "description": "A record: one question with its calls.", "properties": properties}
