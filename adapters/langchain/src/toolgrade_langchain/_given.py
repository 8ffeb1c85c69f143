"""Recorded answers in the form in which a tool returns them to LangChain."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from toolgrade.capture import ABSENT
from toolgrade.capture.doubles import Answer
from toolgrade_langchain._handovers import DESTINATION, is_named_after_handover
from toolgrade_langchain._messages import text_of
from toolgrade_langchain._results import COMMAND, HANDED_OVER, content_of


@dataclass(frozen=True, eq=False)
class Given:
    """The answer to a call of a tool, with the id of the call, if a model made it."""

    tool: BaseTool
    call_id: str | None
    answer: Answer

    def double(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of `_run` or `_arun`; LangChain reads which arguments that takes."""

        @functools.wraps(method)
        def run(*_: object, **__: object) -> Any:
            time.sleep(self.answer.delay)
            return self._returned()

        @functools.wraps(method)
        async def arun(*_: object, **__: object) -> Any:
            await asyncio.sleep(self.answer.delay)
            return self._returned()

        return arun if name == "_arun" else run

    def _returned(self) -> Any:
        """Return what the tool returned, or raise what it raised."""
        error, done, artifact = self.answer.exception(), _recorded_command(self.answer), self.answer.artifact
        has_pair = self.tool.response_format == "content_and_artifact"
        if done:
            artifact = artifact.get("artifact")
        if error is not None:
            content = self._failure(error)
        else:
            content = content_of(self.answer.output, self.tool)
            if done or (artifact is not None and not has_pair and self.call_id is not None):
                content = self._message(content, artifact=artifact)
        if done:
            update = {**done.get("update", {}), "messages": [content]}
            content = import_module("langgraph.types").Command(**{**done, "update": update})
        return (content, artifact) if has_pair else content

    def _failure(self, error: Exception) -> object:
        """Return a failure that the tool returned, or that the model is to be told; raise any other one."""
        answer, shown = self.answer, self.answer.model_output
        if answer.left is not None:
            shown = answer.failure
        elif shown is ABSENT or (text_of(shown) or "error") != answer.error:
            raise error
        if self.call_id is None:
            raise error
        return self._message(content_of(shown, self.tool), "error")

    def _message(self, content: Any, status: Any = "success", *, artifact: object = None) -> ToolMessage:
        call_id = self.call_id or ""
        return ToolMessage(content, name=self.tool.name, tool_call_id=call_id, status=status, artifact=artifact)


_called: Final[ContextVar[tuple[BaseTool, Given | None] | None]] = ContextVar(
    "toolgrade_langchain_called", default=None
)
"""The tool that is called here, and what answers the call; `None` if the tool runs."""


@contextmanager
def calling(tool: BaseTool, given: Given | None = None) -> Generator[None, None, None]:
    """Let a tool run in this context, or give an answer."""
    earlier = _called.get()
    _called.set((tool, given))
    try:
        yield
    finally:
        _called.set(earlier)


def is_called(tool: BaseTool) -> bool:
    """Return whether a tool runs in this context, or gives an answer."""
    called = _called.get()
    return called is not None and called[0] is tool


def given_here() -> Given | None:
    """Return the answer that the tool that is called here gives, `None` if it runs."""
    called = _called.get()
    return None if called is None else called[1]


def _recorded_command(answer: Answer) -> Mapping[str, Any] | None:
    """Return what a command of the tool did besides showing the model a message; `None` if that is not all recorded."""
    artifact = answer.artifact
    done = artifact[COMMAND] if isinstance(artifact, Mapping) and COMMAND in artifact else {}
    return done if isinstance(done, Mapping) else None


def has_handed_over(answer: Answer) -> bool:
    """Return whether the recorded call handed over to another agent."""
    return HANDED_OVER in (_recorded_command(answer) or {})


def refusal(tool: str, answer: Answer) -> str | None:
    """Return why the recorded answer of a tool cannot be given."""
    done = _recorded_command(answer)
    if done is None:
        return f"{tool} returned a Command with more than JSON and the result of its call, which cannot be repeated"
    targets = done.get(HANDED_OVER)
    if not targets or is_named_after_handover(tool, targets):
        return None
    metadata = f"metadata={{{DESTINATION!r}: {targets[0]!r}}}"
    return f"{tool} handed over to {', '.join(targets)}, and may do more; if it does not, give it {metadata}"
