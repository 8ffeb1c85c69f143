"""The names of `deepeval.prompt`, which toolgrade has nothing for."""

from __future__ import annotations

from toolgrade.compat.deepeval._absent import Getter, getter

__getattr__: Getter = getter(__name__)
