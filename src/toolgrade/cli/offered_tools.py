"""The option `--tools`: a file with the tools that the agent could choose from."""

from __future__ import annotations

import io

import click

from toolgrade.calls import ToolSpec
from toolgrade.cli.io import stop
from toolgrade.cli.path_types import InputPath
from toolgrade.dataset import read_bytes, read_documents, source_name
from toolgrade.errors import DataFileError
from toolgrade.formats.document_kind import is_one_conversation, kind_of
from toolgrade.inputs import read_cases

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
