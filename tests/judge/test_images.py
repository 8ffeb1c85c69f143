"""Images for a judge: loaded from the case, validated, sent as parts, and never downloaded."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from judging import RuleJudge, evidence_text
from toolgrade import (
    ConfigurationError,
    InvalidDataError,
    MLLMImage,
    MLLMTestCase,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    evaluate,
)
from toolgrade.judge import Judge

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 20
GIF = b"GIF89a" + b"\0" * 20
WEBP = b"RIFF\0\0\0\0WEBP" + b"\0" * 20
TOOLS = [{"name": "look"}]


def case(*images: MLLMImage) -> MLLMTestCase:
    """A case with these images in its input."""
    calls = [ToolCall(name="look")]
    return MLLMTestCase(input=["What is this?", *images], tools_called=calls, expected_tools=calls)


def judged(image_case: MLLMTestCase, **options: Any) -> tuple[Any, RuleJudge]:
    """The result, and the judge."""
    rule = RuleJudge("yes")
    return ToolCorrectnessMetric(available_tools=TOOLS, judge=Judge(rule, **options)).measure(image_case), rule


def urls(rule: RuleJudge) -> list[str]:
    """The images that each question was asked with."""
    return [
        part["image_url"]["url"]
        for messages in rule.messages
        for part in messages[-1]["content"]
        if isinstance(part, dict) and part["type"] == "image_url"
    ]


@pytest.mark.parametrize(
    ("content", "mime"), [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")]
)
def test_images_from_everywhere(tmp_path: Path, content: bytes, mime: str) -> None:
    """A path, bytes, base64 text and a data: URL are the same image; its type is read from its bytes."""
    path = tmp_path / "image"
    path.write_bytes(content)
    text = base64.b64encode(content).decode()
    images = [
        MLLMImage(path=str(path)),
        MLLMImage(data=content),  # type: ignore[arg-type]
        MLLMImage(data=text, mime_type=mime),
        MLLMImage(url=f"data:{mime};base64,{text}"),
    ]
    result, rule = judged(case(*images), image_folder=tmp_path)

    assert (result.score, result.warnings) == (1, ())
    assert set(urls(rule)) == {f"data:{mime};base64,{text}"}
    assert len(urls(rule)) == 8
    (request,) = rule.questions[0][1]["request"]
    assert request["content"][0] == "What is this?"
    assert [part["image"] for part in request["content"][1:]] == ["i1", "i2", "i3", "i4"]
    assert len({part["sha256"] for part in request["content"][1:]}) == 1
    assert "Image i1 of the record" in str(rule.messages[0][-1]["content"])
    assert text not in evidence_text(rule.messages[0])


@pytest.mark.parametrize(
    ("image", "message"),
    [
        pytest.param({"path": "nowhere.png"}, "'nowhere.png' cannot be read", id="no file"),
        pytest.param({"path": "text"}, "is not a PNG, JPEG, GIF or WebP", id="a file that is no image"),
        pytest.param({"path": "../outside.png"}, "must lie in image_folder", id="a parent folder"),
        pytest.param({"path": "inside/../../outside.png"}, "must lie in image_folder", id="a way around"),
        pytest.param({"path": "/etc/hostname"}, "must lie in image_folder", id="another folder"),
        pytest.param({"path": "link.png"}, "must lie in image_folder", id="a link out of the folder"),
        pytest.param({"path": "linked/outside.png"}, "must lie in image_folder", id="a linked folder"),
        pytest.param({"path": "circle"}, "'circle' cannot be read", id="a link to itself"),
        pytest.param({"path": "inside"}, "must be a regular file", id="a folder"),
        pytest.param({"path": "pipe.png"}, "must be a regular file", id="a named pipe"),
        pytest.param({"path": "nul\0.png"}, "cannot be read", id="no name of a file"),
        pytest.param({"path": "large.png"}, "at most 20,000,000", id="a large file"),
        pytest.param({"data": b"hello"}, "given as data is not a PNG", id="bytes that are no image"),
        pytest.param({"url": "data:image/png,abc"}, "must have the form data:image/png;base64", id="no base64"),
        pytest.param({"url": "data:image/png;base64,!!!!"}, "does not hold base64 text", id="broken base64"),
        pytest.param({"data": PNG + b"\0" * 20_000_000}, "at most 20,000,000", id="too large"),
    ],
)
def test_invalid_images_are_refused(tmp_path: Path, image: dict[str, Any], message: str) -> None:
    """The error names the image and the problem; nothing is sent, and nothing hangs."""
    folder = tmp_path / "images"
    (folder / "inside").mkdir(parents=True)
    (folder / "text").write_text("This is a text, and not an image.")
    (folder / "large.png").write_bytes(PNG + b"\0" * 20_000_000)
    (tmp_path / "outside.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "circle").symlink_to(folder / "circle")
    os.mkfifo(folder / "pipe.png")
    rule = RuleJudge("yes")
    metric = ToolCorrectnessMetric(available_tools=TOOLS, judge=Judge(rule, image_folder=folder))
    with pytest.raises(InvalidDataError, match=message):
        metric.measure(case(MLLMImage(**image)))
    assert not rule.questions


def test_files_named_by_data_are_not_opened(tmp_path: Path) -> None:
    """A data set may name any file; without a folder from the caller none is read, not even a pipe that would hang."""
    (tmp_path / "private.png").write_bytes(PNG)
    os.mkfifo(tmp_path / "pipe.png")
    calls = [{"name": "look"}]
    for name in ("private.png", "pipe.png", "nowhere.png"):
        line = {"input": [{"path": str(tmp_path / name)}], "tools_called": calls, "expected_tools": calls}
        rule = RuleJudge("yes")
        metric = ToolCorrectnessMetric(available_tools=TOOLS, judge=rule)
        with pytest.raises(ConfigurationError, match=r"name the folder of its images with Judge\(.*image_folder"):
            metric.measure(MLLMTestCase.model_validate(line))
        assert not rule.questions


def test_links_inside_of_the_folder_are_followed(tmp_path: Path) -> None:
    """The folder itself may be a link, too, and relative names start in it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.png").write_bytes(PNG)
    (tmp_path / "real" / "b.png").symlink_to("a.png")
    (tmp_path / "images").symlink_to("real")
    result, rule = judged(case(MLLMImage(path="b.png")), image_folder=str(tmp_path / "images"))

    assert result.score == 1
    assert len(urls(rule)) == 2


