"""The LLM judge: a language model that answers the questions which code cannot decide."""

from toolmark.errors import JudgeError, JudgeOutcome
from toolmark.judge.cache import Cache, MemoryCache, SqliteCache
from toolmark.judge.calibration import Agreement, Estimate, Label, calibrate
from toolmark.judge.cost import CostEstimate, Price
from toolmark.judge.isolation import run_isolated
from toolmark.judge.judge import Judge, JudgeLike, PromptResult
from toolmark.judge.protocol import (
    Answer,
    Answers,
    Decision,
    DecisionModel,
    ImagePart,
    JudgeFunction,
    Message,
    Prompt,
    Question,
    Reply,
    TextModel,
    Verdict,
)

__all__ = [
    "Agreement",
    "Answer",
    "Answers",
    "Cache",
    "CostEstimate",
    "Decision",
    "DecisionModel",
    "Estimate",
    "ImagePart",
    "Judge",
    "JudgeError",
    "JudgeFunction",
    "JudgeLike",
    "JudgeOutcome",
    "Label",
    "MemoryCache",
    "Message",
    "Price",
    "Prompt",
    "PromptResult",
    "Question",
    "Reply",
    "SqliteCache",
    "TextModel",
    "Verdict",
    "calibrate",
    "run_isolated",
]
