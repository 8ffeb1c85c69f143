"""The first sentences of every view, for a reader who decides: the verdict, the difference, and where it goes wrong.

Failed: 43 of 300 cases failed, 3 could not be measured; 86 % of those measured passed (95 % interval 81 % to 89 %).
Compared with release 7 (2026-11-21), 12 of 297 cases became worse and 5 better, which may be chance (p = 0.14).
Most often wrong: 'book_flight' in 31 of 43 failed cases (28 with wrong arguments), there mostly 'seats'.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from toolgrade._internal.text import hundredths_text, join_first, plural, printable
from toolgrade.cases import Run
from toolgrade.redact import DEFAULT
from toolgrade.report.comparison import Comparison, OutcomeChanges
from toolgrade.report.report import Report, one_case
from toolgrade.report.text.breakdown import breakdowns, problem_rows
from toolgrade.report.text.phrases import one_line, p_text
from toolgrade.report.text.slices import slice_of, whole_percent

ALPHA = 0.05
"""Differences with a larger p are called chance."""

_FEWEST = 5
"""Cases from which on the first sentence has a rate."""
_MOST_NAMES = 5
_FEW = 2
_LONGEST_FACT = 200
_SHORT_COMMIT = 12
_NO_CONTENT = frozenset({"id", "name", "tags"})
_OWN_FACTS = ("name", "toolgrade", "python", "started_at", "seconds", "commit")
"""Facts of a report that have words of their own, or are left to its end."""


def headline(report: Report, comparison: Comparison | str | None = None) -> list[str]:
    """Return up to three sentences: the verdict, the difference to before or between agents, and where it goes wrong.

    The second is about the comparison, or says why there is none, if it is a text.
    """
    if isinstance(comparison, str):
        change = f"Not compared with the earlier results: {comparison}."
    else:
        change = _agents_sentence(report) if comparison is None else change_sentence(comparison)
    sentences = (_verdict_sentence(report), change, _findings_sentence(report))
    return [one_line(text, 2 * _LONGEST_FACT) for text in sentences if text]


def _verdict_sentence(report: Report) -> str:
    verdict = report.verdict
    text = f"{'Passed' if verdict.passed else 'Failed'}: {verdict.sentence}"
    whole = slice_of("", report.cases)
    if whole.measured >= _FEWEST and whole.counts["failed"]:
        low, high = whole.interval or (0.0, 0.0)
        interval = f"95 % interval {whole_percent(low)} to {whole_percent(high)}"
        text += f"; {whole_percent(whole.rate or 0.0)} of those measured passed ({interval})"
    return f"{text}."


def change_sentence(comparison: Comparison) -> str:
    """Return what changed since an earlier evaluation, and whether it may be chance."""
    sides = ((len(comparison.only_a), "of before", "missing"), (len(comparison.only_b), "of now", "new"))
    rest = [f"{plural(amount, 'case')} {which} {_are(amount)} {what}" for amount, which, what in sides if amount]
    lost = len(comparison.losses)
    if lost:
        rest.insert(0, f"{plural(lost, 'more case')} passed before and {'has' if lost == 1 else 'have'} no verdict now")
    title, changes = title_with_date(comparison.about_a), changes_text(comparison.outcomes)
    return f"Compared with {title}, {'; '.join([changes, *rest])}."


def _are(amount: int) -> str:
    return "is" if amount == 1 else "are"


def changes_text(changes: OutcomeChanges) -> str:
    """Return how many cases changed between passed and failed, and whether that may be chance."""
    if changes.p_value is None:
        return "no case has a verdict in both"
    cases = plural(changes.both, "case")
    if not changes.worse and not changes.better:
        return f"none of {cases} changed between passed and failed"
    p = p_text(changes.p_value)
    chance = "which may be chance" if changes.p_value > ALPHA else "more than chance explains"
    return (
        f"{changes.worse:,} of {cases} became worse and {changes.better:,} better, {chance} "
        f"(p {p if p.startswith('<') else f'= {p}'})"
    )


def _agents_sentence(report: Report) -> str:
    """Return how many cases of each agent passed, the best agent first; empty without several."""
    if len(report.agents) <= 1:
        return ""
    parts = [slice_of(name, [case for case in report.cases if case.agent == name]) for name in report.agents]
    parts.sort(key=lambda part: -(part.counts["passed"] / part.cases))
    texts = [f"{DEFAULT(part.name)} passed {part.counts['passed']:,} of {plural(part.cases, 'case')}" for part in parts]
    return f"By agent: {join_first(texts, _MOST_NAMES, count_rest=True)}."


def _findings_sentence(report: Report) -> str:
    """Return the tool that goes wrong in most failed cases, how, and with which argument; empty without a finding."""
    failed = replace(report, cases=tuple(case for case in report.cases if case.outcome == "failed"))
    rows = problem_rows(failed)
    if not failed.cases:
        return _seen_in_passed(report)
    if not rows:
        return ""
    # Of equally frequent tools, one that is merely called in addition comes last.
    tool, cases, problems = min(rows, key=lambda row: (-row[1], re.fullmatch(r"[\d,]+ unexpected", row[2]) is not None))
    _, arguments, _ = breakdowns(failed)
    names = [line.argument for line in arguments.lines if line.tool == tool and 2 * len(line.cases) >= cases]
    argument = f", there mostly {names[0]!r}" if names else ""
    return (
        f"Most often wrong: {tool!r} in {cases:,} of {plural(len(failed.cases), 'failed case')} ({problems}){argument}."
    )


def _seen_in_passed(report: Report) -> str:
    """Return what was noticed in passed cases, which cost no score: calls beyond the expected ones, and warnings."""
    passed = replace(report, cases=tuple(case for case in report.cases if case.outcome == "passed"))
    rows = [f"{tool!r} in {plural(cases, 'case')} ({problems})" for tool, cases, problems in problem_rows(passed)]
    warned = sum(any(result.warnings for result in case.own_results) for case in passed.cases)
    texts = [join_first(rows, _FEW, count_rest=True)] if rows else []
    texts += [f"{plural(warned, 'case')} with warnings"] if warned else []
    return f"Noticed in passed cases: {'; '.join(texts)}." if texts else ""


def title_with_date(about: Mapping[str, Any], default: str = "the earlier results") -> str:
    """Return the name of an evaluation and its date, as far as they are known: `release 7 (2026-11-21)`."""
    name, date = about.get("name"), date_of(about)
    title = printable(str(name)) if name else default
    return f"{title} ({date})" if date else title


def date_of(about: Mapping[str, Any]) -> str:
    """Return the day on which an evaluation began: `2026-11-21`; empty if it is not known."""
    try:
        return datetime.fromisoformat(str(about.get("started_at"))).date().isoformat()
    except ValueError:
        return ""


def facts_of(report: Report) -> dict[str, str]:
    """Return what was measured, by name: agents, models, commit, date, tokens, time, and other facts of the report.

    Only what was recorded is there. Sums name the number of cases that they cover, if it is not all of them.
    """
    about = report.about
    facts = {"agents": join_first(list(report.agents), _MOST_NAMES, count_rest=True)} if len(report.agents) > 1 else {}
    facts |= {one_line(str(name)): str(value) for name, value in about.items() if name not in _OWN_FACTS}
    facts |= dict(_recorded_facts(report))
    facts |= {"commit": str(about.get("commit", ""))[:_SHORT_COMMIT], "date": date_of(about)}
    costs = [one.cost for one in report.summaries if one.usage]
    if costs and None not in costs:
        facts["cost of judging"] = hundredths_text(sum(cost for cost in costs if cost is not None))
    return {name: one_line(text, _LONGEST_FACT) for name, text in facts.items() if text}


def _recorded_facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield what the runs of the cases recorded: models, tokens, and seconds; nothing if some cases have no content."""
    if any(not getattr(entry.case, "model_fields_set", _NO_CONTENT) - _NO_CONTENT for entry in report.cases):
        return  # they were read from the JSON of a report, or are too many to be kept
    models: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    seconds: list[float] = []
    counted = 0
    for entry in report.cases:
        run = getattr(one_case(entry.case), "run", None) or Run()
        models.update(run.models)
        tokens.update(run.usage or {})
        counted += run.usage is not None
        if run.duration is not None:
            seconds.append(run.duration)
    yield "models", join_first(list(dict(models.most_common())), _MOST_NAMES, count_rest=True)
    names = ("input_tokens", "output_tokens") if "input_tokens" in tokens else ("total_tokens",)
    amounts = [f"{tokens[name]:,} {name.partition('_')[0]}" for name in names if name in tokens]
    if amounts:
        yield "tokens", f"{', '.join(amounts)}{_of(counted, report)}"
    if seconds:
        yield "time", f"{sum(seconds) / len(seconds):.1f} s a case{_of(len(seconds), report)}"


def _of(cases: int, report: Report) -> str:
    """Return of how many cases a figure is, if not of all."""
    return "" if cases == report.case_count else f" (of {plural(cases, 'case')})"


def facts_line(facts: Mapping[str, str]) -> str:
    """Return facts on one line: `models gpt-4.1; tokens 270,000 input; date 2026-11-21`."""
    return "; ".join(f"{name} {text}" for name, text in facts.items())


def title_of(report: Report, title: str | None) -> str:
    """Return the title of a view: the one stated, else the name of the evaluation."""
    return str(report.about.get("name") or "Evaluation") if title is None else title
