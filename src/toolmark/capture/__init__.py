"""The capture kit: what all recorders share. Observations go into a `RunBuilder`, a `Run` comes out."""

from toolmark.capture._builder import RunBuilder
from toolmark.capture._conversation import conversation, conversations
from toolmark.capture._observed import Outcome, Request
from toolmark.capture._recorder import Recording, RunRecorder
from toolmark.capture.sinks import JsonlSink, MemoryStore, Sink
from toolmark.cases import Handoff, Run, RunStatus

__all__ = [
    "Handoff",
    "JsonlSink",
    "MemoryStore",
    "Outcome",
    "Recording",
    "Request",
    "Run",
    "RunBuilder",
    "RunRecorder",
    "RunStatus",
    "Sink",
    "conversation",
    "conversations",
]
