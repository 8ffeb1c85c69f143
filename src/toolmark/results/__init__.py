"""Results in files: written while an evaluation runs, gone on with after it was killed, and read back as they were."""

from toolmark.results._columns import Row, laid_out
from toolmark.results._file import Evaluated, Joining, ResultsFile, placeless_text
from toolmark.results._lines import Header
from toolmark.results._read import read_results, report_of

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
