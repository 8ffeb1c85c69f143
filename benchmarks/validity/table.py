"""What was measured, as data and as the tables of README.md beside this file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

END = "<!-- to here -->\n"
SECTIONS = ("scores", "gates", "grounding", "chance", "constants")

Cells = tuple[str, ...]

COLUMNS = (
    "ToolCorrectness, names",
    "ToolCorrectness, arguments, ordered",
    "DeepEval, with arguments, in order",
    "agentevals, superset",
    "ragas, ToolCallF1",
    "ragas, ToolCallAccuracy, any order, prepared calls",
    "TaskSuccess(calls_only), effects unknown",
    "TaskSuccess(calls_only), effects guessed",
    "TaskSuccess of the calls",
    "TaskSuccess",
    "TaskSuccess, tools with a shared prefix",
    "ToolSuccessRate",
    "RunHealth",
    "ToolGrounding of writes",
    "agreement of runs",
)
"""The rows of the results that the page shows, as its columns: those that were also measured elsewhere."""

_NOT_MEASURED = ("-",) * 5
ELSEWHERE: dict[str, tuple[str, ...]] = {
    name: (*figures, *_NOT_MEASURED)
    for name, figures in {
        "airline, other half, 100 runs": (".49", ".49", ".49", ".65", ".52", ".97", ".56", ".981", "-", "1.000"),
        "retail, other half, 100 runs": (".72", ".87", ".87", ".81", ".74", ".95", ".86", ".953", "-", ".993"),
        "retail, texts parsed, 80 runs": (".72", ".95", ".95", ".83", ".86", ".98", ".91", ".987", "-", ".992"),
        "tau2, 40 runs": (".55", ".62", ".62", ".73", ".58", ".99", ".62", ".948", "-", ".993"),
        "AgentDojo, clean, 816 runs": (".79", ".79", ".79", ".71", ".76", ".72", ".80", ".783", "-", ".891"),
        "AgentDojo, attacked, 816 runs": (".75", ".70", ".70", ".65", ".70", ".72", ".69", ".766", "-", ".847"),
        "BFCL multi-turn, 400 runs": (".84", ".95", ".95", ".90", ".84", ".79", ".91", ".916", "-", ".964"),
        "mean of these seven": (
            *(".694", ".768", ".768", ".752", ".713", ".873", ".764"),
            *(".905 (.875 to .926)", ".916", ".954 (.937 to .967)"),
        ),
        "WorkBench, all 2,760 runs": (".625", "-", ".739", ".947", "-", "-", "-", ".985", "-", ".989"),
        "tau retail subtasks, all 108 runs": (".630", "-", ".775", ".748", "-", "-", "-", ".929", "-", ".970"),
        "tau2 retail, another agent, 342 runs": (".648", "-", ".744", ".734", "-", "-", "-", ".926", "-", ".973"),
        "three more tau2 sets": (*("-",) * 9, ".974 to .998"),
        "HotpotQA": (*("-",) * 9, ".950"),
        "MedAgentBench": (*("-",) * 9, ".71"),
        "LiveMCPBench, human labels, 95 runs": (*("-",) * 9, ".50"),
    }.items()
}
"""Figures that this benchmark did not measure: of runs that are kept apart, taken over as they were reported."""


def section(results: Mapping[str, Any], name: str) -> str:
    """Return one of the tables of the page, in Markdown."""
    header, *body = _TABLES[name](results)
    rule = ("---", *("--:" for _ in header[1:]))
    lines = [f"| {' | '.join(cells)} |" for cells in (header, rule, *body)]
    if name == "scores":
        lines += ["", below(results)]
    return "\n".join(lines) + "\n"


def show(results: Mapping[str, Any], console: Console) -> None:
    """Write the AUC of every row on every data set to a terminal."""
    sets = _sets(results)
    table = Table(box=None)
    for number, column in enumerate(("score", *(name for name, _ in sets), "mean")):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for name in results["kinds"]:
        cells = [_cell(one["rows"].get(name)) for _, one in sets]
        table.add_row(*map(Text, (name, *cells, _short(mean_of(results, name)))))
    console.print(table)
    console.print(below(results), markup=False, highlight=False)


def below(results: Mapping[str, Any]) -> str:
    """Return the measured runs and the versions."""
    about = results["about"]
    sets = [f"{name}: {one['runs']} runs of {one['tasks']} tasks, {one['good']} good" for name, one in _sets(results)]
    absent = [f"{name} is absent: {reason}" for name, reason in about["absent"].items()]
    intervals = f"Intervals: {about['resamples']} resamples of whole tasks, seed {about['seed']}"
    return ". ".join(["; ".join(sets), about["versions"], *absent, intervals]) + "."


def json_text(results: Mapping[str, Any]) -> str:
    """Return the results as JSON with one line for each row."""

    def text(value: object, depth: int) -> str:
        if not isinstance(value, dict) or not value or depth == 0:
            return json.dumps(value)
        indent = " " * (5 - depth)
        inner = [f"{indent}{json.dumps(key)}: {text(one, depth - 1)}" for key, one in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{indent[1:]}}}"

    return text(results, 4) + "\n"


def _sets(results: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(results["data"].items())


def _scores(results: Mapping[str, Any]) -> Iterator[Cells]:
    """Yield a row for each data set that was measured here, and for each that was measured elsewhere."""
    yield ("data", *COLUMNS)
    for name, one in _sets(results):
        yield (f"**{name}**", *(_cell(one["rows"].get(column)) for column in COLUMNS))
    yield ("**mean of these**", *(_short(mean_of(results, column)) for column in COLUMNS))
    for name, figures in ELSEWHERE.items():
        yield (f"*elsewhere:* {name}", *figures)


def mean_of(results: Mapping[str, Any], name: str) -> float:
    """Return the mean AUC of a row over the data sets; one without an AUC counts 0.5, as a score that says nothing."""
    rows = [one["rows"].get(name) for _, one in _sets(results)]
    return fmean(0.5 if row is None or row[0] is None else row[0] for row in rows)


def _constants(results: Mapping[str, Any]) -> Iterator[Cells]:
    mean = results["constants mean"]
    yield ("constant", "value", f"half of it (now {mean:.4f})", "double")
    for name, (value, half, double) in results["constants"].items():
        yield (name, f"{value:g}", f"{half:.4f}", f"{double:.4f}")


def _grounding(results: Mapping[str, Any]) -> Iterator[Cells]:
    """Yield the arguments of writes that were flagged, of good and of bad runs."""
    yield ("data", "good runs: flagged of checked", "share", "bad runs: flagged of checked", "share")
    for name, counts in results["grounding"].items():
        cells: list[str] = []
        for side in ("good", "bad"):
            flagged = counts.get(f"{side} ungrounded", 0)
            checked = flagged + counts.get(f"{side} traced", 0)
            cells += [f"{flagged} of {checked}", f"{flagged / checked:.1%}" if checked else "-"]
        yield (f"**{name}**", *cells)


def _gates(results: Mapping[str, Any]) -> Iterator[Cells]:
    """Yield what each gate costs on each data set: good runs that fail, and passes that are good."""
    sets = _sets(results)
    yield ("gate", *(f"{name} ({one['good'] / one['runs']:.0%} good)" for name, one in sets))
    for gate in next(iter(sets))[1]["gates"]:
        yield (gate, *(" / ".join(map(_percent, one["gates"][gate])) for _, one in sets))


def _percent(share: list[float | None]) -> str:
    value, low, high = share
    if value is None:
        return "-"
    return f"{value:.0%}" if low is None or high is None else f"{value:.0%} ({low:.0%} to {high:.0%})"


def _chance(results: Mapping[str, Any]) -> Iterator[Cells]:
    yield ("random values", "seen", "seen or derived")
    for kind, shares in results["chance"].items():
        yield (kind, *(f"{share:.1%}" for share in shares))


_TABLES: dict[str, Callable[[Mapping[str, Any]], Iterator[Cells]]] = {
    "scores": _scores,
    "gates": _gates,
    "grounding": _grounding,
    "chance": _chance,
    "constants": _constants,
}


def _cell(row: list[Any] | None) -> str:
    if row is None or row[0] is None:
        return "-"
    auc, low, high, _ = row
    return _short(auc) if low is None else f"{_short(auc)} ({_short(low)} to {_short(high)})"


def _short(value: float) -> str:
    return f"{value:.3f}"


def section_of(page: Path, begin: str) -> str:
    """Return the part of a page that is written here."""
    return page.read_text(encoding="utf-8").partition(begin)[2].partition(END)[0]


def begin_of(name: str) -> str:
    """Return the line before a section of the page."""
    return f"<!-- {name}, written by make validity -->\n"


def write_sections(page: Path, results: Mapping[str, Any]) -> None:
    """Replace all sections of the page of validity."""
    for name in SECTIONS:
        write_section(page, section(results, name), begin_of(name))


def write_section(page: Path, text: str, begin: str) -> None:
    """Replace the part of a page that is written here: between the lines `begin` and `END`."""
    before, begin_line, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(END)
    if not begin_line or not ended:
        message = f"{page} has no place for the table: it needs the lines {begin.strip()} and {END.strip()}"
        raise ValueError(message)
    page.write_text(before + begin_line + text + ended + after, encoding="utf-8", newline="\n")
