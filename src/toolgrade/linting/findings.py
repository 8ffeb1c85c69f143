"""Findings of the linter with their places in the file, and the report that lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, overload

from pydantic.alias_generators import to_camel

from toolgrade._internal.json import json_path, json_text
from toolgrade._internal.text import plural, printable
from toolgrade.errors import Problem


class LintKind(str, Enum):
    """The kind of a finding."""

    UNREADABLE = "unreadable"
    """Not JSON, not a case, or not an expectation."""
    DUPLICATE_ID = "duplicate_id"
    """An earlier case has the same id."""
    UNKNOWN_TOOL = "unknown_tool"
    """No available tool has this name."""
    ARGUMENTS = "arguments"
    """Arguments that the schema of the tool rejects."""
    SCHEMA = "schema"
    """The schema of a tool cannot be used."""
    CONTRADICTION = "contradiction"
    """An expectation that can never score 1."""
    LITERAL_MATCHER = "literal_matcher"
    """A value that looks like a matcher, where matchers are not read."""
    NO_EFFECT = "no_effect"
    """A matcher in `at` that has no value and finds none in `input_parameters` at its path, so that it does nothing."""
    ASKS_NOTHING = "asks_nothing"
    """An expectation that a run passes which does nothing: of optional calls, or of reads alone."""
    PLACEHOLDER = "placeholder"
    """A text such as `...`, `TODO` or `<user_id>` in the place of an expected value."""
    UNTRACED = "untraced"
    """An expected value that neither the task nor an output of the recording mentions."""
    FAILED_CALL = "failed_call"
    """An expected write that was called exactly so in the recording of the case, and failed each time."""
    SAME_ALTERNATIVE = "same_alternative"
    """An alternative, of a `one_of` or of whole plans, that is equal to an earlier one."""
    UNSTATED_TURN = "unstated_turn"
    """A turn that states nothing, so that any calls pass, in a conversation of which other turns do."""
    UNUSED_FACT = "unused_fact"
    """A fact of a simulated user that no expectation has."""
    NO_STOP = "no_stop"
    """A simulated user of whom nothing says when the goal is reached."""


@dataclass(frozen=True)
class LintFinding:
    """One problem of a case: of its expectation, of the schema of a tool, or that the case cannot be read.

    Attributes:
        kind: The kind of the problem.
        path: JSON path of the problem; `$` is the root of the line, or of the file if the file is one array.
        message: The problem in words.
        line: The line, from 1; `None` if the source has no lines.

    Example:
        >>> from toolgrade import Golden, ToolCall
        >>> from toolgrade.linting import lint
        >>> golden = Golden(input="What is the weather in Paris?", expected_tools=[ToolCall(name="get_wether")])
        >>> [finding] = lint([golden], tools=[{"name": "get_weather"}])
        >>> print(finding.message)
        expects the tool 'get_wether', which is not available; did you mean 'get_weather'?
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
        """Return the finding of a case that cannot be read."""
        return cls(LintKind.UNREADABLE, problem.path, problem.message, problem.line)

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        return {"line": self.line, "path": self.path, "kind": self.kind.value, "message": self.message}


@dataclass(frozen=True)
class LintReport(Sequence[LintFinding]):
    """A sequence of the findings of a file, in the order of the file.

    Attributes:
        source: The name of the file.
        findings: All findings.
        cases: The number of cases, including those that cannot be read.
        without_expectation: The number of cases without `expected_tools`, which were not checked.
        without_tools: The number of cases without available tools; names and arguments of their calls were not checked.

    Example:
        >>> from toolgrade import Golden, ToolCall
        >>> from toolgrade.linting import lint
        >>> names = ["get_weather", "get_wether"]
        >>> goldens = [Golden(input="Paris?", expected_tools=[ToolCall(name=name)]) for name in names]
        >>> report = lint(goldens, tools=[{"name": "get_weather"}])
        >>> print(report.summary())
        1 finding in 2 cases
        >>> [(finding.path, finding.kind.value) for finding in report]
        [('$[1].expected_tools[0].name', 'unknown_tool')]
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
        """Return the number of findings."""
        return len(self.findings)

    def lines(self) -> Iterator[str]:
        """Yield each finding as `file:line: path: message [kind]`, with control characters escaped."""
        for finding in self.findings:
            place = self.source if finding.line is None else f"{self.source}:{finding.line}"
            # Without a path the finding is about the whole file.
            text = f": {finding}" if finding.path else f" {finding.message}"
            yield printable(f"{place}{text} [{finding.kind.value}]")

    def summary(self) -> str:
        """Return the numbers of findings, of cases, and of cases that were not checked."""
        parts = [f"{plural(len(self.findings), 'finding')} in {plural(self.cases, 'case')}"]
        if self.without_expectation:
            parts.append(f"{self.without_expectation} without expected_tools")
        if self.without_tools:
            parts.append(f"{self.without_tools} without available tools, whose names and arguments were not checked")
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


_ALIASES = {"expected_tools": ("expected_agent_trajectory",), "input_parameters": ("args", "arguments")}


@dataclass(frozen=True)
class Spot:
    """A value in the JSON of a case, and the keys and positions that lead to it."""

    value: Any
    steps: tuple[str | int, ...] = ()

    @property
    def path(self) -> str:
        """The JSON path."""
        return json_path(self.steps)

    def at(self, *fields: str | int) -> Spot:
        """Return the location of a field, by any of its aliases, or of an item.

        Steps that do not exist are skipped: an expectation may be a bare list where another one is `{"plan": [...]}`,
        and the nearest existing location is good enough for the reader.
        """
        spot = self
        for field in fields:
            keys: tuple[str | int, ...] = (field,)
            if isinstance(field, str):
                keys = (field, to_camel(field), *_ALIASES.get(field, ()))
            spot = next(filter(None, map(spot._inside, keys)), spot)
        return spot

    def under(self, *keys: str | int) -> Spot:
        """Return the location under the user's own keys, as deep as they exist."""
        spot = self
        for key in keys:
            inside = spot._inside(key)
            if inside is None:
                break
            spot = inside
        return spot

    def _inside(self, key: str | int) -> Spot | None:
        may_have_key = isinstance(self.value, (list, tuple) if isinstance(key, int) else Mapping)
        try:
            return Spot(self.value[key], (*self.steps, key)) if may_have_key else None
        except LookupError:
            return None
