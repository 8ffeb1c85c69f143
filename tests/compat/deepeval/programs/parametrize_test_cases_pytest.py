import pytest

from deepeval import assert_test
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

ROUTES = {
    "Renew my library card": ["find_member", "renew_card"],
    "Which books are overdue?": ["find_member", "list_loans"],
}


def librarian(question: str):
    return "done", [ToolCall(name=name) for name in ROUTES[question]]


dataset = EvaluationDataset(
    goldens=[
        Golden(input="Renew my library card", expected_tools=[ToolCall(name="renew_card")]),
        Golden(input="Which books are overdue?", expected_tools=[ToolCall(name="list_loans"), ToolCall(name="find_member")]),
    ]
)
for golden in dataset.goldens:
    answer, called = librarian(golden.input)
    dataset.add_test_case(
        LLMTestCase(input=golden.input, actual_output=answer, tools_called=called, expected_tools=golden.expected_tools)
    )


@pytest.mark.parametrize("test_case", dataset.test_cases)
def test_librarian(test_case: LLMTestCase):
    assert_test(test_case, [ToolCorrectnessMetric(threshold=1.0)])


@pytest.mark.parametrize("test_case", dataset.test_cases, ids=lambda case: case.input[:5])
def test_order(test_case: LLMTestCase):
    metric = ToolCorrectnessMetric(should_consider_ordering=True, threshold=0.5)
    assert_test(test_case=test_case, metrics=[metric], run_async=False)


def test_failure_is_an_assertion():
    with pytest.raises(AssertionError, match="Tool Correctness"):
        assert_test(dataset.test_cases[0], [ToolCorrectnessMetric(should_exact_match=True)])


def test_the_dataset():
    assert len(dataset.test_cases) == len(dataset.goldens) == 2
