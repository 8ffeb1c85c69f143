"""Adapters for runners whose packages are not installed; `with_*.py` has those that are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from toolgrade import ToolCorrectnessMetric
from toolgrade.compat.deepeval import to_deepeval
from toolgrade.compat.hosts import inspect, langfuse
from toolgrade.errors import MissingPackageError


@pytest.mark.parametrize(
    ("make", "module", "package"),
    [
        (inspect.scorer, "inspect_ai.scorer", "inspect-ai"),
        (langfuse.evaluator, "langfuse", "langfuse"),
        (to_deepeval, "deepeval.metrics", "deepeval"),
    ],
)
def test_the_package_must_be_installed(
    make: Callable[..., Any], module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says how, when the adapter is made."""
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingPackageError, match=f"pip install {package}") as raised:
        make(ToolCorrectnessMetric())
    assert raised.value.name == module.partition(".")[0]
