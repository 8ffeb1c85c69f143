"""Pages of the server: the list of cases, and a case. All text of the cases is escaped, as in the HTML report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from toolgrade.redact import DEFAULT
from toolgrade.report.html.cases import case_view
from toolgrade.report.html.messages import Pictures
from toolgrade.report.html.page import page_template, totals_view
from toolgrade.report.redaction import redact, redact_content
from toolgrade.view.build import Evaluation
from toolgrade.view.filters import CHANGES, SORTS, Filters, parse_fields
from toolgrade.view.index import ANY, Index
from toolgrade.view.results_file import ResultsFile


def case_address(key: str, filters: Filters | None = None) -> str:
    """Return the address of a case, reached from the list with these filters."""
    return "/case?" + urlencode({"id": key, **(filters.fields() if filters else {})}, doseq=True)


def list_address(filters: Filters, page: int = 1) -> str:
    """Return the address of a page of the list with these filters."""
    query = filters.query(page)
    return f"/?{query}#cases" if query else "/#cases"


class Pages:
    """The pages about one or two files."""

    def __init__(self, index: Index, evaluation: Evaluation, files: Sequence[ResultsFile]) -> None:
        """Render what stands above every list; the files are the later one and its baseline, if there is one."""
        self._index = index
        self._files = files
        self._title = " compared with ".join(file.name for file in files)
        self._warnings = evaluation.warnings
        addresses = {place: case_address(key) for place, key in evaluation.keys.items()}
        goldens = {case.cluster: [case] for case in evaluation.report.cases if case.trial is not None}
        data = {
            **totals_view(evaluation.report, evaluation.comparison, evaluation.keys),
            "addresses": addresses,
            "place_address": _place_address,
            "trials": goldens,
        }
        self._totals = Markup(page_template("view_totals.html.jinja").render(data))  # noqa: S704 - escaped by Jinja
        self._verdict = Markup(page_template("view_verdict.html.jinja").render(data))  # noqa: S704 - likewise

    def listing(self, query: str) -> str:
        """Return a page of the list of cases.

        Raises:
            ConfigurationError: The query has an impossible value.
        """
        index = self._index
        filters = Filters.parse(query, index.metrics)
        return self._render(
            "view_list.html.jinja",
            verdict=self._verdict,
            totals=self._totals,
            warnings=self._warnings,
            filters=filters,
            selection=index.select(filters),
            total=index.total,
            names=index.metrics,
            compared=len(self._files) > 1,
            metrics=[(name, name) for name in index.metrics],
            changes=[(name, f"{CHANGES[name]} ({number:,})") for name, number in index.options["change"]],
            tools=_options(index.options["tool"]),
            findings=[(ANY, "any"), *_options(index.options["kind"])] if index.options["kind"] else [],
            arguments=_options(index.options["argument"]),
            tags=_options(index.options["tag"]),
            sorts=_sorts(index.metrics),
        )

    def case(self, query: str) -> str | None:
        """Return the page of a case; `None` if there is no such case.

        Raises:
            ConfigurationError: The query has an impossible value.
            DataFileError: The file has changed, or does not hold a case there.
            OSError: The file cannot be read.
        """
        filters = Filters.parse(query, self._index.metrics)
        key = parse_fields(query).get("id", [""])[-1]
        match = self._index.find(key)
        if match is None:
            return None
        case, before = match
        toolsets: dict[str, dict[str, Any]] = {}
        pictures = Pictures()
        names = ("Now", "Before")
        sides: list[dict[str, Any]] = []
        for one in filter(None, (before, case)):
            file = self._files[one.file]
            result = redact(file.load(one.position, one.line))
            content = redact_content(result.case, DEFAULT)
            view = case_view(result, content, ("now", "before")[one.file], toolsets, pictures)
            sides.append({"title": f"{names[one.file]}: {file.name}" if len(self._files) > 1 else "", "case": view})
        entry = sides[-1]["case"]["entry"]
        previous, following = self._index.neighbours(filters, key)
        return self._render(
            "view_case.html.jinja",
            key=key,
            label=entry.label,
            filters=filters,
            previous=previous,
            next=following,
            trials=self._index.trials(entry.cluster) if case.file == 0 and entry.trial is not None else [],
            sides=sides,
            toolsets=list(toolsets.values()),
        )

    def error(self, heading: str, message: str) -> str:
        """Return a page about an error."""
        return self._render("view_error.html.jinja", heading=heading, message=message)

    def _render(self, template: str, **data: Any) -> str:  # noqa: ANN401 - the data of a template
        common: Mapping[str, Any] = {
            "title": self._title,
            "has_changed": any(file.has_changed for file in self._files),
            "case_address": case_address,
            "list_address": list_address,
            "addresses": {},
            "trials": {},
        }
        return page_template(template).render({**common, **data})


def _place_address(tool: str, argument: str) -> str:
    """Return the address of the cases in which a tool, or one of its arguments, is wrong."""
    return list_address(Filters(tool=tool, argument=argument, finding="" if argument else ANY))


def _options(counts: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """Return the values of a filter and what a list shows for them, by name."""
    return [(value, f"{value} ({number:,})") for value, number in sorted(counts)]


def _sorts(metrics: Sequence[str]) -> list[tuple[str, str]]:
    """Return the orders of a list."""
    scores = [(f"{end}:{name}", f"{name}, {end}est first") for name in metrics for end in ("low", "high")]
    return [*SORTS.items(), *scores]
