"""Files and batches of the fake endpoint, in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, TypeAlias

from toolgrade._internal.json import JsonObject, json_text, parse_json
from toolgrade.testing.fake_openai.http import ReceivedRequest
from toolgrade.testing.fake_openai.replies import HttpFault, new_id

_DAY = 24 * 60 * 60

BatchEnd: TypeAlias = Literal["completed", "expired", "cancelled", "failed"]
"""How a batch may end."""

Play: TypeAlias = Callable[[ReceivedRequest], JsonObject]
"""Returns status and body of the answer to one line."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The course of one batch of a fake endpoint.

    Attributes:
        end: How it ends. The error file of an expired batch lists each line without an answer, that of a cancelled one
            does not; a failed one has no answers.
        answered: Number of lines that are answered, from the first; all by default.
        polls: Number of status requests before it has ended; with -1 it never ends.
        create_fault: Fault in place of the answer to its creation; the batch is created nevertheless.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import BatchOptions, Judge
        >>> from toolgrade.judge.openai import OpenAIJudge
        >>> from toolgrade.testing import BatchPlan, FakeOpenAI, sample_prompt
        >>> options = BatchOptions(status_check_interval=0)
        >>> with FakeOpenAI(batches=[BatchPlan("expired", answered=0)]) as server:
        ...     model = OpenAIJudge("any", base_url=server.base_url, api_key="any")
        ...     judge = Judge(model, cache="verdicts.sqlite", batch=options)
        ...     result = asyncio.run(judge.ask(sample_prompt()))
        >>> result.outcome.value
        'transient'
    """

    end: BatchEnd = "completed"
    answered: int | None = None
    polls: int = 1
    create_fault: HttpFault | None = None


@dataclass
class _Batch:
    """A batch with its final state, and the number of status requests so far."""

    plan: BatchPlan
    final: JsonObject
    requests: int = 0

    def state(self) -> JsonObject:
        """Return its current state in the form of the API."""
        if 0 <= self.plan.polls <= self.requests:
            return self.final
        status = "validating" if self.requests == 0 else "in_progress"
        unknown = dict.fromkeys(("output_file_id", "error_file_id", "errors", "completed_at"))
        counts = {"total": 0, "completed": 0, "failed": 0}
        return {**self.final, "status": status, "request_counts": counts, **unknown}


@dataclass
class Batches:
    """The files and batches of one endpoint."""

    plans: Sequence[BatchPlan]
    """For the batches in the order of their creation; later ones are completed after one status request."""
    play: Play
    _files: dict[str, str] = field(default_factory=dict[str, str])
    _batches: dict[str, _Batch] = field(default_factory=dict[str, _Batch])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, request: ReceivedRequest, path: str) -> HttpFault | None:
        """Return the answer to a request about files or batches, or `None` if it is about neither."""
        with self._lock:
            match request.method, *path.removeprefix("/v1/").split("/"):
                case "POST", "files":
                    return _json(self._file(self._add_file(str(request.body["file"]))))
                case "GET", "files", key, "content" if key in self._files:
                    return HttpFault(text=self._files[key], headers={"content-type": "application/octet-stream"})
                case "POST", "batches":
                    return self._create(request.body)
                case "GET", "batches":
                    states = [batch.state() for batch in reversed(self._batches.values())]
                    return _json({"object": "list", "data": states, "has_more": False})
                case "GET", "batches", key if key in self._batches:
                    batch = self._batches[key]
                    state = batch.state()
                    batch.requests += 1
                    return _json(state)
                case _:
                    return None

    def _add_file(self, content: str) -> str:
        key = new_id("file")
        self._files[key] = content
        return key

    def _file(self, key: str) -> JsonObject:
        about = {"id": key, "object": "file", "bytes": len(self._files[key].encode()), "created_at": int(time.time())}
        return {**about, "filename": f"{key}.jsonl", "purpose": "batch", "status": "processed"}

    def _create(self, options: JsonObject) -> HttpFault:
        if options.get("input_file_id") not in self._files:
            return HttpFault.status(400, "there is no file with this id")
        number = len(self._batches)
        plan = self.plans[number] if number < len(self.plans) else BatchPlan()
        lines = [parse_json(line) for line in self._files[options["input_file_id"]].split("\n") if line]
        now = int(time.time())
        final: JsonObject = {
            "id": new_id("batch"),
            "object": "batch",
            "endpoint": options["endpoint"],
            "input_file_id": options["input_file_id"],
            "completion_window": options["completion_window"],
            "metadata": options.get("metadata"),
            "status": plan.end,
            "errors": None,
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "completed_at": now,
            "expires_at": now + _DAY,
        }
        if plan.end == "failed":
            error = {"code": "planned", "line": None, "message": "the plan lets it fail", "param": None}
            final["errors"] = {"object": "list", "data": [error]}
        else:
            final |= self._play_lines(lines, plan)
        batch = self._batches[final["id"]] = _Batch(plan, final)
        return plan.create_fault or _json(batch.state())

    def _play_lines(self, lines: Sequence[JsonObject], plan: BatchPlan) -> JsonObject:
        """Answer the lines, write that in reverse order (no client must rely on it), and return the batch fields."""
        done = len(lines) if plan.answered is None else plan.answered
        good: list[JsonObject] = []
        bad: list[JsonObject] = []
        for line in lines[:done]:
            request = ReceivedRequest(line["method"], line["url"], {}, json_text(line["body"]), line["body"])
            response: JsonObject = {"request_id": new_id("req"), **self.play(request)}
            entry = {"id": new_id("batch_req"), "custom_id": line["custom_id"], "response": response, "error": None}
            (bad if response["status_code"] >= HTTPStatus.BAD_REQUEST else good).append(entry)
        if plan.end == "expired":
            bad += map(_expired, lines[done:])
        fields: JsonObject = {"request_counts": {"total": len(lines), "completed": len(good), "failed": len(bad)}}
        for key, answers in (("output_file_id", good), ("error_file_id", bad)):
            if answers:
                fields[key] = self._add_file("".join(f"{json_text(answer)}\n" for answer in reversed(answers)))
        return fields


def _json(body: JsonObject) -> HttpFault:
    return HttpFault(text=json_text(body))


def _expired(line: JsonObject) -> JsonObject:
    """Return the answer to a line that was still open when its batch ended."""
    error = {"code": "batch_expired", "message": "This request could not be executed before its end."}
    return {"id": new_id("batch_req"), "custom_id": line["custom_id"], "response": None, "error": error}
