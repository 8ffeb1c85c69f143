"""The programs of docs/judge.md that call OpenAI, run one after the other against a local endpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from processes import run_python
from toolgrade.testing import BatchPlan, FakeOpenAI, ReceivedRequest, Reply

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

PAGE = (Path(__file__).parents[2] / "docs" / "judge.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```py\n(.*?)^```\n(?:\n```\n(.*?)^```$)?", PAGE, re.MULTILINE | re.DOTALL)


def yes(request: ReceivedRequest) -> Reply:
    """Yes to every question, in its form."""
    expected = request.body["response_format"]["json_schema"]["schema"]["properties"]
    message = {"evidence": [], "reasoning": "it fits", "verdict": "yes", "missing": []}
    return Reply(json.dumps({name: message[name] for name in expected}))


def test_the_programs_run(tmp_path: Path) -> None:
    """They print what the page shows; the batch ends with a score, and nothing is sent outside of it."""
    program = "".join(text for text, _ in PROGRAMS)
    check = "assert report.cases[0].results[0].score == 1, report\n"
    with FakeOpenAI(answer=yes, batches=[BatchPlan(polls=0)]) as server:
        settings = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-made-up"}
        (tmp_path / "program.py").write_text(program + check, encoding="utf-8")
        assert run_python(["program.py"], tmp_path, settings=settings) == (0, "".join(out for _, out in PROGRAMS), "")

    assert len(server.batched) == 3
    assert {request.path.split("?")[0].split("/")[2] for request in server.requests} == {"files", "batches"}
