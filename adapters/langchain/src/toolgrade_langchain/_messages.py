"""Values read from LangChain's messages: texts, requests, token counts and names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from toolgrade.calls import ToolCallType
from toolgrade.capture import ABSENT, Branch, Request, RunBuilder, image_parts
from toolgrade.cases import MLLMImage
from toolgrade.formats import Answer, read_content_blocks, read_responses_answer

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
        if is_question(message):
            return message.content
    return None


def is_question(message: object) -> TypeGuard[HumanMessage]:
    """Return whether a message is one of a person who says something."""
    return isinstance(message, HumanMessage) and says_something(message.content)


def says_something(content: object) -> bool:
    """Return whether the content of a person's message has more than results of calls, or an approval."""
    blocks = content if isinstance(content, list) else []
    return not blocks or not all(read_content_blocks([block]).answers for block in blocks)


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

    Blocks of OpenAI, Anthropic and MCP stay as they are, as do addresses of images. Of an item of OpenAI's Responses
    that is the whole content, as `custom_tool` returns it, only the output counts.
    """
    item = read_responses_answer(content[0]) if isinstance(content, list) and len(content) == 1 else None
    if item is not None:
        return item.content
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


def images_of_langchain(content: object) -> Any:
    """Return a content whose images are plain data with these in the form of LangChain that all its versions read."""
    return list(map(_image_of_langchain, content)) if isinstance(content, list) else content


def _image_of_langchain(block: object) -> object:
    is_image = isinstance(block, Mapping) and block.keys() - {"mime_type"} == {"type", "data"}
    return {**block, "source_type": "base64"} if isinstance(block, Mapping) and is_image else block


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
    function = ToolCallType.FUNCTION
    listed = [Request(call["name"], call["args"], call.get("id"), type=function) for call in message.tool_calls]
    for invalid in message.invalid_tool_calls:
        name, text, call_id = invalid.get("name") or "", invalid.get("args") or "", invalid.get("id")
        listed.append(Request(name, text, call_id, type=function, error=invalid.get("error")))
    additional, provider = message.additional_kwargs, str(message.response_metadata.get("model_provider"))
    if isinstance(message.content, str) and not additional:  # most messages
        return listed
    parts = read_content_blocks(message.content, listed, additional=additional, provider=provider).parts
    return [part for part in parts if isinstance(part, Request)]


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


def answers_in(message: BaseMessage) -> list[Answer]:
    """Return the results in the content of a message, of calls that it does not request itself."""
    answers = [] if isinstance(message.content, str) else read_content_blocks(message.content).answers
    for answer in answers:
        answer.ran = isinstance(message, AIMessage)  # the provider, and no client
    return answers


def add_answers(builder: RunBuilder, message: BaseMessage, scope: Branch | None = None) -> None:
    """Add the results in the content of a message; an approval is none, since the result comes later."""
    for answer in answers_in(message):
        if not answer.approved:
            builder.result_shown(
                answer.content,
                call_id=answer.call_id,
                failed=answer.failed,
                error=answer.error or ("failed" if answer.failed and answer.content is ABSENT else None),
                scope=scope,
                ran=answer.ran,
                read=answer.approved is None,  # no callback shows who ran it
            )
