"""The questions about a case, and the judgement that follows from the replies: two pure functions and two drivers.

`questions_about` decides what code can decide and writes the prompts for the rest; no question depends on the answer to
another, so a case needs one round. `Questions.ask` waits for the judge and `Questions.a_ask` awaits it. `judgement_of`
computes the scores, by the formulas of docs/judge.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import fsum
from typing import Any

from toolgrade._internal.sync_bridge import require_asyncio, run_sync
from toolgrade._internal.text import plural
from toolgrade.calls import ToolSpec
from toolgrade.errors import InvalidDataError, JudgeOutcome
from toolgrade.expect.json_schema import Schemas, Violation
from toolgrade.judge.canary import canary_prompts, check_canaries
from toolgrade.judge.cost import add_costs, add_usage
from toolgrade.judge.evidence import CaseCall, EvidenceBuilder, QuestionEvidence, Unit
from toolgrade.judge.judge import Judge, JudgeLike, PromptResult
from toolgrade.judge.prompts import MOST_MISSING, VERSION, Criterion, prompt_for
from toolgrade.judge.protocol import Decision, JudgeVerdict, Prompt
from toolgrade.result import QuestionResult, UnitResult
from toolgrade.stats import mean_of

_YES_OR_NO: Mapping[str | None, bool] = {"yes": True, "no": False}
_CRITERIA: Mapping[str, tuple[Criterion, ...]] = {
    "selection": ("tool_selection", "missing_calls"),
    "arguments": ("arguments",),
}
"""The criteria behind each score."""


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """One question about a unit, decided by code or to be asked with its evidence.

    `judged` gets the answer. For findings, `violations` holds the schema violations of a call, and `missing` the names
    of the tools of missing calls.
    """

    unit: int
    judged: QuestionResult
    evidence: QuestionEvidence | None = None
    violations: tuple[Violation, ...] = ()
    missing: tuple[str, ...] = ()

    def decided(self, decision: Decision, rationale: str, violations: tuple[Violation, ...] = ()) -> JudgeQuestion:
        """Return the question as answered by code."""
        judged = replace(self.judged, decided_by="code", decision=decision.value, rationale=rationale)
        return replace(self, judged=judged, violations=violations)


@dataclass(frozen=True, slots=True)
class Questions:
    """All questions about the units of one case, those that code has answered included.

    `prompts` are those for the judge, with all samples and behind them the canaries; with `at_once` they are asked in
    parallel. `notes` are for the result.
    """

    judge: Judge
    units: Sequence[Unit]
    tools: Sequence[ToolSpec]
    listed: tuple[JudgeQuestion, ...]
    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...]
    at_once: bool

    def ask(self) -> Replies:
        """Return the replies of the judge, blocking; works inside a running event loop too."""
        return run_sync(self.a_ask())

    async def a_ask(self) -> Replies:
        """Return the replies of the judge."""
        require_asyncio("a_measure")
        if not (self.at_once or self.judge.is_batched):
            return Replies(self, tuple([await self.judge.ask(prompt) for prompt in self.prompts]))
        tasks = [asyncio.ensure_future(self.judge.ask(prompt)) for prompt in self.prompts]
        try:
            return Replies(self, tuple(await asyncio.gather(*tasks)))
        except BaseException:
            # `gather` leaves the other tasks running: end them before the error leaves the loop.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise


@dataclass(frozen=True, slots=True)
class Replies:
    """The results of all prompts of some questions, in their order."""

    questions: Questions
    results: tuple[PromptResult, ...]


@dataclass(frozen=True, slots=True)
class PartScore:
    """One score, in [0, 1], with its bounds and coverage; the score is `None` where nothing was decided.

    `low` and `high` are the scores if every open question were answered no, or yes. `decided` of `total` questions have
    an answer, from code or from the judge.
    """

    score: float | None
    low: float
    high: float
    decided: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The scores and answers of a judged case.

    `parts` has `selection` and `arguments` where they apply. `failures` says why of each score for which the judge
    failed and decided nothing. `if_failed_no` and `if_failed_yes` are the scores if every question on which the judge
    failed were answered no, with as many missing calls as a reply may name, or yes. `judge`, `usage` and `cost` are as
    in `MetricResult`.
    """

    units: tuple[UnitResult, ...]
    questions: tuple[JudgeQuestion, ...]
    parts: Mapping[str, PartScore]
    failures: Mapping[str, str]
    if_failed_no: Mapping[str, float]
    if_failed_yes: Mapping[str, float]
    notes: tuple[str, ...]
    judge: Mapping[str, str]
    usage: Mapping[str, int]
    cost: float | None


def questions_about(
    judge: JudgeLike | None,
    units: Sequence[Unit],
    tools: Sequence[ToolSpec],
    *,
    arguments: bool,
    selection: bool = True,
    at_once: bool = True,
) -> Questions:
    """Return the questions about the units of one case: about the selection of tools, about arguments, or both.

    Raises:
        ToolgradeError: A package, an image or a setting that is needed to ask is missing or wrong.
    """
    judge = Judge.of(judge)
    listed, notes = _questions(judge, units, tools, arguments=arguments, selection=selection)
    return Questions(judge, units, tools, tuple(listed), tuple(_prompts(judge, listed)), tuple(notes), at_once)


