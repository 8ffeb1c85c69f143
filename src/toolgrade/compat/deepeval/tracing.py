"""The names of `deepeval.tracing`."""

from __future__ import annotations

from toolgrade.capture.observation.decorator import observe, update_current_span

__all__ = ["observe", "update_current_span"]
