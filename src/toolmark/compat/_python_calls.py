"""Parser of Python call expressions, such as `cd(folder='document')`, into tool calls. Nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping

from toolmark._internal.json import JsonObject, short_repr, to_json_value
from toolmark.errors import InvalidDataError

_PARSE_ERRORS = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)


def read_call(text: object, parameters: Mapping[str, Collection[str]]) -> tuple[str, JsonObject]:
    """Return the name and the arguments of a call; its arguments must be literals.

    `parameters` holds the parameter names of each function in order, for positional arguments.

    Raises:
        InvalidDataError: The text is not such a call, or its arguments are ambiguous.
    """
    quote = short_repr(text)
    if not isinstance(text, str):
        raise InvalidDataError(f"expected the text of a call, got {quote}")
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except _PARSE_ERRORS as error:
        raise InvalidDataError(f"expected a Python expression, got {quote}: {error}") from None
    name = _dotted_name(call.func) if isinstance(call, ast.Call) else None
    if name is None or not isinstance(call, ast.Call):
        raise InvalidDataError(f"expected a call of a named function, got {quote}")
    names = list(parameters.get(name, ()))
    if len(call.args) > len(names):
        problem = f"has {len(names)} parameters" if name in parameters else "has no description"
        raise InvalidDataError(f"{quote} has {len(call.args)} positional arguments, but {name!r} {problem}")
    values: list[tuple[str | None, ast.expr]] = [*zip(names, call.args, strict=False)]
    values += [(keyword.arg, keyword.value) for keyword in call.keywords]
    return name, _literals(values, quote)


def _literals(values: Iterable[tuple[str | None, ast.expr]], quote: str) -> JsonObject:
    arguments: JsonObject = {}
    for key, value in values:
        if key is None:
            raise InvalidDataError(f"{quote} has '**' arguments; write them out")
        if key in arguments:
            raise InvalidDataError(f"{quote} has the argument {key!r} twice")
        try:
            arguments[key] = to_json_value(ast.literal_eval(value))
        except _PARSE_ERRORS:
            raise InvalidDataError(f"{quote} has an argument that is not a literal") from None
    return arguments


def _dotted_name(node: ast.expr) -> str | None:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(attributes)]) if isinstance(node, ast.Name) else None
