"""What was found in a file of cases, and what was not looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, overload

from toolmark._internal.json import json_text
from toolmark._internal.text import plural, printable
from toolmark.errors import Problem


class LintKind(str, Enum):
    """What kind of thing is wrong."""

    UNREADABLE = "unreadable"
    """No JSON, no case, or no expectation."""
    DUPLICATE_ID = "duplicate_id"
    """An earlier case has the same id."""
    UNKNOWN_TOOL = "unknown_tool"
    """No available tool has such a name."""
    ARGUMENTS = "arguments"
    """Arguments that the schema of the tool does not take."""
    SCHEMA = "schema"
    """The schema of a tool cannot be used."""
    CONTRADICTION = "contradiction"
    """Something that can never score 1."""
    LITERAL_MATCHER = "literal_matcher"
    """What looks like a matcher, where it is taken for a value."""
    NO_EFFECT = "no_effect"
    """A matcher without a value, at a place where none stands."""
    ASKS_NOTHING = "asks_nothing"
    """A plan whose calls may all be left out."""
    SAME_ALTERNATIVE = "same_alternative"
    """An alternative that stands there twice."""


@dataclass(frozen=True)
class LintFinding:
    """One thing that is wrong.

    Attributes:
        kind: What kind of thing it is.
        path: JSON path in the line, or in the file where that is one array; `$` is the whole.
        message: What is wrong there.
        line: The line, from 1; `None` where cases are no lines.
    """

    kind: LintKind
    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        """Return `path: message`."""
        return f"{self.path}: {self.message}"

    @classmethod
    def unreadable(cls, problem: Problem) -> LintFinding:
        """Return the finding that something cannot be read."""
        return cls(LintKind.UNREADABLE, problem.path, problem.message, problem.line)

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        return {"line": self.line, "path": self.path, "kind": self.kind.value, "message": self.message}


@dataclass(frozen=True)
class LintReport(Sequence[LintFinding]):
    """The findings of a file, in its order: a sequence, which is empty if nothing is wrong.

    Attributes:
        source: The name of the file.
        findings: What is wrong.
        cases: How many cases the file has, those that cannot be read among them.
        without_expectation: Of how many nothing is expected, so that there was nothing to look at.
        without_tools: Of how many the tools are not known, so that names and arguments were not looked at.
    """

    source: str
    findings: tuple[LintFinding, ...] = ()
    cases: int = 0
    without_expectation: int = 0
    without_tools: int = 0

    @overload
    def __getitem__(self, index: int) -> LintFinding: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[LintFinding]: ...

    def __getitem__(self, index: int | slice) -> LintFinding | Sequence[LintFinding]:
        """Return findings by position."""
        return self.findings[index]

    def __len__(self) -> int:
        """Return how many findings there are."""
        return len(self.findings)

    def lines(self) -> Iterator[str]:
        """Yield each finding as `file:line: path: message [kind]`, with nothing in it that a terminal would obey."""
        for finding in self.findings:
            place = self.source if finding.line is None else f"{self.source}:{finding.line}"
            yield printable(f"{place}: {finding} [{finding.kind.value}]")

    def summary(self) -> str:
        """Return how much was found, and how much was not looked at."""
        parts = [f"{plural(len(self.findings), 'finding')} in {plural(self.cases, 'case')}"]
        if self.without_expectation:
            parts.append(f"{self.without_expectation} without expected_tools")
        if self.without_tools:
            parts.append(
                f"{self.without_tools} without available tools, so that names and arguments were not checked there"
            )
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        return {
            "source": self.source,
            "cases": self.cases,
            "without_expectation": self.without_expectation,
            "without_tools": self.without_tools,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict()` as JSON text."""
        return json_text(self.to_dict(), indent=indent)