def test_addresses_are_handed_on_only_if_allowed() -> None:
    """By default such a case fails with what to do; if it is allowed, the provider of the judge gets the address."""
    image_case = case(MLLMImage(url="https://example.com/a.png"))
    with pytest.raises(ConfigurationError, match="image_addresses=True"):
        judged(image_case)
    result, rule = judged(image_case, image_addresses=True)

    assert result.score == 1
    assert set(urls(rule)) == {"https://example.com/a.png"}
    with pytest.raises(InvalidDataError, match="must begin with https:, http: or data:"):
        judged(case(MLLMImage(url="file:///etc/passwd")), image_addresses=True)


def test_one_bad_image_fails_one_case() -> None:
    """The others are judged."""
    metric = ToolCorrectnessMetric(available_tools=TOOLS, judge=RuleJudge("yes"))
    report = evaluate([case(MLLMImage(data=PNG)), case(MLLMImage(path="nowhere")), case()], [metric])  # type: ignore[arg-type]
    assert [result.status.value for _, result in report.results()] == ["scored", "errored", "scored"]


def test_images_change_the_key() -> None:
    """Another image is another question at any path; the same image at another path is the same one."""
    metric = ToolCorrectnessMetric(available_tools=TOOLS, judge="gpt-4o")
    contents = [
        metric.prompts(case(MLLMImage(data=content)))[0].content  # type: ignore[arg-type]
        for content in (PNG, PNG, JPEG)
    ]
    assert contents[0] == contents[1] != contents[2]


