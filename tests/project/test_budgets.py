"""The budgets of the code: how long a file or a function may grow, and what is not written at all.

Each test collects every breach as `file:line`, so that one run names all the places.
"""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "src" / "toolmark", *sorted(ROOT.glob("adapters/*/src"))]
FILES = {path.relative_to(ROOT).as_posix(): path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))}

FILE_LINES = 500
FUNCTION_LINES = 60
MAY_PRINT = ("src/toolmark/cli.py", "src/toolmark/cli/")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | Function


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every source file, by its path inside the repository."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def length(node: Definition) -> int:
    """Counts the lines of a definition from `def` or `class` to its end; decorators stand above it."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def places(trees: dict[str, ast.Module], is_breach: Callable[[ast.AST], bool]) -> list[str]:
    """Lists the places of the nodes that break a rule, as `file:line`, with the name or kind of what stands there."""
    return [
        f"{name}:{getattr(node, 'lineno', 1)} {getattr(node, 'name', None) or type(node).__name__}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if is_breach(node)
    ]


def public_definitions(parent: ast.Module | Definition | ast.If | ast.Try) -> Iterator[Definition]:
    """Yields public functions and classes, and the public methods and classes inside them, but no local functions."""
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


def test_every_source_is_checked() -> None:
    """The rules below are not vacuous: they read the package and everything else that is published from here."""
    assert "src/toolmark/__init__.py" in FILES
    assert all(any(folder in path.parents for path in FILES.values()) for folder in FOLDERS)


def test_files_are_short() -> None:
    """A file answers one question; past the limit it has become two."""
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in FILES.items()}

    breaches = [f"{name}:{FILE_LINES + 1} of {lines} lines" for name, lines in lengths.items() if lines > FILE_LINES]

    assert not breaches, "\n".join(breaches)


def test_functions_are_short(trees: dict[str, ast.Module]) -> None:
    """A function can be read without scrolling, its docstring included."""
    breaches = places(trees, lambda node: isinstance(node, Function) and length(node) > FUNCTION_LINES)

    assert not breaches, "\n".join(breaches)


def test_nothing_is_rebound_globally(trees: dict[str, ast.Module]) -> None:
    """No module keeps state that a function rebinds."""
    breaches = places(trees, lambda node: isinstance(node, ast.Global))

    assert not breaches, "\n".join(breaches)


def test_only_the_command_line_prints(trees: dict[str, ast.Module]) -> None:
    """A library returns what it has to say; only the command line writes it out."""
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
    """Every module, and every public function, class and method, says what it is."""
    breaches = [f"{name}:1 module" for name, tree in trees.items() if not ast.get_docstring(tree)]
    breaches += [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in trees.items()
        for node in public_definitions(tree)
        if not ast.get_docstring(node) and not documented_elsewhere(node)
    ]

    assert not breaches, "\n".join(breaches)
