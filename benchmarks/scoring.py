"""Times what users run in toolgrade and in other libraries, and prints one table: `python benchmarks/scoring.py`.

README.md in this folder says what is run. `PYTHONPATH=/another/checkout/src` measures the toolgrade of another
checkout; `TOOLGRADE_PEERS=/another/folder` is where the environments of the other libraries are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from cases import all_cases
from environments import HERE, REPOSITORY, CannotInstallError, python_with

ENVIRONMENT = {
    "OPENAI_API_KEY": "none-needed",  # DeepEval asks for a key, also where nothing is judged
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_FILE_SYSTEM": "READ_ONLY",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
}


class Row(NamedTuple):
    """What users run on both sides."""

    name: str
    title: str
    mode: str
    """What toolgrade runs, see `peers/toolgrade.py`."""
    peer: str
    pins: str


ROWS = (
    Row("reason", "`measure` and the reason, over DeepEval's `measure`", "reason", "deepeval", "peers"),
    Row("score", "`measure` and the score, over DeepEval's `measure`", "score", "deepeval", "peers"),
    Row("ragas", "the score, over ragas' `ToolCallAccuracy`", "score", "ragas", "validity/pins"),
    Row("pydantic-evals", "names only, over pydantic-evals' `TrajectoryMatch`", "names", "pydantic_evals", "peers"),
    Row("agentevals", "yes or no, over agentevals' trajectory match", "all", "agentevals", "peers"),
    Row("adk", "yes or no, over Google ADK's `TrajectoryEvaluator`", "expected", "google_adk", "validity/pins"),
)


class Worker:
    """A process that times one library."""

    def __init__(self, python: Path, module: str, mode: str, cases: Path) -> None:
        environment = {**os.environ, **ENVIRONMENT}
        if module != "peers.toolgrade":
            environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(  # noqa: S603 - our own worker
            [str(python), str(HERE / "worker.py"), module, mode, str(cases)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a library that fails has a row that says so
            text=True,
            cwd=cases.parent,  # some libraries write files into the current folder
            env=environment,
        )
        self.version = self._read()

    def _read(self) -> str:
        line = next(iter(self.process.stdout or ()), "")
        if not line:
            raise CannotInstallError(f"its process ended with status {self.process.wait()}")
        return line.strip()

    def seconds(self, cases: str) -> float:
        """Return the processor time of one of these cases in one round."""
        print(cases, file=self.process.stdin, flush=True)
        return float(self._read())


class Workers:
    """The processes, one for each library and mode, which are begun when they are needed."""

    def __init__(self, cases: Path) -> None:
        self.cases = cases
        self.begun: dict[tuple[str, str], Worker] = {}

    def of(self, python: Path, module: str, mode: str) -> Worker:
        """Return the process of a library and mode."""
        if (module, mode) not in self.begun:
            self.begun[module, mode] = Worker(python, f"peers.{module}", mode, self.cases)
        return self.begun[module, mode]

    def close(self) -> None:
        """End all processes."""
        for worker in self.begun.values():
            worker.process.kill()
            worker.process.communicate()


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description="Time scoring, beside other libraries.")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS], help="this row; repeatable")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best one counts (default: 5)")
    options = parser.parse_args()
    cases = all_cases(REPOSITORY)
    print(f"| times as fast | {' | '.join(cases)} |\n|---|{'--:|' * len(cases)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        path.write_text(json.dumps(cases), encoding="utf-8")
        workers = Workers(path)
        try:
            for row in ROWS:
                if options.row is None or row.name in options.row:
                    try:
                        cells = [f"{ratio:.2g}" for ratio in _ratios(row, list(cases), workers, options.rounds)]
                    except CannotInstallError as error:
                        cells = [f"not measured: {error}"]
                    print(f"| {row.title} | {' | '.join(cells)} |", flush=True)
        finally:
            workers.close()
    versions = dict.fromkeys(worker.version for worker in workers.begun.values())
    print(f"\n{', '.join(versions)}; Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores.")


def _ratios(row: Row, names: list[str], workers: Workers, rounds: int) -> list[float]:
    """Return how many times as fast toolgrade is. Both sides take turns, so that a busy machine slows both."""
    peer = workers.of(python_with(HERE / row.pins / f"{row.peer}.txt"), row.peer, "")
    own = workers.of(Path(sys.executable), "toolgrade", row.mode)
    ratios: list[float] = []
    for name in names:
        times = [(own.seconds(name), peer.seconds(name)) for _ in range(rounds)]
        ratios.append(min(other for _, other in times) / min(own_time for own_time, _ in times))
    return ratios


if __name__ == "__main__":
    main()
