"""Judges behind OpenAI's API."""

from toolmark.judge.openai.models import OpenAIDecisions, OpenAIJudge, judge_from_environment
from toolmark.judge.openai.throttle import Spent

__all__ = ["OpenAIDecisions", "OpenAIJudge", "Spent", "judge_from_environment"]