def judgement_of(replies: Replies) -> Judgement:
    """Return the judgement of a case."""
    case, remaining = replies.questions, iter(replies.results)
    samples = case.judge.samples
    questions = tuple(
        question if question.evidence is None else _answered(question, list(islice(remaining, samples)), case.tools)
        for question in case.listed
    )
    # The canaries were asked last, so their answers are what is left.
    warnings, is_compromised = check_canaries(list(remaining))
    answers = [tuple(one.judged for one in questions if one.unit == unit.index) for unit in case.units]
    scores = [_unit_scores(listed) for listed in answers]
    requests = sum(result.requests for result in replies.results)
    return Judgement(
        units=tuple(map(_unit_result, case.units, answers, scores)),
        questions=questions,
        parts=_means(scores),
        failures=dict(_failures(questions)),
        if_failed_no=_scores_of(_means([_unit_scores(listed, failed=False) for listed in answers])),
        if_failed_yes=_scores_of(_means([_unit_scores(listed, failed=True) for listed in answers])),
        notes=(*case.notes, *warnings),
        judge=_judge_info(case.judge, replies.results, is_compromised=is_compromised),
        usage=add_usage(*[result.usage for result in replies.results], {"requests": requests}),
        cost=add_costs([result.cost for result in replies.results]),
    )


def _unit_result(unit: Unit, questions: tuple[QuestionResult, ...], parts: Mapping[str, PartScore]) -> UnitResult:
    return UnitResult(index=unit.index, turn=unit.turn, questions=questions, **_scores_of(parts))


