"""What the views of other libraries share: rules for arguments, calls as they are compared, and yes-or-no scores.

A view computes nothing of its own: calls are aligned by `toolmark.matching.align`, optimally, and the score is read off
the alignment. Where a library compares arguments by a rule that is not toolmark's, the rule stands in the place of the
expected arguments (`Ruled`), so that the search, the pairs that are shown and redaction stay the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, get_args

from toolmark._internal.json import JsonObject
from toolmark._internal.text import plural
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError
from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Alignment, Item
from toolmark.matching.argument_pattern import ONE, ZERO, Mismatches, Ratio, Template
from toolmark.matching.json_compare import Difference, argument_differences
from toolmark.matching.redacted_values import has_mark, without_marks
from toolmark.metrics.base import CallMetric, Measurement, expected_calls, status_of
from toolmark.metrics.comparable_calls import called_item, expected_item, partial_comparison_warnings
from toolmark.metrics.wording import alignment_findings
from toolmark.result import Finding

KeysMode: TypeAlias = Literal["exact", "subset", "superset"]
"""How the arguments of a called tool relate to the expected ones; see `differing`."""

Rule: TypeAlias = Callable[[JsonObject, JsonObject], Iterable[Difference]]
"""Yields where called arguments (the second) are not what expected ones (the first) ask for; nothing if they are."""

Side: TypeAlias = Literal["expected", "called"]

_FREE: Final = {"subset": "missing_argument", "superset": "extra_argument"}


def differing(expected: JsonObject, called: JsonObject, *, mode: KeysMode) -> Iterator[Difference]:
    """Yield what keeps called arguments from being what a mode asks for.

    Args:
        expected: The expected arguments.
        called: The called ones.
        mode: `exact`: equal; `subset`: every called argument is an expected one; `superset`: every expected one was
            called. Subset and superset are about the keys at the top alone: the values of a key, objects among them,
            must be equal as a whole.
    """
    for difference in argument_differences(expected, called):
        if difference.kind != _FREE.get(mode) or len(difference.path) > 1:
            yield difference


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ruled(Template):
    """An expected argument object that is compared by a rule.

    Attributes:
        rule: The rule.
        by_argument: The similarity is the share of expected arguments without a difference; otherwise it is 1 without
            any difference, and 0 with one. Without expected arguments it is all or nothing anyway.
    """

    rule: Rule
    by_argument: bool = False

    def ratio(self, called: dict[str, Any]) -> Ratio:
        """Return how similar a called argument object is; what is redacted on either side is left out."""
        wanted, made, _ = self._known(called)
        differences = iter(self.rule(wanted, made))
        first = next(differences, None)
        if first is None:
            return ONE
        if not self.by_argument or not wanted:
            return ZERO
        wrong = {first.path[:1], *(difference.path[:1] for difference in differences)}
        return len(wanted) - len(wrong), len(wanted)

    def mismatches(self, called: dict[str, Any]) -> Mismatches:
        """Return where a called argument object differs, and what is redacted."""
        wanted, made, hidden = self._known(called)
        return Mismatches(list(self.rule(wanted, made)), hidden)

    def _known(self, called: JsonObject) -> tuple[JsonObject, JsonObject, list[tuple[str | int, ...]]]:
        tree = dict(self.tree)
        return without_marks(tree, called) if has_mark(tree) or has_mark(called) else (tree, called, [])


@dataclass(frozen=True, eq=False, kw_only=True)
class View(CallMetric):
    """Base of the views. They compare the `tools_called` of a case with its `expected_tools`, a plain list of calls."""

    threshold: float = 0.5
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        self._set_threshold()

    @abstractmethod
    def _compared(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Measurement:
        """Return what there is to say of two lists of calls."""

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase) -> Measurement:
        found = self._compared(expected_calls(case, type(self).__name__), calls)
        warnings = [
            *found.warnings,
            *(partial_comparison_warnings(found.alignment) if found.alignment is not None else ()),
        ]
        return replace(found, warnings=warnings)


def one_of(option: str, value: object, known: object) -> None:
    """Check that an option is one of the values of a `Literal`.

    Raises:
        ConfigurationError: It is not.
    """
    if not isinstance(value, str) or value not in get_args(known):
        message = f"{option} must be one of {', '.join(get_args(known))}; got {value!r}"
        raise ConfigurationError(message)


def by_rule(call: ToolCall, rule: Rule, *, by_argument: bool = False) -> Item:
    """Return an expected call whose arguments are compared by a rule; see `Ruled`.

    A call that does not say which arguments it expects still matches any.
    """
    item = expected_item(call)
    if "input_parameters" not in call.model_fields_set:
        return item
    return item._replace(arguments=Ruled(call.arguments, rule=rule, by_argument=by_argument))


def called_items(calls: Iterable[ToolCall]) -> list[Item]:
    """Return called tools as they are compared."""
    return [called_item(call) for call in calls]


def no_objects(calls: Iterable[ToolCall]) -> list[str]:
    """Return the warning that some calls had no argument object, or nothing where each had one."""
    amount = sum(status_of(call) is CallStatus.INVALID_ARGUMENTS for call in calls)
    if not amount:
        return []
    return [f"{plural(amount, 'call')} had arguments that were no JSON object; compared as if there were none"]


def align_slices(expected: Sequence[Item], called: Sequence[Item], slices: Sequence[tuple[range, range]]) -> Alignment:
    """Return an alignment in which a call may only be paired with one of its own slice, in any order within it.

    So pairs may cross within a slice, and in no other way.

    Args:
        expected: The expected calls.
        called: The called tools.
        slices: Positions on either side that belong together; each position is in exactly one of them.
    """
    parts = [_aligned(expected, called, ours, theirs) for ours, theirs in slices]
    left = [index for part in parts for index in part.missing]
    over = [index for part in parts for index in part.unexpected]
    rest = _aligned(expected, called, left, over)  # called, but in another slice
    return Alignment(
        expected_count=len(expected),
        called_count=len(called),
        ordered=True,
        matched=sum((part.matched for part in parts), Fraction(0)),
        pairs=tuple(sorted((pair for part in parts for pair in part.pairs), key=lambda pair: pair.expected)),
        out_of_order=rest.pairs,
        missing=rest.missing,
        unexpected=rest.unexpected,
    )


def _aligned(expected: Sequence[Item], called: Sequence[Item], ours: Sequence[int], theirs: Sequence[int]) -> Alignment:
    some = align([expected[index] for index in ours], [called[index] for index in theirs], arguments=True)
    return some.placed(ours, theirs)


def findings(alignment: Alignment, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> tuple[Finding, ...]:
    """Return everything that an alignment shows to be wrong; its positions are those of the two lists."""
    return alignment_findings(alignment, [call.name for call in expected], [call.name for call in called])


def verdict(
    alignment: Alignment,
    expected: Sequence[ToolCall],
    called: Sequence[ToolCall],
    *,
    mode: str,
    whole: Collection[Side],
    also: Sequence[Finding] = (),
) -> Measurement:
    """Return 1 if every call of the sides that must be whole has a partner that it agrees with, else 0.

    The sum of similarities is greatest, so it is the number of calls of a side exactly if all of them can be matched
    at the same time.

    Args:
        alignment: Of the calls that count.
        expected: All expected calls of the case.
        called: All called tools of the case.
        mode: What was asked for, in words.
        whole: The sides of which no call may be left over.
        also: Findings beside those of the alignment; any of them makes it 0.
    """
    sizes: dict[Side, int] = {"expected": alignment.expected_count, "called": alignment.called_count}
    score = float(not also and all(sizes[side] == alignment.matched for side in whole))
    free = {kind for side, kind in (("expected", "missing"), ("called", "unexpected")) if side not in whole}
    agree = sum(pair.similarity == 1 for pair in alignment.pairs)
    total = f"{agree} of {sizes['expected']} expected and of {sizes['called']} called agree"
    return Measurement(
        scores={"match": score},
        sums={"match": f"{mode}, {total} = {score:g}"},
        findings=[finding for finding in (*findings(alignment, expected, called), *also) if finding.kind not in free],
        alignment=alignment,
    )
