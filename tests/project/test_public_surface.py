"""The public surface of toolgrade and its adapters: a name is public if a module lists it in `__all__`.

`tests/public_api.txt` holds all of them, one module a line. A change of the surface is thereby seen in review. After
an intended change, write the file anew: `TOOLGRADE_UPDATE_PUBLIC_API=1 pytest tests/project/test_public_surface.py`.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "public_api.txt"
SOURCES = [ROOT / "src", *sorted(ROOT.glob("adapters/*/src"))]


def exported_names(path: Path) -> list[str] | None:
    """Return what a module lists in `__all__`, sorted; `None` if it has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets):
            return sorted(ast.literal_eval(node.value))
    return None


def surface() -> dict[str, list[str]]:
    """Return the public modules with their names."""
    modules: dict[str, list[str]] = {}
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            names = exported_names(path)
            if names is not None:
                parts = path.relative_to(source).with_suffix("").parts
                modules[".".join(part for part in parts if part != "__init__")] = names
    return modules


def test_the_surface_is_the_committed_list() -> None:
    """Every public name is listed, and no other name."""
    text = "".join(f"{module}: {' '.join(names)}\n" for module, names in sorted(surface().items()))
    if os.environ.get("TOOLGRADE_UPDATE_PUBLIC_API"):
        LIST.write_text(text, encoding="utf-8")
    assert text == LIST.read_text(encoding="utf-8")


def test_no_private_module_exports_names() -> None:
    """A module whose path has a leading underscore is private, and so lists no public names."""
    private = [module for module in surface() if any(part.startswith("_") for part in module.split("."))]
    assert not private
