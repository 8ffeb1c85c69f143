"""The report of a large file, of which only the worst cases are whole."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scale_files import case, metrics, without_start
from toolgrade import Report, evaluate, read_cases
from toolgrade.evaluation import files
from toolgrade.evaluation.execute import EvaluationOptions, run_evaluation
from toolgrade.report.terminal import print_report
from toolgrade.report.terminal.console import make_console
from toolgrade.report.text.breakdown import breakdowns, warning_kinds
from toolgrade.report.text.slices import slices_of


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of many parts, with blank lines, duplicate ids, one huge line and warnings."""
    monkeypatch.setattr(files, "PART_BYTES", 900)
    monkeypatch.setattr(files, "WORTH_A_PROCESS", 1)
    rng = random.Random(7)
    lines: list[str] = []
    for index in range(300):
        plain = case(index % 297, rng)
        if index == 150:
            plain["input"] = "long " * 5000
        if rng.random() < 0.5:
            plain["run"] = {"calls": [], "warnings": [f"warning {rng.randrange(3)}"]}
        lines.append(json.dumps(plain))
        if rng.random() < 0.1:
            lines.append(" ")
    (tmp_path / "a").write_text("\n".join(lines))
    return tmp_path / "a"


def report_of(path: Path, full: int, processes: int = 1, **options: Any) -> Report:
    """The report with this number of worst cases by each metric."""
    return run_evaluation(
        EvaluationOptions(test_cases=path, metrics=metrics(), full=full, processes=processes, **options)
    )


def printed(report: Report, limit: int) -> str:
    """What a terminal shows."""
    console = make_console()
    with console.capture() as capture:
        print_report(report, title="it", console=console, limit=limit, details=limit)
    return capture.get()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_report_of_outlines_shows_the_same(path: Path, processes: int) -> None:
    """As the whole report, up to the number of cases that are whole: numbers, warnings, breakdowns and worst cases."""
    alone = evaluate(read_cases(path), metrics())
    whole = evaluate(path, metrics(), processes=1)
    assert [(one.case, one.results) for one in whole.cases] == [(one.case, one.results) for one in alone.cases]

    short = report_of(path, 3, processes=processes)

    assert (short.summaries, short.metrics, short.interrupted) == (whole.summaries, whole.metrics, False)
    assert [entry.index for entry in short.cases] == [entry.index for entry in whole.cases]
    without_agreement = replace(whole, cases=tuple(replace(one, agreement=None) for one in whole.cases))
    assert printed(short, 3) == printed(without_agreement, 3)
    warned, expected = (
        [(kind.text, kind.cases[0].name, len(kind.cases)) for kind in warning_kinds(one)] for one in (short, whole)
    )
    assert warned == expected
    by_tool, all_by_tool = (
        [(line.tool, line.cases, line.amounts) for line in breakdowns(one)[0].lines if line.cases]
        for one in (short, whole)
    )
    assert by_tool == all_by_tool
    assert len(all_by_tool) > 1
    assert 3 <= sum(entry in whole.cases for entry in short.cases) <= 12
    assert len({id(entry.case) for entry in short.cases}) < 60
    assert report_of(path, 0) == whole


def test_pass_rates_by_tag_are_those_of_all_cases(path: Path, tmp_path: Path) -> None:
    """Also in a report of outlines, which do not have the content of most cases."""
    lines = [
        json.loads(line) | {"tags": ["even" if place % 2 else "odd"]}
        for place, line in enumerate(path.read_text().splitlines())
        if line.strip()
    ]
    (tmp_path / "b").write_text("\n".join(map(json.dumps, lines)))

    assert slices_of(report_of(tmp_path / "b", 3), "tag") == slices_of(report_of(tmp_path / "b", 0), "tag")


def test_it_shows_the_same_after_resuming(path: Path, tmp_path: Path) -> None:
    """Results that are read from the file count as those that were measured."""
    whole = report_of(path, 3, results=tmp_path / "r")
    data = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(data[: len(data) // 2])

    resumed = report_of(path, 3, results=tmp_path / "r", resume=True)
    again = report_of(path, 3, results=tmp_path / "r", resume=True)

    assert printed(resumed, 3) == printed(again, 3) == printed(whole, 3)
    assert resumed.summaries == whole.summaries
    lines = without_start(tmp_path / "r").splitlines()
    assert [line for line in lines if b'"case"' in line] == [line for line in data.splitlines() if b'"case"' in line]
