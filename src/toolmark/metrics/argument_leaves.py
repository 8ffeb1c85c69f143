"""Argument objects as their leaves: what every value that is no list or object is, and where it stands.

Two objects are as similar as the share of leaves that are equal, of the leaves that either has; lists go in by
position. So one wrong name in a list of five passengers costs one leaf, where the comparison of whole values would
count the list as wrong. An empty list or object inside is a leaf; an argument object without any leaf equals only
another such. Where one call has a redacted value, the whole of what other calls of the tool have there is one leaf, so
that it can be left out on both sides.

A matcher is one leaf, whatever it stands for, and so is what a call has in its place. Where all leaves of an expected
object may be missing, an empty object is such a one without them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolmark._internal.json import json_path
from toolmark.expect import Exact
from toolmark.matching.alignment import Alignment, Item, Pair
from toolmark.matching.argument_pattern import Mismatches, Ratio, Template, Wanted
from toolmark.matching.json_compare import ABSENT, Absent, Path
from toolmark.matching.plan import Layout
from toolmark.matching.plan_slots import Want
from toolmark.matching.redacted_values import has_mark, place


def flattened(*sides: Sequence[Item]) -> tuple[list[list[Item]], dict[str, Path]]:
    """Return calls whose argument objects have one key for each leaf, and the path that each key stands for.

    Args:
        sides: The calls that are compared with each other.
    """
    marked = _marked(item for side in sides for item in side)
    paths: dict[str, Path] = {}

    def flat(item: Item) -> Item:
        if not isinstance(item.arguments, dict):
            return item
        found = _flat(item.arguments, marked.get(item.name, ()))
        paths.update((key, path) for key, (path, _) in found.items())
        return item._replace(arguments=_values(found))

    return [[flat(item) for item in side] for side in sides], paths


def unfolded(alignment: Alignment, paths: Mapping[str, Path]) -> Alignment:
    """Return an alignment of flattened calls with the paths that the arguments have in the calls."""
    places = {place("input_parameters", (key,)): place("input_parameters", path) for key, path in paths.items()}

    def pair(found: Pair) -> Pair:
        differences = tuple(
            replace(one, path=paths[str(one.path[0])]) if one.path else one for one in found.differences
        )
        hidden = tuple(places.get(name, name) for name in found.redacted)
        not_compared = tuple(places.get(name, name) for name in found.not_compared)
        return replace(found, differences=differences, redacted=hidden, not_compared=not_compared)

    return replace(
        alignment,
        pairs=tuple(map(pair, alignment.pairs)),
        out_of_order=tuple(map(pair, alignment.out_of_order)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class LeafTemplate(Template):
    """An expected argument object that is compared leaf by leaf; its tree has one key for each leaf.

    Attributes:
        paths: The path that each key stands for.
        whole: Where whatever a call has is one leaf.
        may_be_empty: Where an empty object is no leaf.
        named: Keys at the top of the object beside which others are left out; `None` if others count as wrong.
    """

    paths: Mapping[str, Path] = field(default_factory=dict[str, Path])
    whole: frozenset[Path] = frozenset()
    may_be_empty: frozenset[Path] = frozenset()
    named: frozenset[str] | None = None

    @classmethod
    def of(cls, wanted: Mapping[str, Any] | Template, marked: frozenset[Path]) -> LeafTemplate:
        """Return expected arguments as leaves.

        Args:
            wanted: The arguments.
            marked: Where calls of the tool are redacted.
        """
        tree, extras = (wanted.tree, wanted.extras) if isinstance(wanted, Template) else (wanted, False)
        flat = _flat(tree, marked)
        return cls(
            _values(flat),
            paths={key: path for key, (path, _) in flat.items()},
            whole=marked | {path for path, want in flat.values() if isinstance(want, Wanted)},
            may_be_empty=_optional_objects(flat.values()),
            named=frozenset(tree) if extras else None,
        )

    def ratio(self, called: dict[str, Any]) -> Ratio:
        """Return the share of leaves that agree; redacted ones are left out."""
        return Template(self.tree).ratio(_values(self._of_call(called)))

    def mismatches(self, called: dict[str, Any]) -> Mismatches:
        """Return every place where a called argument object differs, or cannot be compared."""
        made = self._of_call(called)
        seen = Template(self.tree).mismatches(_values(made))
        paths = {**self.paths, **{key: path for key, (path, _) in made.items()}}
        return Mismatches(
            [replace(one, path=paths[str(one.path[0])]) for one in seen.differences],
            [paths[str(path[0])] for path in seen.hidden],
        )

    def _of_call(self, called: dict[str, Any]) -> _Flat:
        kept = called if self.named is None else {key: called[key] for key in called if key in self.named}
        return {
            key: (path, leaf)
            for key, (path, leaf) in _flat(kept, self.whole).items()
            if leaf != {} or path not in self.may_be_empty
        }


def by_leaves(layout: Layout, called: Sequence[Item]) -> Layout:
    """Return a way of a plan whose arguments are compared leaf by leaf.

    Args:
        layout: The way.
        called: The calls that it is compared with.
    """
    wants = [want for entry in layout.entries for want in entry.wants]
    marked = _marked([*called, *(want.item for want in wants if want.pattern is None)])

    def changed(want: Want) -> Want:
        wanted = want.item.arguments
        if isinstance(wanted, Absent):
            return want
        whole = frozenset({path for name, paths in marked.items() if want.named(name) for path in paths})
        return want._replace(item=want.item._replace(arguments=LeafTemplate.of(wanted, whole)))

    entries = (entry._replace(wants=tuple(map(changed, entry.wants))) for entry in layout.entries)
    return replace(layout, entries=tuple(entries))


_Flat = dict[str, tuple[Path, Any]]
"""Leaves with their paths, by the JSON path: a key is not a position, even where they look alike."""


def _flat(arguments: Mapping[str, Any], whole: Container[Path]) -> _Flat:
    return {json_path(path): (path, leaf) for path, leaf in _leaves(arguments, whole)}


def _values(flat: _Flat) -> dict[str, Any]:
    return {key: leaf for key, (_, leaf) in flat.items()}


def _marked(items: Iterable[Item]) -> dict[str, set[Path]]:
    """Return where calls of each tool have redacted leaves."""
    found: dict[str, set[Path]] = {}
    for item in items:
        arguments = item.arguments
        if isinstance(arguments, Template):
            tree = arguments.tree  # `Exact` may hide a mark from a look at the whole
        elif isinstance(arguments, dict) and has_mark(arguments):
            tree = arguments
        else:
            continue
        found.setdefault(item.name, set()).update(path for path, leaf in _leaves(tree) if has_mark(leaf))
    return found


def _optional_objects(leaves: Iterable[tuple[Path, Any]]) -> frozenset[Path]:
    """Return where the objects stand of which each leaf may be missing."""
    found: dict[Path, bool] = {}
    for path, want in leaves:
        missing = isinstance(want, Wanted) and want.credit(ABSENT) is None
        for end in range(1, len(path)):
            if isinstance(path[end], str):
                found[path[:end]] = found.get(path[:end], True) and missing
    return frozenset({path for path, missing in found.items() if missing})


def _leaves(arguments: Mapping[str, Any], whole: Container[Path] = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each leaf with its path, in the order in which they are written; without recursion, for deep values.

    What stands at a place of `whole` is one leaf whatever it is.
    """
    ahead: list[Iterator[tuple[Path, Any]]] = [iter([((key,), value) for key, value in arguments.items()])]
    while ahead:
        found = next(ahead[-1], None)
        if found is None:
            ahead.pop()
            continue
        path, value = found
        while isinstance(value, Exact):
            value = value.value
        if path in whole:
            yield path, value
        elif isinstance(value, dict) and value:
            ahead.append(iter([((*path, key), inner) for key, inner in value.items()]))
        elif isinstance(value, list) and value:
            ahead.append(iter([((*path, index), inner) for index, inner in enumerate(value)]))
        else:
            yield path, value
