"""Reports in a terminal."""

from toolgrade.report.terminal.comparison_table import print_comparison
from toolgrade.report.terminal.results import print_report, print_result

__all__ = ["print_comparison", "print_report", "print_result"]
