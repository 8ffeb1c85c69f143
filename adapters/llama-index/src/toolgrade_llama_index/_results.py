"""What tools return: LlamaIndex's `ToolOutput`, as a recordable value, an error and sources."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from io import BytesIO
from numbers import Real
from typing import Any, Final

from llama_index.core.agent.workflow.workflow_events import ToolCallResult
from llama_index.core.base.llms.types import ContentBlock, ImageBlock, TextBlock
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import ToolOutput
from pydantic import BaseModel, TypeAdapter, ValidationError

from toolgrade_llama_index._errors import error_text

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN: Final = (str, Real, bytes, date, datetime, time, Enum, type(None))
_DATA_FIELDS: Final = ("data", "image", "audio", "video")
_TEXT_FIELDS: Final = (
    *("image_mimetype", "document_mimetype", "video_mimetype", "format"),
    *("url", "image_url", "document_url", "path", "title"),
)
_ANY_BLOCK: Final[TypeAdapter[Any]] = TypeAdapter(ContentBlock)
_MAX_DEPTH: Final = 8
"""How deep a value is searched for objects without a JSON form."""


@dataclass(frozen=True)
class ToolReturn:
    """What a tool returned.

    Attributes:
        output: The value that it returned, or the model's text if the value has no JSON form.
        model_output: What the model is shown.
        error: Its error, if it failed or reports a failure.
        artifact: The sources of an answer, which the model is not shown.
    """

    output: Any
    model_output: Any
    error: str | None = None
    artifact: Any = None


def result_of(output: ToolOutput, raised: BaseException | None = None) -> ToolReturn:
    """Return the result in the output of a tool.

    A failure is an exception, `is_error`, a `ToolOutput` inside that is one, or the error flag of an MCP result, which
    LlamaIndex shows the model as a success.

    Args:
        output: The output.
        raised: The exception that the tool was observed to raise; old versions do not keep it in the output.
    """
    raw = output.raw_output
    blocks = getattr(output, "blocks", None) or []
    is_text = all(isinstance(block, TextBlock) for block in blocks)
    text: Any = output.content if is_text else [plain_block(block) for block in blocks]
    if output.is_error:
        exception = getattr(output, "exception", None) or raised
        return ToolReturn(None, text, error_text(exception) if isinstance(exception, BaseException) else output.content)
    if isinstance(raw, ToolOutput):
        return result_of(raw)
    if _is_mcp_result(raw):
        return _mcp_return(raw, text)
    if not is_text:
        return ToolReturn(text, text)
    if _has_json_form(raw):
        return ToolReturn(raw, text)
    # The address of an object in memory would make equal outputs differ.
    return ToolReturn(_ADDRESS.sub("", output.content), text, artifact=_sources(raw))


def _mcp_return(raw: Any, text: Any) -> ToolReturn:
    """Return the result of a tool of an MCP server, of which the model is shown a text."""
    content = _mcp_content(raw)
    # `mcp` renamed the field between its releases.
    if getattr(raw, "isError", None) or getattr(raw, "is_error", None):
        return ToolReturn(None, text, content if isinstance(content, str) else str(text))
    return ToolReturn(content, text)


def is_unknown_tool(event: ToolCallResult) -> bool:
    """Return whether a result is LlamaIndex's answer to a call of a tool that does not exist."""
    output: ToolOutput = event.tool_output
    return (
        output.is_error
        and output.raw_output is None
        and getattr(output, "exception", None) is None
        and output.content.startswith(f"Tool {event.tool_name} not found")
    )


