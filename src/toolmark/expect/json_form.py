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
from typing import Any, Final, TypeAlias, TypeVar, cast

from pydantic.alias_generators import to_camel

from toolmark._internal.json import MAX_DEPTH, json_path, short_repr, to_json_value
from toolmark.calls import ToolCall
from toolmark.errors import InvalidDataError, MissingPackageError, Problem, ToolmarkError
from toolmark.expect.check_matchers import Predicate, Schema
from toolmark.expect.list_matchers import Subset, Superset, Unordered
from toolmark.expect.matcher import MARK, Matcher, to_plain
from toolmark.expect.plan import Alternatives, Expect, Expectation, Forbid, OneOf, Parallel, Plan, PlanItem
from toolmark.expect.presence_matchers import Absent, Ignore, Optional, Present
from toolmark.expect.value_matchers import (
    AnyOf,
    Approx,
    Contains,
    DateEqual,
    Exact,
    Glob,
    IgnoreCase,
    Normalized,
    Regex,
)
from toolmark.matching.json_compare import ABSENT

T = TypeVar("T")

Path: TypeAlias = "tuple[str | int, ...]"

MATCHERS: Final[dict[str, type[Matcher]]] = {
    kind.kind: kind
    for kind in (
        Absent,
        AnyOf,
        Approx,
        Contains,
        DateEqual,
        Exact,
        Glob,
        Ignore,
        IgnoreCase,
        Normalized,
        Optional,
        Predicate,
        Present,
        Regex,
        Schema,
        Subset,
        Superset,
        Unordered,
    )
}
"""The matchers by the name of their JSON form."""

_ITEMS = ("expect", "one_of", "parallel", "forbid")
_CONDITIONS = ("optional", "times", "after", "extra_arguments")
"""Keys that a `ToolCall` does not have; a call with one of them must be written as `expect`."""
_FLAGS = ("optional", "extra_arguments", "allow_extra")
_CALL_KEYS = ("input_parameters", "output", "type", "optional", "times", "label", "after", "at", "extra_arguments")
_KEYS: Final = {
    "expect": ("expect", *_CALL_KEYS),
    "forbid": ("forbid", "input_parameters", "at"),
    "one_of": ("one_of", "label", "after"),
    "parallel": ("parallel", "label", "after"),
    "plan": ("plan", "allow_extra", "tools", "name"),
    "alternatives": ("alternatives",),
}
_ALIASES: Final = {
    **{to_camel(key): key for keys in _KEYS.values() for key in keys},
    "args": "input_parameters",
    "arguments": "input_parameters",
}
"""Canonical key of each accepted alias."""


def is_expectation(value: object) -> bool:
    """Return whether a value is a plan, or the JSON form of a plan that a plain list of calls cannot express."""
    if isinstance(value, (Plan, Alternatives)):
        return True
    if isinstance(value, Mapping):
        return "plan" in value or "alternatives" in value
    return isinstance(value, (list, tuple)) and any(map(_is_plan_item, value))


def _is_plan_item(item: object) -> bool:
    if isinstance(item, Mapping):
        return any(_key(key) in (*_ITEMS, *_CONDITIONS) for key in item)
    return isinstance(item, (Expect, OneOf, Parallel, Forbid))


def read_expectation(value: object, *, allow_predicates: bool = False) -> Expectation:
    """Return the expectation of a plan, a list of plan items, or their JSON form.

    JSON stores only the name of a predicate. With `allow_predicates`, it is read as a predicate that can be displayed
    but raises when it is called; without it, a predicate is a problem.

    Raises:
        InvalidDataError: The value does not describe an expectation; `problems` has every problem with its path.
    """
    reader = _Reader(allow_predicates=allow_predicates)
    expectation = reader.expectation(value, ())
    if reader.problems or expectation is None:
        raise InvalidDataError("\n".join(map(str, reader.problems)), reader.problems)
    return expectation


def read_value(value: object) -> Any:
    """Return an expected value from its JSON form, with matchers and named predicates; unchanged if that fails."""
    reader = _Reader(allow_predicates=True)
    tree = reader.tree(value, ())
    return value if reader.problems else tree


