"""Images in what the user says and in what tools return."""

import base64
import io
from pathlib import Path
from typing import Any, get_args

import pytest
from li_agents import agent, asks, played
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool

from toolgrade.cases import MLLMImage, Run

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
DATA = base64.b64encode(PNG).decode()


def run_with(*blocks: Any, way: str = "message", mode: str = "C") -> Run:
    """A run to which the user says these blocks."""
    message = ChatMessage(role="user", blocks=list(blocks))
    earlier = [ChatMessage(role="user", blocks=[ImageBlock(image=b"x" + PNG)]), ChatMessage("b", role="assistant")]
    if way == "message":
        log = played(lambda: agent("fine"), message)
    else:
        log = played(lambda: agent("fine"), None, chat_history=[*earlier, message])
    log.question = None
    return log.run(mode)


@pytest.mark.parametrize("mode", ["C", "E"])
@pytest.mark.parametrize("way", ["message", "history"])
def test_images_of_the_user(way: str, mode: str) -> None:
    """Texts and images of the user's last message stand in their order; addresses are kept."""
    image, address = ImageBlock(image=PNG, image_mimetype="image/png"), ImageBlock(url="https://example.com/a.png")
    run = run_with(TextBlock(text="see"), image, TextBlock(text="and"), address, way=way, mode=mode)

    assert run.input == "see\nand"
    assert run.to_mllm_test_case().input == [
        "see",
        MLLMImage(data=DATA, mime_type="image/png"),
        "and",
        MLLMImage(url="https://example.com/a.png", mime_type="image/png"),
    ]


def test_image_in_a_file(tmp_path: Path) -> None:
    """The path of an image is kept, and its file is not opened: it may be gone."""
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    block = ImageBlock(path=file)
    file.unlink()
    run = run_with(TextBlock(text="see"), block)

    assert run.to_mllm_test_case().input == ["see", MLLMImage(path=str(file), mime_type="image/png")]


@pytest.mark.skipif(
    io.IOBase not in get_args(ImageBlock.model_fields["image"].annotation),
    reason="images of older versions are bytes, and not streams",
)
def test_images_in_streams(tmp_path: Path) -> None:
    """A buffer in memory has its data; a file that the program has opened is not read. Neither moves."""
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    buffer = io.BytesIO(PNG)
    with file.open("rb") as stream:
        for each in (buffer, stream):
            each.seek(5)
        blocks = [ImageBlock(image=each, image_mimetype="image/png") for each in (buffer, stream)]
        run = run_with(TextBlock(text="see"), *blocks)
        assert (buffer.tell(), stream.tell()) == (5, 5)

    assert run.to_mllm_test_case().input == ["see", MLLMImage(data=DATA, mime_type="image/png")]
    assert run.warnings == ["an image of the input is an open file, which belongs to the program; it was left out"]


def test_image_without_text() -> None:
    """A message may be an image alone."""
    run = run_with(ImageBlock(image=PNG, image_mimetype="image/png"))

    assert run.to_mllm_test_case().input == [MLLMImage(data=DATA, mime_type="image/png")]


@pytest.mark.parametrize("mode", ["C", "E"])
def test_image_of_an_mcp_server(mode: str) -> None:
    """An image in the answer of an MCP server has its data; sound is described by its size."""
    types = pytest.importorskip("mcp.types")
    parts = [{"type": "image", "data": DATA, "mimeType": "image/png"}]
    parts += [{"type": "audio", "data": DATA, "mimeType": "audio/wav"}]
    result = types.CallToolResult.model_validate({"content": parts})
    tool = FunctionTool.from_defaults(lambda: result, name="draw", description="Draw.")
    run = played(lambda: agent(asks(("draw", {}, "c1")), "fine", tools=[tool])).run(mode)

    image = {"type": "image", "mime_type": "image/png", "data": DATA}
    assert run.calls[0].output == [image, {"type": "audio", "mime_type": "audio/wav", "bytes": len(PNG)}]
