"""Tool correctness: a metric that compares the called tools with the expected ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, get_args

from toolgrade._internal.budget import CaseBudget
from toolgrade._internal.options import enabled, label_text, require_one_name, require_one_of
from toolgrade.calls import ToolCall, ToolCallParams, ToolEffect, ToolSpec
from toolgrade.cases import TestCase, WholeConversation
from toolgrade.errors import ConfigurationError, MissingFieldError
from toolgrade.failed_calls import looks_failed
from toolgrade.matching.alignment import Alignment, Denominator
from toolgrade.matching.engine import align_list
from toolgrade.metrics.base import CALLING, Details, Measurement, Metric, result_of
from toolgrade.metrics.call_filter import CallFilter, ComparedCalls, Only
from toolgrade.metrics.called_tools import (
    Compare,
    Undone,
    call_text,
    called_tools,
    calls_in_turns,
    case_label,
    check_case,
    expectation_of,
    item_by_meaning,
    outcome_text,
    read_tools,
    scored_turns,
)
from toolgrade.metrics.wording import alignment_findings, arithmetic, choice_lines, partial_comparison_warnings
from toolgrade.result import Finding, MetricResult

if TYPE_CHECKING:
    from toolgrade.expect.plan import Expectation
    from toolgrade.judge.judge import JudgeLike
    from toolgrade.judge.questions import Questions, Replies

NOT_JUDGED = "tool selection was not judged: available_tools was given without a judge"
NO_TOOLS = "tool selection was not judged: neither the metric nor the case has available_tools"


@dataclass(frozen=True, eq=False)
class ToolCorrectnessMetric(Metric):
    """Compares the tools that were called with the tools that were expected.

    Expected and called tools are aligned one to one with the greatest sum w of similarities; the score is w divided by
    the `denominator`. The similarity of two calls is 0 unless their names are equal and, if the expected call has a
    type or a turn, these too. With `INPUT_PARAMETERS` it is the share of arguments that agree; with `OUTPUT` it is 0
    unless the outputs are equal. Nothing expected and nothing called scores 1; exactly one of the two scores 0. See
    docs/scoring.md.

    Args:
        threshold: The lowest score that passes, in [0, 1].
        evaluation_params: What is compared besides the name (`TOOL`, always on): `INPUT_PARAMETERS`, `OUTPUT`. Images
            in outputs are compared by their bytes.
        should_exact_match: 1 if the called tools equal the expected ones one by one, else 0. Takes precedence over
            `should_consider_ordering`.
        should_consider_ordering: Only calls in the expected order count (maximum-weight common subsequence).
        denominator: `"expected"` (recall), `"called"` (precision), `"longest"`, `"f1"`. Without effect on an exact
            match, which is 1 or 0.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the alignment and the arithmetic of each measured case.
        available_tools: The tools the agent could choose from, in any form that `ToolSpec` reads; by default those of
            the case. Their selection is judged only by a judge; without one a warning says that it was not.
        judge: Judges whether the right tools were selected: the name of a model, a model, a function, or a `Judge` (see
            docs/judge.md). The score is then the lower of calling, as above, and selection. A case without available
            tools is not judged, and a warning says so.
        only: `"write"` or `"read"`: compare only the calls that change something, or those that do not. The others are
            left out on both sides before anything is counted. An expected call of unknown effect counts as a write; a
            called one is left out and reported.
        ignore_failed: Leave out called tools that did nothing: `error`, `invalid_arguments`, `unknown_tool`,
            `rejected`, `cancelled`, `not_executed`. A judge sees all calls.
        effects: The effects of tools for `only`, `"read"` or `"write"` by name or pattern; otherwise the `effect` of
            the available tools decides. See `TaskSuccessMetric`.
        guess_effects: If nothing else decides, guess from the verb in the tool's name; a warning lists the guesses.
        compare: `"exact"`, or `"meaning"` to compare every expected argument without a matcher as
            `toolgrade.expect.SameMeaning`; findings list what counted as equal. Used only with `INPUT_PARAMETERS`.
        async_mode: Ask all questions about a case at the same time instead of one after the other.
        model: Another name of `judge`.

    Raises:
        ConfigurationError: An option is out of range, both `judge` and `model` are given, or the judge is not one of
            these.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather"), ToolCall(name="search_hotels")],
        ...     expected_tools=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ... )
        >>> print(ToolCorrectnessMetric().measure(case).reason)
        1 matched / 2 expected = 0.5 (passed at 0.5).
        Missing: expected #2 'book_flight' was not called.
        Unexpected: called #2 'search_hotels'.
    """

    _name: ClassVar[str] = "tool_correctness"
    needs_expectation: ClassVar[bool] = True

    threshold: float = 0.5
    evaluation_params: Sequence[ToolCallParams | str] = (ToolCallParams.TOOL,)
    should_exact_match: bool = False
    should_consider_ordering: bool = False
    denominator: Denominator = "expected"
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False
    available_tools: Sequence[ToolSpec | ToolCall | dict[str, Any]] | None = None
    judge: JudgeLike | None = None
    only: Only | None = None
    ignore_failed: bool = False
    effects: Mapping[str, ToolEffect | str] = field(default_factory=dict[str, "ToolEffect | str"])
    guess_effects: bool = False
    compare: Compare = "exact"
    async_mode: bool = True
    model: InitVar[JudgeLike | None] = None
    _filter: CallFilter = field(init=False, repr=False)
    _align_options: Mapping[str, bool] = field(init=False, repr=False)
    _label: str = field(init=False, repr=False)

    def __post_init__(self, model: JudgeLike | None) -> None:
        """Check the options and normalize them."""
        super().__post_init__()
        require_one_of("denominator", self.denominator, get_args(Denominator))
        require_one_of("compare", self.compare, get_args(Compare))
        tools = read_tools(self.available_tools)
        call_filter = CallFilter(
            only=self.only,
            ignore_failed=self.ignore_failed,
            effects=self.effects,
            guess_effects=self.guess_effects,
            tools=tools,
        )
        params = read_params(self.evaluation_params)
        self._set(
            evaluation_params=params,
            available_tools=tools,
            only=call_filter.only and call_filter.only.value,
            _filter=call_filter,
            _align_options={
                # An exact match is an ordered one that leaves nothing out, so both come from the same alignment.
                "ordered": self.should_exact_match or self.should_consider_ordering,
                "arguments": ToolCallParams.INPUT_PARAMETERS in params,
                "output": ToolCallParams.OUTPUT in params,
            },
        )
        require_one_name("judge", self.judge, "model", model)
        judge = self.judge if model is None else model
        if judge is not None:
            from toolgrade.judge import Judge  # noqa: PLC0415 - loaded with the first metric that judges

            self._set(judge=Judge.of(judge))
        self._set(_label=self._label_text())

    @property
    def waits(self) -> bool:
        """Whether there is a judge to wait for."""
        return self.judge is not None

    @property
    def label(self) -> str:
        """`tool_correctness`, followed by the options that differ from the defaults."""
        return self._label

    def _label_text(self) -> str:
        options = {
            "exact": self.should_exact_match,
            "ordered": self.should_consider_ordering and not self.should_exact_match,
            "input_parameters": self._align_options["arguments"],
            "by meaning": self._by_meaning,
            "output": self._align_options["output"],
            f"denominator={self.denominator}": self.denominator != "expected" and not self.should_exact_match,
            f"only={self.only}": self.only is not None,
            "without failed calls": self.ignore_failed,
            "strict": self.strict_mode,
            "judged": self.judge is not None,
        }
        return label_text(self._name, enabled(options))

    @property
    def _by_meaning(self) -> bool:
        """Whether arguments are compared by meaning."""
        return self.compare == "meaning" and self._align_options["arguments"]

    def align(self, case: TestCase) -> Alignment:
        """Return the alignment from which the score of this case is computed.

        Raises:
            MissingFieldError: The case has no `expected_tools` or no `tools_called`.
            ConfigurationError: The case is not one of a single question.
        """
        expected, called = self._sides(case)
        return self._align(case, expected, called)[0]

    def _sides(self, case: TestCase) -> tuple[list[ToolCall] | Expectation, list[ToolCall]]:
        """Return both sides; the expected calls of a conversation say in which silent turns calls were made."""
        expected, called = expectation_of(case, type(self).__name__), called_tools(case, type(self).__name__)
        if not isinstance(case, WholeConversation):
            return expected, called
        compared = self._filter.select((), called, case.available_tools).called.values()
        spoken = sorted(case.silent_turns.intersection(call.turn for call in compared))
        if not spoken or not len(expected):
            return expected, called
        from toolgrade.expect.turns import with_calls  # noqa: PLC0415 - loaded with the first conversation

        return with_calls(expected, [ToolCall(name=_NO_CALL, turn=turn) for turn in spoken]), called

    def _align(
        self, case: TestCase, expected: list[ToolCall] | Expectation, called: list[ToolCall]
    ) -> tuple[Alignment, ComparedCalls, Sequence[int | None]]:
        """Return the alignment in the positions of the case, the compared calls, and the turns of the expected ones."""
        options = self._align_options
        called = calls_in_turns(case, called, expected, type(self).__name__)
        if isinstance(expected, list):
            calls = self._filter.select(expected, called, case.available_tools).in_turns(scored_turns(case))
            left, right = calls.items(output=options["output"])
            if self._by_meaning:
                left = [item_by_meaning(item, self._filter.all_tools(case.available_tools)) for item in left]
            return calls.in_case(align_list(left, right, **options)), calls, [call.turn for call in expected]
        from toolgrade.metrics.plan_variants import align_plan  # noqa: PLC0415 - loaded with the first plan

        calls, is_included = self._filter.select_for_plan(expected, called, case.available_tools)
        calls = calls.in_turns(scored_turns(case))
        compared = calls.called.values()
        alignment, turns = align_plan(
            expected,
            compared,
            self._calling_score,
            is_included,
            by_meaning=self._by_meaning,
            tools=self._filter.all_tools(case.available_tools),
            **options,
        )
        return calls.in_case(alignment), calls, turns

    def _calling_score(self, alignment: Alignment) -> float:
        """Return the score of the calls; a judge may lower the score of the case."""
        return float(alignment.exact) if self.should_exact_match else alignment.score(self.denominator)

    def _compute(self, case: TestCase) -> MetricResult:
        unused = NO_TOOLS
        if self.judge is None:
            # With `only`, available tools may be set just to declare their effects, which needs no judge.
            unused = NOT_JUDGED if self.available_tools is not None and self.only is None else ""
        return result_of(self, self._compare(case, [unused] if unused else []))

    def _questions(self, case: TestCase) -> Questions | None:
        if self.judge is None:
            return None
        check_case(case, type(self).__name__)
        tools = read_tools(case.available_tools if self.available_tools is None else self.available_tools)
        if tools is None:
            return None
        if isinstance(case, WholeConversation):
            text = f"{type(self).__name__} asks its judge about one question, got a conversation{case_label(case)}"
            raise ConfigurationError(f"{text}; measure each of conversation.to_test_cases()")
        from toolgrade.judge.evidence import unit_of  # noqa: PLC0415 - loaded with the judge
        from toolgrade.judge.questions import questions_about  # noqa: PLC0415 - loaded with the judge

        with CaseBudget():
            self._compare(case)  # a case that cannot be compared must not cost a judge
        if case.input is None:
            needs = f"{type(self).__name__} needs input{case_label(case)} for its judge"
            raise MissingFieldError(f"{needs}; give the question that the agent was asked")
        return questions_about(self.judge, [unit_of(case)], tools, arguments=False, at_once=self.async_mode)

    def _result_from_replies(self, case: TestCase, replies: Replies | None) -> MetricResult:
        if replies is None:
            return super()._result_from_replies(case, None)
        from toolgrade.metrics.judging import judged_result  # noqa: PLC0415 - loaded with the judge

        with CaseBudget():
            return judged_result(self, self._compare(case), replies)

    def _compare(self, case: TestCase, extra_warnings: Sequence[str] = ()) -> Measurement:
        """Return the score of the calls, and how to explain it."""
        expected, called = self._sides(case)
        alignment, compared, expected_turns = self._align(case, expected, called)
        warnings = compared.warnings
        if isinstance(expected, list):
            names = tuple([call.name for call in expected])
        else:
            from toolgrade.expect.plan import expected_names  # noqa: PLC0415 - loaded with the first plan
            from toolgrade.metrics.plan_variants import plan_warnings  # noqa: PLC0415 - loaded with the first plan

            names = alignment.labels or tuple(expected_names(expected))
            warnings = (*plan_warnings(expected, alignment, arguments=self._align_options["arguments"]), *warnings)
        called_names = tuple([call.name for call in called])
        paired = sorted([pair.called for pair in alignment.pairs])
        failed = [
            f"{call_text(called[at], at)}, which was expected, {outcome_text(called[at])}"
            for at in paired
            if looks_failed(called[at])
        ]
        warnings = (*failed, *warnings)
        explanation = _AlignedCalls(
            alignment=alignment,
            expected=names,
            called=names if names == called_names else called_names,  # results of good runs are many, and store it once
            denominator=self.denominator,
            exact=self.should_exact_match,
            findings=compared.findings,
            warnings=warnings,
            last_warnings=tuple(extra_warnings),
            undone=compared.undone,
            silent=case.silent_turns if isinstance(case, WholeConversation) else frozenset(),
            turns=tuple([call.turn for call in called]),
        )
        measurement = Measurement(
            {CALLING: self._calling_score(alignment)},
            # A plan may have matchers of a user, whose texts are made by code of the user.
            explanation.details if isinstance(expected, list) else explanation.details(),
            expected_turns=expected_turns,
        )
        return self._with_notes_and_turns(case, measurement)


class _AlignedCalls(NamedTuple):
    """The explanation of a score: the alignment of calls with these names."""

    alignment: Alignment
    expected: Sequence[str]
    called: Sequence[str]
    denominator: Denominator
    exact: bool
    findings: Sequence[Finding]
    warnings: Sequence[str]
    last_warnings: Sequence[str]
    undone: Sequence[Undone]
    silent: frozenset[int]
    """The turns in which no call is expected."""
    turns: Sequence[int | None]
    """The turns of the called tools."""

    def details(self) -> Details:
        """Return the arithmetic, the findings and the alignment."""
        alignment = self.alignment
        findings = alignment_findings(alignment, self.expected, self.called, self.undone)
        return Details(
            arithmetic={CALLING: arithmetic(alignment, self.denominator, exact=self.exact)},
            steps=choice_lines(alignment),
            parts={"precision": alignment.precision, "recall": alignment.recall, "f1": alignment.f1},
            findings=(*_named_calls(findings, self.silent, self.turns), *self.findings),
            warnings=[*self.warnings, *partial_comparison_warnings(alignment, self.called), *self.last_warnings],
            alignment=alignment,
        )


_NO_CALL: Final = "(no call)"
"""Stands for the expectation that a turn has no calls, which no call fulfills."""


def _named_calls(findings: Sequence[Finding], silent: frozenset[int], turns: Sequence[int | None]) -> Iterator[Finding]:
    """Yield findings that name the calls of turns in which none is expected, in place of that no call was missing."""
    for one in findings:
        if one.kind == "unexpected" and one.called is not None and turns[one.called] in silent:
            text = f"{one.message.rstrip('.')}, and no call was expected in this turn."
            yield one._replace(message=text)
        elif one.tool != _NO_CALL:
            yield one


def read_params(params: object) -> tuple[ToolCallParams, ...]:
    """Return distinct evaluation params in their usual order, with `TOOL`; texts such as "output" are accepted.

    Raises:
        ConfigurationError: A value is not an evaluation param.
    """
    if isinstance(params, str) or not isinstance(params, Iterable):
        raise ConfigurationError(f"evaluation_params must be a list of ToolCallParams, got {params!r}")
    selected = {ToolCallParams.TOOL, *map(_read_param, params)}
    return tuple(param for param in ToolCallParams if param in selected)


def _read_param(param: object) -> ToolCallParams:
    try:
        return ToolCallParams(param if isinstance(param, ToolCallParams) else str(param).lower())
    except ValueError:
        names = ", ".join(f"ToolCallParams.{member.name}" for member in ToolCallParams)
        raise ConfigurationError(f"evaluation_params must contain only {names}, got {param!r}") from None
