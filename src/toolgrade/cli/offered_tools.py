"""The option `--tools`: a file with the tools that the agent could choose from."""

from __future__ import annotations

import click

from toolgrade.calls import ToolSpec
from toolgrade.cli.inputs import read_input
from toolgrade.cli.io import stop
from toolgrade.cli.path_types import Source
from toolgrade.formats.file_kind import kind_of_file

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
    if kind_of_file(path) != "log":
        from toolgrade.linting.run import read_tools  # noqa: PLC0415 - not loaded for --help

        return read_tools(path)
    tools: dict[str, ToolSpec] = {}
    for case in read_input(path):
        for tool in case.available_tools or ():
            tools.setdefault(tool.name, tool)
    return list(tools.values())
