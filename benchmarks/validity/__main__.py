"""Measure how well metrics of toolgrade and other libraries separate good from bad runs: `make validity`.

See README.md in the folder above.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import HERE, REPOSITORY, CannotInstallError, python_with
from rich.console import Console
from validity.constants import figures as constant_figures
from validity.grounding import figures as grounding_figures
from validity.grounding import grounding_of_runs
from validity.own import AGREEMENT, GATES, GROUNDING, Gate, agreement_of_runs, rows
from validity.runs import Run, case_of, data_sets, peer_case
from validity.table import json_text, show, write_sections

import toolgrade
from toolgrade import LLMTestCase, MetricResult, ResultStatus, ToolgradeError, validate
from toolgrade._internal.json import is_number
from toolgrade.metrics import Metric
from toolgrade.result import TOLERANCE
from toolgrade.stats import RESAMPLES, Interval, rate_interval

RESULTS, PAGE = HERE / "validity" / "results.json", HERE / "validity" / "README.md"
TIME_LIMIT = 1800
DIGITS = 4

Score = float | str | None
"""A score, why there is none, or `None` where the metric does not apply."""

console = Console(width=None if sys.stdout.isatty() else 160, stderr=True)


@dataclass(frozen=True)
class Peer:
    """Another library: its name in the table, its worker module, and its settings."""

    name: str
    module: str
    environment: dict[str, str] = field(default_factory=dict)


PEERS = (
    Peer(
        "DeepEval",
        "deepeval",
        {
            "OPENAI_API_KEY": "none-needed",  # construction asks for a key, also where nothing is judged
            "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
            "DEEPEVAL_FILE_SYSTEM": "READ_ONLY",
        },
    ),
    Peer("agentevals", "agentevals", {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}),
    Peer("ragas", "ragas", {"RAGAS_DO_NOT_TRACK": "true"}),
    Peer("Google ADK", "google_adk"),
)


@dataclass(frozen=True)
class Replayed:
    """A metric whose scores were made elsewhere, so that all are measured by the same code."""

    label: str
    scores: Mapping[str, Score]
    """By the id of the case."""
    threshold: float = 0.5

    def measure(self, case: LLMTestCase, /) -> MetricResult:
        """Return the score of the case, or raise its recorded error."""
        score = self.scores[str(case.id)]
        if isinstance(score, str):
            raise ToolgradeError(score)
        return MetricResult(
            metric=self.label,
            status=ResultStatus.SKIPPED if score is None else ResultStatus.SCORED,
            score=score,
            threshold=self.threshold,
            passed=None if score is None else score >= self.threshold,
        )

    async def a_measure(self, case: LLMTestCase, /) -> MetricResult:
        """Do what `measure` does."""
        return self.measure(case)


def main() -> int:
    """Measure, print, and with --write store the results."""
    options = _options()
    data = data_sets(REPOSITORY, options.data)
    if not data:
        console.print("There are no recorded runs (--data FILE says where they are).", style="red")
        return 2
    kinds: dict[str, str] = {}
    scores: dict[str, dict[str, list[Score]]] = {name: {} for name in data}
    _add_own(data, scores, kinds)
    versions, absent = [f"toolgrade {toolgrade.__version__}"], dict[str, str]()
    for peer in () if options.own else PEERS:
        with console.status(f"{peer.name}: making its environment, and scoring"):
            try:
                versions.append(_add_peer(peer, data, scores, kinds))
            except (CannotInstallError, subprocess.SubprocessError) as error:
                absent[peer.name] = " ".join(str(error).split())
                console.print(f"{peer.name}: {error}", style="yellow", markup=False)
    results: dict[str, Any] = {
        "about": {"versions": ", ".join(versions), "absent": absent, "resamples": options.resamples, "seed": 0},
        "data": {},
        "kinds": kinds,
    }
    for name, runs in data.items():
        with console.status(f"{name}: comparing"):
            results["data"][name] = _figures(runs, scores[name], options.resamples)
    results |= constant_figures(data)
    results |= _grounding(data)
    if options.json:
        print(json.dumps(results))
    else:
        show(results, Console(width=console.width))
    if options.write:
        RESULTS.write_text(json_text(results), encoding="utf-8", newline="\n")
        write_sections(PAGE, results)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="validity", description="Measure how well metrics tell good runs from bad.")
    parser.add_argument("--own", action="store_true", help="toolgrade's metrics alone; installs nothing")
    parser.add_argument(
        "--data", type=Path, action="append", metavar="FILE", help="recorded runs in the neutral form; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON, not as a table")
    parser.add_argument("--resamples", type=int, default=RESAMPLES, help="resamples for the intervals")
    parser.add_argument("--write", action="store_true", help="write the numbers to results.json and README.md")
    options = parser.parse_args()
    if options.write and (options.own or options.data):
        console.print("--own and --data measure a part of the tables, so nothing is written", style="yellow")
        options.write = False
    options.data = options.data or []
    return options


def _add_own(
    data: Mapping[str, Sequence[Run]], scores: dict[str, dict[str, list[Score]]], kinds: dict[str, str]
) -> None:
    """Add the scores of toolgrade's rows."""
    for row in rows():
        kinds[row.name] = "toolgrade"
        with console.status(row.name):
            for name, runs in data.items():
                scores[name][row.name] = [_own_score(row.metric, case_of(run, **row.options)) for run in runs]
    for row_name, scores_of in ((GROUNDING, grounding_of_runs), (AGREEMENT, agreement_of_runs)):
        kinds[row_name] = "toolgrade"
        with console.status(row_name):
            for name, runs in data.items():
                scores[name][row_name] = [*scores_of(runs)]


