"""The LLM judge: a language model that answers the questions which code cannot decide."""

from toolgrade.judge.calibration import Label, calibrate
from toolgrade.judge.judge import Judge
from toolgrade.judge.models import run_isolated
from toolgrade.judge.openai.batch import BatchOptions
from toolgrade.judge.protocol import ImagePart, Message, Prompt, Reply, TextModel

__all__ = [
    "BatchOptions",
    "ImagePart",
    "Judge",
    "Label",
    "Message",
    "Prompt",
    "Reply",
    "TextModel",
    "calibrate",
    "run_isolated",
]
