"""The names of `deepeval.simulator`, which toolgrade has nothing for."""

from __future__ import annotations

from toolgrade.compat.deepeval._absent import Getter, getter

__getattr__: Getter = getter(__name__, "default_simulation_node")
