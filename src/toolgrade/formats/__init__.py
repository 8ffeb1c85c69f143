"""Outside shapes of recorded runs, read into toolgrade's own: one file per shape.

`read` takes what OpenAI's Chat Completions and Responses APIs and Anthropic's Messages API send and receive, and dumps
of LangChain's messages, and finds out which it is. `read_traces` takes spans of OpenTelemetry, exports of Langfuse,
runs of LangSmith and traces of the OpenAI Agents SDK. `case_from_record` takes flat records, `run_from_messages` the
trajectories in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from toolgrade.formats.messages.message import Answer, ModelMessage, UserInput
    from toolgrade.formats.messages.openai_responses import read_responses_answer, read_responses_call
    from toolgrade.formats.messages.read import read, run_from_messages
    from toolgrade.formats.messages.transcript import Transcript, transcript_of
    from toolgrade.formats.records import case_from_record
    from toolgrade.formats.traces.read import Traces, read_traces

_HOME = {
    "Answer": "messages.message",
    "ModelMessage": "messages.message",
    "Traces": "traces.read",
    "Transcript": "messages.transcript",
    "UserInput": "messages.message",
    "case_from_record": "records",
    "read": "messages.read",
    "read_responses_answer": "messages.openai_responses",
    "read_responses_call": "messages.openai_responses",
    "read_traces": "traces.read",
    "run_from_messages": "messages.read",
    "transcript_of": "messages.transcript",
}

__all__ = [
    "Answer",
    "ModelMessage",
    "Traces",
    "Transcript",
    "UserInput",
    "case_from_record",
    "read",
    "read_responses_answer",
    "read_responses_call",
    "read_traces",
    "run_from_messages",
    "transcript_of",
]

_load = lazy_getattr(__name__, _HOME)


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
