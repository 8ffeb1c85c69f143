"""Files and batches of the fake endpoint, in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs

from toolmark._internal.json import JsonObject, json_text, parse_json
from toolmark.errors import InvalidDataError
from toolmark.testing.fake_openai.http import ReceivedRequest
from toolmark.testing.fake_openai.replies import HttpFault, Ids, Reply

FILES = "/v1/files"
BATCHES = "/v1/batches"
_DAY = 24 * 60 * 60
_MAX_LINES = 50_000
_PAGE = 20

BatchEnd: TypeAlias = Literal["completed", "expired", "cancelled", "failed"]
"""How a batch may end."""

Play: TypeAlias = Callable[[ReceivedRequest], tuple[int, str]]
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
        return {
            **self.final,
            "status": status,
            "output_file_id": None,
            "error_file_id": None,
            "errors": None,
            "completed_at": None,
        }


@dataclass
class Batches:
    """The files and batches of one endpoint."""

    plans: Sequence[BatchPlan]
    """For the batches in the order of their creation; later ones are completed at the first status request."""
    ids: Ids
    play: Play
    files: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Name and content by id."""
    _batches: list[_Batch] = field(default_factory=list[_Batch])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, request: ReceivedRequest, path: str) -> Reply | HttpFault:
        """Return the answer to a request about files or batches."""
        root = FILES if path.startswith(FILES) else BATCHES
        rest = path.removeprefix(root).strip("/").split("/")
        act = {
            ("POST", FILES): self._upload,
            ("POST", BATCHES): self._create,
            ("GET", BATCHES): self._list,
        }.get((request.method, path))
        with self._lock:
            if act is not None:
                return act(request)
            reply = self._one(request, root, rest)
        return reply or HttpFault.status(404, f"there is no {request.method} {path} here")

    def _one(self, request: ReceivedRequest, root: str, rest: Sequence[str]) -> Reply | HttpFault | None:
        """Return the answer about one file or batch."""
        key, verb = rest[0], (request.method, *rest[1:])
        if root == FILES and key in self.files:
            if verb == ("GET", "content"):
                return HttpFault(text=self.files[key][1], headers={"content-type": "application/octet-stream"})
            return Reply(body=self._file(key)) if verb == ("GET",) else None
        for batch in self._batches:
            if batch.final["id"] != key:
                continue
            if verb == ("GET",):
                state = batch.state()
                batch.requests += 1
                return Reply(body=state)
            if verb == ("POST", "cancel"):
                batch.plan = BatchPlan("cancelled", polls=0)
                batch.final = {**batch.final, "status": "cancelled"}
                return Reply(body=batch.final)
        return None

    def _upload(self, request: ReceivedRequest) -> Reply | HttpFault:
        content, purpose = request.body.get("file"), request.body.get("purpose")
        if not isinstance(content, str) or purpose != "batch":
            return HttpFault.status(400, "a form with `file` and the purpose `batch` is needed")
        return Reply(body=self._file(self._add_file(f"{request.body.get('filename')}", content)))

    def _add_file(self, name: str, content: str) -> str:
        key = self.ids.new("file")
        self.files[key] = (name, content)
        return key

    def _file(self, key: str) -> JsonObject:
        name, content = self.files[key]
        purpose = "batch_output" if name.endswith("put.jsonl") else "batch"
        about = {"id": key, "object": "file", "bytes": len(content.encode()), "created_at": self.ids.now()}
        return {**about, "filename": name, "purpose": purpose, "status": "processed", "expires_at": None}

    def _create(self, request: ReceivedRequest) -> Reply | HttpFault:
        endpoint, source = request.body.get("endpoint"), request.body.get("input_file_id")
        if request.body.get("completion_window") != "24h":
            return HttpFault.status(400, "the only completion_window is '24h'")
        if source not in self.files:
            return HttpFault.status(400, f"there is no file {source!r}")
        plan = self.plans[len(self._batches)] if len(self._batches) < len(self.plans) else BatchPlan()
        lines, errors = _lines(self.files[source][1], endpoint)
        now = self.ids.now()
        batch: JsonObject = {
            "id": self.ids.new("batch"),
            "object": "batch",
            "endpoint": endpoint,
            "input_file_id": source,
            "completion_window": "24h",
            "metadata": request.body.get("metadata"),
            "status": plan.end,
            "errors": None,
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "completed_at": now,
            "expires_at": now + _DAY,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }
        if errors or plan.end == "failed":
            errors = errors or [{"code": "planned", "line": None, "message": "the plan lets it fail", "param": None}]
            batch |= {"status": "failed", "completed_at": None, "errors": {"object": "list", "data": errors}}
        else:
            batch |= self._play_lines(lines, plan)
        self._batches.append(_Batch(plan, batch))
        return plan.create_fault or Reply(body=self._batches[-1].state())

    def _play_lines(self, lines: Sequence[JsonObject], plan: BatchPlan) -> JsonObject:
        """Answer the lines in reverse order, as a client must not rely on their order; return the batch fields."""
        done = len(lines) if plan.answered is None else plan.answered
        good: list[JsonObject] = []
        bad: list[JsonObject] = []
        for number, line in enumerate(lines):
            about = {"id": self.ids.new("batch_req"), "custom_id": line["custom_id"]}
            if number < done:
                text = json_text(line["body"])
                status, body = self.play(ReceivedRequest(line["method"], line["url"], {}, text, line["body"]))
                response = {"status_code": status, "request_id": self.ids.new("req"), "body": parse_json(body)}
                target = bad if status >= HTTPStatus.BAD_REQUEST else good
                target.append({**about, "response": response, "error": None})
            elif plan.end == "expired":
                error = {"code": "batch_expired", "message": "This request could not be executed before its end."}
                bad.append({**about, "response": None, "error": error})
        fields: JsonObject = {"request_counts": {"total": len(lines), "completed": len(good), "failed": len(bad)}}
        for key, name, answers in (("output_file_id", "output", good), ("error_file_id", "error_output", bad)):
            if answers:
                fields[key] = self._add_file(
                    f"{name}.jsonl", "".join(f"{json_text(line)}\n" for line in reversed(answers))
                )
        return fields

    def _list(self, request: ReceivedRequest) -> Reply:
        query = parse_qs(request.path.partition("?")[2])
        newest = [batch.state() for batch in reversed(self._batches)]
        ids = [batch["id"] for batch in newest]
        after = query.get("after", [""])[0]
        start = ids.index(after) + 1 if after in ids else 0
        page = newest[start : start + int(query.get("limit", [f"{_PAGE}"])[0])]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        return Reply(body={"object": "list", "data": page, "has_more": start + len(page) < len(ids), **ends})


