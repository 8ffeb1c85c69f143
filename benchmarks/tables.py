"""Tables of the benchmark, for the terminal and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from environments import OWN, Library, Mode
from rich.console import Console
from rich.table import Table
from workloads import Workload

Reports = Mapping[tuple[str, str], Mapping[str, Any]]
"""The reports of the workers, by library and workload."""


@dataclass(frozen=True)
class Grid:
    """A table with a line of explanation; the first column is text, the others are numbers."""

    title: str
    note: str
    columns: list[str]
    rows: list[list[str]]

    def show(self, console: Console) -> None:
        """Write it to a terminal."""
        table = Table(title=self.title, caption=self.note, title_justify="left", caption_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        console.print()

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [self.columns, ["---", *("--:" for _ in self.columns[1:])], *self.rows]
        return "\n".join([f"### {self.title}", "", self.note, "", *(f"| {' | '.join(line)} |" for line in lines), ""])


def number(value: float) -> str:
    """Return a number in two or three digits, or all those before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def seconds_of(report: Mapping[str, Any] | None, mode: str, part: str = "scoring") -> float | None:
    """Return the seconds per case, if they were measured."""
    seconds: float | None = ((report or {}).get("modes", {}).get(mode) or {}).get(part, {}).get("seconds")
    return seconds


def parsing_grid(workloads: Iterable[Workload], reports: Reports) -> Grid:
    """Return toolgrade's speed against that of parsing the same lines."""
    rows = []
    for workload in workloads:
        report = reports["toolgrade", workload.name]
        parse = report["parse"]["models"]["seconds"]
        plain = report["parse"]["plain"]["seconds"]
        times = [seconds_of(report, mode) for mode in ("unordered", "ordered", "names")]
        whole = _sum(parse, times[0])
        ratio = f"{whole / plain:.1f}" if whole and plain else "-"
        rows.append([workload.name, *map(_rate, times), _rate(plain), _rate(parse), ratio])
    return Grid(
        "toolgrade: measuring against parsing",
        "Cases per second. `measure` with its reason read, from models: in any order with arguments, in order with "
        "arguments, in any order by names. Parsing: `json.loads` alone, and into toolgrade's models. Last, the time "
        "from the bytes of a line to a result in any order, by that of `json.loads`.",
        ["workload", "any order", "in order", "names", "json.loads", "into models", "bytes to result"],
        rows,
    )


def _rate(seconds: float | None) -> str:
    return number(1 / seconds) if seconds else "-"


def _sum(*seconds: float | None) -> float | None:
    measured = [part for part in seconds if part]
    return sum(measured) if len(measured) == len(seconds) else None


def headline_grid(workloads: Iterable[Workload], reports: Reports) -> Grid:
    """Return what users run, beside what users of the best-known other library run for the same."""
    rows = []
    for workload in workloads:
        own = reports["toolgrade", workload.name]
        deepeval = reports.get(("deepeval", workload.name))
        pairs = {
            "`measure` of DeepEval": (_whole(own, "unordered"), _whole(deepeval, "default")),
            "its leanest call": (_whole(own, "unordered"), _whole(deepeval, "unordered")),
            "recorded messages, agentevals": (_messages(own), _messages(reports.get(("agentevals", workload.name)))),
        }
        for name, (seconds, other) in pairs.items():
            if seconds and other:
                row = [f"{workload.name}: {name}", _rate(seconds), _rate(other), number(other / seconds)]
                rows.append(row)
    return Grid(
        "What users run",
        "Cases per second, and how many times as fast toolgrade is. `measure`: both sides make their case from names "
        "and arguments, measure it with arguments in any order, and make the reason. Recorded messages: from the "
        "parsed messages of a whole run to a score; agentevals answers by yes or no.",
        ["workload and other side", "toolgrade", "other", "times as fast"],
        rows,
    )


