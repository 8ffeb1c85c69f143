"""Options that show a report: in the terminal, or as HTML, Markdown, JUnit or JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from toolgrade._internal.model import drop_none
from toolgrade._internal.text import printable
from toolgrade.cli.io import exit_on_error, json_document, title_of, write_text
from toolgrade.cli.options import Decorator, InputPath, OutputPath, bundle, clear_settings, options_in

if TYPE_CHECKING:
    from toolgrade.report import Comparison, Report

_LIMIT = 20


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The values of the options; `targets` has the file of each format, where `-` is standard output."""

    targets: Mapping[str, str]
    title: str | None
    limit: int | None
    details: int
    quiet: bool
    verbose: bool
    baseline: str | None
    github: bool

    def show(self, report: Report, source: str, *, lines_of: Sequence[str], always: bool) -> None:
        """Write the files, and print the report unless one of them goes to standard output, then the annotations.

        With `always` the report is also printed if files are written. `lines_of` are the files whose lines are
        annotated.
        """
        title = self.title or title_of(source)
        comparison = self._comparison(report)
        self._write(report, title, comparison)
        if "-" not in self.targets.values() and (always or not self.targets):
            self._print(report, title, comparison)
        elif not always:
            for target in self.targets.values():
                if target != "-":
                    click.echo(f"wrote {printable(target)}", err=True)
        if self.github:
            from toolgrade.cli.annotations import print_annotations  # noqa: PLC0415 - loaded only with --github

            print_annotations(report, lines_of)

    def _write(self, report: Report, title: str, comparison: Comparison | None) -> None:
        # Everything is rendered before the first file is written, and files come before standard output, whose reader
        # may close the pipe.
        texts = [(target, self._render(kind, report, title, comparison)) for kind, target in self.targets.items()]
        for target, text in sorted(texts, key=lambda pair: pair[0] == "-"):
            write_text(target, text)

    def _comparison(self, report: Report) -> Comparison | None:
        """Return how the report differs from the baseline; `None` without one."""
        if self.baseline is None:
            return None
        from toolgrade.analysis.comparison import compare  # noqa: PLC0415 - loaded only with --baseline

        with exit_on_error(self.baseline, "nothing was shown"):
            return compare(self.baseline, report)

    @property
    def full(self) -> int:
        """Number of worst results that are shown with their case, 0 for all: every file and comparison shows all."""
        if self.targets or self.baseline is not None or self.verbose or self.github or self._printed == 0:
            return 0
        return max(self._printed, self.details)

    @property
    def _printed(self) -> int:
        """Number of cases that are printed, 0 for all."""
        return _LIMIT if self.limit is None else self.limit

    def _render(self, kind: str, report: Report, title: str, comparison: Comparison | None) -> str:
        limit: dict[str, Any] = {} if self.limit is None else {"limit": self.limit}
        # Each format is imported when it is needed.
        if kind == "html":
            from toolgrade.report.html.page import render_html  # noqa: PLC0415

            return render_html(report, title=title, baseline=comparison, **limit)
        if kind == "md":
            from toolgrade.report.markdown import render_markdown  # noqa: PLC0415

            return render_markdown(report, title=title, baseline=comparison, **limit)
        if kind == "junit":
            from toolgrade.report.junit import render_junit  # noqa: PLC0415

            return render_junit(report, title=title)
        return json_document(report.to_dict(), self.targets[kind])

    def _print(self, report: Report, title: str, comparison: Comparison | None) -> None:
        from toolgrade.report.terminal import print_report  # noqa: PLC0415 - as above
        from toolgrade.report.terminal.tables import print_comparison  # noqa: PLC0415 - as above

        limit = self._printed
        print_report(report, title=title, limit=limit, details=self.details, quiet=self.quiet, full=self.verbose)
        if comparison is not None:
            click.echo()
            print_comparison(comparison, title_a=title_of(self.baseline or ""), title_b=title, limit=limit)


class _Share(click.ParamType):  # type: ignore[type-arg]
    """A share from 0 to 1, also as a percentage: `0.02` or `2%`."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's own
        """Return the share."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:  # nan is not either
            self.fail(f"{value!r} is not a share from 0 to 1, such as 0.02 or 2%", param, ctx)
        return share


_GATE = {
    "pass_rate": ("--pass-rate", "Goldens, of those measured, that must pass.  [default: 1]"),
    "per_golden": ("--per-golden", "Trials of a golden, of those measured, that must pass.  [default: 1]"),
    "not_measured": ("--allow-not-measured", "Cases that need not be measured.  [default: 0]"),
    "agent_errors": ("--allow-agent-errors", "Cases in which the agent may break.  [default: 0]"),
    "min_answered": ("--min-answered", "Questions that the judge of each metric must answer."),
}


def gate_options(default: str) -> Decorator:
    """Return the options of the gate, which give the command a function from its default gate to the gate."""
    option = options_in(f"When the exit code is 0{default}")
    options = [
        option(flag, f"gate_{name}", type=_Share(), metavar="SHARE", help=text) for name, (flag, text) in _GATE.items()
    ]

    def collect(arguments: dict[str, Any]) -> dict[str, Any]:
        shares = drop_none({name: arguments.pop(f"gate_{name}") for name in _GATE})
        return {**arguments, "gate": shares}

    return bundle(tuple(options), collect)


def exit_by(report: Report, hint: str = "") -> NoReturn:
    """Exit with 0 if the gate of a report holds, else with 1 after a sentence on standard error."""
    verdict = report.verdict
    if not verdict.passed:
        click.echo(f"failed: {verdict.sentence}{hint}", err=True)
    sys.exit(int(not verdict.passed))


_FORMATS = {
    "html": "Write the report as one HTML page that needs no network.",
    "md": "Write the report as Markdown, for the summary of a CI step.",
    "junit": "Write the report as JUnit XML.",
    "json": "Write all results as JSON.",
}

_OTHERS = ("title", "limit", "details", "quiet", "verbose", "baseline", "github")


def _collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the options of a report by `display`."""
    clear_settings(arguments, "quiet", "verbose")
    targets = drop_none({kind: arguments.pop(f"{kind}_path") for kind in _FORMATS})
    others = {name: arguments.pop(name) for name in _OTHERS}
    if others["quiet"] and others["verbose"]:
        raise click.UsageError("--quiet and --verbose cannot be combined")
    if list(targets.values()).count("-") + others["github"] > 1:
        raise click.UsageError("only one report can be written to standard output")
    return {**arguments, "display": ReportOptions(targets=targets, **others)}


option = options_in("Report")
"""An option in the section of a report."""

report_options: Decorator = bundle(
    (
        *(
            option(f"--{kind}", f"{kind}_path", type=OutputPath(allow_dash=True), metavar="FILE", help=text)
            for kind, text in _FORMATS.items()
        ),
        option("--title", metavar="TEXT", help="Title of the report.  [default: the name of the file]"),
        option(
            "--limit",
            type=click.IntRange(0),
            help=f"Cases shown, 0 for all.  [default: {_LIMIT} in the terminal, 2000 in HTML, 100 in Markdown]",
        ),
        option("--details", type=click.IntRange(0), default=3, show_default=True, help="Cases shown side by side."),
        option("--baseline", type=InputPath(), metavar="FILE", help="Also show what changed since these results."),
        option("--github", is_flag=True, help="Also print annotations for GitHub Actions."),
        option("-q", "--quiet", is_flag=True, help="Print totals only."),
        option("-v", "--verbose", is_flag=True, help="Print every case side by side, in full."),
    ),
    _collect,
)
"""Options of a report; the command gets them as `display`, a `ReportOptions`."""
