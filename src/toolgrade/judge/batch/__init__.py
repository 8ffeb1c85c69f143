"""Judging over OpenAI's Batch API: submit, poll, collect."""

from toolgrade.judge.batch.api import Batch, BatchState

__all__ = ["Batch", "BatchState"]
