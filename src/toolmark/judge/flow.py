"""Judging a case, without input or output: decide what code can decide, ask the rest, count the verdicts.

The flow yields once, with every prompt of the case: no question depends on the answer to another. So the prompts of
many cases can be listed in advance, and asked in any order, or as a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum

from toolmark._internal.text import plural
from toolmark.calls import ToolSpec
from toolmark.errors import JudgeOutcome
from toolmark.judge import scoring as scores
from toolmark.judge.canary import obeyed, planted, unanswered
from toolmark.judge.code_checks import Checks, Violation
from toolmark.judge.driver import Ask, Flow
from toolmark.judge.evidence import Evidence, Exhibits
from toolmark.judge.interactions import MadeCall, Unit
from toolmark.judge.judge import Judge
from toolmark.judge.outcome import Answered
from toolmark.judge.prices import add_usage
from toolmark.judge.prompts import VERSION, Criterion, prompt_for
from toolmark.judge.protocol import Decision, Prompt
from toolmark.judge.scoring import Part
from toolmark.result import QuestionResult, UnitResult


@dataclass(frozen=True, slots=True)
class Settled:
    """One question with its answer, and what a finding about it needs.

    Attributes:
        judged: The answer.
        violations: What code found wrong with the arguments.
        missing: Names of the tools whose calls are missing.
    """

    judged: QuestionResult
    violations: tuple[Violation, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was judged of a case.

    Attributes:
        units: Scores and answers, unit by unit.
        settled: Every question in order, with what findings need.
        selection: The selection score; `None` without units.
        arguments: The argument score; `None` where no call has arguments to be judged, or they were not asked about.
        lost: For each score of which the judge decided nothing and failed to answer something, why.
        notes: What makes the scores less sure.
        judge: Who judged, as in `MetricResult.judge`.
        usage: Tokens and requests.
        cost: Their price; `None` where it is not known.
    """

    units: tuple[UnitResult, ...]
    settled: tuple[Settled, ...]
    selection: Part | None
    arguments: Part | None
    lost: Mapping[str, str]
    notes: tuple[str, ...]
    judge: Mapping[str, str]
    usage: Mapping[str, int]
    cost: float | None


@dataclass(slots=True)
class _Question:
    """One question: decided by code, or to be asked with this evidence."""

    criterion: Criterion
    unit: int
    made: MadeCall | None = None
    turn: int | None = None
    evidence: Evidence | None = None
    settled: Settled | None = None

    def answer(self, judged: QuestionResult, **more: tuple[Violation, ...] | tuple[str, ...]) -> None:
        if self.made is not None:
            judged = replace(judged, tool=self.made.call.name, called=self.made.position, turn=self.made.turn)
        else:
            judged = replace(judged, turn=self.turn)
        self.settled = Settled(judged, **more)  # type: ignore[arg-type]


@dataclass(slots=True)
class _Plan:
    """Every question about a case, and what was noticed on the way."""

    questions: list[_Question] = field(default_factory=list["_Question"])
    notes: list[str] = field(default_factory=list[str])


def judging(
    judge: Judge, units: Sequence[Unit], tools: Sequence[ToolSpec], *, arguments: bool, at_once: bool = True
) -> Flow[Judgement]:
    """Return the flow that judges the units of one case.

    Args:
        judge: Who is asked.
        units: What is judged.
        tools: The tools that were available.
        arguments: Ask about arguments too.
        at_once: Ask all questions at the same time.

    Raises:
        ToolmarkError: Something that is needed to ask is missing or wrong: a package, an image, a setting.
    """
    plan = _planned(judge, units, tools, arguments=arguments)
    prompts = [_prompts(question, judge.samples) for question in plan.questions]
    canaries = planted() if judge.canary and any(prompts) else ()
    everything = (*(prompt for several in prompts for prompt in several), *canaries)
    answers = (yield Ask(judge, everything, at_once)) if everything else ()
    place = 0
    for question, several in zip(plan.questions, prompts, strict=True):
        if several:
            _settle(question, answers[place : place + len(several)], tools)
            place += len(several)
    caught = obeyed(answers[place:])
    plan.notes.extend(filter(None, [unanswered(answers[place:])]))
    return _judgement(judge, plan, units, answers, caught)


