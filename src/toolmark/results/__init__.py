"""Results in files: written while an evaluation runs, gone on with after it was killed, and read back as they were."""

from toolmark.results.jsonl import Header
from toolmark.results.layout import Row, laid_out
from toolmark.results.reader import read_results, report_of
from toolmark.results.writer import Evaluated, Joining, ResultsFile, placeless_text

__all__ = [
    "Evaluated",
    "Header",
    "Joining",
    "ResultsFile",
    "Row",
    "laid_out",
    "placeless_text",
    "read_results",
    "report_of",
]
