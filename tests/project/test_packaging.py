"""The repository holds what it should, and nothing that belongs to one machine or one moment."""

import posixpath
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LOCK_FILES = {
    *("Pipfile.lock", "package-lock.json", "pdm.lock", "pnpm-lock.yaml", "poetry.lock", "pylock.toml", "uv.lock"),
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
    """A pin of `requirements/` has one version and the hashes of its files, so that all machines install the same."""
    pin = re.compile(r"[a-z0-9][a-z0-9.-]*(\[[a-z0-9,-]+\])?==[^\s;]+( ; .*)?( --hash=sha256:[0-9a-f]{64})+")
    loose: list[str] = []
    pins = 0
    for name in files:
        if name.startswith("requirements/"):
            text = (ROOT / name).read_text(encoding="utf-8").replace(" \\\n   ", "")
            lines = [line for line in text.splitlines() if line and line[0] != "#"]
            pins += len(lines)
            loose += [f"{name}: {line[:100]}" for line in lines if not pin.fullmatch(line)]

    assert pins > 300
    assert not loose, "\n".join(loose)


def test_installers_check_the_hashes(files: list[str]) -> None:
    """Each installation of a file of `requirements/` says so; a file of constraints is checked without."""
    scripts = [name for name in files if name.startswith(".ci/") and not name.endswith((".py", "-matrix"))]
    commands = [
        command
        for name in scripts
        for command in (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "").splitlines()
        if "pip install" in command and "--requirement" in command
    ]

    assert len(commands) >= 5
    assert [command for command in commands if "--require-hashes" not in command] == []


def test_actions_are_pinned_by_commit(files: list[str]) -> None:
    """A tag of an action can be moved, a commit cannot; and no job has more permissions than it names."""
    templates = ["src/toolgrade/cli/templates/workflow.yml"]
    workflows = [name for name in files if name.startswith(".github/workflows/")] + templates
    for name in [*workflows, "action.yml"]:
        text = (ROOT / name).read_text(encoding="utf-8")
        uses = re.findall(r"uses: (.*)", text)
        assert uses
        assert [use for use in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", use)] == []
        assert name == "action.yml" or "\npermissions: {}\n" in text
    assert len(workflows) > len(templates)


def test_every_package_carries_the_licence(files: list[str]) -> None:
    """Each distribution ships its own copy of the licence, and all copies are equal."""
    folders = [name.removesuffix("pyproject.toml") for name in files if name.endswith("pyproject.toml")]

    texts = {(ROOT / folder / "LICENSE").read_text(encoding="utf-8") for folder in folders}

    assert len(folders) == 4
    assert len(texts) == 1


def test_links_of_package_pages_are_absolute() -> None:
    """Each relative link of a README leads to a file of the repository, below one address."""
    module = runpy.run_path(str(ROOT / ".ci" / "absolute_links.py"))
    address = "https://example.org/owner/name"
    targets: list[list[str]] = []
    for name in module["READMES"]:
        page = (ROOT / name).read_text(encoding="utf-8")
        text = module["absolute"](page, posixpath.dirname(name), address, "v1")
        links = re.findall(r"\]\(([^)\s]+)\)", text)
        assert [link for link in links if not link.startswith(("https://", "#"))] == []
        targets += [link.partition("#")[0].split("/", 7)[5:] for link in links if link.startswith(address)]

    assert len(targets) > 30
    assert [path for _, _, path in targets if not (ROOT / path).exists()] == []
    assert {kind for kind, _, path in targets if path.endswith(".png")} == {"raw"}
