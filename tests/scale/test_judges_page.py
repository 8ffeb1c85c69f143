"""The way through judged scoring on the page of scale runs as it stands, against an endpoint on this machine."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from processes import COMMAND, ROOT, run_python
from toolgrade.testing import BatchPlan, FakeOpenAI, ReceivedRequest, Reply

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
STEPS = [
    (shlex.split(line)[1:], output)
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line, output in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)
]
TOOLS = [
    {"name": "refund", "description": "Pays the price of an order back.", "inputSchema": {"type": "object"}},
    {"name": "look_up", "description": "Finds an order by its number.", "inputSchema": {"type": "object"}},
]


def case(number: int) -> dict[str, object]:
    """Return a case; code finds about one of eight wrong, the judge one of ten."""
    called = "look_up" if number % 25 < 3 else "refund"
    return {
        "id": f"{number:04}",
        "input": "The parcel never came, I want my money back." if number % 10 else "Where is my parcel?",
        "tools_called": [{"name": called, "input_parameters": {"order": f"{number:04}"}}],
        "expected_tools": [{"name": "refund"}],
        "available_tools": TOOLS,
    }


def judged(request: ReceivedRequest) -> Reply:
    """Answer no for a call without a request, and yes otherwise."""
    fields = request.body["response_format"]["json_schema"]["schema"]["properties"]
    wrong = "Where is my parcel?" in request.body["messages"][1]["content"] and "missing" not in fields
    answer = {"evidence": [], "reasoning": "it fits", "verdict": "no" if wrong else "yes", "missing": []}
    return Reply(json.dumps({name: answer[name] for name in fields}), usage=(600, 40))


def test_documented_workflow_runs_as_printed(tmp_path: Path) -> None:
    """From all cases to a sample, its cost, its verdicts, and an estimate whose interval covers the truth."""
    for name, numbers in (("monday", range(3000)), ("tuesday", range(3000, 5000))):
        lines = "".join(json.dumps(case(number)) + "\n" for number in numbers)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    printed: list[str] = []
    counts: list[int] = []

    with FakeOpenAI(answer=judged, batches=[BatchPlan(polls=0)]) as server:
        settings = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-made-up"}
        for arguments, _ in STEPS:
            done = run_python([*COMMAND, *arguments], tmp_path, settings=settings)
            assert done.code in ({0, 1} if arguments[0] == "score" else {0}), done.err
            printed.append(done.out)
            counts.append(len(server.requests))

    assert printed == [output for _, output in STEPS]
    dry = next(place for place, (arguments, _) in enumerate(STEPS) if "--dry-run" in arguments)
    assert counts[dry] == 0 < counts[dry + 1]
    truth = sum(case(number)["input"] != "Where is my parcel?" and number % 25 >= 3 for number in range(5000)) / 5000
    low, high = map(float, re.findall(r"pass \(([\d.]+) to ([\d.]+)\)", printed[-1])[0])
    assert low < truth < high
