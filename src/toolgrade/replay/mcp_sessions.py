"""Calls over MCP, replayed: what a session of a client sends, and the results that it gets.

Source: MCP specification, "Tools": `tools/call` and `CallToolResult`. Nothing is imported of MCP where it is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from toolgrade._internal.json import JsonObject, as_text
from toolgrade._internal.message_content import Fields, object_of, text_of
from toolgrade.capture.doubles import Answer, RunningTool, ask_tape
from toolgrade.matching.json_compare import ABSENT

_CALL: Final = "tools/call"
_STRUCTURE: Final = "structured_content"
"""The key of `structuredContent` in an artifact, as `langchain-mcp-adapters` writes it, too."""
_REPLAYED: Final = "toolgrade/replayed"
"""The key in the `_meta` of a replayed result, whose structure is not checked: a recording only has what was shown."""


def patch() -> Callable[[], None] | None:
    """Let the tools of MCP sessions ask for doubles; return how to undo that, `None` without MCP."""
    if find_spec("mcp") is None:
        return None
    session: Any = import_module("mcp").ClientSession
    # Older releases check no structure.
    checks = [name for name in ("validate_tool_result", "_validate_tool_result") if hasattr(session, name)]
    own = {name: vars(session).get(name) for name in ("send_request", *checks)}
    send = session.send_request

    async def send_request(self: Any, request: Any, result_type: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as MCP declares it
        double = _ask(request)
        if double is None:
            return await send(self, request, result_type, *args, **options)
        if isinstance(double, Answer):
            return await _given(double, result_type)
        with double.running():
            result = await send(self, request, result_type, *args, **options)
            _note(double, _fields(result))
        return result

    session.send_request = send_request
    for name in checks:
        setattr(session, name, _checking(getattr(session, name)))

    def undo() -> None:
        for name, function in own.items():
            if function is None:
                delattr(session, name)
            else:
                setattr(session, name, function)

    return undo


def _checking(validate: Any) -> Any:  # noqa: ANN401 - a method of MCP
    async def checked(self: Any, name: str, result: Any) -> None:  # noqa: ANN401 - as MCP declares it
        if _REPLAYED not in (result.meta or {}):
            await validate(self, name, result)

    return checked


def _fields(message: Any) -> Fields:  # noqa: ANN401 - a model of MCP
    return object_of(message.model_dump(by_alias=True, mode="json", exclude_none=True))


def _ask(request: Any) -> Answer | RunningTool | None:  # noqa: ANN401 - a model of MCP
    fields = _fields(request)
    params = object_of(fields.get("params"))
    if fields.get("method") != _CALL:
        return None
    return ask_tape(text_of(params.get("name")) or "", object_of(params.get("arguments")))


async def _given(answer: Answer, result_type: Any) -> Any:  # noqa: ANN401 - a class or an adapter of pydantic
    await asyncio.sleep(answer.delay)
    if answer.raised is not None:
        raise answer.raised
    read = getattr(result_type, "model_validate", None) or result_type.validate_python
    return read({**result_of(answer), "_meta": {_REPLAYED: True}})


def _note(double: RunningTool, result: Fields) -> None:
    if result.get("isError") is True:
        double.failed(as_text(_plain(result)))
    else:
        structure = result.get("structuredContent")
        double.returned(_plain(result), artifact=None if structure is None else {_STRUCTURE: structure})


def result_of(answer: Answer) -> JsonObject:
    """Return a recorded answer as the result of an MCP call."""
    failure = answer.failure
    value = answer.shown if failure is None or answer.shown is not ABSENT else failure
    value = None if value is ABSENT else value
    parts: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) and text_of(part.get("type")) for part in parts):
        parts = [{"type": "text", "text": as_text(value)}]
    result: JsonObject = {"content": list(map(_part, parts)), "isError": failure is not None}
    structure = _structure(answer)
    return {**result, "structuredContent": structure} if failure is None and structure is not None else result


def _part(part: JsonObject) -> JsonObject:
    """Return a part of a content; recorders write the kind of an image as `mime_type`."""
    names = {"mime_type": "mimeType"}
    return {names.get(name, name): value for name, value in part.items()}


def _structure(answer: Answer) -> JsonObject | None:
    """Return the structure of a result, if it was recorded; a text that reads like one may not be one."""
    artifact = answer.artifact if isinstance(answer.artifact, dict) else {}
    structure = artifact.get(_STRUCTURE, answer.output)
    return structure if isinstance(structure, dict) else None


def _plain(result: Fields) -> Any:  # noqa: ANN401 - a JSON value
    """Return the text of a result, or its parts if it is not one text."""
    parts = [object_of(part) for part in result.get("content") or ()]
    return parts[0].get("text", "") if [part.get("type") for part in parts] == ["text"] else parts
