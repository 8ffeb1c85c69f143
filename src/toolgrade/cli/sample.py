"""`toolgrade sample` and `toolgrade extrapolate`."""

from __future__ import annotations

import click

from toolgrade._internal.text import printable, printable_lines
from toolgrade.cli.help import command
from toolgrade.cli.io import byte_progress, exit_if_interrupted, exit_on_error, write_json
from toolgrade.cli.options import json_option, reading_options, seed_option
from toolgrade.cli.path_types import Source, Target
from toolgrade.results import read_results


@command("toolgrade sample runs.jsonl --size 500 --by metadata.task --out sample.jsonl")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Source())
@click.option("--size", required=True, type=click.IntRange(1), metavar="N", help="Number of cases to draw.")
@click.option(
    "--out",
    required=True,
    type=Target(dir_okay=False),
    help="File of the sample, as JSON Lines; gzipped if the name ends in .gz.",
)
@seed_option("draw")
@click.option(
    "--by",
    metavar="PATH",
    help="Field of a case that names its stratum, such as metadata.task; each stratum gets the same number of cases.",
)
@click.option(
    "--processes", type=click.IntRange(1), metavar="N", help="Processes that read files.  [default: one per core]"
)
@reading_options
def sample(
    *,
    files: tuple[str, ...],
    size: int,
    out: str,
    seed: int,
    by: str | None,
    processes: int | None,
    reading: dict[str, bool],
) -> None:
    """Draw a random sample of cases, without replacement.

    Every set of N cases has the same chance. FILE is a file that `toolgrade score` reads, or conversations. The
    metadata of each drawn case say where it came from and what it stands for; `toolgrade extrapolate` needs them.

    Exit code 2 if the command line or a FILE is wrong; nothing is written then.
    """
    from toolgrade.scale import sample_files  # noqa: PLC0415 - not loaded for --help

    with (
        exit_if_interrupted("nothing was written"),
        exit_on_error(out, "nothing was drawn", action="read or write"),
        byte_progress("reading") as progress,
    ):
        drawn = sample_files(files, size, out=out, seed=seed, by=by, processes=processes, progress=progress, **reading)
    total, *strata = str(drawn).split("\n")
    click.echo(printable_lines("\n".join([f"{total} drawn into {out}", *strata])))


@command("toolgrade score sample.jsonl --results results.jsonl", "toolgrade extrapolate results.jsonl")
@click.argument("results", type=Source(allow_dash=True))
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Confidence of the intervals.",
)
@json_option("Write all numbers as JSON.")
def extrapolate(results: str, confidence: float, json_path: str | None) -> None:
    """Estimate full-population scores from the RESULTS of a sample.

    RESULTS is a file of `toolgrade score --results` for all cases that `toolgrade sample` drew.

    Exit code 2 if it is not, or if some drawn cases are missing.
    """
    from toolgrade.scale import extrapolate as estimate  # noqa: PLC0415 - not loaded for --help

    with exit_on_error(results, "nothing was estimated"):
        estimates = estimate(read_results(results), confidence=confidence)
    if not write_json({"metrics": [metric.to_dict() for metric in estimates]}, json_path):
        for metric in estimates:
            click.echo(printable(str(metric)))
        click.echo(f"In parentheses: {100 * confidence:g} % intervals.")
