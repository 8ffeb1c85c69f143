"""`toolmark convert`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import click

from toolmark._internal.text import plural, printable
from toolmark.cli.io import exit_on_error, warn
from toolmark.cli.options import allow_nan_option, tolerant_option
from toolmark.cli.path_types import Source, Target
from toolmark.convert import Recorded, RecordedSession, Unit, calls_in, describe, read_transcripts
from toolmark.dataset import write_cases
from toolmark.formats import FormatName, TraceFormat
from toolmark.formats.messages.read import FORMATS
from toolmark.formats.traces.read import TRACE_FORMATS


@click.command()
@click.argument("file", type=Source(allow_dash=True))
@click.option(
    "--to", "target", required=True, type=Target(allow_dash=True), metavar="FILE", help="File of the test cases."
)
@click.option(
    "--from",
    "format",
    type=click.Choice(["auto", *FORMATS, *TRACE_FORMATS]),
    default="auto",
    show_default=True,
    help="Format of the messages or traces.",
)
@click.option(
    "--as",
    "unit",
    type=click.Choice(get_args(Unit)),
    default="cases",
    show_default=True,
    help="Write one case for each conversation, one for each user turn, or conversations.",
)
@click.option(
    "--handoff",
    "handoffs",
    multiple=True,
    metavar="NAME",
    help="Tool that hands over to another agent; may be repeated.",
)
@allow_nan_option
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
    """Convert recorded messages or traces to test cases.

    FILE holds JSON or JSON Lines; "-" is standard input, and gzip is detected. It has conversations (messages, items,
    requests or responses of OpenAI's Chat Completions or Responses API or of Anthropic's Messages API, or dumps of
    LangChain's messages) or traces (OpenTelemetry spans as OTLP JSON or from Jaeger, Tempo or Phoenix, exports of
    Langfuse, LangSmith runs, traces of the OpenAI Agents SDK). Add expected calls to the cases, then score them with
    `toolmark score`.

    Exit code 2 if the command line or FILE is wrong; nothing is written then.
    """
    with exit_on_error(file, "nothing was written"):
        transcripts = read_transcripts(
            file,
            format=format,
            handoff_names=handoffs,
            allow_nan=allow_nan,
            tolerant_arguments=tolerant_arguments,
        )
        cases = [case for transcript in transcripts for case in transcript.cases(unit)]
    _print_warnings(transcripts, unit)
    with exit_on_error(target, action="write"):
        if target == "-":
            for case in cases:
                click.echo(case.to_json())
        else:
            write_cases(target, cases)
    written = plural(len(cases), unit.removesuffix("s"))
    calls = plural(sum(map(calls_in, cases)), "call")
    destination = "standard output" if target == "-" else printable(target)
    click.echo(f"read {describe(transcripts)}; wrote {written} with {calls} to {destination}", err=True)


def _print_warnings(transcripts: Sequence[Recorded | RecordedSession], unit: Unit) -> None:
    for transcript in transcripts:
        for place, text in transcript.warnings:
            warn(f"{place}: {text}" if place else text)
        if unit != "cases" and transcript.has_expectations:
            place = f"{transcript.place}: " if isinstance(transcript, Recorded) and transcript.place else ""
            warn(f"{place}left out the expectations of the conversation; use --as cases to keep them")
