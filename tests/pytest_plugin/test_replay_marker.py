"""The marker `toolgrade_replay` and `--toolgrade-record`, in runs of pytest of their own."""

from __future__ import annotations

import json
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from processes import run_pytest
from toolgrade.cli.init import _template
from toolgrade.dataset import read_goldens

TOOLS = """
import pytest
from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, observe
from toolgrade.capture import record


@observe(tool=True)
def pay(amount):
    with open("paid.txt", "a") as file:
        file.write(f"{amount}\\n")
    return {"paid": amount}
"""


run = partial(run_pytest, frameworks=True)


def paid(folder: Path) -> list[str]:
    """What the tools did since the last look."""
    path = folder / "paid.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


TESTS = """
@pytest.mark.toolgrade_replay("tapes/plain.json")
def test_plain():
    assert pay(5) == {"paid": 5}


@pytest.mark.anyio
@pytest.mark.toolgrade_replay("tapes/awaited.json")
async def test_awaited():
    assert pay(6) == {"paid": 6}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def receipt():
    yield pay(3)
    pay(4)


@pytest.mark.toolgrade_replay("tapes/fixture.json")
def test_fixture(receipt):
    assert receipt == {"paid": 3}


class TestGroup:
    @pytest.mark.toolgrade_replay("tapes/group.json")
    def test_method(self, tmp_path):
        assert pay(7) == {"paid": 7}


@pytest.mark.toolgrade_goldens("goldens.jsonl")
@pytest.mark.toolgrade_replay("tapes/goldens.json")
def test_golden(golden):
    assert pay(int(golden.input)) == {"paid": int(golden.input)}


@pytest.mark.toolgrade_replay("tapes/evaluated.json")
def test_evaluated(toolgrade):
    async def agent(question, conversation):
        with record() as recorder:
            observe(lambda question: str(pay(int(question))))(question)
        return recorder.last_run

    goldens = [Golden(input=n, expected_tools=[ToolCall(name="pay")]) for n in "12"]
    assert toolgrade.evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()], trials=2).passed
"""


def test_tests_are_recorded_once_and_then_replayed(tmp_path: Path) -> None:
    """Of all kinds: without a tape they say how to record one; with it, nothing runs, and a change of a call fails."""
    pytest.importorskip("anyio", reason="anyio, which runs asynchronous tests, is not installed here")
    (tmp_path / "test_agent.py").write_text(TOOLS + TESTS, encoding="utf-8")
    (tmp_path / "goldens.jsonl").write_text('{"input": "1"}\n{"input": "2"}\n', encoding="utf-8")
    missing = run(tmp_path, "-p", "anyio")
    assert "7 errors" in missing.out
    assert "record it with pytest --toolgrade-record once" in missing.out
    assert paid(tmp_path) == []

    recorded = run(tmp_path, "--toolgrade-record", "once", "-p", "anyio")
    assert (recorded.code, len(paid(tmp_path))) == (0, 11), recorded.out
    replayed = run(tmp_path, "-p", "anyio")
    assert (replayed.code, paid(tmp_path)) == (0, []), replayed.out
    assert "7 passed" in replayed.out
    assert json.loads((tmp_path / "tapes" / "goldens.json").read_text(encoding="utf-8")) == [
        {
            "input": n,
            "tools_called": [{"name": "pay", "input_parameters": {"amount": int(n)}, "output": {"paid": int(n)}}],
        }
        for n in "12"
    ]

    changed = (TOOLS + TESTS).replace("pay(5)", "pay(8)")
    (tmp_path / "test_agent.py").write_text(changed, encoding="utf-8")
    failed = run(tmp_path, "-k", "test_plain", "-p", "anyio")
    assert (failed.code, paid(tmp_path)) == (1, [])
    assert 'the closest recorded call is pay {"amount": 5}: input_parameters.amount is 8, recorded 5' in failed.out
    again = run(tmp_path, "-k", "test_plain", "--toolgrade-record", "new_episodes", "-p", "anyio")
    assert (again.code, paid(tmp_path)) == (1, [])
    assert "may write, so it did not run" in again.out


QUIET = """
import threading
import unittest
from contextlib import suppress

pytestmark = pytest.mark.toolgrade_replay("tape.json")


def quietly():
    with suppress(Exception):
        pay(5)


def test_hidden():
    quietly()


def test_plain_thread():
    thread = threading.Thread(target=quietly)
    thread.start()
    thread.join()


@pytest.fixture
def leaving():
    yield
    quietly()


def test_teardown(leaving):
    pass


class TestGroup(unittest.TestCase):
    def tearDown(self):
        quietly()

    def test_unittest(self):
        pass


class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_async(self):
        quietly()


def test_evaluated(toolgrade):
    async def agent(question, conversation):
        with record() as recorder:
            observe(lambda question: quietly())(question)
        return recorder.last_run

    goldens = [Golden(input="1", expected_tools=[ToolCall(name="pay")])]
    toolgrade.evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()])


def test_that_holds():
    pass
"""


def test_a_test_fails_if_a_call_left_the_recording(tmp_path: Path) -> None:
    """Wherever it was made, and although all that the test asserts holds."""
    (tmp_path / "test_agent.py").write_text(TOOLS + QUIET, encoding="utf-8")
    (tmp_path / "tape.json").write_text('[{"tools_called": []}]', encoding="utf-8")
    done = run(tmp_path, "-rA")
    assert (done.code, paid(tmp_path)) == (1, [])
    bad = re.findall(r"^(?:FAILED|ERROR) test_agent.py::(?:Test\w+::)?test_(\w+)", done.out, re.MULTILINE)
    assert set(bad) == {"hidden", "plain_thread", "teardown", "unittest", "async", "evaluated"}
    assert 'left the recording at call 1: pay {"amount": 5}; no call of pay is recorded' in done.out
    assert "pytest --toolgrade-record all records the test anew" in done.out


