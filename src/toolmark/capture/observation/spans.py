"""Where in a run of plain Python does something happen? Spans, and the records that they tell.

A *span* is one call of an observed function. The context (a task's, or a thread's that was given one) knows the
innermost span; each knows the one round it. What happens is told to every record round it: that of the run, and those
of components that are scored by themselves, which are recorded as if each were a run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolmark._internal.json import json_text
from toolmark.calls import ToolCallType
from toolmark.capture.builder import RunBuilder
from toolmark.capture.records import Key, Outcome
from toolmark.capture.run_info import json_value
from toolmark.cases import LLMTestCase, Run, RunStatus
from toolmark.matching.json_compare import ABSENT

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_numbers = itertools.count(1)
_span: ContextVar[Span | None] = ContextVar("toolmark_span", default=None)


@dataclass(frozen=True, eq=False)
class Observable:
    """What `@observe` says of a function.

    Attributes:
        name: Name of the component, or of the tool.
        is_tool: Calls of it are tool calls.
        type: Who runs the tool.
        metrics: What scores it.
        source: Where in the program it stands.
    """

    name: str
    is_tool: bool = False
    type: ToolCallType | None = None
    metrics: tuple[object, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Component:
    """One time that a component which has metrics ran.

    Attributes:
        of: The function; the same object for all calls of it.
        case: What was observed, and said with `update_current_span`.
    """

    of: Observable
    case: LLMTestCase

    @property
    def name(self) -> str:
        """Name of the component."""
        return self.of.name

    @property
    def metrics(self) -> tuple[object, ...]:
        """What scores it."""
        return self.of.metrics


class Keeper(Protocol):
    """What a record needs of the recorder that keeps it."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while a record is changed or read."""
        ...

    def finished(self, record: Record, /) -> None:
        """A run has ended."""
        ...


class Record:
    """What was seen inside one span: of a run, or of a component that is scored by itself."""

    def __init__(
        self, recorder: Keeper, said: dict[str, Any], of: Observable | None, builder: RunBuilder, *, is_run: bool
    ) -> None:
        """Begin with nothing seen."""
        self.builder = builder
        self.recorder = recorder
        self.said = said
        self.of = of
        self.is_run = is_run
        self.components: list[Record] = []

    def run(self) -> Run:
        """Return what was seen, as a run."""
        with self.recorder.lock:
            return self.builder.build()

    def tell(self, what: Callable[[RunBuilder], object]) -> None:
        """Tell the builder; what goes wrong with that is a warning, and never the user's."""
        with self.recorder.lock:
            try:
                what(self.builder)
            except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
                self.builder.warn(f"something was not recorded: {error_text(error)}")

    def case(self, expected: Mapping[str, Any]) -> LLMTestCase:
        """Return it as a case: what was said of it, else what is `expected` of it, else what was observed."""
        case = self.run().to_test_case(name=None if self.of is None else self.of.name)
        return completed(case, {**expected, **self.said})


