"""`toolmark score` over several files, or large ones: a thin shell over `toolmark.scale`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from toolmark._internal.json import json_text, replace_nonfinite
from toolmark._internal.text import number_text, plural, printable
from toolmark.cli.io import gone_through, write_result
from toolmark.metrics import MetricLike
from toolmark.report import MetricSummary
from toolmark.scale.detect import is_begun, is_parquet

if TYPE_CHECKING:
    from toolmark.scale import EngineName, Totals

_Option: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]

_OPTIONS: tuple[_Option, ...] = (
    click.option(
        "--processes",
        type=click.IntRange(1),
        metavar="N",
        help="Score part by part in so many processes, in constant memory; only sums are shown (see docs/scale.md).",
    ),
    click.option(
        "--engine",
        type=click.Choice(["local", "ray", "spark"]),
        help="With --processes: who scores the parts, processes here, Ray or Spark (extras of these names).",
    ),
    click.option("--cluster", metavar="PATH", help="With --processes: where a case says what it is a repetition of."),
    click.option("--no-contents", is_flag=True, help="With --processes: write ids and names alone into --results."),
)


@dataclass(frozen=True)
class Many:
    """The options of the command for files that are too many or too large for one list of cases.

    Attributes:
        processes: How many work; `None` if that was not said.
        engine: Who works; `None` if that was not said.
        cluster: Where in a case its cluster stands.
        no_contents: Leave the cases out of the results.
    """

    processes: int | None
    engine: EngineName | None
    cluster: str | None
    no_contents: bool

    def wanted(self, files: Sequence[str], results: str | None) -> bool:
        """Return whether files are scored part by part."""
        if any(asked is not None for asked in (self.processes, self.engine, self.cluster)):
            return True
        if self.no_contents or len(files) > 1:
            return True
        return is_parquet(files[0]) or (results is not None and is_begun(results))

    def run(
        self,
        files: Sequence[str],
        metrics: Sequence[MetricLike],
        results: str | None,
        json_path: str | None,
        **options: Any,  # noqa: ANN401 - those of `score_files`
    ) -> tuple[Totals, bool]:
        """Score files, print what they add up to, and return it, and whether the end of one is torn.

        Errors end the program with code 2, and Ctrl-C with 130.

        Args:
            files: Paths.
            metrics: What to measure.
            results: Where the results go.
            json_path: Where the sums go as JSON.
            options: More options of `score_files`.
        """

        def make(**shown: Any) -> Totals:  # noqa: ANN401 - also those of `score_files`
            from toolmark.scale import score_files  # noqa: PLC0415 - loaded when used: most score one file

            return score_files(
                files,
                metrics,
                results=results,
                processes=self.processes,
                engine=self.engine or "local",
                cluster=self.cluster,
                contents=not self.no_contents,
                **options,
                **shown,
            )

        kept = "give --results FILE to keep what is done" if results is None else "--resume goes on with it"
        totals, torn = gone_through(files, make, target=results, otherwise="nothing was scored", kept=kept)
        _show(totals, files, json_path)
        return totals, torn


def many_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of scoring part by part; it is handed `many`."""

    @wraps(command)
    def called(**given: Any) -> None:  # noqa: ANN401 - as click read them
        chosen = {field.name: given.pop(field.name) for field in fields(Many)}
        command(many=Many(**chosen), **given)

    made: Callable[..., None] = called
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


def _show(totals: Totals, files: Sequence[str], json_path: str | None) -> None:
    summary = _Summary(totals, files)
    if write_result(summary, json_path):
        return
    click.echo(f"{plural(totals.cases, 'case')} of {plural(len(files), 'file')}")
    for line in totals.summaries:
        click.echo(printable(f"{line}{_interval(line)}"))


def _interval(summary: MetricSummary) -> str:
    if summary.mean_interval is None:
        return ""
    low, high = map(number_text, summary.mean_interval)
    return f"; 95 % interval of the mean: {low} to {high}"


@dataclass(frozen=True)
class _Summary:
    """What is written as JSON."""

    totals: Totals
    files: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = replace_nonfinite(
            {
                "files": list(self.files),
                "cases": self.totals.cases,
                "metrics": [summary.to_dict() for summary in self.totals.summaries],
            }
        )
        return plain

    def to_json(self, *, indent: int | None = None) -> str:
        return json_text(self.to_dict(), indent=indent)
