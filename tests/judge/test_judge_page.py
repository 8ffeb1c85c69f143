"""Programs of docs/judge.md that call OpenAI, run against a local endpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from processes import run_python
from toolgrade import ConversationalTestCase, Turn
from toolgrade.testing import BatchPlan, FakeOpenAI, ReceivedRequest, Reply

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

PAGE = (Path(__file__).parents[2] / "docs" / "judge.md").read_text(encoding="utf-8")
READING, *PROGRAMS = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def yes(request: ReceivedRequest) -> Reply:
    """Yes to every question, in its form."""
    expected = request.body["response_format"]["json_schema"]["schema"]["properties"]
    message = {"evidence": [], "reasoning": "it fits", "verdict": "yes", "missing": []}
    return Reply(json.dumps({name: message[name] for name in expected}))


def test_converted_conversations_are_read_whole(tmp_path: Path) -> None:
    """Lines that hold conversations become conversations with all of their turns."""
    turns = [Turn(role="user", content="Hi."), Turn(role="assistant", content="Hello.")] * 2
    line = ConversationalTestCase(turns=turns).to_json()
    (tmp_path / "conversations.jsonl").write_text(f"{line}\n{line}\n", encoding="utf-8")
    check = "\nassert [len(one.turns) for one in conversations] == [4, 4], conversations\n"
    (tmp_path / "reading.py").write_text(READING + check, encoding="utf-8")
    assert run_python(["reading.py"], tmp_path) == (0, "", "")


def test_the_programs_run(tmp_path: Path) -> None:
    """The batch program ends with a score and sends only batch requests."""
    first, second = PROGRAMS
    check = (
        "\nassert (state.prompts, state.verdicts, state.ended) == (3, 3, True), state"
        "\nassert report.cases[0].results[0].score == 1, report"
        "\njudge._cache.close()\n"
    )
    with FakeOpenAI(answer=yes, batches=[BatchPlan(polls=0)]) as server:
        settings = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-made-up"}
        for name, text in (("first", first), ("second", second + check)):
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
            assert run_python([f"{name}.py"], tmp_path, settings=settings) == (0, "", "")

    assert len(server.batched) == 3
    assert {request.path.split("?")[0].split("/")[2] for request in server.requests} == {"files", "batches"}
