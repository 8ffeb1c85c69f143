"""Exempts the frameworks' own warnings from the error filter, as in the adapters' tests."""

import runpy

import pytest

from parity.players import FRAMEWORKS, is_complete
from processes import ROOT


def pytest_configure(config: pytest.Config) -> None:
    """Adds the adapters' exceptions to the rule that every warning is an error."""
    for adapter in FRAMEWORKS.values() if is_complete() else ():
        names = runpy.run_path(str(ROOT / "adapters" / adapter / "tests" / "conftest.py"))
        for line in names.get("FRAMEWORK_WARNINGS", ()):
            config.addinivalue_line("filterwarnings", line)
