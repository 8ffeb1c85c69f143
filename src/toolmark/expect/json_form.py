"""The JSON form of expectations: read with every problem and its path, written so that reading gives an equal plan.

| Python | JSON |
|---|---|
| `ToolCall(name="a", ...)` | `{"name": "a", ...}`, as everywhere; its arguments are values, never matchers |
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
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, TypeAlias, TypeVar, cast

from pydantic.alias_generators import to_camel

from toolmark._internal.json import MAX_DEPTH, json_path, short_repr, to_json_value
from toolmark.calls import ToolCall
from toolmark.errors import InvalidDataError, MissingPackageError, Problem, ToolmarkError
from toolmark.expect.check_matchers import Predicate, Schema
from toolmark.expect.list_matchers import Subset, Superset, Unordered
from toolmark.expect.matcher import MARK, Matcher, to_plain
from toolmark.expect.plan import Alternatives, Call, Expect, Expectation, Forbid, OneOf, Parallel, Plan, PlanItem
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
"""Keys that a plain call does not have; one that has them was meant to be an expectation."""
_SAME = {"args": "input_parameters", "arguments": "input_parameters"}
_CALL_KEYS = ("input_parameters", "output", "type", "optional", "times", "label", "after", "at", "extra_arguments")
_KEYS: Final = {
    "expect": ("expect", *_CALL_KEYS),
    "forbid": ("forbid", "input_parameters", "at"),
    "one_of": ("one_of", "label", "after"),
    "parallel": ("parallel", "label", "after"),
    "plan": ("plan", "allow_extra", "tools", "name"),
    "alternatives": ("alternatives",),
}
_BY_SPELLING: Final = {to_camel(known): known for keys in _KEYS.values() for known in keys} | _SAME
"""toolmark's own spelling of a key by each spelling that differs from it, or is read as it."""


def is_expectation(value: object) -> bool:
    """Return whether a value is an expectation, or its JSON form, that says more than a list of calls does."""
    if isinstance(value, (Plan, Alternatives)):
        return True
    if isinstance(value, Mapping):
        return "plan" in value or "alternatives" in value
    return isinstance(value, (list, tuple)) and any(_item_speaks(item) for item in value)


def _item_speaks(item: object) -> bool:
    if isinstance(item, Mapping):
        return any(_key(str(key)) in (*_ITEMS, *_CONDITIONS) for key in item)
    return isinstance(item, (Expect, OneOf, Parallel, Forbid))


def read_expectation(value: object, *, as_told: bool = False) -> Expectation:
    """Return the expectation that a value is, holds as a list, or describes in JSON.

    Args:
        value: The value.
        as_told: Also read predicates, of which JSON has the names alone; they can be shown, and raise where they are
            asked.

    Raises:
        InvalidDataError: It describes none; `problems` has every place that is wrong, with its path.
    """
    reader = _Reader(as_told=as_told)
    found = reader.expectation(value, ())
    if reader.problems or found is None:
        raise InvalidDataError("\n".join(map(str, reader.problems)), reader.problems)
    return found


def read_value(value: object) -> Any:
    """Return an expected value from its JSON form, matchers in it read as `as_told` says; itself where that fails."""
    reader = _Reader(as_told=True)
    found = reader.tree(value, ())
    return value if reader.problems else found


def _lost(_value: object) -> bool:
    message = "it was read from a file, which has its name and not its function"
    raise ToolmarkError(message)


def expectation_json(value: Expectation) -> dict[str, Any]:
    """Return the JSON form of an expectation. A `Predicate` is written with its name alone, and cannot be read back."""
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


def _key(key: str) -> str:
    """Return toolmark's own spelling of a key: camelCase and the other names of arguments are read, too."""
    return _BY_SPELLING.get(key, key)


