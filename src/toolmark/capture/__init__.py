"""Capture of agent runs: observations go into a `RunBuilder`, a `Run` comes out; plus `@observe` for plain Python."""

from toolmark.capture.builder import RunBuilder
from toolmark.capture.conversations import conversation, conversations
from toolmark.capture.input_parts import image_parts
from toolmark.capture.observation.decorator import CurrentRun, current_run
from toolmark.capture.observation.spans import record
from toolmark.capture.recorder import Recording, RunRecorder
from toolmark.capture.records import Outcome, Request
from toolmark.capture.sinks import JsonlSink, Sink
from toolmark.matching.json_compare import ABSENT, json_equal

__all__ = [
    "ABSENT",
    "CurrentRun",
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
    "json_equal",
    "record",
]