class Span:
    """One call of an observed function; a context that what is called inside belongs to."""

    def __init__(self, of: Observable | None, parent: Span | None) -> None:
        """Begin inside another one, with no records of its own."""
        self.of = of
        self.parent = parent
        self.key: Key = next(_numbers)
        self.said: dict[str, Any] = {}
        self.records: list[Record] = []
        self.app: Observable | None = None
        """Of a run's own span: the function that is called to answer; what is said in it is said of the run."""
        self._before: Span | None = None
        self._is_over = False

    def __enter__(self) -> Self:
        """Make it the innermost one. A generator enters each time that it goes on."""
        self._before = _span.get()
        _span.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave it; with an exception, that ended it."""
        _span.set(self._before)
        if error is not None:
            self.failed(error)

    def places(self) -> Iterator[tuple[Record, Key | None]]:
        """Yield every record that what happens here belongs to, with the tool that it happens in there."""
        tool: Key | None = None
        span: Span | None = self
        while span is not None:
            for record in span.records:
                yield record, tool
            if tool is None and span.of is not None and span.of.is_tool:
                tool = span.key
            span = span.parent

    def tell(self, what: Callable[[RunBuilder, Key | None], object]) -> None:
        """Tell every record of something that happens in this span."""
        for record, tool in self.places():
            record.tell(lambda builder, tool=tool: what(builder, tool))  # type: ignore[misc]

    def runs(self) -> list[Record]:
        """Return the records of the runs that this span is part of."""
        return [record for record, _ in self.places() if record.is_run]

    def started(self, arguments: Callable[[], dict[str, Any] | None], text: str | None = None) -> None:
        """The function was called; with `arguments` that are asked for where somebody is told them."""
        now = _now()
        handed = arguments() if self.records or (self.of is not None and self.of.is_tool) else None
        for record in self.records:
            record.tell(lambda builder: builder.started(_input(handed) if text is None else text, at=now))
        if (of := self.of) is not None and of.is_tool and self.parent is not None:
            self.parent.tell(
                lambda builder, tool: builder.tool_started(self.key, of.name, handed, scope=tool, type=of.type, at=now)
            )

    def returned(self, value: T) -> T:
        """The function returned this, which is handed back."""
        now = _now()
        if self._is_over:
            return value
        if self._is_tool_call():
            self.parent.tell(lambda builder, _: builder.tool_ended(self.key, value, at=now))  # type: ignore[union-attr]
        for record in self.records:
            record.tell(lambda builder: builder.ended(_answer(self.said, value), at=now))
        self._end()
        return value

    def failed(self, error: BaseException) -> None:
        """The function raised, was cancelled, or is a stream that nobody read to its end."""
        if self._is_over:
            return
        now, text = _now(), error_text(error)
        is_error = isinstance(error, Exception)
        if self._is_tool_call():
            outcome = Outcome.ERROR if is_error else Outcome.CANCELLED
            self.parent.tell(  # type: ignore[union-attr]
                lambda builder, _: builder.tool_failed(self.key, text, outcome=outcome, at=now)
            )
        status = RunStatus.ERROR if is_error else RunStatus.STOPPED
        for record in self.records:
            record.tell(lambda builder: builder.ended(status=status, error=text, at=now))
        self._end()

    def _is_tool_call(self) -> bool:
        return self.parent is not None and self.of is not None and self.of.is_tool

    def _end(self) -> None:
        """Hand over the runs that end with this span."""
        self._is_over = True
        for record in self.records:
            if record.is_run:
                record.recorder.finished(record)


def current() -> Span | None:
    """Return the innermost span of this context."""
    return _span.get()


def error_text(error: BaseException) -> str:
    """Return `"TypeName: text"`, also of an exception whose text cannot be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - it is anybody's code
        return type(error).__name__


def completed(case: LLMTestCase, more: Mapping[str, Any]) -> LLMTestCase:
    """Return a case with these fields in place of its own.

    Where a whole case was said and no calls in it (`tools_called` is ABSENT), and none were observed, they are unknown.
    """
    fields = {name: getattr(case, name) for name in case.model_fields_set} | dict(more)
    if fields.get("tools_called") is ABSENT:
        if case.tools_called:
            fields["tools_called"] = case.tools_called
        else:
            del fields["tools_called"]
    return LLMTestCase(**fields)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _input(arguments: Mapping[str, Any] | None) -> str | None:
    """Return the first argument that is text, else all of them as JSON text."""
    if not arguments:
        return None
    text = next((value for value in arguments.values() if isinstance(value, str)), None)
    return _text(arguments) if text is None else text


def _answer(said: Mapping[str, Any], value: object) -> str | None:
    answer = said.get("actual_output")
    return answer if isinstance(answer, str) else _text(value)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    plain, _ = json_value(value)
    return None if plain is ABSENT else json_text(plain)
