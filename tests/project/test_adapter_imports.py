"""The adapters import public names of the core only, so that they work with every compatible release of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

PUBLIC_MODULES = {
    "toolgrade",
    *(
        f"toolgrade.{name}"
        for name in (
            *(
                "agents",
                "calls",
                "capture",
                "capture.doubles",
                "cases",
                "dataset",
                "errors",
                "evaluation",
                "expect",
                "formats",
            ),
            *("judge", "linting", "matching", "metrics", "redact", "report", "results", "scale", "stats", "testing"),
        )
    ),
}

ADAPTERS = Path(__file__).parents[2] / "adapters"
SOURCES = sorted(ADAPTERS.glob("*/src/**/*.py"))


def core_imports(source: Path) -> Iterator[tuple[str, str, int]]:
    """Yield module, name and line of everything that a file imports from the core, also inside functions."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "toolgrade":
            for alias in node.names:
                yield str(node.module), alias.name, node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "toolgrade":
                    yield alias.name, "", node.lineno


def is_public(module: str, name: str) -> bool:
    """Return whether a name is listed in the `__all__` of a public module, or whether a whole module is public."""
    if not name:
        return module in PUBLIC_MODULES
    return module in PUBLIC_MODULES and name in import_module(module).__all__


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_adapters_import_public_names_only(source: Path) -> None:
    """Every name that an adapter imports from the core is in the `__all__` of a public module."""
    private = [
        f"line {line}: {name} from {module}"
        for module, name, line in core_imports(source)
        if not is_public(module, name)
    ]

    assert private == []
