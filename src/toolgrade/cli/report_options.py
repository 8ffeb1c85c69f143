"""Options that show a report: in the terminal, or as HTML, Markdown, JUnit or JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from toolgrade._internal.model import drop_none
from toolgrade._internal.text import printable
from toolgrade.cli.io import json_document, stop, title_of, write_text
from toolgrade.cli.options import Decorator, OutputPath, bundle, clear_settings, options_in
from toolgrade.errors import ToolgradeError

if TYPE_CHECKING:
    from toolgrade.report import Report

_LIMIT = 20
_DETAILS = 3
"""Cases that the terminal shows side by side."""
_RESERVED = ("name", "date", "models", "tokens", "time", "toolgrade", "python", "started_at", "seconds")
"""Facts that are recorded, or have an option of their own."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The values of the options; `targets` has the file of each format, where `-` is standard output."""

    targets: Mapping[str, str]
    names: Sequence[str]
    meta: Mapping[str, str]
    by: Sequence[str]
    limit: int | None
    quiet: bool
    verbose: bool
    github: bool

    @property
    def about(self) -> dict[str, str]:
        """The facts of the command line about an evaluation."""
        return {**self.meta, **({"name": self.names[-1]} if self.names else {})}

    def show(self, reports: Sequence[Report], sources: Sequence[str], *, lines_of: Sequence[str], always: bool) -> None:
        """Write the files, and print the report unless one of them goes to standard output, then the annotations.

        The last of the reports is shown, and compared with those before it; they are named by their sources, if they
        have no other name. With `always` it is also printed if files are written. `lines_of` are the files whose lines
        are annotated.
        """
        views = [with_name(report, source) for report, source in zip(reports, sources, strict=True)]
        is_printed = "-" not in self.targets.values() and (always or not self.targets)
        try:
            self._write(views, reports[-1])
            if is_printed:
                self._print(views)
        except ToolgradeError as error:  # a field of --by that no case has
            stop(str(error))
        if not is_printed and not always:
            for target in self.targets.values():
                if target != "-":
                    click.echo(f"wrote {printable(target)}", err=True)
        if self.github:
            from toolgrade.cli.annotations import print_annotations  # noqa: PLC0415 - loaded only with --github

            print_annotations(reports[-1], lines_of)

    def _write(self, views: Sequence[Report], report: Report) -> None:
        # Everything is rendered before the first file is written, and files come before standard output, whose reader
        # may close the pipe.
        texts = [
            (target, json_document(report.to_dict(), target) if kind == "json" else self._render(kind, views))
            for kind, target in self.targets.items()
        ]
        for target, text in sorted(texts, key=lambda pair: pair[0] == "-"):
            write_text(target, text)

    @property
    def full(self) -> int:
        """Number of worst results that are shown with their case, 0 for all: every file shows all."""
        if self.targets or self.by or self.verbose or self.github or self._printed == 0:
            return 0
        return max(self._printed, _DETAILS)

    @property
    def _printed(self) -> int:
        """Number of cases that are printed, 0 for all."""
        return _LIMIT if self.limit is None else self.limit

    def _render(self, kind: str, reports: Sequence[Report]) -> str:
        *earlier, report = reports
        options: dict[str, Any] = {} if self.limit is None else {"limit": self.limit}
        options |= {"earlier": earlier, "by": self.by}
        # Each format is imported when it is needed.
        if kind == "html":
            from toolgrade.report.html.page import render_html  # noqa: PLC0415

            return render_html(report, **options)
        if kind == "md":
            from toolgrade.report.markdown import render_markdown  # noqa: PLC0415

            return render_markdown(report, **options)
        from toolgrade.report.junit import render_junit  # noqa: PLC0415

        return render_junit(report, title=str(report.about["name"]))

    def _print(self, reports: Sequence[Report]) -> None:
        from toolgrade.report.terminal import print_report  # noqa: PLC0415 - as above

        *earlier, report = reports
        options: dict[str, Any] = {"limit": self._printed, "quiet": self.quiet}
        print_report(report, earlier=earlier, by=self.by, full=self.verbose, **options)


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

_OTHERS = ("limit", "quiet", "verbose", "github", "by")


def _facts(texts: Sequence[str]) -> dict[str, str]:
    """Return facts by their keys, from texts such as `model=gpt-4.1`."""
    pairs = [text.partition("=") for text in texts]
    for key, sign, _ in pairs:
        if not key or not sign:
            raise click.UsageError(f"--meta must be KEY=VALUE, such as model=gpt-4.1, got {key!r}")
        if key in _RESERVED:
            hint = "; use --name" if key == "name" else ", which is recorded"
            raise click.UsageError(f"--meta cannot set {key!r}{hint}")
    return {key: value for key, _, value in pairs}


def with_name(report: Report, source: str) -> Report:
    """Return a report with the name of its file if it has no other name."""
    return replace(report, about={"name": title_of(source), **report.about})


def _collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the options of a report by `display`."""
    clear_settings(arguments, "quiet", "verbose")
    targets = drop_none({kind: arguments.pop(f"{kind}_path") for kind in _FORMATS})
    others = {name: arguments.pop(name) for name in _OTHERS}
    others |= {"names": arguments.pop("name"), "meta": _facts(arguments.pop("meta"))}
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
        option(
            "--name",
            multiple=True,
            metavar="TEXT",
            help="Name of the evaluation, such as 'release 7'.  [default: the name of the file]",
        ),
        option(
            "--meta",
            multiple=True,
            metavar="KEY=VALUE",
            help="Fact about it to show, such as model=gpt-4.1; may be repeated.",
        ),
        option(
            "--by",
            multiple=True,
            metavar="FIELD",
            help="Pass rates by tag, agent, or a field of the cases such as metadata.team; may be repeated.  "
            "[default: tag, if there are tags]",
        ),
        option(
            "--limit",
            type=click.IntRange(0),
            help=f"Cases shown, 0 for all.  [default: {_LIMIT} in the terminal, 2000 in HTML, 100 in Markdown]",
        ),
        option("--github", is_flag=True, help="Also print annotations for GitHub Actions."),
        option("-q", "--quiet", is_flag=True, help="Print totals only."),
        option("-v", "--verbose", is_flag=True, help="Print every case side by side, in full."),
    ),
    _collect,
)
"""Options of a report; the command gets them as `display`, a `ReportOptions`."""