def _lines(text: str, endpoint: object) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the lines of an input file, and the errors for which the real endpoint would refuse it."""
    lines: list[JsonObject] = []
    errors: list[JsonObject] = []
    ids: set[object] = set()
    for number, raw in enumerate(filter(None, text.split("\n")), start=1):
        problem = None
        try:
            line: Any = parse_json(raw)
        except InvalidDataError as error:
            line, problem = {}, ("invalid_json_line", str(error))
        if not isinstance(line, dict) or not {"custom_id", "method", "url", "body"} <= set(line):
            problem = problem or ("missing_required_parameter", "custom_id, method, url and body are needed")
        elif line["url"] != endpoint or line["method"] != "POST":
            problem = ("mismatched_endpoint", f"{line['method']} {line['url']} is not what the batch was created for")
        elif line["custom_id"] in ids:
            problem = ("duplicate_custom_id", f"{line['custom_id']!r} is the id of an earlier line, too")
        if problem is not None:
            errors.append({"code": problem[0], "line": number, "message": problem[1], "param": None})
            continue
        ids.add(line["custom_id"])
        lines.append(line)
    if not lines and not errors:
        errors.append({"code": "empty_file", "line": None, "message": "the file has no lines", "param": None})
    if len(lines) > _MAX_LINES:
        message = f"{len(lines)} lines, where {_MAX_LINES} are allowed"
        errors.append({"code": "too_many_tasks", "line": None, "message": message, "param": None})
    return lines, errors
