"""Files of results: written while an evaluation runs, resumed after it was stopped, and read back."""

from toolgrade.results.reader import read_results

__all__ = ["read_results"]
