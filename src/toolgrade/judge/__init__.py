"""The LLM judge: a language model that answers the questions which code cannot decide."""

from toolgrade.judge.calibration import Label, calibrate
from toolgrade.judge.cost import Price
from toolgrade.judge.judge import Judge, JudgeLike
from toolgrade.judge.models import run_isolated
from toolgrade.judge.openai.batch import BatchOptions
from toolgrade.judge.protocol import ImagePart, Message, Prompt, Reply, TextModel

__all__ = [
    "BatchOptions",
    "ImagePart",
    "Judge",
    "JudgeLike",
    "Label",
    "Message",
    "Price",
    "Prompt",
    "Reply",
    "TextModel",
    "calibrate",
    "run_isolated",
]
