"""A value for each event loop: what waits for something belongs to one loop, and a judge may serve several."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Creates one value for each event loop, and drops it with the loop."""

    def __init__(self, create: Callable[[], T]) -> None:
        """Store how to create a value."""
        self._create = create
        self._lock = threading.Lock()
        self._values = WeakKeyDictionary[asyncio.AbstractEventLoop, T]()

    def get(self) -> T:
        """Return the value of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._values:
                for closed in [other for other in self._values if other.is_closed()]:  # a value may refer to its loop
                    del self._values[closed]
                self._values[loop] = self._create()
            return self._values[loop]

    def pop(self) -> T | None:
        """Remove the value of the running loop, and return it."""
        with self._lock:
            return self._values.pop(asyncio.get_running_loop(), None)
