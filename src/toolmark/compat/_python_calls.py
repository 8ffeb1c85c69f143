"""Which call does the text of a Python call make? It is parsed, and never run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any

from toolmark._internal.json import JsonObject, short_repr, to_json_value
from toolmark.errors import InvalidDataError


def read_call(text: object, parameters: Mapping[str, Collection[str]]) -> tuple[str, JsonObject]:
    """Return the name and the arguments of a call such as `cd(folder='document')` or `files.sort('a.txt')`.

    Args:
        text: The call; its arguments are literals.
        parameters: The names of the parameters of each function, in their order, which positional arguments get.

    Raises:
        InvalidDataError: It is no such call, or its arguments cannot be told apart.
    """
    if not isinstance(text, str):
        message = f"expected the text of a call, got {short_repr(text)}"
        raise InvalidDataError(message)
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = f"{short_repr(text)} is no Python: {error}"
        raise InvalidDataError(message) from None
    name = _dotted(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or name is None:
        message = f"{short_repr(text)} is no call of a function by its name"
        raise InvalidDataError(message)
    names = list(parameters.get(name, ()))
    if len(call.args) > len(names):
        known = f"has {len(names)} parameters" if name in parameters else "is not described"
        message = f"{short_repr(text)} has {len(call.args)} positional arguments, and {name!r} {known}"
        raise InvalidDataError(message)
    arguments: JsonObject = {}
    given = [*zip(names, call.args, strict=False), *((keyword.arg, keyword.value) for keyword in call.keywords)]
    for key, value in given:
        if key is None or key in arguments:
            message = f"{short_repr(text)} gives {'**' if key is None else repr(key) + ' twice'}"
            raise InvalidDataError(message)
        arguments[key] = _literal(value, text)
    return name, arguments


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _literal(node: ast.expr, text: str) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return to_json_value(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        message = f"{short_repr(text)} has an argument that is no literal"
        raise InvalidDataError(message) from None
