"""`toolgrade init`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.resources import files
from importlib.util import find_spec
from itertools import filterfalse
from pathlib import Path
from typing import NamedTuple

import click

from toolgrade._internal.text import printable
from toolgrade.cli.help import command
from toolgrade.cli.io import reason_of, stop


class _Framework(NamedTuple):
    """A framework that a gate can be written for."""

    distribution: str
    """The framework itself."""
    least: int
    """Its oldest major version with the classes that the gate uses."""
    adapter: str
    """The distribution that records it."""


_FRAMEWORKS = {
    "langchain": _Framework("langchain", 1, "toolgrade-langchain"),
    "llama-index": _Framework("llama-index-core", 0, "toolgrade-llama-index"),
    "openai-agents": _Framework("openai-agents", 0, "toolgrade-openai-agents"),
}
_PLAIN = "python"
_WORKFLOW = ".github/workflows/toolgrade.yml"
_PLACEHOLDER = "git+https://replace-this.invalid/toolgrade"
"""An address that never exists (RFC 2606): nothing is installed until somebody replaces it."""


@command("toolgrade init", "toolgrade init gate --framework langchain")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--framework",
    type=click.Choice([*_FRAMEWORKS, _PLAIN]),
    help="Framework of the agent.  [default: the first that is installed with its adapter, else plain Python]",
)
def init(*, folder: Path, framework: str | None) -> None:
    """Write a gate for pytest, two goldens, a tape and a CI workflow that run at once, offline.

    FOLDER is the root of your project. The gate has an example agent with a scripted model; replace it by yours. Its
    tools do not run: the tape has their recorded answers. Files that exist are never overwritten.

    Exit code 2 if one of the files exists or cannot be written; nothing is written then.
    """
    name = framework or _installed_framework()
    packages = ["toolgrade", "pytest"]
    if name != _PLAIN:
        packages += [_FRAMEWORKS[name].adapter, _FRAMEWORKS[name].distribution]
    contents = {
        "evals/test_agent.py": _template(f"{name.replace('-', '_')}.py.txt"),
        "evals/goldens.jsonl": _template("goldens.jsonl"),
        "evals/tapes/agent.json": _template("tape.json"),
        _WORKFLOW: _template("workflow.yml").replace("PACKAGES", _arguments(packages)),
    }
    _refuse_existing([folder / path for path in contents])
    for path, text in contents.items():
        _write_new(folder / path, text)
        click.echo(f"wrote {printable(str(folder / path))}")
    if framework is None and name == _PLAIN:
        for other, one in _FRAMEWORKS.items():
            if _is_installed(one.adapter):
                click.echo(f"{one.adapter} lacks {one.distribution}: install that for --framework {other}.")
    _print_commands(name, packages, folder)


def _refuse_existing(paths: Sequence[Path]) -> None:
    """Exit if one of the files exists, or is a link."""
    existing = list(filter(os.path.lexists, paths))
    if existing:
        places = ", ".join(printable(str(path)) for path in existing)
        are, them = ("exists already and is", "it") if len(existing) == 1 else ("exist already and are", "them")
        stop(f"{places} {are} not overwritten; move {them}, or name another FOLDER; nothing was written")


def _print_commands(name: str, packages: Sequence[str], folder: Path) -> None:
    """Print how to install what is missing, and how to run the gate."""
    click.echo(f"\nThe gate is for {'plain Python functions' if name == _PLAIN else name}.")
    click.echo("toolgrade is not published yet: install it from a checkout (pip install FOLDER) or a git address.")
    address = _git_address()
    if address == _PLACEHOLDER:
        click.echo(f"Put its git address in the place of {address} in {_WORKFLOW}.")
    else:
        click.echo(f"{_WORKFLOW} installs it from {address}.")
    click.echo("Run the gate:\n")
    missing = list(filterfalse(_is_installed, packages))
    if missing:
        click.echo(f"  pip install {_arguments(missing)}")
    where = "" if folder == Path() else f"cd {shlex.quote(printable(str(folder)))} && "
    click.echo(f"  {where}python -m pytest evals\n")


def _arguments(packages: Sequence[str]) -> str:
    """Return the arguments with which pip installs packages: those of toolgrade's repository from git."""
    requirements: list[str] = []
    for package in packages:
        own, _, adapter = package.partition("-")
        if own != "toolgrade":
            requirements.append(package)
        else:
            subdirectory = f"#subdirectory=adapters/{adapter}" if adapter else ""
            requirements.append(f"{package} @ {_git_address()}{subdirectory}")
    return shlex.join(requirements)


def _git_address() -> str:
    """Return the git address that toolgrade was installed from, as PEP 610 records it, else one that pip refuses."""
    try:
        origin = json.loads(distribution("toolgrade").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    source = origin.get("vcs_info")
    return _PLACEHOLDER if source is None else f"{source['vcs']}+{origin['url']}@{source['commit_id']}"


def _installed_framework() -> str:
    """Return the first framework that is installed with its adapter, else plain Python."""
    for name, framework in _FRAMEWORKS.items():
        if _is_installed(framework.adapter) and _major_version(framework.distribution) >= framework.least:
            return name
    return _PLAIN


def _major_version(distribution: str) -> int:
    """Return the first number of the version of a distribution, -1 if it is not installed."""
    try:
        return int(version(distribution).partition(".")[0])
    except PackageNotFoundError:
        return -1


def _is_installed(distribution: str) -> bool:
    """Return whether a package of ours, a framework or pytest can be imported."""
    modules = {"llama-index-core": "llama_index", "openai-agents": "agents"}
    return find_spec(modules.get(distribution, distribution.replace("-", "_"))) is not None


def _template(name: str) -> str:
    return files("toolgrade.cli").joinpath("templates").joinpath(name).read_text(encoding="utf-8")


def _write_new(path: Path, text: str) -> None:
    """Write a file that does not exist; exit if it does by now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        stop(f"cannot write {printable(str(path))}: {reason_of(error)}")
