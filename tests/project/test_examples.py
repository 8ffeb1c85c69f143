"""The examples run offline without a warning and print the expected output."""

import json
import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from processes import ROOT, Finished, assert_golden, run_pytest, run_python

NEEDED = {
    "compare_frameworks": "toolgrade_langchain",
    "conversation_in_pytest": "toolgrade_langchain",
    "langchain_agent": "toolgrade_langchain",
    "live_mcp": "mcp",
    "live_otel": "opentelemetry",
    "llama_index_agent": "toolgrade_llama_index",
    "openai_agents": "toolgrade_openai_agents",
    "simulated_user": "openai",
    "validate_a_judge": "openai",
}
"""Examples that need an adapter or another package, and are left out where the core is tested alone."""
LLAMA_INDEX = ["-W", "ignore::DeprecationWarning:inspect"]
OPTIONS = dict.fromkeys(("llama_index_agent", "compare_frameworks", "conversation_in_pytest"), LLAMA_INDEX)
"""Warnings of a framework about itself: LlamaIndex inspects its agents, and with them what pydantic deprecates."""
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
RUNNABLE = [path for path in EXAMPLES if find_spec(NEEDED.get(path.stem, "toolgrade"))]
REPORT = "toolgrade-demo-report.json"
PAGE = "toolgrade-demo-report.html"


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], tuple[Finished, Path]]:
    """Runs an example in an empty folder, which it returns, too; each example once for all tests."""

    @cache
    def run(example: Path) -> tuple[Finished, Path]:
        folder = tmp_path_factory.mktemp(example.stem)
        return run_python([*OPTIONS.get(example.stem, ()), str(example)], folder, frameworks=True), folder

    return run


@pytest.mark.parametrize("example", RUNNABLE, ids=[path.stem for path in RUNNABLE])
def test_example_prints_the_expected_output(run_once: Callable[[Path], tuple[Finished, Path]], example: Path) -> None:
    """In an empty folder; only the demonstration writes files, and only the named ones."""
    done, folder = run_once(example)

    assert done.err == ""
    assert done.code == 0
    assert_golden(f"example-{example.stem}.txt", done.out)
    written = [PAGE, REPORT] if example.stem == "langchain_agent" else []
    assert sorted(path.name for path in folder.iterdir()) == written


def test_examples_exist() -> None:
    """The test above is not vacuous, and every golden file has its example."""
    golden = {path.stem.removeprefix("example-") for path in (ROOT / "tests" / "golden").glob("example-*.txt")}

    assert golden == {path.stem for path in EXAMPLES}
    assert len(golden) >= 6


@pytest.mark.skipif(not find_spec("toolgrade_langchain"), reason="the core is tested alone, without the adapter")
def test_the_demonstration_writes_its_report(run_once: Callable[[Path], tuple[Finished, Path]]) -> None:
    """JSON with the content of the terminal: three turns, including failed bookings and retries."""
    _, folder = run_once(ROOT / "examples" / "langchain_agent.py")
    plain = json.loads((folder / REPORT).read_text(encoding="utf-8"))

    (summary,) = plain["metrics"]
    assert summary["metric"] == "tool_correctness(input_parameters)"
    assert (summary["passed"], summary["failed"], summary["skipped"], summary["errored"]) == (2, 1, 0, 0)
    cases = {case["id"]: case["results"][0] for case in plain["cases"]}
    assert {name: result["score"] for name, result in cases.items()} == {"turn 1": 1, "turn 2": 1, "turn 3": 0.75}
    assert cases["turn 2"]["alignment"]["called_count"] == 2
    assert [finding["kind"] for finding in cases["turn 2"]["findings"]] == ["unexpected"]
    page = (folder / PAGE).read_text(encoding="utf-8")
    assert "1 of 3 cases failed" in page
    assert "the booking service did not answer for TP530" in page
    wrong, retried = cases["turn 3"]["findings"]
    assert (wrong["path"], wrong["expected_value"], wrong["called_value"]) == ("$.input_parameters.seats", 2, 1)
    assert retried["kind"] == "unexpected"


def in_pytest(folder: Path, example: str, *changed: tuple[str, str], options: tuple[str, ...] = ()) -> Finished:
    """Run an example under pytest, with texts changed in it."""
    text = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8")
    for old, new in changed:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    return run_pytest(folder, "-q", *options, "test_it.py", frameworks=True)


def test_the_gate_is_a_pytest_file(tmp_path: Path) -> None:
    """It passes under pytest and fails with the reason if the agent omits a call."""
    good = in_pytest(tmp_path, "gate_in_pytest")
    bad = in_pytest(tmp_path, "gate_in_pytest", (', ToolCall(name="refund")]', "]"))

    assert good.code == 0
    assert bad.code == 1
    assert "1 matched / 2 expected = 0.5 (failed at 1)." in bad.out
    assert "Missing: expected #2 'refund' was not called." in bad.out


@pytest.mark.skipif(not find_spec("toolgrade_langchain"), reason="the core is tested alone, without the adapters")
def test_a_conversation_is_a_pytest_file(tmp_path: Path) -> None:
    """It fails on each framework, with the turn and the call, if the second turn books the wrong number of seats."""
    steps = '    ("book_flight", {"flight": "TP531", "seats": %d}),'
    bad = in_pytest(
        tmp_path, "conversation_in_pytest", (steps % 2, steps % 1), options=("-W", "ignore::DeprecationWarning")
    )

    assert bad.code == 1
    assert bad.out.count("Turn 2: 'book_flight' (expected #2, called #2): $.input_parameters.seats expected 2") == 3


LIBRARY_EXAMPLES = sorted((ROOT / "examples").glob("*/with_*.py"))


@pytest.mark.parametrize("example", LIBRARY_EXAMPLES, ids=[path.stem for path in LIBRARY_EXAMPLES])
def test_a_library_needs_five_lines(example: Path) -> None:
    """They are numbered; `.ci/live-matrix` runs each example, in an environment with its library."""
    numbers = re.findall(r"  # (\d)\b", example.read_text(encoding="utf-8"))
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("with_*.py"))
    page = ROOT / "docs" / {"live": "live.md", "runners": "extend.md"}[example.parent.name]

    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert 3 <= len(numbers) <= 5
    assert f'"{example.parent.name}/{example.name}"' in tests
    assert f"(../examples/{example.parent.name}/{example.name})" in page.read_text(encoding="utf-8")


def test_each_test_of_a_library_runs_in_an_environment() -> None:
    """The pins of one name it; they are versions, and no addresses."""
    pins = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "live" / "matrix").glob("*.txt"))
    files = [path.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("with_*.py")]

    assert not re.search(r"^(?!#|[\w.-]+(\[[\w,-]+\])?==)", pins.rstrip("\n"), re.MULTILINE)
    assert {file for file in files if file not in pins} == {"compat/hosts/with_promptfoo.py"}
