import typing

from pydantic import BaseModel

from deepeval import evaluate
from deepeval.metrics import ArgumentCorrectnessMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, ToolCall


def generic(kind, name=""):
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None and issubclass(kind, BaseModel):
        return kind.model_validate({key: generic(field.annotation, key) for key, field in kind.model_fields.items()})
    if origin in (list, tuple):
        return [] if name == "missing" else [generic(arguments[0] if arguments else str, name)]
    if origin is typing.Literal:
        return next((a for a in arguments if getattr(a, "value", a) == "yes"), arguments[0])
    if origin is not None and type(None) in arguments:
        return generic(next(a for a in arguments if a is not type(None)), name)
    if kind in (int, float):
        return 1
    if kind is bool:
        return True
    return {"verdict": "yes", "evidence": "m1"}.get(name, "because")


class SchemaJudge(DeepEvalBaseLLM):
    def __init__(self):
        self.asked = 0

    def load_model(self):
        return self

    def generate(self, prompt: str, schema: BaseModel = None):
        self.asked += 1
        if schema is None and "cannot_tell" in str(prompt):
            return '{"evidence": ["m1"], "reasoning": "ok", "verdict": "yes"}'
        if schema is None:
            return '{"score": 1, "reason": "ok", "verdicts": [{"verdict": "yes"}]}'
        return generic(schema)

    async def a_generate(self, prompt: str, schema: BaseModel = None):
        return self.generate(prompt, schema)

    def get_model_name(self):
        return "schema judge"


judge = SchemaJudge()
case = LLMTestCase(
    input="What did the euro cost in dollars on 3 May 2021?",
    actual_output="1.2066",
    tools_called=[ToolCall(name="exchange_rate", description="A rate of a day", input_parameters={"base": "EUR", "quote": "USD", "day": "2021-05-03"})],
)
metric = ArgumentCorrectnessMetric(threshold=0.7, model=judge, include_reason=True)
metric.measure(case)
assert metric.score == 1.0
assert metric.success is True
assert judge.asked >= 1

result = evaluate(test_cases=[case], metrics=[ArgumentCorrectnessMetric(threshold=0.7, model=judge)])
data = result.test_results[0].metrics_data[0]
assert data.name == "Argument Correctness"
assert data.score == 1.0 and data.success and data.threshold == 0.7
assert data.evaluation_model == "schema judge"
print("OK")
