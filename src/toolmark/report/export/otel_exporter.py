"""Export of OpenTelemetry records batch by batch, with the answers of the collector.

The processors of the SDK ignore what an exporter returns, and exporters over HTTP take any status from 200 to 399 for
success, even for a login page or a partial rejection. Here the answers are checked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from toolmark._internal.text import shorten

_REDIRECTS: Final = 300
_ERRORS: Final = 400
"""Lowest HTTP statuses of these classes."""

_MOST_FAILURES: Final = 3
"""Consecutive failed batches after which the rest is not tried; each may have waited for its timeout."""


class Answers:
    """The last answer of a collector over HTTP.

    `rejected` is the number of records that it rejected from an accepted request, `problem` a description of anything
    but plain success. `response` names the module and the protobuf message of the answer.
    """

    def __init__(self, response: str) -> None:
        self.rejected: int = 0
        self.problem: str = ""
        self._response = response

    def listening(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of the `send` method of `requests` that reads each answer."""

        def send_and_read(*request: Any, **options: Any) -> Any:  # noqa: ANN401 - as `send` has it
            try:
                response = send(*request, **options)
            except Exception as error:
                self.rejected, self.problem = 0, shorten(f"{type(error).__name__}: {error}", 300)
                raise
            self._read(response)
            return response

        return send_and_read

    def _read(self, response: Any) -> None:  # noqa: ANN401 - of `requests`
        self.rejected, self.problem = 0, ""
        kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
        answered = f"{response.url} answered {response.status_code}"
        try:
            if response.status_code >= _ERRORS:
                words = _words(kind, response.content)
                self.problem = f"{answered} {response.reason}: {words}".removesuffix(": ")
            elif response.status_code >= _REDIRECTS or kind == "text/html" or response.request.method != "POST":
                self.problem = f"{answered}, which is not the answer of a collector"
            else:
                self.rejected, words = self._partly(kind, response.content)
                if self.rejected:
                    self.problem = f"the collector rejected {self.rejected}: {words}".removesuffix(": ")
        except Exception as error:  # noqa: BLE001 - protobuf has many errors, and a broken answer is not a success
            self.problem = f"{answered} with an unreadable body: {error}"

    def _partly(self, kind: str, content: bytes) -> tuple[int, str]:
        """Return the number of rejected records in an answer, and its message."""
        if kind == "application/json":
            partial = json.loads(content or b"{}").get("partialSuccess") or {}
            rejected = partial.get("rejectedLogRecords") or partial.get("rejectedSpans") or 0
            return int(rejected), str(partial.get("errorMessage", ""))
        if kind != "application/x-protobuf":
            return 0, ""  # some collectors answer with the status alone
        module, _, name = self._response.partition(":")
        message = getattr(import_module(f"opentelemetry.proto.collector.{module}"), name)
        partial = message.FromString(content).partial_success
        rejected = getattr(partial, "rejected_log_records", 0) or getattr(partial, "rejected_spans", 0)
        return rejected, partial.error_message


class CountingExporter:
    """Exports records in batches of a size, and counts those that were accepted.

    `problems` has the reasons why others were not, each once, in order.
    """

    def __init__(self, exporter: Any, size: int, answers: Answers) -> None:  # noqa: ANN401 - classes of many packages
        self.accepted = 0
        self.problems: dict[str, None] = {}
        self._exporter, self._size, self._answers = exporter, size, answers
        self._queue: list[Any] = []
        self._failed_in_a_row = 0

    def export(self, batch: Sequence[Any]) -> None:
        """Queue records, and export them when a batch is full."""
        self._queue += batch
        if len(self._queue) >= self._size:
            self.finish()

    def finish(self) -> None:
        """Export the queued records, unless the collector seems to be gone."""
        batch, self._queue = self._queue, []
        if not batch:
            return
        if self._failed_in_a_row >= _MOST_FAILURES:
            self.problems[f"the rest was not tried after {_MOST_FAILURES} failed batches in a row"] = None
            return
        accepted = self._accepted(batch)
        self.accepted += accepted
        self._failed_in_a_row = 0 if accepted else self._failed_in_a_row + 1

    def shutdown(self) -> None:
        """Shut down the exporter."""
        self._exporter.shutdown()

    def _accepted(self, batch: Sequence[Any]) -> int:
        """Export a batch and return the number of accepted records."""
        try:
            result: Any = self._exporter.export(batch)
        except Exception as error:  # noqa: BLE001 - an exporter may raise anything; the next batch is tried
            self.problems[f"{type(error).__name__}: {error}"] = None
            return 0
        if self._answers.problem:
            self.problems[self._answers.problem] = None
        # Logs and spans have different result enumerations, and these were renamed; the names of their members stayed.
        refused = getattr(result, "name", "") != "SUCCESS" or (self._answers.problem and not self._answers.rejected)
        return 0 if refused else max(0, len(batch) - self._answers.rejected)


def _words(kind: str, content: bytes) -> str:
    """Return the shortened message in the body of an error."""
    if kind == "application/x-protobuf":
        text: str = import_module("google.rpc.status_pb2").Status.FromString(content).message
    elif kind in {"text/plain", "application/json"}:
        text = content.decode("utf-8", "replace")
    else:
        return ""
    return shorten(" ".join(text.split()), 200)


@contextmanager
def capture_log() -> Generator[dict[str, None], None, None]:
    """Collect the log messages of OpenTelemetry, each once, instead of showing them."""
    messages: dict[str, None] = {}

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages[record.getMessage()] = None

    log, handler = logging.getLogger("opentelemetry"), Collector(logging.WARNING)
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield messages
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