def _grounding(data: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Return the figures about where values come from, and print what was flagged in good runs."""
    with console.status("where values come from"):
        figures, flags = grounding_figures(data)
    for name, messages in flags.items():  # values of recorded runs, which no file of this repository has
        for message in messages:
            console.print(f"{name}: {message}", markup=False, highlight=False)
    return figures


def _own_score(metric: Metric, case: LLMTestCase) -> Score:
    """Return toolgrade's score of a case, or why it has none."""
    try:
        return metric.measure(case).score
    except ToolgradeError as error:
        return str(error)


def _add_peer(
    peer: Peer, data: Mapping[str, Sequence[Run]], scores: dict[str, dict[str, list[Score]]], kinds: dict[str, str]
) -> str:
    """Add the scores of another library, of raw and of prepared calls, and return its version."""
    python = python_with(HERE / "validity" / "pins" / f"{peer.module}.txt")
    jobs = [(name, prepared) for name in data for prepared in (False, True)]
    cases = [peer_case(run, prepared=prepared) for name, prepared in jobs for run in data[name]]
    answer = _answer(peer, python, cases)
    for mode, all_scores in answer["scores"].items():
        rest = iter(all_scores)
        for name, prepared in jobs:
            row = f"{peer.name}, {mode}{', prepared calls' if prepared else ''}"
            kinds[row] = f"{peer.name}{', prepared' if prepared else ''}"
            scores[name][row] = [next(rest) for _ in data[name]]
        errors = [score for score in all_scores if isinstance(score, str)]
        if errors:
            console.print(f"{peer.name}, {mode}: {len(errors)} runs not scored: {errors[0]}", markup=False)
    return str(answer["version"])


def _answer(peer: Peer, python: Path, cases: list[Any]) -> dict[str, Any]:
    """Run the worker in the library's environment; the current folder is a passing one, since some write files."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | peer.environment
    with tempfile.TemporaryDirectory() as folder:
        job, answer = Path(folder) / "job.json", Path(folder) / "answer.json"
        job.write_text(json.dumps(cases), encoding="utf-8")
        worker = HERE / "validity" / "worker.py"
        done = subprocess.run(  # noqa: S603 - our own worker
            [str(python), str(worker), f"peers.{peer.module}", str(job), str(answer)],
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=TIME_LIMIT,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise subprocess.SubprocessError(f"does not run: {last[:120]}")
        output: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return output


def _figures(runs: Sequence[Run], scores: Mapping[str, Sequence[Score]], resamples: int) -> dict[str, Any]:
    """Return the figures of one data set: AUC, both ends of its interval, and scored runs of each row."""
    cases = [
        LLMTestCase(id=str(place), metadata={"reward": run["reward"], "task": run["task"]})
        for place, run in enumerate(runs)
    ]
    metrics = [
        Replayed(name, dict(zip(map(str, range(len(runs))), of_row, strict=True))) for name, of_row in scores.items()
    ]
    validity = validate(
        cases, metrics, label="metadata.reward", cluster="metadata.task", resamples=resamples, show_progress=False
    )
    return {
        "runs": len(runs),
        "tasks": len({str(run["task"]) for run in runs}),
        "good": validity.good,
        "rows": {
            metric.metric: [*_rounded(metric.auc, metric.interval), metric.good + metric.bad]
            for metric in validity.metrics
        },
        "gates": {gate.name: _gate(gate, runs, scores[gate.row]) for gate in GATES},
    }


def _gate(gate: Gate, runs: Sequence[Run], scores: Sequence[Score]) -> list[list[float | None]]:
    """Return the share of good runs that a gate fails, and of runs that pass which are good, both with their ends."""
    scored = [
        (run, score >= gate.threshold - TOLERANCE) for run, score in zip(runs, scores, strict=True) if is_number(score)
    ]
    fails = [(not passes, run["task"]) for run, passes in scored if run["reward"] >= 1]
    good = [(run["reward"] >= 1, run["task"]) for run, passes in scored if passes]
    return [_share(of_runs) for of_runs in (fails, good)]


def _share(of_runs: Sequence[tuple[bool, Any]]) -> list[float | None]:
    if not of_runs:
        return [None, None, None]
    outcomes, tasks = [outcome for outcome, _ in of_runs], [str(task) for _, task in of_runs]
    ends = rate_interval(outcomes, tasks) or (None, None)
    return [one if one is None else round(one, DIGITS) for one in (sum(outcomes) / len(outcomes), *ends)]


def _rounded(value: float | None, interval: Interval | None) -> list[float | None]:
    ends = [None, None] if interval is None else [interval.low, interval.high]
    return [one if one is None else round(one, DIGITS) for one in (value, *ends)]


if __name__ == "__main__":
    sys.exit(main())
