"""Thin layers that speak other libraries' names and defaults over toolmark's core: one module per library."""

from __future__ import annotations
