import base64
import tempfile
from pathlib import Path

from deepeval import evaluate
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, MLLMImage, ToolCall

pixel = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
path = Path(tempfile.mkdtemp()) / "pixel.png"
path.write_bytes(pixel)

remote = MLLMImage(url="https://images.example.org/cat.png")
local = MLLMImage(url=str(path))
inline = MLLMImage(dataBase64=base64.b64encode(pixel).decode(), mimeType="image/png")
assert local.local is True
assert remote.local is False
assert inline.mimeType == "image/png"

for picture in (remote, local, inline):
    case = LLMTestCase(
        input=f"Which animal is it? {picture}",
        actual_output="A cat.",
        tools_called=[ToolCall(name="classify_image"), ToolCall(name="zoom")],
        expected_tools=[ToolCall(name="classify_image")],
    )
    metric = ToolCorrectnessMetric(threshold=0.7)
    metric.measure(case)
    assert metric.score == 1.0

result = evaluate(test_cases=[case], metrics=[ToolCorrectnessMetric()])
assert result.test_results[0].success
assert result.test_results[0].metrics_data[0].score == 1.0

try:
    MLLMImage()
except ValueError:
    pass
else:
    raise AssertionError("an image needs a source")
print("OK")
