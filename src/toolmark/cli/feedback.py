"""`toolmark feedback`: scores for the tools that traces came from, as JSON or sent. A thin shell over `report`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import click

from toolmark._internal.text import plural, printable
from toolmark.cli.io import guarded, visible_lines, write_text
from toolmark.cli.path_types import Source, Target
from toolmark.errors import NotSentError
from toolmark.report import Report
from toolmark.report.export.otel_setup import send_events, send_spans
from toolmark.report.feedback import (
    evaluation_events,
    evaluation_spans,
    langfuse_scores,
    langsmith_feedback,
    phoenix_annotations,
)
from toolmark.result import ResultStatus
from toolmark.results import read_results

_FORMS: Mapping[str, Callable[[Report], Any]] = MappingProxyType(
    {
        "otel-events": evaluation_events,
        "openinference": evaluation_spans,
        "langsmith": langsmith_feedback,
        "langfuse": langfuse_scores,
        "phoenix": phoenix_annotations,
    }
)


_SENT: Mapping[str, Callable[[Report], int]] = MappingProxyType(
    {"otel-events": send_events, "openinference": send_spans}
)


@click.command()
@click.argument("results", type=Source(allow_dash=True))
@click.option(
    "--as",
    "form",
    required=True,
    type=click.Choice(list(_FORMS)),
    help="What to write: log records or spans of OTLP, or what the APIs of LangSmith, Langfuse and Phoenix take.",
)
@click.option("--out", "target", type=Target(allow_dash=True), help='The file; "-" for standard output.')
@click.option(
    "--send",
    is_flag=True,
    help="Send log records or spans to a collector instead, where the variables OTEL_... say; see docs/traces.md.",
)
def feedback(*, results: str, form: str, target: str | None, send: bool) -> None:
    """Write the scores in RESULTS as JSON for the tools that the traces came from. Nothing is sent without --send.

    RESULTS is a file of `toolmark score --results`, whose cases were made of traces by `toolmark convert`.

    Exit code 0, whatever the scores are; 2 if the command line, the environment or RESULTS is wrong, and then nothing
    is written or sent; 1 if a collector did not accept everything.
    """
    if send:
        if target is not None:
            raise click.UsageError("--send and --out exclude each other; call it twice.")
        if form not in _SENT:
            raise click.UsageError(f"--send takes --as {' or '.join(_SENT)}; write {form} with --out.")
        _send(results, form)
    elif target is None:
        raise click.UsageError("Missing option '--out' or '--send'.")
    else:
        _write(results, form, target)


def _write(results: str, form: str, target: str) -> None:
    def make() -> tuple[Report, Any]:
        report = read_results(results)
        return report, _FORMS[form](report)

    (report, value), _ = guarded(results, make, otherwise="nothing was written")
    # Nothing but ASCII: no terminal obeys it, and no encoding of a pipe lacks it.
    write_text(target, json.dumps(value, indent=2) + "\n")
    if target != "-":
        click.echo(f"wrote {printable(target)}: {_told(report, form)}", err=True)


def _send(results: str, form: str) -> None:
    def make() -> tuple[Report, NotSentError | None]:
        report = read_results(results)
        try:
            _SENT[form](report)
        except NotSentError as error:
            return report, error
        return report, None

    (report, problem), _ = guarded(results, make, otherwise="nothing was sent")
    if problem is not None:
        click.echo(f"error: {visible_lines(str(problem))}", err=True)
        sys.exit(1)
    click.echo(f"sent: {_told(report, form)}", err=True)


def _told(report: Report, form: str) -> str:
    """Return how many scores were written or sent, and how many results have none."""
    statuses = [result.status for _, result in report.results()]
    failed = statuses.count(ResultStatus.FAILED)
    where = "as errors" if form == "otel-events" else "left out"
    told = [plural(statuses.count(ResultStatus.SCORED), "score")]
    told += [f"{failed} not measured, {where}"] if failed else []
    skipped = statuses.count(ResultStatus.SKIPPED)
    told += [f"{skipped} skipped, left out"] if skipped else []
    told += ["the evaluation is not whole"] if report.interrupted else []
    return "; ".join(told)
