"""Hooks that an adapter implements so that the contract can play scenes on its framework."""

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
    """The framework does not support something; a hook raises it with the reason."""


class PlantedFaultError(RuntimeError):
    """The exception that a recorder with a planted fault raises."""


@dataclass(frozen=True)
class Recorded:
    """Result of playing a scene.

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
    """A planted fault; `raised` counts how often it was raised."""

    raised: int = 0


class AdapterHooks:
    """Hooks for what differs between adapters. Only `arun` is required; other hooks give a reason if unsupported.

    Attributes:
        unsupported: For each test of the contract that the framework cannot pass as it stands, the reason. Its hooks
            raise `NotSupportedError`, or the test is overridden with what holds instead.
    """

    unsupported: ClassVar[Mapping[str, str]] = {}

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene on an agent of the framework, with the recorder attached.

        Whatever ends the agent is returned as `error`, not raised; also `asyncio.CancelledError`.
        """
        raise NotImplementedError

    def run(self, scene: Scene) -> Recorded:
        """Play a scene through the framework's synchronous API; by default `arun` in a new event loop."""
        return asyncio.run(self.arun(scene))

    async def astream(self, scene: Scene) -> Recorded:  # noqa: ARG002 - for those who override it
        """Play a scene through the framework's stream, read to its end; the answer is what was streamed."""
        raise NotSupportedError("this adapter does not implement how to stream: override `astream`")

    def run_many(self, scenes: Sequence[Scene]) -> Sequence[Run]:  # noqa: ARG002 - for those who override it
        """Play all scenes at the same time through one recorder, and return their runs, in any order."""
        raise NotSupportedError("this adapter does not implement how to run many at once: override `run_many`")

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:  # noqa: ARG002 - for those who override it
        """Play the scenes one after the other as one conversation with a memory."""
        raise NotSupportedError("this adapter does not implement how to converse: override `converse`")

    def error_text(self, error: Exception, *, handled: bool) -> str:  # noqa: ARG002 - for those who override it
        """Return a tool's exception as `execution.error` has it; the text alone if the framework hides the exception.

        Args:
            error: The exception.
            handled: The model was shown it, and the run went on; otherwise it ended the run.
        """
        return f"{type(error).__name__}: {error}"

    @contextmanager
    def plant_fault(self, observation: str) -> Generator[Fault, None, None]:
        """Make the recorder raise: by default whenever it reports this event to its `RunBuilder`.

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
