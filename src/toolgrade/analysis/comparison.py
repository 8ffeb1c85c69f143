"""Comparison of two evaluations of the same cases, pair by pair.

Cases are paired by their ids, and repetitions of an id in their order. Cases without an id are paired by name, else by
their input and expectations, else by position; the comparison notes pairs by name or position. A case without a score
in both evaluations is listed, and never counts as 0. Evaluations that measured different things are compared only if
the difference is allowed.

Example:
    >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
    >>> expected = [ToolCall(name="refund")]
    >>> before = LLMTestCase(id="late parcel", tools_called=expected, expected_tools=expected)
    >>> after = LLMTestCase(id="late parcel", tools_called=[], expected_tools=expected)
    >>> changes = compare(evaluate([before], [ToolCorrectnessMetric()]), evaluate([after], [ToolCorrectnessMetric()]))
    >>> [change.case for change in changes.metrics[0].regressions]
    ['late parcel']
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast, get_args

from toolgrade._internal.options import require
from toolgrade.dataset import Source
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.reading import read_results, report_of
from toolgrade.report import Comparison, Report
from toolgrade.report.pairing import Difference, join_names, pair_reports
from toolgrade.stats import RESAMPLES, check_bootstrap


def compare(
    a: Report | Mapping[str, Any] | Source,
    b: Report | Mapping[str, Any] | Source,
    *,
    allow_different: Collection[Difference] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two evaluations of the same cases, B with A.

    Args:
        a: The evaluation before: a report, the result of `Report.to_dict`, or a file for `read_results`.
        b: The evaluation after, likewise.
        allow_different: Differences to accept; the comparison notes them.
        resamples: Number of resamples for the intervals.
        seed: Seed of the resamples; equal arguments give equal intervals.
        confidence: Confidence of the intervals, in (0, 1).

    Raises:
        ConfigurationError: The evaluations have no case or no metric in common, or a difference that is not allowed; or
            an option is out of range.
        DataFileError: One is not a report; `problems` has every wrong place.
        OSError: A file cannot be opened or read.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
        >>> weather, metrics = ToolCall(name="get_weather"), [ToolCorrectnessMetric()]
        >>> before = LLMTestCase(id="weather", tools_called=[weather], expected_tools=[weather])
        >>> after = LLMTestCase(id="weather", tools_called=[], expected_tools=[weather])
        >>> comparison = compare(evaluate([before], metrics), evaluate([after], metrics))
        >>> comparison.failures()
        ('tool_correctness: 1 case passed in A and failed in B',)
    """
    check_bootstrap(resamples, confidence)
    allowed = _check_allowed(allow_different)
    before, after = _read(a, "A"), _read(b, "B")
    pairs = pair_reports(before, after, match_options="options" in allowed)
    _check_differences(pairs.differences, allowed)
    _check_common("metric", before.metrics, after.metrics, pairs.metrics)
    hint = "; cases are paired by their ids"
    if before.agents or after.agents:
        hint += " and agents; Report.of_agent returns the part of one agent"
    names_a, names_b = ([case.name for case in report.cases] for report in (before, after))
    _check_common("case", names_a, names_b, pairs.cases.both, hint)
    return pairs.compare(allowed=allowed, resamples=resamples, seed=seed, confidence=confidence)


def _read(report: object, name: str) -> Report:
    """Return a report from any of its forms."""
    if isinstance(report, Report):
        return report
    if isinstance(report, Mapping):
        return report_of(report, name)
    is_file = isinstance(report, (str, os.PathLike)) or hasattr(report, "read")
    require(is_file, f"{name} must be a report, the result of Report.to_dict, or a file", report)
    return read_results(cast("Source", report))


def _check_allowed(allow_different: object) -> tuple[Difference, ...]:
    """Return the differences that are allowed, in their usual order."""
    kinds: tuple[Difference, ...] = get_args(Difference)
    if isinstance(allow_different, str) or not isinstance(allow_different, Collection):
        raise ConfigurationError(f"allow_different must be a list of {', '.join(kinds)}, got {allow_different!r}")
    for kind in allow_different:
        require(kind in kinds, f"allow_different takes {', '.join(kinds)}", kind)
    return tuple(kind for kind in kinds if kind in allow_different)


def _check_differences(differences: Sequence[tuple[Difference, str]], allowed: Sequence[str]) -> None:
    refused = {text: kind for kind, text in differences if kind not in allowed}
    if refused:
        kinds, lines = ", ".join(dict.fromkeys(refused.values())), "\n".join(refused)
        message = f"the evaluations differ:\n{lines}\nrepeat one with the settings of the other, or allow: {kinds}"
        raise ConfigurationError(message)


def _check_common(
    noun: str, names_a: Sequence[str], names_b: Sequence[str], both: Collection[object], hint: str = ""
) -> None:
    if not both:
        names = f"A has {join_names(names_a)}, and B has {join_names(names_b)}"
        raise ConfigurationError(f"no {noun} is in both: {names}{hint}")
