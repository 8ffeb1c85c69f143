"""What tests of judges ask: prompts with an answer that fits them."""

from __future__ import annotations

import json
from typing import Any

from toolmark.judge import ImagePart, Message, Prompt, Question

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"verdict": {"enum": ["yes", "no", "cannot_tell"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
YES = json.dumps({"verdict": "yes"})
IMAGE = "data:image/png;base64,iVBORw0KGgo="


def prompt(text: str = "Was the call right?", *, images: tuple[str, ...] = (), name: str = "tool_selection") -> Prompt:
    """A prompt whose content is its text."""
    content: Any = (text, *(ImagePart(url=url) for url in images)) if images else text
    asked = (Message(role="system", content="You judge tool calls."), Message(role="user", content=content))
    return Prompt(
        name=name,
        version="1",
        messages=asked,
        reply_schema=SCHEMA,
        state=asked,
        question=Question(id="q1", text=text),
        ids=("c1",),
        content={"text": text, "images": list(images)},
    )
