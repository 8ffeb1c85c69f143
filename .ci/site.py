"""Hooks of mkdocs: make one site of docs/, the pages that stand elsewhere in the repository, and the API reference.

The README is the home page. Each other Markdown file outside of docs/ is a page, each example a page with its code,
each module of tests/public_api.txt a page of its docstrings, and the help of all commands is one page. Links between
them are rewritten; links to other files become text.
"""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from toolgrade.cli.main import main

ROOT = Path(__file__).parents[1]
ELSEWHERE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
FOLDERS = ("adapters/*/README.md", "benchmarks/README.md", "fuzz/README.md", "examples/*.py")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that docs/ does not have."""
    sources = [*ELSEWHERE, *(path.relative_to(ROOT).as_posix() for name in FOLDERS for path in ROOT.glob(name))]
    for source in sources:
        text = (ROOT / source).read_text(encoding="utf-8")
        if source.endswith(".py"):
            text = f"# {source}\n\n```python\n{text}```\n"
        files.append(File.generated(config, page_of(source), content=text))
    index = "# API\n\nThe public names by module. Everything that is not listed is private.\n\n"
    for line in (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines():
        module, _, names = line.partition(":")
        if names.strip():
            members = "".join(f"        - '{name}'\n" for name in names.split())
            text = f"# {module}\n\n::: {module}\n    options:\n      members:\n{members}"
            files.append(File.generated(config, f"reference/{module}.md", content=text))
            index += f"- [`{module}`]({module}.md): {', '.join(f'`{name}`' for name in names.split())}\n"
    files.append(File.generated(config, "reference/index.md", content=index))
    files.append(File.generated(config, "reference/command-line.md", content="# Command line\n" + _help_of(main)))
    return files


def _help_of(command: click.Command, name: str = "toolgrade", parent: click.Context | None = None) -> str:
    """Return the help of a command and of its subcommands, as `--help` prints it."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=80, terminal_width=80)
    text = f"\n## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    commands = [(name, command.get_command(context, name)) for name in names]  # type: ignore[attr-defined]
    return text + "".join(_help_of(inner, name, context) for name, inner in commands if inner is not None)


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Rewrite the links of a page, which are relative to its file in the repository."""
    folder = posixpath.dirname(source_of(page.file.src_uri))

    def rewritten(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        path, anchor, fragment = target.partition("#")
        if not path or ":" in path:
            return match[0]
        source = posixpath.normpath(posixpath.join(folder, path))
        if not (ROOT / source).exists():
            raise PluginError(f"{page.file.src_uri}: {target} is not a file of this repository")
        if not (image or source.endswith((".md", ".py"))) or source.startswith("tests/"):
            return text
        relative = posixpath.relpath(page_of(source), posixpath.dirname(page.file.src_uri) or ".")
        return f"{image}[{text}]({relative}{anchor}{fragment})"

    is_made_here = page.file.src_uri.startswith("reference/") or page.file.src_uri.endswith(".py.md")
    return markdown if is_made_here else LINK.sub(rewritten, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Check that no page loads anything from another host."""
    for path in Path(config.site_dir).rglob("*.html"):
        parser = _Loaded()
        parser.feed(path.read_text(encoding="utf-8"))
        if parser.addresses:
            raise PluginError(f"{path.name} loads {parser.addresses[0]}; the site must need no network")


class _Loaded(HTMLParser):
    """Collects the addresses on other hosts that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses in a tag."""
        values = dict(attrs)
        loads = tag in {"script", "img", "iframe", "source"} or (
            tag == "link" and values.get("rel") not in {"canonical", "next", "prev"}
        )
        address = values.get("src") or values.get("href") or ""
        if loads and address.startswith(("http:", "https:", "//")):
            self.addresses.append(address)


def page_of(source: str) -> str:
    """Return the place in the site of a file of the repository."""
    if source == "README.md":
        return "index.md"
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    return f"repository/{source}" + (".md" if source.endswith(".py") else "")


def source_of(page: str) -> str:
    """Return the file of the repository that a place in the site shows."""
    if page == "index.md":
        return "README.md"
    if page.startswith("repository/"):
        return page.removeprefix("repository/").removesuffix(".py.md") + (".py" if page.endswith(".py.md") else "")
    return f"docs/{page}"
