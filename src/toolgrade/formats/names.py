"""Random suffixes of tool names, e.g. `search_agent_xg7c`, and the rule that strips them.

Some frameworks append an underscore and four random letters and digits to the names of agents that are called as tools,
new ones in every run. Stripping them is a guess: the same rule would make `parse_ipv4` and `parse_ipv6` one tool. So
it is done only on request, never to the name of a known tool, and every rewrite is reported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from toolgrade.calls import ToolCall

_SUFFIXED = re.compile(r"(?P<bare>.+)_(?P<suffix>[A-Za-z0-9]{4})", re.DOTALL)


def strip_suffix(name: str, known_names: Collection[str] = ()) -> str:
    """Return `name` without its random suffix: a last underscore and exactly four ASCII letters or digits.

    The suffix is stripped if it has both letters and digits, or if the bare name is a known tool. A known name stays as
    it is, and so does a name that is only a suffix. One suffix is stripped, never two.

    Args:
        name: The name as it was recorded.
        known_names: Names of tools that exist, e.g. of the available and of the expected ones.
    """
    match = _SUFFIXED.fullmatch(name)
    if match is None or name in known_names:
        return name
    bare, suffix = match["bare"], match["suffix"]
    mixed = not suffix.isdigit() and not suffix.isalpha()
    return bare if mixed or bare in known_names else name


def strip_suffixes(
    calls: Sequence[ToolCall], known_names: Collection[str] = ()
) -> tuple[list[ToolCall], dict[tuple[str, str], int]]:
    """Return the calls with `strip_suffix` applied to their names, and the number of calls of each rewrite."""
    renamed: list[ToolCall] = []
    rewrites: dict[tuple[str, str], int] = {}
    for call in calls:
        name = strip_suffix(call.name, known_names)
        if name != call.name:
            rewrites[call.name, name] = rewrites.get((call.name, name), 0) + 1
        renamed.append(call if name == call.name else call.model_copy(update={"name": name}))
    return renamed, rewrites


def describe_rewrites(rewrites: dict[tuple[str, str], int]) -> list[str]:
    """Return one sentence for each rewrite, in the order of the calls."""
    return [
        f"renamed {old!r} to {new!r}" + (f" ({count} calls)" if count > 1 else "")
        for (old, new), count in rewrites.items()
    ]


def suffix_warnings(rewrites: Iterable[tuple[str, str]], expected: Iterable[str]) -> list[str]:
    """Return a warning for each expected name that differs from a called one only by its suffix.

    An expected name never changes. An expected name with a suffix, such as one from a recording, therefore matches only
    a call with the very same suffix.
    """
    called = {new: old for old, new in rewrites}
    warnings: list[str] = []
    for name in dict.fromkeys(expected):
        bare = strip_suffix(name)
        if bare != name and bare in called:
            warnings.append(
                f"expected {name!r} and called {called[bare]!r} differ only in what looks like a random suffix; "
                f"expected names are compared as they stand: expect {bare!r} if both mean the same tool"
            )
    return warnings
