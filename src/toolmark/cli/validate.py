"""`toolmark validate`."""

from __future__ import annotations

import sys

import click

from toolmark.analysis.validation import validate as measure_validity
from toolmark.cli.io import exit_on_error, title_of, write_json
from toolmark.cli.metric_options import metric_options
from toolmark.cli.options import (
    SectionedCommand,
    json_option,
    reading_options,
    resamples_option,
    seed_option,
    source_argument,
)
from toolmark.dataset import read_cases
from toolmark.metrics import MetricLike


@click.command(cls=SectionedCommand)
@source_argument
@click.option(
    "--label",
    required=True,
    metavar="PATH",
    help="Field of a case that says how good the run was, such as metadata.reward: a number, true or false.",
)
@click.option(
    "--threshold-label", default=1.0, show_default=True, type=float, help="Lowest label of a good run; true is 1."
)
@click.option(
    "--cluster",
    metavar="PATH",
    help="Field of a case that says which runs belong together, such as metadata.task_id.  [default: none do]",
)
@metric_options
@resamples_option
@seed_option("resamples")
@json_option("Write all numbers as JSON.")
@reading_options
def validate(
    *,
    file: str,
    label: str,
    threshold_label: float,
    cluster: str | None,
    metrics: list[MetricLike],
    resamples: int,
    seed: int,
    json_path: str | None,
    reading: dict[str, bool],
) -> None:
    """Measure how well scores separate good runs from bad ones, by a label in the cases.

    FILE is a file that `toolmark score` reads. Cases without a label are not measured, and cases without a score do not
    count as 0; both are reported.

    Exit code 1 if a metric has no area under the curve because no good or no bad run has a score, 2 if the command line
    or FILE is wrong.
    """
    with exit_on_error(file, "nothing was scored"):
        validity = measure_validity(
            read_cases(file, **reading),
            metrics,
            label=label,
            cluster=cluster,
            positive_from=threshold_label,
            resamples=resamples,
            seed=seed,
        )
    if not write_json(validity.to_dict(), json_path):
        from toolmark.report.terminal import print_validity  # noqa: PLC0415 - not loaded for --help

        print_validity(validity, title=title_of(file))
    sys.exit(int(any(metric.auc is None for metric in validity.metrics)))
