"""The repository holds what it should, and nothing that belongs to one machine or one moment."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TOP_LEVEL = {
    ".ci",
    ".gitattributes",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "adapters",
    "docs",
    "examples",
    "fuzz",
    "pyproject.toml",
    "requirements",
    "src",
    "tests",
}
OPTIONAL = {"benchmarks"}

LOCK_FILES = {
    "Pipfile.lock",
    "package-lock.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pylock.toml",
    "uv.lock",
    "yarn.lock",
}

# Package hosts, assembled here because this file is searched as well.
REGISTRIES = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in [
            ("pypi", "org"),
            ("pypi", "python", "org"),
            ("pythonhosted", "org"),
            ("npmjs", "org"),
            ("npmjs", "com"),
            ("yarnpkg", "com"),
            ("anaconda", "org"),
            ("pypi", "nvidia", "com"),
            ("download", "pytorch", "org"),
        ]
    )
)


@pytest.fixture(scope="module")
def files() -> list[str]:
    """What git tracks, as paths inside the repository."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no git, or no git checkout: an unpacked source distribution has nothing to compare with")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True)
    if done.returncode or not done.stdout:
        pytest.skip(f"git names no tracked file here: {done.stderr.strip() or 'nothing is added yet'}")
    return [name for name in done.stdout.split("\0") if (ROOT / name).is_file()]


def test_the_top_level_is_the_intended_one(files: list[str]) -> None:
    """The root has a short list of entries; additions are decided here."""
    names = {name.partition("/")[0] for name in files}

    assert sorted(names - TOP_LEVEL - OPTIONAL) == []
    assert sorted(TOP_LEVEL - names) == []


def test_no_lock_file_is_tracked(files: list[str]) -> None:
    """Lock files record where packages were downloaded from; versions are pinned in `requirements/` instead."""
    lock_files = [name for name in files if name.rpartition("/")[2] in LOCK_FILES]

    assert not lock_files, "\n".join(lock_files)


def test_no_registry_is_named(files: list[str]) -> None:
    """Where packages come from is the installer's business, so that mirrors and closed networks work."""
    lines = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in files
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if REGISTRIES.search(line)
    ]

    assert not lines, "\n".join(lines)


def test_every_pin_is_exact(files: list[str]) -> None:
    """A line of `requirements/` names one version and no address, so that every machine installs the same."""
    pin = re.compile(r"[a-z0-9][a-z0-9.-]*(\[[a-z0-9,-]+\])?==[^\s;]+( +;.*)?( +#.*)?")
    lines = {
        f"{name}:{number}": line
        for name in files
        if name.startswith("requirements/")
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
    }

    loose = [f"{place}: {line}" for place, line in lines.items() if line and line[0] != "#" and not pin.fullmatch(line)]

    assert lines
    assert not loose, "\n".join(loose)


def test_every_package_carries_the_licence(files: list[str]) -> None:
    """Each distribution ships its own copy of the licence, and all copies are equal."""
    folders = [name.removesuffix("pyproject.toml") for name in files if name.endswith("pyproject.toml")]

    texts = {(ROOT / folder / "LICENSE").read_text(encoding="utf-8") for folder in folders}

    assert len(folders) == 4
    assert len(texts) == 1
