"""A model that answers from a script."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from toolgrade._internal.json import as_text
from toolgrade.errors import ToolgradeError

StepT = TypeVar("StepT")


class ScriptEndedError(ToolgradeError):
    """A scripted model was called more often than its script has steps."""


def in_pieces(text: str, size: int = 4) -> list[str]:
    """Return a text in pieces of at most `size` characters, as a streaming model sends it; none for an empty text."""
    return [text[start : start + size] for start in range(0, len(text), size)]


@dataclass(frozen=True, slots=True)
class AskFor:
    """A request of the model to call a tool.

    Attributes:
        name: Name of the tool.
        arguments: The argument object, or the raw text that the model writes instead.
        id: Id of the call; may be empty, and may repeat.

    Example:
        >>> from toolgrade.testing import AskFor, ScriptedModel
        >>> weather = AskFor("get_weather", {"city": "Paris"}, "c1")
        >>> broken = AskFor("get_weather", '{"city": "Par')  # text that is not JSON, as models write it at times
        >>> [call.arguments_text for call in ScriptedModel([weather, broken]).next_step().calls]
        ['{"city": "Paris"}', '{"city": "Par']
    """

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON text, or the raw text."""
        return as_text(self.arguments)


@dataclass(frozen=True, slots=True)
class HandOff:
    """A request of the model to hand over to another agent, in the form of the framework.

    Attributes:
        to: Name of the agent.
        id: The id of the call.

    Example:
        >>> from toolgrade.testing import HandOff, ScriptedModel
        >>> model = ScriptedModel("I pass you on.", [HandOff("travel agent", id="h1")])
        >>> model.next_step().text, model.next_step().calls[0].to
        ('I pass you on.', 'travel agent')
    """

    to: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of a model.

    Attributes:
        text: Its text; `None` if it only requests calls.
        calls: The requested calls in order.
        error: An exception that it raises instead.
        delay: Seconds that the caller of the script waits.

    Example:
        >>> from toolgrade.testing import AskFor, ScriptedModel, Step
        >>> weather = AskFor("get_weather", {"city": "Paris"})
        >>> model = ScriptedModel(Step("I look it up.", calls=(weather,)), "It is sunny.")
        >>> step = model.next_step()
        >>> step.text, step.calls[0].name
        ('I look it up.', 'get_weather')
        >>> model.next_step().chunks(6)
        ['It is ', 'sunny.']
    """

    text: str | None = None
    calls: tuple[AskFor | HandOff, ...] = ()
    error: Exception | None = None
    delay: float = 0.0

    @classmethod
    def of(cls, step: StepLike) -> Step:
        """Return text, calls or an exception as a `Step`."""
        if isinstance(step, Step):
            return step
        if isinstance(step, str):
            return cls(text=step)
        if isinstance(step, Exception):
            return cls(error=step)
        return cls(calls=tuple(step))

    def chunks(self, size: int = 4) -> list[str]:
        """Return the text in pieces of at most `size` characters, for a model that streams; none without text."""
        return in_pieces(self.text or "", size)


StepLike: TypeAlias = "Step | str | Exception | Sequence[AskFor | HandOff]"
"""A step, or its short form: text, a list of calls, or what the model raises."""


class Script(Generic[StepT]):
    """Steps that are handed out one after the other, each once; thread-safe."""

    def __init__(self, steps: Iterable[StepT]) -> None:
        """Store the steps."""
        self.steps: tuple[StepT, ...] = tuple(steps)
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Number of steps that were used."""
        return self._used

    def take(self) -> StepT:
        """Return the next step.

        Raises:
            ScriptEndedError: All steps were used.
        """
        with self._lock:
            if self._used >= len(self.steps):
                problem = f"the model was asked {self._used + 1} times, but its script has {len(self.steps)} steps"
                raise ScriptEndedError(f"{problem}; add what it should say next")
            self._used += 1
            return self.steps[self._used - 1]


class ScriptedModel(Script[Step]):
    """Answers with the steps of a script one after the other, for any input.

    To be wrapped in a framework's own model class. One is for one run; runs at the same time need one each. Its steps
    are given out under a lock, since some frameworks ask from several threads.

    Example:
        >>> from toolgrade.testing import AskFor, ScriptedModel
        >>> model = ScriptedModel([AskFor("get_weather", {"city": "Paris"}, "c1")], "It is sunny in Paris.")
        >>> model.next_step().calls
        (AskFor(name='get_weather', arguments={'city': 'Paris'}, id='c1'),)
        >>> model.next_step().text
        'It is sunny in Paris.'
        >>> model.used
        2
    """

    def __init__(self, *steps: StepLike) -> None:
        """Keep the steps.

        Args:
            steps: Text is an answer, a list of `AskFor` and `HandOff` is a message that asks for them, and an
                exception is raised.
        """
        super().__init__(Step.of(step) for step in steps)

    def next_step(self) -> Step:
        """Return the next step, or raise what it says should be raised; its `delay` is the caller's to wait.

        Raises:
            ScriptEndedError: All steps were used.
        """
        step = self.take()
        if step.error is not None:
            raise step.error
        return step
