"""The command line: a thin shell over the library.

Exit codes: 0 all is well, 1 the scores are not good enough, 2 the command line or the input is wrong.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Literal, get_args

import click

from toolmark._approve_command import approve
from toolmark._batch_commands import batch
from toolmark._compare_command import compare
from toolmark._feedback_command import feedback
from toolmark._lint_command import lint
from toolmark._metric_options import metric_options
from toolmark._report_command import report
from toolmark._report_options import Showing, fail_under_option, report_options, too_low
from toolmark._scale_command import Many, many_options
from toolmark._shell import INTERRUPTED, measured, stop, tolerant_option, visible_lines
from toolmark._text import count, visible
from toolmark._validate_command import validate
from toolmark.cases import TestCase
from toolmark.convert import Recorded, Unit, calls_in, describe, read_transcripts
from toolmark.dataset import write_cases
from toolmark.errors import DataFileError
from toolmark.evaluation import evaluate
from toolmark.formats import FORMATS, TRACE_FORMATS, FormatName, TraceFormat
from toolmark.metrics import MetricLike
from toolmark.report import MetricSummary, Report


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toolmark", prog_name="toolmark")
def main() -> None:
    """Measure how well LLM agents call their tools."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the encoding of a pipe lacks must not end the program
        sys.stdout.reconfigure(errors="backslashreplace")


main.add_command(approve)
main.add_command(batch)
main.add_command(compare)
main.add_command(feedback)
main.add_command(lint)
main.add_command(report)
main.add_command(validate)


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True))
@metric_options
@many_options
@fail_under_option("Exit with 1 if the mean of a metric is below X or a case could not be scored, not if a case fails.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False),
    help="Write each case with its results there as soon as it is scored, as JSON Lines without secrets.",
)
@click.option("--resume", is_flag=True, help="Go on with the file of --results, if it is there.")
@report_options
@click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")
@tolerant_option
def score(
    *,
    files: tuple[str, ...],
    metrics: list[MetricLike],
    many: Many,
    fail_under: float | None,
    results: str | None,
    resume: bool,
    showing: Showing,
    allow_nan: bool,
    tolerant_arguments: bool,
) -> None:
    """Score the cases of FILE (JSON Lines of test cases or records, "-" for standard input, gzip is fine).

    Several files, Parquet, and what is given with --processes are scored part by part, and only sums are shown.

    Exit code 1 if a scored case is below its threshold (see --fail-under), 2 if the command line or FILE is wrong, or
    the file of --results; 130 if it was interrupted.
    """
    reading = {"allow_nan": allow_nan, "tolerant_arguments": tolerant_arguments}
    if many.wanted(files, results):
        totals, torn = many.run(files, metrics, results, showing.sums_target(), resume=resume, **reading)
        sys.exit(_exit_code(totals.summaries, fail_under, torn=torn))
    (file,) = files

    def scored(cases: list[TestCase]) -> Report:
        try:
            return evaluate(cases, metrics, results=results, resume=resume)
        except OSError as error:
            stop(f"cannot write {visible(results or '')}: {error.strerror or error}")

    try:
        found, torn = measured(file, scored, **reading)
    except KeyboardInterrupt:  # `evaluate` has told what is done
        sys.exit(INTERRUPTED)
    showing.show(found, file, always=True)
    sys.exit(_exit_code(found.summaries, fail_under, torn=torn))


@main.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--to", "target", required=True, type=click.Path(allow_dash=True), help="Write the cases there.")
@click.option(
    "--from",
    "format",
    type=click.Choice(["auto", *FORMATS, *TRACE_FORMATS]),
    default="auto",
    show_default=True,
    help="What the messages or traces are.",
)
@click.option(
    "--as",
    "unit",
    type=click.Choice(get_args(Unit)),
    default="cases",
    show_default=True,
    help="One case for each conversation, one for each turn of the user, or conversations.",
)
@click.option("--handoff", "handoffs", multiple=True, metavar="NAME", help="A tool that hands over to another agent.")
@click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")
@tolerant_option
def convert(
    *,
    file: str,
    target: str,
    format: FormatName | TraceFormat | Literal["auto"],
    unit: Unit,
    handoffs: tuple[str, ...],
    allow_nan: bool,
    tolerant_arguments: bool,
) -> None:
    """Make cases of the recorded messages or traces in FILE (JSON or JSON Lines, "-" for standard input, gzip is fine).

    A conversation is a list of messages or items, a request, a response, or both, of OpenAI's Chat Completions or
    Responses API or of Anthropic's Messages API, or a dump of LangChain's messages. Traces are spans of OpenTelemetry
    (OTLP as JSON, Jaeger, Tempo, Phoenix), exports of Langfuse, runs of LangSmith, or traces of the OpenAI Agents SDK;
    each becomes a case, and those of one session a conversation. `toolmark score` reads what is written, once calls are
    expected.

    Exit code 2 if the command line or FILE is wrong; nothing is written then.
    """
    try:
        found = read_transcripts(
            file,
            format=format,
            handoff_names=handoffs,
            allow_nan=allow_nan,
            tolerant_arguments=tolerant_arguments,
        )
        cases = [case for recorded in found for case in recorded.cases(unit)]
    except DataFileError as error:
        stop(f"{visible_lines(str(error))}\n{count(len(error.problems), 'problem')}; nothing was written")
    except OSError as error:
        stop(f"cannot read {visible(file)}: {error.strerror or error}")
    for recorded in found:
        for place, text in recorded.warnings:
            click.echo(f"warning: {visible(f'{place}: {text}' if place else text)}", err=True)
        if unit != "cases" and recorded.has_expectations:
            place = f"{recorded.place}: " if isinstance(recorded, Recorded) and recorded.place else ""
            click.echo(f"warning: {place}what was expected of the conversation was left out; use --as cases", err=True)
    try:
        if target == "-":
            for case in cases:
                click.echo(case.to_json())
        else:
            write_cases(target, cases)
    except OSError as error:
        stop(f"cannot write {visible(target)}: {error.strerror or error}")
    written = count(len(cases), unit.removesuffix("s"))
    made = count(sum(map(calls_in, cases)), "call")
    where = "standard output" if target == "-" else visible(target)
    click.echo(f"read {describe(found)}; wrote {written} with {made} to {where}", err=True)


def _exit_code(summaries: Sequence[MetricSummary], fail_under: float | None, *, torn: bool) -> int:
    if fail_under is None:
        return int(any(summary.failed for summary in summaries))
    return int(too_low(summaries, fail_under) or torn)


if __name__ == "__main__":
    main()