def test_a_test_that_fails_is_not_recorded(tmp_path: Path) -> None:
    """The tape that is there stays as it is."""
    test = """
@pytest.mark.toolgrade_replay("tape.json")
def test_broken():
    pay(5)
    raise ValueError("no model")
"""
    (tmp_path / "test_agent.py").write_text(TOOLS + test, encoding="utf-8")
    assert (run(tmp_path, "--toolgrade-record", "once").code, paid(tmp_path)) == (1, ["5"])
    assert not (tmp_path / "tape.json").exists()
    (tmp_path / "tape.json").write_text('[{"tools_called": []}]', encoding="utf-8")
    assert run(tmp_path, "--toolgrade-record", "all").code == 1
    assert (tmp_path / "tape.json").read_text(encoding="utf-8") == '[{"tools_called": []}]'


def test_other_marks_and_plugins(tmp_path: Path) -> None:
    """A test that is skipped needs no tape, and one that is run again has an object of its own."""
    test = """
class TestGroup:
    made = 0

    def setup_method(self):
        type(self).made += 1
        self.number = type(self).made

    @pytest.mark.flaky(reruns=2)
    @pytest.mark.toolgrade_replay("tape.json")
    def test_again(self):
        assert pay(5) == "recorded"
        assert self.number == type(self).made == 3


@pytest.mark.skip
@pytest.mark.toolgrade_replay("missing.json")
def test_skipped():
    pass
"""
    (tmp_path / "test_agent.py").write_text(TOOLS + test, encoding="utf-8")
    tape = [{"tools_called": [{"name": "pay", "input_parameters": {"amount": 5}, "output": "recorded"}]}]
    (tmp_path / "tape.json").write_text(json.dumps(tape), encoding="utf-8")
    done = run(tmp_path, "-p", "rerunfailures")
    assert (done.code, paid(tmp_path)) == (0, []), done.out
    assert "1 passed, 1 skipped, 2 rerun" in done.out


@pytest.mark.parametrize(
    ("marker", "arguments", "text"),
    [
        ('"tape.json"', ("--toolgrade-record", "all", "-n", "1"), "--toolgrade-record must run without pytest-xdist"),
        ("", (), "toolgrade_replay must have one argument by position, the path of a tape"),
        ('"tape.json", fault=1', (), "unexpected keyword argument 'fault'"),
    ],
)
def test_wrong_uses(tmp_path: Path, marker: str, arguments: tuple[str, ...], text: str) -> None:
    """Each says what is wrong."""
    test = f"@pytest.mark.toolgrade_replay({marker})\ndef test_it():\n    pass\n"
    (tmp_path / "test_agent.py").write_text(TOOLS + test, encoding="utf-8")
    (tmp_path / "tape.json").write_text('[{"tools_called": []}]', encoding="utf-8")
    done = run(tmp_path, *arguments, "-p", "xdist")
    assert done.code != 0
    assert text in done.out + done.err


FRAMEWORKS = {
    "langchain": "toolgrade_langchain",
    "llama_index": "toolgrade_llama_index",
    "openai_agents": "toolgrade_openai_agents",
}

AGAIN = """
from pathlib import Path
from ADAPTER import as_agent


async def agent(question, conversation):
    return await as_agent(build_agent(question))(question, conversation)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.toolgrade_replay("tapes/NAME.json")
def test_again(toolgrade, number):
    goldens = Path(__file__).with_name("goldens.jsonl")
    report = toolgrade.evaluate(goldens=goldens, agent=agent, metrics=METRICS, trials=4)
    assert report.passed, report.verdict.sentence
    texts = [(case.case.id, *(str(call.output) for call in case.case.tools_called)) for case in report.cases]
    outputs = {tuple(text.replace("20.0 EUR", "20 EUR") for text in one) for one in texts}
    looked = "a lamp for 20 EUR, delivered."
    assert outputs == {
        ("refund", f"Order 18: {looked}", "20 EUR of order 18 refunded."), ("only-look", f"Order 7: {looked}")
    }
"""


@pytest.mark.skipif(not all(map(find_spec, FRAMEWORKS.values())), reason="the adapters are not installed here")
def test_agents_of_three_frameworks_run_again_and_again(tmp_path: Path) -> None:
    """Recorded once, they run four times in parallel processes, with trials, eight at once, and nothing is paid."""
    (tmp_path / "goldens.jsonl").write_text(_template("goldens.jsonl"), encoding="utf-8")
    assert len(read_goldens(tmp_path / "goldens.jsonl")) == 2
    for name, adapter in FRAMEWORKS.items():
        code = _template(f"{name}.py.txt").split("# The tools do not run")[0] + AGAIN
        code = code.replace("ADAPTER", adapter).replace("NAME", name)
        paying = '"""Refund an order."""\n    with open("paid.txt", "a") as file:\n        file.write("paid\\n")'
        code = code.replace('"""Refund an order."""', paying)
        (tmp_path / f"test_{name}.py").write_text(code, encoding="utf-8")
    recorded = run(tmp_path, "-W", "default", "-k", "[0]", "--toolgrade-record", "all")
    assert (recorded.code, len(paid(tmp_path))) == (0, 3 * 4), recorded.out
    replayed = run(tmp_path, "-W", "default", "-n", "2", "-p", "xdist")
    assert (replayed.code, paid(tmp_path)) == (0, []), replayed.out
    assert "12 passed" in replayed.out
