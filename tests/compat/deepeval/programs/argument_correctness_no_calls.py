from deepeval.metrics import ArgumentCorrectnessMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase


class Failing(DeepEvalBaseLLM):
    def load_model(self):
        return None

    def generate(self, prompt, schema=None):
        raise AssertionError("not asked")

    async def a_generate(self, prompt, schema=None):
        raise AssertionError("not asked")

    def get_model_name(self):
        return "failing"


metric = ArgumentCorrectnessMetric(model=Failing())
metric.measure(LLMTestCase(input="Good morning", actual_output="Good morning to you", tools_called=[]))
assert metric.score == 1.0
assert metric.success is True
assert metric.reason
print("OK")
