"""The Python code of a page, run block by block in one namespace, as a reader pastes it into a notebook."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(python|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def run_page(path: Path, names: dict[str, Any], containing: str = "") -> None:
    """Run the blocks with a text, which may wait at top level; they read and set these names."""
    page = path.read_text(encoding="utf-8")  # noqa: ASYNC240 - a small file
    for block in BLOCK.finditer(page):
        if containing not in block[2]:
            continue
        lines_before = "\n" * page[: block.start(2)].count("\n")
        code = compile(lines_before + block[2], str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, names)  # noqa: S307 - a page of this repository
        if inspect.iscoroutine(value):
            await value
