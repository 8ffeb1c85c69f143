"""Tool correctness: were the expected tools called, as expected?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from toolmark.calls import ToolCall, ToolCallParams, ToolEffect, ToolSpec, read_tool_spec
from toolmark.cases import LLMTestCase, TestCase
from toolmark.errors import ConfigurationError, MissingFieldError
from toolmark.expect import Expectation, wanted_names
from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Alignment, Denominator
from toolmark.metrics.base import Metric, check_threshold
from toolmark.metrics.call_filter import Only, Preparation, Prepared
from toolmark.metrics.call_metric import calls_of, check_case, expected_of, named
from toolmark.metrics.comparable_calls import called_item, compared_in_part, expected_item
from toolmark.metrics.outcome import Outcome, outcome
from toolmark.metrics.plan_variants import align_plan, notes_of, taken, wants_of
from toolmark.metrics.wording import arithmetic, findings_of
from toolmark.result import MetricResult

if TYPE_CHECKING:
    from toolmark.judge import JudgeLike
    from toolmark.judge.driver import Flow
    from toolmark.judge.flow import Judgement

NOT_JUDGED = "tool selection was not judged: available_tools was given without a judge"
NO_TOOLS = "tool selection was not judged: neither the metric nor the case has available_tools"


@dataclass(frozen=True, eq=False)
class ToolCorrectnessMetric(Metric):
    """Compares the tools that were called with the tools that were expected.

    Expected and called tools are aligned one to one, at the greatest sum w of similarities; the score is w divided by
    the `denominator`. A pair's similarity is 0 unless the names (and, where the expected call has one, the types) are
    equal; with `INPUT_PARAMETERS` it is the share of arguments that agree, with `OUTPUT` it is 0 unless the outputs are
    equal. Nothing expected and nothing called scores 1; exactly one of the two scores 0. See docs/scoring.md.

    Args:
        threshold: A score at or above it passes; in [0, 1].
        evaluation_params: What is compared beside the name (`TOOL`, always on): `INPUT_PARAMETERS`, `OUTPUT`. Images in
            outputs are compared by their bytes.
        should_exact_match: 1 if expected and called are the same call by call, else 0. Wins over ordering.
        should_consider_ordering: Only calls in the expected order count (maximum-weight common subsequence).
        denominator: `"expected"` (recall), `"called"` (precision), `"longest"`, `"f1"`. Without effect on an exact
            match, which is 1 or 0.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the alignment and the arithmetic of each measured case.
        available_tools: The tools the agent could choose from, in any form that `ToolSpec` reads; by default those of
            the case. Their selection is judged only by a judge; without one the result says that it was not.
        judge: Who judges whether the right tools were selected: the name of a model, a model, a function, or a `Judge`
            (see docs/judge.md). The score is then the lower one of calling, as above, and selection. A case whose tools
            are not known is not judged, and its result says so.
        only: `"write"` or `"read"`: compare only the calls that change something, or those that do not. The others are
            dropped on both sides before anything is counted. An expected call of unknown effect counts as a write, a
            called one is left out and reported.
        ignore_failed: Leave out called tools that did nothing: `error`, `invalid_arguments`, `unknown_tool`,
            `rejected`, `cancelled`, `not_executed`. A judge sees all calls.
        effects: What tools do, `"read"` or `"write"` by name or pattern, for `only`; beside it the `effect` of the
            available tools says so. See `TaskEffectMetric`.
        guess_effects: Where nothing else decides, guess from the verb in the tool's name; a warning says what.
        error_pattern: A regular expression; with `ignore_failed`, a call whose answer it fits somewhere failed too.

    Raises:
        ConfigurationError: An option is out of range, or `judge` is nothing that can judge.

    Example:
        >>> from toolmark import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="WebSearch"), ToolCall(name="ToolQuery")],
        ...     expected_tools=[ToolCall(name="WebSearch")],
        ... )
        >>> ToolCorrectnessMetric().measure(case).score
        1.0
    """

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
    error_pattern: str | None = None
    _preparation: Preparation = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options, and bring them into one form."""
        if self.denominator not in get_args(Denominator):
            message = f"denominator must be one of {', '.join(get_args(Denominator))}; got {self.denominator!r}"
            raise ConfigurationError(message)
        set_field = object.__setattr__  # the dataclass is frozen from here on
        set_field(self, "threshold", 1.0 if self.strict_mode else check_threshold(self.threshold))
        set_field(self, "evaluation_params", read_params(self.evaluation_params))
        if self.available_tools is not None:
            set_field(self, "available_tools", tuple(read_tool_spec(tool) for tool in self.available_tools))
        if self.judge is not None:
            from toolmark.judge import Judge  # noqa: PLC0415 - loaded with the first metric that judges

            set_field(self, "judge", Judge.of(self.judge))
        preparation = Preparation.read(
            only=self.only,
            ignore_failed=self.ignore_failed,
            effects=self.effects,
            guess_effects=self.guess_effects,
            error_pattern=self.error_pattern,
            tools=tuple(map(read_tool_spec, self.available_tools or ())),
        )
        set_field(self, "_preparation", preparation)

    @property
    def waits(self) -> bool:
        """Whether there is a judge to wait for."""
        return self.judge is not None

    @property
    def label(self) -> str:
        """`tool_correctness`, followed by the options that differ from the defaults."""
        options = [param.value for param in read_params(self.evaluation_params) if param is not ToolCallParams.TOOL]
        if self.should_exact_match or self.should_consider_ordering:
            options.insert(0, "exact" if self.should_exact_match else "ordered")
        if self.denominator != "expected" and not self.should_exact_match:
            options.append(f"denominator={self.denominator}")
        options += [f"only={self._preparation.only.value}"] if self._preparation.only is not None else []
        options += ["without failed calls"] if self.ignore_failed else []
        if self.strict_mode:
            options.append("strict")
        if self.judge is not None:
            options.append("judged")
        return f"{self._name}({', '.join(options)})" if options else self._name

    @property
    def _name(self) -> str:
        return "tool_correctness"

    def align(self, case: TestCase) -> Alignment:
        """Return the alignment that the score of this case is read off.

        Raises:
            MissingFieldError: The case lacks `expected_tools` or `tools_called`.
            ConfigurationError: It is no case with called and expected tools.
        """
        return self._compared(case)[0]

    def _compared(self, case: TestCase, sides: _Calls | None = None) -> tuple[Alignment, Prepared]:
        """Return the alignment, in the positions of the case, and what there is to say of calls that were left out."""
        expected, called = sides or _sides(case, type(self).__name__)
        output = ToolCallParams.OUTPUT in self.evaluation_params
        if not isinstance(expected, list):
            prepared, keep = self._preparation.prepare_plan(wants_of(expected), called, case.available_tools)
            found = align_plan(
                expected,
                prepared.called,
                self._calling,
                ordered=self._ordered,
                arguments=self._arguments,
                output=output,
                keep=keep,
            )
            return found.placed(range(len(found.wanted)), prepared.called_at), prepared
        prepared = self._preparation.prepare(expected, called, case.available_tools)
        found = align(
            [expected_item(call, output=output) for call in prepared.expected],
            [called_item(call, output=output) for call in prepared.called],
            ordered=self._ordered,
            arguments=self._arguments,
            output=output,
        )
        return prepared.placed(found), prepared

    @property
    def _ordered(self) -> bool:
        # An exact match is an ordered one that leaves nothing out, so both are read off the same alignment.
        return self.should_exact_match or self.should_consider_ordering

    @property
    def _arguments(self) -> bool:
        return ToolCallParams.INPUT_PARAMETERS in self.evaluation_params

    def _calling(self, found: Alignment) -> float:
        return float(found.exact) if self.should_exact_match else found.score(self.denominator)

    def _measure(self, case: TestCase) -> MetricResult | Flow[MetricResult]:
        tools = self.available_tools if self.available_tools is not None else getattr(case, "available_tools", None)
        if self.judge is not None and tools is not None:
            return self._judged(case, tuple(map(read_tool_spec, tools)))
        return self._called(case, None, judgeable=tools is not None)

    def _judged(self, case: TestCase, tools: Sequence[ToolSpec]) -> Flow[MetricResult]:
        """Judge the selection of the tools, and return the lower score."""
        from toolmark.metrics.judging import Judge, judgement_of  # noqa: PLC0415 - as above

        _sides(case, type(self).__name__)
        if case.input is None:
            message = f"{type(self).__name__} needs input{named(case)} for its judge; give what the agent was asked"
            raise MissingFieldError(message)
        judgement = yield from judgement_of(Judge.of(self.judge), case, tools)
        return self._called(case, judgement, judgeable=True)

    def _called(self, case: TestCase, judgement: Judgement | None, *, judgeable: bool) -> MetricResult:
        expected, called = _sides(case, type(self).__name__)
        alignment, prepared = self._compared(case, (expected, called))
        wanted = alignment.wanted or wanted_names(expected)
        findings = (*findings_of(alignment, wanted, [call.name for call in called]), *prepared.findings)
        warnings = case.run.notes if case.run is not None else []
        if not isinstance(expected, list):
            warnings.extend(notes_of(expected, alignment, arguments=self._arguments))
        warnings.extend((*prepared.warnings, *compared_in_part(alignment)))
        given = self.available_tools is not None and self.only is None  # else they say what tools do
        if judgement is None and (given or self.judge is not None):
            warnings.append(NOT_JUDGED if judgeable else NO_TOOLS)
        return outcome(
            Outcome(
                metric=self.label,
                threshold=self.threshold,
                strict=self.strict_mode,
                include_reason=self.include_reason,
                scores={"calling": self._calling(alignment)},
                sums={"calling": arithmetic(alignment, self.denominator, exact=self.should_exact_match)},
                steps=tuple(taken(alignment)),
                parts={"precision": alignment.precision, "recall": alignment.recall, "f1": alignment.f1},
                findings=findings,
                warnings=tuple(warnings),
                alignment=alignment,
                judgement=judgement,
                judged=("selection",),
            )
        )

    def score_batch(self, cases: Iterable[TestCase | Mapping[str, Any]]) -> list[float | None]:
        """Return the scores of many cases, without their results.

        Args:
            cases: Cases, or objects as `json.loads` returns them, which are read as `LLMTestCase`.

        Returns:
            A score in [0, 1] for each case, in their order; `None` where `measure` gives no score.

        Raises:
            InvalidDataError: An object is not a case; `problems` has the paths.
            ToolmarkError: What `measure` raises.

        Example:
            >>> from toolmark import ToolCorrectnessMetric
            >>> case = {"tools_called": [{"name": "search"}], "expected_tools": [{"name": "search"}, {"name": "book"}]}
            >>> ToolCorrectnessMetric().score_batch([case])
            [0.5]
        """
        read = (LLMTestCase.model_validate(case) if isinstance(case, Mapping) else case for case in cases)
        return [self._finished(self._measure(case)).score for case in read]

    def _show(self, result: MetricResult, case: TestCase) -> None:
        if self.verbose_mode:
            from toolmark.report.terminal.results import print_result  # noqa: PLC0415 - the terminal is loaded when used

            print_result(result, case)


def read_params(params: object) -> tuple[ToolCallParams, ...]:
    """Return evaluation params in their usual order, with `TOOL`, each once; texts such as "output" are accepted.

    Raises:
        ConfigurationError: One of them is not known.
    """
    if isinstance(params, str) or not isinstance(params, Iterable):
        message = f"evaluation_params must be a list of ToolCallParams, got {params!r}"
        raise ConfigurationError(message)
    wanted = {ToolCallParams.TOOL}
    for param in params:
        try:
            wanted.add(ToolCallParams(param if isinstance(param, ToolCallParams) else str(param).lower()))
        except ValueError:
            known = ", ".join(f"ToolCallParams.{member.name}" for member in ToolCallParams)
            message = f"evaluation_params holds {param!r}; known are {known}"
            raise ConfigurationError(message) from None
    return tuple(param for param in ToolCallParams if param in wanted)


_Calls: TypeAlias = "tuple[list[ToolCall] | Expectation, list[ToolCall]]"


def _sides(case: object, metric: str) -> _Calls:
    checked = check_case(case, metric)
    return expected_of(checked, metric), calls_of(checked, "tools_called", metric)
