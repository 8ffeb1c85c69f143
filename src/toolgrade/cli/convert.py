"""`toolgrade convert`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Literal, get_args

import click

from toolgrade._internal.text import plural, printable
from toolgrade.cli.help import command
from toolgrade.cli.inputs import expand
from toolgrade.cli.io import byte_progress, exit_on_error, opened, stop, warn
from toolgrade.cli.options import reading_options
from toolgrade.cli.path_types import Source, Target
from toolgrade.convert import Summary, Unit, holds_json, read_recorded
from toolgrade.dataset import case_file
from toolgrade.errors import DataFileError
from toolgrade.formats import FormatName, TraceFormat
from toolgrade.formats.messages.read import FORMATS
from toolgrade.formats.traces.read import TRACE_FORMATS
from toolgrade.scale.detect import BOM, is_large


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
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Processes that convert a large file.  [default: one per core]",
)
@reading_options
def convert(
    *,
    files: tuple[str, ...],
    target: str,
    format: FormatName | TraceFormat | Literal["auto"],
    unit: Unit,
    handoffs: tuple[str, ...],
    skip_invalid: bool,
    processes: int | None,
    reading: dict[str, bool],
) -> None:
    """Convert recorded messages or traces to test cases.

    FILE holds JSON or JSON Lines; "-" is standard input, gzip is detected, and a folder stands for its files. It has
    conversations (messages, items, requests or responses of OpenAI's Chat Completions or Responses API or of
    Anthropic's Messages API, or dumps of LangChain's messages) or traces (OpenTelemetry spans as OTLP JSON or from
    Jaeger, Tempo or Phoenix, exports of Langfuse, LangSmith runs, traces of the OpenAI Agents SDK). `toolgrade score`
    reads them directly, too.

    Exit code 2 if the command line or a FILE is wrong; nothing is written then.
    """
    options: dict[str, Any] = {"format": format, "handoff_names": handoffs, "skip_invalid": skip_invalid, **reading}
    inputs = expand(files, "nothing was written")
    summary = Summary()
    with exit_on_error(target, action="write"), _output(target) as output:
        for file in inputs:
            options["prefix"] = "" if len(inputs) == 1 else f"{file} "
            part = _convert_by_parts(file, output, unit, processes, options)
            if part is None:
                part = _convert_whole(file, output, unit, options, may_skip=skip_invalid and len(inputs) > 1)
            summary += part
        if summary.left_out.number and not summary.cases:
            warn(*summary.left_out.texts)
            stop(f"no conversation can be read, of {summary.left_out.number}; nothing was written")
    warn(*summary.warnings, *summary.left_out.warnings)
    written = f"{plural(summary.cases, unit.removesuffix('s'))} with {plural(summary.calls, 'call')}"
    destination = "standard output" if target == "-" else printable(target)
    click.echo(f"read {summary.source}; wrote {written} to {destination}", err=True)


def _convert_by_parts(
    file: str, output: IO[bytes], unit: Unit, processes: int | None, options: dict[str, Any]
) -> Summary | None:
    """Convert a large file with a conversation on each line; return `None` for others, which must be read whole."""
    if options["format"] in TRACE_FORMATS or not is_large(file, (b"{", b"[")) or not _is_lines(file):
        return None
    from toolgrade.scale.conversion import TracesError, convert_lines  # noqa: PLC0415 - most files are small

    # A draft, because traces may be on any line, and a packed target cannot be cut off.
    folder = None if isinstance(output.name, int) else Path(output.name).parent
    with (
        exit_on_error(file, "nothing was written", action="read or write"),
        byte_progress("converting") as progress,
        suppress(TracesError),
        tempfile.NamedTemporaryFile(prefix=".toolgrade-", dir=folder) as draft,
    ):
        summary = convert_lines(file, draft, unit, processes=processes, progress=progress, **options)
        draft.seek(0)
        shutil.copyfileobj(draft, output)
        return summary
    return None


def _convert_whole(file: str, output: IO[bytes], unit: Unit, options: dict[str, Any], *, may_skip: bool) -> Summary:
    """Convert a file; with `may_skip` one without any conversation that can be read is left out as a whole."""
    summary = Summary()
    reading = {key: value for key, value in options.items() if key not in ("allow_nan", "skip_invalid", "prefix")}
    left_out = summary.left_out if options["skip_invalid"] else None
    with exit_on_error(file, "nothing was written"), opened(file) as source:
        try:
            conversations = read_recorded(source, reading, allow_nan=options["allow_nan"], left_out=left_out)
        except DataFileError as error:
            if not may_skip:
                raise
            lines = {problem.line for problem in error.problems}
            summary.left_out.add(file, len(lines), error.problems)
            return summary
        for recorded in conversations:
            placed = replace(recorded, place=f"{options['prefix']}{recorded.place}".strip())
            for case in summary.add(placed, unit):
                output.write(case.to_json().encode() + b"\n")
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
