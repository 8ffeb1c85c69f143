"""Measure how well metrics of toolmark and other libraries separate good from bad runs: `make validity`.

See README.md in the folder above.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import HERE, REPOSITORY, CannotInstallError, python_with
from rich.console import Console
from validity.own import groups
from validity.table import markdown, row_of, show, write_section
from workloads import airline_workloads, find_airline

import toolmark
from toolmark import LLMTestCase, MetricResult, ResultStatus, ToolmarkError, read_cases, validate
from toolmark.cases import TestCase
from toolmark.metrics import MetricLike
from toolmark.stats.bootstrap import RESAMPLES

LABEL, TASK = "metadata.reward", "metadata.task_id"
RESULTS, PAGE = HERE / "validity" / "results.json", REPOSITORY / "docs" / "validity.md"
TIME_LIMIT = 900

console = Console(width=None if sys.stdout.isatty() else 132, stderr=True)


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
    scores: dict[str, float | str]
    """By the id of the case; a text in place of a score is an error."""
    threshold: float = 0.5

    def measure(self, case: LLMTestCase, /) -> MetricResult:
        """Return the score of the case, or raise its recorded error."""
        score = self.scores[str(case.id)]
        if isinstance(score, str):
            raise ToolmarkError(score)
        return MetricResult(
            metric=self.label,
            status=ResultStatus.SCORED,
            score=score,
            threshold=self.threshold,
            passed=score >= self.threshold,
        )

    async def a_measure(self, case: LLMTestCase, /) -> MetricResult:
        """Do what `measure` does."""
        return self.measure(case)


def main() -> int:
    """Measure, print, and with --write store the results."""
    options = _options()
    path = find_airline(options.data, REPOSITORY)
    if path is None:
        console.print("There are no recorded runs (--data FILE says where they are).", style="red")
        return 2
    cases = read_cases(path)
    rows = [_group(name, cases, metrics) for name, metrics in groups().items()]
    rows.append(_yardstick(cases))
    versions = [f"toolmark {toolmark.__version__}"]
    for peer in () if options.own else PEERS:
        with console.status(f"{peer.name}: making its environment, and scoring"):
            group, named = _peer_group(peer, path, cases)
        rows.append(group)
        versions += [named] if named else []
    about = {
        "cases": len(cases),
        "tasks": len({case.metadata["task_id"] for case in cases}),
        "good": sum(case.metadata["reward"] >= 1 for case in cases),
        "resamples": RESAMPLES,
        "seed": 0,
        "versions": ", ".join(versions),
    }
    _give({"about": about, "groups": rows}, options)
    return 0


def _group(name: str, cases: Sequence[TestCase], metrics: Sequence[MetricLike]) -> dict[str, Any]:
    """Return the rows of some metrics under a heading."""
    all_runs, where_expected = (
        validate(chosen, metrics, label=LABEL, cluster=TASK, show_progress=False)
        for chosen in (cases, [case for case in cases if case.expected_tools])
    )
    pairs = zip(all_runs.metrics, where_expected.metrics, strict=True)
    return {"name": name, "rows": [row_of(metric, part) for metric, part in pairs]}


def _yardstick(cases: Sequence[TestCase]) -> dict[str, Any]:
    """Return the row of a baseline that knows the task but not the run."""
    free = Replayed("1 where no call was expected, else 0", {str(case.id): not case.expected_tools for case in cases})
    return _group("for comparison: the task alone", cases, [free])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="validity", description="Measure how well metrics tell good runs from bad.")
    parser.add_argument("--own", action="store_true", help="toolmark's metrics alone; installs nothing")
    parser.add_argument("--data", type=Path, metavar="FILE", help="the recorded airline runs, as JSONL")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON, not as a table")
    parser.add_argument("--write", action="store_true", help="write the numbers to results.json and docs/validity.md")
    options = parser.parse_args()
    if options.own and options.write:
        parser.error("--own measures a part of the table, so that it cannot be written")
    return options


def _give(results: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(results))
    else:
        show(results, Console(width=console.width))
    if options.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8", newline="\n")
        write_section(PAGE, markdown(results))


def _peer_group(peer: Peer, path: Path, cases: Sequence[TestCase]) -> tuple[dict[str, Any], str | None]:
    """Return the rows of another library, or why there are none; and its version."""
    try:
        python = python_with(HERE / "validity" / "pins" / f"{peer.module}.txt")
        answer = _answer(peer, python, airline_workloads(path)[0].cases)
    except (CannotInstallError, subprocess.SubprocessError) as error:
        console.print(f"{peer.name}: {error}", style="yellow", markup=False)
        return {"name": peer.name, "rows": [], "absent": " ".join(str(error).split())}, None
    ids = [str(case.id) for case in cases]
    metrics = [Replayed(name, dict(zip(ids, scores, strict=True))) for name, scores in answer["scores"].items()]
    for metric in metrics:
        errors = [score for score in metric.scores.values() if isinstance(score, str)]
        if errors:
            console.print(f"{peer.name}, {metric.label}: {len(errors)} runs not scored: {errors[0]}", markup=False)
    return _group(peer.name, cases, metrics), str(answer["version"])


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


if __name__ == "__main__":
    sys.exit(main())
