"""Judging over OpenAI's Batch API: submit, poll, collect."""

from toolmark.judge.batch.api import Batch, BatchState

__all__ = ["Batch", "BatchState"]
