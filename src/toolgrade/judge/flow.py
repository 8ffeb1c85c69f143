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

from toolgrade._internal.text import plural
from toolgrade.calls import ToolSpec
from toolgrade.errors import InvalidDataError, JudgeOutcome
from toolgrade.expect.argument_validation import Schemas, Violation
from toolgrade.judge import scoring
from toolgrade.judge.canary import canary_prompts, check_canaries
from toolgrade.judge.cost import add_usage
from toolgrade.judge.driver import Ask, Flow
from toolgrade.judge.evidence import Evidence, EvidenceBuilder
from toolgrade.judge.interactions import CaseCall, Unit
from toolgrade.judge.judge import Judge, PromptResult
from toolgrade.judge.prompts import VERSION, Criterion, prompt_for
from toolgrade.judge.protocol import Decision, Prompt, Verdict
from toolgrade.judge.scoring import Part
from toolgrade.result import QuestionResult, UnitResult

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
        ToolgradeError: A package, an image or a setting that is needed to ask is missing or wrong.
    """
    questions, notes = _questions(judge, units, tools, arguments=arguments)
    prompts = _prompts(judge, questions)
    results = (yield Ask(judge, tuple(prompts), at_once)) if prompts else ()
    remaining = iter(results)
    for question in questions:
        if question.evidence is not None:
            _settle(question, list(islice(remaining, judge.samples)), tools)
    # The canaries were asked last, so their answers are what is left.
    warnings, is_compromised = check_canaries(list(remaining))
    unit_results, selections, argument_parts = _score_units(units, questions)
    requests = sum(result.requests for result in results)
    return Judgement(
        units=unit_results,
        questions=tuple(questions),
        selection=scoring.mean(selections),
        arguments=scoring.mean(argument_parts),
        failures=dict(_failures(questions)),
        notes=(*notes, *warnings),
        judge=_judge_info(judge, results, is_compromised=is_compromised),
        usage=add_usage(*[result.usage for result in results], {"requests": requests}),
        cost=_total_cost([result.cost for result in results]),
    )


def _prompts(judge: Judge, questions: Sequence[JudgeQuestion]) -> list[Prompt]:
    """Return the prompts of all samples, and behind them those of the canary.

    Raises:
        InvalidDataError: They have more characters than the judge allows for one case.
    """
    prompts: list[Prompt] = []
    characters = 0
    open_questions: list[tuple[Criterion, Evidence]] = [
        (question.judged.criterion, question.evidence) for question in questions if question.evidence is not None
    ]
    for criterion, evidence in open_questions:
        # Each sample is a prompt of its own, with a number in its key: else the cache would answer all but one.
        for sample in range(judge.samples):
            prompts.append(prompt_for(criterion, evidence, sample=sample))
            characters += sum(message.characters for message in prompts[-1].messages)
            if characters > judge.max_characters:
                number = f"{len(prompts)} of {plural(len(open_questions) * judge.samples, 'prompt')} about this case"
                message = f"{number} have {characters:,} characters, which a judge bills; nothing was sent"
                advice = f"raise Judge(..., max_characters={judge.max_characters}), or shorten the case"
                raise InvalidDataError(f"{message}: {advice}")
    if judge.canary and prompts:
        prompts += canary_prompts()
    return prompts


def _questions(
    judge: Judge, units: Sequence[Unit], tools: Sequence[ToolSpec], *, arguments: bool
) -> tuple[list[JudgeQuestion], list[str]]:
    """Return every question about a case, those that code decides with their answer, and notes for the result."""
    schemas = Schemas(tools)
    sends_images = any(unit.is_multimodal for unit in units)
    builder = EvidenceBuilder(tools, judge.redactor, judge.images, sends_images=sends_images)
    questions: list[JudgeQuestion] = []
    notes: dict[str, None] = {}
    for unit in units:
        for call in unit.calls:
            question = _question_about_call("tool_selection", unit, call)
            questions.append(question)
            # Code decides what it can: a judge costs money, and may be wrong about a fact.
            if not schemas.offers(call.call):
                question.decide(Decision.NO, "no tool of this name was available")
                continue
            question.evidence = builder.for_call(unit, call, all_tools=True)
            if arguments:
                questions.append(_argument_question(unit, call, schemas, builder, notes))
        questions.append(_missing_calls_question(unit, builder, tools))
    return questions, list(notes)


def _question_about_call(criterion: Criterion, unit: Unit, call: CaseCall) -> JudgeQuestion:
    name = call.call.name
    judged = QuestionResult(criterion=criterion, decided_by="judge", tool=name, called=call.position, turn=call.turn)
    return JudgeQuestion(unit.index, judged)


def _argument_question(
    unit: Unit, call: CaseCall, schemas: Schemas, builder: EvidenceBuilder, notes: dict[str, None]
) -> JudgeQuestion:
    question = _question_about_call("arguments", unit, call)
    fit, violations, problem = schemas.check(call.call)
    if problem is not None:
        notes[f"arguments of {call.call.name!r} were judged without a schema check: {problem}"] = None
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
    # A judge that sees no tools would take any wish of the user for a missing call.
    if tools:
        question.evidence = builder.for_unit(unit)
    else:
        question.decide(Decision.YES, "no tool was available, so no call is missing")
    return question


def _missing_tools(agreeing: Sequence[Verdict], tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    missing = _lower_median([verdict.missing for verdict in agreeing])
    return tuple(tools[int(tool[1:]) - 1].name for tool in missing)


def _settle(question: JudgeQuestion, results: Sequence[PromptResult], tools: Sequence[ToolSpec]) -> None:
    """Answer a question by the majority of its samples; those without a verdict have no vote."""
    verdicts = [result.verdict for result in results if result.verdict is not None]
    if not verdicts:
        first = results[0]
        question.judged = replace(question.judged, outcome=first.outcome.value, problem=first.problem)
        return
    most, votes = Counter(verdict.decision for verdict in verdicts).most_common(1)[0]
    agreeing = _majority(verdicts, most, votes)
    verdict = agreeing[0]
    fields: dict[str, Any] = {}
    if len(results) > 1:
        fields = {"probability": votes / len(verdicts), "flip_rate": 1 - votes / len(verdicts)}
    if question.judged.criterion == "missing_calls" and verdict.decision is Decision.NO:
        question.missing = _missing_tools(agreeing, tools)
        fields["missing"] = len(question.missing)
    fields |= {"decision": verdict.decision.value, "rationale": verdict.rationale, "evidence": verdict.evidence}
    question.judged = replace(question.judged, **fields)


def _majority(verdicts: Sequence[Verdict], most: Decision, votes: int) -> list[Verdict]:
    """Return the verdicts with the decision of the majority; without a majority it is "cannot tell"."""
    # Half of the votes are not a majority: a tie would be decided by the order of the samples.
    decision = most if 2 * votes > len(verdicts) else Decision.CANNOT_TELL
    decisions = ", ".join(verdict.decision.value for verdict in verdicts)
    disagreement = Verdict(decision=decision, rationale=f"the samples disagree: {decisions}")
    return [verdict for verdict in verdicts if verdict.decision is decision] or [disagreement]


def _lower_median(lists: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the list of median length: samples may name different numbers of missing calls."""
    return sorted(lists, key=len)[(len(lists) - 1) // 2]


def _score_units(
    units: Sequence[Unit], questions: Sequence[JudgeQuestion]
) -> tuple[tuple[UnitResult, ...], list[Part], list[Part | None]]:
    """Return the results of all units, their selection scores and their argument scores."""
    results: list[UnitResult] = []
    selections: list[Part] = []
    arguments: list[Part | None] = []
    for unit in units:
        answers = tuple(question.judged for question in questions if question.unit == unit.index)
        selection, argument = _unit_scores(answers)
        scores: dict[str, Any] = {"selection": selection.score, "arguments": argument and argument.score}
        results.append(UnitResult(index=unit.index, turns=unit.turns, questions=answers, **scores))
        selections.append(selection)
        arguments.append(argument)
    return tuple(results), selections, arguments


def _judge_info(judge: Judge, results: Sequence[PromptResult], *, is_compromised: bool) -> dict[str, str]:
    models = sorted({result.model for result in results if result.model})
    info = {"model": ", ".join(models) or judge.name, "prompts": VERSION, "samples": str(judge.samples)}
    if is_compromised:
        info["compromised"] = "true"
    return info


def _total_cost(costs: Sequence[float | None]) -> float | None:
    """Return the sum, or `None` if one is unknown: a total without it would look like a low cost."""
    amounts = [cost for cost in costs if cost is not None]
    return fsum(amounts) if len(amounts) == len(costs) else None


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
        if not any(answer.decision in _YES_OR_NO for answer in answers):
            failed = [answer for answer in answers if answer.outcome != JudgeOutcome.OK.value]
            if failed:
                yield score, _failure_text(answers, failed)


def _failure_text(answers: Sequence[QuestionResult], failed: Sequence[QuestionResult]) -> str:
    amounts = sorted(Counter(answer.decision or answer.outcome for answer in answers).items())
    listed = ", ".join(f"{amount} {kind}" for kind, amount in amounts)
    # Aborted questions only follow from the failure of another one: report that.
    first = min(failed, key=lambda answer: answer.outcome == JudgeOutcome.ABORTED.value)
    return f"the judge decided none of {plural(len(answers), 'question')} ({listed}): {first.problem}"
