"""Make the test helpers importable and exempt third-party warnings from the error filter."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]  # the helpers here, and `feature_table`

FRAMEWORK_WARNINGS = [
    # Its own fields, on newer releases of pydantic than it was made for.
    "ignore:The 'validate_default' attribute",
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
    # LlamaIndex repeats this warning on every resumed run whose context it cannot serialize.
    "ignore:Skipping (de)?serialization of known unserializable key",
    # What the framework calls inside its own steps, and deprecates.
    "ignore:is_running called from within a step:DeprecationWarning",
    # The first releases of workflows build what they deprecate.
    "ignore::DeprecationWarning:workflows.*",
    # Old workflows leave futures and streams behind when a run is cancelled.
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:coroutine .* was never awaited:RuntimeWarning",
]


def pytest_configure(config: pytest.Config) -> None:
    """Adds the exceptions to the rule that every warning is an error."""
    for line in FRAMEWORK_WARNINGS:
        config.addinivalue_line("filterwarnings", line)
