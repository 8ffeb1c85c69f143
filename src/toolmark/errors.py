"""Everything toolmark raises or warns with.

```
ToolmarkError                     catch this to catch all of them
├── InvalidDataError (ValueError)     a value cannot be a call, a case or a record
│   └── DataFileError                 the same for a file: every bad line at once
├── ConfigurationError (ValueError)   an option is out of range or contradicts another
├── MissingFieldError                 a case lacks a field that the metric needs
├── NotMeasuredError                  a score was read where none was measured
├── NothingRecordedError (LookupError)      a run was asked for where none was recorded
└── MetricAssertionError (AssertionError)   `assert_test` found a metric that did not pass

ToolmarkWarning (UserWarning)     something was understood only in part; the text says what
└── TornLineWarning                   the end of a file is cut off; one case of it could not be read
```

Every message names the culprit (`!r` around values), says what is accepted, and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class ToolmarkError(Exception):
    """Root of all errors that toolmark raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one place of the data.

    Attributes:
        path: JSON path of the place, `$` being the whole value, e.g. `$.tools_called[0].name`.
        message: What is wrong there, and what is accepted.
        line: Line number in the file, counted from 1; `None` where there is no file.
    """

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        """Return `path: message`."""
        return f"{self.path}: {self.message}"


class InvalidDataError(ToolmarkError, ValueError):
    """A value cannot be read as what it was given as.

    Attributes:
        problems: Every problem found, each with its path; may be empty where the message says it all.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        """Keep the message and the problems it was made from."""
        super().__init__(message)
        self.problems: tuple[Problem, ...] = tuple(problems)

    def __reduce__(self) -> tuple[type[InvalidDataError], tuple[str, tuple[Problem, ...]]]:
        """Keep the problems when the error crosses a process boundary."""
        return type(self), (str(self), self.problems)


class DataFileError(InvalidDataError):
    """A file holds lines that cannot be read; `problems` has all of them with their line numbers."""


class ConfigurationError(ToolmarkError, ValueError):
    """An option is out of range, of the wrong type, or contradicts another."""


class MissingFieldError(ToolmarkError):
    """A case lacks a field that the metric needs; `[]` says "none", leaving it out says nothing."""


class NotMeasuredError(ToolmarkError):
    """A score was read where nothing was measured in this thread or task, or where the result has none."""


class NothingRecordedError(ToolmarkError, LookupError):
    """A run was asked of a recorder that has none; the text says what may be the reason."""


class MetricAssertionError(ToolmarkError, AssertionError):
    """`assert_test` found at least one metric that did not pass; the message holds the reasons."""


class ToolmarkWarning(UserWarning):
    """Something was understood only in part; the text says what, where, and what became of it."""


class TornLineWarning(ToolmarkWarning):
    """A line of a file is cut off, since whoever wrote it was stopped; its case could not be read."""
