"""How does a command line ask for a report: in the terminal, as HTML, Markdown, JUnit or JSON, in whole or in part?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from toolmark._internal.text import visible
from toolmark.cli.io import guarded, json_of, title_of, write_text
from toolmark.cli.path_types import Source, Target
from toolmark.result import TOLERANCE

if TYPE_CHECKING:
    from toolmark.report import Comparison, MetricSummary, Report

_Command: TypeAlias = Callable[..., None]

_LISTED = 20


@dataclass(frozen=True, kw_only=True)
class Showing:
    """What a command line asks to be shown, and where.

    Attributes:
        targets: By format (`html`, `md`, `junit`, `json`), the file to write; `-` is standard output.
        title: What the report is called; by default as its file.
        limit: Cases listed at most, 0 for all; by default each format has its own limit.
        details: Cases shown side by side at most in the terminal.
        quiet: Print the totals alone.
        full: Print every result in full.
        baseline: A file of the results before.
    """

    targets: Mapping[str, str]
    title: str | None
    limit: int | None
    details: int
    quiet: bool
    full: bool
    baseline: str | None

    def show(self, report: Report, source: str, *, always: bool) -> None:
        """Write every file that was asked for, and print the report unless one goes to standard output.

        Everything is rendered before the first file is written.

        Args:
            report: What to show.
            source: The file it was made from.
            always: Print the report also where files are written.
        """
        title = self.title or title_of(source)
        comparison = self._compared(report)
        texts = {kind: self._rendered(kind, report, title, comparison) for kind in self.targets}
        for kind in sorted(texts, key=lambda kind: self.targets[kind] == "-"):  # the reader of a pipe may close it
            write_text(self.targets[kind], texts[kind])
        if "-" not in self.targets.values() and (always or not texts):
            self._print(report, title, comparison)
        elif not always:
            for target in self.targets.values():
                if target != "-":
                    click.echo(f"wrote {visible(target)}", err=True)

    def sums_target(self) -> str | None:
        """Return where sums go as JSON, where nothing else of a report is there to be shown.

        Raises:
            click.UsageError: Something was asked for that shows single cases.
        """
        asked = [f"--{kind}" for kind in self.targets if kind != "json"]
        asked += [f"--{name}" for name in ("limit", "baseline") if getattr(self, name) is not None]
        asked += ["--verbose"] if self.full else []
        if asked:
            message = f"{asked[0]} shows single cases, and files that are scored part by part show sums"
            raise click.UsageError(f"{message}; write --results FILE, and show that with `toolmark report FILE`")
        return self.targets.get("json")

    def _compared(self, report: Report) -> Comparison | None:
        """Return how the report differs from the baseline, if there is one."""
        if self.baseline is None:
            return None
        from toolmark.analysis.comparison import compare  # noqa: PLC0415 - loaded when used

        baseline = self.baseline
        return guarded(baseline, lambda: compare(baseline, report), otherwise="nothing was shown")[0]

    def _rendered(self, kind: str, report: Report, title: str, comparison: Comparison | None) -> str:
        # Each is loaded when it is asked for.
        limit: dict[str, Any] = {} if self.limit is None else {"limit": self.limit}
        if kind == "html":
            from toolmark.report.html.page import render_html  # noqa: PLC0415

            return render_html(report, title=title, baseline=comparison, **limit)
        if kind == "md":
            from toolmark.report.markdown import render_markdown  # noqa: PLC0415

            return render_markdown(report, title=title, baseline=comparison, **limit)
        if kind == "junit":
            from toolmark.report.junit import render_junit  # noqa: PLC0415

            return render_junit(report, title=title)
        return json_of(report, self.targets[kind])

    def _print(self, report: Report, title: str, comparison: Comparison | None) -> None:
        from toolmark.report.terminal import print_comparison, print_report  # noqa: PLC0415 - as above

        limit = _LISTED if self.limit is None else self.limit
        print_report(report, title=title, limit=limit, details=self.details, quiet=self.quiet, full=self.full)
        if comparison is not None:
            click.echo()
            print_comparison(comparison, title_a=title_of(self.baseline or ""), title_b=title, limit=limit)


def too_low(summaries: Iterable[MetricSummary], fail_under: float) -> bool:
    """Return whether a mean is below this, or a case could not be measured."""
    return any(
        summary.mean is None or summary.mean < fail_under - TOLERANCE or summary.errored for summary in summaries
    )


def fail_under_option(help: str) -> Callable[[_Command], _Command]:
    """Return the option that says how low a mean may be."""
    return click.option("--fail-under", type=click.FloatRange(0, 1), metavar="X", help=help)


_FILES = {
    "html": "Write the report as one HTML page, which needs no network.",
    "md": "Write the report as Markdown, for the summary of a CI step.",
    "junit": "Write the report as JUnit XML.",
    "json": "Write every result as JSON.",
}
_OPTIONS: tuple[Callable[[_Command], _Command], ...] = (
    *(
        click.option(f"--{kind}", f"{kind}_path", type=Target(allow_dash=True), help=text)
        for kind, text in _FILES.items()
    ),
    click.option("--title", metavar="TEXT", help="What the report is called; by default the name of the file."),
    click.option(
        "--limit",
        type=click.IntRange(0),
        help=f"Cases shown; 0 for all. By default {_LISTED} in the terminal, 2000 in HTML, 100 unfolded in Markdown.",
    ),
    click.option("--details", type=click.IntRange(0), default=3, show_default=True, help="Cases shown side by side."),
    click.option("--baseline", type=Source(), metavar="FILE", help="Also show what changed since these results."),
    click.option("-q", "--quiet", is_flag=True, help="Print the totals alone."),
    click.option("-v", "--verbose", "full", is_flag=True, help="Print every case side by side, and in full."),
)


def report_options(command: _Command) -> _Command:
    """Give a command the options of a report, and hand it a `Showing` as `showing`."""

    @wraps(command)
    def collected(
        *,
        title: str | None,
        limit: int | None,
        details: int,
        baseline: str | None,
        quiet: bool,
        full: bool,
        **others: Any,  # noqa: ANN401 - what the command takes
    ) -> None:
        targets = {kind: path for kind in _FILES if (path := others.pop(f"{kind}_path")) is not None}
        if quiet and full:
            raise click.UsageError("--quiet and --verbose contradict each other")
        if list(targets.values()).count("-") > 1:
            raise click.UsageError("only one report can be written to standard output")
        command(
            showing=Showing(
                targets=targets,
                title=title,
                limit=limit,
                details=details,
                quiet=quiet,
                full=full,
                baseline=baseline,
            ),
            **others,
        )

    made: _Command = collected
    for option in reversed(_OPTIONS):
        made = option(made)
    return made
