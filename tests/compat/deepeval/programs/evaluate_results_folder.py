import json
from pathlib import Path

from deepeval import evaluate
from deepeval.evaluate import DisplayConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

case = LLMTestCase(input="weigh it", actual_output="2 kg", tools_called=[ToolCall(name="scale")], expected_tools=[ToolCall(name="scale"), ToolCall(name="label")])
folder = Path("runs") / "prompt-7"
for _ in range(2):
    evaluate(
        test_cases=[case],
        metrics=[ToolCorrectnessMetric(threshold=0.9)],
        hyperparameters={"model": "m"},
        display_config=DisplayConfig(results_folder=str(folder), print_results=False),
    )
files = sorted(folder.glob("test_run_*.json"))
assert len(files) == 2, files
run = json.loads(files[0].read_text())
saved = run["testCases"][0]
assert saved["input"] == "weigh it"
assert saved["success"] is False
assert saved["metricsData"][0]["name"] == "Tool Correctness"
assert saved["metricsData"][0]["score"] == 0.5
assert run["testPassed"] == 0 and run["testFailed"] == 1
print("OK")
