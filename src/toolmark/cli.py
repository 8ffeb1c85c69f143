"""The command line: a thin shell over the library.

Exit codes: 0 all is well, 1 the scores are not good enough, 2 the command line or the input is wrong.
"""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import click

from toolmark._batch_commands import batch
from toolmark._text import count, visible
from toolmark.calls import ToolCallParams
from toolmark.convert import Unit, calls_in, describe, read_transcripts
from toolmark.dataset import read_cases, write_cases
from toolmark.errors import ConfigurationError, DataFileError, ToolmarkError, TornLineWarning
from toolmark.evaluation import evaluate
from toolmark.formats import FORMATS, FormatName
from toolmark.matching import Denominator
from toolmark.metrics import (
    ArgumentSchemaMetric,
    MetricLike,
    MultimodalToolCorrectnessMetric,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolErrorMetric,
    ToolRecoveryMetric,
)
from toolmark.report import Report

_PARAMS = {
    "name": ToolCallParams.TOOL,
    "input": ToolCallParams.INPUT_PARAMETERS,
    "output": ToolCallParams.OUTPUT,
}
_COMPARING = ("threshold", "evaluation_params", "should_consider_ordering", "should_exact_match")
_METRICS: dict[str, tuple[Callable[..., MetricLike], tuple[str, ...]]] = {
    "argument-schema": (ArgumentSchemaMetric, ("threshold",)),
    "multimodal-tool-correctness": (MultimodalToolCorrectnessMetric, _COMPARING),
    "tool-correctness": (ToolCorrectnessMetric, (*_COMPARING, "denominator")),
    "tool-efficiency": (ToolEfficiencyMetric, ("threshold", "max_calls", "max_seconds")),
    "tool-errors": (ToolErrorMetric, ("max_rate",)),
    "tool-recovery": (ToolRecoveryMetric, ("threshold",)),
}
"""Each metric of `toolmark score`, with the options that it takes beside `strict_mode`."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toolmark", prog_name="toolmark")
def main() -> None:
    """Measure how well LLM agents call their tools."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the encoding of a pipe lacks must not end the program
        sys.stdout.reconfigure(errors="backslashreplace")


main.add_command(batch)


def _params(_context: click.Context, _option: click.Parameter, value: str) -> tuple[ToolCallParams, ...]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in names if name not in _PARAMS]
    if unknown:
        message = f"{unknown[0]!r} is none of {', '.join(_PARAMS)}"
        raise click.BadParameter(message)
    return tuple(_PARAMS[name] for name in names)


def _metrics(names: tuple[str, ...], options: dict[str, Any], strict: bool) -> list[MetricLike]:
    """Return the metrics of these names, each with the options that it takes."""
    taken = {option for name in names for option in _METRICS[name][1]}
    for option in ("max_calls", "max_seconds"):
        if option in options and option not in taken:
            message = f"--{option.replace('_', '-')} is an option of tool-efficiency, which --metric does not name"
            raise click.UsageError(message)
    made: list[MetricLike] = []
    for name in dict.fromkeys(names):
        metric, accepted = _METRICS[name]
        chosen = {option: options[option] for option in accepted if option in options}
        try:
            made.append(metric(**chosen, strict_mode=strict))
        except ConfigurationError as error:  # what click lets pass, such as nan
            raise click.UsageError(str(error)) from error
    return made


