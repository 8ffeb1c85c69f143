"""`toolgrade convert`."""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

import click

from toolgrade._internal.text import plural, printable
from toolgrade.cases import AnyCase
from toolgrade.cli.help import command
from toolgrade.cli.inputs import expand
from toolgrade.cli.io import exit_on_error
from toolgrade.cli.options import InputPath, OutputPath, allow_nan_option, reject_option
from toolgrade.dataset import BadLines, case_file
from toolgrade.errors import ToolgradeWarning
from toolgrade.formats.messages.read import FORMATS
from toolgrade.formats.messages.transcript import FormatName
from toolgrade.formats.traces.read import TRACE_FORMATS, TraceFormat
from toolgrade.inputs import Reading, count_calls, formats_text, joined, named, read_entries


@command(
    "toolgrade convert logs/ --to cases.jsonl",
    "toolgrade convert traces.json --as conversations --to conversations.jsonl",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=InputPath(allow_dash=True))
@click.option(
    "--to", "target", required=True, type=OutputPath(allow_dash=True), metavar="FILE", help="File of the test cases."
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
    type=click.Choice(["cases", "conversations"]),
    default="cases",
    show_default=True,
    help="Write cases, or conversations; runs of one conversation are joined to it.",
)
@click.option(
    "--handoff",
    "handoffs",
    multiple=True,
    metavar="NAME",
    help="Tool that hands over to another agent; may be repeated.",
)
@reject_option
@allow_nan_option
def convert(
    *,
    files: tuple[str, ...],
    target: str,
    format: FormatName | TraceFormat | Literal["auto"],
    unit: Literal["cases", "conversations"],
    handoffs: tuple[str, ...],
    reject_bad_lines: bool,
    allow_nan: bool,
) -> None:
    """Convert recorded messages or traces to test cases.

    FILE holds JSON or JSON Lines; "-" is standard input, gzip is detected, and a folder stands for its files. It has
    conversations (messages, items, requests or responses of OpenAI's Chat Completions or Responses API, Anthropic,
    Gemini, Bedrock or Ollama, or dumps of LangChain's messages), logs of Claude Code, sessions of Google ADK, or traces
    (OpenTelemetry spans as OTLP JSON or from Jaeger, Tempo or Phoenix, exports of Langfuse, LangSmith runs, traces of
    the OpenAI Agents SDK). `toolgrade score` reads them directly, too. Goldens and eval sets of Google ADK become
    goldens. What cannot be read is named and left out.

    Exit code 1 if something was left out, 2 if the command line is wrong or nothing can be read; nothing is written
    then.
    """
    how = Reading(format, handoffs, unit, allow_nan, goldens=unit == "cases")
    inputs = expand(files, "nothing was written")
    formats: Counter[str] = Counter()
    written = calls = 0
    bad = BadLines()
    with exit_on_error(target, "nothing was written", action="read or write"), _output(target) as output:
        cases = _cases(inputs, how, formats, bad)
        for case in cases if unit == "cases" else joined(cases):
            output.write(case.to_json().encode() + b"\n")
            written += 1
            calls += count_calls(case)
        bad.check(inputs[0], has_cases=written > 0, reject=reject_bad_lines)
        bad.warn("each was left out", stacklevel=1)
    amount = f"{plural(written, unit.removesuffix('s'))} with {plural(calls, 'call')}"
    destination = "standard output" if target == "-" else printable(target)
    click.echo(f"read {formats_text(formats)}; wrote {amount} to {destination}", err=True)
    sys.exit(int(bad.count > 0))


def _cases(files: Sequence[str], how: Reading, formats: Counter[str], bad: BadLines) -> Iterator[AnyCase]:
    """Yield the cases of all files, which are counted by their format; `bad` gets what cannot be read."""
    for file in files:
        for entry in read_entries(file, how):
            place = entry.name(file if len(files) > 1 else "")
            for text in entry.warnings:
                warnings.warn(f"{place}: {text}" if place else text, ToolgradeWarning, stacklevel=1)
            if entry.problems:
                bad.add(file, entry.problems)
            else:
                formats[entry.format] += len(entry.cases) if how.unit == "cases" else 1
            yield from (named(case, place) for case in entry.cases)


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
