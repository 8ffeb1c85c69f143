"""The LLM judge: a language model that answers the questions which code cannot decide."""

from toolgrade.judge.cache import Cache, MemoryCache, SqliteCache
from toolgrade.judge.calibration import Agreement, Label, calibrate
from toolgrade.judge.cost import CostEstimate, Price
from toolgrade.judge.judge import Judge, JudgeLike, PromptResult
from toolgrade.judge.models import run_isolated
from toolgrade.judge.openai.batch import BatchOptions
from toolgrade.judge.protocol import (
    DeepEvalModel,
    ImagePart,
    JudgeFunction,
    Message,
    Prompt,
    Reply,
    TextModel,
)

__all__ = [
    "Agreement",
    "BatchOptions",
    "Cache",
    "CostEstimate",
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
    "Reply",
    "SqliteCache",
    "TextModel",
    "calibrate",
    "run_isolated",
]
