"""The recorder that LangChain attaches to a run by itself: that of the context, else that of the process."""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook


class _Nobody(BaseCallbackHandler):
    """Observes nothing: it stands where no recorder is to be attached."""

    run_inline = True

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Do nothing; the inherited method raises."""


class _Attached:
    """The one method of a context variable that LangChain calls, so that a recorder can reach every context.

    LangChain calls it twice for each run, and fails if it receives a handler first and `None` then. So there is always
    a handler from the first recorder of the process on, also if that recorder leaves between the two calls.
    """

    def get(self) -> BaseCallbackHandler | None:
        """Return the recorder for the runs of this context; `None` if there is none."""
        return _in_context.get() or _of_process[-1]


_NOBODY: Final = _Nobody()
_in_context: Final[ContextVar[BaseCallbackHandler | None]] = ContextVar("toolgrade_langchain_active", default=None)
_of_process: Final[list[BaseCallbackHandler | None]] = [None]
"""The recorders of the process in the order in which they were entered, after what stands for none of them."""


@functools.cache
def _register() -> None:
    """Let LangChain attach recorders; registered once per process."""
    register_configure_hook(cast("ContextVar[Any]", _Attached()), inheritable=True)


@contextmanager
def attached(recorder: BaseCallbackHandler, *, process_wide: bool) -> Generator[None, None, None]:
    """Attach a recorder to the runs that begin in this context or, `process_wide`, where no other one is attached."""
    _register()
    token = _in_context.set(recorder)
    if process_wide:
        _of_process[0] = _NOBODY
        _of_process.append(recorder)
    try:
        yield
    finally:
        if process_wide:
            _of_process.remove(recorder)
        try:
            _in_context.reset(token)
        except ValueError:  # entered in another context, as asynchronous fixtures of tests and servers may do
            if _in_context.get() is recorder:
                _in_context.set(None)


@contextmanager
def unobserved() -> Generator[None, None, None]:
    """Attach no recorder to the runs that begin in this context."""
    token = _in_context.set(_NOBODY)
    try:
        yield
    finally:
        _in_context.reset(token)
