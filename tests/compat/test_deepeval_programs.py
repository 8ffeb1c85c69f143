"""Programs and suites in the forms of DeepEval's documentation, with only their imports changed.

`hosts/with_deepeval.py` runs the same programs with DeepEval itself.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from deepeval_programs import PACKAGE, SCRIPTS, SUITES, TESTS, copied, run_apart, run_here
from processes import PLUGINS


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_program(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs to its end, and what it asserts holds."""
    program = copied(path, tmp_path, package=PACKAGE)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some use what has no effect here, and a warning says so
        run_here(program)
    assert "OK" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_suite(path: Path, tmp_path: Path) -> None:
    """A suite of several files passes."""
    run_apart(copied(path, tmp_path, package=PACKAGE), **PLUGINS)


def test_files_of_tests(tmp_path: Path) -> None:
    """Files of tests pass, in one run of pytest."""
    for path in TESTS:
        copied(path, tmp_path, package=PACKAGE)
    run_apart(tmp_path, **PLUGINS)
