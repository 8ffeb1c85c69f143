# real: deepeval test run
import pytest

from deepeval import assert_test
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall
from deepeval.tracing import observe, update_current_trace

dataset = EvaluationDataset(
    goldens=[
        Golden(input="water the roses", expected_tools=[ToolCall(name="irrigate")]),
        Golden(input="cut the grass", expected_tools=[ToolCall(name="mow"), ToolCall(name="irrigate")]),
    ]
)


@observe(type="tool")
def irrigate(bed):
    return f"{bed} watered"


@observe(type="tool")
def mow():
    return "mown"


@observe(type="agent", available_tools=["irrigate", "mow"])
def gardener(task: str) -> str:
    called = []
    if "water" in task:
        irrigate("roses")
        called.append(ToolCall(name="irrigate"))
    else:
        mow()
        called.append(ToolCall(name="mow"))
    answer = "finished"
    update_current_trace(input=task, output=answer, tools_called=called)
    return answer


@pytest.mark.parametrize("golden", dataset.goldens)
def test_gardener(golden: Golden):
    gardener(golden.input)
    assert_test(golden=golden, metrics=[ToolCorrectnessMetric(threshold=0.5)])


def test_a_failure():
    golden = Golden(input="cut the grass", expected_tools=[ToolCall(name="mow"), ToolCall(name="irrigate")])
    gardener(golden.input)
    with pytest.raises(AssertionError):
        assert_test(golden=golden, metrics=[ToolCorrectnessMetric(threshold=0.9)])
