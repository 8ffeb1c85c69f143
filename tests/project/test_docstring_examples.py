"""Every public class and function but exceptions has an example in its docstring, which runs."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import re
from pathlib import Path
from typing import Any

import pytest

from processes import ROOT

_FENCE = re.compile(r"^```py(?:thon)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_NEEDS = {
    "toolmark.compat.pydantic_evals.evaluator": "pydantic_evals",
    "toolmark.live.mcp.": "mcp.server.mcpserver",
    "toolmark.live.otel.": "opentelemetry.sdk",
    "toolmark.testing.BatchPlan": "openai",
}
"""Beginnings of names whose examples use a package that toolmark itself does not need."""


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
            is_error = inspect.isclass(value) and issubclass(value, BaseException)
            if not is_error and (inspect.isclass(value) or inspect.isfunction(value)):
                names.setdefault(id(value), (f"{module_name}.{name}", value))
    return dict(names.values())


NAMES = _public_names()


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_docstring_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder; lines after `>>>` print what follows them, and code between fences raises nothing."""
    for beginning, package in _NEEDS.items():
        if name.startswith(beginning):
            pytest.importorskip(package, reason=f"{package} is not installed here")
    monkeypatch.chdir(tmp_path)
    text = inspect.cleandoc(NAMES[name].__doc__ or "")
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, None, 0)
    programs = _FENCE.findall(text)
    assert test.examples or programs, f"{name} has no example"

    output = io.StringIO()
    doctest.DocTestRunner(optionflags=_OPTIONS).run(test, out=output.write)
    for program in programs:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(program, name, "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
    assert output.getvalue() == ""
