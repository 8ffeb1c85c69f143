"""Argument objects as leaves: two of them are as similar as the share of their leaves that are equal.

List items are compared by position. One wrong name in a list of five passengers then costs one leaf instead of the
whole list. An empty list or object inside is a leaf; an argument object without leaves equals only another one without
leaves. A matcher is one leaf, and so is the value that it is compared with.

An argument object is compared as one with a key for each leaf, its JSON path; differences have the real paths.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolgrade._internal.json import json_items, json_path
from toolgrade.expect.matcher import Exact
from toolgrade.matching.alignment import CallItem, CallPattern
from toolgrade.matching.argument_pattern import Mismatches, Ratio, Template, ValuePattern, holds_matcher
from toolgrade.matching.engine import Layout
from toolgrade.matching.json_compare import ABSENT, AbsentType, Path, has_mark

_Leaves = dict[str, tuple[Path, Any]]
"""Leaves with their paths, by JSON path: as keys, `("a", 0)` and `("a", "0")` must differ."""


@dataclass(frozen=True, slots=True, eq=False)
class LeafTemplate(Template):
    """An expected argument object that is compared leaf by leaf; its tree has one key for each leaf."""

    paths: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """The path of each key of the tree."""
    single_leaves: frozenset[Path] = frozenset()
    """Where any value of a call, even a list or an object, is one leaf."""
    may_be_empty: frozenset[Path] = frozenset()
    """Where an empty object is not a leaf, because the matchers inside accept that there is nothing."""
    whole: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The argument object before it was taken apart, without `Exact`."""
    top_keys: frozenset[str] | None = None
    """Keys to which a call is reduced before it is compared; `None` to count other keys as wrong."""

    @classmethod
    def by_leaves(cls, arguments: Mapping[str, Any] | Template, redacted: frozenset[Path]) -> LeafTemplate:
        """Return expected arguments as leaves; `redacted` is where calls of the tool have redacted values."""
        template = Template.of(arguments)
        leaves = _leaves_of(template.tree, redacted)
        matchers = {path for path, value in leaves.values() if isinstance(value, ValuePattern)}
        return cls(
            _leaf_values(leaves),
            paths={key: path for key, (path, _) in leaves.items()},
            single_leaves=redacted | matchers,
            may_be_empty=_optional_objects(leaves.values()),
            whole=_without_exact(template.tree),
            top_keys=frozenset(template.tree) if template.extras else None,
            by_meaning=template.by_meaning,
        )

    def only_object(self) -> Mapping[str, Any] | None:
        """Return the argument object that alone fits; `None` if a matcher or an extra key leaves room for others."""
        return None if self.top_keys is not None or holds_matcher(self.whole) else self.whole

    def ratio(self, called: dict[str, Any]) -> Ratio:
        """Return the share of leaves that agree, without redacted ones."""
        return Template(self.tree).ratio(_leaf_values(self._called_leaves(called)))

    def mismatches(self, called: dict[str, Any]) -> Mismatches:
        """Return every place where a called argument object differs or cannot be compared."""
        leaves = self._called_leaves(called)
        flat = Template(self.tree).mismatches(_leaf_values(leaves))
        paths = {**self.paths, **{key: path for key, (path, _) in leaves.items()}}
        return Mismatches(
            [one._replace(path=paths[str(one.path[0])]) for one in flat.differences],
            [paths[str(path[0])] for path in flat.hidden],
            [one._replace(path=paths[str(one.path[0])]) for one in flat.respelled],
        )

    def _called_leaves(self, called: dict[str, Any]) -> _Leaves:
        if self.top_keys is not None:
            called = {key: value for key, value in called.items() if key in self.top_keys}
        leaves = _leaves_of(called, self.single_leaves)
        return {key: leaf for key, leaf in leaves.items() if leaf[1] != {} or leaf[0] not in self.may_be_empty}


def by_leaves(layout: Layout, called: Sequence[CallItem]) -> Layout:
    """Return a variant of a plan whose arguments are compared with those of the calls leaf by leaf."""
    patterns = [pattern for entry in layout.entries for pattern in entry.patterns]
    redacted = _redacted_paths([*called, *(pattern.item for pattern in patterns if pattern.pattern is None)])

    def flat(pattern: CallPattern) -> CallPattern:
        arguments = pattern.item.arguments
        if isinstance(arguments, (AbsentType, str)):
            return pattern
        paths = frozenset[Path]().union(*(marked for name, marked in redacted.items() if pattern.named(name)))
        return pattern._replace(item=pattern.item._replace(arguments=LeafTemplate.by_leaves(arguments, paths)))

    entries = tuple(entry._replace(patterns=tuple(map(flat, entry.patterns))) for entry in layout.entries)
    return replace(layout, entries=entries)


def _leaves_of(arguments: Mapping[str, Any], single_leaves: Container[Path]) -> _Leaves:
    return {json_path(path): (path, leaf) for path, leaf in _walk_leaves(arguments, single_leaves)}


def _leaf_values(leaves: _Leaves) -> dict[str, Any]:
    return {key: leaf for key, (_, leaf) in leaves.items()}


def _redacted_paths(items: Iterable[CallItem]) -> dict[str, set[Path]]:
    """Return where calls of each tool have redacted leaves, so that other calls have one leaf there to leave out."""
    paths: dict[str, set[Path]] = {}
    for item in items:
        is_template = isinstance(item.arguments, Template)
        tree: Any = getattr(item.arguments, "tree", item.arguments)
        # `has_mark` does not look into the `Exact` of a template, the walk does.
        if is_template or (isinstance(tree, dict) and has_mark(tree)):
            paths.setdefault(item.name, set()).update(path for path, leaf in _walk_leaves(tree) if has_mark(leaf))
    return paths


def _without_exact(value: Any) -> Any:  # noqa: ANN401 - an expected value
    while isinstance(value, Exact):
        value = value.value
    if isinstance(value, Mapping):
        return {key: _without_exact(item) for key, item in value.items()}
    return list(map(_without_exact, value)) if isinstance(value, list) else value


def _optional_objects(leaves: Iterable[tuple[Path, Any]]) -> frozenset[Path]:
    """Return the paths of objects all of whose leaves may be missing."""
    optional: dict[Path, bool] = {}
    for path, value in leaves:
        may_be_missing = isinstance(value, ValuePattern) and value.credit(ABSENT) is None
        for end in range(1, len(path)):
            if isinstance(path[end], str):
                optional[path[:end]] = optional.get(path[:end], True) and may_be_missing
    return frozenset(path for path, is_optional in optional.items() if is_optional)


def _walk_leaves(arguments: Mapping[str, Any], single_leaves: Container[Path] = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each leaf with its path in written order; a value at one of `single_leaves` is a leaf whatever its type."""
    # A stack instead of recursion: arguments may be nested deeper than Python's recursion limit allows.
    stack: list[tuple[Path, Any]] = [((key,), arguments[key]) for key in reversed([*arguments])]
    while stack:
        path, value = stack.pop()
        while isinstance(value, Exact):
            value = value.value
        if path in single_leaves or not value or not isinstance(value, (dict, list)):
            yield path, value
        else:
            stack.extend(reversed([((*path, key), item) for key, item in json_items(value)]))
