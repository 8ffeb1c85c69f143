"""Values read from LangChain's messages: texts, requests, token counts and names."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, HumanMessage

from toolgrade.calls import ToolCallType
from toolgrade.capture import Branch, Request, RunBuilder, image_parts
from toolgrade.cases import MLLMImage
from toolgrade_langchain._hosted import call_positions, hosted_requests, late_results

HANDOFF_BACK: Final = "__is_handoff_back"
"""Marks the messages that `langgraph-supervisor` adds when an agent returns control, in the form of a call."""

_OWN_KEYS: Final = frozenset({"source_type", "base64"})
"""Keys of images that only the blocks of LangChain itself have, of version 0 and of version 1."""


def text_of(content: object) -> str:
    """Return the text of a message's content; of a list of blocks, their texts joined."""
    if isinstance(content, str):
        return content
    texts = [_block_text(block) for block in content] if isinstance(content, list) else []
    return "".join(texts)


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") in (None, "text") else None
    return text if isinstance(text, str) else ""


def question_in(messages: Sequence[object]) -> object:
    """Return the content of the last message of a person, a text or a list of blocks; `None` without one."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return message.content
    return None


def user_input(content: object) -> tuple[str, list[str | MLLMImage] | None]:
    """Return the text of a person's message, and its texts and images, `None` if it has no image."""
    blocks = [_standard_image(block) for block in content] if isinstance(content, list) else content
    return text_of(content), image_parts(blocks)


def add_question(builder: RunBuilder, content: object) -> None:
    """Note the text and the images of the user; nothing if there is no content."""
    if content is not None:
        text, parts = user_input(content)
        builder.started(text, parts=parts)


def readable_images(content: object) -> object:
    """Return the content of a tool's result, with images in the forms of LangChain itself as plain data.

    Blocks of OpenAI, Anthropic and MCP stay as they are, as do addresses of images.
    """
    return [_readable_image(block) for block in content] if isinstance(content, list) else content


def _readable_image(block: object) -> object:
    standard = _standard_image(block)
    if not isinstance(block, Mapping) or (standard is block and not _OWN_KEYS & block.keys()):
        return block
    for image in image_parts([standard]) or ():
        if isinstance(image, MLLMImage) and image.data is not None:
            mime_type = {} if image.mime_type is None else {"mime_type": image.mime_type}
            return {"type": "image", **mime_type, "data": image.data}
    return block


def _standard_image(block: object) -> object:
    """Return an image of Gemini or Bedrock in the standard form, any other block unchanged."""
    if not isinstance(block, Mapping):
        return block
    mime_type, bedrock = block.get("mime_type"), block.get("image")
    if block.get("type") == "media" and str(mime_type).startswith("image/"):
        return {"type": "image", "mime_type": mime_type, "data": block.get("data"), "url": block.get("file_uri")}
    if isinstance(bedrock, Mapping) and isinstance(bedrock.get("source"), Mapping):
        return {
            "type": "image",
            "mime_type": f"image/{bedrock.get('format')}",
            "data": bedrock["source"].get("bytes"),
        }
    return block


def arguments_in(text: str) -> dict[str, Any]:
    """Return the arguments of a tool that received a text: the JSON object in it, or the text as `input`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"input": text}


def requests_of(message: AIMessage) -> list[Request]:
    """Return the calls that a model message requests, in the order of its content: also those that the provider ran.

    Calls that the content does not show come last: well-formed ones, then unreadable ones.
    """
    placed: list[tuple[int, Request]] = list(hosted_requests(message).items())
    positions, function = call_positions(message), ToolCallType.FUNCTION
    end = sys.maxsize
    for call in message.tool_calls:
        request = Request(call["name"], call["args"], call.get("id"), type=function)
        placed.append((positions.get(call.get("id") or "", end), request))
    for invalid in message.invalid_tool_calls:
        name, text, call_id = invalid.get("name") or "", invalid.get("args") or "", invalid.get("id")
        request = Request(name, text, call_id, type=function, error=invalid.get("error"))
        placed.append((positions.get(call_id or "", end), request))
    return [request for _, request in sorted(placed, key=lambda item: item[0])]


def usage_of(message: AIMessage) -> dict[str, int]:
    """Return the token counts of a message; none if the answer came from a cache and cost nothing."""
    usage: Mapping[str, Any] = message.usage_metadata or {}
    if usage.get("total_cost") == 0:
        return {}
    counts: dict[str, Any] = dict(usage)
    for direction in ("input", "output"):
        details = counts.pop(f"{direction}_token_details", None)
        for name, amount in details.items() if isinstance(details, Mapping) else ():
            counts[f"{direction}_{name}_tokens"] = amount
    return {name: amount for name, amount in counts.items() if isinstance(amount, int)}


def model_of(message: AIMessage) -> str | None:
    """Return the name of the model that wrote a message, if the message has it."""
    metadata = message.response_metadata
    name = metadata.get("model_name") or metadata.get("model")
    return name if isinstance(name, str) else None


def add_late_results(builder: RunBuilder, message: AIMessage, scope: Branch | None = None) -> None:
    """Add the results in a message of calls that the provider ran in an earlier one."""
    for result in late_results(message):
        builder.result_shown(
            result.output if result.failure is None else result.failure,
            call_id=result.call_id,
            failed=result.failure is not None,
            scope=scope,
            ran=True,
        )
