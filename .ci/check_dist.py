"""Checks what was built: the core without its adapters, each adapter on its own, licence and type marker in each.

Usage: check_dist.py FOLDER, where FOLDER holds the wheels and source distributions of all packages.
"""

import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = ("toolgrade", "toolgrade_langchain", "toolgrade_llama_index", "toolgrade_openai_agents")

PAGE = "toolgrade/report/html/templates"
FILES = {
    "toolgrade": [
        f"{PAGE}/{name}" for name in ("page.html.jinja", "totals.html.jinja", "case.html.jinja", "page.css", "page.js")
    ]
}
"""What a package needs beside its modules."""


def wheel_problems(package: str, wheel: Path) -> list[str]:
    """Says what is wrong with a wheel, which may hold its one package and its metadata."""
    names = zipfile.ZipFile(wheel).namelist()
    metadata = f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"
    problems = [
        f"{wheel.name}: holds {name}, which is not part of {package}"
        for name in names
        if name.partition("/")[0] not in {package, metadata}
    ]
    wanted = [f"{package}/__init__.py", f"{package}/py.typed", f"{metadata}/licenses/LICENSE", *FILES.get(package, ())]
    return problems + [f"{wheel.name}: lacks {name}" for name in wanted if name not in names]


def sdist_problems(package: str, sdist: Path) -> list[str]:
    """Says what is wrong with a source distribution, which may hold no file of another package."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    problems = [
        f"{sdist.name}: holds {name}"
        for name in names
        if name.startswith("adapters/") or (name.startswith("src/") and name.split("/")[1] != package)
    ]
    wanted = ["LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", f"src/{package}/__init__.py"]
    return problems + [f"{sdist.name}: lacks {name}" for name in wanted if name not in names]


def main(folder: Path) -> int:
    """Prints every problem of every package; returns the exit status."""
    problems: list[str] = []
    for package in PACKAGES:
        wheels = list(folder.glob(f"{package}-*.whl"))
        sdists = list(folder.glob(f"{package}-*.tar.gz"))
        if len(wheels) != 1 or len(sdists) != 1:
            problems.append(f"{package}: expected one wheel and one sdist, found {len(wheels)} and {len(sdists)}")
            continue
        problems += wheel_problems(package, wheels[0]) + sdist_problems(package, sdists[0])
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    sys.stdout.write(f"checked {len(PACKAGES)} wheels and sdists: {len(problems) or 'no'} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
