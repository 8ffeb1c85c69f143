"""Helpers for the tests of engines: availability and startup.

An engine that is not there is left out, and pytest says so; one that is named in `TOOLGRADE_REQUIRE_ENGINES`, such as
`ray,spark`, must be there.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from processes import environment
from toolgrade.scale.engines import spark as _spark

#: Where processes of an engine find what the tests import.
PATHS = os.pathsep.join([environment()["PYTHONPATH"], str(Path(__file__).parent)])

PACKAGES = {"ray": "ray", "spark": "pyspark"}


def need(engine: str, package: str = "") -> None:
    """Skip a test if the engine or one of its packages is missing, or fail if it is required."""
    package, problem = package or PACKAGES[engine], ""
    if find_spec(package) is None:
        problem = f"{package}, of the extra `{engine}`, is not installed here"
    elif engine == "spark" and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        problem = "Spark needs Java, and there is none here"
    if problem and engine in os.environ.get("TOOLGRADE_REQUIRE_ENGINES", "").split(","):
        pytest.fail(f"TOOLGRADE_REQUIRE_ENGINES has {engine}, but {problem}")
    if problem:
        pytest.skip(problem)


@contextmanager
def started(engine: str) -> Generator[Any, None, None]:
    """Start an engine with two cores on this machine, as another program could have."""
    need(engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PATHS)
        if engine == "ray":
            # Ray stops a task by an interrupt, which its workers would ignore as a background job does.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            ray = import_module("ray")
            quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
            ray.init(address="local", num_cpus=2, **quiet)
            yield ray
            ray.shutdown()
        else:
            with _spark._session(import_module("pyspark.sql"), 2) as session:
                yield session