def _whole(report: Mapping[str, Any] | None, mode: str) -> float | None:
    return _sum(seconds_of(report, mode), seconds_of(report, mode, "making"))


def _messages(report: Mapping[str, Any] | None) -> float | None:
    seconds: float | None = ((report or {}).get("messages") or {}).get("seconds")
    return seconds


def ratio_grid(workloads: Iterable[Workload], libraries: list[Library], reports: Reports) -> Grid:
    """Return how many times as fast as each peer toolgrade is, the making of all input objects counted."""
    suffixes: dict[Mode, str] = {"unordered": "", "default": ", default", "ordered": ", in order", "names": ", names"}
    columns = [(one, mode, suffix) for one in libraries for mode, suffix in suffixes.items() if mode in one.modes]
    rows = []
    for workload in workloads:
        if workload.shared:
            cells = [_times_as_fast(reports, workload.name, library, mode) for library, mode, _ in columns]
            rows.append([workload.name, *cells])
    return Grid(
        "How many times as fast",
        "Time of the other library divided by toolgrade's. Both sides make their input objects from names and "
        "arguments; toolgrade measures and its reason is read. Beside agentevals and google_adk, which answer by 1 or "
        "0, toolgrade is strict. `>`: no case ended within the budget, so the ratio is greater.",
        ["workload", *(f"{library.name}{suffix}" for library, _, suffix in columns)],
        rows,
    )


def _own_mode(library: Library, mode: Mode) -> Mode:
    """Return the toolgrade mode that answers the question of a library's mode."""
    if mode == "default":
        return "unordered"
    return library.own_modes.get(mode, mode)


def _times_as_fast(reports: Reports, workload: str, library: Library, mode: Mode) -> str:
    own, other = reports.get((OWN.name, workload)), reports.get((library.name, workload))
    own_mode = _own_mode(library, mode)
    own_seconds = _sum(seconds_of(own, own_mode), seconds_of(own, own_mode, "making"))
    result = (other or {}).get("modes", {}).get(mode)
    if own_seconds is None or result is None or "error" in result:
        return "-"
    if result["scoring"]["seconds"] is None:
        return f"> {number(result['budget'] / own_seconds)}"
    return number((result["scoring"]["seconds"] + result["making"]["seconds"]) / own_seconds)


_TITLES: dict[Mode, str] = {
    "unordered": "Any order, with arguments",
    "ordered": "In order, with arguments",
    "names": "Any order, names only",
    "names in order": "In order, names only",
}


def peer_grids(
    workloads: Iterable[Workload], libraries: list[Library], reports: Reports, missing: Mapping[str, str]
) -> list[Grid]:
    """Return one table per mode, with the libraries side by side; `missing` has the reason for each absent one."""
    shared = [workload for workload in workloads if workload.shared]
    grids = []
    for mode, title in _TITLES.items():
        columns: list[tuple[str, Library, str]] = []
        for library in libraries:
            if mode in library.modes:
                columns.append((library.name, library, mode))
            if mode == "unordered" and "default" in library.modes:
                columns.append((f"{library.name}, default", library, "default"))
        rows = []
        for workload in shared:
            cells = [
                missing.get(library.name) or _cell(reports.get((library.name, workload.name)), column_mode)
                for _, library, column_mode in columns
            ]
            rows.append([workload.name, *cells])
        note = "Cases per second: scoring alone / with the making of the library's input objects counted."
        grids.append(Grid(title, note, ["workload", *(name for name, _, _ in columns)], rows))
    return grids


def _cell(report: Mapping[str, Any] | None, mode: str) -> str:
    result = (report or {}).get("modes", {}).get(mode)
    if result is None:
        return "-"
    if "error" in result:
        return str(result["error"])
    scoring, making = result["scoring"]["seconds"], result["making"]["seconds"]
    if scoring is None:
        return f"< {number(1 / result['budget'])}"
    return f"{number(1 / scoring)} / {number(1 / (scoring + making))}"


