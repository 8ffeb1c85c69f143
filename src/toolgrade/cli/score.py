"""`toolgrade score`."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from toolgrade._internal.text import plural, printable
from toolgrade.cli.help import command
from toolgrade.cli.inputs import expand
from toolgrade.cli.io import INTERRUPTED, exit_on_error, stop, title_of
from toolgrade.cli.metric_options import metric_options
from toolgrade.cli.options import InputPath, OutputPath, allow_nan_option, on_command_line, options_in, reject_option
from toolgrade.cli.report_options import ReportOptions, exit_by, gate_options, report_options
from toolgrade.evaluation.execute import EvaluationOptions, run_evaluation
from toolgrade.evaluation.results_file import Resume
from toolgrade.metrics import MetricLike
from toolgrade.report import Report
from toolgrade.verdict import Gate

_part_option = options_in("Many or large files")
_golden_option = options_in("Expectations")


@command(
    "toolgrade score runs.jsonl",
    "toolgrade score logs/ --goldens goldens.jsonl --params name,input",
    "toolgrade score traces.json --metric tool-success-rate --html report.html",
    "toolgrade score runs.jsonl --pass-rate 0.95 --junit junit.xml --results results.jsonl",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=InputPath(allow_dash=True))
@metric_options
@_part_option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Processes that score large or several files.  [default: one per core]",
)
@_part_option("--cluster", metavar="PATH", help="Field of a case that says which cases are repetitions of one another.")
@_part_option("--no-contents", is_flag=True, help="Write only ids and names of the cases to --results.")
@_golden_option(
    "--goldens",
    "goldens_path",
    type=InputPath(allow_dash=True),
    metavar="FILE",
    help="Goldens whose expectations the cases get, by id, name or input.",
)
@_golden_option(
    "--golden-id", metavar="FIELD", help="Field of a case that has the id of its golden, such as metadata.task."
)
@gate_options("")
@click.option(
    "--results",
    type=OutputPath(dir_okay=False),
    help="Write each case with its results, part by part, as JSON Lines without secrets.",
)
@click.option(
    "--resume",
    is_flag=False,
    flag_value="missing",
    type=click.Choice(["missing", "errored", "failed"]),
    metavar="[WHAT]",
    help="Resume the file of --results if it exists: measure what is missing; errored, failed: that too.",
)
@report_options
@reject_option
@allow_nan_option
def score(
    *,
    files: tuple[str, ...],
    metrics: list[MetricLike],
    error_texts: str,
    text_tools: tuple[str, ...],
    processes: int | None,
    cluster: str | None,
    no_contents: bool,
    goldens_path: str | None,
    golden_id: str | None,
    gate: Mapping[str, float],
    results: str | None,
    resume: Resume | None,
    display: ReportOptions,
    reject_bad_lines: bool,
    allow_nan: bool,
) -> None:
    """Score the cases of FILE.

    FILE holds test cases, conversations or records as JSON Lines or one list, or recorded messages or traces (see
    `toolgrade convert`). "-" is standard input, gzip is detected, and a folder stands for its files. Expectations are
    those in FILE or of --goldens; some metrics need none. A line that cannot be read is named, and counts as a case
    that was not measured. Large files are scored by all cores.

    Exit code 0 if the gate holds: by default, if every case passed. 1 if it does not, with the reason on standard
    error; 2 if the command line, FILE or the file of --results is wrong, 130 if interrupted.
    """
    paths = expand(files, "nothing was scored")
    if len(display.names) > 1:
        raise click.UsageError("--name must be there once: several files are one evaluation")
    _check_companion("golden_id", "goldens", goldens_path)
    _check_companion("resume", "results", results)
    options = EvaluationOptions(
        test_cases=paths,
        metrics=metrics,
        error_texts=error_texts,
        text_tools=text_tools,
        goldens=goldens_path,
        golden_id=None if goldens_path is None else golden_id,
        cluster=cluster,
        results=results,
        resume=(results is not None and resume) or False,
        contents=not no_contents,
        reject_bad_lines=reject_bad_lines,
        allow_nan=allow_nan,
        processes=processes,
        gate=Gate(**gate),
        about=display.about,
        full=display.full,
    )
    try:
        with exit_on_error(results or paths[0], "nothing was scored"):
            report = run_evaluation(options)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if goldens_path is None:
        _refuse_goldens(report, printable(title_of(paths[0])))
    title = paths[0] if len(paths) == 1 else plural(len(paths), "file")
    display.show([report], [title], lines_of=paths if goldens_path is None else [goldens_path], always=True)
    exit_by(report, _hint(report, has_goldens=goldens_path is not None))


def _check_companion(option: str, other: str, value: str | None) -> None:
    """Refuse an option on the command line that needs another one."""
    if value is None and on_command_line(option):
        raise click.UsageError(f"--{option.replace('_', '-')} must be used with --{other}")


def _refuse_goldens(report: Report, name: str) -> None:
    """Exit if the cases are goldens, given in place of recorded runs: they expect calls, and none were made.

    Cases whose content the report does not keep have neither.
    """
    cases = [entry.case for entry in report.cases]
    has_calls = any(
        getattr(case, field, None) is not None for case in cases for field in ("tools_called", "run", "turns")
    )
    is_expecting = any(getattr(case, "expected_tools", None) is not None for case in cases)
    if is_expecting and not has_calls and not any(summary.scored for summary in report.summaries):
        stop(
            f"{name} has goldens, which have expected calls and no calls that were made; score recorded runs with "
            f"`toolgrade score RUNS --goldens {name}`; nothing was scored"
        )


def _hint(report: Report, *, has_goldens: bool) -> str:
    """Return what to do if no case states the calls that a metric expects."""
    is_lacking = not has_goldens and not any(summary.scored for summary in report.summaries)
    return (
        "; give expectations with --goldens FILE" if is_lacking and "expected_tools" in report.verdict.sentence else ""
    )
