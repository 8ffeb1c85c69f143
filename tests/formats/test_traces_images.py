"""Images of the user in traces: `input_parts` of the run, as readers of messages and recorders fill them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgrade.cases import MLLMImage
from toolgrade.formats import read_traces

DATA = "iVBORw0KGgo="
PNG = MLLMImage(data=DATA, mime_type="image/png")
ADDRESS = "https://example.com/a.png"

CHAT = [
    {"type": "text", "text": "Where?"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
]
GEN_AI = [
    {"type": "text", "content": "Where?"},
    {"type": "blob", "modality": "image", "mime_type": "image/png", "content": DATA},
]
LANGCHAIN = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}


def span(**attributes: Any) -> dict[str, Any]:
    """A span of a model that answers; attributes have `__` in the place of dots."""
    fields = {key.replace("__", "."): value for key, value in attributes.items()}
    return {
        "name": "chat",
        "span_kind": "LLM",
        "context": {"trace_id": "1" * 32, "span_id": "1" * 16},
        "parent_id": None,
        "start_time": 1_772_366_400_000,
        "end_time": 1_772_366_401_000,
        "attributes": {"gen_ai.operation.name": "chat", "openinference.span.kind": "LLM", **fields},
    }


def messages(*contents: Any) -> str:
    """Return the messages of a user, with an answer of the model after each but the last, as JSON text."""
    entries: list[dict[str, Any]] = []
    for content in contents:
        entries += [{"role": "user", "content": content}, {"role": "assistant", "content": "Here."}]
    return json.dumps(entries[:-1])


OPEN_INFERENCE = {
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.contents.0.message_content.type": "text",
    "llm.input_messages.0.message.contents.0.message_content.text": "Where?",
    "llm.input_messages.0.message.contents.1.message_content.type": "image",
    "llm.input_messages.0.message.contents.1.message_content.image.image.url": f"data:image/png;base64,{DATA}",
}

FORMS: dict[str, dict[str, Any]] = {
    "messages of the chat API": {"gen_ai__prompt": messages(CHAT)},
    "parts of the GenAI conventions": {"gen_ai__input__messages": json.dumps([{"role": "user", "parts": GEN_AI}])},
    "indexed attributes of OpenInference": OPEN_INFERENCE,
    "LangChain's messages": {
        "input__value": json.dumps({"messages": [[{**LANGCHAIN, "kwargs": {"type": "human", "content": CHAT}}]]})
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_images_of_the_user_are_parts_of_the_input(form: str) -> None:
    """Texts and images of the user's message stand in their order, in each form of a trace."""
    (run,) = read_traces([span(**FORMS[form])]).runs

    assert (run.input, run.input_parts) == ("Where?", ["Where?", PNG])
    assert run.to_mllm_test_case().input == ["Where?", PNG]


def test_address_of_an_image() -> None:
    """An image with an address keeps it."""
    part = {"type": "uri", "modality": "image", "uri": ADDRESS}
    (run,) = read_traces([span(gen_ai__input__messages=json.dumps([{"role": "user", "parts": [part]}]))]).runs

    assert (run.input, run.input_parts) == (None, [MLLMImage(url=ADDRESS)])


def test_only_the_last_message_of_the_user_counts() -> None:
    """An image of an earlier turn is not part of this turn's input, and one without a text is all of it."""
    (earlier,) = read_traces([span(gen_ai__prompt=messages(CHAT, "And now?"))]).runs
    (alone,) = read_traces([span(gen_ai__prompt=messages("Hello", CHAT[1:]))]).runs

    assert (earlier.input, earlier.input_parts) == ("And now?", None)
    assert (alone.input, alone.input_parts) == (None, [PNG])
