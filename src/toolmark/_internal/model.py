"""The base of all toolmark's data: frozen, strict about names, clear about errors, honest about what was set.

*Set* matters: in an expected call a field that was never set matches anything, while one that was set to `None` is a
value. So every way out (`model_dump`, `model_dump_json`, `to_dict`, `to_json`) writes only what was set, and reading it
back gives an equal object.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError

from toolmark._internal.json import json_path, json_text, parse_json, replace_nonfinite, short_repr
from toolmark.errors import InvalidDataError, Problem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from typing_extensions import Self


def snake_or_camel(name: str) -> AliasChoices:
    """Return the names under which a field is accepted: `tools_called` and `toolsCalled`."""
    return AliasChoices(name, to_camel(name))


class Model(BaseModel):
    """A frozen value that reads snake_case and camelCase and writes snake_case, only what was set."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_inf_nan="strings",
        alias_generator=AliasGenerator(validation_alias=snake_or_camel),
        hide_input_in_errors=True,
    )

    if not TYPE_CHECKING:  # the type checkers see pydantic's own signatures, made from the fields

        def __init__(self, /, **data: Any) -> None:
            try:
                super().__init__(**data)
            except ValidationError as error:
                raise to_invalid_data_error(type(self), error) from None

        # Tells pydantic that this is no initialiser of its own, so that nested models skip it (and its cost).
        __init__.__pydantic_base_init__ = True

        @classmethod
        def model_validate(cls, obj: Any, **options: Any) -> Self:
            """Read an object; raises `InvalidDataError` with every problem and its path."""
            try:
                return super().model_validate(obj, **options)
            except ValidationError as error:
                raise to_invalid_data_error(cls, error) from None

        @classmethod
        def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
            """Read a JSON text; raises `InvalidDataError` with every problem and its path."""
            # Python's reader, not pydantic's: that one stops at 200 levels for the whole document.
            return cls.model_validate(
                parse_json(bytes(json_data) if isinstance(json_data, bytearray) else json_data), **options
            )

    @model_serializer(mode="wrap")
    def _only_what_was_set(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields_set = self.model_fields_set
        return {name: value for name, value in handler(self).items() if name in fields_set}

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON values, with only the fields that were set; NaN is the text "NaN".

        Raises:
            InvalidDataError: It is nested too deeply to be written, e.g. calls inside calls a hundred levels deep.
        """
        try:
            plain: dict[str, Any] = replace_nonfinite(self.model_dump(mode="json"))
        except (PydanticSerializationError, RecursionError) as error:
            message = (
                f"{type(self).__name__} cannot be written: {str(error).rpartition(': ')[2] or 'nested too deeply'}"
            )
            raise InvalidDataError(message, [Problem("$", message)]) from None
        return plain

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict()` as JSON text (on one line unless `indent` is given)."""
        return json_text(self.to_dict(), indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote.

        Raises:
            InvalidDataError: It is no JSON, or no such object; `problems` has every path.
        """
        return cls.model_validate_json(text)


def to_invalid_data_error(model: type[BaseModel], error: ValidationError) -> InvalidDataError:
    """Return pydantic's findings as toolmark's error: JSON paths, accepted fields, nearest names."""
    problems = [problem for detail in error.errors(include_url=False) for problem in _problems(model, detail)]
    lines = [f"{model.__name__}: {problem}" for problem in problems]
    return InvalidDataError("\n".join(lines), problems)


_SHOWN = 80
_EXPECTED = {
    "string_type": "a string",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
}


def _problems(model: type[BaseModel], detail: ErrorDetails) -> list[Problem]:
    """Return what one finding of pydantic says; what raised it may have found several things, inside of its place."""
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, InvalidDataError) and (len(cause.problems) > 1 or any(p.path != "$" for p in cause.problems)):
        place = json_path(detail["loc"])
        return [Problem(place + one.path.removeprefix("$"), one.message) for one in cause.problems]
    return [_problem(model, detail)]


def _problem(model: type[BaseModel], detail: ErrorDetails) -> Problem:
    parts = detail["loc"]
    kind = detail["type"]
    if kind == "missing":
        return Problem(json_path(parts), "is required")
    if kind == "extra_forbidden":
        return Problem(json_path(parts), _unknown_field(model, str(parts[-1]), depth=len(parts)))
    if kind in _EXPECTED:
        return Problem(json_path(parts), f"expected {_EXPECTED[kind]}, got {short_repr(detail['input'], _SHOWN)}")
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return Problem(json_path(parts), message)
    return Problem(json_path(parts), f"{message[:1].lower()}{message[1:]}, got {short_repr(detail['input'], _SHOWN)}")


def _unknown_field(model: type[BaseModel], name: str, *, depth: int) -> str:
    if depth > 1:  # the field belongs to a nested model, which pydantic does not name
        return f"unknown field {name!r}; remove it, or put it into `metadata` of the case"
    known = sorted(model.model_fields)
    for field, info in model.model_fields.items():
        aliases = info.validation_alias
        if name == field or (isinstance(aliases, AliasChoices) and name in aliases.choices):
            return f"{name!r} gives {field!r} a second time, under another name; give it once"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown field {name!r}; {hint}known are {', '.join(known)}"
