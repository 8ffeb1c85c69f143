"""Checks of the expectations of cases and goldens, before anything is scored.

docs/expectations.md lists the kinds of findings and the limits.
"""

from __future__ import annotations

from toolgrade.linting.run import lint

__all__ = ["lint"]