@main.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option(
    "--metric",
    "metric_names",
    multiple=True,
    type=click.Choice(list(_METRICS)),
    default=["tool-correctness"],
    show_default=True,
    help="What to measure; may be given several times.",
)
@click.option("--ordered", is_flag=True, help="Only calls in the expected order count.")
@click.option("--exact", is_flag=True, help="Score 1 only if expected and called are the same call by call.")
@click.option(
    "--params",
    callback=_params,
    default="name",
    show_default=True,
    help="What of a call is compared: a list of name, input, output.",
)
@click.option(
    "--denominator",
    type=click.Choice(get_args(Denominator)),
    default="expected",
    show_default=True,
    help="What the matched calls are divided by.",
)
@click.option("--max-calls", type=click.IntRange(0), help="Calls that would do, for tool-efficiency.")
@click.option(
    "--max-seconds", type=click.FloatRange(0, min_open=True), help="Seconds that would do, for tool-efficiency."
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    help="A case passes from here.  [default: 0.5; 1 for argument-schema and tool-errors]",
)
@click.option("--strict", is_flag=True, help="Threshold 1, and any lower score becomes 0.")
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="X",
    help="Exit with 1 if the mean of a metric is below X or a case could not be scored, instead of if a case fails.",
)
@click.option("--json", "json_path", type=click.Path(allow_dash=True), help="Write the report there.")
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="Cases listed; 0 for all.")
@click.option("--details", type=click.IntRange(0), default=3, show_default=True, help="Cases shown side by side.")
@click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")
def score(
    *,
    file: str,
    metric_names: tuple[str, ...],
    ordered: bool,
    exact: bool,
    params: tuple[ToolCallParams, ...],
    denominator: Denominator,
    max_calls: int | None,
    max_seconds: float | None,
    threshold: float | None,
    strict: bool,
    fail_under: float | None,
    json_path: str | None,
    limit: int,
    details: int,
    allow_nan: bool,
) -> None:
    """Score the cases of FILE (JSON Lines of test cases or records, "-" for standard input, gzip is fine).

    Exit code 1 if a scored case is below its threshold (see --fail-under), 2 if the command line or FILE is wrong.
    """
    if ordered and exact:
        message = "--ordered and --exact contradict each other: an exact match is ordered"
        raise click.UsageError(message)
    options = {
        "threshold": threshold,
        "max_rate": None if threshold is None else 1 - threshold,
        "evaluation_params": params,
        "should_consider_ordering": ordered,
        "should_exact_match": exact,
        "denominator": denominator,
        "max_calls": max_calls,
        "max_seconds": max_seconds,
    }
    metrics = _metrics(metric_names, {name: value for name, value in options.items() if value is not None}, strict)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            report = evaluate(read_cases(file, allow_nan=allow_nan), metrics)
        except DataFileError as error:
            found = count(len(error.problems), "problem")
            _stop(f"{_visible_lines(str(error))}\n{found}; nothing was scored")
        except OSError as error:
            _stop(f"cannot read {visible(file)}: {error.strerror or error}")
        except ToolmarkError as error:
            _stop(_visible_lines(str(error)))
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"warning: {visible(text)}", err=True)
    _show(report, "standard input" if file == "-" else file, json_path, limit=limit, details=details)
    torn = any(issubclass(warning.category, TornLineWarning) for warning in caught)
    sys.exit(_exit_code(report, fail_under, torn=torn))


@main.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--to", "target", required=True, type=click.Path(allow_dash=True), help="Write the cases there.")
@click.option(
    "--from",
    "format",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    show_default=True,
    help="What the messages are.",
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
def convert(
    *,
    file: str,
    target: str,
    format: FormatName | Literal["auto"],
    unit: Unit,
    handoffs: tuple[str, ...],
    allow_nan: bool,
) -> None:
    """Make cases of the recorded messages in FILE (JSON or JSON Lines, "-" for standard input, gzip is fine).

    A conversation is a list of messages or items, a request, a response, or both, of OpenAI's Chat Completions or
    Responses API or of Anthropic's Messages API. `toolmark score` reads what is written, once calls are expected.

    Exit code 2 if the command line or FILE is wrong; nothing is written then.
    """
    try:
        found = read_transcripts(file, format=format, handoff_names=handoffs, allow_nan=allow_nan)
        cases = [case for recorded in found for case in recorded.cases(unit)]
    except DataFileError as error:
        _stop(f"{_visible_lines(str(error))}\n{count(len(error.problems), 'problem')}; nothing was written")
    except OSError as error:
        _stop(f"cannot read {visible(file)}: {error.strerror or error}")
    for recorded in found:
        place = f"{recorded.place}: " if recorded.place else ""
        for text in recorded.transcript.run.warnings:
            click.echo(f"warning: {visible(place + text)}", err=True)
        if unit != "cases" and recorded.has_expectations:
            click.echo(f"warning: {place}what was expected of the conversation was left out; use --as cases", err=True)
    try:
        if target == "-":
            for case in cases:
                click.echo(case.to_json())
        else:
            write_cases(target, cases)
    except OSError as error:
        _stop(f"cannot write {visible(target)}: {error.strerror or error}")
    written = count(len(cases), unit.removesuffix("s"))
    made = count(sum(map(calls_in, cases)), "call")
    where = "standard output" if target == "-" else visible(target)
    click.echo(f"read {describe(found)}; wrote {written} with {made} to {where}", err=True)


def _show(report: Report, title: str, json_path: str | None, *, limit: int, details: int) -> None:
    if json_path == "-":
        # Nothing but ASCII: no terminal obeys it, and no encoding of a pipe lacks it.
        click.echo(json.dumps(report.to_dict(), indent=2).replace("\x7f", "\\u007f"))
        return
    if json_path is not None:  # first, since the reader of the table may have seen enough and closed the pipe
        try:
            Path(json_path).write_text(report.to_json(indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            _stop(f"cannot write {visible(json_path)}: {error.strerror or error}")
    from toolmark.report.terminal import print_report

    print_report(report, title=title, limit=limit, details=details)


def _exit_code(report: Report, fail_under: float | None, *, torn: bool) -> int:
    if fail_under is None:
        return int(any(summary.failed for summary in report.summaries))
    too_low = any(
        summary.mean is None or summary.mean < fail_under - 1e-9 or summary.errored for summary in report.summaries
    )
    return int(too_low or torn)


def _visible_lines(text: str) -> str:
    """Return text line by line with nothing in it that a terminal would obey."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _stop(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
