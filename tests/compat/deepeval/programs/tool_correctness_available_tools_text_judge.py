import json

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.models.base_model import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, ToolCall


class TextJudge(DeepEvalBaseLLM):
    def __init__(self, score):
        self.score = score

    def load_model(self):
        return None

    def generate(self, prompt: str) -> str:
        good = self.score >= 1
        if "cannot_tell" in str(prompt):
            answer = {"evidence": ["m1"], "reasoning": "as scripted", "missing": [] if good else ["t1"], "verdict": "yes" if good else "no"}
            return json.dumps({key: answer[key] for key in answer if f'"{key}"' in str(prompt)})
        return json.dumps(
            {
                "evidence": ["m1"],
                "reasoning": "as scripted",
                "verdict": "yes" if good else "no",
                "missing": [],
                "score": self.score,
                "reason": "as scripted",
                "verdicts": [{"verdict": "yes" if good else "no", "reason": "as scripted"}],
            }
        )

    async def a_generate(self, prompt: str) -> str:
        return self.generate(prompt)

    def get_model_name(self):
        return "Text judge"


case = LLMTestCase(
    input="Which trains run to Basel tonight?",
    actual_output="The 21:04.",
    tools_called=[ToolCall(name="timetable")],
    expected_tools=[ToolCall(name="timetable")],
)
tools = [ToolCall(name="timetable", description="departures"), ToolCall(name="fares", description="prices")]

happy = ToolCorrectnessMetric(available_tools=tools, model=TextJudge(1))
happy.measure(case)
assert happy.score == 1.0

unhappy = ToolCorrectnessMetric(available_tools=tools, model=TextJudge(0), async_mode=False)
assert unhappy.measure(case) == 0.0
assert unhappy.success is False
print("OK")
