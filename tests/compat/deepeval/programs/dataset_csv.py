import csv
import json
from pathlib import Path

from deepeval import evaluate
from deepeval.dataset import EvaluationDataset
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall

with open("goldens.csv", "w", newline="", encoding="utf-8") as file:
    writer = csv.writer(file)
    writer.writerow(["query", "expected_output", "context", "expected_tools"])
    writer.writerow(["rent a bike", "rented", "c1|c2", json.dumps([{"name": "rent", "input_parameters": {"kind": "bike"}}])])
    writer.writerow(["return a bike", "returned", "c3", json.dumps([{"name": "give_back"}, {"name": "bill"}])])

dataset = EvaluationDataset()
dataset.add_goldens_from_csv_file(file_path="goldens.csv", input_col_name="query")
assert [g.input for g in dataset.goldens] == ["rent a bike", "return a bike"]
assert dataset.goldens[0].context == ["c1", "c2"]

with open("cases.csv", "w", newline="", encoding="utf-8") as file:
    writer = csv.writer(file)
    writer.writerow(["question", "answer", "expected_output", "context"])
    writer.writerow(["q1", "a1", "e1", "x|y"])
    writer.writerow(["q2", "a2", "e2", "z"])
cases = EvaluationDataset()
cases.add_test_cases_from_csv_file(
    file_path="cases.csv", input_col_name="question", actual_output_col_name="answer", expected_output_col_name="expected_output",
    context_col_name="context", context_col_delimiter="|",
)
assert [c.input for c in cases.test_cases] == ["q1", "q2"]
assert cases.test_cases[0].context == ["x", "y"]
assert cases.test_cases[1].actual_output == "a2"

for case, called in zip(cases.test_cases, (["t"], [])):
    case.tools_called = [ToolCall(name=n) for n in called]
    case.expected_tools = [ToolCall(name="t")]
result = evaluate(test_cases=cases.test_cases, metrics=[ToolCorrectnessMetric()])
assert {r.input: r.success for r in result.test_results} == {"q1": True, "q2": False}

cases_out = EvaluationDataset(goldens=dataset.goldens)
cases_out.save_as(file_type="csv", directory="out", file_name="again")
assert Path("out/again.csv").exists()
back = EvaluationDataset()
back.add_goldens_from_csv_file("out/again.csv")
assert [g.input for g in back.goldens] == ["rent a bike", "return a bike"]
print("OK")
