"""The judge: a language model that is asked what code cannot decide. It is asked only where a metric was given one."""

from toolmark.errors import JudgeError, JudgeOutcome
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

__all__ = [
    "Answer",
    "Answers",
    "Decision",
    "DecisionModel",
    "ImagePart",
    "JudgeError",
    "JudgeFunction",
    "JudgeOutcome",
    "Message",
    "Price",
    "Prices",
    "Prompt",
    "Question",
    "Reply",
    "TextModel",
    "Verdict",
    "add_usage",
    "cache_key",
    "cost_of",
]
