"""Tool doubles with fixed behavior: they add, are slow, fail, change their arguments, or hang."""

from __future__ import annotations

import asyncio
import base64
import functools
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

from toolgrade._internal.json import JsonObject
from toolgrade.calls import ToolSpec
from toolgrade.cases import MLLMImage

_PATIENCE = 10.0
_TICK = 0.002


@dataclass(frozen=True)
class ToolDouble:
    """A tool without a framework, to be wrapped in a framework's tool class.

    Attributes:
        name: Its name.
        description: What it does.
        function: Does it.
        input_schema: JSON Schema of its arguments.
        coroutine: Does it in an event loop; by default `function`, called there.
        needs_approval: A person must allow each call before it runs; the framework waits for that in its own way.

    Example:
        >>> from toolgrade.testing import ToolDouble
        >>> def get_weather(city: str, days: int = 1) -> str:
        ...     '''Return the weather in a city.'''
        ...     return f"sunny in {city}"
        >>> double = ToolDouble.of(get_weather, city="string", days="integer?")
        >>> double.description, double.input_schema["required"], double.function("Paris")
        ('Return the weather in a city.', ['city'], 'sunny in Paris')
    """

    name: str
    description: str
    function: Callable[..., Any]
    input_schema: JsonObject
    coroutine: Callable[..., Coroutine[Any, Any, Any]]
    needs_approval: bool = False

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        coroutine: Callable[..., Coroutine[Any, Any, Any]] | None = None,
        **arguments: str,
    ) -> ToolDouble:
        """Return a double of a function; `arguments` maps names to JSON types; the suffix `?` marks optional ones."""
        properties = {name: {"type": kind.rstrip("?")} for name, kind in arguments.items()}
        required = [name for name, kind in arguments.items() if not kind.endswith("?")]
        schema = {"type": "object", "properties": properties, "required": required}
        description = (function.__doc__ or function.__name__).splitlines()[0]

        @functools.wraps(function)
        async def called_in_a_loop(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
            return function(*args, **kwargs)

        return cls(function.__name__, description, function, schema, coroutine or called_in_a_loop)

    @property
    def spec(self) -> ToolSpec:
        """The specification for an agent."""
        return ToolSpec(name=self.name, description=self.description, input_schema=self.input_schema)


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def slow(x: int) -> str:
    """Sleep for `x` hundredths of a second."""
    time.sleep(x / 100)
    return f"slow {x}"


async def _slow(x: int) -> str:
    """Sleep for `x` hundredths of a second."""
    await asyncio.sleep(x / 100)
    return f"slow {x}"


def boom(x: int) -> str:
    """Fail."""
    raise ValueError(f"boom {x}")


def fill(form: dict) -> str:  # type: ignore[type-arg]  # some frameworks read the annotation, and know plain `dict`
    """Fill in a form, in place."""
    form["filled"] = True
    return "filled"


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


PICTURE_BYTES: Final = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
"""What `picture` returns: the signature of a PNG, and some bytes."""


def picture() -> MLLMImage:
    """Return a picture."""
    return MLLMImage(data=base64.b64encode(PICTURE_BYTES).decode(), mime_type="image/png")


ADD = ToolDouble.of(add, a="integer", b="integer?")
"""`add(a, b=2)` returns the sum."""

SLOW = ToolDouble.of(slow, _slow, x="integer")
"""`slow(x)` returns `"slow x"` after x hundredths of a second."""

BOOM = ToolDouble.of(boom, x="integer")
"""`boom(x)` raises `ValueError("boom x")`."""

FILL = ToolDouble.of(fill, form="object")
"""`fill(form)` changes its argument, and returns `"filled"`."""


PAY = replace(ToolDouble.of(pay, amount="integer"), needs_approval=True)
"""`pay(amount)` returns `"paid <amount>"`, when a person has allowed it."""

PICTURE = ToolDouble.of(picture)
"""`picture()` returns an `MLLMImage` of `PICTURE_BYTES`; an adapter's test returns it in the framework's form."""


def flaky_tool(failures: int = 1) -> ToolDouble:
    """Return a tool `flaky(x)` that first raises `ValueError("not yet")` `failures` times, then returns `"flaky x"`.

    Args:
        failures: Number of calls that fail.
    """
    left = [None] * failures

    def flaky(x: int) -> str:
        """Fail at first."""
        if left:
            left.pop()
            raise ValueError("not yet")
        return f"flaky {x}"

    return ToolDouble.of(flaky, x="integer")


class HangingTool:
    """A tool `hang(x)` that does not end until it is cancelled or released.

    Attributes:
        started: Set when it has begun.
        tool: The tool.
    """

    def __init__(self) -> None:
        """Create the tool."""
        self.started: threading.Event = threading.Event()
        self._released = threading.Event()

        def hang(x: int) -> str:
            """Do not end."""
            self.started.set()
            self._released.wait(_PATIENCE)
            return f"hung {x}"

        async def coroutine(x: int) -> str:
            """Do not end."""
            self.started.set()
            await _until(self._released)
            return f"hung {x}"

        self.tool: ToolDouble = ToolDouble.of(hang, coroutine, x="integer")

    async def begun(self) -> None:
        """Wait until it has started.

        Raises:
            TimeoutError: It did not begin.
        """
        await _until(self.started)

    def release(self) -> None:
        """Let it end."""
        self._released.set()


async def _until(event: threading.Event) -> None:
    """Wait in an event loop for an event that another thread or task sets."""
    deadline = time.monotonic() + _PATIENCE
    while not event.is_set():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing happened for {_PATIENCE:g} seconds")
        await asyncio.sleep(_TICK)
