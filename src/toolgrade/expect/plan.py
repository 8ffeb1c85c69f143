"""Expected calls with conditions, paths of their arguments, and plans that consist of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import chain
from math import prod
from typing import Any, TypeAlias

from toolgrade._internal.options import require, require_flags
from toolgrade.calls import ToolCall, ToolCallType
from toolgrade.errors import ConfigurationError, InvalidDataError, Problem
from toolgrade.expect.matcher import Exact, Matcher, tree_of, value_text
from toolgrade.expect.value_matchers import Absent, Ignore, Optional
from toolgrade.matching.json_compare import ABSENT

MOST_WAYS = 1_000
"""Upper limit on the combinations of alternatives in a plan, and in all plans of an `Alternatives`."""
MOST_CALLS = 10_000
"""Upper limit on the calls that a plan requires, those of all alternatives and of `times` included."""

Name: TypeAlias = "str | Matcher"
"""The name of a tool, or a matcher of names, such as `Glob("search_*")`."""


@dataclass(frozen=True)
class Expect:
    """One expected call, with conditions that a `ToolCall` cannot express.

    Args:
        name: The name of the tool, or a matcher that accepts names, such as `Glob("search_*")` or `Regex(...)`.
        input_parameters: The arguments; values may be matchers, at any depth. If unset, any arguments are accepted;
            `None` is `{}`.
        output: The output, or a matcher; if unset, any output is accepted. Only some metrics compare it.
        type: The type of the tool; `None` for any.
        turn: The turn of the user in which it must be called, from 1; `None` for any.
        optional: The call may be missing; it counts only if it is made.
        extra_arguments: Arguments that are not expected do not count; by default each of them lowers the similarity.
        times: The least and the greatest number of calls: `2`, `(1, 3)`, or `(1, None)` without a limit.
        label: A name to which `after` of other items refers.
        after: Labels of the items that must be called before.
        at: Matchers by place, such as `{"to.city": IgnoreCase(), "items[*].price": Approx(rel=0.01)}`. One without
            a value takes the value at that place in `input_parameters`.

    Raises:
        ConfigurationError: An option is out of range, or a matcher lacks its value.
        InvalidDataError: A value is nested too deeply.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, IgnoreCase
        >>> called = ToolCall(name="get_weather", input_parameters={"city": "PARIS", "days": 3})
        >>> expected = Expect("get_weather", {"city": IgnoreCase("Paris")}, extra_arguments=True)
        >>> case = LLMTestCase(tools_called=[called], expected_tools=[expected])
        >>> ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).score
        1.0
    """

    name: Name
    input_parameters: Any = ABSENT
    _: KW_ONLY
    output: Any = ABSENT
    type: ToolCallType | str | None = None
    turn: int | None = None
    optional: bool = False
    extra_arguments: bool = False
    times: int | Sequence[int | None] | None = None
    label: str | None = None
    after: Sequence[str] = ()
    at: Mapping[str, Matcher] = field(default_factory=dict[str, Matcher])

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        put = partial(object.__setattr__, self)  # the dataclass is frozen
        require_flags(self)
        valid_name = isinstance(self.name, Matcher) or _is_text(self.name)
        require(valid_name, "a name must be text, or a matcher such as Glob('search_*')", self.name)
        put("input_parameters", _arguments(self.input_parameters))
        put("output", self.output if self.output is ABSENT else tree_of(self.output))
        put("type", _type(self.type))
        valid_turn = self.turn is None or (type(self.turn) is int and self.turn >= 1)
        require(valid_turn, "turn must be a whole number from 1", self.turn)
        _set_order(self, self.label, self.after)
        times = _times(self.times, optional=self.optional)
        put("times", None if self.times is None else times)
        check_at(self.at, "at")
        for path, matcher in matchers_in(self.input_parameters):
            if not matcher.complete:
                message = f"{type(matcher).__name__} at {path} has no value; give it one, or use it in at="
                raise ConfigurationError(message)

    @property
    def least(self) -> int:
        """How often it must be called."""
        return _times(self.times, optional=self.optional)[0]

    @property
    def most(self) -> int | None:
        """How often it may be called; `None` for any number of times."""
        return _times(self.times, optional=self.optional)[1]


@dataclass(frozen=True)
class Forbid:
    """A call that must not be made; if it is made, the score is 0.

    Args:
        name: The name of the tool, or a matcher that accepts names.
        input_parameters: Only calls with at least these arguments are forbidden; values may be matchers. If unset, any
            arguments are. They are compared even if arguments do not count in the score. A call whose arguments were
            not recorded, or are redacted there, does not count as forbidden.
        turn: Only calls in this turn of the user are forbidden, from 1; `None` for any.
        at: Matchers by place, as in `Expect`.

    Raises:
        ConfigurationError: An option is out of range, or a matcher lacks its value.
        InvalidDataError: A value is nested too deeply.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, Forbid, Plan
        >>> plan = Plan([Expect("get_weather"), Forbid("book_flight")])
        >>> called = [ToolCall(name="get_weather"), ToolCall(name="book_flight")]
        >>> result = ToolCorrectnessMetric().measure(LLMTestCase(tools_called=called, expected_tools=plan))
        >>> print(result.reason)
        1 forbidden call = 0 (failed at 0.5).
        Forbidden: called #2 'book_flight', by 'book_flight'.
    """

    name: Name
    input_parameters: Any = ABSENT
    _: KW_ONLY
    turn: int | None = None
    at: Mapping[str, Matcher] = field(default_factory=dict[str, Matcher])

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        checked = Expect(self.name, self.input_parameters, turn=self.turn, at=self.at)
        object.__setattr__(self, "input_parameters", checked.input_parameters)


@dataclass(frozen=True, init=False)
class Parallel:
    """Calls that must be requested in one step, in any order. A call in another step has similarity 0.

    Args:
        calls: Calls, and `OneOf`.
        label: A name to which `after` of other items refers; it stands for all of the calls.
        after: Labels of the items that must be called before.

    Raises:
        ConfigurationError: No call is passed, or an item is not a call or `OneOf`.

    Example:
        >>> from toolgrade import Execution, LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, Parallel, Plan
        >>> plan = Plan([Parallel(Expect("get_weather"), Expect("search_flights"))])
        >>> names = ["get_weather", "search_flights"]
        >>> called = [ToolCall(name=name, execution=Execution(step=step)) for step, name in enumerate(names)]
        >>> result = ToolCorrectnessMetric().measure(LLMTestCase(tools_called=called, expected_tools=plan))
        >>> print(result.reason)
        1 matched / 2 expected = 0.5 (passed at 0.5).
        Not in parallel: expected #2 'search_flights' was called as #2, in another step than its group.
    """

    calls: tuple[Call | OneOf, ...]
    label: str | None = None
    after: tuple[str, ...] = ()

    def __init__(self, *calls: Call | OneOf, label: str | None = None, after: Sequence[str] = ()) -> None:
        """Check the calls."""
        for call in calls:
            require(isinstance(call, (ToolCall, Expect, OneOf)), "the items of Parallel must be calls or OneOf", call)
        if not calls:
            raise ConfigurationError("Parallel needs at least one call")
        object.__setattr__(self, "calls", calls)
        _set_order(self, label, after)


@dataclass(frozen=True, init=False)
class OneOf:
    """Alternatives; the one with the best score counts, the first of equals.

    Args:
        alternatives: Calls, or lists of plan items; an empty list accepts that nothing is called.
        label: A name to which `after` of other items refers; it stands for the chosen alternative.
        after: Labels of the items that must be called before.

    Raises:
        ConfigurationError: No alternative is passed, or one contains something that is not a plan item.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, OneOf, Plan
        >>> plan = Plan([OneOf(Expect("book_flight"), [Expect("hold_flight"), Expect("confirm")])])
        >>> called = [ToolCall(name="hold_flight"), ToolCall(name="confirm")]
        >>> result = ToolCorrectnessMetric().measure(LLMTestCase(tools_called=called, expected_tools=plan))
        >>> print(result.reason)
        2 matched / 2 expected = 1 (passed at 0.5).
        Best of the alternatives: alternative #2 of 2 of choice #1.
    """

    alternatives: tuple[tuple[PlanItem, ...], ...]
    label: str | None = None
    after: tuple[str, ...] = ()

    def __init__(
        self, *alternatives: PlanItem | Sequence[PlanItem], label: str | None = None, after: Sequence[str] = ()
    ) -> None:
        """Check the alternatives."""
        if not alternatives:
            raise ConfigurationError("OneOf needs at least one alternative")
        groups = tuple(tuple(one) if isinstance(one, (list, tuple)) else (one,) for one in alternatives)
        _check_items(chain.from_iterable(groups), "OneOf")
        object.__setattr__(self, "alternatives", groups)
        _set_order(self, label, after)


Call: TypeAlias = ToolCall | Expect
"""One expected call."""

PlanItem: TypeAlias = ToolCall | Expect | OneOf | Parallel | Forbid
"""An item of a plan."""


@dataclass(frozen=True)
class Plan:
    """Expected calls with conditions, as the value of `expected_tools`.

    A plan of plain `ToolCall` items scores as the list of them does.

    Args:
        calls: Calls (`ToolCall`, `Expect`), `OneOf`, `Parallel` and `Forbid`, in the order that ordered scores expect.
        allow_extra: Whether other calls may be made. An exact match fails on any other call unless this is True. If
            nothing is expected, other calls score 0 unless this is True, or is `None` and the plan only forbids.
        tools: Matchers for every expected call of a tool, by name or shell pattern and place:
            `{"book": {"price": Approx(rel=0.01), "note": Ignore()}}`. Matchers of the call itself take precedence.
        name: Name to display if it is one of several plans.

    Raises:
        InvalidDataError: Labels, the number of alternatives or the number of required calls are invalid; `problems` has
            every problem.
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, Plan
        >>> plan = Plan(
        ...     [Expect("search_flights", times=(1, None), label="searched"), Expect("book_flight", after=["searched"])]
        ... )
        >>> called = [ToolCall(name=name) for name in ("search_flights", "search_flights", "book_flight")]
        >>> ToolCorrectnessMetric().measure(LLMTestCase(tools_called=called, expected_tools=plan)).score
        1.0
    """

    calls: Sequence[PlanItem]
    _: KW_ONLY
    allow_extra: bool | None = None
    tools: Mapping[str, Mapping[str, Matcher]] = field(default_factory=dict[str, Mapping[str, Matcher]])
    name: str | None = None

    def __post_init__(self) -> None:
        """Check the plan as a whole."""
        require(isinstance(self.calls, (list, tuple)), "the calls of a Plan must be a list", self.calls)
        object.__setattr__(self, "calls", tuple(self.calls))
        _check_items(self.calls, "Plan")
        is_flag = self.allow_extra is None or isinstance(self.allow_extra, bool)
        require(is_flag, "allow_extra must be True, False or None", self.allow_extra)
        require(self.name is None or isinstance(self.name, str), "the name of a Plan must be text", self.name)
        require(isinstance(self.tools, Mapping), "tools must map tools to places to matchers", self.tools)
        for tool, places in self.tools.items():
            require(isinstance(tool, str), "the tools in tools must be names", tool)
            check_at(places, f"tools[{tool!r}]")
        problems = [*_size_problems(self.calls), *_label_problems(self.calls), *_way_problems([self])]
        if problems:
            raise InvalidDataError("; ".join(problem.message for problem in problems), problems)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan itself, as the only alternative."""
        return (self,)

    def expected_calls(self) -> Iterator[Call]:
        """Yield every expected call, including those of all alternatives."""
        return (item for item in walk(self.calls) if isinstance(item, (ToolCall, Expect)))

    def __len__(self) -> int:
        """Return the number of top-level items."""
        return len(self.calls)


