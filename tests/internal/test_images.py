"""Images in outputs are compared by what they show, byte by byte, not by how a framework wraps them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from toolgrade import MLLMImage, MLLMTestCase, ToolCall, ToolCorrectnessMetric
from toolgrade._internal.message_content import hash_images

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
OTHER = PNG + b"\1"
TEXT = base64.b64encode(PNG).decode()
FORMS: dict[str, Any] = {
    "MLLMImage of bytes": MLLMImage(data=PNG),  # type: ignore[arg-type]
    "MLLMImage of base64 with its type": MLLMImage(data=TEXT, mime_type="image/png"),
    "MLLMImage of a data URL": MLLMImage(url=f"data:image/png;base64,{TEXT}"),
    "bytes": PNG,
    "data URL": f"data:image/png;base64,{TEXT}",
    "MCP": {"type": "image", "data": TEXT, "mimeType": "image/png"},
    "LangChain": {"type": "image", "base64": TEXT, "mime_type": "image/png"},
    "older LangChain": {"type": "image", "source_type": "base64", "data": TEXT, "mime_type": "image/png"},
    "Anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}},
    "Chat Completions": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}", "detail": "low"}},
    "Responses": {"type": "input_image", "image_url": f"data:image/png;base64,{TEXT}"},
}


def score(expected: object, called: object) -> float:
    """The score of one call with these outputs."""
    sides = [[ToolCall(name="draw", output=output)] for output in (expected, called)]
    case = MLLMTestCase(expected_tools=sides[0], tools_called=sides[1])
    return float(ToolCorrectnessMetric(evaluation_params=["output"]).measure(case))


@pytest.mark.parametrize("form", FORMS)
def test_the_same_image_in_every_form(form: str) -> None:
    """All forms are equal, also deep inside an output, and differ from another image."""
    for other in FORMS.values():
        assert score(FORMS[form], other) == 1
        assert score({"pages": [FORMS[form], 1]}, {"pages": [other, 1]}) == 1
    assert score(FORMS[form], OTHER) == 0
    assert score({"pages": [FORMS[form]]}, {"pages": [OTHER]}) == 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        "data:image/png;base64,AAAA",
        "data:text/plain;base64,aGVsbG8=",
        {"data": "aGVsbG8gd29ybGQsIGhlbGxv"},
        {"data": TEXT, "title": "a row of a table, not an image alone"},
        {"url": "https://example.com/a.png"},
        {"path": "a.png"},
        {"image_url": {"url": "https://example.com/a.png"}},
        {"source": "manual", "type": "x"},
        [[{"a": [1, 2, {"b": "c"}]}]],
    ],
)
def test_other_values_are_returned_unchanged(value: object) -> None:
    """The same object, so that comparing copies nothing."""
    assert hash_images(value) is value


def test_the_address_of_an_image_is_compared_as_text() -> None:
    """Nothing is read or fetched to compare."""
    assert score(MLLMImage(path="a.png"), MLLMImage(path="a.png")) == 1
    assert score(MLLMImage(path="a.png"), MLLMImage(path="b.png")) == 0
    assert score(MLLMImage(url="https://example.com/a"), MLLMImage(url="https://example.com/a")) == 1
