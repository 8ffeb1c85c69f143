"""Several agents side by side: what each scored by metric, and which of them passed each golden."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from toolgrade._internal.text import hundredths_text, plural
from toolgrade.report.comparison import Comparison, MetricComparison
from toolgrade.report.pairing import compare_agents
from toolgrade.report.report import CaseResult, MetricSummary, Report, TrialSummary
from toolgrade.report.text.phrases import WORD_TEXTS, WORDS, Word, p_legend, p_text, signed_text

MOST_GOLDENS = 50
"""Goldens that Markdown and the page list; the terminal has an option."""

_ALPHA = 0.05


class MetricRow(NamedTuple):
    """A metric, and the lines of text of each agent: mean, passed cases, pass^k, and the difference to the first."""

    title: str
    threshold: float
    cells: tuple[tuple[str, ...], ...]


class AgentOutcome(NamedTuple):
    """What one agent made of a golden: the worst outcome of its rows, its text, and the position of the worst row.

    Without a row, as after an interruption, `word` and `case` are `None`.
    """

    word: Word | None
    text: str
    case: int | None


class GoldenRow(NamedTuple):
    """A golden, and the outcome of each agent."""

    name: str
    cells: tuple[AgentOutcome, ...]

    @property
    def differs(self) -> bool:
        """Whether the outcomes of the agents are not all the same."""
        return len({(cell.word, cell.text) for cell in self.cells}) > 1


class AgentTable(NamedTuple):
    """The metrics and goldens of a report by agent. Goldens where agents differ come first, then the worst."""

    agents: tuple[str, ...]
    metrics: tuple[MetricRow, ...]
    goldens: tuple[GoldenRow, ...]
    legend: str

    @property
    def golden_title(self) -> str:
        """How many goldens there are, and where agents differ: `12 goldens; the agents differ on 3`."""
        differing = sum(row.differs for row in self.goldens)
        return f"{plural(len(self.goldens), 'golden')}; the agents differ on {differing or 'none'}"


def agent_table(report: Report) -> AgentTable | None:
    """Return the agents of a report side by side; `None` without several."""
    agents = report.agents
    if len(agents) <= 1:
        return None
    parts = [report.of_agent(name) for name in agents]
    comparisons = compare_agents(report, resamples=0)
    return AgentTable(
        agents=agents,
        metrics=tuple(_metric_rows(parts, comparisons)),
        goldens=tuple(sorted(_golden_rows(report), key=_golden_order)),
        legend=_legend(comparisons, report.trials),
    )


def _metric_rows(parts: Sequence[Report], comparisons: Sequence[Comparison]) -> Iterator[MetricRow]:
    summaries = [part.summaries for part in parts]
    trials = [part.trial_summaries for part in parts]
    for place, metric in enumerate(parts[0].metrics):
        compared = [None, *(one.metrics[place] for one in comparisons)]  # the agents have the same metrics
        cells = tuple(
            (*_total_lines(of_part[place], of_trials[place] if of_trials else None), *_difference_lines(difference))
            for of_part, of_trials, difference in zip(summaries, trials, compared, strict=True)
        )
        yield MetricRow(metric, summaries[0][place].threshold, cells)


def _total_lines(summary: MetricSummary, trials: TrialSummary | None) -> Iterator[str]:
    if summary.mean is None:
        yield "nothing scored"
    else:
        yield f"mean {hundredths_text(summary.mean)}"
        yield f"{summary.passed:,} of {summary.scored:,} passed"
    all_pass = None if trials is None or trials.trials == 1 else trials.pass_hat[trials.trials]
    if trials is not None and all_pass is not None:
        yield f"pass^{trials.trials} {hundredths_text(all_pass)}"
    for amount, word in ((summary.errored, "not measured"), (summary.skipped, "skipped")):
        if amount:
            yield f"{amount:,} {word}"


def _difference_lines(metric: MetricComparison | None) -> Iterator[str]:
    """Yield the difference to the first agent with its p, and whether it may be chance."""
    if metric is None:
        return
    if metric.difference is None or metric.corrected is None:
        yield "nothing to compare"
        return
    p = p_text(metric.corrected)
    yield f"{signed_text(metric.difference)}, p {p if p.startswith('<') else f'= {p}'}"
    if metric.corrected > _ALPHA and (metric.difference or metric.regressions or metric.improvements):
        yield "may be chance"


def _golden_rows(report: Report) -> Iterator[GoldenRow]:
    agents = report.agents
    rows: dict[int, dict[str | None, list[CaseResult]]] = {}
    for case in report.cases:
        rows.setdefault(case.cluster, {}).setdefault(case.agent, []).append(case)
    for _, by_agent in sorted(rows.items()):
        cases = next(iter(by_agent.values()))
        yield GoldenRow(cases[0].name, tuple(_outcome(by_agent.get(agent, [])) for agent in agents))


def _outcome(cases: Sequence[CaseResult]) -> AgentOutcome:
    """Return the outcome of the rows of one agent: those of components count, and each trial apart."""
    worst = min(cases, key=lambda case: WORDS.index(case.outcome), default=None)
    if worst is None:
        return AgentOutcome(None, "not asked", None)
    trials: dict[int | None, Word] = {}
    for case in cases:
        words: tuple[Word, Word] = (case.outcome, trials.get(case.trial, "passed"))
        trials[case.trial] = min(words, key=WORDS.index)
    return AgentOutcome(worst.outcome, _trials_text(Counter(trials.values())), worst.index)


def _trials_text(trials: Counter[Word]) -> str:
    """Return one word if all trials ended alike; else how many passed: `2 of 3 passed, 1 not measured`."""
    if len(trials) == 1:
        (word,) = trials
        return WORD_TEXTS[word]
    scored = trials["passed"] + trials["failed"]
    texts = [f"{trials['passed']} of {scored} passed"] if scored else []
    others: tuple[Word, ...] = ("agent_error", "not_measured")
    texts += [f"{trials[word]} {WORD_TEXTS[word]}" for word in others if trials[word]]
    return ", ".join(texts)


def _golden_order(row: GoldenRow) -> tuple[bool, int]:
    worst = min((WORDS.index(cell.word) for cell in row.cells if cell.word is not None), default=0)
    return not row.differs, worst


def _legend(comparisons: Sequence[Comparison], trials: int | None) -> str:
    texts: list[str] = []
    if trials is not None and trials > 1:
        texts.append(f"pass^{trials}: all {trials} trials of a golden pass.")
    if comparisons:
        texts += ["Differences: from the first agent, over the cases scored for both.", p_legend(comparisons[0])]
    return " ".join(texts)
