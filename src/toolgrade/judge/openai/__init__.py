"""Judges behind OpenAI's API."""

from toolgrade.judge.openai.models import OpenAIJudge, judge_from_environment

__all__ = ["OpenAIJudge", "judge_from_environment"]
