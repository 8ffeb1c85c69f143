"""Shared base of the metrics that follow other libraries: a preset says how calls are aligned and scored.

These metrics compute nothing themselves. `toolgrade.matching.align` aligns the calls optimally, and the score follows
from the alignment. If a library has its own rule for arguments, the rule replaces the expected arguments
(`RuleTemplate`), so that search, reported pairs and redaction stay the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from toolgrade._internal.json import JsonObject
from toolgrade._internal.options import require_one_of
from toolgrade._internal.text import plural, printable
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.cases import TestCase
from toolgrade.matching.align_calls import align
from toolgrade.matching.alignment import Alignment, Item
from toolgrade.matching.argument_pattern import ONE, ZERO, Mismatches, Ratio, Template
from toolgrade.matching.json_compare import Difference, argument_differences
from toolgrade.matching.redacted_values import without_marks
from toolgrade.metrics.base import CallMetric, Measurement, expected_calls, status_of
from toolgrade.metrics.comparable_calls import called_item, expected_item, partial_comparison_warnings
from toolgrade.metrics.wording import alignment_findings, arithmetic
from toolgrade.result import Finding

KeysMode: TypeAlias = Literal["exact", "subset", "superset"]
"""Relation of called arguments to expected ones; see `key_differences`."""

Rule: TypeAlias = Callable[[JsonObject, JsonObject], Iterable[Difference]]
"""Yields the differences of called arguments (the second) from expected ones (the first)."""

_ALLOWED: Final = {"subset": "missing_argument", "superset": "extra_argument"}


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules by which a library compares calls in one of its modes.

    With `binary` the score is 1 if every call has an equal partner, else 0; otherwise it is F1. `allowed` is the kind
    of calls without a partner that cost nothing: `missing` or `unexpected`. `mode` is the name of the mode in reasons.
    """

    mode: str
    allowed: Literal["missing", "unexpected", "neither"] = "neither"
    ordered: bool = False
    arguments: bool = True
    binary: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class PresetMetric(CallMetric):
    """Base of the metrics with a preset.

    They compare the `tools_called` of a case with its `expected_tools`, which must be a plain list of calls.
    """

    _choices: ClassVar[Mapping[str, object]] = {}
    """For each option with fixed values, the `Literal` of these."""
    _labels: ClassVar[Mapping[str, str]] = {}
    """For each option, its text in the label if it is not the default; `{}` stands for the value."""

    threshold: float = 0.5
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        for option, literal in self._choices.items():
            require_one_of(option, getattr(self, option), get_args(literal))
        super().__post_init__()

    @property
    def _options(self) -> Sequence[str]:
        entries = {entry.name: entry for entry in fields(self)}
        texts: list[str] = []
        for option, text in self._labels.items():
            value = getattr(self, option)
            if value != entries[option].default:
                texts.append(text.format(printable(str(value))))
        return texts

    @property
    @abstractmethod
    def _preset(self) -> Preset:
        """The preset that the options select."""

    def _expected_item(self, call: ToolCall) -> Item:
        """Return an expected call as it is compared."""
        return expected_item(call)

    def _align(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Alignment:
        """Return the alignment; its positions are those of the two lists."""
        preset = self._preset
        items = [self._expected_item(call) for call in expected]
        return align(items, called_items(called), ordered=preset.ordered, arguments=preset.arguments)

    def _extra_findings(self, _expected: Sequence[ToolCall], _called: Sequence[ToolCall]) -> Sequence[Finding]:
        """Return findings besides those of the alignment; any of them prevents a score of 1."""
        return ()

    def _warnings(self, _expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> list[str]:
        """Return what makes the score less certain."""
        return broken_argument_warnings(called) if self._preset.arguments else []

    def _score(self, alignment: Alignment, extra_findings: Sequence[Finding], /) -> tuple[str, float, str]:
        """Return the name, the score and its arithmetic."""
        preset = self._preset
        if not preset.binary:
            return "f1", alignment.f1, arithmetic(alignment, "f1", exact=False)
        # Matched weight is maximal, so it equals the size of a side exactly if all its calls can be matched at once.
        sizes = {"missing": alignment.expected_count, "unexpected": alignment.called_count}
        complete = all(size == alignment.matched for kind, size in sizes.items() if kind != preset.allowed)
        score = float(complete and not extra_findings)
        equal = sum(pair.similarity == 1 for pair in alignment.pairs)
        total = f"{equal} of {alignment.expected_count} expected and of {alignment.called_count} called agree"
        return "match", score, f"{preset.mode}, {total} = {score:g}"

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase) -> Measurement:
        return self._compare(expected_calls(case, type(self).__name__), calls)

    def _compare(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Measurement:
        return self._measure_alignment(
            self._align(expected, called), expected, called, self._warnings(expected, called)
        )

    def _measure_alignment(
        self, alignment: Alignment, expected: Sequence[ToolCall], called: Sequence[ToolCall], warnings: Sequence[str]
    ) -> Measurement:
        extra = self._extra_findings(expected, called)
        name, score, text = self._score(alignment, extra)
        names = [call.name for call in expected], [call.name for call in called]
        findings = [*alignment_findings(alignment, *names), *extra]
        return Measurement(
            scores={name: score},
            sums={name: text},
            findings=[finding for finding in findings if finding.kind != self._preset.allowed],
            warnings=[*warnings, *partial_comparison_warnings(alignment)],
            alignment=alignment,
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RuleTemplate(Template):
    """An expected argument object that is compared by a rule.

    With `by_argument` the similarity is the share of expected arguments without a difference; otherwise, and without
    expected arguments, it is 1 without any difference and else 0.
    """

    rule: Rule
    by_argument: bool = False

    def ratio(self, called: dict[str, Any]) -> Ratio:
        """Return the similarity of called arguments; values that are redacted on either side are left out."""
        expected, called, _ = without_marks(dict(self.tree), called)
        wrong = {difference.path[:1] for difference in self.rule(expected, called)}
        if not wrong:
            return ONE
        if not self.by_argument or not expected:
            return ZERO
        return len(expected) - len(wrong), len(expected)

    def mismatches(self, called: dict[str, Any]) -> Mismatches:
        """Return the differences of called arguments, and what is redacted."""
        expected, called, hidden = without_marks(dict(self.tree), called)
        return Mismatches(list(self.rule(expected, called)), hidden)


def key_differences(expected: JsonObject, called: JsonObject, *, mode: KeysMode) -> Iterator[Difference]:
    """Yield the differences of called arguments from what a mode asks for.

    `exact`: both are equal; `subset`: every called argument is expected; `superset`: every expected argument is called.
    Subset and superset concern the top-level keys alone: values, objects among them, must be equal as a whole.
    """
    for difference in argument_differences(expected, called):
        if difference.kind != _ALLOWED.get(mode) or len(difference.path) > 1:
            yield difference


def ruled_item(call: ToolCall, rule: Rule, *, by_argument: bool = False) -> Item:
    """Return an expected call whose arguments are compared by a rule; unspecified ones still match any."""
    item = expected_item(call)
    if "input_parameters" not in call.model_fields_set:
        return item
    return item._replace(arguments=RuleTemplate(call.arguments, rule=rule, by_argument=by_argument))


def called_items(calls: Iterable[ToolCall]) -> list[Item]:
    """Return called tools as they are compared."""
    return [called_item(call) for call in calls]


def broken_argument_warnings(calls: Iterable[ToolCall]) -> list[str]:
    """Return the warning that the arguments of some calls were not JSON objects, or nothing."""
    amount = sum(status_of(call) is CallStatus.INVALID_ARGUMENTS for call in calls)
    if not amount:
        return []
    return [f"arguments of {plural(amount, 'call')} were not a JSON object; such arguments equal no others"]


def align_slices(expected: Sequence[Item], called: Sequence[Item], slices: Sequence[int]) -> Alignment:
    """Return an alignment in which a call may only be paired within its own slice, in any order there.

    `slices` has the slice of each position, the same on either side.
    """

    def sliced(items: Sequence[Item]) -> list[Item]:
        # Only calls of equal name can be paired, so the slice is made part of the name.
        return [item._replace(name=f"{number} {item.name}") for number, item in zip(slices, items, strict=False)]

    inside = align(sliced(expected), sliced(called), arguments=True)
    missing, unexpected = inside.missing, inside.unexpected
    rest = align([expected[index] for index in missing], [called[index] for index in unexpected], arguments=True)
    rest = rest.placed(missing, unexpected)  # called, but in another slice
    return replace(inside, ordered=True, out_of_order=rest.pairs, missing=rest.missing, unexpected=rest.unexpected)
