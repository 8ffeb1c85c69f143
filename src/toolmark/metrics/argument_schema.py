"""Argument schema: do the arguments of the calls fit the tools' JSON Schemas?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolmark._argument_validation import Checked, Fit, Schemas
from toolmark._internal.text import number_text, printable, short_json
from toolmark.calls import ToolCall, ToolSpec, read_tool_spec
from toolmark.cases import TestCase
from toolmark.errors import MissingFieldError
from toolmark.matching.json_compare import ABSENT
from toolmark.metrics.call_metric import CallMetric, Found, left_out, named, one
from toolmark.result import Finding, redact_at_path

_NOT_CHECKED: Final[dict[Fit, str]] = {
    "not_captured": "the recording did not keep their arguments",
    "redacted": "values of their arguments are redacted",
    "no_schema": "their tools have no input_schema",
    "unusable": "the input_schema of their tools cannot be used",
    "provided": "tools of a provider or a server that are not in available_tools",
}


@dataclass(frozen=True, eq=False)
class ArgumentSchemaMetric(CallMetric):
    """Checks the calls against the JSON Schemas of the available tools.

    The score is the share of valid calls among those that could be checked: required, unexpected and nested arguments,
    types, enums, ranges, as far as the schema says. A call of a tool that was not available is invalid, and one whose
    argument text was no JSON object. Left out, with a warning, are calls whose arguments were not recorded or are
    redacted, calls of tools without a schema or with a broken one, and calls of hosted and MCP tools that stand under
    another name in `available_tools`, or not at all. Nothing to check is skipped. See docs/metrics.md.

    Draft 2020-12, or the draft that a schema names. A `$ref` that leads out of the schema is never fetched. Needs the
    package jsonschema.

    Args:
        available_tools: The tools the agent could choose from, in any form that `ToolSpec` reads; by default those of
            the case. One of the two must be given.
        threshold: A score at or above it passes; in [0, 1].
        formats: Check `format` too: date, date-time, email, ipv4, ipv6, regex, uuid. Others are never checked.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolmark import ArgumentSchemaMetric, LLMTestCase, ToolCall
        >>> tool = {"name": "book", "parameters": {"properties": {"seats": {"type": "integer"}}, "required": ["seats"]}}
        >>> case = LLMTestCase(tools_called=[ToolCall(name="book", input_parameters={"seats": "two"})])
        >>> ArgumentSchemaMetric([tool]).measure(case).score
        0.0
    """

    available_tools: Sequence[ToolSpec | ToolCall | dict[str, Any]] | None = None
    threshold: float = 1.0
    formats: bool = True
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options, and bring them into one form."""
        self._set_threshold()
        if self.available_tools is not None:
            tools = tuple(read_tool_spec(tool) for tool in self.available_tools)
            object.__setattr__(self, "available_tools", tools)

    @property
    def _name(self) -> str:
        return "argument_schema"

    @property
    def _told(self) -> Sequence[str]:
        return () if self.formats else ("no formats",)

    def _found(self, calls: Sequence[ToolCall], case: TestCase) -> Found:
        given = self.available_tools if self.available_tools is not None else case.available_tools
        if not calls:
            return Found()
        if given is None:
            message = (
                f"{type(self).__name__} needs available_tools{named(case)}, of the metric or of the case; [] is none"
            )
            raise MissingFieldError(message)
        schemas = Schemas(tuple(map(read_tool_spec, given)), formats=self.formats)
        checked = [schemas.check(call) for call in calls]
        fits = [_fit(entry) for entry in checked]
        valid, judged = fits.count("valid"), fits.count("valid") + fits.count("invalid")
        skipped = Counter(entry.fit for entry, fit in zip(checked, fits, strict=True) if fit is None)
        warnings = [text for fit, why in _NOT_CHECKED.items() for text in left_out(skipped[fit], why)]
        findings = [*_of_tools(calls, checked), *_of_calls(calls, checked, fits)]
        if not judged:
            return Found(findings=findings, warnings=warnings, skipped="no call could be checked")
        score = valid / judged
        sums = {"valid": f"{valid} / {judged} checked calls = {number_text(score)}"}
        return Found(scores={"valid": score}, sums=sums, findings=findings, warnings=warnings)


def _fit(checked: Checked) -> str | None:
    """Return whether a call is valid or invalid; `None` where nobody can tell."""
    if checked.fit in {"valid", "invalid"}:
        return checked.fit
    return "invalid" if checked.fit == "unknown_tool" else None


def _of_tools(calls: Sequence[ToolCall], checked: Sequence[Checked]) -> Iterator[Finding]:
    """Yield each broken schema once, however many calls its tool has."""
    broken = {call.name: entry.note for call, entry in zip(calls, checked, strict=True) if entry.fit == "unusable"}
    for name, note in broken.items():
        yield Finding(
            "invalid_schema", f"Broken schema: {printable(name)!r}, {printable(note or '').rstrip('.')}.", name
        )


def _of_calls(calls: Sequence[ToolCall], checked: Sequence[Checked], fits: Sequence[str | None]) -> Iterator[Finding]:
    for index, (call, entry, fit) in enumerate(zip(calls, checked, fits, strict=True)):
        if fit != "invalid":
            continue
        if entry.fit == "unknown_tool":
            yield Finding(
                "unknown_tool", f"Unknown tool: {one(call, index)} was not available.", call.name, called=index
            )
        for violation in entry.violations:
            value = _at(call.arguments, violation.keys)
            told = f", called with {short_json(redact_at_path(value, violation.path))}" if violation.keys else ""
            text = f"{one(call, index)}: {printable(violation.path)} {printable(violation.message)}{told}."
            yield Finding("schema_violation", text, call.name, called=index, path=violation.path, called_value=value)


def _at(value: Any, keys: Sequence[str | int]) -> Any:  # noqa: ANN401 - JSON values
    """Return the value at a place; `ABSENT` for the argument object as a whole, which the call shows."""
    if not keys:
        return ABSENT
    for key in keys:
        value = value[key]
    return value
