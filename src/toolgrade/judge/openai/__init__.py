"""Judges behind OpenAI's API."""

from toolgrade.judge.openai.client import OpenAIJudge

__all__ = ["OpenAIJudge"]
