"""`toolgrade validate`."""

from __future__ import annotations

import math
import sys

import click

from toolgrade.analysis.validation import validate as measure_validity
from toolgrade.cli.help import command
from toolgrade.cli.inputs import read_input
from toolgrade.cli.io import exit_on_error, has_bad_lines, write_json
from toolgrade.cli.metric_options import metric_options
from toolgrade.cli.options import allow_nan_option, json_option, reject_option, source_argument
from toolgrade.evaluation.measuring import unit_of
from toolgrade.failed_calls import ErrorTexts
from toolgrade.inputs import Reading
from toolgrade.metrics import MetricLike


def _finite(_context: click.Context, _option: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number; give the lowest label of a good run")
    return value


@command(
    "toolgrade validate runs.jsonl --label metadata.reward",
    "toolgrade validate runs.jsonl --label metadata.reward --metric task-success --cluster metadata.task",
)
@source_argument
@click.option(
    "--label",
    required=True,
    metavar="PATH",
    help="Field of a case that says how good the run was, such as metadata.reward: a number, true or false.",
)
@click.option(
    "--threshold-label",
    default=1.0,
    show_default=True,
    type=float,
    callback=_finite,
    help="Lowest label of a good run; true is 1.",
)
@click.option(
    "--cluster",
    metavar="PATH",
    help="Field of a case that says which runs belong together, such as metadata.task_id.  [default: none do]",
)
@metric_options
@json_option("Write all numbers as JSON.")
@reject_option
@allow_nan_option
def validate(
    *,
    file: str,
    label: str,
    threshold_label: float,
    cluster: str | None,
    metrics: list[MetricLike],
    error_texts: str,
    text_tools: tuple[str, ...],
    json_path: str | None,
    reject_bad_lines: bool,
    allow_nan: bool,
) -> None:
    """Measure how well scores separate good runs from bad ones, by a label in the cases.

    FILE is a file that `toolgrade score` reads. Cases without a label are not measured, and cases without a score do
    not count as 0; both are reported.

    AUC is how often a good run scores higher than a bad one, ties counting half: 0.5 is chance, 1 is always. The best
    threshold is the one at which most good runs pass and most bad runs fail.

    Exit code 1 if a metric has no AUC because no good or no bad run has a score, or a line cannot be read, 2 if the
    command line or FILE is wrong.
    """
    with exit_on_error(file, "nothing was scored") as caught, ErrorTexts(error_texts, text_tools).applied():
        reading = Reading(unit=unit_of(metrics), allow_nan=allow_nan)
        cases = read_input(file, reading, reject_bad_lines=reject_bad_lines)
        validity = measure_validity(
            cases,
            metrics,
            label=label,
            cluster=cluster,
            positive_from=threshold_label,
        )
    if not write_json(validity.to_dict(), json_path):
        click.echo(str(validity))
    sys.exit(int(has_bad_lines(caught) or any(metric.auc is None for metric in validity.metrics)))
