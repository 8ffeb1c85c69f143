"""Agreement of runs: how far the writes and the answer of a run agree with those of other runs of the same task.

It needs no expectations. Runs that all fail alike agree, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Final, NamedTuple, TypeVar

from toolgrade._internal.budget import CaseBudget
from toolgrade._internal.json import is_redacted
from toolgrade.calls import ToolCall, ToolEffect
from toolgrade.cases import ConversationalTestCase, TestCase
from toolgrade.errors import LimitError
from toolgrade.matching.json_compare import has_mark
from toolgrade.metrics.call_filter import CallFilter, ComparedCalls
from toolgrade.metrics.effect_alignment import changes_of_list
from toolgrade.metrics.task_success import answer_credit
from toolgrade.report.report import CaseResult, RunAgreement, one_case

T = TypeVar("T")

_GUESSES: Final = CallFilter(ignore_failed=True, effects={}, guess_effects=True, tools=None)
_LATER_TURN: Final = re.compile(r", turn (?!1$)[0-9]+$")
"""The end of the name of a case that is a later turn of a conversation: its input is no question of its own."""
_MOST_WORK: Final = 2_000_000
"""What may be compared of the runs of one report, by `RunContent.size`: some seconds."""


class RunContent(NamedTuple):
    """What of a run is compared with other runs; `None` for what is not known.

    Attributes:
        writes: The succeeded calls that change something, or whose effect is unknown.
        answer: The final answer, not empty.
    """

    writes: tuple[ToolCall, ...] | None = None
    answer: str | None = None

    @property
    def size(self) -> int:
        """About how long it takes to compare this run with another one, in characters of an answer."""
        return 100 + 300 * len(self.writes or ()) + len(self.answer or "")

    @classmethod
    def of(cls, case: object) -> RunContent:
        """Return what of a case is compared; effects are those of its `available_tools`, or guessed.

        Writes with values that are redacted or were not captured are not known, nor is what a simulated user spoilt.
        """
        compared = one_case(case)
        if compared is None or getattr(case, "user_error", None):
            return cls()
        output = compared.actual_output
        answer = output if isinstance(output, str) and output.strip() and not is_redacted(output) else None
        return cls(_writes_of(compared), answer)


def _writes_of(case: TestCase) -> tuple[ToolCall, ...] | None:
    if case.tools_called is None:
        return None
    effects = _GUESSES.tool_effects(case.available_tools).among(case.tools_called)
    done = _GUESSES.without_failed([], case.tools_called).called.values()
    writes = [call for call in done if effects.of(call.name) is not ToolEffect.READ]
    if not all(call.captured("input_parameters") and not has_mark(call.arguments) for call in writes):
        return None
    # Without their turns: simulated users do not ask for the same in the same turn.
    return tuple([ToolCall(name=call.name, input_parameters=call.arguments) for call in writes])


def agreements(runs: Sequence[RunContent]) -> list[tuple[float | None, float | None]]:
    """Return how far the writes and the answer of each run agree with those of the others, each in [0, 1].

    Two lists of m and n writes agree by 2 w / (m + n), where w is the weight of their alignment as
    `TaskSuccessMetric(calls_only=True)` aligns them, the mean of both directions; without any write by 1. Two answers
    agree by the mean of what `answer_credit` says in both directions. A run that lacks something is no other run, and
    has `None`, as has a run without another one.

    Raises:
        LimitError: The alignment of the writes takes too many steps.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.evaluation.agreement import RunContent, agreements
        >>> cancel = [ToolCall(name="cancel_order", input_parameters={"id": 7})]
        >>> runs = [LLMTestCase(tools_called=calls, actual_output="Done.") for calls in (cancel, cancel, [])]
        >>> agreements([RunContent.of(run) for run in runs])
        [(0.5, 1.0), (0.5, 1.0), (0.0, 1.0)]
    """
    writes = _means([run.writes for run in runs], _compare_writes)
    return list(zip(writes, _means([run.answer for run in runs], _compare_answers), strict=True))


def with_agreement(cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    """Return the cases with the agreement of the runs of one golden, or else of one question.

    Groups of runs are compared in their order, as long as that takes seconds.
    """
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, case in enumerate(cases):
        key = _question_of(case.case) if case.trial is None else (case.agent, case.cluster)
        if key is not None:
            groups[key].append(place)
    changed, room = list(cases), _MOST_WORK
    for places in groups.values():
        # An expression of the user for failures, and an alignment, may take too long.
        with suppress(LimitError), CaseBudget():
            runs = [RunContent.of(cases[place].case) for place in places] if len(places) > 1 else []
            size = len(runs) * sum(run.size for run in runs)
            if size <= room:
                room -= size
                for place, one in zip(places, agreements(runs), strict=False):  # none for a run alone
                    if one != (None, None):
                        changed[place] = replace(cases[place], agreement=RunAgreement(cases[places[0]].index, *one))
    return tuple(changed)


def _question_of(case: object) -> str | None:
    """Return a key that cases without an id share if they have the same input and expectations.

    `None` for cases with an id or without an input, and for turns of a conversation, whose meaning is in what was said
    before.
    """
    if getattr(case, "id", None):
        return None
    if isinstance(case, ConversationalTestCase):
        questions = [turn.content for turn in case.turns if turn.role == "user"]
        return repr(questions) if questions else None
    compared = one_case(case)
    if compared is None or not compared.input or _LATER_TURN.search(str(compared.name)):
        return None
    if compared.run is not None and compared.run.conversation_id:
        return None
    names = ("input", "expected_tools", "expected_output", "required_texts", "ends")
    return repr([getattr(compared, name) for name in names])


def _means(values: Sequence[T | None], compare: Callable[[T, T], Fraction]) -> list[float | None]:
    """Return for each value, where there is one, the mean of its comparisons with the others."""
    values_by_place = {place: value for place, value in enumerate(values) if value is not None}
    sums = dict.fromkeys(values_by_place, Fraction(0))
    for (one, left), (other, right) in combinations(values_by_place.items(), 2):
        result = compare(left, right)
        sums[one] += result
        sums[other] += result
    others = len(values_by_place) - 1
    return [
        float(sums[place] / others) if place in values_by_place and others else None for place in range(len(values))
    ]


def _compare_writes(left: Sequence[ToolCall], right: Sequence[ToolCall]) -> Fraction:
    if not (left and right):
        return Fraction(not (left or right))
    effects = dict.fromkeys([call.name for call in (*left, *right)], ToolEffect.WRITE)
    directions = [(dict(enumerate(one)), dict(enumerate(other))) for one, other in ((left, right), (right, left))]
    changes = [changes_of_list(ComparedCalls(*calls, effects), by_meaning=True) for calls in directions]
    return sum((one.writes.matched for one in changes), Fraction(0)) / (len(left) + len(right))


def _compare_answers(left: str, right: str) -> Fraction:
    return Fraction(1) if left == right else (answer_credit(left, right) + answer_credit(right, left)) / 2
