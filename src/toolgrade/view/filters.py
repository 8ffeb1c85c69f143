"""The part of the cases that a page shows, as its address says it: filters, order and page number."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlencode

from toolgrade._internal.options import require
from toolgrade.errors import ConfigurationError
from toolgrade.report.text.ordering import VERDICTS

Change = Literal["worse", "lost", "better", "new", "gone", "same"]

CHANGES: Final[Mapping[Change, str]] = {
    "worse": "worse: passed before, fails now",
    "lost": "lost: passed before, not measured now",
    "better": "better: failed before, passes now",
    "new": "new: was not there before",
    "gone": "gone: is not there now",
    "same": "same verdict as before",
}
"""What became of a case since the baseline, the worst first, with a description."""

SORTS: Final[Mapping[str, str]] = {"worst": "worst first", "order": "in order", "name": "by name"}
"""Orders, beside those by the score of a metric."""

_TEXTS = ("metric", "tool", "finding", "argument", "tag", "change", "q")
_LONGEST_QUERY = 20_000
_MOST_FIELDS = 100
_LAST_PAGE = 10**9


@dataclass(frozen=True)
class Filters:
    """What a page shows; an empty text is no filter.

    Attributes:
        verdict: Verdicts, of the metric if there is one; all without any.
        metric: Name of a metric: the verdicts are those of its results, and only cases that it measures
            are listed.
        tool: A tool that is called, expected or wrong; with `finding` or `argument`, the tool that is wrong.
        finding: A kind of finding, as in the columns of the report; "any" for all of them.
        argument: The path of a wrong argument, such as `options.seats`.
        tag: A tag of the case.
        change: What became of the case since the baseline.
        q: Words that the texts of the case have, in full or at their beginning; all of them must be there.
        sort: One of `SORTS`, or `low:METRIC` or `high:METRIC`.
        page: Number of the page, from 1.
    """

    verdict: tuple[str, ...] = ()
    metric: str = ""
    tool: str = ""
    finding: str = ""
    argument: str = ""
    tag: str = ""
    change: str = ""
    q: str = ""
    sort: str = "worst"
    page: int = 1

    @classmethod
    def parse(cls, query: str, metrics: Collection[str]) -> Filters:
        """Return the filters of a query string; unknown fields are ignored.

        Args:
            query: The part of an address behind `?`.
            metrics: The names of the metrics.

        Raises:
            ConfigurationError: A value is not one of the possible ones.
        """
        fields = parse_fields(query)
        last = {name: values[-1] for name, values in fields.items()}
        filters = cls(
            verdict=tuple(dict.fromkeys(fields.get("verdict", ()))),
            page=_page_number(last.get("page", "1")),
            sort=last.get("sort", "worst"),
            **{name: last[name] for name in _TEXTS if name in last},
        )
        filters._check(metrics)
        return filters

    def _check(self, metrics: Collection[str]) -> None:
        """Raise if a value is not one of the possible ones."""
        orders = [*SORTS, *(f"{end}:{metric}" for metric in metrics for end in ("low", "high"))]
        checks = (
            ("sort", self.sort, orders),
            *(("verdict", verdict, VERDICTS) for verdict in self.verdict),
            ("metric", self.metric, metrics),
            ("change", self.change, CHANGES),
        )
        for name, value, choices in checks:
            require(not value or value in choices, f"{name} must be one of {', '.join(choices)}", value)

    def fields(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        default = vars(Filters())
        return {name: value for name, value in vars(self).items() if value != default[name]}

    def query(self, page: int = 1) -> str:
        """Return the query string of another page of the same cases."""
        return urlencode(replace(self, page=page).fields(), doseq=True)

    @property
    def is_filtered(self) -> bool:
        """Whether cases may be left out."""
        return replace(self, sort="worst", page=1) != Filters()


def parse_fields(query: str) -> Mapping[str, list[str]]:
    """Return the fields of a query string without empty ones.

    Raises:
        ConfigurationError: It is too long, or not UTF-8.
    """
    if len(query) > _LONGEST_QUERY:
        raise ConfigurationError(f"the address must have at most {_LONGEST_QUERY:,} characters; use fewer filters")
    try:
        return parse_qs(query, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise ConfigurationError(
            f"the address must be a UTF-8 query with at most {_MOST_FIELDS} fields: {error}"
        ) from None


def _page_number(text: str) -> int:
    valid = text.isascii() and text.isdigit() and len(text) < len(str(_LAST_PAGE)) and int(text)
    require(valid, "page must be a number from 1", text)
    return int(text)
