"""Fuzzing of every reader: random inputs that resemble valid ones, and what must hold of each."""

import sys
from pathlib import Path

# The mutators, the hostile values and the seeds are those of the tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
