"""The key of a judge, of a shape that nobody knows, stays out of everything that is written, shown or logged."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
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
from toolgrade.judge.openai.key_filter import SHORTEST, remember, remove_keys, without_keys
from toolgrade.judge.openai.wire import chat_reply
from toolgrade.report.html import write_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.report.terminal import print_report
from toolgrade.testing import FakeOpenAI, Reply, sample_prompt

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

KEY = "Zw7/unheard+of=shape_2319-plover.Quay"
SPELLINGS = {
    "plain": KEY,
    "URL-encoded": quote(KEY, safe=""),
    "wholly URL-encoded": "".join(f"%{ord(character):02X}" for character in KEY),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of the header": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(f"x{KEY}".encode()).decode(),
    "escaped": "".join(f"\\u{ord(character):04x}" for character in KEY),
    "escaped slashes": KEY.replace("/", "\\/"),
    "HTML": "".join(f"&#{ord(character)};" for character in KEY),
    "URL-encoded twice": quote(quote(KEY, safe=""), safe=""),
    "hexadecimal": KEY.encode().hex(),
    "hexadecimal of the header": f"Bearer {KEY}".encode().hex().upper(),
    "its second half": KEY[-23:],
    "a part, escaped": "".join(f"\\\\u{ord(character):04x}" for character in KEY[5:28]),
    "its first half": KEY[: len(KEY) // 2],
    "its beginning": KEY[:SHORTEST],
}


def pieces(text: str) -> list[str]:
    """Every part of a text of twelve characters, by which a search finds it however it was cut."""
    return [text[start : start + 12] for start in range(max(1, len(text) - 11))]


def leaks(content: str, key: str = KEY) -> list[str]:
    """The parts of a key in a text, plain or in another spelling."""
    forms = [key, quote(key, safe=""), *(base64.b64encode(b"\0" * n + key.encode()).decode()[4:-4] for n in range(3))]
    forms.append(key.encode().hex())
    return [piece for form in forms for piece in pieces(form) if piece in content]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_is_found_in_every_spelling(spelling: str) -> None:
    """Nothing of it is left but what base64 mixes with its neighbours; the text around it stays."""
    for text in (f"before {SPELLINGS[spelling]} after", f'{{"a": "{SPELLINGS[spelling]}"}}'):
        clean = remove_keys(text, [KEY])
        assert leaks(clean) == []
        assert "[redacted by toolgrade]" in clean
        assert len(clean) < 60
    assert remove_keys("before\nand after", [KEY]) == "before\nand after"


@pytest.mark.parametrize("key", ["", "none", "EMPTY", "not-needed"])
def test_placeholders_are_not_keys(key: str) -> None:
    """Servers without keys get words that an answer may hold as well."""
    assert remove_keys(f"the key {key} none EMPTY", [key]) == f"the key {key} none EMPTY"


def test_a_key_that_begins_like_a_field_does_not_destroy_replies() -> None:
    """It is removed as a whole only."""
    reply = '{"evidence": [], "reasoning": "reasoning-key-1", "verdict": "yes"}'
    clean = remove_keys(reply, ["reasoning-key-1"])
    assert json.loads(clean) == {"evidence": [], "reasoning": "[redacted by toolgrade]", "verdict": "yes"}


def test_a_key_with_characters_of_an_escape() -> None:
    """It is found plain and escaped."""
    key = "a%41b%2Fc-0123456789"
    for text in (key, quote(key, safe=""), json.dumps(key)[1:-1]):
        assert remove_keys(f"it is {text}!", [key]) == "it is [redacted by toolgrade]!"


@pytest.mark.parametrize("text", ["\\" * 1_000_000, "%" + "25" * 500_000, "&#" + "0" * 1_000_000, KEY[:7] * 100_000])
def test_a_long_text_takes_little_time(text: str) -> None:
    """The time grows with the length alone; with its square this would not end."""
    assert remove_keys(text, [KEY]) == text


def test_a_key_in_two_parts_of_a_reply() -> None:
    """It is removed from the joined text."""
    remember([KEY])
    middle = len(KEY) // 2
    for cut in (7, middle, len(KEY) - 7):
        parts = [{"type": "text", "text": text} for text in (f"It is {KEY[:cut]}", f"{KEY[cut:]}.")]
        reply = chat_reply({"choices": [{"message": {"content": parts}}]})
        assert reply.text == "It is [redacted by toolgrade]."


def test_the_number_of_stored_keys_is_bounded() -> None:
    """The newest are kept."""
    remember(f"a-key-with-number-{number:04d}" for number in range(500))
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


@pytest.mark.parametrize("spelling", ["plain", "base64 of the header", "its first half"])
@pytest.mark.parametrize("place", echoes(""))
def test_no_output_has_the_key(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    spelling: str,
) -> None:
    """Results, reports, caches, errors, warnings and logs at every level, one by one and in a batch."""
    monkeypatch.setattr("toolgrade.judge.openai.throttle._FIRST_PAUSE", 0.001)
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