# Images in results


def png_number(number: int) -> bytes:
    """A small image of its own."""
    return PNG + bytes([number])


def output_case(outputs: list[Any], **fields: Any) -> MLLMTestCase:
    """A multimodal case with a call for each of these outputs."""
    calls = [ToolCall(name="look", output=output) for output in outputs]
    return MLLMTestCase(**{"input": "Which is larger?", "tools_called": calls, "expected_tools": calls, **fields})


def whole_case(rule: RuleJudge) -> tuple[dict[str, Any], Any]:
    """The document and the content of the question about the whole case."""
    (place,) = [place for place, (name, _) in enumerate(rule.questions) if name == "missing_calls"]
    return rule.questions[place][1], rule.messages[place][-1]["content"]


def test_images_in_results_are_sent() -> None:
    """A result is shown to later questions with the id of its image, and the image follows the record."""
    text = base64.b64encode(PNG).decode()
    outputs = [["a cat", {"type": "image", "base64": text, "mime_type": "image/png"}], "nothing"]
    result, rule = judged(output_case(outputs))

    assert (result.score, result.warnings) == (1, ())
    document, content = whole_case(rule)
    sha256 = hashlib.sha256(PNG).hexdigest()
    assert document["calls"][0]["result"] == ["a cat", {"image": "c1-i1", "sha256": sha256}]
    assert urls(rule) == [f"data:image/png;base64,{text}"] * 2  # of the second call and of the whole case
    assert "Image c1-i1 of the record" in str(content)
    assert text not in str(rule.questions)


def test_only_the_latest_images_in_results_are_sent() -> None:
    """Of earlier ones the judge sees the type and the hash."""
    _, rule = judged(output_case([{"data": base64.b64encode(png_number(number)).decode()} for number in range(25)]))

    document, content = whole_case(rule)
    images = [call["result"]["image"] for call in document["calls"]]
    assert images == ["image/png"] * 5 + [f"c{number}-i1" for number in range(6, 26)]
    assert len([part for part in content if part["type"] == "image_url"]) == 20


def test_an_image_beyond_the_limit_of_a_result_is_not_sent() -> None:
    """An image is sent only if its id is in the part of the result that is shown."""
    image = {"data": base64.b64encode(PNG).decode()}
    _, rule = judged(output_case([["x" * 5_000, image]]))

    assert urls(rule) == []
    assert whole_case(rule)[0]["calls"][0]["result_cut_off"]["characters"] > 5_000


def test_a_case_of_texts_sends_no_image() -> None:
    """Its judge learns that the input has an image, and sees the type and hash of images in results."""
    image = {"data": base64.b64encode(PNG).decode()}
    call = ToolCall(name="look", output=image)
    run = Run(input="What is this?", input_parts=["What is this?", MLLMImage(**image)], calls=[call])
    rule = RuleJudge("yes")
    metric = ToolCorrectnessMetric(available_tools=TOOLS, judge=rule)
    metric.measure(run.to_test_case(expected_tools=[call]))

    document, _ = whole_case(rule)
    assert document["request"][0]["content"] == ["What is this?", {"image": {"not_sent": True}}]
    assert document["calls"][0]["result"] == {"image": "image/png", "sha256": hashlib.sha256(PNG).hexdigest()}
    assert all(isinstance(messages[-1]["content"], str) for messages in rule.messages)


def test_a_multimodal_case_of_a_run_sends_its_images() -> None:
    """The images of the recorded input are those of the case."""
    image = MLLMImage(data=base64.b64encode(PNG).decode())
    call = ToolCall(name="look")
    run = Run(input="What is this?", input_parts=["What is this?", image], calls=[call])
    _, rule = judged(run.to_mllm_test_case(expected_tools=[call]))

    assert len(urls(rule)) == 2
