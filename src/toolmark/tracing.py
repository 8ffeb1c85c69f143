"""`@observe` under DeepEval's import path: `from toolmark.tracing import observe`."""

from __future__ import annotations

from toolmark.capture.observation.decorator import observe, update_current_span

__all__ = ["observe", "update_current_span"]
