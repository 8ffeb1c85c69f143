"""Errors and warnings of toolgrade.

```
ToolgradeError                         catch this to catch all of them
├── InvalidDataError (ValueError)      a value cannot be a call, a case or a record
│   └── DataFileError                  the same for a file: every bad line at once
├── ConfigurationError (ValueError)    an option is out of range or contradicts another
├── LimitError                         checking a case needs more steps or time than it may take
├── MissingFieldError                  a case lacks a field that the metric needs
├── NotMeasuredError                   a score was read where none was measured
├── ReplayError                        a recording that is replayed has no answer for a call
├── NothingRecordedError (LookupError) a run was asked for where none was recorded
├── MetricAssertionError (AssertionError) `assert_test` found a metric that did not pass
├── MissingPackageError (ImportError)  an option needs a package that is not installed
├── WorkerDiedError (RuntimeError)     a worker process ended before it had scored its part
└── JudgeError                         a judge gave no answer; `outcome` is the reason

ToolgradeWarning (UserWarning)         data was read only in part; the message names what
└── BadLineWarning                     a line of a file cannot be read; its case is not measured
```

Every message names the value at fault, what is accepted, and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

__all__ = [
    "BadLineWarning",
    "ConfigurationError",
    "DataFileError",
    "InvalidDataError",
    "JudgeError",
    "LimitError",
    "MetricAssertionError",
    "MissingFieldError",
    "MissingPackageError",
    "NotMeasuredError",
    "NothingRecordedError",
    "Problem",
    "ReplayError",
    "ToolgradeError",
    "ToolgradeWarning",
    "WorkerDiedError",
]


class ToolgradeError(Exception):
    """Base class of all errors that toolgrade raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One error in the data, with its place.

    Attributes:
        path: JSON path, e.g. `$.tools_called[0].name`; `$` is the whole value, and `""` a file that is not JSON.
        message: What is wrong, and what is accepted.
        line: Line of the file, counted from 1; `None` without a file.

    Example:
        >>> from toolgrade import InvalidDataError, LLMTestCase
        >>> try:
        ...     LLMTestCase.from_json('{"tools_called": [{"name": "get_weather", "argumens": {}}]}')
        ... except InvalidDataError as error:
        ...     problem = error.problems[0]
        >>> print(problem.path, problem.message)
        $.tools_called[0].argumens unknown field 'argumens'; remove it, or put it into `metadata` of the case
    """

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        """Return `path: message`."""
        return f"{self.path}: {self.message}"


class InvalidDataError(ToolgradeError, ValueError):
    """A value is not a valid call, case or record.

    Attributes:
        problems: Every problem with its path; may be empty if the message is complete.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        """Store the message and its problems."""
        super().__init__(message)
        self.problems: tuple[Problem, ...] = tuple(problems)

    @classmethod
    def of(cls, message: str) -> Self:
        """Return the error of a whole value: one problem, at `$`."""
        return cls(message, [Problem("$", message)])

    def __reduce__(self) -> tuple[type[InvalidDataError], tuple[str, tuple[Problem, ...]]]:
        """Pickle the problems with the message."""
        return type(self), (str(self), self.problems)


class DataFileError(InvalidDataError):
    """Lines of a file cannot be read; `problems` has all of them with their line numbers."""


class ConfigurationError(ToolgradeError, ValueError):
    """An option is out of range, of the wrong type, or contradicts another."""


class LimitError(ToolgradeError):
    """Checking a case needs more steps, or more time in regular expressions, than it may take; it is not measured."""


class MissingFieldError(ToolgradeError):
    """A case lacks a field that the metric needs. `[]` means none; a field that was left out means unknown."""


class MissingExpectationError(MissingFieldError):
    """A case does not state what the metric compares with, such as `expected_tools`. Internal: catch its base class."""


class NotMeasuredError(ToolgradeError):
    """A score was read, but nothing was measured in this thread or task, or the result has no score."""


class ReplayError(ToolgradeError):
    """A tool was called while a recording is replayed, and the recording has no answer; the tool did not run."""


class NothingRecordedError(ToolgradeError, LookupError):
    """A recorder has no run; the message names the likely reason."""


class MetricAssertionError(ToolgradeError, AssertionError):
    """At least one metric of `assert_test` did not pass; the message holds the reasons.

    Attributes:
        report: The `Report` of what was measured; `None` if something else raised the error.
    """

    def __init__(self, message: str, report: object = None) -> None:
        """Store the message and the report."""
        super().__init__(message)
        self.report = report


class MissingPackageError(ToolgradeError, ImportError):
    """An option needs a package that is not installed; the message has the command that installs it."""

    @classmethod
    def of(cls, package: str, purpose: str, *, module: str | None = None) -> MissingPackageError:
        """Return the error for a package that `purpose` needs, whose module may have another name."""
        message = f"{purpose} needs the package {package!r}, which is not installed: pip install {package}"
        return cls(message, name=module or package)


class WorkerDiedError(ToolgradeError, RuntimeError):
    """A worker process ended before it had scored its part of the cases; the results of other workers are kept."""


class JudgeOutcome(str, Enum):
    """Outcome of one question to a judge. Only `ok` has a verdict; no other outcome is ever a score.

    Example:
        >>> from toolgrade.errors import JudgeOutcome
        >>> JudgeOutcome("timeout") is JudgeOutcome.TIMEOUT
        True
    """

    OK = "ok"
    REFUSAL = "refusal"
    """The model declined to answer."""
    CONTENT_FILTER = "content_filter"
    """The provider withheld the answer."""
    TRUNCATED = "truncated"
    """The answer was truncated at a token limit."""
    MALFORMED = "malformed"
    """The answer does not fit the schema, or refers to calls or tools that were not in the prompt; or the endpoint
    rejected the request as malformed, e.g. as too long for the model."""
    TIMEOUT = "timeout"
    """No answer within the time allowed."""
    TRANSIENT = "transient"
    """A temporary failure: overload, a lost connection, an exception in the judge's own code."""
    FATAL = "fatal"
    """A permanent failure: key, quota, an unknown model. No further questions are sent."""
    ABORTED = "aborted"
    """Not sent, because an earlier question had a fatal outcome."""


class JudgeError(ToolgradeError):
    """A judge gave no answer. Judge models raise it; toolgrade stores its `outcome` with the question, never a score.

    Attributes:
        outcome: The reason; never `ok`.
        usage: Tokens used by the failed attempts, by name; see `toolgrade.judge.Reply`.
        attempts: Requests that were sent.
    """

    def __init__(
        self, message: str, outcome: JudgeOutcome, *, usage: Mapping[str, int] | None = None, attempts: int = 0
    ) -> None:
        """Store the message, the outcome and what the attempts cost."""
        super().__init__(message)
        self.outcome: JudgeOutcome = JudgeOutcome(outcome)
        self.usage: Mapping[str, int] = MappingProxyType(dict(usage or {}))
        self.attempts = attempts

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all attributes with the message."""
        return _judge_error, (str(self), self.outcome, dict(self.usage), self.attempts)


def _judge_error(message: str, outcome: JudgeOutcome, usage: dict[str, int], attempts: int) -> JudgeError:
    return JudgeError(message, outcome, usage=usage, attempts=attempts)


class ToolgradeWarning(UserWarning):
    """Data was read only in part; the message says which data, where, and what toolgrade did with it."""


class BadLineWarning(ToolgradeWarning):
    """A line of a file cannot be read, such as one whose writer was killed; its case is not measured."""
