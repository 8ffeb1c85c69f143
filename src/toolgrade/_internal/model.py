"""Base class of toolgrade's data: frozen, strict about field names, aware of which fields were set.

In an expected call a field that was never set matches anything, while one that was set to `None` is a value. So
everything that writes (`model_dump`, `model_dump_json`, `to_dict`, `to_json`) writes only the fields that were set, and
reading it back gives an equal object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

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

from toolgrade._internal.json import json_path, json_text, parse_json, replace_nonfinite, short_repr, to_json_value
from toolgrade.errors import InvalidDataError, Problem

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails
    from typing_extensions import Self


def snake_or_camel(name: str) -> str | AliasChoices:
    """Return the names that a field accepts: `tools_called` and `toolsCalled`; of one word, only that."""
    # Pydantic looks up every choice of every field that is not set.
    return AliasChoices(name, to_camel(name)) if "_" in name else name


def names_of(name: str, field: FieldInfo) -> set[str]:
    """Return the names that a field of a model accepts."""
    aliases = field.validation_alias
    return {name, *(map(str, aliases.choices) if isinstance(aliases, AliasChoices) else ())}


def new_list() -> list[Any]:
    """Return an empty list, as the default factory of a field.

    Pydantic reads the signature of a factory, and that of `list` is a text, which Python takes milliseconds to parse.
    """
    return []


def drop_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not `None`, so that a model built from them has only these set."""
    return {name: value for name, value in fields.items() if value is not None}


def set_fields(model: BaseModel) -> dict[str, Any]:
    """Return the fields of a model that were set, with their values."""
    return {name: getattr(model, name) for name in model.model_fields_set}


class Model(BaseModel):
    """A frozen object that reads snake_case and camelCase, and writes snake_case and only the fields that were set."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_inf_nan="strings",
        alias_generator=AliasGenerator(validation_alias=snake_or_camel),
        hide_input_in_errors=True,
    )

    if not TYPE_CHECKING:  # type checkers see pydantic's own signatures, derived from the fields

        def __init__(self, /, **data: Any) -> None:
            try:
                # What BaseModel.__init__ does, without its own frame: objects are made by the million.
                self.__pydantic_validator__.validate_python(data, self_instance=self)
            except ValidationError as error:
                raise to_invalid_data_error(type(self), error) from None

        # Tells pydantic to skip this `__init__`, and its cost, for nested models.
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
            # Python's parser, because pydantic's stops at 200 levels for the whole document.
            text = bytes(json_data) if isinstance(json_data, bytearray) else json_data
            return cls.model_validate(parse_json(text), **options)

    @classmethod
    def from_valid(cls, fields: dict[str, Any]) -> Self:
        """Return an object with these fields, neither checked nor copied: for values that a reader made itself.

        It does what pydantic's `model_construct` does, without a loop over all fields: readers make calls by the
        million.
        """
        self = _new(cls)
        defaults, factories = _defaults_of(cls)
        values = {**defaults, **fields}
        for name, factory in factories:
            if name not in fields:
                values[name] = factory()
        _set_values(self, values)
        _set_names(self, set(fields))
        _set_extra(self, None)
        _set_private(self, None)
        return self

    @model_serializer(mode="wrap")
    def _write_set_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields_set = self.model_fields_set
        return {name: value for name, value in handler(self).items() if name in fields_set}

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON values, with only the fields that were set; NaN is the text "NaN".

        Raises:
            InvalidDataError: It is nested too deeply to be written, e.g. calls inside calls a hundred levels deep.
        """
        try:
            plain: dict[str, Any] = replace_nonfinite(self._to_plain())
        except (PydanticSerializationError, RecursionError) as error:
            reason = str(error).rpartition(": ")[2] or "nested too deeply"
            raise InvalidDataError.of(f"{type(self).__name__} cannot be written: {reason}") from None
        return plain

    def _to_plain(self) -> Any:
        try:
            return self.model_dump(mode="json")
        except PydanticSerializationError as error:
            if "surrogates" not in str(error):
                raise
            return to_json_value(self.model_dump())  # a key has lone surrogates, which only pydantic cannot write

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict()` as JSON text (on one line unless `indent` is given)."""
        return json_text(self.to_dict(), indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote.

        Raises:
            InvalidDataError: It is not JSON, or not an object of this class; `problems` has every path.
        """
        return cls.model_validate_json(text)


_new = object.__new__
_set_values, _set_names, _set_extra, _set_private = (
    vars(BaseModel)[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
"""Set the four attributes of a frozen object that is being made, without a search for them in its classes."""


@cache
def _defaults_of(model: type[BaseModel]) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """Return the default of each field of a model, in the order of the fields, and the fields with a factory."""
    fields = model.model_fields
    factories = [
        (name, cast("Callable[[], Any]", field.default_factory))
        for name, field in fields.items()
        if field.default_factory
    ]
    return {name: field.default for name, field in fields.items()}, factories


def to_invalid_data_error(model: type[BaseModel], error: ValidationError) -> InvalidDataError:
    """Return pydantic's error as toolgrade's: JSON paths, accepted fields, nearest names."""
    problems: list[Problem] = []
    for detail in error.errors(include_url=False):
        cause = detail.get("ctx", {}).get("error")
        path = json_path(detail["loc"])
        # A validator of toolgrade may have reported several problems, with paths relative to the field.
        if isinstance(cause, InvalidDataError) and cause.problems:
            problems += [Problem(path + inner.path.removeprefix("$"), inner.message) for inner in cause.problems]
        else:
            problems.append(Problem(path, _message(model, detail)))
    return InvalidDataError("\n".join(f"{model.__name__}: {problem}" for problem in problems), problems)


_MAX_INPUT = 80
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


def _message(model: type[BaseModel], detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return _unknown_field(model, str(detail["loc"][-1]), depth=len(detail["loc"]))
    text = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return text
    if kind in _EXPECTED:
        text = f"expected {_EXPECTED[kind]}"
    return f"{text[:1].lower()}{text[1:]}, got {short_repr(detail['input'], _MAX_INPUT)}"


def _unknown_field(model: type[BaseModel], name: str, *, depth: int) -> str:
    if depth > 1:  # the field belongs to a nested model, which pydantic does not name
        return f"unknown field {name!r}; remove it, or put it into `metadata` of the case"
    for field, info in model.model_fields.items():
        if name in names_of(field, info):
            return f"{name!r} repeats {field!r} under another name; give it once"
    fields = sorted(model.model_fields)
    import difflib  # noqa: PLC0415 - loaded with the first wrong name

    near = difflib.get_close_matches(name, fields, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown field {name!r}; {hint}valid fields are {', '.join(fields)}"