@dataclass(frozen=True)
class Alternatives:
    """Several plans, such as golden trajectories; the one with the best score counts, and the result names it.

    Args:
        plans: Plans, or lists of plan items; at least one.

    Raises:
        ConfigurationError: No plan is passed, or one is not a plan.
        InvalidDataError: The plans have too many combinations of alternatives together.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Alternatives, Expect, Plan
        >>> by_train = Plan([Expect("book_train"), Expect("book_hotel")], name="by train")
        >>> by_plane = Plan([Expect("book_flight"), Expect("book_hotel")], name="by plane")
        >>> called = [ToolCall(name="book_flight"), ToolCall(name="book_hotel")]
        >>> case = LLMTestCase(tools_called=called, expected_tools=Alternatives([by_train, by_plane]))
        >>> print(ToolCorrectnessMetric().measure(case).reason)
        2 matched / 2 expected = 1 (passed at 0.5).
        Best of the alternatives: plan #2 of 2 'by plane'.
    """

    plans: Sequence[Plan]

    def __post_init__(self) -> None:
        """Convert lists to plans."""
        plans: Any = self.plans
        require(isinstance(plans, (list, tuple)) and plans, "Alternatives needs a list of at least one plan", plans)
        object.__setattr__(self, "plans", tuple(plan if isinstance(plan, Plan) else Plan(plan) for plan in plans))

        problems = list(_way_problems(self.plans))
        if problems:
            raise InvalidDataError(problems[0].message, problems)

    def expected_calls(self) -> Iterator[Call]:
        """Yield every expected call of every plan."""
        return (call for plan in self.plans for call in plan.expected_calls())

    def __len__(self) -> int:
        """Return the number of plans."""
        return len(self.plans)


