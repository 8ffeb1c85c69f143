"""`toolgrade score`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from toolgrade._internal.text import number_text, plural, printable
from toolgrade.cases import TestCase
from toolgrade.cli.help import command
from toolgrade.cli.inputs import expand, read_input, refuse_results, with_file_names
from toolgrade.cli.io import byte_progress, exit_if_interrupted, exit_on_error, is_torn, stop, title_of, write_json
from toolgrade.cli.metric_options import metric_options
from toolgrade.cli.options import allow_nan_option, is_given, options_in
from toolgrade.cli.path_types import Source, Target
from toolgrade.cli.report_options import ReportOptions, fail_under_option, is_below, report_options
from toolgrade.dataset import read_goldens
from toolgrade.formats.file_kind import kind_of_file
from toolgrade.metrics import MetricLike
from toolgrade.report import Report
from toolgrade.report.redaction import redact
from toolgrade.report.text.first_problem import first_problem
from toolgrade.result import ResultStatus
from toolgrade.scale.detect import is_scored_by_parts

if TYPE_CHECKING:
    from warnings import WarningMessage

    from toolgrade.scale import Totals

_part_option = options_in("Many or large files")
_golden_option = options_in("Expectations")


@command(
    "toolgrade score runs.jsonl",
    "toolgrade score logs/ --goldens goldens.jsonl --params name,input",
    "toolgrade score traces.json --metric tool-error-rate --html report.html",
    "toolgrade score runs.jsonl --fail-under 0.9 --junit junit.xml --results results.jsonl",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Source(allow_dash=True))
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
    type=Source(allow_dash=True),
    metavar="FILE",
    help="Goldens whose expectations the cases get, by id, name or input.",
)
@_golden_option(
    "--golden-id", metavar="FIELD", help="Field of a case that has the id of its golden, such as metadata.task."
)
@fail_under_option("Exit with 1 if the mean of a metric is below X or a case could not be scored, not if a case fails.")
@click.option(
    "--results",
    type=Target(dir_okay=False),
    help="Write each case with its results as soon as it is scored, as JSON Lines without secrets.",
)
@click.option("--resume", is_flag=True, help="Resume the file of --results if it exists.")
@report_options
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
    resume: bool,
    display: ReportOptions,
    allow_nan: bool,
) -> None:
    """Score the cases of FILE.

    FILE holds JSON Lines of test cases, conversations or records, or what `toolgrade convert` reads: recorded
    messages or traces. "-" is standard input, gzip is detected, and a folder stands for its files. Expectations are
    those in FILE or of --goldens; some metrics need none. Large files of cases are scored by all cores. The report of
    several files of cases, and with --cluster or --no-contents, has totals only.

    Exit code 1 if a scored case is below its threshold (see --fail-under) or no case could be scored, 2 if the command
    line, FILE or the file of --results is wrong, 130 if interrupted.
    """
    files = tuple(expand(files, "nothing was scored"))
    file = files[0]
    has_goldens = goldens_path is not None
    if not has_goldens and is_given("golden_id"):
        raise click.UsageError("--golden-id must be used with --goldens")
    by_parts = cluster is not None or no_contents
    in_memory = _is_read_at_once(files, by_parts=by_parts, has_goldens=has_goldens)
    shows_totals = not in_memory and (by_parts or len(files) > 1)
    json_path = display.totals_target() if shows_totals else None
    scores: Report | Totals
    if in_memory or not (shows_totals or is_scored_by_parts(file, results, resume=resume)):
        with exit_if_interrupted(""):  # `evaluate` has printed what is done
            with exit_on_error(file, "nothing was scored") as caught:
                cases = _read(files, goldens_path, golden_id, allow_nan=allow_nan)
            scores = _score_cases(cases, metrics, file, results, resume=resume)
    else:
        options: dict[str, Any] = {"full": display.full}
        if shows_totals:
            options = {"cluster": cluster, "contents": not no_contents}
        options |= {"results": results, "resume": resume, "processes": processes, "allow_nan": allow_nan}
        scores, caught = _score_by_parts(files, metrics, options)
    if isinstance(scores, Report):
        title = file if len(files) == 1 else plural(len(files), "file")
        display.show(scores, title, lines_of=files if goldens_path is None else [goldens_path], always=True)
    else:
        _show_totals(scores, files, json_path)
    unscored = _unscored_metrics(scores, has_goldens=has_goldens)
    for text in unscored:
        click.echo(text, err=True)
    sys.exit(_exit_code(scores, fail_under, is_unscored=bool(unscored), is_incomplete=is_torn(caught)))


def _exit_code(scores: Report | Totals, fail_under: float | None, *, is_unscored: bool, is_incomplete: bool) -> int:
    """Return 1 if the scores are not good enough; the means decide with a limit, else every case."""
    if fail_under is None:
        return int(is_unscored or any(summary.failed for summary in scores.summaries))
    return int(is_incomplete or is_below(scores.summaries, fail_under))


def _is_read_at_once(files: Sequence[str], *, by_parts: bool, has_goldens: bool) -> bool:
    """Return whether all files are read into memory: some have messages or traces, or are joined with goldens.

    Raises:
        UsageError: Options or files cannot be combined with this.
    """
    kinds = list(map(kind_of_file, files))
    if "results" in kinds:
        refuse_results(files[kinds.index("results")])
    if not has_goldens and "log" not in kinds:
        return False
    if by_parts:
        others = "--goldens" if has_goldens else "recorded messages and traces"
        raise click.UsageError(f"--cluster and --no-contents cannot be combined with {others}")
    return True


def _read(files: Sequence[str], goldens_path: str | None, golden_id: str | None, *, allow_nan: bool) -> list[TestCase]:
    """Return the cases of all files, with their goldens."""
    cases: list[TestCase] = []
    for file in files:
        own = read_input(file, allow_nan=allow_nan)
        cases += own if len(files) == 1 else with_file_names(own, file)
    if goldens_path is None:
        _refuse_goldens(files[0], cases)
        return cases
    from toolgrade.cli.goldens import joined, refuse_other_kinds  # noqa: PLC0415 - loaded only with --goldens

    refuse_other_kinds(goldens_path)
    goldens = read_goldens(goldens_path, allow_nan=allow_nan)
    return joined(cases, goldens, goldens_path, golden_id)


def _refuse_goldens(file: str, cases: Sequence[TestCase]) -> None:
    """Exit if no case has calls and all have expectations: nothing can be scored."""
    if cases and all(case.tools_called is None is case.run and case.expected_tools is not None for case in cases):
        name = printable(title_of(file))
        stop(
            f"{name} has goldens, which have expected calls and no calls that were made; score recorded runs with "
            f"`toolgrade score RUNS --goldens {name}`; nothing was scored"
        )


def _score_by_parts(
    files: Sequence[str], metrics: Sequence[MetricLike], options: dict[str, Any]
) -> tuple[Report | Totals, Sequence[WarningMessage]]:
    """Return the report of one large file (with the option `full`), or the totals of all files, and the warnings."""
    remedy = "resume with --resume" if options["results"] else "use --results FILE to be able to resume"
    with (
        exit_if_interrupted(remedy),
        exit_on_error(options["results"] or files[0], "nothing was scored", action="read or write") as caught,
        byte_progress("scoring") as progress,
    ):
        from toolgrade.scale.files import report_file, score_files  # noqa: PLC0415 - most files are small

        if "full" in options:
            return report_file(files[0], metrics, progress=progress, **options), caught
        return score_files(files, metrics, progress=progress, **options), caught


def _score_cases(
    cases: Sequence[TestCase], metrics: Sequence[MetricLike], file: str, results: str | None, *, resume: bool
) -> Report:
    """Return the report of cases in memory; `file` is the first that they were read from."""
    with exit_on_error(results or file, "nothing was scored", action="write"):
        from toolgrade.evaluation.run import evaluate  # noqa: PLC0415 - loads an event loop

        return evaluate(cases, metrics, results=results, resume=resume)


def _show_totals(totals: Totals, files: Sequence[str], json_path: str | None) -> None:
    metrics = [summary.to_dict() for summary in totals.summaries]
    if write_json({"files": list(files), "cases": totals.cases, "metrics": metrics}, json_path):
        return
    click.echo(f"{plural(totals.cases, 'case')} of {plural(len(files), 'file')}")
    for summary in totals.summaries:
        interval = ""
        if summary.mean_interval is not None:
            low, high = map(number_text, summary.mean_interval)
            interval = f"; 95 % interval of the mean: {low} to {high}"
        click.echo(printable(f"{summary}{interval}"))


def _unscored_metrics(scores: Report | Totals, *, has_goldens: bool) -> list[str]:
    """Return a line for each metric that could not score any case: why, and what to do.

    A metric that skipped every case counts only if the other metrics scored nothing either: a run without failed calls
    has nothing to recover from.
    """
    nothing_scored = not any(summary.scored for summary in scores.summaries)
    lines: list[str] = []
    for place, summary in enumerate(scores.summaries):
        if not summary.scored and (summary.errored or nothing_scored):
            counts = f"{plural(summary.errored, 'error')}, {summary.skipped} skipped"
            text = f"{summary.metric}: no case was scored ({counts}); {_first_reason(scores, place)}"
            hint = "; give expectations with --goldens FILE" if "expected_tools" in text and not has_goldens else ""
            lines.append(f"{printable(text)}{hint}")
    return lines


def _first_reason(scores: Report | Totals, place: int) -> str:
    """Return why the metric at a position did not score the first case that has an error, or else the first case."""
    if not isinstance(scores, Report):
        return "write --results FILE, and show the reasons with `toolgrade report FILE`"
    results = [redact(case).results[place] for case in scores.cases]
    first = next((result for result in results if result.status is ResultStatus.FAILED), results[0])
    return f"the first reason: {first_problem(first)}"
