"""A sample prompt, for tests of judges."""

from __future__ import annotations

from typing import Final

from toolgrade._internal.json import JsonObject
from toolgrade.judge import ImagePart, Message, Prompt

VERDICT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "evidence": {"type": "array", "items": {"enum": ["c1"]}},
        "reasoning": {"type": "string"},
        "verdict": {"enum": ["yes", "no", "cannot_tell"]},
    },
    "required": ["evidence", "reasoning", "verdict"],
    "additionalProperties": False,
}
"""JSON Schema of a reply to `sample_prompt`: `{"evidence": ["c1"], "reasoning": "...", "verdict": "yes"}`."""


def sample_prompt(
    text: str = "Was the call right?", *, images: tuple[str, ...] = (), name: str = "tool_selection"
) -> Prompt:
    """Return a prompt for tests of judges: a system message, and one of the user with the text and the images.

    Prompts of different texts or images have different keys in a cache.

    Args:
        text: The question.
        images: URLs of images that follow the text.
        name: Name of the prompt and of its schema.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> judge = Judge(lambda messages: '{"evidence": ["c1"], "reasoning": "It fits.", "verdict": "yes"}')
        >>> result = asyncio.run(judge.ask(sample_prompt("Was get_weather the right tool?")))
        >>> result.verdict.decision.value, result.verdict.rationale
        ('yes', 'It fits.')
    """
    content: str | tuple[str | ImagePart, ...] = text
    if images:
        content = (text, *(ImagePart(url=url) for url in images))
    messages = (Message(role="system", content="You judge tool calls."), Message(role="user", content=content))
    return Prompt(
        name=name,
        version="sample",
        messages=messages,
        reply_schema=VERDICT_SCHEMA,
        ids=("c1",),
        content={"text": text, "images": list(images)},
    )