def expectation_json(value: Expectation) -> dict[str, Any]:
    """Return the JSON form of an expectation. Of a `Predicate` only the name is written, so it cannot be read back."""
    if isinstance(value, Alternatives):
        return {"alternatives": [expectation_json(plan) for plan in value.plans]}
    plain: dict[str, Any] = {"plan": [_item_json(item) for item in value.calls]}
    if value.allow_extra is not None:
        plain["allow_extra"] = value.allow_extra
    if value.tools:
        plain["tools"] = {tool: _at_json(places) for tool, places in value.tools.items()}
    if value.name is not None:
        plain["name"] = value.name
    return plain


def _item_json(item: PlanItem) -> dict[str, Any]:
    if isinstance(item, ToolCall):
        return item.to_dict()
    if isinstance(item, Parallel):
        return {"parallel": [_item_json(call) for call in item.calls], **_order_json(item)}
    if isinstance(item, OneOf):
        one_of = [_item_json(one[0]) if len(one) == 1 else list(map(_item_json, one)) for one in item.alternatives]
        return {"one_of": one_of, **_order_json(item)}
    plain: dict[str, Any] = {"forbid" if isinstance(item, Forbid) else "expect": to_plain(item.name)}
    if item.input_parameters is not ABSENT:
        plain["input_parameters"] = to_plain(item.input_parameters)
    if isinstance(item, Expect):
        if item.output is not ABSENT:
            plain["output"] = to_plain(item.output)
        if item.type is not None:
            plain["type"] = to_json_value(item.type)
        plain.update({name: True for name in ("optional", "extra_arguments") if getattr(item, name)})
        if item.times is not None:
            plain["times"] = [item.least, item.most]
        plain.update(_order_json(item))
    if item.at:
        plain["at"] = _at_json(item.at)
    return plain


def _order_json(item: Expect | OneOf | Parallel) -> dict[str, Any]:
    return {
        **({"label": item.label} if item.label is not None else {}),
        **({"after": list(item.after)} if item.after else {}),
    }


def _at_json(places: Mapping[str, Matcher]) -> dict[str, Any]:
    return {place: matcher.to_json() for place, matcher in places.items()}


def _key(key: object) -> str:
    """Return the canonical key of a key or of its alias."""
    return _ALIASES.get(str(key), str(key))


