"""Results of an evaluation so far, in memory and in the file of results, from which its report is made."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from toolgrade._internal.json import to_json_value
from toolgrade._internal.lazy_imports import installed_version
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.results_file import ResultsFile
from toolgrade.evaluation.rows import CaseKey, Row, report_table
from toolgrade.metrics.called_tools import case_label
from toolgrade.report import Report
from toolgrade.report.report import case_names
from toolgrade.result import ResultStatus
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
    """Takes the rows of each key as soon as they are measured, so that they survive an interruption.

    Most keys have one row, such as `Row(case, place=2, trial=1, results=(...))` for `CaseKey(2, 1)`; for an app with
    components, there is one more each time a component ran.

    Args:
        facts: Facts of the report; see `session_facts`.
        names: Unique names of the metrics of whole answers.
        trials: Number of times each golden is asked; `None` for recorded cases.
        file: The file of results, if there is one.
        agents: Names of the agents, if there are several.
        contents: Whether lines of the file have the content of the cases.
        gate: How much is enough for `Report.passed`.

    Attributes:
        late_facts: Facts of the report that are known at the end only.
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
        self._rows: dict[CaseKey, list[Row]] = {}
        self._seconds_before = 0.0
        self._began = time.monotonic()
        self._about = facts
        self.late_facts: dict[str, Any] = {}
        if file is not None and file.content.end is not None:
            self._seconds_before = file.content.end.seconds

    def __len__(self) -> int:
        """Return the number of keys that are done."""
        return len(self._rows)

    def __contains__(self, key: CaseKey) -> bool:
        """Return whether a key is done."""
        return key in self._rows

    def reuse_unchanged(self, hashes: Mapping[CaseKey, str]) -> None:
        """Reuse what the file has of goldens and cases that are unchanged: their hash is the same."""
        if self.file is None:
            return
        reused: list[CaseKey] = []
        moved: list[bytes] = []
        for key, digest in hashes.items():
            stored = self.file.find(digest, key)
            rows = None if stored is None else self.file.rows(stored)
            if stored is None or rows is None:
                continue
            if self.file.is_there(stored, key):
                reused.append(key)
            else:
                moved.append(self.file.moved_line(stored, key))
                rows = [row._replace(place=key.place, trial=key.trial) for row in rows]
            self._rows[key] = rows
        self.file.begin(reused, b"".join(moved), len(hashes))

    def with_stored_results(self, row: Row, digest: str) -> tuple[Row, bool] | None:
        """Return the row of a recorded case with results from the file, and whether its own line is there already.

        Equal cases have equal results, so the line may be that of another case. `None` if the case must be measured.
        """
        stored = None if self.file is None else self.file.find(digest, row.key, reuse=True)
        rows = None if self.file is None or stored is None else self.file.rows(stored)
        if not rows or stored is None or self.file is None:
            return None
        before, *_ = rows
        # The reason of a skipped result names its case.
        if case_label(before.case) != case_label(row.case) and any(
            result.status is ResultStatus.SKIPPED for result in before.results
        ):
            return None
        is_there = self.file.is_there(stored, row.key) and before.golden == row.golden
        is_there = is_there and case_names(before.case) == case_names(row.case)
        return row._replace(results=before.results), is_there

    def store(self, key: CaseKey, rows: list[Row], line: bytes = b"") -> None:
        """Take the rows of a key, and write their line for the file of results, if it is given."""
        if self.file is not None and line:
            self.file.write(line)
        self._rows[key] = rows

    def _about_now(self) -> dict[str, Any]:
        """Return versions, and the duration of all sessions that were completed and of this one so far."""
        return {
            **self._about,
            **self.late_facts,
            "seconds": round(self._seconds_before + time.monotonic() - self._began, 3),
        }

    def report(self, *, interrupted: bool = False) -> Report:
        """Write the end of the file, unless interrupted, and return the report of the cases that are done.

        Raises:
            ConfigurationError: There are neither metrics nor components with metrics.
        """
        rows, about = self.rows, self._about_now()
        if not (interrupted or self.names or any(row.component for row in rows)):
            raise _nothing_to_score(rows)
        if self.file is not None and not interrupted:
            self.file.complete(len({key.place for key in self._rows}), about["seconds"])
        names, cases = report_table(rows, self.names, self.trials, agents=self.agents)
        return Report(names, cases, self.trials, interrupted, about, gate=self.gate)

    def report_of_files(self, rows: Sequence[Row], *, interrupted: bool = False) -> Report:
        """Write the end of the file, unless interrupted, and return the report of rows of recorded files."""
        about = self._about_now()
        if self.file is not None and not interrupted:
            self.file.complete(len(rows), about["seconds"], self.late_facts)
        report = recorded_report(rows, self.names)
        return replace(report, interrupted=interrupted, about=about, gate=self.gate)

    @property
    def rows(self) -> list[Row]:
        """All rows that are done."""
        return [row for rows in self._rows.values() for row in rows]


def recorded_report(rows: Sequence[Row], names: Sequence[str]) -> Report:
    """Return the report of recorded runs; if there are several of one golden or cluster, they are its trials."""
    trials = max((row.trial or 1 for row in rows), default=1)
    rows = sorted(rows, key=lambda row: row.place)
    # Interrupted runs that were resumed have a place but no row, so positions among the rows differ from places.
    positions = {row.place: position for position, row in enumerate(rows)}
    if trials == 1:
        rows = [row if row.trial is None else row._replace(trial=None, golden=None) for row in rows]
    else:
        rows = [
            row if row.golden is None else row._replace(golden=positions.get(row.golden, row.golden)) for row in rows
        ]
    metrics, cases = report_table(rows, names, None, by_position=True)
    return Report(metrics, cases, None if trials == 1 else trials)


def _nothing_to_score(rows: Iterable[Row]) -> ConfigurationError:
    errors = [row.error for row in sorted(rows, key=lambda row: (row.place, row.trial or 0)) if row.error]
    failure = f"; the first run failed: {errors[0]}" if errors else ""
    message = "nothing to score: metrics is empty, and no function with @observe(metrics=...) ran"
    return ConfigurationError(message + failure)
