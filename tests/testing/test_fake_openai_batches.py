"""Files and batches of the fake endpoint, through OpenAI's own client."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from toolgrade.testing import BatchPlan, FakeOpenAI, HttpFault

openai = pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

CHAT = "/v1/chat/completions"


def line(key: str, **fields: Any) -> str:
    """A line of an input file."""
    body = {"model": "m", "messages": [{"role": "user", "content": key}]}
    return json.dumps({"custom_id": key, "method": "POST", "url": CHAT, "body": body, **fields})


def client(server: FakeOpenAI) -> Any:
    """OpenAI's client, pointed at the endpoint."""
    return openai.OpenAI(base_url=server.base_url, api_key="sk-made-up", max_retries=0)


def create(api: Any, *lines: str, **options: Any) -> Any:
    """A batch of these lines."""
    file = api.files.create(file=("in.jsonl", io.BytesIO("\n".join(lines).encode())), purpose="batch")
    return api.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", **options)


def output(api: Any, key: str | None) -> dict[str, Any]:
    """The lines of an output file, by their ids."""
    if key is None:
        return {}
    lines = [json.loads(text) for text in api.files.content(key).text.splitlines()]
    return {one["custom_id"]: one for one in lines}


def test_a_batch_is_answered_line_by_line() -> None:
    """Each line uses a step; answers and errors are in separate files, in another order than the lines."""
    steps = ("one", HttpFault.status(400, "too long"), "three")
    with FakeOpenAI(*steps, batches=[BatchPlan(polls=2)]) as server, client(server) as api:
        batch = create(api, line("a"), line("b"), line("c"), metadata={"run": "r1"})
        states = [api.batches.retrieve(batch.id) for _ in range(4)]
        done = states[-1]
        good, bad = output(api, done.output_file_id), output(api, done.error_file_id)

    assert [state.status for state in states] == ["validating", "in_progress", "completed", "completed"]
    assert states[0].output_file_id is None
    assert done.metadata == {"run": "r1"}
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (3, 2, 1)
    assert list(good) == ["c", "a"]
    assert good["a"]["response"]["body"]["choices"][0]["message"]["content"] == "one"
    assert bad["b"]["response"]["status_code"] == 400
    assert bad["b"]["response"]["body"]["error"]["message"] == "too long"
    assert [request.body["messages"][0]["content"] for request in server.batched] == ["a", "b", "c"]


@pytest.mark.parametrize(("end", "missing"), [("expired", {"b", "c"}), ("cancelled", set[str]())])
def test_a_batch_may_end_early(end: Any, missing: set[str]) -> None:
    """What was answered is there; an expired batch names the others, a cancelled one does not."""
    with FakeOpenAI("one", batches=[BatchPlan(end, answered=1, polls=0)]) as server, client(server) as api:
        done = create(api, line("a"), line("b"), line("c"))
        good, bad = output(api, done.output_file_id), output(api, done.error_file_id)

    assert done.status == end
    assert set(good) == {"a"}
    assert {key for key, one in bad.items() if one["error"]["code"] == "batch_expired"} == missing
    assert len(server.batched) == 1


def test_batches_are_listed_newest_first() -> None:
    """All on one page."""
    with FakeOpenAI(*["x"] * 3) as server, client(server) as api:
        created = [create(api, line("a")).id for _ in range(3)]
        listed = [batch.id for batch in api.batches.list()]

    assert listed == created[::-1]


def test_the_answer_to_a_creation_may_be_lost() -> None:
    """The batch exists, although the client received no answer."""
    with FakeOpenAI("x", batches=[BatchPlan(create_fault=HttpFault.cut())]) as server, client(server) as api:
        with pytest.raises(openai.APIConnectionError):
            create(api, line("a"))

        assert len(list(api.batches.list())) == 1
