"""Capture of agent runs: observations go into a `RunBuilder`, a `Run` comes out; plus `@observe` for plain Python."""

from toolgrade._internal.locks import ForkSafeLock
from toolgrade.capture.builder import RunBuilder
from toolgrade.capture.conversations import LACKS_BEGINNING, conversation, conversations, joined
from toolgrade.capture.input_parts import image_parts
from toolgrade.capture.observation.decorator import current_run
from toolgrade.capture.observation.spans import record
from toolgrade.capture.recorder import Recording, RunRecorder
from toolgrade.capture.records import Branch, Outcome, Request
from toolgrade.capture.sinks import JsonlSink, Sink
from toolgrade.matching.json_compare import ABSENT, json_equal

__all__ = [
    "ABSENT",
    "LACKS_BEGINNING",
    "Branch",
    "ForkSafeLock",
    "JsonlSink",
    "Outcome",
    "Recording",
    "Request",
    "RunBuilder",
    "RunRecorder",
    "Sink",
    "conversation",
    "conversations",
    "current_run",
    "image_parts",
    "joined",
    "json_equal",
    "record",
]
