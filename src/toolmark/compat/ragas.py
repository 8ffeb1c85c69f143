"""ToolCallAccuracy and ToolCallF1 of ragas, as its documentation has them, over toolmark's alignment.

docs/compat.md lists where ragas differs from its documentation or from itself, and what is done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from toolmark._internal.text import number_text, plural
from toolmark.calls import ToolCall
from toolmark.compat._matching_presets import (
    Rule,
    View,
    align_slices,
    by_rule,
    called_items,
    differing,
    findings,
    no_objects,
)
from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Alignment
from toolmark.metrics.base import Measurement
from toolmark.metrics.wording import arithmetic


@dataclass(frozen=True, eq=False)
class ToolCallAccuracy(View):
    """How many of the expected arguments were called, if the tools are the expected ones in sequence; else 0.

    Let m calls be expected and n made. The sequences are aligned if the names of the first min(m, n) calls are the same
    one by one; with `strict_order=False`, if as many calls can be paired by name, and they are paired so that the most
    arguments agree. The score is the mean argument accuracy of these pairs, times the coverage min(m, n) / max(m, n).
    Nothing expected and nothing called scores 1; exactly one of the two scores 0.

    The argument accuracy of a pair is the share of expected arguments that were called with an equal value (toolmark's
    rules for values: `1 != "1"`); further arguments cost nothing, unless none were expected: then it is 1 without any
    argument, and 0 with some.

    Args:
        strict_order: The order of the calls counts.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.
    """

    strict_order: bool = True

    @property
    def _name(self) -> str:
        return "ragas.tool_call_accuracy"

    @property
    def _options(self) -> Sequence[str]:
        return [] if self.strict_order else ["strict_order=False"]

    def _compared(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Measurement:
        wanted = [by_rule(call, _rule(call), by_argument=True) for call in expected]
        made = called_items(called)
        if self.strict_order:
            shared = range(min(len(wanted), len(made)))
            slices = [(range(index, index + 1), range(index, index + 1)) for index in shared]
            rest = (range(len(shared), len(wanted)), range(len(shared), len(made)))
            alignment = align_slices(wanted, made, [*slices, rest])
        else:
            alignment = align(wanted, made, arguments=True)
        score, text = _accuracy(alignment)
        return Measurement(
            scores={"accuracy": score},
            sums={"accuracy": text},
            findings=findings(alignment, expected, called),
            warnings=no_objects(called),
            alignment=alignment,
        )


@dataclass(frozen=True, eq=False)
class ToolCallF1(View):
    """F1 of the calls that match in name and all arguments, in any order.

    With w matching pairs, m expected calls and n made, the score is 2w / (m + n). Each call counts, so that a call made
    twice matches one that is expected twice, and no single call matches both. Nothing expected and nothing called
    scores 1; exactly one of the two scores 0.

    Args:
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.
    """

    @property
    def _name(self) -> str:
        return "ragas.tool_call_f1"

    def _compared(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Measurement:
        # By a rule that is all or nothing: with partial credit the best sum need not have the most equal pairs.
        equal = partial(differing, mode="exact")
        alignment = align([by_rule(call, equal) for call in expected], called_items(called), arguments=True)
        return Measurement(
            scores={"f1": alignment.f1},
            sums={"f1": arithmetic(alignment, "f1", exact=False)},
            findings=findings(alignment, expected, called),
            warnings=no_objects(called),
            alignment=alignment,
        )


def _rule(call: ToolCall) -> Rule:
    """Return the rule by which expected arguments must have been called; where there are none, none may have been."""
    return partial(differing, mode="superset" if call.arguments else "exact")


def _accuracy(alignment: Alignment) -> tuple[float, str]:
    m, n = alignment.expected_count, alignment.called_count
    shared = min(m, n)
    if shared and len(alignment.pairs) < shared:
        pairs = f"{len(alignment.pairs)} of {plural(shared, 'pair')}"
        return 0.0, f"sequences of {m} expected and {n} called do not align ({pairs} of equal name) = 0"
    score = alignment.score("longest")
    if not shared:
        return score, arithmetic(alignment, "longest", exact=False)
    mean = number_text(float(alignment.matched / shared))
    return score, f"mean argument accuracy {mean} x coverage {shared} / {max(m, n)} = {number_text(score)}"
