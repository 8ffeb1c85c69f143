"""Make the test helpers importable and exempt third-party warnings from the error filter."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]  # the helpers here, and `feature_table`

FRAMEWORK_WARNINGS = [
    # The oldest way to an agent is one of the cases; langgraph 1.x deprecates it without removing it.
    "ignore:create_react_agent has been moved:DeprecationWarning",
    "ignore:AgentStatePydantic has been moved:DeprecationWarning",
    "ignore:AgentState has been moved:DeprecationWarning",
    # LangChain silences it for its own assignments, which fails where threads change the filters at the same time.
    "ignore:Direct attribute assignment to ModelRequest:DeprecationWarning",
    # `astream_events` v1 is one of the cases.
    "ignore:astream_events version='v1' is deprecated",
    # langchain-core calls its own beta API inside `astream_events`.
    "ignore:The v3 .*protocol.* is experimental",
    "ignore::langchain_core._api.beta_decorator.LangChainBetaWarning",
    # Old releases of the framework on newer ones of their own dependencies, or on a newer Python.
    "ignore::PendingDeprecationWarning:langgraph.*",
    "ignore::PendingDeprecationWarning:langchain.*",
    "ignore:.*langsmith.*:UserWarning",
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
]


def pytest_configure(config: pytest.Config) -> None:
    """Adds the exceptions to the rule that every warning is an error."""
    for line in FRAMEWORK_WARNINGS:
        config.addinivalue_line("filterwarnings", line)
