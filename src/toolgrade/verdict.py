"""The verdict: the outcome of each case, and whether enough cases passed for a gate.

Every view and every exit code reads it from here. An outcome takes the first of these that fits: the agent broke, a
metric is below its threshold, something could not be measured, everything passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from toolgrade._internal.options import read_share
from toolgrade._internal.text import percent, plural, printable, shorten
from toolgrade.calls import is_pending
from toolgrade.cases import ConversationalTestCase, Run, RunEnd, RunStatus
from toolgrade.errors import InvalidDataError
from toolgrade.result import TOLERANCE, MetricResult, ResultStatus

Outcome: TypeAlias = Literal["agent_error", "failed", "not_measured", "passed"]
"""What became of a case."""

OUTCOMES: Final[tuple[Outcome, ...]] = ("agent_error", "failed", "not_measured", "passed")
"""The outcomes in their order of precedence."""

OUTCOME_WORDS: Final[Mapping[Outcome, str]] = {
    "passed": "passed",
    "failed": "failed",
    "not_measured": "not measured",
    "agent_error": "agent error",
}
"""How the outcomes are named, in the order in which their counts are listed."""

_LONGEST_REASON = 160


class WrongEnd(NamedTuple):
    """Why a run did not end as its golden says, with the outcome that this gives the case."""

    outcome: Literal["agent_error", "failed"]
    why: str


def wrong_end(case: object) -> WrongEnd | None:
    """Return why the run of a case did not end as the case says (`ends`); `None` if it did, or nothing says how.

    A list of messages that ends with the answer of a tool does not say how it ended: its run is `stopped` without an
    error, and its calls are recorded ones. A run that
    ended well although the golden expects another end has failed; the agent did not break.
    """
    left = left_recording(case)
    if left is not None:  # what came after it was an answer to an error that the agent never meets
        return WrongEnd("failed", left)
    if getattr(case, "user_error", None) is not None:  # a user that broke leaves the agent in the middle
        return None
    stated: RunEnd = getattr(case, "ends", None) or "ok"
    actual, why = run_end(case)
    if actual is None or stated in {"any", actual}:
        return None
    if actual == "ok":
        return WrongEnd("failed", f"the run ended well, and must end with {stated!r}")
    if stated != "ok":
        why = f"{why} (the run must end with {stated!r})"
    return WrongEnd("agent_error", why)


def left_recording(case: object) -> str | None:
    """Return why the recording that was replayed does not answer a call of a case; `None` if it answers all."""
    if isinstance(case, ConversationalTestCase):
        waiting = [call for turn in case.turns for call in turn.tools_called or ()]
    else:
        run: Run | None = getattr(case, "run", None)
        waiting = [*(getattr(case, "tools_called", None) or ()), *(run.calls if run is not None else ())]
    for call in waiting:  # grows while it is walked
        if call.execution is not None:
            if call.execution.left_recording is not None:
                return call.execution.left_recording
            waiting += call.execution.children
    return None


def run_end(case: object) -> tuple[RunEnd | None, str]:
    """Return how the run of a case ended, `None` if nothing says it, and the reason if it did not end well."""
    if isinstance(case, ConversationalTestCase):
        return _end_of_turns(case)
    ended: bool | None = getattr(case, "ended", None)
    run: Run | None = getattr(case, "run", None)
    end: tuple[RunEnd | None, str] = (None, "") if run is None or is_record_only(run) else _end_of_run(run)
    if ended is None or (end[0] not in {None, "ok"} and not ended):
        return end
    return ("ok", "") if ended else ("stopped", "the run did not come to its own end")


def is_record_only(run: Run) -> bool:
    """Return whether a run only carries what a record lacks or its system prompt, and says nothing about a run."""
    return bool(run.warnings or run.instructions) and run.model_fields_set <= {"calls", "warnings", "instructions"}


def _end_of_run(run: Run) -> tuple[RunEnd | None, str]:
    if run.status is RunStatus.OK and run.error is None:
        return "ok", ""
    if run.status is RunStatus.INTERRUPTED:
        waiting = ", ".join(dict.fromkeys(repr(one.name) for one in filter(is_pending, run.calls)))
        return "interrupted", "the run waits for a person" + (f" to answer {waiting}" if waiting else "")
    if run.status is RunStatus.STOPPED:
        if run.error is None and any(call.execution is not None for call in run.calls[-1:]):
            return None, ""  # a recording without an answer, and that is all: it may be of one request
        return "stopped", run.error or "the run was stopped"
    return "error", run.error or "the run ended with an error"


def _end_of_turns(case: ConversationalTestCase) -> tuple[RunEnd | None, str]:
    """Return how the runs of a conversation ended: the first one that broke, or else the last one."""
    exchanges = [one for one in case.exchanges if one.was_asked]
    ends = [(one.number, *_end_of_metadata(turn.metadata)) for one in exchanges for turn in one.answers]
    broken = [end for end in ends if end[1] in {"error", "stopped"}]
    number, end, why = next(iter(broken), ends[-1] if ends else (0, None, ""))
    return end, f"turn {number}: {why}" if why and len(case.exchanges) > 1 else why


def _end_of_metadata(metadata: Mapping[str, Any]) -> tuple[RunEnd | None, str]:
    """Return how the run of a turn ended, which recorders write into its metadata."""
    try:
        return _end_of_run(Run(**{name: metadata[name] for name in ("status", "error") if name in metadata}))
    except InvalidDataError:  # keys of the user
        return None, ""


def outcome_of(results: Iterable[MetricResult], end: WrongEnd | None) -> Outcome:
    """Return the outcome of a case with these results."""
    if end is not None and end.outcome == "agent_error":
        return "agent_error"
    statuses = {(result.status, result.passed) for result in results}
    if end is not None or (ResultStatus.SCORED, False) in statuses:
        return "failed"
    could_measure = all(status is not ResultStatus.ERRORED for status, _ in statuses)
    return "passed" if could_measure and (ResultStatus.SCORED, True) in statuses else "not_measured"


def outcome_reason(results: Sequence[MetricResult], end: WrongEnd | None) -> str:
    """Return why a case has no score or its agent broke, in one sentence; empty if nothing was recorded."""
    if end is not None:
        return end.why
    for status in (ResultStatus.ERRORED, ResultStatus.SKIPPED):
        for result in results:
            text = (result.reason or result.error or "").split("\n", 1)[0].strip()
            if result.status is status and text:
                return without_status(text)
    return ""


def without_status(reason: str) -> str:
    """Return the reason of a result without a score, such as `no call was made.` of `Skipped: no call was made.`."""
    return reason.removeprefix("Not measured: ").removeprefix("Skipped: ")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How much is enough for an evaluation to pass.

    A case is *measured* if its outcome is `passed` or `failed`. A golden passes if at least `per_golden` of its
    measured trials pass. The gate does not hold without a measured golden, or if the evaluation was interrupted.

    Attributes:
        pass_rate: Least share of passing goldens among those with a measured trial, in [0, 1].
        per_golden: Least share of passing trials of a golden, in [0, 1].
        not_measured: Largest share of all cases that could not be measured, in [0, 1].
        agent_errors: Largest share of all cases whose agent broke, in [0, 1].
        min_answered: Least share of its questions that the judge of each metric answered, in [0, 1]; `None` for any. It
            does not hold if no judge was asked.

    Raises:
        ConfigurationError: A share is not a number from 0 to 1.

    Example:
        >>> from toolgrade import Gate, LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> weather = ToolCall(name="get_weather")
        >>> cases = [LLMTestCase(tools_called=calls, expected_tools=[weather]) for calls in ([weather], [weather], [])]
        >>> evaluate(cases, [ToolCorrectnessMetric()], gate=Gate(pass_rate=0.6)).passed
        True
    """

    pass_rate: float = 1.0
    per_golden: float = 1.0
    not_measured: float = 0.0
    agent_errors: float = 0.0
    min_answered: float | None = None

    def __post_init__(self) -> None:
        """Check the shares."""
        for entry in fields(self):
            value: object = getattr(self, entry.name)
            if value is not None or entry.default is not None:
                read_share(value, entry.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the shares that differ from the defaults, as JSON values."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}


class Trial(NamedTuple):
    """A case for the gate; trials of one golden have the same `golden`. `reason` as of `outcome_reason`."""

    golden: Hashable
    outcome: Outcome
    label: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the gate of an evaluation holds, and why.

    Attributes:
        passed: Whether it holds.
        counts: Number of cases by outcome, all four of them.
        sentence: Why, in one sentence: `43 of 300 cases failed, 3 could not be measured, 2 agents broke`.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCorrectnessMetric, evaluate
        >>> report = evaluate([LLMTestCase(tools_called=[], expected_tools=[])], [ToolCorrectnessMetric()])
        >>> report.verdict.passed, report.verdict.sentence
        (True, '1 case passed')
    """

    passed: bool
    counts: Mapping[Outcome, int]
    sentence: str

    @property
    def cases(self) -> int:
        """Number of all cases."""
        return sum(self.counts.values())

    @property
    def counts_text(self) -> str:
        """The counts in words: `12 passed, 3 failed, 1 not measured, 0 agent errors`."""
        counts = [
            f"{self.counts[outcome]:,} {OUTCOME_WORDS[outcome]}" for outcome in ("passed", "failed", "not_measured")
        ]
        return ", ".join([*counts, plural(self.counts["agent_error"], "agent error")])

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        return {"passed": self.passed, "counts": dict(self.counts), "sentence": self.sentence}


@dataclass(frozen=True)
class Tally:
    """Counts of cases for a gate.

    Attributes:
        counts: Number of cases by outcome.
        goldens: Number of goldens by how many of their measured trials passed, and how many there are.
        reasons: Why the first case with this outcome has no verdict of its scores.
    """

    counts: Counter[Outcome]
    goldens: Counter[tuple[int, int]]
    reasons: Mapping[Outcome, str] = field(default_factory=dict[Outcome, str])

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> Tally:
        """Return the counts of cases."""
        counts: Counter[Outcome] = Counter()
        goldens: dict[Hashable, tuple[int, int]] = {}
        reasons: dict[Outcome, str] = {}
        for trial in trials:
            counts[trial.outcome] += 1
            if trial.outcome in {"passed", "failed"}:
                passed, measured = goldens.get(trial.golden, (0, 0))
                goldens[trial.golden] = passed + (trial.outcome == "passed"), measured + 1
            if trial.reason and trial.outcome not in reasons:
                label = f"{trial.label}: " if trial.label else ""
                reasons[trial.outcome] = shorten(printable(f"{label}{trial.reason}"), _LONGEST_REASON)
        return cls(counts, Counter(goldens.values()), reasons)

    @classmethod
    def of_counts(cls, outcomes: Mapping[Outcome, int]) -> Tally:
        """Return the counts of cases each of which is a golden of its own."""
        goldens = {(1, 1): outcomes.get("passed", 0), (0, 1): outcomes.get("failed", 0)}
        return cls(Counter(outcomes), +Counter(goldens))

    def verdict(self, gate: Gate, *, interrupted: bool = False, answered: float | None = None) -> Verdict:
        """Return whether the gate holds; `answered` is the least share that the judge of a metric answered."""
        cases = sum(self.counts.values())
        counts: dict[Outcome, int] = {outcome: self.counts[outcome] for outcome in OUTCOMES}
        problems = ", ".join(self._problems(cases))
        unmet = list(self._unmet(gate, cases, answered))
        if interrupted or unmet:
            remarks = [problems or ("" if cases else "there are no cases"), *unmet]
            if interrupted:
                remarks.insert(0, f"the evaluation was interrupted after {plural(cases, 'case')}")
            return Verdict(passed=False, counts=counts, sentence="; ".join(filter(None, remarks)))
        sentence = f"{plural(cases, 'case')} passed"
        if problems:
            passed = f"{self.counts['passed']:,} of {plural(cases, 'case')} passed"
            sentence = f"{passed}, and the gate allows the rest: {problems}"
        return Verdict(passed=True, counts=counts, sentence=sentence)

    def _unmet(self, gate: Gate, cases: int, answered: float | None) -> Iterator[str]:
        """Yield the limits of a gate that do not hold; an empty text where the counts of the cases say enough."""
        passing, goldens = self._passing(gate.per_golden), self.goldens.total()
        if not goldens or passing < gate.pass_rate * goldens - TOLERANCE:
            is_plain = not goldens or (gate.pass_rate, gate.per_golden) == (1, 1)
            measured = f"{passing:,} of {plural(goldens, 'measured golden')} passed"
            yield "" if is_plain else f"{measured}, and the gate needs {percent(gate.pass_rate)}"
        limits: dict[Outcome, float] = {"not_measured": gate.not_measured, "agent_error": gate.agent_errors}
        if any(self.counts[outcome] > limit * cases + TOLERANCE for outcome, limit in limits.items()):
            yield ""
        if gate.min_answered is not None and (answered is None or answered < gate.min_answered - TOLERANCE):
            share = (
                "no judge was asked" if answered is None else f"the judge answered {percent(answered)} of its questions"
            )
            yield f"{share}, and the gate needs {percent(gate.min_answered)} of its answers"

    def _passing(self, share: float) -> int:
        """Return how many goldens pass, of whose measured trials at least this share must pass."""
        return sum(number for (passed, trials), number in self.goldens.items() if passed >= share * trials - TOLERANCE)

    def _problems(self, cases: int) -> list[str]:
        """Return the counts of the cases that did not pass, in words."""
        problems: list[str] = []
        of_all = f" of {plural(cases, 'case')}"
        if self.counts["failed"]:
            problems.append(f"{self.counts['failed']:,}{of_all} failed{self._reason('failed')}")
        if self.counts["not_measured"]:
            subject = f"{self.counts['not_measured']:,}{'' if problems else of_all}"
            problems.append(f"{subject} could not be measured{self._reason('not_measured')}")
        if self.counts["agent_error"]:
            where = "" if problems else f" in {plural(cases, 'case')}"
            problems.append(f"{plural(self.counts['agent_error'], 'agent')} broke{where}{self._reason('agent_error')}")
        return problems

    def _reason(self, outcome: Outcome) -> str:
        return f" ({self.reasons[outcome]})" if outcome in self.reasons else ""
