"""The scores of a judged case, from verdicts alone: the formulas of docs/judge.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum


@dataclass(frozen=True, slots=True)
class Part:
    """One score with what stands behind it.

    Attributes:
        score: In [0, 1]; `None` where nothing was decided.
        low: The score if every open question were answered no.
        high: The score if every open question were answered yes.
        decided: Questions with an answer, by code or by the judge.
        asked: All questions.
    """

    score: float | None
    low: float
    high: float
    decided: int
    asked: int

    @property
    def coverage(self) -> float:
        """The share of questions that were decided, in [0, 1]; 1 where there was none."""
        return self.decided / self.asked if self.asked else 1.0


def selection(calls: Sequence[bool | None], missing: int | None) -> Part:
    """Return the selection score of a unit: yes / (yes + no).

    Args:
        calls: For each call whether it was the right one; `None` where that is open.
        missing: How many needed calls are missing, each of which adds a no; `None` where that is open. A unit without
            calls scores 1 if none is missing, else 0.
    """
    decided = sum(call is not None for call in calls) + (missing is not None)
    asked = len(calls) + 1
    if not calls:
        score = None if missing is None else float(missing == 0)
        return Part(score, score or 0.0, 1.0 if score is None else score, decided, asked)
    yes, no, still_open = _counted(calls)
    known, worst = no + (missing or 0), no + (1 if missing is None else missing)
    return Part(
        _share(yes, known),
        yes / (yes + worst + still_open),
        (yes + still_open) / (yes + known + still_open),
        decided,
        asked,
    )


def arguments(calls: Sequence[bool | None]) -> Part | None:
    """Return the argument score of a unit: yes / (yes + no) over its calls; `None` where it has none to be judged."""
    if not calls:
        return None
    yes, no, still_open = _counted(calls)
    return Part(_share(yes, no), yes / len(calls), (yes + still_open) / len(calls), len(calls) - still_open, len(calls))


def mean(units: Iterable[Part | None]) -> Part | None:
    """Return the mean over the units that were decided; bounds and coverage are over all. `None` without units."""
    parts = [unit for unit in units if unit is not None]
    if not parts:
        return None
    scores = [part.score for part in parts if part.score is not None]
    return Part(
        fsum(scores) / len(scores) if scores else None,
        fsum(part.low for part in parts) / len(parts),
        fsum(part.high for part in parts) / len(parts),
        sum(part.decided for part in parts),
        sum(part.asked for part in parts),
    )


def _counted(calls: Sequence[bool | None]) -> tuple[int, int, int]:
    yes = sum(call is True for call in calls)
    no = sum(call is False for call in calls)
    return yes, no, len(calls) - yes - no


def _share(yes: int, no: int) -> float | None:
    return yes / (yes + no) if yes + no else None
