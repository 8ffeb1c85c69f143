"""The matcher `From`: an argument that comes from an earlier call of the same run."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from operator import is_
from typing import Any, Final

from toolgrade._internal.json import MAX_DEPTH, is_deeper, json_items
from toolgrade._internal.message_content import part_text
from toolgrade._internal.options import require
from toolgrade._internal.text import contains_whole
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
from toolgrade.expect.value_matchers import folded_text
from toolgrade.failed_calls import looks_failed
from toolgrade.matching.json_compare import json_forms

_NOTHING: Final[tuple[object, ...]] = (None, "", [], {})


@dataclass(frozen=True)
class From(Matcher, kind="from"):
    """A value that an earlier call of the run returned, such as an id that is new in each run.

    The value at `path` in the output of such a call, if it succeeded, is compared by meaning. Of an object or a list
    there any value counts, and any key with a digit; of a text also a part that is not inside of a longer word, number
    or id. Outputs and texts that are JSON are read, and so is content of messages and MCP. Nothing comes from null,
    true, false and empty values. Calls of the same step are not earlier.

    Args:
        call: The name of the tool, or a pattern of names.
        path: Where in the output, such as `$.order.id` or `$.orders[*].id`; `$` is anywhere. With
            `$.input_parameters` it leads into the arguments of these calls.

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
        ends = [first_of_step(calls, index) for index in range(len(calls))]
        accepted: set[Hashable] = set()
        keys: set[Hashable] = set()
        text = ""
        read = 0
        for call, end in zip(calls, ends, strict=True):
            for source in calls[read:end]:
                if matches(source.name, (self.call,)) and not looks_failed(source):
                    values = _values_at(source, steps)
                    keys.update(map(meaning_key, values))
                    text = "\n".join([text, *(folded_text(value) for value in values if isinstance(value, str))])
            read = max(read, end)
            accepted.update(
                key
                for value in _inner_values(call.arguments)
                if (key := meaning_key(value)) in keys or contains_whole(text, _as_text(value))
            )
        bound = copy(self)
        set_field(bound, "accepted", frozenset(accepted))
        return bound


def _as_text(value: object) -> str:
    """Return the text by which a value can be a part of another one; empty for none."""
    return folded_text(str(value)).strip() if isinstance(value, (str, int, float)) else ""


def _values_at(call: ToolCall, steps: ArgumentPath) -> list[Any]:
    """Return the values at a path in the output of a call, or in its arguments, and all values in them."""
    execution = call.execution
    values = [call.output, *([] if execution is None else [execution.model_output])]
    values += [part_text(block) for one in values if isinstance(one, list) for block in one]
    if steps[:1] == ("input_parameters",):
        values, steps = [call.arguments], steps[1:]
    for step in steps:
        items = chain.from_iterable(json_items(json_forms(one)[-1]) for one in values)
        values = [item for key, item in items if str(key) == str(step) or step == EVERY]
    return list(chain.from_iterable(map(_inner_values, values)))


def _inner_values(value: Any) -> Iterator[Any]:
    """Yield a value, and all values and keys in it, that something can come from; JSON texts are read."""
    stack = [value]
    while stack:
        form = json_forms(stack.pop())[-1]
        if not isinstance(form, bool) and form not in _NOTHING:
            yield form
        stack.extend(item for _, item in json_items(form))
        yield from (key for key in (form if isinstance(form, dict) else ()) if any(map(str.isdigit, key)))


def bind_to_run(expected: Any, calls: Sequence[ToolCall]) -> Any:
    """Return an expectation in which each `From` knows the values of a run; the same object if it has none."""
    if isinstance(expected, From):
        return expected.in_run(calls)
    if isinstance(expected, (list, tuple)):
        items = [bind_to_run(item, calls) for item in expected]
        return expected if all(map(is_, items, expected)) else type(expected)(items)
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