def startup_grid(seconds: Mapping[str, float]) -> Grid:
    """Return the start-up times of processes."""
    rows = [[name, f"{value:.2f}"] for name, value in seconds.items()]
    note = "Processor time of a fresh process in seconds, the interpreter's own start counted; best of five."
    return Grid("Start-up", note, ["what is loaded", "seconds"], rows)


def growth_grid(workloads: Iterable[Workload], libraries: list[Library], reports: Reports) -> Grid:
    """Return how the time grows with the number of calls: 1 is in step with it, 2 with its square."""
    families: dict[str, list[Workload]] = {}
    for workload in workloads:
        if workload.size >= 100:
            families.setdefault(workload.family, []).append(workload)
    rows = []
    for library in libraries:
        for mode, title in _TITLES.items():
            if mode not in library.modes:
                continue
            cells = [
                _exponent([(w.size, seconds_of(reports.get((library.name, w.name)), mode)) for w in family])
                for family in families.values()
                if len(family) > 1
            ]
            rows.append([f"{library.name}, {title.lower()}", *cells])
    return Grid(
        "How the time grows",
        "Exponent of the scoring time over the number of expected calls, from 100 to 2,000; `*`: without the sizes "
        "at which no case ended within the time given.",
        ["library and mode", *(name for name, family in families.items() if len(family) > 1)],
        rows,
    )


def _exponent(points: list[tuple[int, float | None]]) -> str:
    """Return the slope of a straight line through the logarithms."""
    logs = [(math.log(size), math.log(seconds)) for size, seconds in points if seconds]
    if len(logs) < 2:
        return "-"
    x_mean, y_mean = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    slope = sum((x - x_mean) * (y - y_mean) for x, y in logs) / sum((x - x_mean) ** 2 for x, _ in logs)
    return f"{slope:.1f}{'' if len(logs) == len(points) else '*'}"


def agreement_grid(workloads: Iterable[Workload], libraries: list[Library], reports: Reports) -> Grid:
    """Return how the peers' scores compare with toolgrade's score in their terms."""
    rows = []
    for library in libraries:
        if library.score is None:
            continue
        in_its_terms = _IN_TERMS_OF[library.score]
        for mode in library.modes:
            counts = [0, 0, 0]
            for workload in workloads:
                for own, other, case in _scores(library, mode, workload, reports):
                    expected = in_its_terms(own, len(case["expected"]), len(case["called"]))
                    counts[0 if abs(other - expected) < 1e-6 else 1 if other < expected else 2] += 1
            if sum(counts):
                rows.append([f"{library.name}, {mode}", *(f"{count:,}" for count in counts)])
    return Grid(
        "Scores beside toolgrade's",
        "Cases in which the library's score is equal to, lower or higher than toolgrade's in the same terms (recall, "
        "all-or-nothing, or F1). ragas answers another question.",
        ["library and mode", "equal", "lower", "higher"],
        rows,
    )


def _scores(
    library: Library, mode: Mode, workload: Workload, reports: Reports
) -> Iterable[tuple[float, float, dict[str, Any]]]:
    def scores(name: str, own_mode: str) -> list[float]:
        modes = reports.get((name, workload.name), {}).get("modes", {})
        values: list[float] = (modes.get(own_mode) or {}).get("scores", [])
        return values

    own = scores("toolgrade", _own_mode(library, mode))
    return zip(own, scores(library.name, mode), workload.cases, strict=False)


def _f1(recall: float, expected: int, called: int) -> float:
    return 2 * recall * expected / (expected + called) if expected and called else recall


_IN_TERMS_OF: dict[str, Callable[[float, int, int], float]] = {
    "recall": lambda recall, _expected, _called: recall,
    "all": lambda recall, expected, called: float(recall > 1 - 1e-9 and expected == called),
    "f1": _f1,
    "yes": lambda yes, _expected, _called: yes,
}
