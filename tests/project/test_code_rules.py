"""A rule for the source code that the linter does not check: identifiers say what a value is."""

import ast
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = [
    *(ROOT / name for name in ("src", "tests", "benchmarks", "examples", "faults", "fuzz")),
    *sorted(ROOT.glob("adapters/*/src")),
    *sorted(ROOT.glob("adapters/*/tests")),
]

#: Participles and pronouns that do not say what a value is.
BANNED_NAMES = {
    "asked",
    "found",
    "given",
    "held",
    "kept",
    "known",
    "made",
    "meant",
    "mine",
    "ours",
    "said",
    "seen",
    "shown",
    "taken",
    "theirs",
    "told",
    "wanted",
}


def names_of(node: ast.AST) -> list[str]:
    """Return the identifiers that a node introduces or uses, but not the decorator `hypothesis.given`."""
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store) or node.id != "given" else []
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.alias):
        return [node.asname or node.name] if node.name != "given" else []
    if isinstance(node, ast.keyword):
        return [node.arg or ""]
    if isinstance(node, ast.MatchAs | ast.MatchStar):
        return [node.name or ""]
    return []


def breaches(path: Path) -> Iterator[str]:
    """Yield the places of a file that have a banned name, as `file:line name`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for name in names_of(node):
            if name.strip("_").lower() in BANNED_NAMES:
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)} {name}"


def test_names_are_nouns_and_verbs() -> None:
    """No identifier is a bare participle or pronoun."""
    paths = [path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))]
    # Hidden folders hold environments, such as those of the libraries that the benchmarks measure.
    paths = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]
    # In a new thread: Python 3.11 miscounts the depth of a syntax tree in one where recursion has failed before.
    with ThreadPoolExecutor(1) as pool:
        places = [place for of_file in pool.map(lambda path: [*breaches(path)], paths) for place in of_file]

    assert not places, "\n".join(places)
