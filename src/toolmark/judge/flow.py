"""The flow that judges a case, without I/O: decide what code can decide, ask the rest, compute the scores.

The flow yields once, with every prompt of the case, since no question depends on the answer to another. So the prompts
of many cases can be listed in advance and asked in any order, or as a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import fsum
from typing import Any

from toolmark._argument_validation import Schemas, Violation
from toolmark._internal.text import plural
from toolmark.calls import ToolSpec
from toolmark.errors import JudgeOutcome
from toolmark.judge import scoring
from toolmark.judge.canary import canary_prompts, check_canaries
from toolmark.judge.cost import add_usage
from toolmark.judge.driver import Ask, Flow
from toolmark.judge.evidence import Evidence, EvidenceBuilder
from toolmark.judge.interactions import CaseCall, Unit
from toolmark.judge.judge import Judge, PromptResult
from toolmark.judge.prompts import VERSION, Criterion, prompt_for
from toolmark.judge.protocol import Decision, Verdict
from toolmark.judge.scoring import Part
from toolmark.result import QuestionResult, UnitResult

_YES_OR_NO: Mapping[str | None, bool] = {"yes": True, "no": False}
_CRITERIA: Mapping[str, tuple[Criterion, ...]] = {
    "selection": ("tool_selection", "missing_calls"),
    "arguments": ("arguments",),
}
"""The criteria behind each score."""


@dataclass(slots=True)
class JudgeQuestion:
    """One question about a unit, decided by code or to be asked with its evidence.

    `judged` gets the answer. For findings, `violations` holds the schema violations of a call, and `missing` the names
    of the tools of missing calls.
    """

    unit: int
    judged: QuestionResult
    evidence: Evidence | None = None
    violations: tuple[Violation, ...] = ()
    missing: tuple[str, ...] = ()

    def decide(self, decision: Decision, rationale: str) -> None:
        """Answer the question by code."""
        self.judged = replace(self.judged, decided_by="code", decision=decision.value, rationale=rationale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The scores and answers of a judged case.

    `selection` and `arguments` are `None` where they do not apply. `failures` says why of each score for which the
    judge failed and decided nothing. `judge`, `usage` and `cost` are as in `MetricResult`.
    """

    units: tuple[UnitResult, ...]
    questions: tuple[JudgeQuestion, ...]
    selection: Part | None
    arguments: Part | None
    failures: Mapping[str, str]
    notes: tuple[str, ...]
    judge: Mapping[str, str]
    usage: Mapping[str, int]
    cost: float | None


def judging(
    judge: Judge, units: Sequence[Unit], tools: Sequence[ToolSpec], *, arguments: bool, at_once: bool = True
) -> Flow[Judgement]:
    """Return the flow that judges the units of one case; with `arguments` it also asks about arguments.

    Raises:
        ToolmarkError: A package, an image or a setting that is needed to ask is missing or wrong.
    """
    questions, notes = _questions(judge, units, tools, arguments=arguments)
    # Each sample is a prompt of its own, with a number in its key: else the cache would answer all but the first.
    prompts = [
        prompt_for(question.judged.criterion, question.evidence, sample=sample)
        for question in questions
        if question.evidence is not None
        for sample in range(judge.samples)
    ]
    if judge.canary and prompts:
        prompts += canary_prompts()
    results = (yield Ask(judge, tuple(prompts), at_once)) if prompts else ()
    remaining = iter(results)
    for question in questions:
        if question.evidence is not None:
            _settle(question, list(islice(remaining, judge.samples)), tools)
    warnings, is_compromised = check_canaries(list(remaining))
    return _judgement(judge, units, questions, [*notes, *warnings], results, is_compromised=is_compromised)


def _questions(
    judge: Judge, units: Sequence[Unit], tools: Sequence[ToolSpec], *, arguments: bool
) -> tuple[list[JudgeQuestion], list[str]]:
    """Return every question about a case, those that code decides with their answer, and notes for the result."""
    schemas = Schemas(tools)
    builder = EvidenceBuilder(tools, judge.redactor, image_addresses=judge.image_addresses)
    questions: list[JudgeQuestion] = []
    notes: list[str] = []
    for unit in units:
        for call in unit.calls:
            question = _question_about_call("tool_selection", unit, call)
            questions.append(question)
            if not schemas.offers(call.call):
                question.decide(Decision.NO, "no tool of this name was available")
                continue
            question.evidence = builder.for_call(unit, call, all_tools=True)
            if arguments:
                questions.append(_argument_question(unit, call, schemas, builder, notes))
        questions.append(_missing_calls_question(unit, builder, tools))
    return questions, notes


def _question_about_call(criterion: Criterion, unit: Unit, call: CaseCall) -> JudgeQuestion:
    name = call.call.name
    judged = QuestionResult(criterion=criterion, decided_by="judge", tool=name, called=call.position, turn=call.turn)
    return JudgeQuestion(unit.index, judged)


def _argument_question(
    unit: Unit, call: CaseCall, schemas: Schemas, builder: EvidenceBuilder, notes: list[str]
) -> JudgeQuestion:
    question = _question_about_call("arguments", unit, call)
    fit, violations, problem = schemas.check(call.call)
    if problem is not None:
        note = f"arguments of {call.call.name!r} were judged without a schema check: {problem}"
        notes += [note] if note not in notes else []
    if fit == "invalid":
        question.violations = violations
        question.decide(Decision.NO, "; ".join(f"{violation.path}: {violation.message}" for violation in violations))
    elif fit == "not_captured":
        question.decide(Decision.CANNOT_TELL, "the recording does not contain its arguments")
    else:
        question.evidence = builder.for_call(unit, call, all_tools=False)
    return question


