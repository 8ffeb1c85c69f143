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

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_package

if TYPE_CHECKING:
    from toolgrade.expect.fields import ExpectedOutput as ExpectedOutput
    from toolgrade.expect.fields import ExpectedTools
    from toolgrade.expect.from_call import From
    from toolgrade.expect.json_form import expectation_json, read_expectation
    from toolgrade.expect.matcher import Exact, Matcher
    from toolgrade.expect.meaning import SameMeaning
    from toolgrade.expect.plan import Alternatives, Expect, Forbid, OneOf, Parallel, Plan
    from toolgrade.expect.value_matchers import (
        Absent,
        AllOf,
        AnyOf,
        Approx,
        Contains,
        ContainsAll,
        DateEqual,
        Glob,
        Ignore,
        IgnoreCase,
        Normalized,
        Not,
        Optional,
        Predicate,
        Present,
        Regex,
        Schema,
        Similar,
        Subset,
        Superset,
        Unordered,
    )

_NAMES = {
    "fields": "ExpectedOutput ExpectedTools",
    "from_call": "From",
    "json_form": "expectation_json read_expectation",
    "matcher": "Exact Matcher",
    "meaning": "SameMeaning",
    "plan": "Alternatives Expect Forbid OneOf Parallel Plan",
    "value_matchers": (
        "Absent AllOf AnyOf Approx Contains ContainsAll DateEqual Glob Ignore IgnoreCase Normalized Not Optional "
        "Predicate Present Regex Schema Similar Subset Superset Unordered"
    ),
}
"""The names by the module that holds them."""

__all__ = [
    "Absent",
    "AllOf",
    "Alternatives",
    "AnyOf",
    "Approx",
    "Contains",
    "ContainsAll",
    "DateEqual",
    "Exact",
    "Expect",
    "ExpectedTools",
    "Forbid",
    "From",
    "Glob",
    "Ignore",
    "IgnoreCase",
    "Matcher",
    "Normalized",
    "Not",
    "OneOf",
    "Optional",
    "Parallel",
    "Plan",
    "Predicate",
    "Present",
    "Regex",
    "SameMeaning",
    "Schema",
    "Similar",
    "Subset",
    "Superset",
    "Unordered",
    "expectation_json",
    "read_expectation",
]

__getattr__, __dir__ = lazy_package(__name__, _NAMES)
