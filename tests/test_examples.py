"""The examples run as they stand, offline and without a warning, and print what they should."""

import json
from pathlib import Path

import pytest

from processes import ROOT, assert_golden, run_python

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
REPORT = "toolmark-demo-report.json"


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_prints_what_it_should(tmp_path: Path, example: Path) -> None:
    """In an empty folder; only the demonstration writes a file, and only the one it names."""
    done = run_python([str(example)], tmp_path)

    assert done.err == ""
    assert done.code == 0
    assert_golden(f"example-{example.stem}.txt", done.out)
    assert [path.name for path in tmp_path.iterdir()] == ([REPORT] if example.stem == "demo" else [])


def test_there_are_examples() -> None:
    """The test above is not vacuous, and every golden file has its example."""
    golden = {path.stem.removeprefix("example-") for path in (ROOT / "tests" / "golden").glob("example-*.txt")}

    assert golden == {path.stem for path in EXAMPLES}
    assert {"demo", "score_in_code", "score_messages", "score_fluently", "gate_in_pytest"} <= golden


def test_the_demonstration_writes_its_report(tmp_path: Path) -> None:
    """Valid JSON that says what the terminal said: three questions, the failed booking and its retry included."""
    run_python([str(ROOT / "examples" / "demo.py")], tmp_path)
    plain = json.loads((tmp_path / REPORT).read_text(encoding="utf-8"))

    (summary,) = plain["metrics"]
    assert summary["metric"] == "tool_correctness(ordered, input_parameters)"
    assert (summary["passed"], summary["failed"], summary["skipped"], summary["errored"]) == (1, 2, 0, 0)
    assert summary["mean"] == pytest.approx(2 / 3)
    cases = {case["id"]: case["results"][0] for case in plain["cases"]}
    assert {name: result["score"] for name, result in cases.items()} == {
        "book-and-retry": 1,
        "wrong-seats": 0.5,
        "look-before-you-book": 0.5,
    }
    assert cases["book-and-retry"]["alignment"]["called_count"] == 4
    assert [finding["kind"] for finding in cases["book-and-retry"]["findings"]] == ["unexpected"]
    (wrong,) = cases["wrong-seats"]["findings"]
    assert (wrong["path"], wrong["expected_value"], wrong["called_value"]) == ("$.input_parameters.seats", 3, 2)


def test_the_gate_is_a_pytest_file(tmp_path: Path) -> None:
    """It passes under pytest, and fails with the reason when the agent forgets a call."""
    text = (ROOT / "examples" / "gate_in_pytest.py").read_text(encoding="utf-8")
    (tmp_path / "test_good.py").write_text(text, encoding="utf-8")
    (tmp_path / "test_bad.py").write_text(text.replace(', ToolCall(name="refund")]', "]", 1), encoding="utf-8")
    good, bad = (
        run_python(["-m", "pytest", "-q", "-p", "no:cacheprovider", name], tmp_path)
        for name in ("test_good.py", "test_bad.py")
    )

    assert good.code == 0
    assert bad.code == 1
    assert "1 matched / 2 expected = 0.5 (failed at 1)." in bad.out
    assert "Missing: expected #2 'refund' was not called." in bad.out
