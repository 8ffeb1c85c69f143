"""Lets the tests import their helpers, and keeps the SDK from exporting traces."""

import sys
from pathlib import Path

from agents import set_trace_processors

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]  # the helpers here, and `feature_table`

set_trace_processors([])  # keep spans, but do not export them
