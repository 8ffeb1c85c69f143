"""`toolgrade score`."""

from __future__ import annotations

import sys

import click

from toolgrade._internal.text import plural, printable
from toolgrade.cli.help import command
from toolgrade.cli.inputs import expand, has_goldens_only
from toolgrade.cli.io import exit_if_interrupted, exit_on_error, has_bad_lines, stop, title_of
from toolgrade.cli.metric_options import metric_options
from toolgrade.cli.options import InputPath, OutputPath, allow_nan_option, on_command_line, options_in, reject_option
from toolgrade.cli.report_options import ReportOptions, fail_under_option, is_below, report_options
from toolgrade.evaluation.execute import EvaluationOptions, run_evaluation
from toolgrade.evaluation.results_file import Resume
from toolgrade.metrics import MetricLike
from toolgrade.report import Report
from toolgrade.report.redaction import redact
from toolgrade.report.text.first_problem import first_problem
from toolgrade.result import ResultStatus

_part_option = options_in("Many or large files")
_golden_option = options_in("Expectations")


@command(
    "toolgrade score runs.jsonl",
    "toolgrade score logs/ --goldens goldens.jsonl --params name,input",
    "toolgrade score traces.json --metric tool-error-rate --html report.html",
    "toolgrade score runs.jsonl --fail-under 0.9 --junit junit.xml --results results.jsonl",
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
@fail_under_option("Exit with 1 if the mean of a metric is below X or a case could not be scored, not if a case fails.")
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
    processes: int | None,
    cluster: str | None,
    no_contents: bool,
    goldens_path: str | None,
    golden_id: str | None,
    fail_under: float | None,
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

    Exit code 1 if a scored case is below its threshold (see --fail-under), a line could not be read or no case could be
    scored, 2 if the command line, FILE or the file of --results is wrong, 130 if interrupted.
    """
    paths = expand(files, "nothing was scored")
    _check_companion("golden_id", "goldens", goldens_path)
    _check_companion("resume", "results", results)
    options = EvaluationOptions(
        test_cases=paths,
        metrics=metrics,
        goldens=goldens_path,
        golden_id=None if goldens_path is None else golden_id,
        cluster=cluster,
        results=results,
        resume=(results is not None and resume) or False,
        contents=not no_contents,
        reject_bad_lines=reject_bad_lines,
        allow_nan=allow_nan,
        processes=processes,
        full=display.full,
    )
    with exit_if_interrupted(""), exit_on_error(results or paths[0], "nothing was scored") as caught:
        report = run_evaluation(options)
    if goldens_path is None:
        _refuse_goldens(report, printable(title_of(paths[0])))
    title = paths[0] if len(paths) == 1 else plural(len(paths), "file")
    display.show(report, title, lines_of=paths if goldens_path is None else [goldens_path], always=True)
    unscored = _unscored_metrics(report, has_goldens=goldens_path is not None)
    for text in unscored:
        click.echo(text, err=True)
    sys.exit(_exit_code(report, fail_under, is_incomplete=bool(unscored) or has_bad_lines(caught)))


def _check_companion(option: str, other: str, value: str | None) -> None:
    """Refuse an option on the command line that needs another one."""
    if value is None and on_command_line(option):
        raise click.UsageError(f"--{option.replace('_', '-')} must be used with --{other}")


def _refuse_goldens(report: Report, name: str) -> None:
    """Exit if the cases are goldens that were given in place of recorded runs."""
    if has_goldens_only(report):
        stop(
            f"{name} has goldens, which have expected calls and no calls that were made; score recorded runs with "
            f"`toolgrade score RUNS --goldens {name}`; nothing was scored"
        )


def _exit_code(report: Report, fail_under: float | None, *, is_incomplete: bool) -> int:
    """Return 1 if the scores are not good enough; the means decide with a limit, else every case."""
    if fail_under is None:
        return int(is_incomplete or any(summary.failed for summary in report.summaries))
    return int(is_incomplete or is_below(report.summaries, fail_under))


def _unscored_metrics(report: Report, *, has_goldens: bool) -> list[str]:
    """Return a line for each metric that could not score any case: why, and what to do.

    A metric that skipped every case counts only if the other metrics scored nothing either: a run without failed calls
    has nothing to recover from.
    """
    nothing_scored = not any(summary.scored for summary in report.summaries)
    lines: list[str] = []
    for place, summary in enumerate(report.summaries):
        if not summary.scored and (summary.errored or nothing_scored):
            counts = f"{plural(summary.errored, 'error')}, {summary.skipped} skipped"
            text = f"{summary.metric}: no case was scored ({counts}); the first reason: {_first_reason(report, place)}"
            hint = "; give expectations with --goldens FILE" if "expected_tools" in text and not has_goldens else ""
            lines.append(f"{printable(text)}{hint}")
    return lines


def _first_reason(report: Report, place: int) -> str:
    """Return why the metric at a position did not score the first case that has an error, or else the first case."""
    results = [redact(case).results[place] for case in report.cases]
    first = next((result for result in results if result.status is ResultStatus.ERRORED), results[0])
    return first_problem(first)
