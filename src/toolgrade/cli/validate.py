"""`toolgrade validate`."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import click

from toolgrade.analysis.validation import validate as measure_validity
from toolgrade.cli.help import command
from toolgrade.cli.inputs import read_input
from toolgrade.cli.io import exit_on_error, has_bad_lines, write_json
from toolgrade.cli.metric_options import metric_options
from toolgrade.cli.options import (
    allow_nan_option,
    is_given,
    json_option,
    options_in,
    reject_option,
    resampling_options,
    samples_option,
    source_argument,
)
from toolgrade.cli.path_types import Target
from toolgrade.inputs import Reading
from toolgrade.metrics import MetricLike, ToolCorrectnessMetric, ToolUseMetric

_JUDGED = {"tool-correctness": ToolCorrectnessMetric, "tool-use": ToolUseMetric}
_judge_option = options_in("Metrics with a judge")


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
@_judge_option(
    "--judged-metric",
    "judged_names",
    multiple=True,
    type=click.Choice(list(_JUDGED)),
    help="Metric whose questions a model answers; may be repeated. Without --metric only these are measured.",
)
@_judge_option("--judge", "model", metavar="MODEL", help="Model that judges.  [default: TOOLGRADE_JUDGE_MODEL]")
@_judge_option(
    "--cache",
    type=Target(dir_okay=False),
    metavar="FILE",
    help="File of verdicts, such as verdicts.sqlite; only questions that it lacks are asked.",
)
@samples_option
@resampling_options
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
    judged_names: tuple[str, ...],
    model: str | None,
    cache: str | None,
    samples: int,
    resampling: dict[str, Any],
    json_path: str | None,
    reject_bad_lines: bool,
    allow_nan: bool,
) -> None:
    """Measure how well scores separate good runs from bad ones, by a label in the cases.

    FILE is a file that `toolgrade score` reads, or JSON Lines of conversations for --judged-metric tool-use. Cases
    without a label are not measured, and cases without a score do not count as 0; both are reported.

    AUC is how often a good run scores higher than a bad one, ties counting half: 0.5 is chance, 1 is always. The best
    threshold is the one at which most good runs pass and most bad runs fail.

    Exit code 1 if a metric has no AUC because no good or no bad run has a score, or a line cannot be read, 2 if the
    command line or FILE is wrong.
    """
    judged = _judged_metrics(judged_names, model, cache, samples)
    if judged and not is_given("metric_names"):
        metrics = []
    with exit_on_error(file, "nothing was scored") as caught:
        reading = Reading(unit="any", allow_nan=allow_nan)
        cases = read_input(file, reading, reject_bad_lines=reject_bad_lines)
        validity = measure_validity(
            cases,
            [*metrics, *judged],
            label=label,
            cluster=cluster,
            positive_from=threshold_label,
            **resampling,
        )
    if not write_json(validity.to_dict(), json_path):
        click.echo(str(validity))
    sys.exit(int(has_bad_lines(caught) or any(metric.auc is None for metric in validity.metrics)))


def _judged_metrics(names: tuple[str, ...], model: str | None, cache: str | None, samples: int) -> list[MetricLike]:
    """Return the judged metrics of the command line; they share one judge, and so its cache."""
    if not names:
        if model is not None or cache is not None:
            raise click.UsageError("--judge and --cache must be used with --judged-metric")
        return []
    if model is None and not os.environ.get("TOOLGRADE_JUDGE_MODEL"):
        raise click.UsageError("--judged-metric needs the name of a model; give --judge or set TOOLGRADE_JUDGE_MODEL")
    from toolgrade.judge import Judge  # noqa: PLC0415 - loaded only if a metric asks a judge

    judge = Judge(model, cache=cache or "memory", samples=samples)
    return [_JUDGED[name](judge=judge) for name in dict.fromkeys(names)]
