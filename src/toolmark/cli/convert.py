"""`toolmark convert`: a thin shell over `convert`."""

from __future__ import annotations

from typing import Literal, get_args

import click

from toolmark._internal.text import plural, printable
from toolmark.cli.io import stop, tolerant_option, visible_lines
from toolmark.cli.path_types import Source, Target
from toolmark.convert import Recorded, Unit, calls_in, describe, read_transcripts
from toolmark.dataset import write_cases
from toolmark.errors import DataFileError
from toolmark.formats import FORMATS, TRACE_FORMATS, FormatName, TraceFormat


@click.command()
@click.argument("file", type=Source(allow_dash=True))
@click.option("--to", "target", required=True, type=Target(allow_dash=True), help="Write the cases there.")
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
        stop(f"{visible_lines(str(error))}\n{plural(len(error.problems), 'problem')}; nothing was written")
    except OSError as error:
        stop(f"cannot read {printable(file)}: {error.strerror or error}")
    for recorded in found:
        for place, text in recorded.warnings:
            click.echo(f"warning: {printable(f'{place}: {text}' if place else text)}", err=True)
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
        stop(f"cannot write {printable(target)}: {error.strerror or error}")
    written = plural(len(cases), unit.removesuffix("s"))
    made = plural(sum(map(calls_in, cases)), "call")
    where = "standard output" if target == "-" else printable(target)
    click.echo(f"read {describe(found)}; wrote {written} with {made} to {where}", err=True)
