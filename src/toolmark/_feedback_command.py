"""`toolmark feedback`: scores as JSON for the tools that traces came from. A thin shell over `report.feedback`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import click

from toolmark._shell import guarded, write_text
from toolmark._text import count, visible
from toolmark.report import Report
from toolmark.report.feedback import evaluation_events, evaluation_spans, langfuse_scores, langsmith_feedback
from toolmark.result import ResultStatus
from toolmark.results import read_results

_FORMS: Mapping[str, Callable[[Report], Any]] = MappingProxyType(
    {
        "otel-events": evaluation_events,
        "openinference": evaluation_spans,
        "langsmith": langsmith_feedback,
        "langfuse": langfuse_scores,
    }
)


@click.command()
@click.argument("results", type=click.Path(allow_dash=True))
@click.option(
    "--as",
    "form",
    required=True,
    type=click.Choice(list(_FORMS)),
    help="What to write: log records or spans of OTLP, or what the APIs of LangSmith and Langfuse take.",
)
@click.option(
    "--out", "target", required=True, type=click.Path(allow_dash=True), help='The file; "-" for standard output.'
)
def feedback(*, results: str, form: str, target: str) -> None:
    """Write the scores in RESULTS as JSON for the tools that the traces came from. Nothing is sent.

    RESULTS is a file of `toolmark score --results`, whose cases were made of traces by `toolmark convert`.

    Exit code 0, whatever the scores are; 2 if the command line or RESULTS is wrong, and then nothing is written.
    """

    def make() -> tuple[Report, Any]:
        report = read_results(results)
        return report, _FORMS[form](report)

    (report, value), _ = guarded(results, make, otherwise="nothing was written")
    # Nothing but ASCII: no terminal obeys it, and no encoding of a pipe lacks it.
    write_text(target, json.dumps(value, indent=2) + "\n")
    if target != "-":
        click.echo(f"wrote {visible(target)}: {_told(report, form)}", err=True)


def _told(report: Report, form: str) -> str:
    """Return how many scores were written, and how many results have none."""
    statuses = [result.status for _, result in report.results()]
    failed = statuses.count(ResultStatus.FAILED)
    where = "as errors" if form == "otel-events" else "left out"
    told = [count(statuses.count(ResultStatus.SCORED), "score")]
    told += [f"{failed} not measured, {where}"] if failed else []
    skipped = statuses.count(ResultStatus.SKIPPED)
    told += [f"{skipped} skipped, left out"] if skipped else []
    told += ["the evaluation is not whole"] if report.interrupted else []
    return "; ".join(told)
