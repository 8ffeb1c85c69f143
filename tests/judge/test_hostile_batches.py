"""Batches against an endpoint that answers anything: nothing is paid for twice, nothing paid is lost, files read."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostile_proxy import Answer, HostileProxy
from toolgrade.errors import JudgeError
from toolgrade.judge import Judge
from toolgrade.judge.batch import Batch, BatchState
from toolgrade.judge.batch.files import Folder
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import BatchPlan, FakeOpenAI, HttpFault, Reply, sample_prompt

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

YES = '{"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}'
PROMPTS = [sample_prompt(f"question {number}") for number in range(3)]
DEEP: Any = {}
for _ in range(300):
    DEEP = {"a": DEEP}
VALUES = [None, True, 0, -1, 10**30, 1.5, "x", "\ud800\x00", "é" * 2000, [], [None, "x"], {}, {"a": ["x"]}, DEEP]
"""One or more values of each JSON type."""
VALUES_OF_A_FIELD = 1
"""Values that are tried in each field, drawn with the same seed each time; all of them take half an hour."""
BODIES: dict[str, Callable[[bytes], bytes]] = {
    "a page to sign in": lambda _: b"<!DOCTYPE html><title>Sign in</title>\n<form></form>",
    "a JSON page to sign in": lambda _: b'{"error": null, "login": "https://example.com"}',
    "nothing": lambda _: b"",
    "binary": lambda _: bytes(range(256)) * 20,
    "half": lambda body: body[: len(body) // 2],
    "one byte less": lambda body: body[:-2],
    "the first line": lambda body: body.partition(b"\n")[0],
    "not UTF-8": lambda body: body.replace(b"it fits", b"it \xff\xfe fits"),
    "UTF-16": lambda body: body.decode().encode("utf-16"),
    "with a mark of the byte order": lambda body: b"\xef\xbb\xbf" + body,
    "a text": lambda _: b'"yes"',
    "a list": lambda _: b"[[[]]]",
    "a number": lambda _: b"1e999",
    "brackets": lambda _: b"[" * 100_000,
}
KINDS = {
    "upload": r"POST /v1/files",
    "create": r"POST /v1/batches",
    "look": r"GET /v1/batches/.*",
    "list": r"GET /v1/batches",
    "download": r"GET /v1/files/.*/content",
}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgrade.judge.openai.throttle._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("toolgrade.judge.batch.remote._PAUSE", 0.001)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field in a JSON value, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A JSON value with another one at a place, or with nothing there if that is `...`."""
    if not path:
        return new
    copy = value.copy()
    if len(path) == 1 and new is ...:
        del copy[path[0]]
    else:
        copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def changed_line(body: bytes, change: Callable[[Any], Any]) -> bytes:
    """A body with its first line, which is JSON, changed."""
    first, newline, rest = body.partition(b"\n")
    return json.dumps(change(json.loads(first))).encode() + newline + rest


class Run:
    """A run of batches through a proxy that changes the answers of one kind, the first `times` of them."""

    def __init__(self, folder: Path, plans: list[BatchPlan]) -> None:
        self.folder = folder
        self.server = FakeOpenAI(answer=lambda _request: Reply(YES, usage=(10, 5)), batches=plans)
        self.kind, self.left = "", 0
        self.change: Callable[[bytes], bytes] = bytes
        self.original = b""
        self.problems: list[JudgeError] = []

    def answer(self, answer: Answer) -> Answer:
        """Change an answer if it is one of those to change."""
        if self.left <= 0 or not re.fullmatch(KINDS[self.kind], answer.kind) or answer.status != 200:
            return answer
        self.left -= 1
        self.original = answer.body
        return answer.with_body(self.change(answer.body))

    def go(self, kind: str, change: Callable[[bytes], bytes], times: int) -> BatchState:
        """Submit, poll and collect until everything has a verdict, at most ten times."""
        self.kind, self.change, self.left = kind, change, times
        with self.server, HostileProxy(self.server.port, self.answer) as proxy:
            model = OpenAIJudge("m", base_url=proxy.base_url, api_key="a-key-of-no-shape", max_attempts=1)
            judge = Judge(model)
            state: BatchState | None = None
            for _ in range(10):
                batch = Batch(self.folder / "b", judge)  # as another process would
                for step in (partial(batch.submit, PROMPTS), partial(self.poll, batch), batch.collect):
                    try:
                        state = step()
                    except JudgeError as error:
                        self.problems.append(error)
                    self.check()
                if state is not None and state.verdicts == len(PROMPTS):
                    return state
            assert state is not None, self.problems
            return state

    @staticmethod
    def poll(batch: Batch) -> BatchState:
        """Poll a few times."""
        return batch.poll(batch_status_check_interval=0, batch_max_iterations=4)

    def check(self) -> None:
        """What must hold at every moment."""
        manifest = Folder(self.folder / "b").find_manifest()
        assert manifest is not None
        assert max(self.paid().values(), default=1) == 1

    def paid(self) -> Counter[str]:
        """How often each question was answered."""
        return Counter(request.body["messages"][-1]["content"] for request in self.server.batched)


