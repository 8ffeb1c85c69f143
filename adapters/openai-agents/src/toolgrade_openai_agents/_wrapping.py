"""Wrapped methods of objects that several runs share, such as MCP servers and tools.

An attribute is wrapped while a run uses its object, and restored when the last run that uses it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from toolgrade.capture import ForkSafeLock

_lock: Final = ForkSafeLock()
_users: Final[dict[tuple[int, str], tuple[Any, int]]] = {}
"""The wrapped objects by identity and attribute, each with the number of runs that use it."""


def wrap(holder: Any, name: str, make: Callable[[Any], Any]) -> bool:
    """Replace an attribute by what `make` makes of it; return whether the object allows that."""
    key = id(holder), name
    with _lock:
        users = _users.get(key)
        if users is not None:
            _users[key] = holder, users[1] + 1
            return True
        # An attribute of the instance must be put back; otherwise, deleting ours uncovers the class's.
        own = vars(holder).get(name) if hasattr(holder, "__dict__") else None
        wrapped = make(getattr(holder, name))
        wrapped.toolgrade_own = own
        try:
            setattr(holder, name, wrapped)
        except (AttributeError, TypeError, ValueError):  # an object that takes no attributes
            return False
        _users[key] = holder, 1
        return True


def unwrap(wrapped: Iterable[tuple[Any, str]]) -> None:
    """Release the objects of a run that ended, each with the name of its attribute."""
    with _lock:
        for holder, name in wrapped:
            key = id(holder), name
            _, uses = _users.pop(key, (holder, 0))
            if uses > 1:
                _users[key] = holder, uses - 1
            elif uses == 1:
                own = getattr(getattr(holder, name), "toolgrade_own", None)
                if own is not None:
                    setattr(holder, name, own)
                else:
                    delattr(holder, name)
