"""Inputs of the commands: files of cases, recorded messages and traces, folders of them, standard input, and tools."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import chain
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

_SUFFIXES = {".json", ".jsonl", ".ndjson"}
_PACKED = {".gz", ".zst"}
"""Suffixes of packed files; zstd data is refused when it is read, and must not be left out in silence."""


def expand(paths: Sequence[str], consequence: str) -> list[str]:
    """Return the files; a folder stands for all files of JSON in it, in the order of their paths.

    `["logs", "x.txt"]` becomes `["logs/a.jsonl", "logs/old/b.json.gz", "x.txt"]`. Exits if a folder has no such file,
    with a message that ends with the consequence, such as "nothing was scored".
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
    """Return the cases of a file of any kind; warnings name what cannot be read (`cli.io.has_bad_lines`).

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

    Of several offered tools of one name, the first counts. Exits if FILE, the other input, is standard input too.

    Raises:
        DataFileError: The file cannot be read, or has no tools.
    """
    if path is None:
        return None
    if path == file == "-":
        stop("FILE and --tools cannot both be standard input")
    content = _NamedBytes(read_bytes(path))  # standard input and pipes can be read only once
    content.name = source_name(path)
    if _looks_like_tools(content):
        from toolgrade.linting.run import read_tools  # noqa: PLC0415 - not loaded for --help

        return read_tools(content)
    offered = [case.available_tools for case in read_cases(content) if case.available_tools is not None]
    if not offered:
        raise DataFileError(f"{content.name}: no case says which tools were available; give a JSON list of them")
    by_name: dict[str, ToolSpec] = {}
    for tool in chain.from_iterable(offered):
        by_name.setdefault(tool.name, tool)
    return list(by_name.values())


class _NamedBytes(io.BytesIO):
    """The content of a file, under its name."""

    name = ""


def _looks_like_tools(content: _NamedBytes) -> bool:
    """Return whether a file begins with a tool or a list of tools.

    Tools are objects of no other kind. One with a name alone, `{"name": "get_weather"}`, would be a case elsewhere.
    """
    first = next(read_documents(content, allow_nan=True, is_one=is_one_conversation)).value
    content.seek(0)
    if isinstance(first, list):
        return kind_of(first) != "trace" and not any(kind_of(item) == "message" for item in first)
    return kind_of(first) == "unknown" or (isinstance(first, dict) and first.keys() == {"name"})
