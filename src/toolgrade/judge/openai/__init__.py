"""Judges behind OpenAI's API."""

from toolgrade.judge.openai.models import OpenAIJudge

__all__ = ["OpenAIJudge"]
