"""Results of an evaluation so far, in memory and in the file of results, from which its report is made."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from toolgrade._internal.json import to_json_value
from toolgrade._internal.lazy_imports import installed_version
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.results_file import ResultsFile, head_of
from toolgrade.evaluation.rows import CaseKey, Row, report_table
from toolgrade.metrics.called_tools import case_label
from toolgrade.report import Report
from toolgrade.report.report import case_names
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.verdict import Gate

_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILD_SOURCEVERSION", "BITBUCKET_COMMIT", "CIRCLE_SHA1", "GIT_COMMIT")
"""Variables with the commit in GitHub Actions, GitLab, Azure Pipelines, Bitbucket, CircleCI and Jenkins."""


def session_facts(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of an evaluation that begins now: those of the caller, versions, time, and the commit in CI."""
    commit = next(filter(None, map(os.environ.get, _COMMITS)), None)
    return {
        "toolgrade": installed_version(),
        "python": platform.python_version(),
        "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **({} if commit is None else {"commit": commit}),
        **to_json_value(dict(about), []),
    }


class ReportBuilder:
    """Takes the rows of each unit as soon as they are measured, so that they survive an interruption.

    `facts` are those of the report (see `session_facts`), `names` the unique names of the metrics of whole answers.
    `late_facts` are known at the end. `advance` is called after each unit, and `on_turn` after each turn of a
    conversation but the last.
    """

    def __init__(
        self,
        facts: Mapping[str, Any],
        names: Sequence[str],
        trials: int | None = None,
        file: ResultsFile | None = None,
        *,
        agents: Sequence[str] = (),
        contents: bool = True,
        gate: Gate | None = None,
    ) -> None:
        self.names = names
        self.trials = trials
        self.agents = agents
        self.file = file
        self.contents = contents
        self.gate = gate or Gate()
        self.advance: Callable[[], None] = lambda: None
        self.on_turn: Callable[[], None] = lambda: None
        self._rows: dict[CaseKey, list[Row]] = {}
        self._seconds_before = 0.0
        self._began = time.monotonic()
        self._about = facts
        self.late_facts: dict[str, Any] = {}
        if file is not None and file.content.end is not None:
            self._seconds_before = file.content.end.seconds

    def __len__(self) -> int:
        """Return the number of units that are done."""
        return len(self._rows)

    def __contains__(self, unit: CaseKey) -> bool:
        """Return whether a unit is done."""
        return unit in self._rows

    def resume(self, hashes: Mapping[CaseKey, str]) -> None:
        """Take the units from the file that it has with the hash of their golden or case."""
        if self.file is None:
            return
        reused: list[CaseKey] = []
        moved: list[bytes] = []
        for unit, digest in hashes.items():
            stored = self.file.find(digest, unit)
            rows = None if stored is None else self.file.rows(stored)
            if stored is None or rows is None:
                continue
            if self.file.is_there(stored, unit):
                reused.append(unit)
            else:
                moved.append(head_of(unit) + self.file.rest(stored))
                rows = [row._replace(place=unit.place, trial=unit.trial) for row in rows]
            self._rows[unit] = rows
        self.file.begin(reused, b"".join(moved), len(hashes))

    def resumed(self, row: Row, digest: str) -> tuple[Row, bool] | None:
        """Return a row of a recorded case with its results from the file, and whether it has a line there already.

        Equal cases have equal results, wherever they are.
        """
        stored = None if self.file is None else self.file.find(digest, row.unit, reuse=True)
        rows = None if self.file is None or stored is None else self.file.rows(stored)
        if not rows or stored is None or self.file is None:
            return None
        before, *_ = rows
        is_there = self.file.is_there(stored, row.unit) and before.golden == row.golden
        is_there = is_there and case_names(before.case) == case_names(row.case)
        return row._replace(results=_results_of_equal(before, case_label(row.case))), is_there

    def store(self, unit: CaseKey, rows: list[Row], rest: bytes = b"") -> None:
        """Take the rows of a unit, and write them if the rest of their line is given."""
        if self.file is not None and rest:
            self.file.write(head_of(unit, rows[0].golden if rows else None) + rest)
        self._rows[unit] = rows
        self.advance()

    def _about_now(self) -> dict[str, Any]:
        """Return versions, and the duration of all sessions that were completed and of this one so far."""
        return {
            **self._about,
            **self.late_facts,
            "seconds": round(self._seconds_before + time.monotonic() - self._began, 3),
        }

    def report(self, *, interrupted: bool = False) -> Report:
        """Write the end of the file, unless interrupted, and return the report of the units that are done.

        Raises:
            ConfigurationError: There are neither metrics nor components with metrics.
        """
        rows, about = self.rows, self._about_now()
        if not (interrupted or self.names or any(row.component for row in rows)):
            raise _nothing_to_score(rows)
        if self.file is not None and not interrupted:
            self.file.complete(len({unit.place for unit in self._rows}), about["seconds"])
        names, cases = report_table(rows, self.names, self.trials, agents=self.agents)
        return Report(names, cases, self.trials, interrupted, about, gate=self.gate)

    def file_report(self, rows: Sequence[Row], *, interrupted: bool = False) -> Report:
        """Write the end of the file, unless interrupted, and return the report of rows of recorded files."""
        about = self._about_now()
        if self.file is not None and not interrupted:
            self.file.complete(len(rows), about["seconds"], self.late_facts)
        report = ranked_report(rows, self.names)
        return replace(report, interrupted=interrupted, about=about, gate=self.gate)

    @property
    def rows(self) -> list[Row]:
        """The rows of the units that are done."""
        return [row for rows in self._rows.values() for row in rows]


def _results_of_equal(before: Row, label: str) -> tuple[MetricResult, ...]:
    """Return the results of a row for an equal case of this label, which the reason of a skipped result may have."""
    return tuple(
        replace(result, reason=result.reason.replace(case_label(before.case), label))
        if result.status is ResultStatus.SKIPPED and result.reason and case_label(before.case)
        else result
        for result in before.results
    )


def ranked_report(rows: Sequence[Row], names: Sequence[str]) -> Report:
    """Return the report of recorded runs; if there are several of one golden or cluster, they are its trials."""
    trials = max((row.trial or 1 for row in rows), default=1)
    rows = sorted(rows, key=lambda row: row.place)
    ranks = {row.place: rank for rank, row in enumerate(rows)}  # interrupted runs that were resumed have no row
    if trials == 1:
        rows = [row if row.trial is None else row._replace(trial=None, golden=None) for row in rows]
    else:
        rows = [row if row.golden is None else row._replace(golden=ranks.get(row.golden, row.golden)) for row in rows]
    metrics, cases = report_table(rows, names, None, are_ranked=True)
    return Report(metrics, cases, None if trials == 1 else trials)


def _nothing_to_score(rows: Iterable[Row]) -> ConfigurationError:
    errors = [row.error for row in sorted(rows, key=lambda row: (row.place, row.trial or 0)) if row.error]
    failure = f"; the first run failed: {errors[0]}" if errors else ""
    message = "nothing to score: metrics is empty, and no function with @observe(metrics=...) ran"
    return ConfigurationError(message + failure)
