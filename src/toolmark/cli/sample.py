"""`toolmark sample` and `toolmark extrapolate`: from all cases to a few, and back; thin shells over `scale`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from toolmark._internal.json import json_text, replace_nonfinite
from toolmark._internal.text import printable
from toolmark.cli.io import gone_through, guarded, tolerant_option, write_result
from toolmark.cli.path_types import Source, Target
from toolmark.results import read_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmark.scale import Extrapolation, Sample


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Source())
@click.option("--size", required=True, type=click.IntRange(1), metavar="N", help="How many cases are drawn.")
@click.option(
    "--out",
    required=True,
    type=Target(dir_okay=False),
    help="Write the sample there, as JSON Lines, gzipped if the name ends in .gz.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Other seeds draw other samples.")
@click.option(
    "--by",
    metavar="PATH",
    help="Where in a case its stratum stands, such as metadata.task; each gets the same number of cases.",
)
@click.option(
    "--processes", type=click.IntRange(1), metavar="N", help="How many read at the same time; by default one a core."
)
@click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the files.")
@tolerant_option
def sample(files: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401 - those of `sample_files`
    """Draw cases of FILEs at random, without replacement: every set of N cases has the same chance.

    FILE is what `toolmark score` reads, or conversations. Each case says in its metadata where it came from and what it
    stands for, so that `toolmark extrapolate` can tell what its results say of all cases.

    Exit code 2 if the command line or a FILE is wrong; nothing is written then.
    """

    def make(**shown: Any) -> Sample:  # noqa: ANN401 - as above
        from toolmark.scale import sample_files  # noqa: PLC0415 - `toolmark --help` stays quick

        return sample_files(files, **options, **shown)

    found, _ = gone_through(
        files, make, target=options["out"], otherwise="nothing was drawn", kept="nothing was written"
    )
    first, *strata = str(found).split("\n")
    click.echo("\n".join([f"{first} drawn into {printable(options['out'])}", *map(printable, strata)]))


@click.command()
@click.argument("results", type=Source(allow_dash=True))
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the intervals.",
)
@click.option("--json", "json_path", type=Target(allow_dash=True), help="Write all numbers there.")
def extrapolate(results: str, confidence: float, json_path: str | None) -> None:
    """Say what the RESULTS of a sample tell of all the cases that `toolmark sample` drew it from.

    RESULTS is a file of results with contents, as `toolmark score --results` and `evaluate(results=...)` write it.

    Exit code 2 if it is none, or not all that were drawn are in it.
    """

    def make() -> Sequence[Extrapolation]:
        from toolmark.scale import extrapolate as extrapolated  # noqa: PLC0415 - `toolmark --help` stays quick

        return extrapolated(read_results(results), confidence=confidence)

    found, _ = guarded(results, make, otherwise="nothing can be said")
    if not write_result(_Whole(found), json_path):
        for line in found:
            click.echo(printable(str(line)))
        click.echo(f"In brackets: {100 * confidence:g} % intervals.")


@dataclass(frozen=True)
class _Whole:
    """What is written as JSON."""

    metrics: Sequence[Extrapolation]

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = replace_nonfinite({"metrics": [one.to_dict() for one in self.metrics]})
        return plain

    def to_json(self, *, indent: int | None = None) -> str:
        return json_text(self.to_dict(), indent=indent)
