from pathlib import Path

from deepeval.dataset import EvaluationDataset, Golden
from deepeval.test_case import LLMTestCase, ToolCall

Path("lines.jsonl").write_text(
    '{"input": "a", "expected_tools": [{"name": "x", "inputParameters": {"n": 1}}], "context": ["c1", "c2"]}\n'
    "\n"
    '{"input": "b", "expected_output": "eb", "additional_metadata": {"k": [1, 2]}}\n',
    encoding="utf-8",
)
dataset = EvaluationDataset()
dataset.add_goldens_from_jsonl_file(file_path="lines.jsonl")
a, b = dataset.goldens
assert a.expected_tools == [ToolCall(name="x", input_parameters={"n": 1})]
assert a.context == ["c1", "c2"]
assert b.expected_output == "eb" and b.additional_metadata == {"k": [1, 2]}
assert not b.expected_tools

dataset.add_test_case(LLMTestCase(input="c", actual_output="ac", tools_called=[ToolCall(name="y")], expected_tools=[ToolCall(name="y")]))
dataset.save_as(file_type="jsonl", directory=".", file_name="with_cases", include_test_cases=True)
dataset.save_as(file_type="jsonl", directory=".", file_name="goldens_only")
assert len(Path("with_cases.jsonl").read_text().splitlines()) == 3
assert len(Path("goldens_only.jsonl").read_text().splitlines()) == 2

again = EvaluationDataset()
again.add_goldens_from_jsonl_file("with_cases.jsonl")
assert [g.input for g in again.goldens] == ["a", "b", "c"]
assert again.goldens[2].actual_output == "ac"
assert again.goldens[2].expected_tools == [ToolCall(name="y")]

Path("bad.jsonl").write_text('{"input": "a"}\nnot json\n', encoding="utf-8")
try:
    EvaluationDataset().add_goldens_from_jsonl_file("bad.jsonl")
except ValueError as error:
    assert "2" in str(error)
else:
    raise AssertionError("line 2 is no JSON")
try:
    dataset.save_as(file_type="xml", directory=".")
except ValueError:
    pass
else:
    raise AssertionError("no such file type")
print("OK")
