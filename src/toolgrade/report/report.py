"""The report of an evaluation: every result, and summaries over them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from math import fsum
from operator import itemgetter
from types import ModuleType
from typing import Any, NamedTuple

from toolgrade._internal.json import json_text, replace_nonfinite, to_json_value
from toolgrade._internal.model import drop_none
from toolgrade._internal.options import require_one_of
from toolgrade._internal.text import number_text, plural, printable, shorten
from toolgrade.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMTestCase, TestCase
from toolgrade.errors import InvalidDataError
from toolgrade.expect.plan import expected_names
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report.comparison import Comparison
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.stats import mean_interval, pass_at_k, pass_hat_k, rate_interval
from toolgrade.verdict import Gate, Outcome, Tally, Trial, Verdict, WrongEnd, outcome_of, outcome_reason


class RunAgreement(NamedTuple):
    """How far a run agrees with the other runs of its golden, or of its question in a log; see docs/comparison.md.

    Attributes:
        group: Number that these runs share; runs of several agents are apart.
        writes: Agreement of its writes, in [0, 1]; `None` if they are not known, or those of all other runs.
        answer: Likewise of its answer.
    """

    group: int
    writes: float | None
    answer: float | None


class AgreementSummary(NamedTuple):
    """How far the runs of each golden, or of each question in a log, agree.

    Attributes:
        writes: The mean of `RunAgreement.writes` over the runs of a group, then over the groups; `None` if unknown.
        answers: Likewise of the answers.
        groups: Number of goldens or questions with several runs that were compared.
        least: The labels of the runs whose writes agree least in their group, and by less than 0.5, each with that
            number, the worst first.
    """

    writes: float | None
    answers: float | None
    groups: int
    least: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The results of one case.

    Attributes:
        index: Position of the case in the evaluation, from 0.
        case: The case.
        results: One per metric, in the order of the metrics.
        apart: Positions of metrics that measure other cases, such as those of a component; their results are skipped
            here, and neither listed nor counted.
        trial: Number of the trial, from 1, if every golden was run several times; otherwise `None`.
        golden: Position of the golden, from 0, if it may have several rows, because of trials or components; otherwise
            `None`.
        key: `content_key` of the case, if it was read from a file without the content; otherwise `None`.
        agent: Name of the agent, if several were asked; otherwise `None`.
        wrong_end: Why its run did not end as its golden says; `None` if it did, or nothing says how it ended.
        agreement: How far its run agrees with others of the same golden or question; `None` without others.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> case = LLMTestCase(id="weather", tools_called=[], expected_tools=[ToolCall(name="get_weather")])
        >>> row = evaluate([case], [ToolCorrectnessMetric()]).cases[0]
        >>> print(row.name, [result.score for result in row.results], row.outcome)
        weather [0.0] failed
    """

    index: int
    case: AnyCase
    results: tuple[MetricResult, ...]
    apart: frozenset[int] = frozenset()
    trial: int | None = None
    golden: int | None = None
    key: str | None = field(default=None, compare=False)
    agent: str | None = None
    wrong_end: WrongEnd | None = None
    agreement: RunAgreement | None = field(default=None, compare=False)

    @property
    def outcome(self) -> Outcome:
        """What became of the case: `agent_error`, `failed`, `not_measured` or `passed`."""
        return outcome_of(self.own_results, self.wrong_end)

    @property
    def name(self) -> str:
        """The case's id, else its name, else the beginning of its question, else its position from 1 as `#3`.

        All rows of one golden share it; the question of a conversation is its first one, and stands for a UUID, too.
        """
        names, question = case_names(self.case), _question_in(self.case)
        name = names.get("id") or names.get("name") or ""
        if question and is_generated_id(name):
            return question
        return name or question or f"#{self.cluster + 1}"

    @property
    def identity(self) -> tuple[str, str]:
        """What identifies the case in every evaluation: its `id`, `name`, `content` or `position`, and the value.

        The content is `content_key(case)`. A case has only a position if it has neither input nor expectations.
        """
        names = case_names(self.case)
        for kind in ("id", "name"):
            if names.get(kind):
                return kind, names[kind]
        key = self.key or content_key(self.case)
        return ("content", key) if key else ("position", str(self.cluster))

    @property
    def label(self) -> str:
        """The name, with the agent and the number of the trial if there are several: `refund (mini, trial 2)`."""
        return f"{self.name} ({self.variant})" if self.variant else self.name

    @property
    def variant(self) -> str:
        """The agent and the trial, which other rows of the golden do not share: `mini, trial 2`; empty without any."""
        trial = None if self.trial is None else f"trial {self.trial}"
        return ", ".join(filter(None, (self.agent, trial)))

    @property
    def cluster(self) -> int:
        """Key shared by results that are not independent of each other: the golden, or the case itself."""
        return self.index if self.golden is None else self.golden

    def _repr_html_(self) -> str:
        """Return the case as the page shows it, for a notebook: what was said and called beside what was expected."""
        fragment: str = _module("html.page").case_fragment(self)
        return fragment

    @property
    def own_results(self) -> tuple[MetricResult, ...]:
        """The results of the metrics that measure this case."""
        return tuple(result for place, result in enumerate(self.results) if place not in self.apart)

    def to_dict(self, redactor: Redactor = DEFAULT) -> dict[str, Any]:
        """Return this as redacted JSON values, without the content of the case.

        It has the case's id and name, or else its `key`, the `run_id` of a recorded run, the `agent` if several were
        asked, and the names of the `tools` that an alignment counts by position.
        """
        kind, key = self.identity
        about = {
            "key": key if kind == "content" else None,
            "run_id": getattr(getattr(self.case, "run", None), "run_id", None),
            "agent": self.agent,
            "trial": self.trial,
            "golden": self.golden,
            "tools": redactor(self._tool_names()),
        }
        plain: dict[str, Any] = {"index": self.index, **case_names(self.case), **drop_none(about)}
        plain["outcome"] = self.outcome
        if self.wrong_end is not None:
            plain["wrong_end"] = redactor(self.wrong_end._asdict())
        if self.agreement is not None:
            plain["agreement"] = self.agreement._asdict()
        if self.apart:
            plain["apart"] = [self.results[place].metric for place in sorted(self.apart)]
        return {**plain, "results": [result.to_dict(redactor) for result in self.own_results]}

    def _tool_names(self) -> dict[str, Any] | None:
        """Return the names of the called tools, and of the expected ones of a list; a plan's are in the alignment."""
        case = one_case(self.case)
        if case is None or not any(result.alignment for result in self.own_results):
            return None
        names: dict[str, Any] = {"called": [call.name for call in case.tools_called or ()]}
        if isinstance(case.expected_tools, list):
            names["expected"] = expected_names(case.expected_tools)
        return names


