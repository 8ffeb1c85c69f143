"""The names of `deepeval.synthesizer`, which toolgrade has nothing for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolgrade.compat.deepeval import _absent

__getattr__: Callable[[str], Any] = _absent.getter(__name__, "Evolution PromptEvolution Synthesizer")