def _prompts(judge: Judge, questions: Sequence[JudgeQuestion]) -> list[Prompt]:
    """Return the prompts of all samples, and behind them those of the canary.

    Raises:
        InvalidDataError: They have more characters than the judge allows for one case.
    """
    prompts: list[Prompt] = []
    characters = 0
    open_questions: list[tuple[Criterion, QuestionEvidence]] = [
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
    judge: Judge, units: Sequence[Unit], tools: Sequence[ToolSpec], *, arguments: bool, selection: bool
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
            # Code decides what it can: a judge costs money, and may be wrong about a fact.
            if selection and not schemas.offers(call.call):
                questions.append(question.decided(Decision.NO, "no tool of this name was available"))
                continue
            if selection:
                questions.append(replace(question, evidence=builder.for_call(unit, call, all_tools=True)))
            if arguments:
                questions.append(_argument_question(unit, call, schemas, builder, notes))
        if selection:
            questions.append(_missing_calls_question(unit, builder, tools))
    return questions, list(notes)


def _question_about_call(criterion: Criterion, unit: Unit, call: CaseCall) -> JudgeQuestion:
    name = call.call.name
    judged = QuestionResult(criterion=criterion, decided_by="judge", tool=name, called=call.number - 1, turn=unit.turn)
    return JudgeQuestion(unit.index, judged)


def _argument_question(
    unit: Unit, call: CaseCall, schemas: Schemas, builder: EvidenceBuilder, notes: dict[str, None]
) -> JudgeQuestion:
    question = _question_about_call("arguments", unit, call)
    fit, violations, problem = schemas.check(call.call)
    if problem is not None:
        notes[f"arguments of {call.call.name!r} were judged without a schema check: {problem}"] = None
    if fit == "invalid":
        rationale = "; ".join(f"{violation.path}: {violation.message}" for violation in violations)
        return question.decided(Decision.NO, rationale, violations)
    if fit == "not_captured":
        return question.decided(Decision.CANNOT_TELL, "the recording does not contain its arguments")
    return replace(question, evidence=builder.for_call(unit, call, all_tools=False))


def _missing_calls_question(unit: Unit, builder: EvidenceBuilder, tools: Sequence[ToolSpec]) -> JudgeQuestion:
    question = JudgeQuestion(unit.index, QuestionResult(criterion="missing_calls", decided_by="judge", turn=unit.turn))
    # A judge that sees no tools would take any wish of the user for a missing call.
    if tools:
        return replace(question, evidence=builder.for_unit(unit))
    return question.decided(Decision.YES, "no tool was available, so no call is missing")


def _missing_tools(agreeing: Sequence[JudgeVerdict], tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    """Return the missing calls of the list of median length: samples may name different numbers of them."""
    lists = sorted((verdict.missing for verdict in agreeing), key=len)
    return tuple(tools[int(tool[1:]) - 1].name for tool in lists[(len(lists) - 1) // 2])


def _answered(question: JudgeQuestion, results: Sequence[PromptResult], tools: Sequence[ToolSpec]) -> JudgeQuestion:
    """Return the question as answered by the majority of its samples; it is open if lost samples could be decisive."""
    verdicts = [result.verdict for result in results if result.verdict is not None]
    lost = next((result for result in results if result.verdict is None), None)
    counts = Counter(verdict.decision for verdict in verdicts)
    votes = max(counts.values(), default=0)
    if lost is not None and 2 * votes <= len(results):
        return replace(question, judged=replace(question.judged, outcome=lost.outcome.value, problem=lost.problem))
    agreeing = _majority(verdicts, counts.most_common(1)[0][0], votes)
    verdict = agreeing[0]
    fields: dict[str, Any] = {}
    if len(results) > 1:
        fields = {"probability": votes / len(verdicts), "flip_rate": 1 - votes / len(verdicts)}
    missing: tuple[str, ...] = ()
    if question.judged.criterion == "missing_calls" and verdict.decision is Decision.NO:
        missing = _missing_tools(agreeing, tools)
        fields["missing"] = len(missing)
    fields |= {"decision": verdict.decision.value, "rationale": verdict.rationale, "evidence": verdict.evidence}
    return replace(question, judged=replace(question.judged, **fields), missing=missing)


def _majority(verdicts: Sequence[JudgeVerdict], most: Decision, votes: int) -> list[JudgeVerdict]:
    """Return the verdicts with the decision of the majority; without a majority it is "cannot tell"."""
    # Half of the votes are not a majority: a tie would be decided by the order of the samples.
    decision = most if 2 * votes > len(verdicts) else Decision.CANNOT_TELL
    decisions = ", ".join(verdict.decision.value for verdict in verdicts)
    disagreement = JudgeVerdict(decision=decision, rationale=f"the samples disagree: {decisions}")
    return [verdict for verdict in verdicts if verdict.decision is decision] or [disagreement]


def _judge_info(judge: Judge, results: Sequence[PromptResult], *, is_compromised: bool) -> dict[str, str]:
    models = sorted({result.model for result in results if result.model})
    info = {"model": ", ".join(models) or judge.name, "prompts": VERSION, "samples": str(judge.samples)}
    if is_compromised:
        info["compromised"] = "true"
    return info


def _unit_scores(answers: Sequence[QuestionResult], failed: bool | None = None) -> dict[str, PartScore]:
    """Return the selection score of a unit, and the argument score of one with calls, as far as they were judged.

    `failed` is the answer to the questions on which the judge failed, `None` to leave them open.
    """
    decisions: dict[Criterion, list[bool | None]] = {"tool_selection": [], "arguments": [], "missing_calls": []}
    for answer in answers:
        is_open = answer.outcome != JudgeOutcome.OK.value
        decisions[answer.criterion].append(failed if is_open else _YES_OR_NO.get(answer.decision))
    complete = decisions["missing_calls"]
    missing = None if None in complete else sum(answer.missing for answer in answers)
    if False in complete and not missing:  # it is not known how many calls are missing
        missing = MOST_MISSING
    parts = {"selection": selection_part(decisions["tool_selection"], missing)} if complete else {}
    return {**parts, "arguments": part_of(decisions["arguments"])} if decisions["arguments"] else parts


def selection_part(calls: Sequence[bool | None], missing: int | None) -> PartScore:
    """Return the selection score of a unit: yes / (yes + no).

    `calls` says of each call whether it was right, `None` where that is open. Each of the `missing` calls adds a no;
    `None` where that is open. A unit without calls scores 1 if none is missing, else 0.
    """
    is_open = missing is None
    # Not to call is the one decision of a unit without calls: it was right exactly if no call is missing.
    answers = calls or [None if is_open else missing == 0]
    part = part_of(answers, missing or 0, open_missing=int(is_open))
    return replace(part, decided=len(calls) - calls.count(None) + (not is_open), total=len(calls) + 1)


def part_of(answers: Sequence[bool | None], missing: int = 0, open_missing: int = 0) -> PartScore:
    """Return the score of some answers and missing calls: yes / (yes + no)."""
    yes, no, undecided = answers.count(True), answers.count(False) + missing, answers.count(None)
    score = yes / (yes + no) if yes + no else None
    low, high = yes / (yes + no + undecided + open_missing), (yes + undecided) / (yes + no + undecided)
    return PartScore(score, low, high, len(answers) - undecided, len(answers))


def mean_part(parts: Sequence[PartScore]) -> PartScore:
    """Return the mean over the decided units; bounds and coverage are over all units."""
    score = mean_of([part.score for part in parts if part.score is not None])
    low = fsum(part.low for part in parts) / len(parts)
    high = fsum(part.high for part in parts) / len(parts)
    return PartScore(score, low, high, sum(part.decided for part in parts), sum(part.total for part in parts))


def _means(units: Sequence[Mapping[str, PartScore]]) -> dict[str, PartScore]:
    """Return the mean of each score that a unit has."""
    names = [name for name in _CRITERIA if any(name in unit for unit in units)]
    return {name: mean_part([unit[name] for unit in units if name in unit]) for name in names}


def _scores_of(parts: Mapping[str, PartScore]) -> dict[str, float]:
    return {name: part.score for name, part in parts.items() if part.score is not None}


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
