"""Reports as one HTML file, which a browser opens from the disk: no network, and readable without JavaScript.

All trace content is escaped. The report is redacted before anything is rendered, and Jinja escapes every text.
`_printable` escapes invisible characters. No URL contains data. The Content-Security-Policy of the page allows its own
style and script, by their hashes, and nothing from the network. In a notebook a report is a short table.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from toolgrade._internal.atomic_files import atomic_write
from toolgrade._internal.json import json_text
from toolgrade._internal.options import require
from toolgrade._internal.text import number_text, percent, plural, printable, printable_lines, short_json, shorten
from toolgrade.calls import Execution
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report.comparison import Comparison, MetricComparison
from toolgrade.report.html import messages
from toolgrade.report.html.cases import MOST_TAGS, case_anchors, case_view
from toolgrade.report.html.totals import Places, breakable, segments, shade
from toolgrade.report.overview import TrendPoint, overview
from toolgrade.report.redaction import redact, redact_content, redact_entry
from toolgrade.report.report import CaseResult, Report
from toolgrade.report.text import phrases
from toolgrade.report.text.agent_table import MOST_GOLDENS, agent_table
from toolgrade.report.text.breakdown import changes_by_tool, warning_kinds
from toolgrade.report.text.first_problem import case_problem, entry_problem
from toolgrade.report.text.headline import headline, title_of, title_with_date
from toolgrade.report.text.phrases import entries_of, is_bad, worst_first
from toolgrade.report.text.slices import MOST_SLICES, rate_text

_MAX_FILTER_TAGS = 200
_LONGEST_NAME = 120
_FEWEST_POINTS = 3
_MAX_DETAIL_BYTES = 1_200_000
"""Bytes of details, after which cases are rows only: a page of 1,000 cases stays below 2 MB."""
_TEXT = re.compile(">[^<]+")
"""Text between tags: attributes have no `>`."""


def render_html(
    report: Report,
    *,
    title: str | None = None,
    earlier: Sequence[Report] = (),
    by: Sequence[str] = (),
    limit: int = 2000,
    redactor: Redactor = DEFAULT,
) -> str:
    """Return a report as one HTML page that loads no other file.

    The same report gives the same page. Lone surrogates and control characters are shown as escapes, so that the page
    can be written as UTF-8.

    Args:
        report: The report.
        title: A heading; by default the name in `report.about`, else "Evaluation".
        earlier: Earlier evaluations, the earliest first; the report is compared with the last of them, and the pass
            rates of all are a trend.
        by: Fields whose values have pass rates of their own: `"tag"`, `"agent"`, or a path such as `metadata.team`; by
            default `"tag"`, if there are tags.
        limit: Maximum number of cases on the page: those that became worse than before, then other failures; 0 for all.
            The numbers always cover all cases. The first cases have details, up to 1.2 MB; the others are rows.
        redactor: Redacts the content of the page; `toolgrade.redact.OFF` shows the values. Reasons and messages of
            findings are redacted already: metrics apply the default rules.

    Raises:
        ConfigurationError: `limit` is negative, or no case has a value at a path of `by`.

    Example:
        >>> import re
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.html import render_html
        >>> case = LLMTestCase(id="weather", tools_called=[], expected_tools=[ToolCall(name="get_weather")])
        >>> page = render_html(evaluate([case], [ToolCorrectnessMetric()]), title="Weather agent")
        >>> re.search("<title>(.*)</title>", page).group(1)
        'Weather agent'
    """
    require(limit >= 0, "limit must be 0 (all cases) or more", limit)
    report = redact(report, redactor)
    view = overview(report, earlier, by, redactor)
    comparison = view.comparison
    regressed = {change.index_b for metric in _compared(comparison) for change in (*metric.regressions, *metric.lost)}
    ordered = sorted(report.cases, key=lambda case: (case.index not in regressed, *phrases.worst_case_first(case)))
    cases = ordered[: limit or None]  # 0 means all
    tags, tag_places = _tags(cases, redactor)
    toolsets: dict[str, dict[str, Any]] = {}
    anchors = case_anchors(cases)
    links: dict[str, Any] = {
        "rows": _rows_of_goldens(report.cases),
        "addresses": {index: f"#{anchor}" for index, anchor in anchors.items()},
    }
    draw_body = page_template("case.html.jinja").make_module(links).body  # type: ignore[attr-defined]
    room = _MAX_DETAIL_BYTES
    rows: list[dict[str, Any]] = []
    for case in cases:
        anchor, body = anchors[case.index], None
        if room > 0:
            body = draw_body(case_view(case, redact_content(case.case, redactor), anchor, toolsets))
            # Quotes must be escaped in attributes only; JSON has many of them.
            plain = _TEXT.sub(lambda text: text[0].replace("&#34;", '"').replace("&#39;", "'"), str(body))
            body = Markup(plain)  # noqa: S704 - escaped by the template
            room -= len(body.encode("utf-8", "replace"))
        rows.append({"entry": case, "anchor": anchor, "tags": tag_places[case.index], "body": body})
    style, script = _page_source("page.css"), _page_source("page.js")
    return page_template("page.html.jinja").render(
        **links,
        report=report,
        view=view,
        chart=_chart(view.trend),
        agents=agent_table(report),
        hints=phrases.hints(report),
        agreement=phrases.agreement_lines(report),
        segments=segments(report),
        metrics=report.summaries,
        comparison=comparison,
        warnings=warning_kinds(report),
        places=Places(report, anchors),
        regressed_tools=changes_by_tool(change for metric in _compared(comparison) for change in metric.regressions),
        title=redact(title_of(report, title), redactor),
        cases=rows,
        without_details=sum(row["body"] is None for row in rows),
        tags=tags,
        toolsets=list(toolsets.values()),
        style=Markup(style),  # noqa: S704 - a file of this package
        script=Markup(script),  # noqa: S704 - likewise
        style_policy=_csp_hash(style),
        script_policy=_csp_hash(script),
    )


def _compared(comparison: Comparison | None) -> tuple[MetricComparison, ...]:
    """Return the compared metrics; none without a comparison."""
    return () if comparison is None else comparison.metrics


def _rows_of_goldens(cases: Iterable[CaseResult]) -> dict[int, list[CaseResult]]:
    """Return the trials of each golden, of all agents, by its position; empty without trials and agents."""
    rows: dict[int, list[CaseResult]] = {}
    for case in cases:
        if case.variant:
            rows.setdefault(case.cluster, []).append(case)
    return rows


def write_html(
    path: str | os.PathLike[str],
    report: Report,
    *,
    title: str | None = None,
    earlier: Sequence[Report] = (),
    by: Sequence[str] = (),
    limit: int = 2000,
    redactor: Redactor = DEFAULT,
) -> None:
    """Write a report as one HTML file; if this fails, an existing file does not change.

    Args:
        path: Where to write; an existing file is replaced.
        report: The report.
        title: See `render_html`.
        earlier: See `render_html`.
        by: See `render_html`.
        limit: See `render_html`.
        redactor: See `render_html`.

    Raises:
        ConfigurationError: See `render_html`.
        OSError: The file cannot be written.

    Example:
        >>> from pathlib import Path
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.html import write_html
        >>> case = LLMTestCase(id="weather", tools_called=[], expected_tools=[ToolCall(name="get_weather")])
        >>> write_html("report.html", evaluate([case], [ToolCorrectnessMetric()]), title="Weather agent")
        >>> [path.name for path in Path().iterdir()]
        ['report.html']
    """
    page = render_html(report, title=title, earlier=earlier, by=by, limit=limit, redactor=redactor)
    with atomic_write(Path(path)) as draft:
        draft.write_bytes(page.encode())


def _chart(points: Sequence[TrendPoint]) -> list[dict[str, float]]:
    """Return the places of the pass rates in a chart 1000 wide and 100 high; none for fewer than three."""
    measured = [(place, one.cases) for place, one in enumerate(points) if one.cases.interval is not None]
    if len(measured) < _FEWEST_POINTS:
        return []
    return [
        {
            "x": round((place + 0.5) / len(points) * 1000, 1),
            "y": round(100 - 100 * (part.rate or 0.0), 1),
            "low": round(100 - 100 * (part.interval or (0.0, 0.0))[0], 1),
            "high": round(100 - 100 * (part.interval or (0.0, 0.0))[1], 1),
        }
        for place, part in measured
    ]


def _tags(cases: Iterable[CaseResult], redactor: Redactor) -> tuple[list[tuple[str, int]], dict[int, list[int]]]:
    """Return the tags of the filter and their numbers of cases, and the places of the tags of each case among them.

    Tags are in the order of their names; of many, only the most frequent ones are in the filter.
    """
    tags_of: dict[int, tuple[str, ...]] = {}
    for case in cases:
        tags_of[case.index] = redact(tuple(getattr(case.case, "tags", ())), redactor)
    counts = Counter(tag for tags in tags_of.values() for tag in set(tags))
    by_frequency = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    listed = sorted(by_frequency[:_MAX_FILTER_TAGS])
    place_of = {tag: place for place, (tag, _) in enumerate(listed)}
    places = {index: [place_of[tag] for tag in tags[:MOST_TAGS] if tag in place_of] for index, tags in tags_of.items()}
    return listed, places


def _printable(value: Any) -> Any:  # noqa: ANN401 - whatever a template prints
    """Return a text with every invisible character escaped; `Markup` contains escaped texts already."""
    return printable_lines(value) if type(value) is str else value


def _page_source(name: str) -> str:
    """Return a file of the page with newlines as line endings, as a browser reads it before it checks a hash."""
    return (files("toolgrade.report.html") / "templates" / name).read_text(encoding="utf-8")


def _template_source(name: str) -> str:
    """Return a template without its indentation, which would be a third of a large page."""
    return "\n".join(line.lstrip(" ") for line in _page_source(name).split("\n"))


def _csp_hash(content: str) -> str:
    """Return the hash by which the Content-Security-Policy allows a style or script."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def page_template(name: str) -> Template:
    """Return a template with the filters and constants that all of them share."""
    environment = Environment(
        autoescape=True,
        finalize=_printable,
        loader=FunctionLoader(_template_source),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    functions: tuple[Callable[..., Any], ...] = (
        *(phrases.result_word, case_problem, json_text, short_json),
        *(messages.value_text, phrases.judge_facts),
        *(messages.problem_text, messages.is_failure, messages.count_calls, messages.handoff_text, breakable, shade),
        *(phrases.number_or_dash, percent, phrases.interval_text, phrases.comparison_cells),
        *(phrases.broken_runs_note, phrases.pass_at_k_rows, phrases.usage_texts, phrases.judge_totals),
        *(rate_text, title_with_date),
    )
    filters: dict[str, Callable[..., Any]] = {function.__name__: function for function in functions}
    filters["line"] = partial(shorten, limit=messages.LONGEST_LINE)
    filters["long_line"] = partial(shorten, limit=2 * messages.LONGEST_LINE)
    filters["name"] = partial(shorten, limit=_LONGEST_NAME)
    environment.filters.update(filters)
    constants = {
        "count": plural,
        "deepest": messages.DEEPEST,
        "most_calls": messages.MOST_CALLS,
        "most_goldens": MOST_GOLDENS,
        "most_slices": MOST_SLICES,
        "most_tags": MOST_TAGS,
        "no_execution": Execution(),
        "totals_only": phrases.TOTALS_ONLY,
        "words": phrases.WORD_TEXTS,
    }
    return environment.get_template(name, globals=constants)


_MOST_CASES = 10
"""Cases that are listed."""


def report_fragment(report: Report) -> str:
    """Return the totals by metric and the worst cases as two tables; all text of the cases is redacted and escaped.

    Several agents stand side by side.
    """
    bad = sorted((entry for entry in entries_of(report) if is_bad(entry)), key=worst_first)
    listed = map(redact_entry, bad[:_MOST_CASES])  # notebooks save what they show
    cases = [[case.label, result.metric, _number(result.score), entry_problem(case, result)] for case, result in listed]
    sentences = [f"<p>{escape(sentence)}</p>" for sentence in headline(redact(report))]
    parts = [*sentences, _totals(report)]
    if cases:
        parts.append(_table(["case", "metric", "score", "first problem"], cases))
    if len(bad) > _MOST_CASES:
        parts.append(f"<p>and {plural(len(bad) - _MOST_CASES, 'other result')} that did not pass</p>")
    return "\n".join(parts)


def case_fragment(case: CaseResult) -> str:
    """Return a redacted case as an `iframe` without scripts, so that its style and that of a notebook stay apart."""
    links: dict[str, Any] = {"rows": {}, "addresses": {}}
    draw = page_template("case.html.jinja").make_module(links)
    entry = redact(case)
    view = case_view(entry, redact_content(case.case, DEFAULT), "case", {})
    title = f"{draw.badge(entry.outcome)} {escape(printable(entry.label))}"  # type: ignore[attr-defined]
    body = f'<h3>{title}</h3><p class="facts">{escape(case_problem(entry))}</p>{draw.body(view)}'  # type: ignore[attr-defined]
    style = _page_source("page.css")
    policy = f"default-src 'none'; style-src {_csp_hash(style)}; img-src data:"
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}"><style>{style}</style>'
    page = escape(f'<!doctype html>{head}<body class="body">{body}', quote=True)
    label = escape(printable(entry.label), quote=True)
    return f'<iframe title="{label}" srcdoc="{page}" sandbox width="100%" height="600" style="border:0"></iframe>'


def _totals(report: Report) -> str:
    agents = agent_table(report)
    if agents is not None:
        rows = [[row.title, *map("; ".join, row.cells)] for row in agents.metrics]
        return f"{_table(['metric', *map(redact, agents.agents)], rows)}\n<p>{escape(agents.legend)}</p>"
    totals = [
        [one.metric, _number(one.mean), *map(str, (one.passed, one.failed, one.skipped, one.errored))]
        for one in report.summaries
    ]
    return _table(["metric", "mean", "passed", "failed", "skipped", "not measured"], totals)


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([f"<table><thead><tr>{titles}</tr></thead><tbody>", *lines, "</tbody></table>"])