def _missing_calls_question(unit: Unit, builder: EvidenceBuilder, tools: Sequence[ToolSpec]) -> JudgeQuestion:
    last_turn = unit.turns[-1] if unit.turns else None
    question = JudgeQuestion(unit.index, QuestionResult(criterion="missing_calls", decided_by="judge", turn=last_turn))
    if tools:
        question.evidence = builder.for_unit(unit)
    else:
        question.decide(Decision.YES, "no tool was available, so no call is missing")
    return question


def _settle(question: JudgeQuestion, results: Sequence[PromptResult], tools: Sequence[ToolSpec]) -> None:
    """Answer a question by the majority of its samples; those without a verdict have no vote."""
    verdicts = [result.verdict for result in results if result.verdict is not None]
    if not verdicts:
        first = results[0]
        question.judged = replace(question.judged, outcome=first.outcome.value, problem=first.problem)
        return
    most, votes = Counter(verdict.decision for verdict in verdicts).most_common(1)[0]
    # Half of the votes are not a majority: a tie would be decided by the order of the samples.
    decision = most if 2 * votes > len(verdicts) else Decision.CANNOT_TELL
    votes_text = ", ".join(verdict.decision.value for verdict in verdicts)
    disagreement = Verdict(decision=decision, rationale=f"the samples disagree: {votes_text}")
    agreeing = [verdict for verdict in verdicts if verdict.decision is decision] or [disagreement]
    fields: dict[str, Any] = {"probability": verdicts[0].probability}
    if len(results) > 1:
        fields = {"probability": votes / len(verdicts), "flip_rate": 1 - votes / len(verdicts)}
    if question.judged.criterion == "missing_calls" and decision is Decision.NO:
        # The samples may name different numbers of missing calls: the lower median counts. A model that only decides
        # names none, and its no stands for one call.
        missing = sorted((verdict.missing for verdict in agreeing), key=len)[(len(agreeing) - 1) // 2]
        fields["missing"] = max(1, len(missing))
        question.missing = tuple(tools[int(tool[1:]) - 1].name for tool in missing)
    fields |= {"rationale": agreeing[0].rationale, "evidence": agreeing[0].evidence}
    question.judged = replace(question.judged, decision=decision.value, **fields)


def _judgement(
    judge: Judge,
    units: Sequence[Unit],
    questions: Sequence[JudgeQuestion],
    notes: Sequence[str],
    results: Sequence[PromptResult],
    *,
    is_compromised: bool,
) -> Judgement:
    """Return the scores of all units."""
    unit_results: list[UnitResult] = []
    selections: list[Part] = []
    arguments: list[Part | None] = []
    for unit in units:
        answers = tuple(question.judged for question in questions if question.unit == unit.index)
        selection, argument = _unit_scores(answers)
        scores: dict[str, Any] = {"selection": selection.score, "arguments": argument and argument.score}
        unit_results.append(UnitResult(index=unit.index, turns=unit.turns, questions=answers, **scores))
        selections.append(selection)
        arguments.append(argument)
    models = sorted({result.model for result in results if result.model})
    judge_info = {"model": ", ".join(models) or judge.name, "prompts": VERSION, "samples": str(judge.samples)}
    if is_compromised:
        judge_info["compromised"] = "true"
    # A total that leaves out what is unknown would look like a low cost.
    costs = [result.cost for result in results if result.cost is not None]
    requests = sum(result.requests for result in results)
    return Judgement(
        units=tuple(unit_results),
        questions=tuple(questions),
        selection=scoring.mean(selections),
        arguments=scoring.mean(arguments),
        failures=dict(_failures(questions)),
        notes=tuple(notes),
        judge=judge_info,
        usage=add_usage(*[result.usage for result in results], {"requests": requests}),
        cost=fsum(costs) if len(costs) == len(results) else None,
    )


def _unit_scores(answers: Sequence[QuestionResult]) -> tuple[Part, Part | None]:
    """Return the selection score and the argument score of a unit."""
    decisions: dict[Criterion, list[bool | None]] = {"tool_selection": [], "arguments": [], "missing_calls": []}
    for answer in answers:
        decisions[answer.criterion].append(_YES_OR_NO.get(answer.decision))
    amount = sum(answer.missing for answer in answers)
    missing = None if None in decisions["missing_calls"] else amount
    return scoring.selection(decisions["tool_selection"], missing), scoring.arguments(decisions["arguments"])


def _failures(questions: Sequence[JudgeQuestion]) -> Iterator[tuple[str, str]]:
    """Yield each score for which the judge decided nothing and failed to answer something, and why."""
    judged = [question.judged for question in questions if question.evidence is not None]
    for score, criteria in _CRITERIA.items():
        answers = [answer for answer in judged if answer.criterion in criteria]
        # Aborted questions only follow from the failure of another one: report that.
        failed = [answer for answer in answers if answer.outcome != JudgeOutcome.OK.value]
        failed.sort(key=lambda answer: answer.outcome == JudgeOutcome.ABORTED.value)
        if failed and not any(answer.decision in _YES_OR_NO for answer in answers):
            amounts = sorted(Counter(answer.decision or answer.outcome for answer in answers).items())
            listed = ", ".join(f"{amount} {kind}" for kind, amount in amounts)
            count = plural(len(answers), "question")
            yield score, f"the judge decided none of {count} ({listed}): {failed[0].problem}"
