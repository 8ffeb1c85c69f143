"""Images of the user's input: the forms that are read, the recorded run, and the multimodal case."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import LLMTestCase, MLLMImage, MLLMTestCase, Run, ToolCall
from toolgrade.capture import RunBuilder, image_parts

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()
URL = "https://example.com/a.png"
DATA_URL = f"data:image/png;base64,{PNG}"

BY_DATA = MLLMImage(data=PNG, mime_type="image/png")
BY_URL = MLLMImage(url=URL)

IMAGE_FORMS: list[tuple[dict[str, Any], MLLMImage]] = [
    (
        {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}},
        MLLMImage(data=PNG, mime_type="image/png"),
    ),
    ({"type": "image_url", "image_url": URL}, BY_URL),
    ({"type": "input_image", "image_url": URL, "detail": "auto"}, BY_URL),
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, BY_DATA),
    ({"type": "image", "source": {"type": "url", "url": URL}}, BY_URL),
    ({"type": "image", "base64": PNG, "mime_type": "image/png"}, BY_DATA),
    ({"type": "image", "url": URL}, BY_URL),
    ({"type": "image", "data": PNG, "mime_type": "image/png"}, BY_DATA),
    ({"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"}, BY_DATA),
    ({"type": "image", "source_type": "url", "url": URL}, BY_URL),
    ({"type": "image", "data": PNG, "mimeType": "image/png"}, BY_DATA),
    ({"block_type": "image", "image": PNG.encode(), "image_mimetype": "image/png"}, BY_DATA),
    ({"block_type": "image", "path": "a.png"}, MLLMImage(path="a.png")),
]
UNREADABLE = [
    {"type": "input_image", "file_id": "file-1"},
    {"type": "image", "source": {"type": "file", "file_id": "file-1"}},
    {"type": "image", "data": "not base64"},
    {"type": "image"},
    {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
]


@pytest.mark.parametrize(("part", "image"), IMAGE_FORMS)
def test_every_form_of_an_image_is_read_between_its_texts(part: dict[str, Any], image: MLLMImage) -> None:
    """Every form of an image is read between its texts."""
    content = [{"type": "text", "text": "before"}, part, {"type": "input_text", "text": "after"}]
    assert image_parts(content) == ["before", image, "after"]


@pytest.mark.parametrize("part", UNREADABLE)
def test_a_part_that_is_not_a_readable_image_is_left_out(part: dict[str, Any]) -> None:
    """A part that is not a readable image is left out."""
    assert image_parts(["text", part]) is None
    assert image_parts(["text", part, BY_URL]) == ["text", BY_URL]


@dataclass
class _ImageContent:
    """An image as an object of an SDK."""

    type: str
    data: str
    mimeType: str  # noqa: N815 - the name of the protocol


def test_objects_of_sdks_are_read() -> None:
    """Objects of sdks are read."""
    assert image_parts([_ImageContent("image", PNG, "image/png")]) == [BY_DATA]


class _BrokenObject:
    """An object whose own code fails."""

    def model_dump(self) -> dict[str, Any]:
        raise RuntimeError


@pytest.mark.parametrize("content", [None, "text", [], 3, {"type": "text", "text": "a"}, [None, 4, [BY_URL]]])
def test_content_without_an_image_is_none(content: object) -> None:
    """Content without an image is none."""
    assert image_parts(content) is None


def test_an_object_that_fails_is_left_out() -> None:
    """An object that fails is left out."""
    assert image_parts([_BrokenObject(), BY_URL]) == [BY_URL]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5) | st.just(PNG),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "block_type", "image", "image_url", "source", "data", "url", "path", "text"]),
            inner | st.sampled_from(["image", "image_url", "input_image", "text"]),
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(_values)
def test_no_content_makes_it_raise(content: object) -> None:
    """No content makes it raise."""
    parts = image_parts(content)
    assert parts is None or any(isinstance(part, MLLMImage) for part in parts)


# The run and its case


def _run(**arguments: Any) -> Run:
    builder = RunBuilder(run_id="r1")
    builder.started(**arguments)
    builder.ended("A cat.")
    return builder.build()


def test_the_builder_stores_the_parts_and_takes_the_text_from_them() -> None:
    """The builder stores the parts and takes the text from them."""
    run = _run(parts=["What", BY_DATA, " is it?"])
    assert run.input == "What is it?"
    assert run.input_parts == ["What", BY_DATA, " is it?"]
    assert _run(input="question", parts=[BY_DATA]).input == "question"
    assert _run(parts=[BY_DATA]).input is None


def test_parts_of_other_types_are_a_warning() -> None:
    """Parts of other types are a warning."""
    run = _run(parts=["text", 3, BY_URL])
    assert run.input_parts == ["text", BY_URL]
    assert run.warnings == ["parts of the input are neither text nor an MLLMImage; they were left out"]


def test_a_run_without_images_does_not_set_the_field() -> None:
    """A run without images does not set the field."""
    assert "input_parts" not in _run(input="question").to_dict()


def test_json_round_trip() -> None:
    """Json round trip."""
    run = _run(parts=["What", BY_DATA, BY_URL])
    assert run.to_dict()["input_parts"] == ["What", {"data": PNG, "mime_type": "image/png"}, {"url": URL}]
    assert Run.from_json(run.to_json()) == run


def test_multimodal_case_has_the_parts_as_input() -> None:
    """Multimodal case has the parts as input."""
    expected = [ToolCall(name="look")]
    run = _run(parts=["What", BY_DATA])
    case = run.to_mllm_test_case(expected_tools=expected, expected_output="cat", name="n")
    assert isinstance(case, MLLMTestCase)
    assert case.input == ["What", BY_DATA]
    text_case = run.to_test_case(expected_tools=expected, expected_output="cat", name="n")
    assert case == MLLMTestCase(**{**_set_fields(text_case), "input": ["What", BY_DATA]})


def test_multimodal_case_of_a_text_run_has_the_text() -> None:
    """Multimodal case of a text run has the text."""
    case = _run(input="question").to_mllm_test_case(id="a")
    assert (case.id, case.input) == ("a", "question")


def test_unknown_argument_of_a_multimodal_case() -> None:
    """Unknown argument of a multimodal case."""
    arguments: dict[str, Any] = {"expected": []}
    with pytest.raises(TypeError, match="expected"):
        _run().to_mllm_test_case(**arguments)


def _set_fields(case: LLMTestCase) -> dict[str, Any]:
    return {name: getattr(case, name) for name in case.model_fields_set}
