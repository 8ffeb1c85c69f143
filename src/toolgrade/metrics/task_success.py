"""Task success: a metric that combines all that a case states about the task into one score."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from statistics import mean
from typing import Any, ClassVar, NamedTuple, get_args

from toolgrade._internal.json import REDACTED, is_number
from toolgrade._internal.options import enabled, read_share, require_one_of
from toolgrade._internal.text import number_text, printable
from toolgrade._internal.tool_names import matches, read_patterns
from toolgrade.calls import ToolCall, ToolEffect, ToolSpec
from toolgrade.cases import RunStatus, TestCase, WholeConversation
from toolgrade.errors import MissingExpectationError, MissingFieldError
from toolgrade.expect import AllOf, AnyOf, Approx, Contains, ContainsAll, Matcher, Not
from toolgrade.expect.plan import Expectation
from toolgrade.failed_calls import has_succeeded
from toolgrade.matching.alignment import Alignment, Pair, quotient
from toolgrade.metrics.base import Details, Measurement, Metric, result_of
from toolgrade.metrics.call_filter import CallFilter
from toolgrade.metrics.called_tools import (
    Compare,
    Undone,
    call_finding,
    called_tools,
    calls_in_turns,
    case_label,
    check_case,
    expectation_of,
    read_tools,
    recorded_run,
    text_of,
)
from toolgrade.metrics.effect_alignment import TaskChanges, changes_of_case
from toolgrade.metrics.plan_variants import has_forbidden_calls, plan_warnings
from toolgrade.metrics.text_search import TextIndex, compare_answer
from toolgrade.metrics.tool_effects import is_hand_over
from toolgrade.metrics.wording import arithmetic, choice_lines, partial_comparison_warnings
from toolgrade.result import Finding, MetricResult, display_value, redacted_value
from toolgrade.verdict import run_end


@dataclass(frozen=True, eq=False)
class TaskSuccessMetric(Metric):
    """Estimates whether the agent did its task, from all that the case states about it.

    A *write* is a call of a tool that changes something, a *read* any other call; calls that failed are left out.
    Expected and called writes are aligned one to one with the greatest sum w of similarities; the similarity of two
    calls is the share of leaves of their arguments that are equal. With m expected writes, n called writes and p pairs:

        effects = 2 p / (m + n), arguments = 2 w / (m + n)
        total = (effects + arguments) / 2 x (1 - read_weight + read_weight x reads) x the product of (1 + part) / 2

    `reads` is the share of the expected reads that were made, by name. The product is over the other parts that the
    case states, so that one that is not met at all halves the score:

    - `required_texts`: the share of them that the agent said at any time, as whole words, numbers and dates;
    - `ended`, with `ends`: 1 if the run ended as stated, else 0;
    - `answer`, with `expected_output`: of a text the share of its numbers, ids and names that the answer has, of a text
      without any the share of its words, of a matcher its credit.

    A part that the case does not state is skipped: it is neither in the `parts` of the result nor in the score.
    `effects` and `arguments` are skipped, too, and count as 1, if no write was expected or made. After a forbidden call
    the score is 0 (`forbidden`, stated by the option or by a plan, is then 0 and else 1). `order` is the share of w in
    the expected order; it does not affect the score. Of a plan the variant with the best total counts, writes and reads
    together. See docs/metrics.md.

    The effect of a tool comes from `effects`, then from the `effect` of the metric's `available_tools`, then from those
    of the case, then from a guess. An expected call of unknown effect counts as a write, and so do the calls of its
    tool; other calls of unknown effect are reported and not scored.

    Args:
        calls_only: Score the calls alone: total = arguments x (1 - read_weight + read_weight x reads).
        effects: `"read"` or `"write"` by name or pattern: `{"get_*": "read", "book": "write"}`. An exact name wins over
            patterns, and of several patterns the first that matches wins.
        available_tools: Tools with their `effect`, in any form that `ToolSpec` reads.
        guess_effects: If nothing else decides, guess from the verb in the tool's name; a warning lists the guesses.
        ignore_failed: Leave out calls that did nothing: `error`, `invalid_arguments`, `unknown_tool`, `rejected`,
            `cancelled`, `not_executed`, and those whose answer is an error (see `toolgrade.evaluate`). A `pending` call
            counts.
        forbidden: Names or patterns of tools whose calls must not succeed.
        read_weight: The weight of the expected reads, in [0, 1]; the default only decides between equal scores.
        compare: `"meaning"` compares every expected argument without a matcher as `toolgrade.expect.SameMeaning`, and
            findings list what counted as equal; `"exact"` compares JSON values.
        threshold: The lowest score that passes, in [0, 1]. At 0.98 everything but the reads must hold.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, TaskSuccessMetric, ToolCall
        >>> case = LLMTestCase(
        ...     expected_tools=[ToolCall(name="book_flight", input_parameters={"to": "New York", "seats": [1, 2]})],
        ...     tools_called=[ToolCall(name="book_flight", input_parameters={"to": "new york", "seats": [2, 1]})],
        ...     required_texts=["120", "aisle"],
        ...     actual_output="Booked for $120.00.",
        ... )
        >>> TaskSuccessMetric().measure(case).score
        0.75
    """

    _name: ClassVar[str] = "task_success"
    needs_expectation: ClassVar[bool] = True

    calls_only: bool = False
    effects: Mapping[str, ToolEffect | str] = field(default_factory=dict[str, "ToolEffect | str"])
    available_tools: Sequence[ToolSpec | ToolCall | dict[str, Any]] | None = None
    guess_effects: bool = True
    ignore_failed: bool = True
    forbidden: Sequence[str] = ()
    read_weight: float = 0.02
    compare: Compare = "meaning"
    threshold: float = 0.98
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False
    _filter: CallFilter = field(init=False, repr=False)
    _scoring: _Scoring = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        super().__post_init__()
        read_share(self.read_weight, "read_weight")
        require_one_of("compare", self.compare, get_args(Compare))
        tools = read_tools(self.available_tools)
        call_filter = CallFilter(
            ignore_failed=self.ignore_failed,
            effects=self.effects,
            guess_effects=self.guess_effects,
            tools=tools,
        )
        self._set(
            available_tools=tools,
            forbidden=read_patterns(self.forbidden, "forbidden"),
            _filter=call_filter,
            _scoring=_Scoring(self.calls_only, self.read_weight),
        )

    @property
    def _options(self) -> Sequence[str]:
        options = {
            "calls only": self.calls_only,
            "not guessed": not self.guess_effects,
            "with failed calls": not self.ignore_failed,
            "exact arguments": self.compare == "exact",
            "forbidden": self.forbidden,
            f"read_weight={self.read_weight:g}": self.read_weight != 0.02,  # noqa: PLR2004 - the default
        }
        return enabled(options)

    def _compute(self, case: TestCase) -> MetricResult:
        metric = type(self).__name__
        check_case(case, metric)
        parts = [] if self.calls_only else [*_required_texts(case), *_ended(case), *_answer(case)]
        if self.calls_only or case.expected_tools is not None:
            measurement = self._with_calls(case, expectation_of(case, metric), parts)
        elif parts:
            measurement = self._without_calls(case, parts)
        else:
            needs = f"{metric} needs expected_tools, expected_output, required_texts or ends{case_label(case)}"
            raise MissingExpectationError(
                f"{needs}; state at least one of them, such as expected_tools=[] for no calls"
            )
        return result_of(self, self._with_notes_and_turns(case, measurement))

    def _with_calls(
        self, case: TestCase, expected: list[ToolCall] | Expectation, parts: Sequence[_Term]
    ) -> Measurement:
        """Return the measurement of a case that states the calls; `parts` are what else it states."""
        metric = type(self).__name__
        calls = calls_in_turns(case, called_tools(case, metric), expected, metric)
        compared, variants = changes_of_case(case, expected, calls, self._filter, by_meaning=self.compare == "meaning")

        def total(changes: TaskChanges) -> float:
            return 0.0 if changes.forbidden else self._scoring.score(changes) * _product(parts)

        changes = max(variants, key=total)
        forbidden = self._forbidden_calls(compared.called, changes.forbidden)
        may_forbid = bool(self.forbidden)
        score = 0.0 if forbidden else total(changes)
        warnings = [*compared.warnings]
        if not isinstance(expected, list):
            may_forbid = may_forbid or any(map(has_forbidden_calls, expected.plans))
            whole = replace(changes.writes, gap=changes.writes.gap + changes.reads.gap)
            warnings = [*plan_warnings(expected, whole, arguments=True), *changes.warnings, *warnings]
        unknown = sum(finding.kind == "unknown_effect" for finding in compared.findings)
        if unknown and score:
            lowest = max(total(variant.with_unexpected(unknown)) for variant in variants)
            warnings.append(f"if those calls changed something, the score is {number_text(lowest)}")
        in_order = changes.align_in_order()
        explanation = _CallsExplained(
            scoring=self._scoring,
            score=score,
            # Without the function that aligns again, which holds the calls of the case.
            changes=replace(changes, align_in_order=_align_no_more),
            order=changes.ordered_share(in_order),
            out_of_order=in_order.out_of_order,
            parts=tuple(parts),
            called=tuple([call.name for call in calls]),
            forbidden=tuple(forbidden) if may_forbid else None,
            unknown=compared.findings,
            warnings=tuple(warnings),
            undone=compared.undone,
        )
        # A plan may have matchers of a user, whose texts are made by code of the user.
        return Measurement(
            {"total": score},
            explanation.details if isinstance(expected, list) else explanation.details(),
            expected_turns=changes.expected_turns,
        )

    def _without_calls(self, case: TestCase, parts: Sequence[_Term]) -> Measurement:
        """Return the measurement of a case that does not state the calls; only forbidden ones are looked for."""
        called = self._filter.without_failed([], case.tools_called or []).called
        forbidden = self._forbidden_calls(called) if self.forbidden else None
        score = 0.0 if forbidden else _product(parts)
        return Measurement({"total": score}, _PartsExplained(score, parts, forbidden).details)

    def _forbidden_calls(
        self, called: Mapping[int, ToolCall], by_plan: Sequence[tuple[int, str]] = ()
    ) -> list[Finding]:
        """Return a finding for each call that the metric or a plan forbids."""
        rules = {index: f", by {text!r}" for index, text in by_plan}
        rules |= {index: "" for index, call in called.items() if matches(call.name, self.forbidden)}
        return [call_finding("forbidden", "Forbidden", called[at], at, rules[at]) for at in sorted(rules)]


@dataclass(frozen=True, slots=True)
class _Term:
    """A part of the score besides the calls that the case states, such as the required texts."""

    name: str
    value: float
    """How far it is met, in [0, 1]."""
    step: str
    """Its line of the reason."""
    findings: Sequence[Finding] = ()
    warnings: Sequence[str] = ()

    @property
    def term(self) -> str:
        """Its factor in the arithmetic."""
        return f"(1 + {self.name} {number_text(self.value)}) / 2"


@dataclass(frozen=True, slots=True)
class _Scoring:
    """The scoring of the calls, apart from the metric: results keep it, and must not keep the metric alive."""

    calls_only: bool
    read_weight: float

    def score(self, changes: TaskChanges) -> float:
        """Return the score of the calls alone."""
        recall = changes.reads.recall if changes.reads.expected_count else 1.0
        writes = changes.writes.f1 if self.calls_only else (changes.right_tools.f1 + changes.writes.f1) / 2
        return writes * (1 - self.read_weight * (1 - recall))

    def parts(self, changes: TaskChanges) -> dict[str, float]:
        """Return the parts about the calls that apply."""
        parts: dict[str, float] = {}
        if changes.has_writes and not self.calls_only:
            parts["effects"] = changes.right_tools.f1
        if changes.has_writes:
            parts["arguments"] = changes.writes.f1
        if changes.reads.expected_count:
            parts["reads"] = changes.reads.recall
        return parts

    def steps(self, changes: TaskChanges, order: Fraction | None) -> list[str]:
        """Return the arithmetic of the parts about the calls, one line for each."""
        steps: list[str] = []
        if changes.has_writes and not self.calls_only:
            steps.append(f"Effects: {arithmetic(changes.right_tools, 'f1', exact=False)}.")
        if changes.has_writes:
            steps.append(f"Arguments: {arithmetic(changes.writes, 'f1', exact=False)}.")
        if changes.reads.expected_count:
            matched, recall = number_text(float(changes.reads.matched)), number_text(changes.reads.recall)
            steps.append(f"Reads: {matched} of {changes.reads.expected_count} expected = {recall}.")
        if order is not None:
            total = changes.writes.matched
            terms = f"{number_text(float(order * total))} of {number_text(float(total))}"
            steps.append(f"Order: {terms} matched in order = {number_text(float(order))}.")
        return steps

    def idle_warnings(self, changes: TaskChanges, parts: Sequence[_Term]) -> list[str]:
        """Return the warning that a run without any call would score high; empty if the case asks for more."""
        if (
            self.calls_only
            or changes.writes.expected_count
            or not changes.reads.expected_count
            or {part.name for part in parts} - {"ended"}
        ):
            return []
        score = number_text(1 - self.read_weight)
        advice = "state required_texts or expected_output if the agent must use what it reads"
        return [f"only reads are expected, so a run without calls scores {score}; {advice}"]

    def sum(self, changes: TaskChanges, parts: Sequence[_Term], score: float) -> str:
        """Return the arithmetic of the total."""
        values = {name: number_text(value) for name, value in self.parts(changes).items()}
        terms = ["no write expected or made 1"]
        if "effects" in values:
            terms = [f"(effects {values['effects']} + arguments {values['arguments']}) / 2"]
        elif "arguments" in values:
            terms = [f"arguments {values['arguments']}"]
        if "reads" in values:
            base, weight = number_text(1 - self.read_weight), number_text(self.read_weight)
            terms.append(f"({base} + {weight} x reads {values['reads']})")
        return f"{' x '.join([*terms, *(part.term for part in parts)])} = {number_text(score)}"


def _align_no_more() -> Alignment:
    """Take the place of `TaskChanges.align_in_order` in a result."""
    raise NotImplementedError("the calls of a measured case are gone")


class _CallsExplained(NamedTuple):
    """The explanation of the score of a case that states the calls."""

    scoring: _Scoring
    score: float
    changes: TaskChanges
    order: Fraction | None
    out_of_order: Sequence[Pair]
    """Pairs of the alignment of the writes in order."""
    parts: Sequence[_Term]
    called: Sequence[str]
    """The names of the called tools."""
    forbidden: Sequence[Finding] | None
    """The forbidden calls that were made; `None` if none are forbidden."""
    unknown: Sequence[Finding]
    """The calls of unknown effect."""
    warnings: Sequence[str]
    undone: Sequence[Undone]

    def details(self) -> Details:
        """Return the arithmetic, the findings and the alignment of the writes."""
        scoring, changes, parts, order = self.scoring, self.changes, self.parts, self.order
        values = scoring.parts(changes) | _values(parts)
        if order is not None:
            values["order"] = float(order)
        if self.forbidden is not None:
            values["forbidden"] = float(not self.forbidden)
        total = "a forbidden call was made = 0" if self.forbidden else scoring.sum(changes, parts, self.score)
        call_findings = changes.findings(self.out_of_order, self.called, self.undone)
        rules = {one.called for one in self.forbidden or ()}  # a forbidden call is one finding
        call_findings = [one for one in call_findings if one.kind != "unexpected" or one.called not in rules]
        return Details(
            arithmetic={"total": total},
            steps=[*choice_lines(changes.writes), *scoring.steps(changes, order), *(part.step for part in parts)],
            parts=values,
            findings=[*(self.forbidden or ()), *call_findings, *self.unknown, *_findings(parts)],
            warnings=[
                *self.warnings,
                *scoring.idle_warnings(changes, parts),
                *partial_comparison_warnings(changes.writes, self.called),
                *_warnings(parts),
            ],
            alignment=changes.writes,
        )


class _PartsExplained(NamedTuple):
    """The explanation of the score of a case that does not state the calls; see `_CallsExplained`."""

    score: float
    parts: Sequence[_Term]
    forbidden: Sequence[Finding] | None

    def details(self) -> Details:
        """Return the arithmetic and the findings."""
        terms = " x ".join(part.term for part in self.parts)
        values = _values(self.parts)
        if self.forbidden is not None:
            values["forbidden"] = float(not self.forbidden)
        total = "a forbidden call was made = 0" if self.forbidden else f"{terms} = {number_text(self.score)}"
        warning = "the case states no expected_tools, so its calls were not compared"
        return Details(
            arithmetic={"total": total},
            steps=[part.step for part in self.parts],
            parts=values,
            findings=[*(self.forbidden or ()), *_findings(self.parts)],
            warnings=[warning, *_warnings(self.parts)],
        )


def _product(parts: Sequence[_Term]) -> float:
    """Return the product of the factors: a part that is not met at all halves the score."""
    return prod((1 + part.value) / 2 for part in parts)


def _values(parts: Sequence[_Term]) -> dict[str, float]:
    return {part.name: part.value for part in parts}


def _findings(parts: Sequence[_Term]) -> list[Finding]:
    return [finding for part in parts for finding in part.findings]


def _warnings(parts: Sequence[_Term]) -> list[str]:
    return [warning for part in parts for warning in part.warnings]


def _required_texts(case: TestCase) -> list[_Term]:
    """Return the part of the required texts; empty without any."""
    turns = case.turns_with_texts if isinstance(case, WholeConversation) else []
    required = len(case.required_texts) + sum(len(one.required_texts) for one in turns)
    if not required:
        return []
    all_texts, only_answer = _texts_of_agent(case)
    places: list[tuple[int | None, Sequence[str], Sequence[str]]] = [(None, case.required_texts, all_texts)]
    places += [(one.number, one.required_texts, one.agent_texts) for one in turns]
    findings = [
        Finding("missing_text", f"Not said: {display_value(text, None)}.", "", expected_value=text, turn=turn)
        for turn, texts, said in places
        for text in _absent(texts, said)
    ]
    amount = required - len(findings)
    value = amount / required
    step = f"Required texts: {amount} of {required} said = {number_text(value)}."
    warning = "required texts were looked for in the final answer alone, since no other texts were recorded"
    return [_Term("required_texts", value, step, findings, [warning] if only_answer else [])]


def _absent(required: Sequence[str], said: Sequence[str]) -> list[str]:
    """Return the required texts that were not said; nobody says an empty text."""
    index = TextIndex(said)
    return [text for text in required if not (text.strip() and index.contains(text))]


def _ended(case: TestCase) -> list[_Term]:
    """Return the part of the end of the run; empty if the case does not state how it must end."""
    if case.ends in {None, "any"}:
        return []
    has_ended, warnings = _has_stated_end(case)
    if has_ended:
        return [_Term("ended", 1.0, "Ended: the run ended as it must = 1.", warnings=warnings)]
    end = "come to its own end" if case.ends == "ok" else f"end with {case.ends!r}"
    text = f"The run did not {end}."
    return [_Term("ended", 0.0, "Ended: no = 0.", [Finding("not_ended", text, "")])]


def _has_stated_end(case: TestCase) -> tuple[bool, list[str]]:
    """Return whether a run ended as the case states, with a warning if that is a guess.

    Raises:
        MissingFieldError: Neither the case nor a recorded run says it.
    """
    run = recorded_run(case)
    last = run.calls[-1] if run is not None and run.error is None and run.calls else None
    is_open = case.ended is None and run is not None and run.status is RunStatus.STOPPED
    if is_open and case.ends == "ok" and last is not None and _hands_over(last):
        return True, [f"the run counts as ended, since {printable(last.name)!r} seems to hand the conversation over"]
    actual, _ = run_end(case)
    if actual is None and run is None:
        needs = f"TaskSuccessMetric needs ended{case_label(case)}, since it states ends={case.ends!r}"
        raise MissingFieldError(f"{needs}; give True or False, or the run")
    return actual == case.ends, []  # of an end that nothing says, `run_notes` has the warning


def _hands_over(call: ToolCall) -> bool:
    return has_succeeded(call) and is_hand_over(call.name)


def _answer(case: TestCase) -> list[_Term]:
    """Return the part of the final answer; empty if the case does not state the expected one."""
    expected = case.expected_output
    if expected is None:
        return []
    if not isinstance(expected, Matcher):
        expected = text_of(expected)
    answer, texts = _final_answer(case), list[str]()
    if isinstance(expected, Matcher):
        credit, terms = answer_credit(expected, answer), f"compared with {display_value(expected, None)}"
    else:
        credit, terms, missing = compare_answer(expected, answer)
        terms = f"{terms} of the expected answer"
        texts = [f"The answer does not say {_as_written(one, expected)}." for one in missing[:_MOST_MISSING]]
    value = quotient(credit.numerator, credit.denominator)
    if value < 1 and not texts:
        texts = [f"The answer does not fit: expected {display_value(expected, None)}."]
    findings = [Finding("wrong_answer", text, "", expected_value=expected) for text in texts]
    return [_Term("answer", value, f"Answer: {terms} = {number_text(value)}.", findings)]


_MOST_MISSING = 5
"""The most values that an answer lacks of which each is a finding."""


def _as_written(value: str, expected: str) -> str:
    """Return a value of the expected answer as this spells it, without secrets."""
    safe = str(redacted_value(expected, None))
    match = re.search(re.escape(value), safe, re.IGNORECASE)
    return display_value(match[0] if match else value if safe == expected else REDACTED, None)


def _final_answer(case: TestCase) -> str:
    """Return the final answer: of a run without one the last text, or an empty text.

    Raises:
        MissingFieldError: The case says nothing about it.
    """
    if case.actual_output is not None:
        return text_of(case.actual_output)
    texts = recorded_texts(case)
    if texts is None:
        needs = f"TaskSuccessMetric needs actual_output{case_label(case)} to compare it with expected_output"
        raise MissingFieldError(f"{needs}; give the answer, or '' for none")
    return texts[-1] if texts else ""


def _texts_of_agent(case: TestCase) -> tuple[list[str], bool]:
    """Return what the agent said, and whether that is only its final answer.

    Raises:
        MissingFieldError: The case says nothing about it.
    """
    texts = recorded_texts(case)
    answer = [] if case.actual_output is None else [text_of(case.actual_output)]
    if texts is None and not answer:
        needs = (
            f"TaskSuccessMetric needs agent_texts or actual_output{case_label(case)}, since it states required_texts"
        )
        raise MissingFieldError(f"{needs}; give the texts, or [] for none")
    return [*(texts or []), *answer], not texts


def recorded_texts(case: TestCase) -> list[str] | None:
    """Return all texts of the agent; `None` if they are unknown."""
    if case.agent_texts is not None:
        return case.agent_texts
    run = recorded_run(case)
    if run is None:
        return None
    # A recorded run without an answer and without texts said nothing that is known.
    return run.agent_texts if run.agent_texts is not None or run.actual_output is not None else []


def answer_credit(expected: str | Matcher, answer: str) -> Fraction:
    """Return how far an answer fits the expected one, from 0 to 1.

    A text is compared by `compare_answer`. `Contains`, `ContainsAll`, `AnyOf`, `AllOf`, `Not` and `Approx` look for
    their texts and numbers inside the answer; `ContainsAll` gives the share of those that it has. All other matchers
    look at the whole answer.
    """
    if isinstance(expected, str):
        return compare_answer(expected, answer)[0]
    return _part_credit(expected, answer, TextIndex([answer]))


def _part_credit(part: Any, answer: str, index: TextIndex) -> Fraction:  # noqa: ANN401 - a matcher or a value in one
    """Return how far an answer has what a matcher, or a value inside a matcher, describes."""
    if isinstance(part, str):
        return Fraction(index.contains(part))
    if isinstance(part, Contains):
        return _part_credit(part.value, answer, index)
    if isinstance(part, (ContainsAll, AnyOf, AllOf)):
        shares = [_part_credit(one, answer, index) for one in part.values]
        if isinstance(part, ContainsAll):
            return mean(shares)
        return max(shares) if isinstance(part, AnyOf) else min(shares)
    if isinstance(part, Not):
        return Fraction(_part_credit(part.value, answer, index) < 1)
    if isinstance(part, Approx):
        return Fraction(any(map(part.accepts, index.numbers)))
    if isinstance(part, Matcher):
        credit = part.credit(answer)
        return Fraction(1) if credit is None else Fraction(*credit)
    return Fraction(is_number(part) and part in index.numbers)
