"""Fixtures of the support team: the agent under test, the judge, the data."""

import json
from pathlib import Path

import pytest

from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import ToolCall

from support_agent import SupportAgent

DATA = Path(__file__).parent / "data"


class OfflineJudge(DeepEvalBaseLLM):
    def __init__(self, verdict="yes"):
        self.verdict = verdict
        self.count = 0

    def load_model(self):
        return self

    def generate(self, prompt: str) -> str:
        self.count += 1
        good = self.verdict == "yes"
        if "cannot_tell" in str(prompt):
            reply = {"evidence": ["m1"], "reasoning": "scripted", "missing": [] if good else ["t1"], "verdict": self.verdict}
            return json.dumps({key: reply[key] for key in reply if f'"{key}"' in str(prompt)})
        return json.dumps(
            {
                "evidence": ["m1"], "reasoning": "scripted", "verdict": self.verdict, "missing": [],
                "score": int(good), "reason": "scripted", "verdicts": [{"verdict": self.verdict, "reason": "scripted"}],
            }
        )

    async def a_generate(self, prompt: str) -> str:
        return self.generate(prompt)

    def get_model_name(self) -> str:
        return "offline judge"


@pytest.fixture(scope="session")
def agent():
    return SupportAgent(prices={"lamp": 40, "desk": 210})


@pytest.fixture
def judge():
    return OfflineJudge()


@pytest.fixture
def harsh_judge():
    return OfflineJudge("no")


@pytest.fixture(scope="session")
def catalogue():
    rows = json.loads((DATA / "tools.json").read_text(encoding="utf-8"))
    return [ToolCall(**row) for row in rows]
