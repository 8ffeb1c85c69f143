"""Reports as one HTML file, which a browser opens from the disk: no network, and readable without JavaScript.

Everything that came out of a trace is data. It is never markup: Jinja escapes every text, `_printed` makes what does
not print visible in each, no address comes from data but the bytes of raster images, and the page's own security policy
allows no style and no script but the two that it was written with, and nothing from anywhere else.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from toolmark._internal.atomic_files import atomic_write
from toolmark._internal.text import printable_lines
from toolmark.errors import ConfigurationError
from toolmark.redact import DEFAULT, Redactor
from toolmark.report.comparison import Comparison
from toolmark.report.html.breakdown import breakdowns
from toolmark.report.html.cases import CaseViewer, tags_of, worst_first
from toolmark.report.html.changes import changes
from toolmark.report.html.totals import (
    VERDICTS,
    about_facts,
    count_text,
    headline,
    metric_views,
    segments,
    trial_views,
    verdict_word,
    warning_views,
)
from toolmark.report.report import CaseResult, Report

__all__ = ["render_html", "write_html"]

_MOST_TAGS = 200


def render_html(
    report: Report,
    *,
    title: str = "Evaluation",
    baseline: Comparison | None = None,
    limit: int = 2000,
    redactor: Redactor = DEFAULT,
) -> str:
    """Return a report as one HTML page that needs nothing else.

    The same report gives the same page. Lone surrogates and control characters are shown as escapes, so that the page
    can be written as UTF-8.

    Args:
        report: What to show.
        title: What was evaluated, such as a file name.
        baseline: How the report differs from an earlier one, with the earlier one as A.
        limit: Cases on the page at most, failures first; 0 for all. The numbers are always of all cases.
        redactor: Takes secrets out of everything that is shown; `toolmark.redact.OFF` leaves them, but in the reasons
            and findings, which never hold any.

    Raises:
        ConfigurationError: `limit` is negative.
    """
    if limit < 0:
        raise ConfigurationError(f"limit must be 0 (all cases) or more, got {limit!r}")
    cases = sorted(report.cases, key=worst_first)[: limit or None]
    return _template().render(
        title=str(redactor(title)),
        changes=None if baseline is None else changes(baseline, redactor),
        about=about_facts(report.about, redactor),
        **_totals(report, frozenset(case.index for case in cases), redactor),
        **_cases(report, cases, redactor),
    )


def _totals(report: Report, shown: frozenset[int], redactor: Redactor) -> dict[str, Any]:
    """Return what the page says of all cases; `shown` has the indices of those that stand on it."""
    verdict, words = headline(report)
    look, word = verdict_word(report, verdict)
    tools, arguments = breakdowns(report, redactor)
    warned, more_warnings = warning_views(report, shown, redactor)
    return {
        "verdict": look,
        "verdict_word": word,
        "headline": words,
        "interrupted": report.interrupted,
        "verdicts": VERDICTS,
        "segments": segments(report),
        "questions": _questions(report),
        "total": count_text(len(report.cases), "case"),
        "metrics": list(metric_views(report, redactor)),
        "trials": trial_views(report.trial_summaries, redactor),
        "warnings": warned,
        "more_warnings": more_warnings,
        "tools": tools,
        "arguments": arguments,
    }


def _cases(report: Report, cases: Sequence[CaseResult], redactor: Redactor) -> dict[str, Any]:
    """Return what the page says of each case that stands on it, in the order given."""
    tags = _tags(cases)
    viewer = CaseViewer(
        redactor=redactor,
        tags={tag: place for place, (tag, _) in enumerate(tags)},
        trials=_trials(report),
        shown=frozenset(case.index for case in cases),
    )
    views = [viewer.view(case) for case in cases]
    return {
        "cases": views,
        "left_out": len(report.cases) - len(cases),
        "tags": [(str(redactor(tag)), amount) for tag, amount in tags],
        "toolsets": list(viewer.sets.values()),
    }


def write_html(
    path: str | os.PathLike[str],
    report: Report,
    *,
    title: str = "Evaluation",
    baseline: Comparison | None = None,
    limit: int = 2000,
    redactor: Redactor = DEFAULT,
) -> None:
    """Write a report as one HTML file; the file appears whole or not at all.

    Args:
        path: Where to write; a file that is there is replaced.
        report: What to show.
        title: See `render_html`, as for the rest.
        baseline: See `render_html`.
        limit: See `render_html`.
        redactor: See `render_html`.

    Raises:
        ConfigurationError: `limit` is negative.
        OSError: The file cannot be written.
    """
    page = render_html(report, title=title, baseline=baseline, limit=limit, redactor=redactor)
    with atomic_write(Path(path)) as draft:
        draft.write_bytes(page.encode())


def _questions(report: Report) -> str:
    """Return how many questions were asked several times; empty where there are no trials."""
    asked = {case.cluster for case in report.cases if case.trial is not None}
    return count_text(len(asked), "question") if asked else ""


def _tags(cases: Sequence[CaseResult]) -> list[tuple[str, int]]:
    """Return the tags that can be chosen, each with the number of its cases; the most frequent if there are many."""
    amounts = Counter(tag for case in cases for tag in set(tags_of(case.case)))
    frequent = sorted(amounts.items(), key=lambda entry: (-entry[1], entry[0]))[:_MOST_TAGS]
    return sorted(frequent)


def _trials(report: Report) -> dict[int, list[CaseResult]]:
    """Return the trials of each question."""
    found: dict[int, list[CaseResult]] = {}
    for case in report.cases:
        if case.trial is not None:
            found.setdefault(case.cluster, []).append(case)
    return found


def _printed(value: Any) -> Any:  # noqa: ANN401 - whatever a template prints
    """Return a text with nothing invisible in it; what is markup already was made of such texts."""
    return printable_lines(value) if type(value) is str else value


def _source(name: str) -> str:
    """Return a file of the page, its lines ended as a browser sees them, whatever they end in on the disk."""
    return (files("toolmark.report.html") / "templates" / name).read_text(encoding="utf-8")


def _template_source(name: str) -> str:
    """Return a template without its indentation, which would be a third of a large page."""
    return "\n".join(line.lstrip(" ") for line in _source(name).split("\n"))


def _policy(content: str) -> str:
    """Return how a security policy names a script or style by its content."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _template() -> Template:
    """Return the template of the page, with its style and script."""
    environment = Environment(
        autoescape=True,
        finalize=_printed,
        loader=FunctionLoader(_template_source),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    style, script = _source("page.css"), _source("page.js")
    own = {
        "style": Markup(style),  # noqa: S704 - our own
        "script": Markup(script),  # noqa: S704
        "style_policy": _policy(style),
        "script_policy": _policy(script),
    }
    return environment.get_template("page.html.jinja", globals=own)
