"""Every public class and function but exceptions and DeepEval's names has an example in its docstring, which runs."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import re
from pathlib import Path
from typing import Any, get_origin

import pytest

from processes import ROOT

_FENCE = re.compile(r"^```py(?:thon)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_IMPORT = re.compile(r"^ *(?:>>> )?(?:from|import) ([\w.]+)", re.MULTILINE)
_OPTIONAL = {"toolgrade.judge.openai": "openai", "toolgrade.evaluation.arrow": "pyarrow"}
_OPTIONAL_NAMES = {"toolgrade.expect.Similar": "rapidfuzz"}
"""Modules, and the optional package that each one needs."""


def _public_names() -> dict[str, Any]:
    """Return each public class and function once, by the first of its names, but for exceptions.

    Those of the adapters are there if their frameworks are installed.
    """
    names: dict[int, tuple[str, Any]] = {}
    for line in (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines():
        module_name, _, listed = line.partition(": ")
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        for name in listed.split():
            value = getattr(module, name)
            if get_origin(value) is not None:  # which `isclass` takes for a class on Python 3.10
                continue
            is_error = inspect.isclass(value) and issubclass(value, BaseException)
            if not is_error and (inspect.isclass(value) or inspect.isfunction(value)):
                names.setdefault(id(value), (f"{module_name}.{name}", value))
    return dict(names.values())


NAMES = _public_names()


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_docstring_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder; lines after `>>>` print what follows them, and code between fences raises nothing."""
    text = inspect.cleandoc(NAMES[name].__doc__ or "")
    if name in _OPTIONAL_NAMES:
        pytest.importorskip(_OPTIONAL_NAMES[name], reason=f"{_OPTIONAL_NAMES[name]} is not installed here")
    for module in _IMPORT.findall(text):  # the core is also tested without optional packages
        needed = next((package for name, package in _OPTIONAL.items() if module.startswith(name)), module)
        if not needed.startswith("toolgrade"):
            pytest.importorskip(needed, reason=f"{needed} is not installed here")
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, None, 0)
    programs = _FENCE.findall(text)
    # Many of DeepEval's names only stand for its own.
    assert test.examples or programs or name.startswith("toolgrade.compat.deepeval."), f"{name} has no example"

    output = io.StringIO()
    doctest.DocTestRunner(optionflags=_OPTIONS).run(test, out=output.write)
    for program in programs:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(program, name, "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
    assert output.getvalue() == ""
