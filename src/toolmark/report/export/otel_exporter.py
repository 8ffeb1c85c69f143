"""What becomes of what an exporter of OpenTelemetry is given? Batch after batch, with what the collector answers.

The processors of the SDK do not look at what an exporter returns, and exporters over HTTP take any answer from 200 to
399 for a yes, whatever stands in it: a page to log in, or that a part was rejected. Here it is looked at.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from toolmark._internal.text import shorten

_POINTS_ELSEWHERE: Final = 300
_REFUSES: Final = 400
"""Statuses of HTTP from which on an answer means that."""

_ENDS: Final = 3
"""Batches refused one after the other after which no more are tried; each may have waited for its time limit."""


class Answers:
    """What a collector that is asked over HTTP answers.

    Args:
        response: Module and name of the message of `opentelemetry.proto` that is the answer.

    Attributes:
        rejected: How many records of the last request it did not take, though it took the request.
        problem: Why the answer is no plain yes, or "".
    """

    def __init__(self, response: str) -> None:
        self.rejected = 0
        self.problem = ""
        self._response = response

    def listening(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Return what sends a request of `requests` as `send` does, and keeps what came of it; the last one counts."""

        def heard(*request: Any, **options: Any) -> Any:  # noqa: ANN401 - as `send` has it
            try:
                response = send(*request, **options)
            except Exception as error:
                self.rejected, self.problem = 0, shorten(f"{type(error).__name__}: {error}", 300)
                raise
            self._keep(response)
            return response

        return heard

    def _keep(self, response: Any) -> None:  # noqa: ANN401 - of `requests`
        self.rejected, self.problem = 0, ""
        kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
        answered = f"{response.url} answered {response.status_code}"
        try:
            if response.status_code >= _REFUSES:
                words = _words(kind, response.content)
                self.problem = f"{answered} {response.reason}: {words}".removesuffix(": ")
            elif response.status_code >= _POINTS_ELSEWHERE or kind == "text/html" or response.request.method != "POST":
                self.problem = f"{answered}, but not as a collector does"
            else:
                self.rejected, words = self._partly(kind, response.content)
                if self.rejected:
                    self.problem = f"the collector rejected {self.rejected}: {words}".removesuffix(": ")
        except Exception as error:  # noqa: BLE001 - protobuf raises what it likes, and a broken answer is no yes
            self.problem = f"{answered} with what cannot be read: {error}"

    def _partly(self, kind: str, content: bytes) -> tuple[int, str]:
        """Return how many records an answer rejects, and its words for that."""
        if kind == "application/json":
            partial = json.loads(content or b"{}").get("partialSuccess") or {}
            rejected = partial.get("rejectedLogRecords") or partial.get("rejectedSpans") or 0
            return int(rejected), str(partial.get("errorMessage", ""))
        if kind != "application/x-protobuf":
            return 0, ""  # some collectors say nothing but 200
        module, _, name = self._response.partition(":")
        message = getattr(import_module(f"opentelemetry.proto.collector.{module}"), name)
        partial = message.FromString(content).partial_success
        rejected = getattr(partial, "rejected_log_records", 0) or getattr(partial, "rejected_spans", 0)
        return rejected, partial.error_message


class Watched:
    """Stands before an exporter, gives it batch after batch, and counts what was accepted.

    Args:
        exporter: An exporter of logs or of spans.
        size: Records of a batch.
        answers: What its collector says beside what the exporter makes of that.

    Attributes:
        accepted: How many records were accepted so far.
        told: Why others were not, each reason once.
    """

    def __init__(self, exporter: Any, size: int, answers: Answers) -> None:  # noqa: ANN401 - classes of many packages
        self.accepted = 0
        self.told: dict[str, None] = {}
        self._exporter, self._size, self._answers = exporter, size, answers
        self._waiting: list[Any] = []
        self._refused_in_turn = 0

    def export(self, batch: Sequence[Any]) -> None:
        """Take records, and hand them on when a batch is full."""
        self._waiting += batch
        if len(self._waiting) >= self._size:
            self.finish()

    def finish(self) -> None:
        """Hand on what waits, unless the collector seems to be gone."""
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        if self._refused_in_turn >= _ENDS:
            self.told[f"the rest was not tried, after {_ENDS} batches in turn"] = None
            return
        accepted = self._accepted(batch)
        self.accepted += accepted
        self._refused_in_turn = 0 if accepted else self._refused_in_turn + 1

    def shutdown(self) -> None:
        """Let the exporter close what it has opened."""
        self._exporter.shutdown()

    def _accepted(self, batch: Sequence[Any]) -> int:
        """Export a batch, and return how much of it was accepted."""
        try:
            result: Any = self._exporter.export(batch)
        except Exception as error:  # noqa: BLE001 - an exporter may raise what it likes; what follows is tried
            self.told[f"{type(error).__name__}: {error}"] = None
            return 0
        if self._answers.problem:
            self.told[self._answers.problem] = None
        # The enumerations of results are other ones for logs and spans, and were renamed; their names stayed.
        refused = getattr(result, "name", "") != "SUCCESS" or (self._answers.problem and not self._answers.rejected)
        return 0 if refused else max(0, len(batch) - self._answers.rejected)


def _words(kind: str, content: bytes) -> str:
    """Return what the body of a refusal says, in short."""
    if kind == "application/x-protobuf":
        text: str = import_module("google.rpc.status_pb2").Status.FromString(content).message
    elif kind in {"text/plain", "application/json"}:
        text = content.decode("utf-8", "replace")
    else:
        return ""
    return shorten(" ".join(text.split()), 200)


@contextmanager
def overheard() -> Generator[dict[str, None], None, None]:
    """Collect what OpenTelemetry tells its log meanwhile, each message once, instead of showing it."""
    said: dict[str, None] = {}

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said[record.getMessage()] = None

    log, ear = logging.getLogger("opentelemetry"), Ear(logging.WARNING)
    propagates, log.propagate = log.propagate, False
    log.addHandler(ear)
    try:
        yield said
    finally:
        log.removeHandler(ear)
        log.propagate = propagates
