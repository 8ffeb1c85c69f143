"""The option `--tools`: a file with the tools that the agent could choose from."""

from __future__ import annotations

import click

from toolgrade.calls import ToolSpec
from toolgrade.cli.io import stop
from toolgrade.cli.path_types import Source
from toolgrade.dataset import read_documents
from toolgrade.formats.document_kind import is_one_conversation, kind_of
from toolgrade.inputs import read_cases

tools_option = click.option(
    "--tools",
    "tools_path",
    type=Source(allow_dash=True),
    metavar="FILE",
    help="JSON file with the available tools, or recorded messages or traces with them.  [default: those of each case]",
)


def tools_in(path: str | None, file: str | None) -> list[ToolSpec] | None:
    """Return the tools of a file of tools, or those that were offered in recorded messages or traces.

    Exits if FILE, the other input, is standard input too.
    """
    if path is None:
        return None
    if path == file == "-":
        stop("FILE and --tools cannot both be standard input")
    if path == "-" or not _is_recording(path):
        from toolgrade.linting.run import read_tools  # noqa: PLC0415 - not loaded for --help

        return read_tools(path)
    tools: dict[str, ToolSpec] = {}
    for case in read_cases(path):
        for tool in case.available_tools or ():
            tools.setdefault(tool.name, tool)
    return list(tools.values())


def _is_recording(path: str) -> bool:
    """Return whether a file has recorded messages or traces, which have tools among other things."""
    value = next(read_documents(path, allow_nan=True, is_one=is_one_conversation)).value
    if isinstance(value, list) and kind_of(value) == "messages":
        return any(kind_of(item) == "message" for item in value)
    return kind_of(value) in {"messages", "message", "trace"}