Expectation: TypeAlias = Plan | Alternatives
"""The expected tools of a case, if a list of calls cannot express them."""


def _nested(item: PlanItem) -> tuple[tuple[PlanItem, ...], ...]:
    """Return the lists of items in an item: the calls of `Parallel`, the alternatives of `OneOf`."""
    if isinstance(item, Parallel):
        return (item.calls,)
    return item.alternatives if isinstance(item, OneOf) else ()


def walk(items: Iterable[PlanItem]) -> Iterator[PlanItem]:
    """Yield all items and those nested in them, outer items first."""
    for item in items:
        yield item
        yield from walk(chain.from_iterable(_nested(item)))


def expected_names(expected: Sequence[Call] | Expectation | None) -> list[str]:
    """Return the display names of all expected calls, including those of all alternatives."""
    calls = expected.expected_calls() if isinstance(expected, (Plan, Alternatives)) else expected or ()
    return [name_text(call.name) for call in calls]


def without_rules(expected: Expectation) -> list[ToolCall] | Expectation:
    """Return a plan of calls without further rules as the list of its calls, and any other expectation as it is."""
    if not isinstance(expected, Plan):
        return expected
    calls = [item for item in expected.calls if isinstance(item, ToolCall)]
    has_rules = expected.allow_extra is not None or expected.tools or len(calls) < len(expected.calls)
    return expected if has_rules else calls


