"""The public API: importable names, loaded modules, and import time."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import toolgrade
from processes import environment

SOURCE = ast.parse(Path(toolgrade.__file__).read_text(encoding="utf-8"))

#: Modules whose names may load more than the core needs: the terminal is theirs.
MAY_LOAD_MORE = {"comparison", "dataset", "evaluation", "report", "validation"}
HOME = {name: module for module, names in toolgrade._NAMES.items() for name in names.split()}
CORE = sorted(name for name, home in HOME.items() if home.partition(".")[0] not in MAY_LOAD_MORE)


def python(program: str) -> str:
    """Return the output of a program in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, check=False, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(program: str) -> set[str]:
    """The top-level modules that a program has loaded at its end, without those of the standard library."""
    names: list[str] = json.loads(python(f"{program}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"))
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"__main__", "__mp_main__"}


def test_names_are_sorted_and_complete() -> None:
    """`__all__` is sorted, holds each name once, and is what `dir()` shows."""
    assert toolgrade.__all__ == sorted(set(toolgrade.__all__))
    assert dir(toolgrade) == toolgrade.__all__
    assert {*HOME, "__version__"} == set(toolgrade.__all__)


@pytest.mark.parametrize("name", toolgrade.__all__)
def test_every_name_resolves(name: str) -> None:
    """Every public name can be imported, and is documented unless it is the version."""
    value = getattr(toolgrade, name)
    assert name == "__version__" or value.__doc__


def test_type_checkers_see_the_loaded_modules() -> None:
    """Imports for type checkers name the same modules as the runtime table."""
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    imported = {
        alias.name: str(node.module).removeprefix("toolgrade.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == HOME


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that does not exist is an AttributeError that names the module and the name."""
    with pytest.raises(AttributeError, match=r"module 'toolgrade' has no attribute 'ToolCorectness'"):
        _ = toolgrade.ToolCorectness  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        from toolgrade import nothing_of_that_name  # type: ignore[attr-defined] # noqa: F401


def test_importing_loads_nothing() -> None:
    """`import toolgrade` loads no module but its own, not even pydantic."""
    assert loaded("import toolgrade") - loaded("") == {"toolgrade"}


def test_the_core_needs_pydantic_alone() -> None:
    """Importing the core and measuring a case load only pydantic and its dependencies."""
    pydantic = loaded(
        "from pydantic import BaseModel\nclass Model(BaseModel):\n    x: int = 1\nModel().model_dump_json()"
    )
    program = f"""
from toolgrade import {", ".join(CORE)}
case = LLMTestCase(tools_called=[ToolCall(name="a")], expected_tools=[{{"name": "a"}}])
assert LLMTestCase.from_json(case.to_json()) == case
assert ToolCorrectnessMetric(evaluation_params=["output"]).measure(case).score == 1
"""
    assert loaded(program) - pydantic == {"toolgrade"}


def test_the_version_is_the_distributions() -> None:
    """The version is that of the installed distribution, and reads as one."""
    assert toolgrade.__version__.split(".")[0].isdigit()
    assert python("import toolgrade; print(toolgrade.__version__)").strip() == toolgrade.__version__