def _hint(word: str, options: Iterable[str]) -> str:
    """Return a suggestion if an option is close to a word, else an empty text."""
    near = difflib.get_close_matches(word, options, n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _unavailable(_value: object) -> bool:
    message = "it was read from JSON, which stores the name and not the function"
    raise ToolmarkError(message)


class _Reader:
    """Reader of JSON forms that collects all problems, so that one reading reports every one."""

    def __init__(self, *, allow_predicates: bool) -> None:
        self.problems: list[Problem] = []
        self.allow_predicates = allow_predicates

    def problem(self, path: Path, message: str) -> None:
        self.problems.append(Problem(json_path(path), message))

    def build(self, path: Path, make: Callable[..., T], *args: Any, **options: Any) -> T | None:
        """Call `make`; if it raises, collect the problems at this path and return `None`."""
        try:
            return make(*args, **options)
        except MissingPackageError:
            raise
        except InvalidDataError as error:
            inner = error.problems or (Problem("$", str(error)),)
            self.problems.extend(Problem(json_path(path) + one.path.removeprefix("$"), one.message) for one in inner)
        except (ToolmarkError, TypeError) as error:
            self.problem(path, str(error))
        return None

    def expectation(self, value: object, path: Path) -> Expectation | None:
        if isinstance(value, Alternatives):
            return value
        if not isinstance(value, Mapping) or "alternatives" not in value:
            return self.plan(value, path)
        entries = self.fields(value, "alternatives", path)["alternatives"]
        plans: list[Plan] = []
        for index, entry in enumerate(self.list_at(entries, (*path, "alternatives"))):
            plan = self.plan(entry, (*path, "alternatives", index))
            if plan is not None:
                plans.append(plan)
        return self.build(path, Alternatives, plans)

    def plan(self, value: object, path: Path) -> Plan | None:
        if isinstance(value, Plan):
            return value
        if not isinstance(value, Mapping):
            return self.build(path, Plan, self.items(value, path))
        if "plan" not in value:
            self.problem(path, f"expected a list of calls or {{'plan': [...]}}, got {short_repr(value)}")
            return None
        entries = self.fields(value, "plan", path)
        options = self.options(entries, ("name", "allow_extra"), path)
        tools = self.object_at(entries.get("tools", {}), (*path, "tools"))
        options["tools"] = {tool: self.matchers(places, (*path, "tools", tool)) for tool, places in tools.items()}
        return self.build(path, Plan, self.items(entries["plan"], (*path, "plan")), **options)

    def items(self, value: object, path: Path, depth: int = 0) -> list[PlanItem]:
        """Return the items of a list, without those that cannot be read."""
        items: list[PlanItem] = []
        for index, entry in enumerate(self.list_at(value, path)):
            items += self.single_item(entry, (*path, index), depth)
        return items

    def single_item(self, value: object, path: Path, depth: int) -> list[PlanItem]:
        item = self.build(path, self.item, value, path, depth)
        return [] if item is None else [item]

    def item(self, value: object, path: Path, depth: int) -> PlanItem | None:
        if isinstance(value, (ToolCall, Expect, OneOf, Parallel, Forbid)):
            return value
        if not isinstance(value, Mapping) or depth > MAX_DEPTH:
            self.problem(path, f"expected a call, or one of {', '.join(_ITEMS)}; got {short_repr(value)}")
            return None
        kinds = [key for key in map(_key, value) if key in _ITEMS]
        if len(kinds) > 1:
            self.problem(path, f"must have only one of the keys {' and '.join(kinds)}")
            return None
        if kinds:
            entries = self.fields(value, kinds[0], path)
            return self.call(entries, kinds[0], path) or self.group(entries, kinds[0], path, depth + 1)
        for key in value:
            if _key(key) in _CONDITIONS:
                message = f"a call with {str(key)!r} needs the key 'expect' instead of 'name'"
                self.problem(path, f"{message}: {{'expect': {value.get('name')!r}, ...}}")
                return None
        return ToolCall.model_validate(value)

    def call(self, entries: Mapping[str, Any], kind: str, path: Path) -> Expect | Forbid | None:
        """Return the `Expect` or `Forbid` of these fields; `None` for other kinds."""
        if kind not in ("expect", "forbid"):
            return None
        options = self.options(entries, ("type", "optional", "times", "label", "after", "extra_arguments"), path)
        if "output" in entries:
            options["output"] = self.tree(entries["output"], (*path, "output"))
        name = entries[kind]
        if isinstance(name, Mapping):
            name = self.matcher(name, (*path, kind))
        if "input_parameters" in entries:
            options["input_parameters"] = self.tree(entries["input_parameters"], (*path, "input_parameters"))
        if entries.get("at") is not None:
            options["at"] = self.matchers(entries["at"], (*path, "at"))
        make: Callable[..., Expect | Forbid] = Expect if kind == "expect" else Forbid
        return self.build(path, make, name, **options)

    def group(self, entries: Mapping[str, Any], kind: str, path: Path, depth: int) -> OneOf | Parallel | None:
        """Return the `OneOf` or `Parallel` of these fields; `None` for other kinds."""
        if kind not in ("one_of", "parallel"):
            return None
        options = self.options(entries, ("label", "after"), path)
        inside = (*path, kind)
        if kind == "parallel":
            calls = cast("list[Any]", self.items(entries[kind], inside, depth))  # `Parallel` checks their types
            return self.build(path, Parallel, *calls, **options)
        alternatives: list[list[PlanItem]] = []
        for index, entry in enumerate(self.list_at(entries[kind], inside)):
            read = self.items if isinstance(entry, (list, tuple)) else self.single_item
            alternatives.append(read(entry, (*inside, index), depth))
        return self.build(path, OneOf, *alternatives, **options)

    def options(self, entries: Mapping[str, Any], names: Sequence[str], path: Path) -> dict[str, Any]:
        """Return the fields that are set; a flag that is not a boolean is a problem."""
        options: dict[str, Any] = {}
        for name in names:
            value = entries.get(name)
            if name in _FLAGS and not isinstance(value, (bool, type(None))):
                self.problem((*path, name), f"expected true or false, got {short_repr(value)}")
            elif value is not None:
                options[name] = value
        return options

    def matchers(self, value: object, path: Path) -> dict[str, Matcher]:
        """Return matchers by place."""
        matchers: dict[str, Matcher] = {}
        for place, entry in self.object_at(value, path).items():
            matcher = self.matcher(entry, (*path, place))
            if matcher is not None:
                matchers[place] = matcher
        return matchers

    def tree(self, value: Any, path: Path) -> Any:
        """Return a value that may contain matchers."""
        if len(path) > MAX_DEPTH:
            self.problem((), f"deeper than {MAX_DEPTH} levels of lists and objects; flatten it first")
            return None
        if isinstance(value, Mapping):
            if MARK in value:
                return self.matcher(value, path)
            return {str(key): self.tree(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.tree(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def matcher(self, value: Any, path: Path) -> Matcher | None:
        if isinstance(value, Matcher):
            return value
        name = value.get(MARK) if isinstance(value, Mapping) else None
        if name is None:
            self.problem(path, f"expected a matcher, an object with {MARK!r}, got {short_repr(value)}")
            return None
        kind = MATCHERS.get(name) if isinstance(name, str) else None
        if kind is None:
            hint = _hint(str(name), MATCHERS) or f"expected one of {', '.join(sorted(MATCHERS))}"
            self.problem(path, f"unknown matcher {name!r}; {hint}")
            return None
        if kind is Predicate:
            if self.allow_predicates:
                return Predicate(_unavailable, str(value.get("name") or ""))
            self.problem(path, "a predicate is a function, which JSON cannot store; build this expectation in Python")
            return None
        return self.matcher_of_kind(kind, {key: item for key, item in value.items() if key != MARK}, path)

    def matcher_of_kind(self, kind: type[Matcher], entries: dict[str, Any], path: Path) -> Matcher | None:
        parameters = {entry.name: entry.default for entry in fields(kind) if entry.init}  # type: ignore[arg-type]
        options: dict[str, Any] = {}
        for key, item in entries.items():
            if key not in parameters:
                hint = _hint(key, parameters) or f"expected {', '.join(parameters) or 'no options'}"
                self.problem((*path, key), f"unknown option {key!r} of {kind.kind!r}; {hint}")
            elif key in ("value", "values") and kind is not Exact:  # what `Exact` contains is never a matcher
                options[key] = self.tree(item, (*path, key))
            else:
                options[key] = item
        for key, default in parameters.items():
            if default is MISSING and key not in options:
                self.problem(path, f"{kind.kind!r} needs {key!r}")
                return None
        if kind is AnyOf:
            return self.build(path, AnyOf, *self.list_at(options["values"], (*path, "values")))
        return self.build(path, kind, **options)

    def fields(self, value: Mapping[str, Any], kind: str, path: Path) -> dict[str, Any]:
        """Return the fields of an object by canonical key; unknown and repeated keys are problems."""
        entries: dict[str, Any] = {}
        for alias, item in value.items():
            key, place = _key(alias), (*path, str(alias))
            if key not in _KEYS[kind]:
                names = f"expected one of {', '.join(_KEYS[kind])}"
                hint = _hint(str(alias), _KEYS[kind])
                self.problem(place, f"unknown key {alias!r}; {f'{hint} {names}' if hint else names}")
            elif key in entries:
                self.problem(place, f"repeats {key!r} under another name; remove one of them")
            else:
                entries[key] = item
        return entries

    def list_at(self, value: object, path: Path) -> Sequence[Any]:
        if isinstance(value, (list, tuple)):
            return value
        self.problem(path, f"expected a list, got {short_repr(value)}")
        return []

    def object_at(self, value: object, path: Path) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        self.problem(path, f"expected an object, got {short_repr(value)}")
        return {}
