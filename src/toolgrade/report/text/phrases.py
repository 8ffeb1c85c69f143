"""Wording of numbers, values and names, and the order of results, shared by all ways to show a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import Any, Literal, TypeAlias

from toolgrade._internal.text import hundredths_text, join_first, number_text, percent, plural, printable, shorten
from toolgrade.cases import ConversationalTestCase
from toolgrade.report.comparison import Comparison, MetricComparison
from toolgrade.report.report import CaseResult, Flaky, MetricSummary, Report, TrialSummary
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.stats import Interval
from toolgrade.verdict import OUTCOME_WORDS

INTERRUPTED = "Interrupted: stopped before all cases were measured. All numbers cover the cases measured until then."
TOTALS_ONLY = "The results of single cases are not in this report; read them where they were written."
INTERVALS = "In parentheses: 95 % intervals."
PASS_AT_K_LEGEND = "pass@k: at least one of k trials passes. pass^k: all k do. goldens: those with k scored trials."  # noqa: S105 - not a password

AGREEMENT_LIMITS = "Runs without writes agree, and so do runs of a task that all fail alike."

USER_MODEL = "user_model"
"""Key in the metadata of a conversation: what the model of its simulated user used, with its cost."""

_ALL_K = 10
"""Up to so many trials, the table of pass@k has a row for every k."""
_SOME_K = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)
"""The rows of that table with more trials, besides the last k."""
_LEAST_P = 0.001
_DECIMALS, _MOST_DECIMALS = 2, 17
"""Decimals of a mean, and those with which any two numbers up to 1 differ."""
_LONGEST_NAME = 60
_MOST_LEAST = 10
_MOST_TOOLS = 10
_LONGEST_LINE = 300


def one_line(text: str, limit: int = _LONGEST_LINE) -> str:
    """Return a text on one line, shortened, with every character that does not print as an escape."""
    return shorten(printable(text), limit)


def cases_text(report: Report) -> str:
    """Return the number of cases, and of agents if there are several: `24 cases of 2 agents`."""
    agents = len(report.agents)
    return f"{plural(report.case_count, 'case')}{f' of {agents} agents' if agents > 1 else ''}"


def hints(report: Report) -> list[str]:
    """Return what to change in the options: thresholds, and effects to declare; empty if nothing."""
    return [*_threshold_hints(report), *effect_hints(report)]


def effect_hints(report: Report) -> list[str]:
    """Return the tools of unknown effect with their calls, and how to declare them, in one text; empty without any."""
    unknown = {
        (case.index, one.called, one.turn, one.tool)  # several metrics report the same call
        for case, result in entries_of(report)
        for one in result.findings
        if one.kind == "unknown_effect"
    }
    tools = Counter(sorted(one_line(tool, _LONGEST_NAME) for *_, tool in unknown)).most_common()
    if not tools:
        return []
    names = join_first([f"{tool!r} ({plural(calls, 'call')})" for tool, calls in tools], _MOST_TOOLS, count_rest=True)
    first = tools[0][0]
    ways = f"effects={{{first!r}: 'write'}}, --effect {quote(f'{first}=write')}, or in available_tools"
    return [f"effect unknown: {names}; they were not scored: declare them with {ways}"]


def _threshold_hints(report: Report) -> list[str]:
    """Return which metrics passed cases with wrong calls, since a gate usually needs a threshold of 1."""
    texts: list[str] = []
    for metric in report.metrics:
        passed = [one for _, one in entries_of(report) if one.metric == metric and one.passed and (one.score or 0) < 1]
        findings = sum(len(result.findings) for result in passed)
        if findings:
            words = f"{plural(len(passed), 'case')} at {passed[0].threshold:g} with {plural(findings, 'finding')}"
            texts.append(f"{one_line(metric, _LONGEST_NAME)} passed {words}: a gate usually needs a threshold of 1")
    return texts


def number_or_dash(value: object, text: Callable[[Any], str] = number_text) -> str:
    """Return a number as text, `-` if it is `None`; by default it is formatted like a score."""
    return "-" if value is None else text(value)


def score_text(result: MetricResult) -> str:
    """Return the score of a result after the word: `score 0.5`; an empty text if it has no score."""
    return "" if result.score is None else f"score {number_text(result.score)}"


def interval_text(interval: tuple[float, float]) -> str:
    """Return an interval as text: `0.31 to 0.69`."""
    return f"{hundredths_text(interval[0])} to {hundredths_text(interval[1])}"


def with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    """Return a number with its interval in parentheses: `0.5 (0.31 to 0.69)`; `-` for `None`."""
    text = number_or_dash(value)
    return text if interval is None else f"{text} ({interval_text(interval)})"


def signed_text(value: float) -> str:
    """Return a difference with its sign and two decimals: `+0.25`; only an exact 0 is written as `0.00`."""
    return "0.00" if value == 0 else f"{'-' if value < 0 else '+'}{hundredths_text(abs(value))}"


def ends_text(interval: Interval | None, text: Callable[[float], str]) -> str:
    """Return both ends of an interval as texts: `-0.19 to +0.07`; `-` for `None`."""
    return "-" if interval is None else f"{text(interval.low)} to {text(interval.high)}"


def p_text(value: float | None) -> str:
    """Return a p-value with three decimals: `0.034`, `< 0.001`; `-` for `None`."""
    if value is None:
        return "-"
    return f"< {_LEAST_P:g}" if value < _LEAST_P else f"{value:.3f}"


def _mean_texts(metric: MetricComparison) -> tuple[str, str]:
    """Return both means with two decimals, or if they differ, with as many as it takes to see it."""
    mean_a, mean_b = metric.mean_a, metric.mean_b
    texts = number_or_dash(mean_a, hundredths_text), number_or_dash(mean_b, hundredths_text)
    if not metric.difference:
        return texts
    for digits in range(_DECIMALS + 1, _MOST_DECIMALS + 1):
        if texts[0] != texts[1]:
            break
        texts = f"{mean_a:.{digits}f}", f"{mean_b:.{digits}f}"
    return texts


def comparison_cells(metric: MetricComparison) -> tuple[str, ...]:
    """Return the figures of a compared metric: pairs, both means, difference, interval, worse, better, and p."""
    return (
        f"{metric.paired:,}",
        *_mean_texts(metric),
        number_or_dash(metric.difference, signed_text),
        ends_text(metric.interval, signed_text),
        f"{len(metric.regressions):,}",
        f"{len(metric.improvements):,}",
        p_text(metric.corrected),
    )


def broken_runs_note(comparison: Comparison) -> str:
    """Return why metrics have more pairs than there are verdicts; empty if they do not."""
    pairs = max((metric.paired for metric in comparison.metrics), default=0)
    if pairs <= comparison.outcomes.both:
        return ""
    return (
        "Scores also of cases whose run broke, which have no verdict of their scores, are among the pairs of a metric."
    )


def p_legend(comparison: Comparison) -> str:
    """Return what p is, as `p: McNemar's exact test of worse against better, two-sided.`, on one line."""
    test = "exact sign-flip test, over ids," if comparison.repeated else "McNemar's exact test"
    tests = sum(metric.p_value is not None for metric in comparison.metrics)
    holm = f", corrected for {tests} metrics (Holm)" if tests > 1 else ""
    return f"p: {test} of worse against better, two-sided{holm}."


def estimates_text(summary: MetricSummary) -> str:
    """Return the mean and the pass rate with their intervals; an empty text if neither has one."""
    if summary.mean_interval is None and summary.rate_interval is None:
        return ""
    mean = with_interval(summary.mean, summary.mean_interval)
    return f"mean {mean}, pass rate {with_interval(summary.rate, summary.rate_interval)}"


def usage_texts(usage: Mapping[str, int]) -> list[str]:
    """Return numbers of tokens and requests with what they count."""
    return [f"{amount:,} {name.replace('_', ' ')}" for name, amount in usage.items()]


def usage_facts(usage: Mapping[str, int], cost: float | None) -> list[str]:
    """Return the tokens and requests of judging, and its cost.

    A cost of 0 is listed too; an unknown cost only if there are tokens or requests.
    """
    unknown = ["cost not known"] if any(usage.values()) else []
    return usage_texts(usage) + (unknown if cost is None else [f"cost {number_text(cost)}"])


def judge_totals(summary: MetricSummary) -> list[str]:
    """Return the share of the questions that the judge of a metric decided, and what judging used and cost.

    Empty if the judge was asked nothing and used nothing.
    """
    if summary.coverage is None:
        return usage_facts(summary.usage, summary.cost) if summary.usage else []
    return [f"{percent(summary.coverage)} decided", *usage_facts(summary.usage, summary.cost)]


def users_text(report: Report) -> str:
    """Return what the models of simulated users used and cost, on one line; an empty text if there are none."""
    conversations = [one.case for one in report.cases if isinstance(one.case, ConversationalTestCase)]
    used = [one for case in conversations if isinstance(one := case.metadata.get(USER_MODEL), dict)]
    usage = Counter[str]()
    for one in used:
        usage.update({name: count for name, count in one.items() if type(count) is int})
    costs = [float(one["cost"]) for one in used if isinstance(one.get("cost"), (int, float))]
    facts = usage_facts(usage, sum(costs) if len(costs) == len(used) else None)
    return f"simulated users: {', '.join(facts)}" if used else ""


def judge_facts(result: MetricResult) -> list[str]:
    """Return the judge of a result and what judging used and cost."""
    if result.judge is None:
        return []
    return [*(f"{name} {value}" for name, value in result.judge.items()), *usage_facts(result.usage, result.cost)]


def judging_text(summary: MetricSummary) -> str:
    """Return `judge_totals` on one line: `judge: 100 % decided, ...`; an empty text if there are none."""
    facts = judge_totals(summary)
    return f"judge: {', '.join(facts)}" if facts else ""


def pass_at_k_rows(summary: TrialSummary) -> Iterator[tuple[str, str, str, str]]:
    """Yield one row per k: k, pass@k, pass^k, and the number of goldens with at least k scored trials.

    With more than ten trials only some k have a row, among them the last.
    """
    some = {*range(1, _ALL_K + 1)} if summary.trials <= _ALL_K else {*_SOME_K}
    for k, at_least_one in summary.pass_at.items():
        if k in some or k == summary.trials:
            all_of_them, goldens = summary.pass_hat.get(k), summary.counted.get(k, 0)
            yield str(k), number_or_dash(at_least_one), number_or_dash(all_of_them), f"{goldens:,}"


def flaky_text(flaky: Flaky) -> str:
    """Return a golden with how many of its trials passed: `refund (3 of 5 passed)`."""
    return f"{one_line(flaky.name, _LONGEST_NAME)} ({flaky.passed} of {flaky.scored} passed)"


def agreement_lines(report: Report) -> list[str]:
    """Return how far the runs of one golden or question agree, which agree least, and what it does not say, by line.

    Empty without several runs of one.
    """
    agreement = report.agreement
    if agreement is None:
        return []
    figures = {"writes": agreement.writes, "answers": agreement.answers}
    words = ", ".join(f"{name} {hundredths_text(value)}" for name, value in figures.items() if value is not None)
    of = plural(agreement.groups, "question" if report.trials is None else "golden")
    least = [f"{one_line(label, _LONGEST_NAME)} {number_text(writes)}" for label, writes in agreement.least]
    return [
        f"Agreement of runs: {words or 'not known'} (mean over {of} with several runs).",
        *([f"Writes that agree least: {join_first(least, _MOST_LEAST, count_rest=True)}."] if least else []),
        AGREEMENT_LIMITS,
    ]


Word: TypeAlias = Literal["agent_error", "failed", "not_measured", "skipped", "passed"]
"""The outcome of a case, or of one result; only a result is skipped."""

WORDS: tuple[Word, ...] = ("agent_error", "failed", "not_measured", "skipped", "passed")
"""The outcomes, the worst first."""

WORD_TEXTS: Mapping[Word, str] = {one: "skipped" if one == "skipped" else OUTCOME_WORDS[one] for one in WORDS}
"""The outcomes as people read them."""

_RANKS: Mapping[Word, int] = {"not_measured": 0, "skipped": 2}

Entry: TypeAlias = tuple[CaseResult, MetricResult]
"""A result with its case."""


def entries_of(report: Report) -> list[Entry]:
    """Return all results with their cases; none of a report of totals, which views show without them."""
    return [] if report.totals else list(report.results())


def result_word(result: MetricResult) -> Word:
    """Return the outcome of one result."""
    if result.passed is not None:
        return "passed" if result.passed else "failed"
    return "skipped" if result.status is ResultStatus.SKIPPED else "not_measured"


def entry_word(entry: Entry) -> Word:
    """Return the outcome of a result, or of its case if the run did not end as it must, or no metric applies."""
    case, result = entry
    if case.wrong_end is not None:
        return case.wrong_end.outcome
    word = result_word(result)
    is_alone = all(one.status is ResultStatus.SKIPPED for one in case.own_results)
    return "not_measured" if word == "skipped" and is_alone else word


def worst_first(entry: Entry) -> tuple[bool, int, float, int]:
    """Return a sort key: the worst results first; ties by position."""
    case, result = entry
    return case.wrong_end is None, _RANKS.get(entry_word(entry), 1), result.score or 0.0, case.index


def severity(result: MetricResult) -> tuple[int, float]:
    """Return a sort key: results that could not be measured, then by score, skipped ones last."""
    return _RANKS.get(result_word(result), 1), result.score or 0.0


def worst_case_first(case: CaseResult) -> tuple[int, float, int]:
    """Return a sort key for cases: the worst outcome, then the lowest score, then the position."""
    scores = [result.score for result in case.own_results if result.score is not None]
    return WORDS.index(case.outcome), min(scores, default=0.0), case.index


def is_bad(entry: Entry) -> bool:
    """Return whether a result keeps its case from passing."""
    return entry_word(entry) not in {"passed", "skipped"}
