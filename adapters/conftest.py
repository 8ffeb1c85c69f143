"""Puts the adapters' tests under the rules of the core's: see `tests/conftest.py`."""

import runpy
from pathlib import Path

pytest_collection_finish = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "conftest.py"))[
    "pytest_collection_finish"
]
