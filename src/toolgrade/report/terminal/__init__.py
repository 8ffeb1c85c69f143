"""Reports in a terminal."""

from toolgrade.report.terminal.results import print_report

__all__ = ["print_report"]