def _planned(judge: Judge, units: Sequence[Unit], tools: Sequence[ToolSpec], *, arguments: bool) -> _Plan:
    plan, checks = _Plan(), Checks(tools)
    exhibits = Exhibits(tools, judge.redactor, judge.images)
    for unit in units:
        for made in unit.calls:
            plan.questions.append(_about_selection(unit, made, checks, exhibits))
            if arguments and checks.known(made.call):
                plan.questions.append(_about_arguments(unit, made, checks, exhibits, plan.notes))
        last = unit.answered[-1].number - 1 if unit.of_turns else None
        missing = _Question("missing_calls", unit.index, turn=last)
        if tools:
            missing.evidence = exhibits.of_unit(unit)
        else:
            missing.answer(_code("missing_calls", Decision.YES, "no tool was available, so no call is missing"))
        plan.questions.append(missing)
    return plan


def _about_selection(unit: Unit, made: MadeCall, checks: Checks, exhibits: Exhibits) -> _Question:
    question = _Question("tool_selection", unit.index, made)
    if checks.known(made.call):
        question.evidence = exhibits.of_call(unit, made, all_tools=True)
    else:
        question.answer(_code("tool_selection", Decision.NO, "no tool of this name was available"))
    return question


def _about_arguments(unit: Unit, made: MadeCall, checks: Checks, exhibits: Exhibits, notes: list[str]) -> _Question:
    question = _Question("arguments", unit.index, made)
    checked = checks.arguments(made.call)
    if checked.note is not None:
        note = f"arguments of {made.call.name!r} were judged without a check by code: {checked.note}"
        notes += [note] if note not in notes else []
    if checked.state == "open":
        question.evidence = exhibits.of_call(unit, made, all_tools=False)
    elif checked.state == "invalid":
        text = "; ".join(f"{violation.path}: {violation.message}" for violation in checked.violations)
        question.answer(_code("arguments", Decision.NO, text), violations=checked.violations)
    else:
        question.answer(_code("arguments", Decision.CANNOT_TELL, "the recording did not keep its arguments"))
    return question


def _code(criterion: Criterion, decision: Decision, text: str) -> QuestionResult:
    return QuestionResult(criterion=criterion, decided_by="code", decision=decision.value, rationale=text)


def _prompts(question: _Question, samples: int) -> tuple[Prompt, ...]:
    evidence = question.evidence
    if evidence is None:
        return ()
    return tuple(prompt_for(question.criterion, evidence, sample=sample) for sample in range(samples))


