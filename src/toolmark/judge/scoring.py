"""Scores of a judged case, computed from verdicts alone: the formulas of docs/judge.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum


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
    decided = sum(call is not None for call in calls) + (missing is not None)
    total = len(calls) + 1
    if not calls:
        score = None if missing is None else float(missing == 0)
        return Part(score, score or 0.0, 1.0 if score is None else score, decided, total)
    yes, no, undecided = _counts(calls)
    no += missing or 0
    worst = no + (missing is None)  # an open question about missing calls stands for one call
    return Part(
        _share(yes, no),
        yes / (yes + worst + undecided),
        (yes + undecided) / (yes + no + undecided),
        decided,
        total,
    )


def arguments(calls: Sequence[bool | None]) -> Part | None:
    """Return the argument score of a unit: yes / (yes + no) over its calls; `None` for a unit without such calls."""
    if not calls:
        return None
    yes, no, undecided = _counts(calls)
    total = len(calls)
    return Part(_share(yes, no), yes / total, (yes + undecided) / total, total - undecided, total)


def mean(units: Iterable[Part | None]) -> Part | None:
    """Return the mean over the decided units; bounds and coverage are over all units. `None` without units."""
    parts = [unit for unit in units if unit is not None]
    if not parts:
        return None
    scores = [part.score for part in parts if part.score is not None]
    return Part(
        fsum(scores) / len(scores) if scores else None,
        fsum(part.low for part in parts) / len(parts),
        fsum(part.high for part in parts) / len(parts),
        sum(part.decided for part in parts),
        sum(part.total for part in parts),
    )


def _counts(calls: Sequence[bool | None]) -> tuple[int, int, int]:
    """Return the numbers of yes, no and undecided."""
    answers = list(calls)
    return answers.count(True), answers.count(False), answers.count(None)


def _share(yes: int, no: int) -> float | None:
    return yes / (yes + no) if yes + no else None
