"""`toolmark validate`: does a score mean anything? A thin shell over `toolmark.analysis.validation`."""

from __future__ import annotations

import sys

import click

from toolmark.cli.io import measured, title_of, tolerant_option, write_result
from toolmark.cli.metric_options import metric_options
from toolmark.cli.path_types import Source, Target
from toolmark.metrics import MetricLike
from toolmark.stats import RESAMPLES


@click.command()
@click.argument("file", type=Source(allow_dash=True))
@click.option(
    "--label",
    required=True,
    metavar="PATH",
    help="Where it stands in a case how good the run was, such as metadata.reward: a number, true or false.",
)
@click.option("--threshold-label", default=1.0, show_default=True, type=float, help="A run is good from this label on.")
@click.option(
    "--cluster",
    metavar="PATH",
    help="Where it stands which cases belong together, such as metadata.task_id; by default none do.",
)
@metric_options
@click.option(
    "--resamples", type=click.IntRange(1), default=RESAMPLES, show_default=True, help="Resamples for the intervals."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random numbers of the resamples.")
@click.option("--json", "json_path", type=Target(allow_dash=True), help="Write all numbers there.")
@click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")
@tolerant_option
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
    allow_nan: bool,
    tolerant_arguments: bool,
) -> None:
    """Show how well the scores of FILE tell good runs from bad ones, by a label in its cases.

    FILE is what `toolmark score` reads. Cases without a label are not measured, and cases without a score are not
    counted as 0; both are told.

    Exit code 1 if a metric has no area under the curve, since there are no good or no bad runs with a score; 2 if the
    command line or FILE is wrong.
    """
    from toolmark.analysis.validation import validate as validity_of  # noqa: PLC0415 - `toolmark --help` stays quick

    found, _ = measured(
        file,
        lambda cases: validity_of(
            cases,
            metrics,
            label=label,
            cluster=cluster,
            positive_from=threshold_label,
            resamples=resamples,
            seed=seed,
        ),
        allow_nan=allow_nan,
        tolerant_arguments=tolerant_arguments,
    )
    if not write_result(found, json_path):
        from toolmark.report.terminal import print_validity  # noqa: PLC0415 - as above

        print_validity(found, title=title_of(file))
    sys.exit(int(any(metric.auc is None for metric in found.metrics)))
