"""Times toolgrade's scoring against parsing, and against other libraries: `python benchmarks/scoring.py --peers`.

See README.md in this folder.
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
from typing import Any, get_args

from environments import HERE, OWN, PEERS, REPOSITORY, CannotInstallError, Library, python_of
from rich.console import Console
from tables import Grid, agreement_grid, growth_grid, headline_grid, parsing_grid, peer_grids, ratio_grid, startup_grid
from validity.table import write_section
from workloads import Family, Workload, all_workloads, find_airline

console = Console(width=None if sys.stdout.isatty() else 132)

BEGIN = "<!-- written by make speed -->\n"
PAGE = REPOSITORY / "benchmarks" / "speed.md"

DEFAULT_UP_TO = 100
"""Calls per case up to which a library's usual call is measured beside its leanest: beyond, they hardly differ."""


def main() -> int:
    """Run the benchmark."""
    options = _options()
    if options.data and not options.data.is_file():
        console.print(f"--data: there is no file {str(options.data)!r}", style="red")
        return 2
    airline = find_airline(options.data, REPOSITORY)
    if airline is None:
        console.print("No recorded airline runs found, so they are left out (--data FILE says where they are).\n")
    workloads = [w for w in all_workloads(airline) if not options.only or w.family in options.only]
    if not workloads:
        console.print("Nothing to measure.", style="red")
        return 2
    pythons, missing = _pythons(PEERS if options.peers else ())
    before = _load()
    reports = _run(workloads, pythons, options)

    libraries = [OWN, *(PEERS if options.peers else ())]
    grids = [parsing_grid(workloads, reports), startup_grid(_startup())]
    if options.peers:
        grids.insert(0, headline_grid(workloads, reports))
        peers = [library for library in libraries if library is not OWN and library.name not in missing]
        grids += [ratio_grid(workloads, peers, reports), *peer_grids(workloads, libraries, reports, missing)]
    growth = growth_grid(workloads, [library for library in libraries if library.name not in missing], reports)
    grids += [growth] if growth.columns[1:] else []
    if options.peers:
        grids.append(agreement_grid(workloads, [library for library in libraries if library is not OWN], reports))
    versions = sorted({report["version"] for report in reports.values()})
    notes = [f"{', '.join(versions)}. {_machine(before)}.", *_oddities(workloads, reports, missing)]
    _show(
        grids,
        notes,
        options.markdown,
    )
    if options.write:
        text = [*(f"{line}\n" for line in notes), *(grid.markdown() for grid in grids)]
        write_section(PAGE, "\n".join(["", *text]), BEGIN)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Time toolgrade's scoring against parsing and against other libraries."
    )
    parser.add_argument("--peers", action="store_true", help="measure the other libraries too (installs them first)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds, the best one counts (default: 3)")
    parser.add_argument(
        "--budget", type=float, default=10.0, metavar="SECONDS", help="most time for a way of working (default: 10)"
    )
    parser.add_argument("--data", type=Path, metavar="FILE", help="the recorded airline runs, as JSONL")
    parser.add_argument(
        "--only", action="append", choices=get_args(Family), help="this family of workloads; repeatable"
    )
    parser.add_argument("--write", action="store_true", help="write them into benchmarks/speed.md")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    options = parser.parse_args()
    if options.rounds < 1 or options.budget <= 0:
        parser.error("--rounds must be at least 1, --budget more than 0")
    return options


def _pythons(peers: tuple[Library, ...]) -> tuple[dict[Library, Path], dict[str, str]]:
    """Return the interpreter of each library, and why a library has none."""
    pythons, missing = {OWN: python_of(OWN)}, {}
    for library in peers:
        with console.status(f"{library.name}: looking after its environment"):
            try:
                pythons[library] = python_of(library)
            except CannotInstallError as error:
                missing[library.name] = f"not installed: {error}"
                console.print(f"{library.name} cannot be installed: {error}")
    return pythons, missing


