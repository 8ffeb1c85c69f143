from deepeval.errors import MissingTestCaseParamsError
from deepeval.metrics import ArgumentCorrectnessMetric, ToolCorrectnessMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, ToolCall


class Unused(DeepEvalBaseLLM):
    def __init__(self):
        pass

    def load_model(self):
        return self

    def generate(self, prompt, schema=None):
        raise RuntimeError("a judge that is never asked")

    async def a_generate(self, prompt, schema=None):
        raise RuntimeError("a judge that is never asked")

    def get_model_name(self):
        return "unused"


def raises(kind, function):
    try:
        function()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")


no_expected = LLMTestCase(input="hi", actual_output="hello", tools_called=[ToolCall(name="a")])
metric = ToolCorrectnessMetric()
text = raises(MissingTestCaseParamsError, lambda: metric.measure(no_expected))
assert "expected_tools" in text
assert metric.error

no_called = LLMTestCase(input="hi", actual_output="hello", expected_tools=[ToolCall(name="a")])
text = raises(MissingTestCaseParamsError, lambda: ToolCorrectnessMetric().measure(no_called))
assert "tools_called" in text

text = raises(MissingTestCaseParamsError, lambda: ArgumentCorrectnessMetric(model=Unused()).measure(no_called))
assert "tools_called" in text

# a new metric is not touched by the error of another
metric = ToolCorrectnessMetric()
metric.measure(LLMTestCase(input="hi", actual_output="hello", tools_called=[ToolCall(name="a")], expected_tools=[ToolCall(name="a")]))
assert metric.score == 1.0 and metric.error is None and metric.is_successful()
print("OK")