def plain_block(block: Any) -> dict[str, Any]:
    """Return a block as an object: its text, or the data of an image, or else the type, place and size of its data.

    Files and addresses are not opened, and streams are not read: they belong to the program.
    """
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock) and isinstance(block.image, bytes):  # LlamaIndex stores base64 text
        return _image(block.image.decode("ascii", "replace"), block.image_mimetype)
    if isinstance(block, ImageBlock) and isinstance(block.image, BytesIO):
        return _image(base64.b64encode(block.image.getvalue()).decode(), block.image_mimetype)
    summary: dict[str, Any] = {"type": str(getattr(block, "block_type", type(block).__name__))}
    summary |= {name: str(getattr(block, name)) for name in _TEXT_FIELDS if getattr(block, name, None)}
    for name in _DATA_FIELDS:
        data = getattr(block, name, None)
        if isinstance(data, (bytes, bytearray, str)) and data:
            summary["bytes"] = _decoded_size(data)
            break
    return summary


def blocks_of(shown: object) -> list[Any]:
    """Return the blocks in which the model is shown this: what `plain_block` made of blocks, or anything as a text."""
    if isinstance(shown, list) and shown:
        with suppress(ValidationError, TypeError, KeyError, AttributeError):
            return [_block(part) for part in shown]
    return [TextBlock(text=shown if isinstance(shown, str) else str(shown))]


def lost_data(shown: object) -> str | None:
    """Return the type of a block of which `plain_block` kept only the size of its data."""
    parts = shown if isinstance(shown, list) else ()
    return next((str(part.get("type")) for part in parts if isinstance(part, dict) and "bytes" in part), None)


def _block(part: Any) -> Any:
    fields = {**part, "block_type": part["type"]}
    if isinstance(part.get("data"), str):
        fields |= {"image": part["data"].encode(), "image_mimetype": part.get("mime_type")}
    return _ANY_BLOCK.validate_python(fields)


def nodes_of(sources: object) -> list[NodeWithScore]:
    """Return the nodes that `_sources` made this of; none of anything else."""
    try:
        return [
            NodeWithScore(node=TextNode(id_=one["id"], text=one["text"]), score=one["score"])
            for one in (sources if isinstance(sources, list) else ())
        ]
    except (ValidationError, TypeError, KeyError):
        return []


def _image(data: str, mime_type: object) -> dict[str, Any]:
    """Return an image with its base64 text, in a form in which toolgrade compares images by their bytes."""
    return {"type": "image", **({"mime_type": str(mime_type)} if mime_type else {}), "data": data}


def _decoded_size(data: bytes | bytearray | str) -> int:
    """Return the size of base64 data once decoded; of other data, its own."""
    try:
        return len(base64.b64decode(data, validate=True))
    except ValueError:
        return len(data)


def _is_mcp_result(raw: object) -> bool:
    kind = type(raw)
    return kind.__name__ == "CallToolResult" and kind.__module__.partition(".")[0] in ("mcp", "mcp_types")


def _mcp_content(raw: Any) -> Any:
    """Return the text of an MCP result, or each part as `plain_block` does if there is more than text."""
    parts = list(getattr(raw, "content", None) or [])
    if all(getattr(part, "type", None) == "text" for part in parts):
        return "\n".join(part.text for part in parts)
    return [_mcp_part(part) for part in parts]


def _mcp_part(part: Any) -> dict[str, Any]:
    summary: dict[str, Any] = {"type": str(getattr(part, "type", "unknown"))}
    media_type = getattr(part, "mimeType", None) or getattr(part, "mime_type", None)
    data = getattr(part, "data", None)
    if summary["type"] == "text":
        return {**summary, "text": part.text}
    if summary["type"] == "image" and isinstance(data, str):
        return _image(data, media_type)
    if media_type:
        summary["mime_type"] = str(media_type)
    if isinstance(data, str):
        summary["bytes"] = _decoded_size(data)
    return summary


def _has_json_form(value: object, depth: int = 0) -> bool:
    """Return whether a value is data, and not an object of the framework or one that only has a `repr`."""
    if isinstance(value, _PLAIN) or depth >= _MAX_DEPTH:
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
    nodes = [node for node in nodes or () if isinstance(node, NodeWithScore)]
    return [{"id": node.node_id, "score": node.score, "text": node.get_content()} for node in nodes] or None
