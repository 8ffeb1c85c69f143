"""`toolgrade convert`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Literal, get_args

import click

from toolgrade._internal.text import plural, printable
from toolgrade.cli.help import command
from toolgrade.cli.inputs import expand
from toolgrade.cli.io import exit_on_error, opened, stop, warn
from toolgrade.cli.options import allow_nan_option
from toolgrade.cli.path_types import Source, Target
from toolgrade.convert import LeftOut, Recorded, Summary, Unit, read_recorded
from toolgrade.dataset import case_file
from toolgrade.errors import DataFileError
from toolgrade.formats.messages.read import FORMATS
from toolgrade.formats.messages.transcript import FormatName
from toolgrade.formats.traces.read import TRACE_FORMATS, TraceFormat


@command(
    "toolgrade convert logs/ --to cases.jsonl",
    "toolgrade convert traces.json --as conversations --to conversations.jsonl",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Source(allow_dash=True))
@click.option(
    "--to", "target", required=True, type=Target(allow_dash=True), metavar="FILE", help="File of the test cases."
)
@click.option(
    "--from",
    "format",
    type=click.Choice(["auto", *FORMATS, *TRACE_FORMATS]),
    default="auto",
    show_default=True,
    metavar="FORMAT",
    help=f"Format of the messages or traces: auto, {', '.join((*FORMATS, *TRACE_FORMATS))}.",
)
@click.option(
    "--as",
    "unit",
    type=click.Choice(get_args(Unit)),
    default="cases",
    show_default=True,
    help="Write one case for each conversation, or conversations.",
)
@click.option(
    "--handoff",
    "handoffs",
    multiple=True,
    metavar="NAME",
    help="Tool that hands over to another agent; may be repeated.",
)
@click.option(
    "--skip-invalid",
    is_flag=True,
    help="Leave out conversations that cannot be read, and such files among several; they are counted and named.",
)
@allow_nan_option
def convert(
    *,
    files: tuple[str, ...],
    target: str,
    format: FormatName | TraceFormat | Literal["auto"],
    unit: Unit,
    handoffs: tuple[str, ...],
    skip_invalid: bool,
    allow_nan: bool,
) -> None:
    """Convert recorded messages or traces to test cases.

    FILE holds JSON or JSON Lines; "-" is standard input, gzip is detected, and a folder stands for its files. It has
    conversations (messages, items, requests or responses of OpenAI's Chat Completions or Responses API or of
    Anthropic's Messages API, or dumps of LangChain's messages) or traces (OpenTelemetry spans as OTLP JSON or from
    Jaeger, Tempo or Phoenix, exports of Langfuse, LangSmith runs, traces of the OpenAI Agents SDK). `toolgrade score`
    reads them directly, too.

    Exit code 2 if the command line or a FILE is wrong; nothing is written then.
    """
    options: dict[str, Any] = {"format": format, "handoff_names": handoffs, "allow_nan": allow_nan}
    inputs = expand(files, "nothing was written")
    summary = Summary()
    left_out = summary.left_out if skip_invalid else None
    with exit_on_error(target, action="write"), _output(target) as output:
        for file in inputs:
            with exit_on_error(file, "nothing was written"):
                conversations = _conversations(file, options, left_out, alone=len(inputs) == 1)
            for recorded in conversations:
                output.writelines(case.to_json().encode() + b"\n" for case in summary.add(recorded, unit))
        if summary.left_out.number and not summary.cases:
            warn(*summary.left_out.texts)
            stop(f"no conversation can be read, of {summary.left_out.number}; nothing was written")
    warn(*summary.warnings, *summary.left_out.warnings)
    written = f"{plural(summary.cases, unit.removesuffix('s'))} with {plural(summary.calls, 'call')}"
    destination = "standard output" if target == "-" else printable(target)
    click.echo(f"read {summary.source}; wrote {written} to {destination}", err=True)


def _conversations(file: str, options: Mapping[str, Any], left_out: LeftOut | None, *, alone: bool) -> list[Recorded]:
    """Return the conversations of a file, which may be one of several.

    With `left_out`, what cannot be read is added to it; of several files one may be left out as a whole.
    """
    reading = {key: value for key, value in options.items() if key != "allow_nan"}
    with opened(file) as source:
        try:
            conversations = read_recorded(source, reading, allow_nan=options["allow_nan"], left_out=left_out)
        except DataFileError as error:
            if alone or left_out is None:
                raise
            left_out.add(file, len({problem.line for problem in error.problems}), error.problems)
            return []
    return conversations if alone else [replace(one, place=f"{file} {one.place}".strip()) for one in conversations]


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
