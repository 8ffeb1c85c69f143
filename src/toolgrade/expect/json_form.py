"""JSON form of expectations. Reading reports every problem with its path; a plan written as JSON reads back as equal.

| Python | JSON |
|---|---|
| `ToolCall(name="a", ...)` | `{"name": "a", ...}`, its arguments are values, never matchers |
| `Expect("a", {...}, ...)` | `{"expect": "a", "input_parameters": {...}, ...}` |
| `OneOf(a, [b, c], ...)` | `{"one_of": [a, [b, c]], ...}` |
| `Parallel(a, b, ...)` | `{"parallel": [a, b], ...}` |
| `Forbid("a", {...}, ...)` | `{"forbid": "a", "input_parameters": {...}, ...}` |
| `Plan([...], ...)` | `{"plan": [...], ...}`, or the bare list |
| `Alternatives([p, q])` | `{"alternatives": [p, q]}` |
| `Approx(100, rel=0.01)` | `{"$is": "approx", "value": 100, "rel": 0.01}` |
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from pydantic.alias_generators import to_camel

from toolgrade._internal.json import MARK, MAX_DEPTH, json_path, short_repr, to_json_value, within_limits
from toolgrade.calls import ToolCall
from toolgrade.errors import InvalidDataError, Problem, ToolgradeError

# Loaded to register their matchers; those of the other modules are used below.
from toolgrade.expect import from_call, meaning  # noqa: F401 # pyright: ignore[reportUnusedImport]
from toolgrade.expect.matcher import MATCHERS, Exact, Matcher, to_plain, without_exact
from toolgrade.expect.plan import Alternatives, Expect, Expectation, Forbid, OneOf, Parallel, Plan, PlanItem
from toolgrade.expect.value_matchers import Predicate, SeveralValues
from toolgrade.matching.argument_pattern import holds_matcher, json_of

T = TypeVar("T")

Path: TypeAlias = "tuple[str | int, ...]"


_PLAN_ITEMS: Final[dict[str, type[Any]]] = {"expect": Expect, "one_of": OneOf, "parallel": Parallel, "forbid": Forbid}
"""The items of a plan by their first key, which has the first field of the class."""
_KINDS: Final[dict[str, type[Any]]] = {**_PLAN_ITEMS, "plan": Plan, "alternatives": Alternatives}


def _keys_of(name: str) -> list[str]:
    """Return the keys of a kind of object in the order in which they are written, which is that of the fields."""
    return [name, *(entry.name for entry in fields(_KINDS[name])[1:])]


_CONDITIONS: Final = ("optional", "times", "after", "extra_arguments")
"""Keys that a `ToolCall` does not have; a call with one of them must be written as `expect`."""
_ALIASES: Final = {
    **{to_camel(key): key for name in _KINDS for key in _keys_of(name)},
    "args": "input_parameters",
    "arguments": "input_parameters",
}
"""Canonical key of each accepted alias."""
_PLAN_ITEM_KEYS: Final = frozenset(
    {*_PLAN_ITEMS, *_CONDITIONS}
    | {alias for alias, key in _ALIASES.items() if key in _PLAN_ITEMS or key in _CONDITIONS}
)
"""Keys, and their aliases, that only an item of a plan has."""


def is_expectation(value: object) -> bool:
    """Return whether a value is a plan, or the JSON form of a plan that a plain list of calls cannot express."""
    if isinstance(value, (list, tuple)):
        return not _CALLS.issuperset(map(type, value)) and any(map(_is_plan_item, value))
    if isinstance(value, Mapping):
        return "plan" in value or "alternatives" in value
    return isinstance(value, (Plan, Alternatives))


_CALLS: Final = frozenset({ToolCall})


def _is_plan_item(item: object) -> bool:
    if isinstance(item, Mapping):
        return not _PLAN_ITEM_KEYS.isdisjoint(item)
    return isinstance(item, (Expect, OneOf, Parallel, Forbid))


@within_limits
def read_expectation(value: object, *, allow_predicates: bool = False) -> Expectation:
    """Return the expectation of a plan, a list of plan items, or their JSON form.

    JSON stores only the name of a predicate. With `allow_predicates`, it is read as a predicate that can be displayed
    but raises when it is called; without it, a predicate is a problem.

    Raises:
        InvalidDataError: The value does not describe an expectation; `problems` has every problem with its path.

    Example:
        >>> from toolgrade.expect import read_expectation
        >>> city = {"$is": "ignore_case", "value": "Paris"}
        >>> plan = read_expectation([{"expect": "get_weather", "input_parameters": {"city": city}, "times": [1, 2]}])
        >>> plan.calls[0].times, plan.calls[0].input_parameters["city"].accepts("PARIS")
        ((1, 2), True)
    """
    reader = _Reader(allow_predicates=allow_predicates)
    return reader.whole(reader.expectation, value)  # type: ignore[no-any-return]


def read_matcher(value: object) -> Matcher:
    """Return the matcher that a JSON form describes; a matcher is returned as it is.

    Raises:
        InvalidDataError: The value is not the JSON form of a matcher, or the matcher lacks its value.
    """
    reader = _Reader(allow_predicates=False)
    return reader.whole(reader.complete_matcher, value)


def read_value(value: object) -> Any:
    """Return an expected value from its JSON form, with matchers and named predicates; unchanged if that fails."""
    reader = _Reader(allow_predicates=True)
    tree = reader.tree(value, ())
    return value if reader.problems else tree


def expectation_json(value: Expectation) -> dict[str, Any]:
    """Return the JSON form of an expectation. Of a `Predicate` only the name is written, so it cannot be read back.

    Example:
        >>> from toolgrade.expect import Expect, Forbid, IgnoreCase, Plan, expectation_json
        >>> plan = Plan([Expect("get_weather", {"city": IgnoreCase("Paris")}), Forbid("book_flight")])
        >>> for item in expectation_json(plan)["plan"]:
        ...     print(item)
        {'expect': 'get_weather', 'input_parameters': {'city': {'$is': 'ignore_case', 'value': 'Paris'}}}
        {'forbid': 'book_flight'}
    """
    return _object_json(value)


def _object_json(value: Expectation | PlanItem) -> dict[str, Any]:
    if isinstance(value, ToolCall):
        return value.to_dict()
    name = next(name for name, kind in _KINDS.items() if isinstance(value, kind))
    plain: dict[str, Any] = {}
    for key, entry in zip(_keys_of(name), fields(value), strict=True):
        item = getattr(value, entry.name)
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        if item != default:
            plain[key] = _KEYS.get(key, _PLAIN).write(item)
    return plain


def _objects_json(values: Iterable[Expectation | PlanItem]) -> list[dict[str, Any]]:
    return list(map(_object_json, values))


def _alternatives_json(alternatives: Iterable[Sequence[PlanItem]]) -> list[Any]:
    return [_object_json(items[0]) if len(items) == 1 else _objects_json(items) for items in alternatives]


def _places_json(places: Mapping[str, Any]) -> Any:
    return json_of(dict(places))


def _tools_json(tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {tool: _places_json(places) for tool, places in tools.items()}


def _key(key: object) -> str:
    """Return the canonical key of a key or of its alias."""
    return _ALIASES.get(str(key), str(key))


def _hint(word: str, options: Iterable[str]) -> str:
    """Return a suggestion if an option is close to a word, else an empty text."""
    near = difflib.get_close_matches(word, options, n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _plain_call(value: Mapping[Any, Any]) -> ToolCall:
    """Return a call without conditions.

    Raises:
        InvalidDataError: It has some, or is not a call.
    """
    condition = next((key for key in value if _key(key) in _CONDITIONS), None)
    if condition is not None:
        message = f"a call with {str(condition)!r} needs the key 'expect' instead of 'name'"
        raise InvalidDataError(f"{message}: {{'expect': {value.get('name')!r}, ...}}")
    return ToolCall.model_validate(value)


def _matcher_kind(value: object) -> type[Matcher]:
    """Return the class of the matcher that an object describes.

    Raises:
        InvalidDataError: It describes none.
    """
    name = value.get(MARK) if isinstance(value, Mapping) else None
    if name is None:
        raise InvalidDataError(f"expected a matcher, an object with {MARK!r}, got {short_repr(value)}")
    kind = MATCHERS.get(str(name))
    if kind is None:
        hint = _hint(str(name), MATCHERS) or f"expected one of {', '.join(sorted(MATCHERS))}"
        raise InvalidDataError(f"unknown matcher {name!r}; {hint}")
    return kind


def _unavailable(_value: object) -> bool:
    raise ToolgradeError("it was read from JSON, which stores the name and not the function")


class _Reader:
    """Reader of JSON forms that collects all problems, so that one reading reports every one.

    Its methods that raise are called through `attempt`.
    """

    def __init__(self, *, allow_predicates: bool) -> None:
        self.problems: list[Problem] = []
        self.allow_predicates = allow_predicates

    def problem(self, path: Path, message: str) -> None:
        self.problems.append(Problem(json_path(path), message))

    def attempt(self, read: Callable[[Any, Path], T], value: object, path: Path) -> T | None:
        """Return what `read` returns for the value at a path; if it raises, collect the problems and return `None`."""
        try:
            return read(value, path)
        except InvalidDataError as error:
            inner = error.problems or (Problem("$", str(error)),)
            self.problems.extend(Problem(json_path(path) + one.path.removeprefix("$"), one.message) for one in inner)
        except (ToolgradeError, TypeError) as error:
            self.problem(path, str(error))
        return None

    def whole(self, read: Callable[[Any, Path], T], value: object) -> T:
        """Return what `read` returns for a whole value.

        Raises:
            InvalidDataError: There are problems.
        """
        result = self.attempt(read, value, ())
        if self.problems or result is None:
            raise InvalidDataError("\n".join(map(str, self.problems)), self.problems)
        return result

    def expectation(self, value: object, path: Path) -> Any:
        if isinstance(value, Alternatives):
            return value
        if isinstance(value, Mapping) and "alternatives" in value:
            return self.build("alternatives", value, path)
        return self.plan(value, path)

    def plan(self, value: object, path: Path) -> Any:
        if isinstance(value, Plan):
            return value
        if not isinstance(value, Mapping):
            return Plan(self.items(value, path))
        if "plan" not in value:
            raise InvalidDataError(f"expected a list of calls or {{'plan': [...]}}, got {short_repr(value)}")
        return self.build("plan", value, path)

    def item(self, value: object, path: Path) -> Any:
        if isinstance(value, (ToolCall, Expect, OneOf, Parallel, Forbid)):
            return value
        if not isinstance(value, Mapping) or len(path) > MAX_DEPTH:
            raise InvalidDataError(f"expected a call, or one of {', '.join(_PLAN_ITEMS)}; got {short_repr(value)}")
        names = [key for key in map(_key, value) if key in _PLAN_ITEMS]
        if len(names) > 1:
            raise InvalidDataError(f"must have only one of the keys {' and '.join(names)}")
        return self.build(names[0], value, path) if names else _plain_call(value)

    def build(self, name: str, value: Mapping[Any, Any], path: Path) -> Any:
        """Return the object of a kind; unknown and repeated keys are problems."""
        options: dict[str, Any] = {}
        for key, entry in self.entries(value, _keys_of(name), path).items():
            form = _KEYS.get(key, _PLAIN)
            if entry is not None or form.takes_null:
                options[key] = form.read(self, entry, (*path, key))
        first = options.pop(name)
        return _KINDS[name](*(first if name in ("one_of", "parallel") else [first]), **options)

    def entries(self, value: Mapping[Any, Any], keys: Sequence[str], path: Path) -> dict[str, Any]:
        """Return the values of an object by their canonical keys."""
        entries: dict[str, Any] = {}
        for alias, entry in value.items():
            key, place = _key(alias), (*path, str(alias))
            if key not in keys:
                hint = f"{_hint(str(alias), keys)} expected one of {', '.join(keys)}".lstrip()
                self.problem(place, f"unknown key {alias!r}; {hint}")
            elif key in entries:
                self.problem(place, f"repeats {key!r} under another name; remove one of them")
            else:
                entries[key] = entry
        return entries

    def plain(self, value: object, _path: Path) -> object:
        return value

    def flag(self, value: object, path: Path) -> object:
        if isinstance(value, bool):
            return value
        self.problem(path, f"expected true or false, got {short_repr(value)}")
        return False

    def name(self, value: object, path: Path) -> object:
        return self.attempt(self.matcher, value, path) if isinstance(value, Mapping) else value

    def plans(self, value: object, path: Path) -> list[Any]:
        return self.each(self.plan, value, path)

    def items(self, value: object, path: Path) -> list[Any]:
        return self.each(self.item, value, path)

    def alternatives(self, value: object, path: Path) -> list[Any]:
        return self.each(self.alternative, value, path)

    def alternative(self, value: object, path: Path) -> object:
        if isinstance(value, (list, tuple)):
            return self.items(value, path)
        return self.attempt(self.item, value, path) or []

    def each(self, read: Callable[[Any, Path], T], value: object, path: Path) -> list[T]:
        """Return what `read` returns for each value of a list, without those that it cannot read."""
        values = self.list_at(value, path)
        results = [self.attempt(read, item, (*path, index)) for index, item in enumerate(values)]
        return [result for result in results if result is not None]

    def tools(self, value: object, path: Path) -> dict[str, dict[str, Matcher]]:
        return self.each_entry(self.matchers, value, path)

    def matchers(self, value: object, path: Path) -> dict[str, Matcher]:
        return self.each_entry(self.matcher, value, path)

    def each_entry(self, read: Callable[[Any, Path], T], value: object, path: Path) -> dict[str, T]:
        """Return what `read` returns for each value of an object, without those that it cannot read."""
        if not isinstance(value, Mapping):
            self.problem(path, f"expected an object, got {short_repr(value)}")
            return {}
        results = {key: self.attempt(read, item, (*path, key)) for key, item in value.items()}
        return {key: result for key, result in results.items() if result is not None}

    def tree(self, value: Any, path: Path) -> Any:
        """Return a value that may contain matchers."""
        if len(path) > MAX_DEPTH:
            self.problem((), f"deeper than {MAX_DEPTH} levels of lists and objects; flatten it first")
            return None
        if isinstance(value, Mapping):
            if MARK in value:
                return self.attempt(self.matcher, value, path)
            return {str(key): self.tree(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.tree(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def matcher(self, value: Any, path: Path) -> Matcher:
        if isinstance(value, Matcher):
            return value
        kind = _matcher_kind(value)
        if kind is Predicate:
            if self.allow_predicates:
                return Predicate(_unavailable, str(value.get("name") or ""))
            raise InvalidDataError(
                "a predicate is a function, which JSON cannot store; build this expectation in Python"
            )
        options = self.matcher_options(kind, value, path)
        if issubclass(kind, SeveralValues):
            return kind(*self.list_at(options["values"], (*path, "values")))
        return kind(**options)

    def complete_matcher(self, value: object, path: Path) -> Matcher:
        matcher = self.matcher(value, path)
        if not matcher.complete:
            self.problem(path, f"{type(matcher).__name__} has no value; give it one")
        return matcher

    def matcher_options(self, kind: type[Matcher], value: Mapping[str, Any], path: Path) -> dict[str, Any]:
        parameters = {entry.name: entry.default for entry in fields(kind) if entry.init}  # type: ignore[arg-type]
        options: dict[str, Any] = {}
        for key, item in value.items():
            if key in parameters:
                options[key] = self.matcher_option(kind, key, item, (*path, key))
            elif key != MARK:
                hint = _hint(key, parameters) or f"expected {', '.join(parameters) or 'no options'}"
                self.problem((*path, key), f"unknown option {key!r} of {kind.kind!r}; {hint}")
        missing = next((key for key, default in parameters.items() if default is MISSING and key not in options), None)
        if missing is not None:
            raise InvalidDataError(f"{kind.kind!r} needs {missing!r}")
        return options

    def matcher_option(self, kind: type[Matcher], key: str, item: Any, path: Path) -> Any:
        if key not in ("value", "values") or kind is Exact:  # what `Exact` contains is never a matcher
            return item
        tree = self.tree(item, path)
        if key == "values" or getattr(kind, "nested", True):
            return tree
        value = without_exact(tree)  # as which an object with `$is` is written
        if holds_matcher(value):
            self.problem(path, f"the value of {kind.kind!r} must not contain matchers")
        return value

    def arguments(self, value: object, path: Path) -> object:
        tree = self.tree(value, path)
        return tree.value if isinstance(tree, Exact) else tree

    def list_at(self, value: object, path: Path) -> Sequence[Any]:
        if isinstance(value, (list, tuple)):
            return value
        self.problem(path, f"expected a list, got {short_repr(value)}")
        return []


class _Key(NamedTuple):
    """How the value of a key of a plan or one of its items is read and written."""

    read: Callable[[_Reader, Any, Path], Any] = _Reader.plain
    write: Callable[[Any], Any] = to_plain
    takes_null: bool = False
    """Whether null is not the same as no key."""


_PLAIN: Final = _Key()
_KEYS: Final = {
    "expect": _Key(_Reader.name, takes_null=True),
    "forbid": _Key(_Reader.name, takes_null=True),
    "one_of": _Key(_Reader.alternatives, _alternatives_json, takes_null=True),
    "parallel": _Key(_Reader.items, _objects_json, takes_null=True),
    "plan": _Key(_Reader.items, _objects_json, takes_null=True),
    "alternatives": _Key(_Reader.plans, _objects_json, takes_null=True),
    "input_parameters": _Key(_Reader.arguments, takes_null=True),
    "output": _Key(_Reader.tree, takes_null=True),
    "type": _Key(write=to_json_value),
    "optional": _Key(_Reader.flag),
    "extra_arguments": _Key(_Reader.flag),
    "at": _Key(_Reader.matchers, _places_json),
    "allow_extra": _Key(_Reader.flag),
    "tools": _Key(_Reader.tools, _tools_json, takes_null=True),
}
"""The keys that are read or written in their own way; all others are `_PLAIN`."""