def one_case(case: object) -> TestCase | None:
    """Return the case whose calls an alignment counts: a conversation as one case; `None` for any other object."""
    if isinstance(case, ConversationalTestCase):
        with suppress(InvalidDataError):  # its expectations cannot be joined, so that nothing was aligned
            return case.to_test_case()
    return case if isinstance(case, (LLMTestCase, MLLMTestCase)) else None


def label_of_question(identifier: str | None, question: str | None, place: int) -> str:
    """Return the name of a golden: its id, else the beginning of its question, else its position from 1."""
    return identifier or short_question(question or "") or f"#{place + 1}"


def is_generated_id(text: str) -> bool:
    """Return whether an id is a UUID, which a recorder or a framework has generated."""
    return _UUID.fullmatch(text) is not None


def _question_in(case: object) -> str:
    """Return the beginning of the first question of a case, without secrets."""
    question: object = getattr(case, "input", None)
    if isinstance(case, ConversationalTestCase):
        question = next((one.question for one in case.exchanges), None)
    texts = question if isinstance(question, list) else [question]
    return short_question(" ".join(text for text in texts if isinstance(text, str)))


def short_question(text: str) -> str:
    """Return the beginning of a question on one line, without secrets, as the name of its case."""
    return shorten(" ".join(str(DEFAULT(text)).split()), _LONGEST_QUESTION)


