"""The recorder that LangChain attaches to a run by itself: that of the context, else that of the process."""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook


class _NoRecorder(BaseCallbackHandler):
    """A handler that observes nothing, for the place of a recorder where none is to be attached."""

    run_inline = True

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Do nothing; the inherited method raises."""


class ActiveRecorder:
    """A stand-in for a context variable, which LangChain asks for the recorder of each run.

    Unlike a context variable, it can name a recorder in every context. LangChain calls `get` twice for each run, and
    fails if it receives a handler first and `None` then. So once the first process-wide recorder is attached, there is
    always a handler, also if that recorder leaves between the two calls.
    """

    def get(self) -> BaseCallbackHandler | None:
        """Return the recorder for the runs of this context; `None` if there is none."""
        return _in_context.get() or _process_wide[-1]


_NO_RECORDER: Final = _NoRecorder()
_in_context: Final[ContextVar[BaseCallbackHandler | None]] = ContextVar("toolgrade_langchain_active", default=None)
_process_wide: Final[list[BaseCallbackHandler | None]] = [None]
"""The process-wide recorders in the order in which they were attached.

The first item takes their place while there is none: `None`, and `_NO_RECORDER` from the first recorder on.
"""


@functools.cache
def _register() -> None:
    """Let LangChain attach recorders; registered once per process."""
    register_configure_hook(cast("ContextVar[Any]", ActiveRecorder()), inheritable=True)


@contextmanager
def attached(recorder: BaseCallbackHandler, *, process_wide: bool) -> Generator[None, None, None]:
    """Attach a recorder to the runs that begin in this context or, `process_wide`, where no other one is attached."""
    _register()
    token = _in_context.set(recorder)
    if process_wide:
        _process_wide[0] = _NO_RECORDER
        _process_wide.append(recorder)
    try:
        yield
    finally:
        if process_wide:
            _process_wide.remove(recorder)
        try:
            _in_context.reset(token)
        except ValueError:  # entered in another context, as asynchronous fixtures of tests and servers may do
            if _in_context.get() is recorder:
                _in_context.set(None)


@contextmanager
def unobserved() -> Generator[None, None, None]:
    """Attach no recorder to the runs that begin in this context."""
    token = _in_context.set(_NO_RECORDER)
    try:
        yield
    finally:
        _in_context.reset(token)  # raises no ValueError: the only user is a coroutine, which stays in one context
