"""Judges behind OpenAI's API."""

from toolmark.judge.openai.models import OpenAIDecisions, OpenAIJudge, judge_from_environment

__all__ = ["OpenAIDecisions", "OpenAIJudge", "judge_from_environment"]
