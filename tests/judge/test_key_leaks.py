"""The key of a judge, of a shape that nobody knows, stays out of everything that is written, shown or logged."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from hostile_proxy import Answer, HostileProxy
from toolgrade import LLMTestCase, Report, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.errors import JudgeError
from toolgrade.judge import BatchOptions, Judge
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.judge.openai.guard import remember_key, without_keys
from toolgrade.judge.openai.wire import chat_reply
from toolgrade.report.html import write_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.report.terminal import print_report
from toolgrade.testing import FakeOpenAI, Reply, sample_prompt

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

KEY = "Zw7/unheard+of=shape_2319-plover.Quay"
URL_FORM = quote(KEY, safe="")
SPELLINGS = {
    "plain": KEY,
    "URL form": URL_FORM,
    "URL form in lower case": re.sub("%..", lambda one: one[0].lower(), URL_FORM),
}


def pieces(text: str) -> list[str]:
    """Every part of a text of twelve characters, by which a search finds it however it was cut."""
    return [text[start : start + 12] for start in range(max(1, len(text) - 11))]


def leaks(content: str) -> list[str]:
    """The parts of the key in a text, plain or in its URL form."""
    return [piece for form in SPELLINGS.values() for piece in pieces(form) if piece in content]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_is_removed(spelling: str) -> None:
    """The text around it stays; the longer one of two keys counts."""
    remember_key(KEY[:10])
    remember_key(KEY)
    assert without_keys(f"before {SPELLINGS[spelling]} after") == "before [redacted by toolgrade] after"
    assert without_keys("before\nand after") == "before\nand after"


@pytest.mark.parametrize("key", ["none", "EMPTY", "not-needed"])
def test_placeholders_are_not_keys(key: str) -> None:
    """Servers without keys get words that an answer may hold as well."""
    remember_key(key)
    assert without_keys(f"the key {key} none EMPTY") == f"the key {key} none EMPTY"


def test_a_key_in_two_parts_of_a_reply() -> None:
    """It is removed from the joined text, and from texts that JSON escapes."""
    remember_key(KEY)
    for first, second in ((KEY[:7], KEY[7:]), (KEY[:-7], KEY[-7:])):
        parts = [{"type": "text", "text": f"It is {first}"}, {"type": "text", "text": f"{second}."}]
        reply = chat_reply({"choices": [{"message": {"content": parts}}]})
        assert reply.text == "It is [redacted by toolgrade]."


def test_the_number_of_stored_keys_is_bounded() -> None:
    """The newest are kept."""
    for number in range(500):
        remember_key(f"a-key-with-number-{number:04d}")
    assert without_keys("a-key-with-number-0001!") == "a-key-with-number-0001!"
    assert without_keys("a-key-with-number-0499!") == "[redacted by toolgrade]!"


def echoes(spelled: str) -> dict[str, Callable[[Answer], Answer]]:
    """Ways in which an endpoint may answer with a key."""

    def verdict(answer: Answer) -> Answer:
        body = json.loads(answer.body)
        for choice in body.get("choices", []):
            text = {"evidence": [], "reasoning": f"The key is {spelled}.", "verdict": "no"}
            choice["message"]["content"] = json.dumps(text)
        body |= {"model": f"m-{spelled}", "id": spelled, spelled: spelled, "usage": {spelled: 5}}
        return answer.with_body(json.dumps(body).encode())

    def error(status: int, **fields: str) -> Callable[[Answer], Answer]:
        text = {"message": f"{'x' * 280} {spelled} is unknown", "type": spelled, "code": spelled, "param": spelled}
        body = json.dumps({"error": {**text, **fields}}).encode()
        return lambda answer: Answer(answer.kind, status, body, headers={"x-request-id": spelled})

    head = {"x-request-id": spelled, "retry-after": spelled, "x-echo": spelled}
    return {
        "the verdict": verdict,
        "the status line": lambda answer: Answer(answer.kind, 401, b"{}", reason=spelled),
        "the status line of a success": lambda answer: Answer(answer.kind, 200, answer.body, reason=spelled),
        "headers": lambda answer: Answer(answer.kind, 200, answer.body, headers=head),
        "a broken header": lambda answer: Answer(answer.kind, 200, b"{}", headers={f"bad header {spelled}": "x"}),
        "a broken status line": lambda answer: Answer(f"{answer.kind}", 99999, b"{}", reason=spelled),
        "a refusal": lambda answer: answer.with_body(
            json.dumps({"choices": [{"message": {"refusal": f"No: {spelled}", "content": None}}]}).encode()
        ),
        "another form": lambda answer: answer.with_body(
            json.dumps({"choices": [{"message": {"content": f"It is {spelled}"}}]}).encode()
        ),
        "an error of 401": error(401),
        "an error of 400": error(400, code="x"),
        "an error of 500": error(500),
        "an error with status 200": error(200),
        "a page": lambda answer: answer.with_body(f"<html>{'x' * 150}{spelled}{spelled}</html>".encode()),
        "a redirect": lambda answer: Answer(answer.kind, 307, b"", headers={"location": f"http://x/?key={spelled}"}),
        "a type of content": lambda answer: Answer(
            answer.kind, 500, f"<p>{spelled}".encode(), headers={"content-type": f"text/html; charset={spelled}"}
        ),
        "a compression": lambda answer: Answer(answer.kind, 200, b"x", headers={"content-encoding": spelled}),
    }


def written(report: Report, folder: Path) -> None:
    """Write everything that can be written of a report."""
    (folder / "report.json").write_text(report.to_json())
    (folder / "report.md").write_text(render_markdown(report, title="t"))
    (folder / "report.xml").write_text(render_junit(report, title="t"))
    write_html(folder / "report.html", report, title="t")
    print_report(report, title="t")


@pytest.mark.parametrize(
    ("place", "spelling"),
    [*((place, "plain") for place in echoes("")), ("the verdict", "URL form"), ("an error of 400", "URL form")],
)
def test_no_output_has_the_key(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    spelling: str,
) -> None:
    """Results, reports, caches, errors, warnings and logs at every level, one by one and in a batch."""
    monkeypatch.setattr("toolgrade.judge.openai.batch._QUIET_SECONDS", 0.01)
    spelled = SPELLINGS[spelling]
    calls = [ToolCall(name="look")]
    case = LLMTestCase(input="?", tools_called=calls, expected_tools=calls)
    with (
        caplog.at_level(logging.DEBUG),
        warnings.catch_warnings(record=True) as caught,
        FakeOpenAI(answer=lambda _: Reply("{}")) as server,
        HostileProxy(server.port, echoes(spelled)[place]) as proxy,
    ):
        warnings.simplefilter("always")
        model = OpenAIJudge("m", base_url=proxy.base_url, api_key=KEY, max_attempts=1, timeout=5, deadline=2)
        judge = Judge(model, cache=tmp_path / "cache.sqlite")
        metric = ToolCorrectnessMetric(available_tools=[{"name": "look"}], judge=judge)
        evaluate([case], [metric], results=tmp_path / "results.jsonl")
        report = evaluate([case], [metric])
        written(report, tmp_path)
        batched = Judge(model, cache=judge._cache, batch=BatchOptions(status_check_interval=0))
        answered = asyncio.run(batched.ask(sample_prompt("q")))
    judge._cache.close()  # type: ignore[union-attr]

    captured = capfd.readouterr()
    texts = {
        "memory": repr(report),
        "shown": captured.out + captured.err,
        "batch": repr(answered),
        "warnings": repr([str(warning.message) for warning in caught]),
        "logs": "\n".join(f"{record.getMessage()} {record.exc_info}" for record in caplog.records),
    }
    for path in tmp_path.rglob("*"):
        if path.is_file():
            texts[path.name] = path.read_bytes().decode("latin-1")
    assert {name: leaks(text)[:3] for name, text in texts.items() if leaks(text)} == {}
    assert len(texts) > 9


def test_the_key_of_a_client_of_ones_own_is_known() -> None:
    """The key is read from the request, wherever the client has it from."""
    import openai

    with FakeOpenAI() as server, HostileProxy(server.port, echoes(KEY)["an error of 401"]) as proxy:
        model = OpenAIJudge("m", client=lambda: openai.AsyncOpenAI(base_url=proxy.base_url, api_key=KEY))
        with pytest.raises(JudgeError, match="redacted by toolgrade") as caught:
            asyncio.run(model.complete(sample_prompt("q")))
    assert leaks(str(caught.value)) == []
