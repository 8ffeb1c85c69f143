"""Judging over OpenAI's Batch API: submit, poll, collect."""

from toolmark.judge.batch.api import Batch, BatchState
from toolmark.judge.batch.files import Lost, Shard

__all__ = ["Batch", "BatchState", "Lost", "Shard"]
