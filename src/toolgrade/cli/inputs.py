"""Inputs of the commands: files of cases, recorded messages and traces, folders of them, standard input, and tools."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import click

from toolgrade._internal.text import printable
from toolgrade.calls import ToolSpec
from toolgrade.cases import AnyCase
from toolgrade.cli.io import stop
from toolgrade.cli.options import InputPath
from toolgrade.dataset import BadLines, read_bytes, read_documents, source_name
from toolgrade.errors import DataFileError
from toolgrade.formats.document_kind import is_one_conversation, kind_of
from toolgrade.inputs import Reading, collect_cases, joined, read_cases, read_entries
from toolgrade.report import Report

_SUFFIXES = {".json", ".jsonl", ".ndjson"}
_PACKED = {".gz", ".zst"}
"""Suffixes of packed files; zstd data is refused when it is read, and must not be left out in silence."""


def expand(paths: Sequence[str], consequence: str) -> list[str]:
    """Return the files; a folder stands for all files of JSON in it, in the order of their paths.

    Exits with a message that ends with the consequence if a folder has no such file.
    """
    files: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            files.append(path)
            continue
        content = sorted(filter(Path.is_file, Path(path).rglob("*")))
        inside = [str(file) for file in content if _is_data(file.relative_to(path))]
        if not inside:
            names = ", ".join(sorted(_SUFFIXES))
            stop(f"cannot read {printable(path)}: the folder has no file that ends in {names}; {consequence}")
        files += inside
    return files


def _is_data(path: Path) -> bool:
    """Return whether a file in a folder is data by its name; hidden ones are not."""
    name = Path(path.stem if path.suffix in _PACKED else path.name)
    is_of_log = name.name.endswith(".meta.json")  # Claude Code writes one beside the session of a sub-agent
    return name.suffix in _SUFFIXES and not is_of_log and not any(part.startswith(".") for part in path.parts)


def read_input(path: str, how: Reading, *, reject_bad_lines: bool) -> list[AnyCase]:
    """Return the cases of a file of any kind; what cannot be read is named in warnings (`has_bad_lines`).

    Raises:
        DataFileError: Nothing can be read, or a line cannot be and bad lines are rejected.
    """
    bad = BadLines()
    cases = collect_cases(read_entries(path, how), path, bad)
    if how.unit == "conversations":
        cases = list[AnyCase](joined(cases))
    bad.check(path, has_cases=bool(cases), reject=reject_bad_lines)
    bad.warn("each was left out", stacklevel=2)
    return cases


def has_goldens_only(report: Report) -> bool:
    """Return whether nothing was scored because the cases have expectations and no calls; outlines have neither."""
    cases = [entry.case for entry in report.cases]
    has_calls = any(
        getattr(case, name, None) is not None for case in cases for name in ("tools_called", "run", "turns")
    )
    is_expecting = any(getattr(case, "expected_tools", None) is not None for case in cases)
    return is_expecting and not has_calls and not any(summary.scored for summary in report.summaries)


tools_option = click.option(
    "--tools",
    "tools_path",
    type=InputPath(allow_dash=True),
    metavar="FILE",
    help="JSON file with the available tools, or cases, recorded messages or traces with them.  "
    "[default: those of each case]",
)


def tools_in(path: str | None, file: str | None) -> list[ToolSpec] | None:
    """Return the tools of a file of tools, or those that were offered in cases, recorded messages or traces.

    Exits if FILE, the other input, is standard input too.

    Raises:
        DataFileError: The file cannot be read, or has no tools.
    """
    if path is None:
        return None
    if path == file == "-":
        stop("FILE and --tools cannot both be standard input")
    content = _NamedBytes(read_bytes(path))  # standard input and pipes can be read only once
    content.name = source_name(path)
    if _is_list_of_tools(content):
        from toolgrade.linting.run import read_tools  # noqa: PLC0415 - not loaded for --help

        return read_tools(content)
    offered = [case.available_tools for case in read_cases(content) if case.available_tools is not None]
    if not offered:
        raise DataFileError(f"{content.name}: no case says which tools were available; give a JSON list of them")
    return list({tool.name: tool for tools in reversed(offered) for tool in reversed(tools)}.values())[::-1]


class _NamedBytes(io.BytesIO):
    """The content of a file, under its name."""

    name = ""


def _is_list_of_tools(content: _NamedBytes) -> bool:
    """Return whether a file has tools and nothing else; an object with a name alone is a tool."""
    value = next(read_documents(content, allow_nan=True, is_one=is_one_conversation)).value
    content.seek(0)
    if isinstance(value, list):
        return kind_of(value) == "messages" and not any(kind_of(item) == "message" for item in value)
    return kind_of(value) == "unknown" or (isinstance(value, dict) and value.keys() == {"name"})