def case_names(case: object) -> dict[str, str]:
    """Return the id and the name of a case, as far as it has them."""
    # An object that is not a case can be evaluated too: it fails, and has neither id nor name.
    names = {name: getattr(case, name, None) for name in ("id", "name")}
    return {name: value for name, value in names.items() if isinstance(value, str)}


def content_key(case: object) -> str | None:
    """Return a hash of the input and the expectations of a case without secrets, which is equal in every process.

    For a conversation it is that of the user's turns; `None` if there is neither input nor expectation.
    """
    content: dict[str, Any] = {}
    if isinstance(case, ConversationalTestCase):
        content = {"turns": [turn.content for turn in case.turns if turn.role == "user"]}
    elif isinstance(case, LLMTestCase | MLLMTestCase):
        fields = {name: getattr(case, name) for name in ("input", "expected_output", "expected_tools")}
        fields |= {name: getattr(case, name) or None for name in ("required_texts", "ends")}
        with suppress(InvalidDataError):  # nested too deeply to be written
            content = type(case)(**drop_none(fields)).to_dict()
    if not any(content.values()):
        return None
    text = json.dumps(DEFAULT(content), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


_KEY_DIGITS = 12
_LONGEST_QUESTION = 60
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_LOW_AGREEMENT = 0.5
"""The writes of a run that agree less with those of the other runs are named."""
_LONGEST_ERROR = 300

_FIGURES = (
    *("metric", "threshold", "mean", "mean_interval", "rate", "rate_interval"),
    *("passed", "failed", "skipped", "errored"),
)
"""The numbers of a metric in the order of its JSON form."""


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """The results of one metric over all cases.

    Attributes:
        metric: Name of the metric.
        threshold: The lowest score that passes.
        passed: Scored cases at or above the threshold.
        failed: Scored cases below it.
        skipped: Cases that the metric does not apply to.
        errored: Cases that could not be measured.
        mean: Mean over the scored cases; `None` if there are none.
        mean_interval: 95 % interval of the mean, with all rows of one golden as one cluster; `None` with fewer than
            two goldens, or if nothing varies between them.
        rate_interval: 95 % interval of the share of scored cases that passed; `None` only if nothing was scored.
        coverage: Share of the questions to the judge that were decided, in [0, 1]; `None` if it was asked none.
        usage: Tokens and requests of the judge, by name.
        cost: Cost of the judge; `None` if it is not known in full.
        error: Why a case could not be measured, without secrets: of several errors, the first in the alphabet.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> weather = ToolCall(name="get_weather")
        >>> cases = [LLMTestCase(tools_called=calls, expected_tools=[weather]) for calls in ([weather], [])]
        >>> summary = evaluate(cases, [ToolCorrectnessMetric()]).summaries[0]
        >>> print(summary.metric, summary.mean, summary.passed, summary.failed)
        tool_correctness 0.5 1 1
    """

    metric: str
    threshold: float
    passed: int
    failed: int
    skipped: int
    errored: int
    mean: float | None
    mean_interval: tuple[float, float] | None = None
    rate_interval: tuple[float, float] | None = None
    coverage: float | None = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None
    error: str | None = None

    @classmethod
    def of(
        cls, metric: str, results: Sequence[MetricResult], clusters: Sequence[Hashable] | None = None
    ) -> MetricSummary:
        """Return the summary of the results of one metric; the threshold is that of the first.

        Args:
            metric: Name of the metric.
            results: Its results.
            clusters: The cluster of each result; results of one cluster are not independent of each other. By default
                every result is its own cluster.
        """
        keys = range(len(results)) if clusters is None else clusters
        scores, passes, scored_keys = list[float](), list[bool](), list[Hashable]()
        usage: Counter[str] = Counter()
        outcomes: Counter[object] = Counter()
        for result, key in zip(results, keys, strict=True):
            usage.update(result.usage)
            outcomes.update((result.status, result.passed))
            if result.score is not None:
                scores.append(result.score)
                passes.append(result.passed is True)
                scored_keys.append(key)
        # The interval needs scores in [0, 1]; a metric of a user may return others.
        in_range = all(0 <= score <= 1 for score in scores)
        return cls(
            metric=metric,
            threshold=results[0].threshold if results else 0.0,
            passed=outcomes[True],
            failed=outcomes[False],
            skipped=outcomes[ResultStatus.SKIPPED],
            errored=outcomes[ResultStatus.ERRORED],
            mean=_mean(scores),
            mean_interval=mean_interval(scores, scored_keys) if in_range else None,
            rate_interval=rate_interval(passes, scored_keys),
            coverage=_coverage(results),
            usage=dict(usage),
            cost=_cost(results),
            error=min(filter(None, map(error_of, results)), default=None),
        )

    @property
    def scored(self) -> int:
        """Cases that have a score."""
        return self.passed + self.failed

    @property
    def total(self) -> int:
        """Cases in all: scored, skipped and errored."""
        return self.scored + self.skipped + self.errored

    @property
    def rate(self) -> float | None:
        """Share of the scored cases that passed; `None` if there are none."""
        return self.passed / self.scored if self.scored else None

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; `mean`, `rate` and their intervals are null if there are none.

        `coverage`, `usage` and `cost` are there if something was judged.
        """
        names = [*_FIGURES]
        if self.coverage is not None or self.usage:
            names += ["coverage", "usage", "cost"]
        return {name: to_json_value(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        """Return the mean and the counts on one line."""
        mean = "no score" if self.mean is None else f"mean {number_text(self.mean)}"
        return (
            f"{self.metric}: {mean} over {plural(self.scored, 'case')}; {self.passed} passed, "
            f"{self.failed} failed (at {self.threshold:g}), {self.skipped} skipped, {self.errored} errored{self.why}"
        )

    @property
    def why(self) -> str:
        """The error after a colon, on one line; empty without an error."""
        return f": {shorten(printable(self.error), _LONGEST_ERROR)}" if self.error else ""


def error_of(result: MetricResult) -> str | None:
    """Return why a result could not be measured, without secrets; `None` if it was measured, or nothing says why."""
    if result.status is not ResultStatus.ERRORED:
        return None
    text = result.error or result.reason
    return None if text is None else str(DEFAULT(text))


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are known."""
    numbers = [value for value in values if value is not None]
    return fsum(numbers) / len(numbers) if numbers else None


def _coverage(results: Sequence[MetricResult]) -> float | None:
    judged = [one for result in results for unit in result.units for one in unit.questions if one.decided_by == "judge"]
    return _mean([float(one.decision in {"yes", "no"}) for one in judged])


def _cost(results: Sequence[MetricResult]) -> float | None:
    """Return the sum of the costs; `None` if nothing has a price, or something was used without one."""
    costs = [result.cost for result in results if result.cost is not None]
    is_unpriced = any(result.cost is None and any(result.usage.values()) for result in results)
    return fsum(costs) if costs and not is_unpriced else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaky:
    """A golden of which some trials passed and some did not.

    Attributes:
        name: Its id, else its position as `#3`.
        passed: Trials that passed.
        scored: Trials that have a score.

    Example:
        >>> from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> answers = iter([[ToolCall(name="get_weather")], []])
        >>> async def agent(question, conversation):
        ...     return Run(input=question, calls=next(answers))
        >>> goldens = [Golden(id="weather", input="Is it sunny?", expected_tools=[ToolCall(name="get_weather")])]
        >>> report = evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()], trials=2)
        >>> flaky = report.trial_summaries[0].flaky[0]
        >>> print(f"{flaky.name}: {flaky.passed} of {flaky.scored} trials passed")
        weather: 1 of 2 trials passed
    """

    name: str
    passed: int
    scored: int

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        return dict(to_json_value(self))


def _tallies(results: Sequence[tuple[CaseResult, MetricResult]]) -> list[Flaky]:
    """Return how many trials of each golden have a score and passed; each trial may consist of several runs."""
    names: dict[int, str] = {}
    outcomes: dict[int, dict[int | None, list[bool | None]]] = {}
    for case, result in results:
        if case.trial is None and result.score is None:
            continue  # a line of a file that cannot be read, or a case without a golden
        passed = None if case.outcome == "agent_error" else result.passed
        names.setdefault(case.cluster, case.name)
        outcomes.setdefault(case.cluster, {}).setdefault(case.trial, []).append(passed)
    tallies: list[Flaky] = []
    for golden, by_trial in outcomes.items():
        scored = [all(passes) for passes in by_trial.values() if None not in passes]
        tallies.append(Flaky(name=names[golden], passed=sum(scored), scored=len(scored)))
    return tallies


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """The results of one metric over several trials of each golden.

    A trial that was skipped or could not be measured, or whose agent broke, is left out; it does not count as failed.

    Attributes:
        metric: Name of the metric.
        goldens: Number of goldens, including those without a scored trial.
        trials: Requested trials of each golden.
        pass_at: By k, from 1 to `trials`: the chance that at least one of k trials passes, the mean over the goldens
            with at least k scored trials, unbiased; `None` if there is no such golden.
        pass_hat: Likewise the chance that all of k trials pass (pass^k).
        counted: By k, the number of goldens with at least k scored trials.
        flaky: Goldens of which some trials passed and some did not, in their order.

    Example:
        >>> from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> answers = iter([[ToolCall(name="get_weather")], []])
        >>> async def agent(question, conversation):
        ...     return Run(input=question, calls=next(answers))
        >>> goldens = [Golden(id="weather", input="Is it sunny?", expected_tools=[ToolCall(name="get_weather")])]
        >>> report = evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()], trials=2)
        >>> summary = report.trial_summaries[0]
        >>> print(summary.pass_at[2], summary.pass_hat[2], [flaky.name for flaky in summary.flaky])
        1.0 0.0 ['weather']
    """

    metric: str
    goldens: int
    trials: int
    pass_at: Mapping[int, float | None]
    pass_hat: Mapping[int, float | None]
    counted: Mapping[int, int]
    flaky: tuple[Flaky, ...]

    @classmethod
    def of(cls, metric: str, trials: int, results: Sequence[tuple[CaseResult, MetricResult]]) -> TrialSummary:
        """Return the summary of the results of one metric.

        If a component ran several times in one trial, the trial has a score if all its runs have one, and passed if all
        passed.

        Args:
            metric: Name of the metric.
            trials: Requested trials of each golden.
            results: Its results, each with its case.
        """
        tallies = _tallies(results)
        ks = range(1, trials + 1)
        return cls(
            metric=metric,
            goldens=len(tallies),
            trials=trials,
            pass_at={k: _mean(pass_at_k(one.scored, one.passed, k) for one in tallies) for k in ks},
            pass_hat={k: _mean(pass_hat_k(one.scored, one.passed, k) for one in tallies) for k in ks},
            counted={k: sum(one.scored >= k for one in tallies) for k in ks},
            flaky=tuple(one for one in tallies if 0 < one.passed < one.scored),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; the keys of the objects by k are texts."""
        return dict(to_json_value(self))


@dataclass(frozen=True)
class Report:
    """All results of an evaluation.

    Attributes:
        metrics: Names of the metrics, in their order; no two are equal.
        cases: One entry per case, in the order of the evaluation.
        trials: Requested trials of each golden; `None` if cases were scored, or each golden was run once.
        interrupted: Whether the evaluation was stopped before all cases were measured.
        about: Facts about the evaluation, as JSON values: `toolgrade` (version), `python`, `started_at` (ISO 8601),
            `seconds`, and more from the caller. It does not count when reports are compared with `==`.
        gate: How much is enough to pass.
        totals: The summaries of a report of totals, whose `cases` are empty because their results are elsewhere; see
            `toolgrade.evaluation.arrow.totals_of`. Empty in other reports.
        outcomes: The number of cases by outcome in a report of totals.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> weather = ToolCall(name="get_weather")
        >>> paris = LLMTestCase(id="paris", tools_called=[weather], expected_tools=[weather])
        >>> rome = LLMTestCase(id="rome", tools_called=[], expected_tools=[weather])
        >>> report = evaluate([paris, rome], [ToolCorrectnessMetric()])
        >>> print(report)
        Failed: 1 of 2 cases failed.
        Most often wrong: 'get_weather' in 1 of 1 failed case (1 missing).
        tool_correctness: mean 0.5 over 2 cases; 1 passed, 1 failed (at 0.5), 0 skipped, 0 errored
        >>> [case.name for case, result in report.results() if not result.passed]
        ['rome']
    """

    metrics: tuple[str, ...]
    cases: tuple[CaseResult, ...]
    trials: int | None = None
    interrupted: bool = False
    about: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    gate: Gate = field(default_factory=Gate, kw_only=True)
    totals: tuple[MetricSummary, ...] = field(default=(), kw_only=True)
    outcomes: Mapping[Outcome, int] = field(default_factory=dict[Outcome, int], kw_only=True)

    @property
    def case_count(self) -> int:
        """Number of the cases, also in a report of totals."""
        return max((summary.total for summary in self.totals), default=len(self.cases))

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents in the order of their first cases, if they have names; otherwise none."""
        return tuple(dict.fromkeys(case.agent for case in self.cases if case.agent is not None))

    def of_agent(self, name: str) -> Report:
        """Return the part of one agent, as if it had been evaluated alone.

        Raises:
            ConfigurationError: No agent has this name.

        Example:
            >>> from toolgrade import LLMTestCase
            >>> from toolgrade.report import CaseResult, Report
            >>> paris = LLMTestCase(id="paris")
            >>> cases = [
            ...     CaseResult(place, paris, (), golden=0, agent=name) for place, name in enumerate(("gpt", "mini"))
            ... ]
            >>> report = Report((), tuple(cases))
            >>> report.agents, [case.label for case in report.of_agent("mini").cases]
            (('gpt', 'mini'), ['paris'])
        """
        require_one_of("agent", name, self.agents)
        # The turns of a conversation differ between agents: the cases of a golden get the key of its first.
        keys: dict[int, str] = {}
        for case in self.cases:
            kind, value = case.identity
            if kind == "content":
                keys.setdefault(case.cluster, value)
        own = [case for case in self.cases if case.agent == name]
        has_components = any(case.apart for case in own)
        cases: list[CaseResult] = []
        for place, case in enumerate(own):
            index, golden = place, case.golden
            if not has_components:  # in an evaluation that was interrupted, cases before this one may be missing
                index = case.cluster * (self.trials or 1) + (case.trial or 1) - 1
                golden = None if case.trial is None else case.golden
            cases.append(replace(case, index=index, golden=golden, agent=None, key=keys.get(case.cluster, case.key)))
        return replace(self, cases=tuple(cases))

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """How each agent after the first differs from the first, golden by golden; none without several agents.

        Each is `compare(report.of_agent(first), report.of_agent(other))`.
        """
        compared: tuple[Comparison, ...] = _module("pairing").compare_agents(self)
        return compared

    @property
    def trial_summaries(self) -> tuple[TrialSummary, ...]:
        """One summary per metric if there are trials; none of several agents together, see `of_agent`."""
        if self.trials is None or len(self.agents) > 1:
            return ()
        return tuple(
            TrialSummary.of(name, self.trials, [(case, case.results[place]) for case in self._measured_by(place)])
            for place, name in enumerate(self.metrics)
        )

    @property
    def agreement(self) -> AgreementSummary | None:
        """How far runs of one golden or question agree; `None` without any, and of several agents, see `of_agent`."""
        groups: dict[int, list[tuple[str, RunAgreement]]] = {}
        for case in self.cases if len(self.agents) <= 1 else ():
            if case.agreement is not None:
                groups.setdefault(case.agreement.group, []).append((case.label, case.agreement))
        if not groups:
            return None
        means: list[tuple[float | None, float | None]] = []
        least: list[tuple[str, float]] = []
        for runs in groups.values():
            means.append((_mean(one.writes for _, one in runs), _mean(one.answer for _, one in runs)))
            lowest = min((one.writes for _, one in runs if one.writes is not None), default=1.0)
            least += [(label, lowest) for label, one in runs if one.writes == lowest < _LOW_AGREEMENT]
        writes, answers = map(_mean, zip(*means, strict=True))
        return AgreementSummary(writes, answers, len(groups), tuple(sorted(least, key=itemgetter(1))))

    @property
    def summaries(self) -> tuple[MetricSummary, ...]:
        """One summary per metric, over all agents. Not measured is not zero: means run over scored results only."""
        if self.totals:
            return self.totals
        summaries: list[MetricSummary] = []
        for place, name in enumerate(self.metrics):
            cases = self._measured_by(place)
            results = [case.results[place] for case in cases]
            summaries.append(MetricSummary.of(name, results, [case.cluster for case in cases]))
        return tuple(summaries)

    def _measured_by(self, place: int) -> list[CaseResult]:
        """Return the cases that the metric at a position measures."""
        return [case for case in self.cases if place not in case.apart]

    def results(self) -> Iterator[tuple[CaseResult, MetricResult]]:
        """Yield every result with its case, without those of metrics that measure other cases.

        Raises:
            InvalidDataError: This is a report of totals. It must not look like one without failures.
        """
        if self.totals:
            raise InvalidDataError("a report of totals has no single results; read them where they were written")
        for case in self.cases:
            for result in case.own_results:
                yield case, result

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the gate holds, with the number of cases by outcome and a sentence; every view shows this."""
        shares = [summary.coverage for summary in self.summaries if summary.coverage is not None]
        tally = Tally.of_counts(self.outcomes) if self.totals else Tally.of(self._trials())
        return tally.verdict(self.gate, interrupted=self.interrupted, answered=min(shares, default=None))

    @property
    def passed(self) -> bool:
        """Whether the gate holds: by default, whether every case passed and the evaluation was completed."""
        return self.verdict.passed

    def __bool__(self) -> bool:
        """Return `passed`, so that `assert evaluate(...)` is a gate."""
        return self.passed

    def _trials(self) -> Iterator[Trial]:
        """Yield the cases for the verdict; the rows of an app that ran are one case, with all their results."""
        if not any(case.apart for case in self.cases):
            # The cases of a cluster without trials are different cases.
            yield from (_trial(one.index if one.trial is None else one.cluster, [one]) for one in self.cases)
            return
        runs: dict[tuple[Hashable, ...], list[CaseResult]] = {}
        for case in self.cases:
            runs.setdefault((case.agent, case.cluster, case.trial), []).append(case)
        for (_, golden, _), rows in runs.items():
            yield _trial(golden, rows)

    def to_dict(self, redactor: Redactor = DEFAULT) -> dict[str, Any]:
        """Return this as JSON values: `verdict`, `metrics` (one summary each) and `cases` (one entry each).

        With trials also `trials` and `trial_summaries`; with several runs of one golden or question also `agreement`;
        `interrupted` if it was; and `about` if it has entries. A report of totals has `case_count` in place of `cases`.

        Args:
            redactor: Redacts values and texts; `toolgrade.redact.OFF` leaves them. Reasons and messages of findings
                were redacted with the default rules when they were made.
        """
        plain: dict[str, Any] = {"verdict": redactor(self.verdict.to_dict())}
        if self.gate != Gate():
            plain["gate"] = self.gate.to_dict()
        plain["metrics"] = [summary.to_dict() for summary in self.summaries]
        if self.totals:
            plain["case_count"] = self.case_count
        else:
            plain["cases"] = [case.to_dict(redactor) for case in self.cases]
        if self.trials is not None:
            plain["trials"] = self.trials
            plain["trial_summaries"] = [summary.to_dict() for summary in self.trial_summaries]
        if self.agreement is not None:
            plain["agreement"] = redactor(to_json_value(self.agreement._asdict()))
        if self.interrupted:
            plain["interrupted"] = True
        if self.about:
            plain["about"] = redactor(dict(self.about))
        return dict(replace_nonfinite(plain))

    def to_json(self, *, indent: int | None = None, redactor: Redactor = DEFAULT) -> str:
        """Return `to_dict()` as JSON text."""
        return json_text(self.to_dict(redactor), indent=indent)

    def to_rows(self, redactor: Redactor = DEFAULT) -> list[dict[str, Any]]:
        """Return one object per result, such as for a data frame: its case, metric, outcome and reason, redacted.

        The keys are `case`, `agent`, `trial`, `metric`, `status`, `score`, `passed`, `threshold`, `reason`, `error` and
        `tags`; what a result does not have is `None`.

        Raises:
            InvalidDataError: This is a report of totals, which has no single results.
        """
        return [
            {
                "case": redactor(case.name),
                "agent": case.agent,
                "trial": case.trial,
                "metric": result.metric,
                "status": result.status.value,
                "score": result.score,
                "passed": result.passed,
                "threshold": result.threshold,
                "reason": redactor(result.reason),
                "error": redactor(result.error),
                "tags": redactor(list(case.case.tags)),
            }
            for case, result in self.results()
        ]

    def print(self, title: str | None = None) -> None:
        """Print the report to the terminal; see `toolgrade.report.terminal.print_report` for more options."""
        _module("terminal").print_report(self, title=title)

    def __str__(self) -> str:
        """Return what happened in up to three sentences, and one line per metric: its mean and counts.

        With several agents, each has a line, then follows what differs.
        """
        redacted: Report = _module("redaction").redact(self)
        agents, sentences = redacted.agents, _module("text.headline").headline(redacted)
        if len(agents) <= 1:
            return "\n".join([*sentences, *map(str, self.summaries)])
        lines = [f"{name}: {summary}" for name in agents for summary in redacted.of_agent(name).summaries]
        comparisons: tuple[Comparison, ...] = _module("pairing").compare_agents(self, resamples=0)
        for name, comparison in zip(agents[1:], comparisons, strict=True):
            lines += [f"{name} against {agents[0]}: {metric}" for metric in comparison.metrics]
        return "\n".join([*sentences, *lines])

    def _repr_html_(self) -> str:
        """Return what happened, the totals and the worst cases for a notebook; each case has a view of its own."""
        fragment: str = _module("html.page").report_fragment(self)
        return fragment


def _trial(golden: Hashable, rows: Sequence[CaseResult]) -> Trial:
    """Return the rows of one case as a trial of its golden."""
    results = [result for row in rows for result in row.own_results]
    end = next((row.wrong_end for row in rows if row.wrong_end is not None), None)
    outcome, agent = outcome_of(results, end), rows[0].agent
    if end is None and outcome in {"passed", "failed"}:
        return Trial((agent, golden), outcome)
    return Trial((agent, golden), outcome, rows[0].label, str(DEFAULT(outcome_reason(results, end))))


def _module(name: str) -> ModuleType:
    """Return a module of this package by its name; those that import this module are loaded only when used."""
    return import_module(f"{__package__}.{name}")
