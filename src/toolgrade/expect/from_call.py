"""The matcher `From`: an argument that comes from an earlier call of the same run."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from toolgrade._internal.json import MAX_DEPTH, is_deeper, json_items
from toolgrade._internal.options import require
from toolgrade._internal.tool_names import matches
from toolgrade.calls import ToolCall, first_of_step
from toolgrade.expect.matcher import Matcher, set_field
from toolgrade.expect.meaning import meaning_key
from toolgrade.expect.plan import (
    EVERY,
    Alternatives,
    ArgumentPath,
    Expect,
    Forbid,
    OneOf,
    Parallel,
    Plan,
    parse_argument_path,
)
from toolgrade.matching.json_compare import json_forms


@dataclass(frozen=True)
class From(Matcher, kind="from"):
    """A value that an earlier call of the run returned, such as an id that is new in each run.

    The value at `path` in the output of such a call is compared by meaning. Of an object or a list there, any value or
    key in it counts, of a text also a part that is not inside a longer word. Outputs and texts that are JSON are read.
    If no output has the path, it is looked for in the arguments of these calls. Calls of the same step are not earlier.

    Args:
        call: The name of the tool, or a pattern of names.
        path: Where in the output, such as `$.order.id` or `$.orders[*].id`; `$` is anywhere.

    Raises:
        ConfigurationError: The name is empty, or the path is not one.

    Example:
        >>> from toolgrade import LLMTestCase, TaskSuccessMetric, ToolCall
        >>> from toolgrade.expect import Expect, From, Plan
        >>> plan = Plan([Expect("create_order"), Expect("pay", {"order": From("create_order", "$.id")})])
        >>> calls = [
        ...     ToolCall(name="create_order", output={"id": "A-17"}),
        ...     ToolCall(name="pay", input_parameters={"order": "A-17"}),
        ... ]
        >>> TaskSuccessMetric().measure(LLMTestCase(tools_called=calls, expected_tools=plan)).score
        1.0
    """

    call: str
    path: str = "$"
    accepted: frozenset[Hashable] = field(init=False, repr=False, compare=False, default=frozenset())
    """The keys of the values of a run that fit; empty until `bind_to_run` sets them."""

    def __post_init__(self) -> None:
        """Check both."""
        call: Any = self.call
        path: Any = self.path
        require(isinstance(call, str) and call != "", "call of From must be the name of a tool", call)
        is_path = isinstance(path, str) and path.startswith("$")
        require(is_path, "path of From must begin with $, as in $.order.id", path)
        self.steps()

    def steps(self) -> ArgumentPath:
        """Return the keys and positions of the path."""
        rest = self.path.removeprefix("$")
        return parse_argument_path(rest.removeprefix(".")) if rest else ()

    def accepts(self, value: Any) -> bool:
        """Return whether a value of the run came from such a call."""
        return not is_deeper(value, MAX_DEPTH) and meaning_key(value) in self.accepted

    def describe(self) -> str:
        """Return where the value comes from."""
        return f"from {self.call} {self.path}"

    def in_run(self, calls: Sequence[ToolCall]) -> From:
        """Return the matcher with the values that it accepts in a run."""
        steps = self.steps()
        sources = [[] if not matches(one.name, (self.call,)) else _values_at(one.output, steps) for one in calls]
        if not any(sources):
            sources = [[] if not matches(one.name, (self.call,)) else _values_at(one.arguments, steps) for one in calls]
        accepted: set[Hashable] = set()
        for index, call in enumerate(calls):
            before = [value for values in sources[: first_of_step(calls, index)] for value in values]
            keys = set(map(meaning_key, before))
            texts = "\n".join(value for value in before if isinstance(value, str))
            accepted.update(
                key
                for value in _inner_values(call.arguments)
                if (key := meaning_key(value)) in keys or _is_part(value, texts)
            )
        bound = copy(self)
        set_field(bound, "accepted", frozenset(accepted))
        return bound


def _is_part(value: object, text: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not str(value).strip():
        return False
    return re.search(rf"(?<!\w){re.escape(str(value).strip())}(?!\w)", text, re.IGNORECASE) is not None


def _values_at(value: Any, steps: ArgumentPath) -> list[Any]:
    """Return the values at a path, and all values and keys in them."""
    values = [value]
    for step in steps:
        items = [(str(key), item) for one in values for key, item in json_items(json_forms(one)[-1])]
        values = [item for key, item in items if key == str(step) or step == EVERY]
    return [inner for one in values for inner in _inner_values(one)]


def _inner_values(value: Any) -> Iterator[Any]:
    """Yield a value, and all values and keys in it; JSON texts are read."""
    stack = [value]
    while stack:
        one = stack.pop()
        form = json_forms(one)[-1]
        yield form
        stack.extend(item for _, item in json_items(form))
        stack.extend(form if isinstance(form, dict) else ())


def bind_to_run(expected: Any, calls: Sequence[ToolCall]) -> Any:
    """Return an expectation in which each `From` knows the values of a run; the same object if it has none."""
    if isinstance(expected, From):
        return expected.in_run(calls)
    if isinstance(expected, (list, tuple)):
        items = [bind_to_run(item, calls) for item in expected]
        is_same = all(one is other for one, other in zip(items, expected, strict=True))
        return expected if is_same else type(expected)(items)
    if not isinstance(expected, (dict, Matcher, Plan, Alternatives, Expect, OneOf, Parallel, Forbid)):
        return expected
    entries: Mapping[str, Any] = expected if isinstance(expected, dict) else vars(expected)
    changed = {key: new for key, item in entries.items() if (new := bind_to_run(item, calls)) is not item}
    bound = copy(expected) if changed else expected
    for name, item in changed.items():
        if isinstance(bound, dict):
            bound[name] = item
        else:
            object.__setattr__(bound, name, item)  # the dataclass is frozen
    return bound
