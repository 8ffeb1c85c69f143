"""Judges behind OpenAI's API."""

from toolgrade.judge.openai.models import OpenAIDecisions, OpenAIJudge, judge_from_environment

__all__ = ["OpenAIDecisions", "OpenAIJudge", "judge_from_environment"]
