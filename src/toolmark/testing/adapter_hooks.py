"""What an adapter implements so that the contract can play scenes on its framework."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from toolmark.capture import RunBuilder
from toolmark.cases import ConversationalTestCase, Run
from toolmark.errors import ToolmarkError
from toolmark.testing.scene import Scene


class NotSupportedError(ToolmarkError):
    """A framework has no such thing; raised by a hook, with the reason."""


class PlantedFaultError(RuntimeError):
    """What a recorder in which a fault was planted raises inside."""


@dataclass(frozen=True)
class Recorded:
    """What came of playing a scene.

    Attributes:
        run: What the adapter recorded.
        answer: What the caller of the agent got.
        error: What the caller had to catch instead, cancellation included.
    """

    run: Run
    answer: str | None = None
    error: BaseException | None = None


@dataclass
class Fault:
    """A fault that was planted; `raised` counts how often something ran into it."""

    raised: int = 0


class AdapterHooks:
    """What differs between adapters. Only `arun` must be written; a hook that is not offered says why.

    Attributes:
        unsupported: For each test of the contract that the framework cannot pass as it stands, the reason. Its hooks
            raise `NotSupportedError`, or the test is overridden to say what holds in its place.
    """

    unsupported: ClassVar[Mapping[str, str]] = {}

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene on an agent of the framework, with the recorder attached.

        Whatever ends the agent is returned as `error`, not raised; also `asyncio.CancelledError`.
        """
        raise NotImplementedError

    def run(self, scene: Scene) -> Recorded:
        """The same through the framework's synchronous way; by default `arun` in an event loop of its own."""
        return asyncio.run(self.arun(scene))

    async def astream(self, scene: Scene) -> Recorded:  # noqa: ARG002 - for those who override it
        """The same through the framework's stream, read to its end; the answer is what was streamed."""
        raise NotSupportedError("this adapter does not say how to stream: override `astream`")

    def run_many(self, scenes: Sequence[Scene]) -> Sequence[Run]:  # noqa: ARG002 - for those who override it
        """Play all scenes at the same time through one recorder, and return their runs, in any order."""
        raise NotSupportedError("this adapter does not say how to run many at once: override `run_many`")

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:  # noqa: ARG002 - for those who override it
        """Play the scenes one after the other as one conversation, in which the agent remembers what was said."""
        raise NotSupportedError("this adapter does not say how to converse: override `converse`")

    def error_text(self, error: Exception, *, handled: bool) -> str:  # noqa: ARG002 - for those who override it
        """How a tool's exception reads in `execution.error`; the text alone where a framework hides the exception.

        Args:
            error: The exception.
            handled: The model was shown it, and the run went on; otherwise it ended the run.
        """
        return f"{type(error).__name__}: {error}"

    @contextmanager
    def plant_fault(self, observation: str) -> Generator[Fault, None, None]:
        """Make the recorder raise inside: by default wherever it tells its `RunBuilder` of this observation.

        Args:
            observation: Name of a method of `RunBuilder`.
        """
        fault = Fault()
        whole = getattr(RunBuilder, observation)

        def broken(*_args: object, **_kwargs: object) -> None:
            fault.raised += 1
            raise PlantedFaultError(f"a fault was planted in {observation!r}")

        setattr(RunBuilder, observation, broken)
        try:
            yield fault
        finally:
            setattr(RunBuilder, observation, whole)