def prepared(kind: str) -> list[BatchPlan]:
    """The list of batches is only read after a creation whose answer was lost."""
    return [BatchPlan(create_fault=HttpFault.html())] if kind == "list" else []


def original(kind: str, folder: Path) -> bytes:
    """The honest answer to requests of a kind."""
    run = Run(folder, prepared(kind))
    run.go(kind, lambda body: body, 1)
    return run.original


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", KINDS)
def test_any_body_loses_and_repeats_nothing(tmp_path: Path, kind: str, body: str) -> None:
    """Pages, binary data and cut bodies: an error or a repeated request, and in the end every verdict, paid once."""
    run = Run(tmp_path, prepared(kind))
    state = run.go(kind, BODIES[body], 3 if kind == "download" else 1)

    assert (state.verdicts, state.lost, state.open) == (3, {}, 0)
    assert run.paid() == {f"question {number}": 1 for number in range(3)}


@pytest.mark.parametrize("kind", KINDS)
def test_any_value_in_any_field_loses_and_repeats_nothing(tmp_path: Path, kind: str) -> None:
    """Each field of each answer is replaced by values of each JSON type, or left out."""
    honest = json.loads(original(kind, tmp_path / "honest").partition(b"\n")[0])
    for number, path in enumerate(places(honest)):
        chosen = random.Random(str(path)).sample([..., *VALUES], VALUES_OF_A_FIELD)
        for index, value in enumerate(chosen):
            if kind == "list" and (path, value) == (("data",), []):
                continue  # a valid answer: there is no batch
            run = Run(tmp_path / f"{number}-{index}", prepared(kind))
            state = run.go(kind, lambda body, p=path, v=value: changed_line(body, lambda o: replaced(o, p, v)), 1)  # type: ignore[misc]
            where = (path, str(value)[:40], [str(problem)[:200] for problem in run.problems])
            assert (state.verdicts, state.lost, state.open) == (3, {}, 0), where
            assert run.paid() == {f"question {n}": 1 for n in range(3)}, where


@pytest.mark.parametrize("size", [b'{"bytes": null}', b"{}", b'{"bytes": "9"}', b"<html>", None])
def test_answers_without_a_verdict_settle_where_no_size_is_stated(tmp_path: Path, size: bytes | None) -> None:
    """Two downloads with the same answers are enough then; nothing is sent again."""

    def change(answer: Answer) -> Answer:
        if not re.fullmatch(r"GET /v1/files/[^/]*", answer.kind):
            return answer
        return Answer(answer.kind, 404, b"{}") if size is None else answer.with_body(size)

    with FakeOpenAI(answer=lambda _: Reply("maybe")) as server, HostileProxy(server.port, change) as proxy:
        judge = Judge(OpenAIJudge("m", base_url=proxy.base_url, max_attempts=1))
        batch = Batch(tmp_path / "b", judge)
        batch.submit(PROMPTS)
        Run.poll(batch)
        if size == b"<html>":  # says nothing about the file
            with pytest.raises(JudgeError):
                batch.collect()
            return
        assert len(batch.collect().lost) == 3
        assert len(batch.submit().lost) == 3
    assert len(server.batched) == 3


def test_one_unreadable_batch_does_not_hold_back_the_others(tmp_path: Path) -> None:
    """Their verdicts are collected, and the error is raised after that."""
    with FakeOpenAI(answer=lambda _: Reply(YES)) as server, HostileProxy(server.port, lambda answer: answer) as proxy:
        judge = Judge(OpenAIJudge("m", base_url=proxy.base_url, max_attempts=1))
        batch = Batch(tmp_path / "b", judge, max_requests=1)
        batch.submit(PROMPTS)
        Run.poll(batch)
        bad = batch.state().shards[0].output_file_id
        proxy.change = lambda answer: answer.with_body(b"<html>") if f"/{bad}/" in answer.kind else answer
        with pytest.raises(JudgeError, match="1 of 1 answer cannot be read; collect again"):
            batch.collect()
        assert batch.state().verdicts == 2
        proxy.change = lambda answer: answer
        assert batch.collect().verdicts == 3