def _run(
    workloads: list[Workload], pythons: dict[Library, Path], options: argparse.Namespace
) -> dict[tuple[str, str], dict[str, Any]]:
    """Run every workload with every library, each in a separate process, one after the other."""
    reports: dict[tuple[str, str], dict[str, Any]] = {}
    too_slow: set[tuple[str, str, str]] = set()
    for workload in workloads:
        for library, python in pythons.items():
            if library is not OWN and not workload.shared:
                continue
            library_modes = [mode for mode in library.modes if mode != "default" or workload.size <= DEFAULT_UP_TO]
            modes = [mode for mode in library_modes if (library.name, workload.family, mode) not in too_slow]
            job = {
                "rounds": options.rounds,
                "budget": options.budget,
                "modes": modes,
                "cases": workload.cases,
                "lines": workload.lines if library is OWN else None,
                "records": workload.records,
                "record": workload.record,
            }
            with console.status(f"{library.name}: {workload.name}"):
                report = _work(library, python, job)
            if report is None and library is OWN:
                sys.exit(1)  # nothing to compare with
            if report is None:
                continue
            for mode, result in report["modes"].items():
                result["budget"] = options.budget
                if result.get("scoring", {}).get("seconds", 0) is None:
                    too_slow.add((library.name, workload.family, mode))
            for mode in set(library_modes) - set(modes):  # a smaller case did not end within the budget
                report["modes"][mode] = {
                    "budget": options.budget,
                    "scoring": {"seconds": None},
                    "making": {"seconds": None},
                }
            reports[library.name, workload.name] = report
    return reports


def _work(library: Library, python: Path, job: dict[str, Any]) -> dict[str, Any] | None:
    """Run a job in the library's environment; the current folder is a passing one, since some write files into it."""
    environment = {**os.environ, **library.environment}
    if library is not OWN:
        environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        limit = 60 + 2 * job["budget"] * (2 * len(job["modes"]) + 2)
        command = [str(python), str(HERE / "worker.py"), library.module, str(path)]
        try:
            done = subprocess.run(  # noqa: S603 - our own worker
                command, capture_output=True, text=True, cwd=folder, env=environment, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            console.print(f"{library.name}: did not end within {limit:.0f} seconds", style="red")
            return None
    if done.returncode:
        console.print(f"{library.name}: failed\n{done.stderr[-2000:]}", style="red", markup=False)
        return None
    report: dict[str, Any] = json.loads(done.stdout)
    return report


STARTS = {
    "nothing": "",
    "pydantic with one model": "import pydantic; type('M', (pydantic.BaseModel,), {'__annotations__': {'x': int}})",
    "what scores a case": "from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric",
    "`toolgrade --help`": "import toolgrade.cli.main",
    "`toolgrade score`": "import toolgrade.cli.score",
}


def _startup() -> dict[str, float]:
    """Return the processor time of each program in a separate process."""

    def seconds(program: str) -> float:
        command = [sys.executable, "-c", f"import time\n{program}\nprint(time.process_time())"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
        return float(done.stdout)

    return {name: min(seconds(program) for _ in range(5)) for name, program in STARTS.items()}


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _machine(load_before: str) -> str:
    where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{where}; load {load_before} before the run, {_load()} after it"


def _oddities(
    workloads: list[Workload], reports: dict[tuple[str, str], dict[str, Any]], missing: dict[str, str]
) -> list[str]:
    """Return notes on the tables: absent libraries, and lines that were not read as intended."""
    lines = [f"{name}: {reason}" for name, reason in missing.items()]
    for workload in workloads:
        differing = reports[OWN.name, workload.name]["parse"]["differing"]
        if differing:
            lines.append(f"{workload.name}: {differing} of {len(workload.cases)} lines parse into other calls")
    return lines


def _show(grids: list[Grid], lines: list[str], markdown: Path | None) -> None:
    for grid in grids:
        grid.show(console)
    for line in lines:
        console.print(line, markup=False)
    if markdown:
        text = "\n".join([*(f"{line}\n" for line in lines), *(grid.markdown() for grid in grids)])
        markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
