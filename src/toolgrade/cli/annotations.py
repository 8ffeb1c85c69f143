"""Annotations for GitHub Actions: workflow commands such as `::error file=goldens.jsonl,line=2::...`."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import click

from toolgrade._internal.model import drop_none
from toolgrade._internal.text import plural, printable
from toolgrade.cases import ConversationalTestCase
from toolgrade.cli.io import exit_on_error
from toolgrade.dataset import read_documents
from toolgrade.formats.document_kind import has_calls
from toolgrade.report import CaseResult, Report
from toolgrade.report.redaction import redact
from toolgrade.report.text.first_problem import first_problem
from toolgrade.report.text.phrases import WORD_TEXTS, is_bad

Kind: TypeAlias = Literal["error", "warning", "notice"]

_LIMIT = 10
"""Cases annotated: GitHub shows 10 in each step."""

_NAMING_KEYS = ("id", "name", "input", "query")
"""Keys of a line that name its case."""


class _FileLine(NamedTuple):
    """The file of an annotation, and its line if that is known."""

    file: str
    line: int | None


def print_annotations(report: Report, sources: Sequence[str]) -> None:
    """Print the cases of a report that did not pass; `sources` are the files that have their goldens or the cases."""
    bad = [case for case in redact(report).cases if case.outcome != "passed"]
    places: dict[str, _FileLine] = {}
    for file in filter(os.path.isfile, sources):  # standard input and pipes can be read only once
        with exit_on_error(file, "nothing was annotated"):
            places = _lines_in(file) | places
    for case in bad[:_LIMIT]:
        click.echo(_annotation(case, _line_of(case, places)))
    if not bad and not report.passed:
        click.echo(workflow_command("error", printable(report.verdict.sentence)))
    if len(bad) > _LIMIT:
        rest = plural(len(bad) - _LIMIT, "more case")
        click.echo(workflow_command("notice", f"{rest} did not pass; the report has them."))


def _annotation(case: CaseResult, place: _FileLine | None) -> str:
    """Return the annotation of a case: why its run did not end well, and the first problem of each bad result."""
    bad = [result for result in case.own_results if is_bad((case, result)) and not result.passed]
    lines = [] if case.wrong_end is None else [f"{WORD_TEXTS[case.wrong_end.outcome]}: {printable(case.wrong_end.why)}"]
    lines += [f"{printable(result.metric)}: {printable(first_problem(result))}" for result in bad]
    message = "\n".join(lines)
    file, line = place or (None, None)
    # Colons are escaped in a title, so the `::` of a test's id cannot begin a command, and stays readable.
    label = "::".join(map(printable, case.label.split("::")))
    return workflow_command("error", message, title=f"toolgrade: {label}", file=file, line=line)


def workflow_command(kind: Kind, message: str, *, title: str = "toolgrade", **place: str | int | None) -> str:
    """Return the line that GitHub Actions shows as an annotation; a place is a file, and a line of it."""
    properties = drop_none({"title": title, **place})
    texts = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items())
    return f"::{kind} {texts}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """Return a text as GitHub's workflow commands write it."""
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text)


def _lines_in(file: str) -> dict[str, _FileLine]:
    """Return the places of the lines of a file by the names that their cases can have; items of a list have none."""
    path = _from_workspace(file)
    places: dict[str, _FileLine] = {}
    for document in read_documents(file, allow_nan=True):
        value: Mapping[str, Any] = document.value if isinstance(document.value, Mapping) else {}
        names = [*(value.get(key) for key in _NAMING_KEYS), _first_text(value)]
        # A case without a name is called after its place among the runs, which says nothing about a file of goldens.
        if document.problems or has_calls(document.value):
            names += [document.place, f"{file} {document.place}"]
        for name in names:
            if isinstance(name, (str, int)):
                places.setdefault(str(name), _FileLine(path, document.line))
    return places


def _first_text(value: Mapping[str, Any]) -> object:
    """Return the first text of the user in the turns of a golden or a conversation."""
    turns = value.get("turns")
    first = turns[0] if isinstance(turns, list) and turns else None
    return first.get("content") if isinstance(first, Mapping) else first


def _line_of(case: CaseResult, places: Mapping[str, _FileLine]) -> _FileLine | None:
    """Return the place of a case: that of its line, or else that of its test."""
    names = [getattr(case.case, key, None) for key in ("id", "name", "input")]
    if isinstance(case.case, ConversationalTestCase):
        names += [exchange.question for exchange in case.case.exchanges[:1]]
    texts = [name for name in names if isinstance(name, str)]
    conversations = [text.rpartition(", turn ")[0] for text in texts]  # a turn has the place of its conversation
    for text in (*texts, *conversations):
        if text in places:
            return places[text]
    return _line_of_test(case.name)


def _line_of_test(name: str) -> _FileLine | None:
    """Return the place of a test of pytest by its id, such as `evals/test_agent.py::TestPay::test_refund[usd]`."""
    file, _, test = name.partition("::")
    # An id begins at the folder of pytest's settings, which can be above the working directory.
    folders = (Path(*[".."] * steps) for steps in range(len(Path.cwd().parts)))
    path = next((folder / file for folder in folders if test and (folder / file).is_file()), None)
    if path is None:
        return None
    line = None
    with suppress(SyntaxError, ValueError):  # a text with a doctest, for example
        scope: ast.AST = ast.parse(path.read_bytes())
        for part in test.partition("[")[0].split("::"):
            for node in ast.walk(scope):  # the outermost definition comes first
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == part:
                    scope, line = node, node.lineno
                    break
    return _FileLine(_from_workspace(str(path)), line)


def _from_workspace(file: str) -> str:
    """Return a path relative to the root of the repository in a run of GitHub Actions, else as it is."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    return Path(os.path.relpath(file, workspace) if workspace else file).as_posix()
