"""`toolgrade feedback`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from toolgrade._internal.text import plural, printable
from toolgrade.cli.help import command
from toolgrade.cli.io import exit_on_error, write_text
from toolgrade.cli.path_types import Source, Target
from toolgrade.report import Report
from toolgrade.report.export.otel_setup import send_events, send_spans
from toolgrade.report.feedback import (
    evaluation_events,
    evaluation_spans,
    langfuse_scores,
    langsmith_feedback,
    phoenix_annotations,
)
from toolgrade.result import ResultStatus
from toolgrade.results import read_results

_FORMS: dict[str, Callable[[Report], Any]] = {
    "otel-events": evaluation_events,
    "openinference": evaluation_spans,
    "langsmith": langsmith_feedback,
    "langfuse": langfuse_scores,
    "phoenix": phoenix_annotations,
}
_SENDERS: dict[str, Callable[[Report], int]] = {"otel-events": send_events, "openinference": send_spans}


@command(
    "toolgrade feedback results.jsonl --as langfuse --out scores.json",
    "toolgrade feedback results.jsonl --as otel-events --send",
)
@click.argument("results", type=Source(allow_dash=True))
@click.option(
    "--as",
    "form",
    required=True,
    type=click.Choice(list(_FORMS)),
    help="Format: OTLP log records or spans, or the API payloads of LangSmith, Langfuse or Phoenix.",
)
@click.option(
    "--out", "target", type=Target(allow_dash=True), metavar="FILE", help='JSON file; "-" is standard output.'
)
@click.option(
    "--send",
    is_flag=True,
    help="Send log records or spans to the collector that the OTEL_... variables name; see docs/traces.md.",
)
def feedback(*, results: str, form: str, target: str | None, send: bool) -> None:
    """Export scores to the tracing tools that the cases came from.

    RESULTS is a file of `toolgrade score --results` whose cases `toolgrade convert` made from traces. Scores are
    written as JSON; nothing is sent without --send.

    Exit code 0 whatever the scores are, 1 if a collector rejected some of them, 2 if the command line, the environment
    or RESULTS is wrong; nothing is written or sent then.
    """
    _check_destination(form, target, send=send)
    with exit_on_error(results, "nothing was sent" if send else "nothing was written"):
        report = read_results(results)
    with exit_on_error(results):
        if target is None:
            _SENDERS[form](report)
        else:
            # ASCII: a terminal obeys none of it, and every encoding of a pipe has it.
            write_text(target, json.dumps(_FORMS[form](report), indent=2) + "\n")
    if target != "-":
        action = "sent" if target is None else f"wrote {printable(target)}"
        click.echo(f"{action}: {_summary(report, form)}", err=True)


def _check_destination(form: str, target: str | None, *, send: bool) -> None:
    """Refuse a command line without one destination, or with one that does not take the format."""
    if send == (target is not None):
        problem = "--send and --out cannot be combined; run the command twice."
        raise click.UsageError(problem if send else "Missing option '--out' or '--send'.")
    if send and form not in _SENDERS:
        raise click.UsageError(f"--send takes --as {' or '.join(_SENDERS)}; write {form} with --out.")


def _summary(report: Report, form: str) -> str:
    """Return how many scores were exported, and how many results have none."""
    statuses = [result.status for _, result in report.results()]
    parts = [plural(statuses.count(ResultStatus.SCORED), "score")]
    if failed := statuses.count(ResultStatus.FAILED):
        parts.append(f"{failed} not measured, {'as errors' if form == 'otel-events' else 'left out'}")
    if skipped := statuses.count(ResultStatus.SKIPPED):
        parts.append(f"{skipped} skipped, left out")
    if report.interrupted:
        parts.append("the evaluation is incomplete")
    return "; ".join(parts)
