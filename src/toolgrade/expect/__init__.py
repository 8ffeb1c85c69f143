"""The expectation language: plans of expected calls, and matchers of arguments.

```python
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Approx, Expect, Forbid, Glob, Ignore, OneOf, Plan

plan = Plan(
    [
        Expect(Glob("search_*"), label="searched", times=(1, None)),
        OneOf(ToolCall(name="book"), ToolCall(name="reserve"), after=["searched"]),
        Expect("pay", {"amount": Approx(100, abs=0.5), "note": Ignore()}, optional=True),
        Forbid(Glob("delete_*")),
    ]
)
case = LLMTestCase(tools_called=[ToolCall(name="search_flights"), ToolCall(name="reserve")], expected_tools=plan)
assert ToolCorrectnessMetric().measure(case).score == 1
```

Every plan has a JSON form, which files of cases contain in place of the list: see docs/expectations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import WrapSerializer, WrapValidator

from toolgrade.calls import ToolCall
from toolgrade.expect.check_matchers import Predicate, Schema
from toolgrade.expect.json_form import expectation_json, is_expectation, read_expectation, read_matcher
from toolgrade.expect.list_matchers import Subset, Superset, Unordered
from toolgrade.expect.matcher import Matcher
from toolgrade.expect.meaning import SameMeaning
from toolgrade.expect.plan import Alternatives, Expect, Expectation, Forbid, OneOf, Parallel, Plan
from toolgrade.expect.presence_matchers import Absent, Ignore, Optional, Present
from toolgrade.expect.value_matchers import (
    AnyOf,
    Approx,
    Contains,
    ContainsAll,
    DateEqual,
    Exact,
    Glob,
    IgnoreCase,
    Normalized,
    Regex,
)

if TYPE_CHECKING:
    ExpectedTools: TypeAlias = list[ToolCall] | Plan | Alternatives
    ExpectedOutput: TypeAlias = str | Matcher
else:

    def _read(value: Any, calls: Callable[[Any], list[ToolCall]]) -> Any:
        return read_expectation(value) if is_expectation(value) else calls(value)

    def _write(value: Any, calls: Callable[[Any], Any]) -> Any:
        return expectation_json(value) if isinstance(value, (Plan, Alternatives)) else calls(value)

    def _read_output(value: Any, text: Callable[[Any], str]) -> Any:
        return read_matcher(value) if isinstance(value, (Matcher, Mapping)) else text(value)

    def _write_output(value: Any, text: Callable[[Any], Any]) -> Any:
        return value.to_json() if isinstance(value, Matcher) else text(value)

    ExpectedTools = Annotated[list[ToolCall], WrapValidator(_read), WrapSerializer(_write)]
    ExpectedOutput = Annotated[str, WrapValidator(_read_output), WrapSerializer(_write_output)]

__all__ = [
    "Absent",
    "Alternatives",
    "AnyOf",
    "Approx",
    "Contains",
    "ContainsAll",
    "DateEqual",
    "Exact",
    "Expect",
    "Expectation",
    "ExpectedTools",
    "Forbid",
    "Glob",
    "Ignore",
    "IgnoreCase",
    "Matcher",
    "Normalized",
    "OneOf",
    "Optional",
    "Parallel",
    "Plan",
    "Predicate",
    "Present",
    "Regex",
    "SameMeaning",
    "Schema",
    "Subset",
    "Superset",
    "Unordered",
    "expectation_json",
    "read_expectation",
]
