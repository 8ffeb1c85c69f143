"""Warnings of a report by their kind: texts that differ only in names, numbers and places are one kind."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from toolmark.report.report import CaseResult, Report

_PLACE = re.compile(r"\$[\w.\[\]-]*")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'(?:, '(?:[^'\\]|\\.)*')*|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_NUMBER = re.compile(r"\b\d[\d.,]*\b", re.ASCII)


class WarningKind(NamedTuple):
    """Warnings of one kind.

    Attributes:
        title: The text, with `...` and `N` in place of what differs.
        texts: Each text with the cases that have it.
        cases: The cases that have any of them.
    """

    title: str
    texts: dict[str, list[CaseResult]]
    cases: list[CaseResult]


def warning_kinds(report: Report) -> list[WarningKind]:
    """Return the warnings of all results by kind, the one that most cases have first."""
    by_kind: dict[str, dict[str, dict[int, CaseResult]]] = {}
    for case, result in report.results():
        for text in result.warnings:
            by_kind.setdefault(_kind(text), {}).setdefault(text, {})[case.index] = case
    kinds: list[WarningKind] = []
    for title, texts in by_kind.items():
        cases: dict[int, CaseResult] = {}
        for members in texts.values():
            cases |= members
        heading = title if len(texts) > 1 else next(iter(texts))
        ordered = [cases[index] for index in sorted(cases)]
        kinds.append(WarningKind(heading, {text: list(members.values()) for text, members in texts.items()}, ordered))
    return sorted(kinds, key=lambda kind: -len(kind.cases))


@lru_cache(maxsize=1000)
def _kind(text: str) -> str:
    """Return a text without names, numbers and places."""
    without_names = _QUOTED.sub("'...'", _PLACE.sub("...", text))
    return _NUMBER.sub("N", without_names).removeprefix("...: ")
