"""Images in the input of a run and in the results of tools, in the forms of LangChain and of the providers."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from lc_agents import asks, make_agent, scripted

from toolgrade.cases import MLLMImage, Run
from toolgrade.testing.tool_doubles import PICTURE_BYTES
from toolgrade_langchain import ToolCallRecorder, run_from_messages

DATA = base64.b64encode(PICTURE_BYTES).decode()
PLAIN = {"type": "image", "mime_type": "image/png", "data": DATA}
URL = f"data:image/png;base64,{DATA}"
ADDRESS = "https://example.org/a.png"

STORED = {
    "OpenAI chat": {"type": "image_url", "image_url": {"url": URL}},
    "OpenAI responses": {"type": "input_image", "image_url": URL},
    "Anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    "MCP": {"type": "image", "data": DATA, "mimeType": "image/png"},
}
"""Images in forms that stay as they are in the output of a tool."""

READ = {
    "version 0": {"type": "image", "source_type": "base64", "data": DATA, "mime_type": "image/png"},
    "version 1": {"type": "image", "base64": DATA, "mime_type": "image/png", "id": "lc_1"},
    "Gemini": {"type": "media", "mime_type": "image/png", "data": DATA},
    "Bedrock": {"image": {"format": "png", "source": {"bytes": PICTURE_BYTES}}},
}
"""Images in forms of LangChain and of its integrations, which become plain data in the output of a tool."""

ELSEWHERE = {
    "version 0": {"type": "image", "source_type": "url", "url": ADDRESS},
    "version 1": {"type": "image", "url": ADDRESS},
    "OpenAI": {"type": "image_url", "image_url": {"url": ADDRESS}},
    "Gemini": {"type": "media", "mime_type": "image/png", "file_uri": ADDRESS},
}
"""Addresses of images."""


def run_of(message: Any) -> Run:
    """Return the run of an agent that is sent a message."""
    recorder = ToolCallRecorder()
    make_agent(scripted("final"), []).invoke({"messages": [message]}, {"callbacks": [recorder]})
    return recorder.run


def returned(content: Any) -> Run:
    """Return the run of an agent whose tool returns this."""

    @tool
    def look() -> Any:
        """Look."""
        return content

    recorder = ToolCallRecorder()
    agent = make_agent(scripted(asks(("look", {}, "c1")), "final"), [look])
    agent.invoke({"messages": [("user", "hi")]}, {"callbacks": [recorder]})
    return recorder.run


def image_of(run: Run) -> MLLMImage:
    """Return the only image of the input, which stands between two texts."""
    before, image, after = run.to_mllm_test_case().input or ()
    assert (before, after) == ("What ", "is it?")
    assert isinstance(image, MLLMImage)
    return image


def question(block: Any) -> list[Any]:
    """Return a content with an image between two texts."""
    return [{"type": "text", "text": "What "}, block, {"type": "text", "text": "is it?"}]


@pytest.mark.parametrize("form", [*STORED, *READ])
def test_image_in_the_input(form: str) -> None:
    """The image is in the input of the multimodal case, between the texts; the text of the run has the texts alone."""
    run = run_of(HumanMessage(question({**STORED, **READ}[form])))

    assert image_of(run).data == DATA
    assert run.input == "What is it?"


@pytest.mark.parametrize("form", ELSEWHERE)
def test_address_of_an_image_in_the_input(form: str) -> None:
    """An address stays an address."""
    assert image_of(run_of(HumanMessage(question(ELSEWHERE[form])))).url == ADDRESS


@pytest.mark.parametrize("form", ["message", "pair", "dict"])
def test_image_in_any_form_of_message(form: str) -> None:
    """Messages of the input may be objects, pairs or dicts."""
    content = question(STORED["OpenAI chat"])
    messages: dict[str, Any] = {
        "message": HumanMessage(content),
        "pair": ("user", content),
        "dict": {"role": "user", "content": content},
    }

    assert image_of(run_of(messages[form])).data == DATA


def test_image_in_messages_that_were_stored() -> None:
    """`run_from_messages` reads images of the input."""
    assert image_of(run_from_messages([HumanMessage(question(READ["version 1"])), AIMessage("final")])).data == DATA


@pytest.mark.parametrize("form", [*STORED, *READ])
def test_image_in_a_stored_result(form: str) -> None:
    """An image in a message of a tool is in the output."""
    block = {**STORED, **READ}[form]
    result = ToolMessage("", tool_call_id="c1", name="look")
    result.content = [block]

    run = run_from_messages([HumanMessage("hi"), asks(("look", {}, "c1")), result, AIMessage("final")])

    assert run.calls[0].output == [block if form in STORED else PLAIN]


@pytest.mark.parametrize("form", ["OpenAI chat", "Anthropic", "MCP"])
def test_image_of_a_tool_in_a_form_that_stays(form: str) -> None:
    """The block of a provider is the output."""
    block = STORED[form]

    assert returned([{"type": "text", "text": "x"}, block]).calls[0].output == [{"type": "text", "text": "x"}, block]


@pytest.mark.parametrize("form", ["version 0", "version 1"])
def test_image_of_a_tool_in_another_form(form: str) -> None:
    """The output has the image as plain data."""
    assert returned([READ[form]]).calls[0].output == [PLAIN]


def test_image_of_a_tool_that_code_called() -> None:
    """Also the value of a tool that code called has the image as plain data."""

    @tool
    def look() -> Any:
        """Look."""
        return [READ["Bedrock"], READ["version 1"]]

    recorder = ToolCallRecorder()
    look.invoke({}, {"callbacks": [recorder]})

    assert recorder.run.calls[0].output == [PLAIN, PLAIN]


@pytest.mark.parametrize("form", ["version 0", "version 1", "OpenAI"])
def test_address_of_an_image_of_a_tool(form: str) -> None:
    """An address in a result stays as it is."""
    assert returned([ELSEWHERE[form]]).calls[0].output == [ELSEWHERE[form]]
