"""Doubles of tools: what answers a call while a recording is replayed, in place of the tool itself.

`toolgrade.replay` opens tapes; `@observe` and the adapters ask here before they run a tool of the user:

```python
double = ask_tape("pay", {"amount": 5})
if double is None:  # no tape is open, or the tool is part of one that runs
    return run_the_tool()
if isinstance(double, Answer):
    return the_frameworks_form_of(double)
with double.running():
    output = run_the_tool()
    double.returned(output)
return output
```
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from toolgrade._internal.locks import ForkSafeLock
from toolgrade.calls import ToolCall
from toolgrade.cases import Run
from toolgrade.errors import ReplayError
from toolgrade.matching.json_compare import ABSENT

__all__ = ["Answer", "RunningTool", "answer_to", "ask_tape", "is_replaying"]

GROUP: Final = "toolgrade.replay"
"""The entry points of functions that let the tools of a framework ask for doubles, and return how to undo that."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What answers a call in place of its tool.

    Attributes:
        output: What the tool returned; `ABSENT` if it failed.
        model_output: What the model received, if that differed.
        artifact: What the tool returned in addition.
        error: Text of its failure, `"TypeName: text"`.
        left: Why the recording has no answer; the model is told so in place of an output.
        delay: Seconds to wait first.
        children: Calls that were recorded inside this one.
        warning: A remark for the run.
        raised: The very exception to raise.

    Example:
        >>> from toolgrade.capture.doubles import Answer
        >>> Answer({"temperature": 21}, model_output="21 degrees").shown
        '21 degrees'
        >>> Answer(error="TimeoutError: no answer").exception()
        TimeoutError('no answer')
        >>> Answer(left="left the recording at call 1: pay {}").failure
        'ReplayError: left the recording at call 1: pay {}'
    """

    output: Any = ABSENT
    model_output: Any = ABSENT
    artifact: Any = None
    error: str | None = None
    left: str | None = None
    delay: float = 0.0
    children: tuple[ToolCall, ...] = ()
    warning: str | None = None
    raised: Exception | None = None

    @property
    def failure(self) -> str | None:
        """Text of the failure, also of a call that the recording does not answer."""
        return self.error if self.left is None else f"ReplayError: {self.left}"

    @property
    def shown(self) -> Any:  # noqa: ANN401 - a JSON value
        """What the model received."""
        return self.output if self.model_output is ABSENT else self.model_output

    def exception(self) -> Exception | None:
        """Return the failure as an exception, `None` if there is none; see `exception_of`."""
        if self.raised is not None:
            return self.raised.with_traceback(None)
        if self.left is not None:
            return ReplayError(self.left)
        return None if self.error is None else exception_of(self.error)


Refuse: TypeAlias = Callable[[Answer], "str | None"]
"""Says why an answer cannot be given, `None` if it can."""


class RunningTool(Protocol):
    """A tool that runs although a tape is open, because the tape's mode says so.

    Example:
        >>> from toolgrade.capture.doubles import ask_tape
        >>> from toolgrade.replay import replay
        >>> with replay([], record_mode="all") as tape:
        ...     double = ask_tape("add", {"a": 1})
        ...     with double.running():
        ...         double.returned(1 + 2)
        >>> [(call.name, call.output) for run in tape.runs for call in run.calls]
        [('add', 3)]
    """

    def running(self) -> Any:  # noqa: ANN401 - a context manager
        """Return a context manager around the run; what the tool itself calls is part of it. It notes exceptions."""

    def returned(self, output: object, *, model_output: object = ABSENT, artifact: object = None) -> None:
        """Note what the tool returned, in the form in which a recorder notes it."""

    def failed(self, error: str, *, model_output: object = ABSENT, artifact: object = None) -> None:
        """Note a failure that was no exception, and what the model received."""


class Cursor(Protocol):
    """The place in a recording where one run of an agent is."""

    @property
    def tape(self) -> Any:  # noqa: ANN401 - a tape, in a package above this one
        """The tape that is open."""

    def ask(
        self, name: str, arguments: Mapping[str, Any], *, runs_agent: bool, refuse: Refuse | None
    ) -> Answer | RunningTool:
        """Return what answers a call."""
        ...

    def checked(self, run: Run) -> Run:
        """Return a run of this agent; if it shows none of the calls that left the recording, these are added."""
        ...


_cursor: Final[ContextVar[Cursor | Literal["inside"] | None]] = ContextVar("toolgrade_tape_cursor", default=None)
"""The cursor that answers the calls of this context; `"inside"` if they are made by a tool that runs, and run, too."""
_open: Final[list[Any]] = []
"""The tapes that are open, in any thread."""
_undo: Final[list[Callable[[], object]]] = []
"""What undoes the patches of the frameworks, in the order in which they were made."""
_answers: Final[dict[object, Answer]] = {}
"""What answered the executions that have a key in their framework, for recorders; empty without a tape."""
_lock: Final = ForkSafeLock()


def is_replaying() -> bool:
    """Return whether any tape is open in this process.

    Example:
        >>> from toolgrade.capture.doubles import is_replaying
        >>> from toolgrade.replay import replay
        >>> with replay([]):
        ...     print(is_replaying())
        True
        >>> is_replaying()
        False
    """
    return bool(_open)


def may_be_replayed() -> bool:
    """Return whether a call of a tool must ask first: a tape is open, or was when this context began."""
    return bool(_open) or _cursor.get() is not None


def ask_tape(
    name: str,
    arguments: Mapping[str, Any],
    *,
    key: object = None,
    runs_agent: bool = False,
    refuse: Refuse | None = None,
) -> Answer | RunningTool | None:
    """Return what to do about a call of a tool; `None` if it runs as if there was no tape.

    Args:
        name: Name of the tool.
        arguments: The arguments, as a recorder notes them.
        key: Key of this execution, by which a recorder finds the answer again; see `answer_to`.
        runs_agent: The tool runs an agent, whose own tools ask here, and nothing else.
        refuse: Says why the framework cannot give a recorded answer, `None` if it can.

    Raises:
        ReplayError: A tape is open, and not in this context, such as in a plain thread.

    Example:
        >>> from toolgrade import Run, ToolCall
        >>> from toolgrade.capture.doubles import ask_tape
        >>> from toolgrade.replay import replay
        >>> call = ToolCall(name="add", input_parameters={"a": 1}, output=3)
        >>> with replay([Run(calls=[call])]):
        ...     print(ask_tape("add", {"a": 1}).output)
        3
        >>> print(ask_tape("add", {"a": 1}))
        None
    """
    cursor = _cursor.get()
    if cursor == "inside" or (cursor is None and not _open):
        return None
    if cursor is None or cursor.tape not in _open:
        if any(tape.allow_outside for tape in _open.copy()):
            return None
        message = (
            f"{name} was called where no tape is visible, or no longer, and did not run; start threads with "
            "contextvars.copy_context().run or asyncio.to_thread, and wait for them inside the replay, or let such "
            "calls run with replay(..., allow_outside=True)"
        )
        for tape in _open.copy():
            tape.refused(name, message)
        raise ReplayError(message)
    double = cursor.ask(name, arguments, runs_agent=runs_agent, refuse=refuse)
    if isinstance(double, Answer) and key is not None:
        _answers[key] = double
    return double


def answer_to(key: object) -> Answer | None:
    """Return what answered the execution with this key; `None` if its tool ran.

    Example:
        >>> from toolgrade import Run, ToolCall
        >>> from toolgrade.capture.doubles import answer_to, ask_tape
        >>> from toolgrade.replay import replay
        >>> with replay([Run(calls=[ToolCall(name="now", output="noon")])]):
        ...     answer = ask_tape("now", {}, key="run 1")
        ...     print(answer_to("run 1") is answer, answer_to("run 2"))
        True None
    """
    return _answers.get(key)


@contextmanager
def at(cursor: Cursor | None) -> Generator[None, None, None]:
    """Let the calls in this block ask this cursor; with `None`, a tool makes them that runs, so they run, too."""
    # Not a token of the context variable: a fixture may end in another context than it began in.
    earlier = _cursor.get()
    _cursor.set("inside" if cursor is None else cursor)
    try:
        yield
    finally:
        _cursor.set(earlier)


@contextmanager
def opened(tape: Any) -> Generator[None, None, None]:  # noqa: ANN401 - as `Cursor.tape`
    """Open a tape: all tools of the process ask for doubles from now until the last tape is closed."""
    with _lock:
        if not _open:
            _patch()
        _open.append(tape)
    try:
        yield
    finally:
        with _lock:
            _open.remove(tape)
            if not _open:
                _unpatch()
                _answers.clear()


@contextmanager
def run_of(golden: object) -> Generator[Cursor | None, None, None]:
    """Open a cursor of its own for one run of an agent on a golden, if a tape is open in this context; yield it."""
    cursor = _cursor.get()
    if cursor is None or cursor == "inside" or cursor.tape not in _open:
        yield None
    else:
        with cursor.tape.run(golden) as own:
            yield own


def exception_of(text: str) -> Exception:
    """Return the exception that a text names, as `"TypeName: text"`.

    It has the type of that name if that is built in, or if one loaded module has such a type, and the type can be made
    of the text alone. Otherwise it is a `ReplayError` of that name.

    Example:
        >>> from toolgrade.capture.doubles import exception_of
        >>> exception_of("TimeoutError: no answer")
        TimeoutError('no answer')
        >>> error = exception_of("PaymentDeclined: no funds")
        >>> type(error).__name__, str(error), isinstance(error, ReplayError)
        ('PaymentDeclined', 'no funds', True)
    """
    name, _, detail = text.partition(": ")
    kinds = _types_named(name)
    if not name.isidentifier() or (name == text and not kinds):
        return ReplayError(text)
    for kind in kinds:
        for argument in (detail, detail[1:-1]):  # `KeyError` shows its key in quotation marks
            try:
                error = kind(argument) if argument else kind()
                if str(error) == detail:
                    return error
            except Exception:  # noqa: BLE001, S112 - a type may need more than a text
                continue
    return type(name, (ReplayError,), {"__module__": __name__})(detail)  # type: ignore[no-any-return]


def _patch() -> None:
    """Let the tools of each installed framework ask for doubles."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - not loaded with every recorder

    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            undo: Callable[[], object] | None = point.load()()
        except Exception as error:
            _unpatch()
            message = f"{point.value} cannot replace the tools of {point.name}, so they would run: {error!r}"
            raise ReplayError(f"{message}; repair or uninstall {getattr(point.dist, 'name', point.name)}") from error
        if undo is not None:
            _undo.append(undo)


def _unpatch() -> None:
    while _undo:
        _undo.pop()()


def _types_named(name: str) -> list[type[Exception]]:
    """Return the one type of exceptions with this name in a list; an empty list if there is none, or several."""
    built_in = getattr(builtins, name, None)
    if isinstance(built_in, type) and issubclass(built_in, Exception):
        return [built_in]
    found: set[type[Exception]] = set()
    waiting: list[type[Exception]] = [Exception]
    for kind in waiting:  # the list grows during the loop
        inner = [subclass for subclass in type.__subclasses__(kind) if subclass not in found]
        waiting += inner
        found.update(inner)
    named = [kind for kind in found if kind.__name__ == name and kind.__module__ != __name__]
    return named if len(named) == 1 else []
