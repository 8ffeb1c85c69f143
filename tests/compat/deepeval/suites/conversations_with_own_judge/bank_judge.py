import json
from typing import Optional, get_args, get_origin

from pydantic import BaseModel

from deepeval.models.base_model import DeepEvalBaseLLM


class BankJudge(DeepEvalBaseLLM):
    def __init__(self, mood: str = "good"):
        super().__init__(model="bank-judge")
        self.mood = mood
        self.asked = 0

    def load_model(self):
        return None

    def _plain(self):
        good = self.mood == "good"
        return {
            "evidence": ["m1"], "reasoning": "fits", "verdict": "yes" if good else "no", "missing": [] if good else ["t1"],
            "score": 1 if good else 0, "reason": "fits", "verdicts": [{"verdict": "yes" if good else "no", "reason": "fits"}],
        }

    def _fill(self, schema):
        known = self._plain()
        values = {}
        for key, field in schema.model_fields.items():
            kind = field.annotation
            if key in known:
                values[key] = known[key]
            elif get_origin(kind) is list:
                inner = (get_args(kind) or (str,))[0]
                values[key] = [self._fill(inner)] if isinstance(inner, type) and issubclass(inner, BaseModel) else []
            elif kind in (int, float):
                values[key] = known["score"]
            elif kind is bool:
                values[key] = self.mood == "good"
            else:
                values[key] = "because"
        return schema(**values)

    def generate(self, prompt: str, schema: Optional[BaseModel] = None):
        self.asked += 1
        if self.mood == "broken":
            raise TimeoutError("the judge does not answer")
        if schema is not None:
            return self._fill(schema)
        plain = self._plain()
        if "cannot_tell" in str(prompt):
            keys = ("evidence", "reasoning", "missing", "verdict")
            return json.dumps({key: plain[key] for key in keys if f'"{key}"' in str(prompt)})
        return json.dumps(plain)

    async def a_generate(self, prompt: str, schema: Optional[BaseModel] = None):
        return self.generate(prompt, schema)

    def get_model_name(self):
        return "bank-judge"
