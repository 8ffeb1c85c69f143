"""The LLM judge: a language model that answers the questions which code cannot decide."""

from toolmark.judge.cache import Cache, MemoryCache, SqliteCache
from toolmark.judge.calibration import Agreement, Label, calibrate
from toolmark.judge.cost import CostEstimate, Price
from toolmark.judge.judge import Judge, JudgeLike, PromptResult
from toolmark.judge.models import run_isolated
from toolmark.judge.protocol import (
    Answer,
    Answers,
    DecisionModel,
    DeepEvalModel,
    ImagePart,
    JudgeFunction,
    Message,
    Prompt,
    Question,
    Reply,
    TextModel,
)

__all__ = [
    "Agreement",
    "Answer",
    "Answers",
    "Cache",
    "CostEstimate",
    "DecisionModel",
    "DeepEvalModel",
    "ImagePart",
    "Judge",
    "JudgeFunction",
    "JudgeLike",
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
    "calibrate",
    "run_isolated",
]
