"""The capture kit: what all recorders share. Observations go into a `RunBuilder`, a `Run` comes out."""

from toolmark.capture.builder import RunBuilder
from toolmark.capture.conversations import conversation, conversations
from toolmark.capture.observation.decorator import CurrentRun, current_run, joined_pieces, observe, update_current_span
from toolmark.capture.observation.listeners import ActiveRun, ObserveRecorder, record
from toolmark.capture.observation.spans import Component, Observable
from toolmark.capture.recorder import Recording, RunRecorder
from toolmark.capture.records import Outcome, Request
from toolmark.capture.sinks import JsonlSink, MemoryStore, Sink
from toolmark.cases import Handoff, Run, RunStatus
from toolmark.matching.json_compare import ABSENT, Absent, json_equal

__all__ = [
    "ABSENT",
    "Absent",
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
    "json_equal",
    "observe",
    "record",
    "update_current_span",
]
