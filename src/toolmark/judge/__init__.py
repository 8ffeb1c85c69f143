"""The judge: a language model that is asked what code cannot decide. It is asked only where a metric was given one."""

from toolmark.errors import JudgeError, JudgeOutcome
from toolmark.judge._answered import Answered
from toolmark.judge._apart import apart
from toolmark.judge._calibrate import Agreement, Estimate, Label, calibrate
from toolmark.judge._cost import CostEstimate
from toolmark.judge._judge import Judge, JudgeLike
from toolmark.judge._prices import Price, Prices, add_usage, cost_of
from toolmark.judge._seams import (
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
from toolmark.judge.cache import Cache, MemoryCache, SqliteCache

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
