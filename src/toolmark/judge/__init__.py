"""The judge: a language model that is asked what code cannot decide. It is asked only where a metric was given one."""

from toolmark.errors import JudgeError, JudgeOutcome
from toolmark.judge.cache import Cache, MemoryCache, SqliteCache
from toolmark.judge.calibration import Agreement, Estimate, Label, calibrate
from toolmark.judge.cost import CostEstimate
from toolmark.judge.isolated_context import apart
from toolmark.judge.judge import Judge, JudgeLike
from toolmark.judge.outcome import Answered
from toolmark.judge.prices import Price, Prices, add_usage, cost_of
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
    cache_key,
)

__all__ = [
    "Agreement",
    "Answer",
    "Answered",
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
    "Prices",
    "Prompt",
    "Question",
    "Reply",
    "SqliteCache",
    "TextModel",
    "Verdict",
    "add_usage",
    "apart",
    "cache_key",
    "calibrate",
    "cost_of",
]
