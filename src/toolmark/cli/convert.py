"""`toolmark convert`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, get_args

import click

from toolmark._internal.text import plural, printable
from toolmark.cli.io import byte_progress, exit_on_error, opened, warn
from toolmark.cli.options import allow_nan_option, tolerant_option
from toolmark.cli.path_types import Source, Target
from toolmark.convert import Summary, Unit, holds_json, read_transcripts
from toolmark.dataset import case_file
from toolmark.formats import FormatName, TraceFormat
from toolmark.formats.messages.read import FORMATS
from toolmark.formats.traces.read import TRACE_FORMATS
from toolmark.scale.detect import BOM, is_large


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
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Processes that convert a large file.  [default: one per core]",
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
    processes: int | None,
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
    options: dict[str, Any] = {
        "format": format,
        "handoff_names": handoffs,
        "allow_nan": allow_nan,
        "tolerant_arguments": tolerant_arguments,
    }
    summary = None
    if format not in TRACE_FORMATS and is_large(file, (b"{", b"[")) and _is_lines(file):
        summary = _convert_by_parts(file, target, unit, processes, options)
    if summary is None:
        summary = _convert_whole(file, target, unit, options)
    for text in summary.warnings:
        warn(text)
    written = f"{plural(summary.cases, unit.removesuffix('s'))} with {plural(summary.calls, 'call')}"
    destination = "standard output" if target == "-" else printable(target)
    click.echo(f"read {summary.source}; wrote {written} to {destination}", err=True)


def _convert_by_parts(
    file: str, target: str, unit: Unit, processes: int | None, options: dict[str, Any]
) -> Summary | None:
    """Convert a file with a conversation on each line; return `None` if it holds traces and must be read whole."""
    from toolmark.scale.conversion import TracesError, convert_lines  # noqa: PLC0415 - most files are small

    with (
        exit_on_error(file, "nothing was written", action="read or write"),
        suppress(TracesError),
        byte_progress("converting") as progress,
        _output(target) as output,
    ):
        return convert_lines(file, output, unit, processes=processes, progress=progress, **options)
    return None


def _convert_whole(file: str, target: str, unit: Unit, options: dict[str, Any]) -> Summary:
    summary = Summary()
    with exit_on_error(file, "nothing was written"), opened(file) as source:
        cases = [case for entry in read_transcripts(source, **options) for case in summary.add(entry, unit)]
    with exit_on_error(target, action="write"), _output(target) as output:
        output.writelines(case.to_json().encode() + b"\n" for case in cases)
    return summary


def _is_lines(path: str) -> bool:
    """Return whether the first line of a file is a whole JSON value, and others follow: each has a conversation."""
    with Path(path).open("rb") as file:
        first = next((line for line in (raw.removeprefix(BOM) for raw in file) if line.strip()), b"")
        return holds_json(first) and any(line.strip() for line in file)


@contextmanager
def _output(target: str) -> Generator[IO[bytes], None, None]:
    """Open the target, which stays as it is if an error occurs; so does standard output."""
    if target != "-":
        with case_file(Path(target)) as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer)