@dataclass
class _Reader:
    """Reads JSON forms, and collects what is wrong."""

    problems: list[Problem] = field(default_factory=list[Problem])
    as_told: bool = False

    def problem(self, path: Path, message: str) -> None:
        """Note that something is wrong."""
        self.problems.append(Problem(json_path(path), message))

    @contextmanager
    def noting(self, path: Path) -> Generator[None, None, None]:
        """Note what is raised inside, at a path."""
        try:
            yield
        except MissingPackageError:
            raise
        except InvalidDataError as error:
            inner = error.problems or (Problem("$", str(error)),)
            self.problems.extend(Problem(json_path(path) + one.path.removeprefix("$"), one.message) for one in inner)
        except (ToolmarkError, TypeError) as error:
            self.problem(path, str(error))

    def expectation(self, value: object, path: Path) -> Expectation | None:
        """Read a plan, several of them, or a list of items."""
        if isinstance(value, (Plan, Alternatives)):
            return value
        if isinstance(value, Mapping) and "alternatives" in value:
            return self.alternatives(value, path)
        return self.plan(value, path)

    def alternatives(self, value: Mapping[str, Any], path: Path) -> Expectation | None:
        """Read several plans."""
        given = self.keys(value, "alternatives", path)
        listed = self.listed(given["alternatives"], (*path, "alternatives"))
        plans = [self.plan(item, (*path, "alternatives", index)) for index, item in enumerate(listed)]
        with self.noting(path):
            return Alternatives([plan for plan in plans if plan is not None])
        return None

    def plan(self, value: object, path: Path) -> Plan | None:
        """Read a plan or a list of items."""
        if isinstance(value, Plan):
            return value
        if not isinstance(value, Mapping):
            items = self.items(value, path)
            with self.noting(path):
                return Plan(items)
            return None
        if "plan" not in value:
            self.problem(path, f"expected a list of calls or {{'plan': [...]}}, got {short_repr(value)}")
            return None
        given = self.keys(value, "plan", path)
        options: dict[str, Any] = {key: given[key] for key in ("name",) if given.get(key) is not None}
        allow = given.get("allow_extra")
        if allow is not None and not isinstance(allow, bool):
            self.problem((*path, "allow_extra"), f"expected true or false, got {short_repr(allow)}")
        elif allow is not None:
            options["allow_extra"] = allow
        tools = self.mapping(given.get("tools", {}), (*path, "tools"))
        options["tools"] = {tool: self.at(places, (*path, "tools", tool)) for tool, places in tools.items()}
        items = self.items(given["plan"], (*path, "plan"))
        with self.noting(path):
            return Plan(items, **options)
        return None

    def items(self, value: object, path: Path, depth: int = 0) -> list[PlanItem]:
        """Read the items of a plan, leaving out those that cannot be read."""
        listed = enumerate(self.listed(value, path))
        return [read for index, item in listed for read in self.one(item, (*path, index), depth)]

    def one(self, value: object, path: Path, depth: int) -> list[PlanItem]:
        """Read an item that stands alone; an empty list if it cannot be read."""
        read: PlanItem | None = None
        with self.noting(path):
            read = self.item(value, path, depth)
        return [] if read is None else [read]

    def item(self, value: object, path: Path, depth: int) -> PlanItem | None:
        """Read one item."""
        if isinstance(value, (ToolCall, Expect, OneOf, Parallel, Forbid)):
            return value
        if not isinstance(value, Mapping) or depth > MAX_DEPTH:
            self.problem(path, f"expected a call, or one of {', '.join(_ITEMS)}; got {short_repr(value)}")
            return None
        kinds = [known for key in value if (known := _key(str(key))) in _ITEMS]
        conditions = [str(key) for key in value if _key(str(key)) in _CONDITIONS]
        if not kinds and conditions:
            message = f"a call with {conditions[0]!r} is written with 'expect' in the place of 'name'"
            self.problem(path, f"{message}: {{'expect': {value.get('name')!r}, ...}}")
            return None
        if not kinds:
            return ToolCall.model_validate(value)
        if len(kinds) > 1:
            self.problem(path, f"is {' and '.join(kinds)} at once; it can be one of them")
            return None
        kind = kinds[0]
        given = self.keys(value, kind, path)
        if kind == "expect":
            return self.expect(given, path)
        if kind == "forbid":
            return self.made(Forbid, self.name(given["forbid"], (*path, kind)), path, **self.call(given, path))
        order = {key: given[key] for key in ("label", "after") if given.get(key) is not None}
        if kind == "parallel":
            calls = self.items(given["parallel"], (*path, kind), depth + 1)
            with self.noting(path):
                return Parallel(*cast("list[Call | OneOf]", calls), **order)  # what it may not hold it refuses
            return None
        alternatives = [
            (self.items if isinstance(one, (list, tuple)) else self.one)(one, (*path, kind, index), depth + 1)
            for index, one in enumerate(self.listed(given["one_of"], (*path, kind)))
        ]
        with self.noting(path):
            return OneOf(*alternatives, **order)
        return None

    def expect(self, given: Mapping[str, Any], path: Path) -> Call | None:
        """Read an expected call."""
        options = {
            key: given[key]
            for key in ("type", "optional", "times", "label", "after", "extra_arguments")
            if given.get(key) is not None
        }
        for key in ("optional", "extra_arguments"):
            if not isinstance(options.get(key, False), bool):
                self.problem((*path, key), f"expected true or false, got {short_repr(options.pop(key))}")
        if "output" in given:
            options["output"] = self.tree(given["output"], (*path, "output"))
        return self.made(
            Expect, self.name(given["expect"], (*path, "expect")), path, **options, **self.call(given, path)
        )

    def call(self, given: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Read what `Expect` and `Forbid` both have."""
        found: dict[str, Any] = {}
        if "input_parameters" in given:
            found["input_parameters"] = self.tree(given["input_parameters"], (*path, "input_parameters"))
        if given.get("at") is not None:
            found["at"] = self.at(given["at"], (*path, "at"))
        return found

    def made(self, kind: Callable[..., T], name: Any, path: Path, **options: Any) -> T | None:
        """Return a call made of its parts, `None` if they do not fit."""
        with self.noting(path):
            return kind(name, **options)
        return None

    def name(self, value: Any, path: Path) -> Any:
        """Read a name, or a matcher of names."""
        return self.matcher(value, path) if isinstance(value, Mapping) else value

    def at(self, value: object, path: Path) -> dict[str, Matcher]:
        """Read matchers by place."""
        found = {place: self.matcher(one, (*path, place)) for place, one in self.mapping(value, path).items()}
        return {place: matcher for place, matcher in found.items() if matcher is not None}

    def tree(self, value: Any, path: Path) -> Any:
        """Read a value that may hold matchers."""
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
        """Read a matcher."""
        if isinstance(value, Matcher):
            return value
        name = value.get(MARK) if isinstance(value, Mapping) else None
        kind = MATCHERS.get(name) if isinstance(name, str) else None
        if kind is None:
            near = difflib.get_close_matches(str(name), MATCHERS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(MATCHERS))}"
            got = short_repr(value) if name is None else repr(name)
            wanted = f"expected a matcher, an object with {MARK!r}" if name is None else "there is no matcher"
            self.problem(path, f"{wanted}, got {got}" if name is None else f"{wanted} {got}{hint}")
            return None
        if kind is Predicate:
            if self.as_told:
                return Predicate(_lost, str(value.get("name") or ""))
            self.problem(path, "a predicate is a function, which JSON cannot hold; build this expectation in Python")
            return None
        known = [entry.name for entry in fields(kind) if entry.init]  # type: ignore[arg-type]
        options = {key: item for key, item in value.items() if key != MARK}
        for key in [key for key in options if key not in known]:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'no options'}"
            self.problem((*path, key), f"{name!r} has no option {key!r}; {hint}")
            del options[key]
        return self.built(kind, options, path)

    def built(self, kind: type[Matcher], options: dict[str, Any], path: Path) -> Matcher | None:
        """Return a matcher with its options."""
        for key in ("value", "values"):
            if key in options and kind is not Exact:
                options[key] = self.tree(options[key], (*path, key))
        needed = [entry.name for entry in fields(kind) if entry.init and entry.default is MISSING]  # type: ignore[arg-type]
        for key in needed:
            if key not in options:
                self.problem(path, f"{kind.kind!r} needs {key!r}")
                return None
        with self.noting(path):
            if kind is AnyOf:
                return AnyOf(*self.listed(options["values"], (*path, "values")))
            return kind(**options)
        return None

    def keys(self, value: Mapping[str, Any], kind: str, path: Path) -> dict[str, Any]:
        """Return the values of an object by toolmark's spelling of their keys, noting keys that are not known."""
        given: dict[str, Any] = {}
        for spelled, item in value.items():
            key = _key(str(spelled))
            if key not in _KEYS[kind]:
                near = difflib.get_close_matches(str(spelled), _KEYS[kind], n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                self.problem(
                    (*path, str(spelled)), f"unknown key {spelled!r}; {hint}known are {', '.join(_KEYS[kind])}"
                )
            elif key in given:
                self.problem((*path, str(spelled)), f"gives {key!r} a second time, under another name; give it once")
            else:
                given[key] = item
        return given

    def listed(self, value: object, path: Path) -> Sequence[Any]:
        """Return a list."""
        if isinstance(value, (list, tuple)):
            return value
        self.problem(path, f"expected a list, got {short_repr(value)}")
        return []

    def mapping(self, value: object, path: Path) -> Mapping[str, Any]:
        """Return an object."""
        if isinstance(value, Mapping):
            return value
        self.problem(path, f"expected an object, got {short_repr(value)}")
        return {}
