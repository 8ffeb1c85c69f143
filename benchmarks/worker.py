"""Time one library in its environment: `python worker.py MODULE JOB.json` prints the times as JSON.

MODULE is `own` (toolgrade) or `peers.NAME`; see `Library` for what such a module has. The job is one workload with the
requested modes; the output of a library is discarded.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from timing import Measured, measure

PlainCase = dict[str, list[Any]]


class Library(Protocol):
    """What the module of a library offers."""

    VERSION: str

    def make(self, case: PlainCase, mode: str) -> Any:  # noqa: ANN401 - each library has its own kind of input
        """Return the input objects of one case, from the plain values that a JSON parser returns."""

    def scorer(self, mode: str) -> Callable[[Any], float]:
        """Return the function that scores what `make` returns."""


def run(library: Library, job: dict[str, Any]) -> dict[str, Any]:
    """Return the times of one workload, by mode; of toolgrade also those of parsing its lines."""
    rounds, budget = job["rounds"], job["budget"]
    cases: list[PlainCase] = job["cases"]
    report: dict[str, Any] = {"version": library.VERSION, "python": platform.python_version(), "modes": {}}
    for mode in job["modes"]:
        try:
            report["modes"][mode] = _mode(library, mode, cases, rounds, budget)
        except Exception as error:  # noqa: BLE001 - a library that fails gets a row that says so
            report["modes"][mode] = {"error": f"{type(error).__name__}: {error}"[:200]}
    records = [json.loads(line) for line in job["records"]]
    if records and hasattr(library, "message_scorer"):
        scoring = measure(library.message_scorer(), records, rounds=rounds, budget=budget)
        report["messages"] = scoring.timing.to_dict()
    if job.get("lines"):
        report["parse"] = _parse(library, job, cases)
    return report


def _mode(library: Library, mode: str, cases: list[PlainCase], rounds: int, budget: float) -> dict[str, Any]:
    making = measure(lambda case: library.make(case, mode), cases, rounds=rounds, budget=budget)
    scoring = measure(library.scorer(mode), making.values, rounds=rounds, budget=budget)
    return {"making": making.timing.to_dict(), "scoring": scoring.timing.to_dict(), "scores": scoring.values}


def _parse(library: Library, job: dict[str, Any], cases: Sequence[PlainCase]) -> dict[str, Any]:
    """Time parsing into plain values and into toolgrade's models, and compare the results."""
    lines, rounds, budget = [line.encode() for line in job["lines"]], job["rounds"], job["budget"]
    plain = measure(json.loads, lines, rounds=rounds, budget=budget)
    own = cast("Any", library)
    models: Measured[Any] = measure(own.parser(job["record"]), lines, rounds=rounds, budget=budget)
    differing = sum(own.plain(model) != case for model, case in zip(models.values, cases, strict=False))
    return {
        "bytes": sum(map(len, lines)),
        "plain": plain.timing.to_dict(),
        "models": models.timing.to_dict(),
        "differing": differing,
    }


def main() -> None:
    """Run the job named on the command line."""
    module, path = sys.argv[1:]
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    out = os.dup(1)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        report = run(cast("Library", importlib.import_module(module)), job)
        sys.stdout.flush()
    os.write(out, json.dumps(report).encode())


if __name__ == "__main__":
    main()