def matchers_in(value: Any, path: str = "$") -> Iterator[tuple[str, Matcher]]:
    """Yield every matcher in an expected value, except those inside other matchers, with its path."""
    if isinstance(value, Matcher):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from matchers_in(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from matchers_in(item, f"{path}[{index}]")


def name_text(name: Name) -> str:
    """Return a name as text for messages."""
    return name if isinstance(name, str) else value_text(name)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _check_items(items: Iterable[object], where: str) -> None:
    """Raise if a value is not an item of a plan."""
    for item in items:
        valid = isinstance(item, (ToolCall, Expect, OneOf, Parallel, Forbid))
        require(valid, f"the items of {where} must be ToolCall, Expect, OneOf, Parallel or Forbid", item)


def check_at(places: Any, where: str) -> None:
    """Raise if a value does not map places to matchers."""
    require(isinstance(places, Mapping), f"{where} must map places to matchers", places)
    for place, matcher in places.items():
        parse_argument_path(place)
        require(isinstance(matcher, Matcher), f"{where}[{place!r}] must be a matcher, such as Ignore()", matcher)


def _arguments(value: Any) -> Any:
    if value is ABSENT:
        return value
    arguments = {} if value is None else tree_of(value)
    if isinstance(value, Mapping) and isinstance(arguments, Exact):  # an argument has the name `$is`
        arguments = arguments.value
    require(isinstance(arguments, dict), "input_parameters must be an object of arguments", value)
    return arguments


def _type(value: Any) -> ToolCallType | None:
    try:
        return None if value is None else ToolCallType(value.lower() if isinstance(value, str) else value)
    except ValueError:
        types = ", ".join(repr(member.value) for member in ToolCallType)
        raise ConfigurationError(f"type must be one of {types}, got {value!r}") from None


def _set_order(item: Expect | OneOf | Parallel, label: object, after: Any) -> None:
    """Check and set the label of an item, and the labels of the items before it."""
    require(label is None or _is_text(label), "label must be text", label)
    require(isinstance(after, (list, tuple)) and all(map(_is_text, after)), "after must be a list of labels", after)
    object.__setattr__(item, "label", label)
    object.__setattr__(item, "after", tuple(after))


def _times(times: Any, *, optional: bool) -> tuple[int, int | None]:
    """Return the least and the greatest number of calls; `None` for any number."""
    if times is None:
        return (0, 1) if optional else (1, 1)
    if optional:
        raise ConfigurationError("optional and times must not both be set; optional=True means times=(0, 1)")
    is_pair = isinstance(times, (list, tuple)) and len(times) == 2  # noqa: PLR2004 - least and most
    pair: tuple[Any, Any] = tuple(times) if is_pair else (times, times)
    least, most = pair
    valid = type(least) is int and least >= 0 and (most is None or (type(most) is int and most >= max(least, 1)))
    require(valid, "times must be a whole number from 1, or (least, most) with most >= least and >= 1", times)
    return least, most


def _label_problems(items: Sequence[PlanItem]) -> Iterator[Problem]:
    """Yield a problem for each label in `after` that no item has, and each label that comes after itself."""
    predecessors: dict[str, set[str]] = {}
    named: set[str] = set()
    for labels, after in _ordered(items, (), frozenset()):
        named |= after
        for label in labels:
            predecessors.setdefault(label, set()).update(after)
    for label in sorted(named - predecessors.keys()):
        labels_text = ", ".join(map(repr, sorted(predecessors))) or "none"
        yield Problem("$", f"after names the unknown label {label!r}; labels are {labels_text}")
    for label in sorted(predecessors):
        if label in _all_predecessors(label, predecessors):
            yield Problem("$", f"{label!r} must come after itself, which no order satisfies")


def _ordered(
    items: Iterable[PlanItem], labels: tuple[str, ...], after: frozenset[str]
) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Yield the labels of each item and what it comes after, each with those of all items around it."""
    for item in items:
        own, before = labels, after
        if isinstance(item, (Expect, OneOf, Parallel)):
            own = (*labels, item.label) if item.label else labels
            before = after.union(item.after)
        yield own, before
        yield from _ordered(chain.from_iterable(_nested(item)), own, before)


def _all_predecessors(label: str, predecessors: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    queue = [label]
    while queue:
        before = predecessors.get(queue.pop(), set()) - reached
        reached |= before
        queue += before
    return reached


def _way_problems(plans: Iterable[Plan]) -> Iterator[Problem]:
    ways = sum(count_ways(plan.calls) for plan in plans)
    if ways > MOST_WAYS:
        message = f"its alternatives have {_amount_text(ways)} combinations, more than the limit of {MOST_WAYS}"
        yield Problem("$", f"{message}; split it into several cases, or use AnyOf where only names or values differ")


def _size_problems(items: Sequence[PlanItem]) -> Iterator[Problem]:
    needed = sum(getattr(item, "least", 1) for item in walk(items) if isinstance(item, (ToolCall, Expect)))
    if needed > MOST_CALLS:
        message = f"it requires {_amount_text(needed)} calls, more than the limit of {MOST_CALLS:,}"
        yield Problem("$", f"{message}; require fewer with times")


def _amount_text(amount: int) -> str:
    return str(amount) if amount < 10**9 else "more than a billion"


def count_ways(items: Iterable[PlanItem]) -> int:
    """Return the number of combinations of alternatives; a `OneOf` that one slot accepts adds none."""
    nested = [_nested(item) for item in items if not isinstance(item, OneOf) or not is_single_slot(item)]
    return prod(sum(map(count_ways, alternatives)) for alternatives in nested if alternatives)


def is_single_slot(item: OneOf) -> bool:
    """Return whether each alternative is one required call of the same turn without rules of order.

    One slot then accepts any of them.
    """
    if not all(len(alternative) == 1 and _is_single_call(alternative[0]) for alternative in item.alternatives):
        return False
    return len({getattr(alternative[0], "turn", None) for alternative in item.alternatives}) == 1


def _is_single_call(item: PlanItem) -> bool:
    if not isinstance(item, Expect):
        return isinstance(item, ToolCall)
    return not item.after and not item.label and (item.least, item.most) == (1, 1)


ArgumentPath: TypeAlias = "tuple[str | int, ...]"
"""Keys and positions; `*` is every key or position that the expected arguments have at that level."""

_STEP = re.compile(r"""\.?([^.\[\]"]+)|\[(\d+|\*)\]|\[("(?:[^"\\]|\\.)*")\]""")

EVERY = "*"


def parse_argument_path(text: object) -> ArgumentPath:
    """Return the keys and positions of a path.

    Raises:
        ConfigurationError: The text is not a path.
    """
    path = text if isinstance(text, str) else ""
    steps = list(_STEP.finditer(path))
    is_valid = path and "".join(step[0] for step in steps) == path and not path.startswith(".")
    require(is_valid, "an argument path must be like to.city, flights[0].date or items[*].price", text)
    return tuple(map(_read_step, steps))


def _read_step(match: re.Match[str]) -> str | int:
    key, index, quoted = match.groups("")
    if quoted:
        return str(json.loads(quoted))
    if index.isdigit():
        return int(index)
    return key or EVERY  # an index that is not a number is `*`


def with_matchers(tree: Mapping[str, Any], *layers: Mapping[ArgumentPath, Matcher]) -> dict[str, Any]:
    """Return expected arguments with matchers at some places; each layer maps places to their matchers.

    A matcher without a value takes the value at its place; without a value there, it does nothing. A complete matcher
    replaces the value, or is added if the value is missing. A matcher that is already in the arguments is not replaced.
    If two matchers have the same place, the earlier layer wins; within a layer, an exact place wins over one with `*`,
    and then the later one wins.
    """
    result: Any = dict(tree)
    for matchers in layers:
        # The first matcher at a place stays: later ones go first, and the stable sort moves places with `*` to the end.
        last_first = list(matchers.items())[::-1]
        for place, matcher in sorted(last_first, key=lambda entry: EVERY in entry[0]):
            result = _put(result, place, matcher)
    arguments: dict[str, Any] = _with_optional_objects(result)
    return arguments


class _ImpliedObject(dict[str, Any]):
    """An object that exists only because the path of a matcher leads through it."""


def _put(node: Any, place: ArgumentPath, matcher: Matcher) -> Any:
    """Return a value with the matcher at a place in it."""
    if isinstance(node, Matcher):
        return node
    if node is ABSENT:
        return _build_implied(place, matcher)
    if not place:
        return matcher.bind(node)
    key, rest = place[0], place[1:]
    if isinstance(node, list):
        return [_put(item, rest, matcher) if key in (EVERY, index) else item for index, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    changed = type(node)(node)  # an `_ImpliedObject` stays one
    for name in node if key == EVERY else [str(key)]:
        value = _put(node.get(name, ABSENT), rest, matcher)
        if value is not ABSENT:
            changed[name] = value
    return changed


def _build_implied(place: ArgumentPath, matcher: Matcher) -> Any:
    """Return a complete matcher within the objects that lead to it, where the expected arguments have no value.

    `ABSENT` for a matcher that is not complete, and for a place in a list.
    """
    if not matcher.complete or any(key == EVERY or isinstance(key, int) for key in place):
        return ABSENT
    value: Any = matcher
    for key in reversed(place):
        value = _ImpliedObject({str(key): value})
    return value


def _with_optional_objects(node: Any) -> Any:
    """Return a tree whose implied objects are optional if all matchers inside accept a missing value."""
    if isinstance(node, list):
        return list(map(_with_optional_objects, node))
    if not isinstance(node, dict):
        return node
    plain = {key: _with_optional_objects(item) for key, item in node.items()}
    accepts_missing = all(isinstance(item, (Absent, Ignore, Optional)) for item in plain.values())
    return Optional(plain) if isinstance(node, _ImpliedObject) and accepts_missing else plain
