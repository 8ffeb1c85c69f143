"""Rules for the source code that the linter does not check.

Each test collects every breach as `file:line`, so that one run names all the places.
"""

import ast
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "src" / "toolgrade", *sorted(ROOT.glob("adapters/*/src"))]
TEST_FOLDERS = [
    *(ROOT / name for name in ("tests", "benchmarks", "examples", "faults", "fuzz")),
    *sorted(ROOT.glob("adapters/*/tests")),
]

MAY_PRINT = "src/toolgrade/cli/"

#: Participles and pronouns that do not say what a value is.
BANNED_NAMES = frozenset(
    [
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
    ]
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | Function


def parsed(folders: list[Path]) -> dict[str, ast.Module]:
    """Return the syntax tree of every file in these folders, by its path inside the repository."""
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    # Hidden folders hold environments, such as those of the libraries that the benchmarks measure.
    paths = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]
    # In a new thread: Python 3.11 miscounts the depth of a syntax tree in one where recursion has failed before.
    with ThreadPoolExecutor(1) as pool:
        trees = pool.map(lambda path: ast.parse(path.read_text(encoding="utf-8")), paths)
        return {path.relative_to(ROOT).as_posix(): tree for path, tree in zip(paths, trees, strict=True)}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Return the syntax trees of the package and the adapters."""
    return parsed(FOLDERS)


@pytest.fixture(scope="module")
def trees_of_tests() -> dict[str, ast.Module]:
    """Return the syntax trees of all tests."""
    return parsed(TEST_FOLDERS)


def places(trees: dict[str, ast.Module], is_breach: Callable[[ast.AST], bool]) -> list[str]:
    """List the places of the nodes that break a rule, as `file:line`, with their name or kind."""
    return [
        f"{name}:{getattr(node, 'lineno', 1)} {getattr(node, 'name', None) or type(node).__name__}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if is_breach(node)
    ]


def names_of(node: ast.AST) -> list[str]:
    """Return the identifiers that a node introduces or uses."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, Definition):
        return [node.name]
    if isinstance(node, ast.alias):
        return [node.asname or node.name]
    if isinstance(node, ast.keyword | ast.MatchAs | ast.MatchStar):
        return [getattr(node, "arg", None) or getattr(node, "name", None) or ""]
    return []


def public_definitions(parent: ast.Module | Definition | ast.If | ast.Try) -> Iterator[Definition]:
    """Yield public functions and classes, and the public methods and classes inside them, but no local functions."""
    for node in parent.body:
        if isinstance(node, ast.If | ast.Try):
            yield from public_definitions(node)
        elif isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def documented_elsewhere(node: Definition) -> bool:
    """Whether another definition of the same name carries the docstring: an overload's, or a property's."""
    return any(ast.unparse(decorator).endswith(("overload", ".setter")) for decorator in node.decorator_list)


def test_every_source_is_checked(trees: dict[str, ast.Module]) -> None:
    """The rules below read the package and everything else that is published from here."""
    assert "src/toolgrade/__init__.py" in trees
    assert all(any((ROOT / name).is_relative_to(folder) for name in trees) for folder in FOLDERS)


def has_banned_name(node: ast.AST) -> bool:
    """Whether a node has a banned identifier, other than a use of the decorator `hypothesis.given`."""
    if isinstance(node, ast.alias) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
        return any(name.strip("_").lower() in BANNED_NAMES - {"given"} for name in names_of(node))
    return any(name.strip("_").lower() in BANNED_NAMES for name in names_of(node))


def test_names_are_nouns_and_verbs(trees: dict[str, ast.Module], trees_of_tests: dict[str, ast.Module]) -> None:
    """No identifier is a bare participle or pronoun: such a name does not say what the value is."""
    breaches = places(trees | trees_of_tests, has_banned_name)

    assert not breaches, "\n".join(breaches)


def test_docstrings_ask_no_questions(trees: dict[str, ast.Module]) -> None:
    """The first sentence of a docstring states what something is or does."""
    breaches = places(
        trees,
        lambda node: (
            isinstance(node, ast.Module | Definition)
            and (ast.get_docstring(node) or "").partition("\n")[0].rstrip().endswith("?")
        ),
    )

    assert not breaches, "\n".join(breaches)


def test_nothing_is_rebound_globally(trees: dict[str, ast.Module]) -> None:
    """No module keeps state that a function rebinds."""
    breaches = places(trees, lambda node: isinstance(node, ast.Global))

    assert not breaches, "\n".join(breaches)


def test_only_the_command_line_prints(trees: dict[str, ast.Module]) -> None:
    """A library returns its results; only the command line writes them out."""
    library = {name: tree for name, tree in trees.items() if not name.startswith(MAY_PRINT)}

    breaches = places(
        library,
        lambda node: isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print",
    )

    assert not breaches, "\n".join(breaches)


def test_no_except_is_bare(trees: dict[str, ast.Module]) -> None:
    """A bare `except` would also swallow the user's Ctrl-C."""
    breaches = places(trees, lambda node: isinstance(node, ast.ExceptHandler) and node.type is None)

    assert not breaches, "\n".join(breaches)


def test_everything_public_is_documented(trees: dict[str, ast.Module]) -> None:
    """Every module, and every public function, class and method, has a docstring."""
    breaches = [f"{name}:1 module" for name, tree in trees.items() if not ast.get_docstring(tree)]
    breaches += [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in trees.items()
        for node in public_definitions(tree)
        if not ast.get_docstring(node) and not documented_elsewhere(node)
    ]

    assert not breaches, "\n".join(breaches)
