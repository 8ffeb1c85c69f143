"""The capture kit: what all recorders share. Observations go into a `RunBuilder`, a `Run` comes out."""

from toolmark.capture._builder import RunBuilder
from toolmark.capture._conversation import conversation, conversations
from toolmark.capture._observe import CurrentRun, current_run, joined_pieces, observe, update_current_span
from toolmark.capture._observed import Outcome, Request
from toolmark.capture._recorder import Recording, RunRecorder
from toolmark.capture._spans import Component, Observable
from toolmark.capture._watch import ActiveRun, ObserveRecorder, record
from toolmark.capture.sinks import JsonlSink, MemoryStore, Sink
from toolmark.cases import Handoff, Run, RunStatus

__all__ = [
    "ActiveRun",
    "Component",
    "CurrentRun",
    "Handoff",
    "JsonlSink",
    "MemoryStore",
    "Observable",
    "ObserveRecorder",
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
    "current_run",
    "joined_pieces",
    "observe",
    "record",
    "update_current_span",
]
