"""Which scenario can a version of the framework not have, and why? Asserted in every environment, never skipped.

A scenario that needs a feature runs wherever the feature is due. Where it is not, the test asserts that the feature is
really absent, so that this table cannot hide a scenario that could run.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest


def version_of(package: str) -> tuple[int, ...]:
    """The installed version of a package; the lowest there is if it is not installed."""
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        return (0,)
    return tuple(int(part) for part in found.split(".")[:3] if part.isdigit())


WORKFLOWS_2 = version_of("llama-index-workflows") >= (2,)
"""Whether a step that waits for a person is run again from its beginning, and failures have events of their own."""