def _settle(question: _Question, answers: Sequence[Answered], tools: Sequence[ToolSpec]) -> None:
    """Settle a question by the majority of its samples; those without a verdict have no vote."""
    verdicts = [answered.verdict for answered in answers if answered.verdict is not None]
    if not verdicts:
        first = answers[0]
        question.answer(
            QuestionResult(
                criterion=question.criterion,
                decided_by="judge",
                outcome=first.outcome.value,
                problem=first.problem,
            )
        )
        return
    most, votes = Counter(verdict.decision for verdict in verdicts).most_common(1)[0]
    decision = most if 2 * votes > len(verdicts) else Decision.CANNOT_TELL
    agreeing = [verdict for verdict in verdicts if verdict.decision is decision]
    several = len(answers) > 1
    missing: tuple[str, ...] = ()
    if decision is Decision.NO and question.criterion == "missing_calls":
        by_length = sorted((verdict.missing for verdict in agreeing), key=len)
        missing = by_length[(len(by_length) - 1) // 2]
    first_agreeing = agreeing[0] if agreeing else None
    tied = f"the samples disagree: {', '.join(verdict.decision.value for verdict in verdicts)}"
    question.answer(
        QuestionResult(
            criterion=question.criterion,
            decided_by="judge",
            decision=decision.value,
            missing=max(1, len(missing)) if decision is Decision.NO and question.criterion == "missing_calls" else 0,
            probability=votes / len(verdicts) if several else verdicts[0].probability,
            rationale=tied if first_agreeing is None else first_agreeing.rationale,
            evidence=() if first_agreeing is None else first_agreeing.evidence,
            flip_rate=1 - votes / len(verdicts) if several else None,
        ),
        missing=tuple(tools[int(tool[1:]) - 1].name for tool in missing),
    )


def _judgement(
    judge: Judge, plan: _Plan, units: Sequence[Unit], answers: Sequence[Answered], caught: str | None
) -> Judgement:
    results: list[UnitResult] = []
    selections: list[Part] = []
    arguments: list[Part | None] = []
    for unit in units:
        judged = [_settled(question).judged for question in plan.questions if question.unit == unit.index]
        selection = scores.selection(_values(judged, "tool_selection"), _missing(judged))
        argument = scores.arguments(_values(judged, "arguments"))
        selections.append(selection)
        arguments.append(argument)
        results.append(
            UnitResult(
                index=unit.index,
                turns=tuple(said.number - 1 for said in unit.messages) if unit.of_turns else (),
                selection=selection.score,
                arguments=None if argument is None else argument.score,
                questions=tuple(judged),
            )
        )
    models = sorted({answered.model for answered in answers if answered.model})
    info = {"model": ", ".join(models) or judge.name, "prompts": VERSION, "samples": str(judge.samples)}
    if caught is not None:
        info["compromised"] = "true"
    costs = [answered.cost for answered in answers]
    return Judgement(
        units=tuple(results),
        settled=tuple(_settled(question) for question in plan.questions),
        selection=scores.mean(selections),
        arguments=scores.mean(arguments),
        lost=dict(_lost(plan.questions)),
        notes=(*plan.notes, *([caught] if caught is not None else [])),
        judge=info,
        usage=add_usage(
            *[answered.usage for answered in answers], {"requests": sum(answered.requests for answered in answers)}
        ),
        cost=None if any(cost is None for cost in costs) else fsum(cost for cost in costs if cost is not None),
    )


def _settled(question: _Question) -> Settled:
    assert question.settled is not None  # noqa: S101 - every question was decided by code or was asked
    return question.settled


def _values(judged: Sequence[QuestionResult], criterion: Criterion) -> list[bool | None]:
    known = {"yes": True, "no": False}
    return [known.get(entry.decision or "") for entry in judged if entry.criterion == criterion]


def _missing(judged: Sequence[QuestionResult]) -> int | None:
    (entry,) = (entry for entry in judged if entry.criterion == "missing_calls")
    return entry.missing if entry.decision in {"yes", "no"} else None


def _lost(questions: Sequence[_Question]) -> Iterator[tuple[str, str]]:
    """Yield each score of which the judge decided nothing and failed to answer something; code alone makes none."""
    for part, criteria in (("selection", ("tool_selection", "missing_calls")), ("arguments", ("arguments",))):
        asked = [
            _settled(question).judged
            for question in questions
            if question.criterion in criteria and question.evidence is not None
        ]
        failed = [entry for entry in asked if entry.outcome != JudgeOutcome.OK.value]
        if failed and not any(entry.decision in {"yes", "no"} for entry in asked):
            kinds = Counter(entry.decision or entry.outcome for entry in asked)
            told = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
            first = next((entry for entry in failed if entry.outcome != JudgeOutcome.ABORTED.value), failed[0])
            yield part, f"the judge decided none of {plural(len(asked), 'question')} ({told}): {first.problem}"
