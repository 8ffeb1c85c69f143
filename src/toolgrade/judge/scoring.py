"""Scores of a judged case, computed from verdicts alone: the formulas of docs/judge.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import fsum

from toolgrade.stats.number_checks import mean_of


@dataclass(frozen=True, slots=True)
class Part:
    """One score, in [0, 1], with its bounds and coverage; the score is `None` where nothing was decided.

    `low` and `high` are the scores if every open question were answered no, or yes. `decided` of `total` questions have
    an answer, from code or from the judge.
    """

    score: float | None
    low: float
    high: float
    decided: int
    total: int

    @property
    def coverage(self) -> float:
        """The share of questions that were decided, in [0, 1]; 1 where there was none."""
        return self.decided / self.total if self.total else 1.0


def selection(calls: Sequence[bool | None], missing: int | None) -> Part:
    """Return the selection score of a unit: yes / (yes + no).

    `calls` says of each call whether it was right, `None` where that is open. Each of the `missing` calls adds a no;
    `None` where that is open. A unit without calls scores 1 if none is missing, else 0.
    """
    is_open = missing is None
    # Not to call is the one decision of a unit without calls: it was right exactly if no call is missing.
    answers = calls or [None if is_open else missing == 0]
    # An open question about missing calls stands for one call, in the worst case.
    part = _part(answers, missing=missing or 0, open_missing=int(is_open))
    return replace(part, decided=len(calls) - calls.count(None) + (not is_open), total=len(calls) + 1)


def arguments(calls: Sequence[bool | None]) -> Part | None:
    """Return the argument score of a unit: yes / (yes + no) over its calls; `None` for a unit without such calls."""
    return _part(calls) if calls else None


def _part(answers: Sequence[bool | None], *, missing: int = 0, open_missing: int = 0) -> Part:
    yes, no, undecided = answers.count(True), answers.count(False) + missing, answers.count(None)
    score = yes / (yes + no) if yes + no else None
    low, high = yes / (yes + no + undecided + open_missing), (yes + undecided) / (yes + no + undecided)
    return Part(score, low, high, len(answers) - undecided, len(answers))


def mean(units: Iterable[Part | None]) -> Part | None:
    """Return the mean over the decided units; bounds and coverage are over all units. `None` without units."""
    parts = [unit for unit in units if unit is not None]
    if not parts:
        return None
    scores = [part.score for part in parts if part.score is not None]
    low = fsum(part.low for part in parts) / len(parts)
    high = fsum(part.high for part in parts) / len(parts)
    decided, total = sum(part.decided for part in parts), sum(part.total for part in parts)
    return Part(mean_of(scores), low, high, decided, total)
