"""All views agree on the verdict: Python, exit codes, JUnit, Markdown, HTML, terminal, JSON, annotations, pytest.

The outcomes and the gate are those of a slow oracle that counts with fractions.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from command_runner import RUNNER
from toolgrade import (
    Gate,
    LLMTestCase,
    MetricAssertionError,
    MetricResult,
    Report,
    ResultStatus,
    Run,
    ToolCall,
    assert_test,
    compare,
    evaluate,
    write_cases,
)
from toolgrade.calls import Execution
from toolgrade.cli.main import main
from toolgrade.evaluation import read_results
from toolgrade.report.html import render_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.report.terminal import print_report
from toolgrade.verdict import Outcome, Tally, Trial

SCORES = {"p": 1.0, "f": 0.0}


@dataclass(frozen=True)
class Scripted:
    """A metric whose result stands in the metadata of the case: `p`assed, `f`ailed, `s`kipped, `e`rrored."""

    place: int
    threshold: float = 0.5

    @property
    def label(self) -> str:
        """The name."""
        return f"scripted {self.place}"

    def measure(self, case: Any) -> MetricResult:
        """Return the result."""
        letter = case.metadata["letters"][self.place]
        if letter == "e":
            raise ValueError("the scripted error")
        score = SCORES.get(letter)
        status = ResultStatus.SKIPPED if score is None else ResultStatus.SCORED
        passed = None if score is None else score >= self.threshold
        return MetricResult(metric=self.label, status=status, threshold=0.5, score=score, passed=passed, reason=letter)

    async def a_measure(self, case: Any) -> MetricResult:
        """Return the result."""
        return self.measure(case)


METRICS = [Scripted(0), Scripted(1)]
ENDS: Sequence[tuple[str, str | None, str | None]] = [
    ("ok", None, None),
    ("error", "RuntimeError: 401 invalid key", None),
    ("error", "RuntimeError: 401 invalid key", "error"),
    ("interrupted", None, None),
    ("interrupted", None, "interrupted"),
    ("ok", None, "interrupted"),
    ("stopped", "limit", "any"),
    ("stopped", None, None),
]
"""Status and error of the run, how it must end."""


@dataclass(frozen=True)
class Drawn:
    """A case: the number of its golden, the letters of its results, and its end as a place in `ENDS`."""

    golden: int
    letters: str
    end: int

    def case(self, number: int) -> LLMTestCase:
        """The case."""
        status, error, ends = ENDS[self.end]
        return LLMTestCase(
            id=f"golden {self.golden}" if self.golden else f"case {number}",
            input=f"question {self.golden or number + 10}",
            tools_called=[],
            ends=ends,
            metadata={"letters": self.letters},
            run=Run(status=status, error=error, calls=[ToolCall(name="look", execution=Execution())]),
        )

    @property
    def outcome(self) -> Outcome:
        """What became of it, by the words of the documentation."""
        status, error, ends = ENDS[self.end]
        is_known = status != "stopped" or error is not None
        if is_known and status != "ok" and ends not in {status, "any"}:
            return "agent_error"
        if "f" in self.letters or (ends == "interrupted" and status == "ok"):
            return "failed"
        return "not_measured" if "e" in self.letters or "p" not in self.letters else "passed"


drawn_cases = st.lists(
    st.builds(
        Drawn,
        golden=st.integers(0, 2),
        letters=st.text("pppfse", min_size=2, max_size=2),
        end=st.one_of(st.just(0), st.integers(0, len(ENDS) - 1)),
    ),
    min_size=1,
    max_size=6,
)
shares = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 2 / 3, 0.9, 1.0])
gates = st.one_of(
    st.just(Gate()),
    st.builds(Gate, pass_rate=shares, per_golden=shares, not_measured=shares, agent_errors=shares),
)


def holds(cases: Sequence[Drawn], gate: Gate, *, have_goldens: bool) -> bool:
    """Whether the gate holds, by the words of the documentation."""

    def is_enough(part: int, whole: int, share: float) -> bool:
        return Fraction(part) >= Fraction(share).limit_denominator(100) * whole

    trials: dict[object, list[bool]] = {}
    for number, case in enumerate(cases):
        if case.outcome in {"passed", "failed"}:
            key = ("golden", case.golden) if have_goldens and case.golden else number
            trials.setdefault(key, []).append(case.outcome == "passed")
    passing = sum(is_enough(sum(one), len(one), gate.per_golden) for one in trials.values())
    counts = Counter(case.outcome for case in cases)
    return (
        bool(trials)
        and is_enough(passing, len(trials), gate.pass_rate)
        and is_enough(-counts["not_measured"], len(cases), -gate.not_measured)
        and is_enough(-counts["agent_error"], len(cases), -gate.agent_errors)
    )


def check_views(report: Report, cases: Sequence[Drawn], *, passed: bool) -> None:
    """Check that every view of a report says the same."""
    counts = Counter(case.outcome for case in cases)
    agents = counts["agent_error"]
    words = f"{counts['passed']} passed, {counts['failed']} failed, {counts['not_measured']} not measured, "
    words += f"{agents} agent error{'' if agents == 1 else 's'}"
    assert report.passed is report.verdict.passed is passed
    start = "Passed" if passed else "Failed"
    assert str(report).startswith(f"{start}: ")
    # Terminal, Markdown, HTML, JUnit, JSON, annotations
    file = io.StringIO()
    print_report(report, title="x", console=Console(file=file, width=200))
    assert f"{'PASSED' if passed else 'FAILED'}: {words}" in file.getvalue()
    markdown = render_markdown(report, title="x")
    assert f" **{start}**: `" in markdown
    assert f"\n{words}, of " in markdown
    page = render_html(report)
    badge = "passed" if passed else "failed"
    assert f'<p class="headline"><span class="badge {badge}">{start}</span>' in page
    legend = dict(re.findall(r'<li class="(\w+)"><b>(\d+)</b>', page.partition("</ul>")[0]))
    assert {name: int(amount) for name, amount in legend.items()} == {name: counts[name] for name in legend}
    root = ET.fromstring(render_junit(report, title="x"))  # noqa: S314 - our own
    errors = counts["not_measured"] + agents
    assert (root.get("failures"), root.get("errors")) == (str(counts["failed"]), str(errors))
    assert len(root.findall(".//failure")) == counts["failed"]
    assert len(root.findall(".//error")) == errors
    plain = json.loads(report.to_json())
    assert plain["verdict"]["passed"] is passed
    assert [case["outcome"] for case in plain["cases"]] == [case.outcome for case in report.cases]
    # What was written and is read
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        path.write_text(report.to_json(), encoding="utf-8")
        assert read_results(path).verdict == report.verdict
        shown = RUNNER.invoke(main, ["report", str(path), "--github", "-q"])
        assert shown.exit_code == int(not passed)
        assert (f"failed: {report.verdict.sentence}" in shown.stderr) is not passed
        assert shown.stdout.count("::error ") == len(cases) - counts["passed"]
    assert compare(report, report, resamples=1).verdict_b == report.verdict


@given(drawn_cases, gates)
def test_cases(cases: list[Drawn], gate: Gate) -> None:
    """Cases of a list are goldens of their own, whatever their ids."""
    report = evaluate([case.case(number) for number, case in enumerate(cases)], METRICS, gate=gate)
    assert [case.outcome for case in report.cases] == [case.outcome for case in cases]
    check_views(report, cases, passed=holds(cases, gate, have_goldens=False))


@pytest.mark.filterwarnings("ignore:.* without a golden:toolgrade.ToolgradeWarning")
@given(drawn_cases.filter(lambda cases: any(case.golden for case in cases)), gates)
def test_files(cases: list[Drawn], gate: Gate) -> None:
    """Cases of files with one golden are its trials; the file of results and a resumed one say the same."""
    with tempfile.TemporaryDirectory() as folder:
        runs, goldens, results = (Path(folder) / name for name in ("runs.jsonl", "goldens.jsonl", "results.jsonl"))
        write_cases(runs, [case.case(number) for number, case in enumerate(cases)])
        used = sorted({case.golden for case in cases if case.golden})
        goldens.write_text("".join(f'{{"id": "golden {number}", "input": "question {number}"}}\n' for number in used))
        report = evaluate(runs, METRICS, goldens=goldens, gate=gate, results=results)
        passed = holds(cases, gate, have_goldens=True)
        check_views(report, cases, passed=passed)
        assert read_results(results).verdict == report.verdict
        again = evaluate(runs, METRICS, goldens=goldens, gate=gate, results=results, resume="errored")
        assert again.verdict == report.verdict


@given(drawn_cases)
def test_one_case(cases: list[Drawn]) -> None:
    """`assert_test` raises unless the outcome is `passed`."""
    for number, case in enumerate(cases):
        if case.outcome == "passed":
            assert_test(case.case(number), METRICS)
        else:
            with pytest.raises(MetricAssertionError):
                assert_test(case.case(number), METRICS)


@settings(max_examples=300)
@given(drawn_cases, gates)
def test_the_gate(cases: list[Drawn], gate: Gate) -> None:
    """It holds exactly if the oracle says so, and says why if not; the order of the cases does not matter."""
    trials = [Trial(("golden", one.golden) if one.golden else place, one.outcome) for place, one in enumerate(cases)]
    verdict = Tally.of(trials).verdict(gate)
    assert verdict.passed is holds(cases, gate, have_goldens=True)
    assert verdict.sentence
    assert verdict == Tally.of(trials[::-1]).verdict(gate)
    assert not Tally.of(trials).verdict(gate, interrupted=True).passed


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"interrupted": True}, "the evaluation was interrupted after 1 case"),
        ({"gate": Gate(min_answered=0.5)}, "no judge was asked, and the gate needs 50 % of its answers"),
    ],
    ids=["interrupted", "no judge"],
)
def test_a_gate_that_does_not_hold_although_every_case_passed(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """JUnit and annotations have an entry of its own, so that no view looks passed."""
    report = replace(evaluate([Drawn(1, "pp", 0).case(1)], METRICS), **changes)
    path = tmp_path / "report.json"
    path.write_text(report.to_json(), encoding="utf-8")
    done = RUNNER.invoke(main, ["report", str(path), "--github", "-q"])
    error = ET.fromstring(render_junit(report, title="x")).find(".//error")  # noqa: S314 - our own

    assert (report.passed, report.verdict.sentence, done.exit_code) == (False, sentence, 1)
    assert error is not None
    assert error.get("message") == sentence
    assert f"::error title=toolgrade::{sentence}".replace("%", "%25") in done.stdout
