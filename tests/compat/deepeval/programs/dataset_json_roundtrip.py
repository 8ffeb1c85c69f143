import json
from pathlib import Path

from deepeval import evaluate
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

Path("goldens.json").write_text(
    json.dumps(
        [
            {
                "input": "dim the hall", "expected_output": "dimmed", "context": ["house rules"],
                "expected_tools": [{"name": "dimmer", "input_parameters": {"room": "hall", "level": 30}}],
                "additional_metadata": {"room": "hall"}, "comments": "c1", "name": "n1",
            },
            {
                "input": "is the stove off?",
                "tools_called": [{"name": "stove"}],
                "expected_tools": [{"name": "stove", "inputParameters": {"check": True}}],
            },
        ]
    ),
    encoding="utf-8",
)
dataset = EvaluationDataset()
dataset.add_goldens_from_json_file(file_path="goldens.json")
assert len(dataset.goldens) == 2
first, second = dataset.goldens
assert first.expected_tools[0].input_parameters == {"room": "hall", "level": 30}
assert first.additional_metadata == {"room": "hall"} and first.name == "n1" and first.comments == "c1"
assert first.context == ["house rules"] and first.expected_output == "dimmed"
assert second.expected_tools[0].input_parameters == {"check": True}
assert second.tools_called[0].name == "stove"

path = dataset.save_as(file_type="json", directory="saved", file_name="copy")
assert Path("saved/copy.json").exists()
assert path is None or Path(path).name == "copy.json"
again = EvaluationDataset()
again.add_goldens_from_json_file("saved/copy.json")
assert [g.input for g in again.goldens] == [g.input for g in dataset.goldens]
assert [g.expected_tools for g in again.goldens] == [g.expected_tools for g in dataset.goldens]
assert again.goldens[0].additional_metadata == {"room": "hall"}

# other key names
Path("other.json").write_text(json.dumps([{"query": "q1", "tools": [{"name": "t"}], "gold": "g"}]), encoding="utf-8")
renamed = EvaluationDataset()
renamed.add_goldens_from_json_file("other.json", input_key_name="query", expected_tools_key_name="tools", expected_output_key_name="gold")
assert renamed.goldens[0].input == "q1" and renamed.goldens[0].expected_output == "g"
assert renamed.goldens[0].expected_tools == [ToolCall(name="t")]

for name, error in (("absent.json", FileNotFoundError), ("broken.json", ValueError)):
    if name == "broken.json":
        Path(name).write_text("[{", encoding="utf-8")
    try:
        EvaluationDataset().add_goldens_from_json_file(name)
    except error:
        pass
    else:
        raise AssertionError(name)

for golden in again.goldens:
    again.add_test_case(LLMTestCase(input=golden.input, actual_output="a", tools_called=[ToolCall(name="stove")], expected_tools=golden.expected_tools))
result = evaluate(again.test_cases, [ToolCorrectnessMetric()])
assert sorted(r.success for r in result.test_results) == [False, True]
print("OK")
