"""Argument schema: a metric that checks the arguments of the calls against the tools' JSON Schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any, ClassVar, Final

from toolgrade._internal.json import to_json_value
from toolgrade._internal.text import printable, short_json
from toolgrade.calls import ToolCall, ToolSpec
from toolgrade.cases import TestCase
from toolgrade.expect.json_schema import Fit, Schemas, Validation
from toolgrade.matching.json_compare import ABSENT
from toolgrade.metrics.base import CallMetric, Measurement, refuse_unknown, share_of_calls
from toolgrade.metrics.called_tools import call_finding, call_text, needed_tools, omission_warnings, read_tools
from toolgrade.result import Finding, redact_at_path

_UNDECIDED: Final[dict[Fit, str]] = {
    "not_captured": "their arguments were not recorded",
    "redacted": "some of their arguments are redacted",
    "no_schema": "their tools have no input_schema",
    "unusable": "the input_schema of their tools cannot be used",
    "provided": "tools of a provider or a server that are not in available_tools",
}


@dataclass(frozen=True, eq=False)
class ArgumentSchemaMetric(CallMetric):
    """Checks the calls against the JSON Schemas of the available tools.

    The score is the share of valid calls among those that could be checked: required, unexpected and nested arguments,
    types, enums and ranges. A call is also invalid if its tool was not available, or if its argument text was not a
    JSON object. Left out with a warning are calls whose arguments are redacted, calls of tools without a schema or with
    a broken one, and calls of hosted and MCP tools that are not in `available_tools` under this name. If no call could
    be checked, the case is skipped; if arguments were not recorded, it cannot be measured, unless other calls fail it.
    See docs/metrics.md.

    Schemas follow draft 2020-12, or the draft that they name. A `$ref` to another document is never fetched.

    Args:
        available_tools: The tools the agent could choose from, in any form that `ToolSpec` reads; by default those of
            the case. One of the two is required.
        threshold: The lowest score that passes, in [0, 1].
        formats: Check `format` too: date, date-time, email, ipv4, ipv6, regex, uuid. Other formats are never checked.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import ArgumentSchemaMetric, LLMTestCase, ToolCall
        >>> schema = {"properties": {"seats": {"type": "integer"}}, "required": ["seats"]}
        >>> case = LLMTestCase(tools_called=[ToolCall(name="book_flight", input_parameters={"seats": "two"})])
        >>> metric = ArgumentSchemaMetric([{"name": "book_flight", "parameters": schema}])
        >>> metric.measure(case).findings[0].path
        '$.input_parameters.seats'
    """

    _name: ClassVar[str] = "argument_schema"

    available_tools: Sequence[ToolSpec | ToolCall | dict[str, Any]] | None = None
    threshold: float = 1.0
    formats: bool = True
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options, and bring them into one form."""
        super().__post_init__()
        self._set(available_tools=read_tools(self.available_tools))

    @property
    def _options(self) -> Sequence[str]:
        return () if self.formats else ("no formats",)

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase, /) -> Measurement:
        if not calls:
            return Measurement()
        schemas = Schemas(needed_tools(self.available_tools, case, type(self).__name__), formats=self.formats)
        checked = [schemas.check(call) for call in calls]
        fits = Counter(entry.fit for entry in checked)
        wrong, unknown = fits["invalid"] + fits["unknown_tool"], fits["not_captured"]
        share = wrong / max(wrong + fits["valid"] + unknown, 1)
        refuse_unknown(self, case, unknown, share, _UNDECIDED["not_captured"])
        return share_of_calls(
            calls,
            "valid",
            fits["valid"],
            fits["valid"] + fits["invalid"] + fits["unknown_tool"],
            "checked call",
            findings=list(_findings(calls, checked)),
            warnings=[text for fit, reason in _UNDECIDED.items() for text in omission_warnings(fits[fit], reason)],
        )


def _findings(calls: Sequence[ToolCall], checked: Sequence[Validation]) -> Iterator[Finding]:
    """Yield the findings about schemas, then those about calls."""
    # Each broken schema is reported once, however many calls its tool has.
    broken = {call.name: entry.note for call, entry in zip(calls, checked, strict=True) if entry.fit == "unusable"}
    for name, note in broken.items():
        text = f"Broken schema: {printable(name)!r}, {printable(note or '').rstrip('.')}."
        yield Finding("invalid_schema", text, name)
    for index, entry in enumerate(checked):
        yield from _call_findings(calls[index], index, entry)


def _call_findings(call: ToolCall, index: int, checked: Validation) -> Iterator[Finding]:
    if checked.fit == "unknown_tool":
        yield call_finding("unknown_tool", "Unknown tool", call, index, " was not available")
    for violation in checked.violations:
        path, detail = violation.path, ""
        value: Any = ABSENT
        if violation.keys:
            arguments: Any = call.arguments
            value = to_json_value(reduce(getitem, violation.keys, arguments))  # a copy: the case may change
            detail = f", called with {short_json(redact_at_path(value, path))}"
        text = f"{call_text(call, index)}: {printable(path)} {printable(violation.message)}{detail}."
        yield Finding("schema_violation", text, call.name, called=index, path=path, called_value=value)
