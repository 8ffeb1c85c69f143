"""What did a tool return? LlamaIndex's `ToolOutput` in, the value that is recorded out."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from numbers import Real
from typing import Any, Final

from llama_index.core.base.llms.types import TextBlock
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import ToolOutput
from pydantic import BaseModel

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN: Final = (str, Real, bytes, date, datetime, time, Enum, type(None))
_DATA: Final = ("data", "image", "audio", "video")
_PLACES: Final = ("url", "image_url", "document_url", "path", "title")
_KINDS: Final = ("image_mimetype", "document_mimetype", "video_mimetype", "format")
_DEPTH: Final = 8
"""How deep a value is searched for objects that have no JSON form."""


@dataclass(frozen=True)
class Result:
    """What a tool returned.

    Attributes:
        output: The value it returned, or the text for the model where that has no JSON form.
        shown: What the model is shown.
        error: Its error, if it failed or says so.
        artifact: The sources of an answer, which the model is not shown.
    """

    output: Any
    shown: Any
    error: str | None = None
    artifact: Any = None


def result_of(output: ToolOutput, raised: BaseException | None = None) -> Result:
    """Return what a tool returned, or that it raised, as far as that is known beside its output.

    A failure is an exception, `is_error`, a `ToolOutput` inside that is one, or the error flag of an MCP result, which
    LlamaIndex hands to the model as a success.
    """
    raw, shown = output.raw_output, _shown(output)
    if output.is_error:
        return Result(None, shown, _failure(output, raised))
    if isinstance(raw, ToolOutput):
        inner = result_of(raw)
        return Result(inner.output, inner.shown, inner.error, inner.artifact)
    if _is_mcp_result(raw):
        content = _mcp_content(raw)
        if getattr(raw, "isError", None) or getattr(raw, "is_error", None):
            return Result(None, shown, content if isinstance(content, str) else str(shown))
        return Result(content, shown)
    blocks = getattr(output, "blocks", None) or []
    if any(not isinstance(block, TextBlock) for block in blocks):
        return Result([_described(block) for block in blocks], shown)
    if _has_json_form(raw):
        return Result(raw, shown)
    return Result(_ADDRESS.sub("", output.content), shown, artifact=_sources(raw))


def error_text(error: BaseException) -> str:
    """Return `"TypeName: text"`, or the name alone where there is no text."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not break the recording
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _failure(output: ToolOutput, raised: BaseException | None) -> str:
    exception = getattr(output, "exception", None) or raised  # old versions do not keep it
    return error_text(exception) if isinstance(exception, BaseException) else output.content


def _shown(output: ToolOutput) -> Any:
    """Return what the model is shown: text, or, where there is more than text, a description of each block."""
    blocks = getattr(output, "blocks", None) or []
    if any(not isinstance(block, TextBlock) for block in blocks):
        return [_described(block) for block in blocks]
    return output.content


def _described(block: Any) -> dict[str, Any]:
    """Describe a block of content: its kind, its type and size, or where it lies; never the data itself."""
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    described: dict[str, Any] = {"type": str(getattr(block, "block_type", type(block).__name__))}
    for name in (*_KINDS, *_PLACES):
        value = getattr(block, name, None)
        if value:
            described[name] = str(value)
    for name in _DATA:
        data = getattr(block, name, None)
        if isinstance(data, (bytes, bytearray, str)) and data:
            described["bytes"] = _size(data)
            break
    return described


def _size(data: bytes | bytearray | str) -> int:
    """Return the size of data that blocks hold as base64."""
    try:
        return len(base64.b64decode(data, validate=True))
    except ValueError:
        return len(data)


def _is_mcp_result(raw: object) -> bool:
    kind = type(raw)
    return kind.__name__ == "CallToolResult" and kind.__module__.partition(".")[0] in ("mcp", "mcp_types")


def _mcp_content(raw: Any) -> Any:
    """Return the content of an MCP result: its text, or a description of each part where there is more than text."""
    parts = list(getattr(raw, "content", None) or [])
    if all(getattr(part, "type", None) == "text" for part in parts):
        return "\n".join(part.text for part in parts)
    described: list[dict[str, Any]] = []
    for part in parts:
        kind = str(getattr(part, "type", "unknown"))
        if kind == "text":
            described.append({"type": "text", "text": part.text})
            continue
        mime = getattr(part, "mimeType", None) or getattr(part, "mime_type", None)
        data = getattr(part, "data", None)
        one: dict[str, Any] = {"type": kind}
        if mime:
            one["mime_type"] = str(mime)
        if isinstance(data, str):
            one["bytes"] = _size(data)
        described.append(one)
    return described


def _has_json_form(value: object, depth: int = 0) -> bool:
    """Return whether a value is data: not an object of the framework, and not one that only has a `repr`."""
    if isinstance(value, _PLAIN) or depth >= _DEPTH:
        return True
    if type(value).__module__.partition(".")[0] == "llama_index":
        return False
    if isinstance(value, Mapping):
        return all(_has_json_form(item, depth + 1) for item in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(_has_json_form(item, depth + 1) for item in value)
    return isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type))


def _sources(raw: object) -> list[dict[str, Any]] | None:
    """Return the nodes that an answer is based on, or that were retrieved."""
    nodes = getattr(raw, "source_nodes", None)
    if nodes is None and isinstance(raw, Sequence) and not isinstance(raw, str):
        nodes = raw
    found = [node for node in nodes or () if isinstance(node, NodeWithScore)]
    return [{"id": node.node_id, "score": node.score, "text": node.get_content()} for node in found] or None
