"""Everything toolmark raises or warns with.

```
ToolmarkError                     catch this to catch all of them
├── InvalidDataError (ValueError)     a value cannot be a call, a case or a record
│   └── DataFileError                 the same for a file: every bad line at once
├── ConfigurationError (ValueError)   an option is out of range or contradicts another
├── MissingFieldError                 a case lacks a field that the metric needs
├── NotMeasuredError                  a score was read where none was measured
├── NothingRecordedError (LookupError)      a run was asked for where none was recorded
├── MissingPackageError (ImportError)       an option needs a package that is not installed
├── WorkerDiedError (RuntimeError)    a process that scored a part of the input ended early
├── NotSentError                      what was to be sent was not, or not all of it
├── JudgeError                        a judge gave no answer; `outcome` says why
└── MetricAssertionError (AssertionError)   `assert_test` found a metric that did not pass

ToolmarkWarning (UserWarning)     something was understood only in part; the text says what
└── TornLineWarning                   the end of a file is cut off; one case of it could not be read
```

Every message names the culprit (`!r` around values), says what is accepted, and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    """`assert_test` found at least one metric that did not pass; the message holds the reasons.

    Attributes:
        report: The `Report` of what was measured; `None` where the error was raised by something else.
    """

    def __init__(self, message: str, report: object = None) -> None:
        """Keep the message, and what it is about."""
        super().__init__(message)
        self.report = report


class MissingPackageError(ToolmarkError, ImportError):
    """An option needs a package that is not installed; the text has the line that installs it."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingPackageError:
        """Return the error for a package that an extra of toolmark brings, and that `purpose` needs."""
        message = f"{purpose} needs the package {package!r}, which is not installed: pip install 'toolmark[{extra}]'"
        return cls(message, name=package)


class WorkerDiedError(ToolmarkError, RuntimeError):
    """A process that scored a part of the input ended before it was done; what others have done is kept."""


class NotSentError(ToolmarkError):
    """What was to be sent to a collector was not, or not all of it; the text says how much, and why."""


class JudgeOutcome(str, Enum):
    """What became of one question to a judge. Only `ok` has a verdict; nothing else is ever a score."""

    OK = "ok"
    REFUSAL = "refusal"
    """The model declined to answer."""
    CONTENT_FILTER = "content_filter"
    """The provider withheld the answer."""
    TRUNCATED = "truncated"
    """The answer was cut off at a limit of tokens."""
    MALFORMED = "malformed"
    """The answer does not have the form that was asked for, or names what it was not shown; or the endpoint took the
    question for malformed, such as one that is too long for the model."""
    TIMEOUT = "timeout"
    """No answer within the time allowed."""
    TRANSIENT = "transient"
    """A fault that may be gone next time: overload, a lost connection, an exception of the judge's own code."""
    FATAL = "fatal"
    """A fault that will stay: key, quota, an unknown model. No further questions are asked."""
    BUDGET = "budget"
    """A limit on tokens or money was reached before it was asked."""
    ABORTED = "aborted"
    """Not asked, since something before it was fatal."""


class JudgeError(ToolmarkError):
    """A judge gave no answer. Models raise it to say what happened; it becomes an outcome, never a score.

    Attributes:
        outcome: What happened; anything but `ok`.
        usage: Tokens that the failed attempts used, by name; see `toolmark.judge.Reply`.
        attempts: Requests that were sent.
    """

    def __init__(
        self, message: str, outcome: JudgeOutcome, *, usage: Mapping[str, int] | None = None, attempts: int = 0
    ) -> None:
        """Keep what happened and what it cost."""
        super().__init__(message)
        self.outcome: JudgeOutcome = JudgeOutcome(outcome)
        self.usage: Mapping[str, int] = MappingProxyType(dict(usage or {}))
        self.attempts = attempts

    def __reduce__(self) -> tuple[object, ...]:
        """Keep what happened when the error crosses a process boundary."""
        return _judge_error, (str(self), self.outcome, dict(self.usage), self.attempts)


def _judge_error(message: str, outcome: JudgeOutcome, usage: dict[str, int], attempts: int) -> JudgeError:
    return JudgeError(message, outcome, usage=usage, attempts=attempts)


class ToolmarkWarning(UserWarning):
    """Something was understood only in part; the text says what, where, and what became of it."""


class TornLineWarning(ToolmarkWarning):
    """A line of a file is cut off, since whoever wrote it was stopped; its case could not be read."""
