"""Approval of recorded runs: their calls as expected ones, and what stays of an older expectation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from toolgrade._internal.json import MARK, json_path
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMTestCase, Run, TestCase
from toolgrade.dataset import ANSWERS, Golden
from toolgrade.errors import ConfigurationError, InvalidDataError, MissingFieldError
from toolgrade.expect.from_call import From, bind_to_run
from toolgrade.expect.plan import Alternatives, Expect, Expectation, Forbid, Plan, name_text
from toolgrade.expect.value_matchers import Ignore
from toolgrade.failed_calls import looks_failed
from toolgrade.matching.alignment import Alignment
from toolgrade.matching.argument_pattern import Template, fits, holds_matcher, is_pattern
from toolgrade.matching.json_compare import ABSENT, AbsentType, Path, has_mark
from toolgrade.metrics import ToolCorrectnessMetric, ToolGroundingMetric
from toolgrade.metrics.call_filter import UNDONE
from toolgrade.metrics.called_tools import call_text, outcome_text, status_of
from toolgrade.metrics.plan_variants import variants_of
from toolgrade.metrics.seen_values import is_id
from toolgrade.redact import Redactor
from toolgrade.user_turns import UserTurn
from toolgrade.verdict import run_end


def case_of(measured: object) -> AnyCase:
    """Return the case of a run, a case or conversation, or a list of calls.

    Raises:
        ConfigurationError: The argument is none of these.
    """
    if isinstance(measured, (LLMTestCase, MLLMTestCase, ConversationalTestCase)):
        return measured
    if isinstance(measured, Run):
        return measured.to_test_case()
    if isinstance(measured, (list, tuple)) and all(isinstance(call, ToolCall) for call in measured):
        return LLMTestCase(tools_called=list(measured))
    # `recorder.run` is a method of some recorders.
    hint = "; pass a recorded run, such as recorder.last_run" if callable(measured) else ""
    kind = type(measured).__name__
    raise ConfigurationError(f"expected a Run, a case or a list of ToolCall, got {kind}{hint}")


def written_calls(case: TestCase) -> list[ToolCall]:
    """Return the called tools of a case as read back from a file, where NaN, for one, is text.

    Raises:
        MissingFieldError: The case has no `tools_called`.
    """
    if case.tools_called is None:
        raise MissingFieldError("the case has no tools_called; set [] if nothing was called")
    return [ToolCall.from_json(call.to_json()) for call in case.tools_called]


Item: TypeAlias = ToolCall | Expect
"""One expected call of a golden."""

_COMPARED = ToolCorrectnessMetric(evaluation_params=["input_parameters"])


class Approved(NamedTuple):
    """What a golden expects after a run was approved, and notes for the person who approves."""

    expected: list[ToolCall] | Expectation
    notes: list[str]


def approve(case: TestCase, redactor: Redactor, old: list[ToolCall] | Expectation | None = None) -> Approved:
    """Return the called tools of a case as expected ones: names and arguments, without secrets.

    A redacted value becomes `Ignore()`. Of what an old golden expects, each call stays that still matches, and of the
    others each matcher that does.

    Raises:
        MissingFieldError: The case has no `tools_called`, or none of the turns that the old golden states.
        InvalidDataError: The run did not end well, the arguments of a call are broken or unknown, or the calls break
            the rules of an old plan.
    """
    calls = written_calls(case)
    problems = [*_run_problems(case), *_call_problems(calls)]
    if problems:
        raise InvalidDataError("; ".join(problems))
    notes = [
        f"{call_text(call, index)} {outcome_text(call)}, and is expected all the same"
        for index, call in enumerate(calls)
        if status_of(call) in UNDONE or looks_failed(call)
    ]
    notes += _proposals(case)
    bare = [ToolCall(name=call.name, input_parameters=call.arguments) for call in calls]
    safe: Any = redactor.model(LLMTestCase(expected_tools=bare)).expected_tools
    if old is None:
        return Approved(_listed([_without_marks(call, call.arguments, notes) for call in safe]), notes)
    compared = [
        one.model_copy(update={"type": call.type, "turn": call.turn, "output": call.output})  # `From` reads outputs
        for one, call in zip(safe, calls, strict=True)
    ]
    case = case.model_copy(update={"tools_called": compared, "expected_tools": old})
    return Approved(_updated(case, old, notes), notes)


def _proposals(case: TestCase) -> list[str]:
    """Return a note for each id in the arguments that an earlier output contains."""
    sources = ToolGroundingMetric(answer=False).measure(case).findings
    return [
        f"{finding.message.removeprefix('Traced: ')[:-1]}: if it is new in each run, expect {finding.expected_value!r}"
        for finding in sources
        if isinstance(finding.expected_value, From) and is_id(finding.called_value)
    ]


def approve_conversation(
    case: ConversationalTestCase, redactor: Redactor, old: Golden | None = None
) -> tuple[Golden, list[str]]:
    """Return the golden whose turns expect the calls of a conversation, without secrets, and notes.

    An old golden stays, with what the calls changed: of each turn that states its calls, or of the whole conversation
    if that states them.

    Raises:
        MissingFieldError: See `approve`.
        InvalidDataError: As by `approve`; the message names the turn. Or the old golden has another number of turns.
    """
    if case.user_error is not None:
        raise InvalidDataError(f"the user spoilt the conversation, which is not approved ({case.user_error})")
    if old is not None and (old.expected_tools is not None or not old.turns):
        whole = approve(case.to_test_case(), redactor, old.expected_tools)
        return old.model_copy(update={"expected_tools": whole.expected}), whole.notes
    return _approve_turns(_bare_golden(case, redactor) if old is None else old, case, redactor)


def _approve_turns(golden: Golden, case: ConversationalTestCase, redactor: Redactor) -> tuple[Golden, list[str]]:
    """Return the golden with the calls of the turns that state theirs, or of all turns if none does, and notes."""
    items: list[Any] = [*(golden.turns or ())]
    turns = case.to_test_cases()
    places = [place for place, item in enumerate(items) if isinstance(item, UserTurn)]
    if not len(turns) == len(places) == len(case.exchanges):
        answered = f"{len(turns)} of {len(case.exchanges)} turns were answered"
        raise InvalidDataError(f"{answered}, and its golden has {len(places)}; run the whole conversation again")
    states_nothing = all(items[place].expected_tools is None for place in places)
    notes: list[str] = []
    for number, (turn, place) in enumerate(zip(turns, places, strict=True), 1):
        if states_nothing or items[place].expected_tools is not None:
            try:
                expected, more = approve(turn, redactor, items[place].expected_tools)
            except (InvalidDataError, MissingFieldError) as error:
                raise type(error)(f"turn {number}: {error}") from None
            items[place] = items[place].model_copy(update={"expected_tools": expected})
            notes += [f"turn {number}: {note}" for note in more]
    return golden.model_copy(update={"turns": items}), notes


def _bare_golden(case: ConversationalTestCase, redactor: Redactor) -> Golden:
    """Return the golden of a conversation without expected calls and secrets."""
    items: list[Any] = []
    for exchange in case.exchanges:
        items.append(exchange.question or "")
        items += [answer for turn in exchange.questions for answer in turn.metadata.get(ANSWERS, [])]
    fields = {name: getattr(case, name) for name in ("id", "available_tools", "tags")}
    fields["metadata"] = {name: value for name, value in case.metadata.items() if name != "warnings"}
    fields["ends"] = "interrupted" if run_end(case)[0] == "interrupted" else None
    return redactor.model(Golden(turns=items, **{name: value for name, value in fields.items() if value}))


def _run_problems(case: TestCase) -> list[str]:
    """Return why the run of a case is no model for later ones."""
    end, why = run_end(case)  # nothing says how messages ended that have no answer
    if end not in {"error", "stopped"}:
        return []
    return [f"the run {'was stopped' if end == 'stopped' else 'ended with an error'}, and is not approved ({why})"]


def _call_problems(calls: Sequence[ToolCall]) -> list[str]:
    """Return which calls a golden could only expect with any arguments."""
    problems: list[str] = []
    for index, call in enumerate(calls):
        if status_of(call) is CallStatus.INVALID_ARGUMENTS:
            problems.append(f"the arguments of {call_text(call, index)} are not a JSON object")
        elif not call.captured("input_parameters"):
            problems.append(f"the arguments of {call_text(call, index)} were not recorded")
    return problems


def _listed(items: Sequence[Item]) -> list[ToolCall] | Plan:
    """Return a list of calls, or the plan of the same items where some have matchers."""
    calls = [item for item in items if isinstance(item, ToolCall)]
    return calls if len(calls) == len(items) else Plan(items)


def _updated(case: TestCase, old: list[ToolCall] | Expectation, notes: list[str]) -> list[ToolCall] | Expectation:
    """Return the old expectation of a case with what its calls changed.

    Raises:
        InvalidDataError: It has rules beyond a list of calls, and the calls break them.
    """
    alignment = _COMPARED.align(case)
    plan = bind_to_run(Plan(old) if isinstance(old, list) else old, case.tools_called or ())
    if isinstance(plan, Alternatives) or not all(map(_is_plain, plan.calls)) or alignment.forbidden:
        if alignment.exact:
            return old
        raise InvalidDataError("the calls break the plan that the golden expects; change the golden by hand")
    rules = [item for item in plan.calls if isinstance(item, Forbid)]
    items = _updated_items(plan, alignment, case.tools_called or [], notes)
    return _listed(items) if isinstance(old, list) else replace(plan, calls=[*items, *rules])


def _is_plain(item: object) -> bool:
    """Return whether an item of a plan is a call without rules of order or number, or a forbidden call."""
    if isinstance(item, Expect):
        return item.most == 1 and not item.label and not item.after
    return isinstance(item, (ToolCall, Forbid))


def _updated_items(plan: Plan, alignment: Alignment, calls: Sequence[ToolCall], notes: list[str]) -> list[Item]:
    """Return the expected calls in the order of the called ones; an optional call that was not made keeps its place."""
    items = [item for item in plan.calls if isinstance(item, (ToolCall, Expect))]
    entries = next(iter(variants_of(plan))).entries
    pairs = {pair.called: pair for pair in alignment.pairs}
    placed: list[tuple[float, Item]] = []
    for index, call in enumerate(calls):
        pair = pairs.get(index)
        if pair is None:
            if not plan.allow_extra:
                placed.append((index, _without_marks(ToolCall(name=call.name), call.arguments, notes)))
        elif pair.similarity == 1:
            placed.append((index, items[pair.expected]))
        else:
            arguments = entries[pair.expected].patterns[0].item.arguments
            placed.append((index, _updated_item(items[pair.expected], arguments, call, notes)))
    for index in alignment.unused:
        before = max((pair.called for pair in alignment.pairs if pair.expected < index), default=-1)
        placed.append((before + 0.5, items[index]))
    return [item for _, item in sorted(placed, key=lambda entry: entry[0])]


def _updated_item(item: Item, arguments: object, call: ToolCall, notes: list[str]) -> Item:
    """Return an expected call with what a call changed; `arguments` are the expected ones, with all matchers."""
    changes = {name: getattr(call, name) for name in ("type", "turn") if getattr(item, name) is not None}
    item = item.model_copy(update=changes) if isinstance(item, ToolCall) else replace(item, at={}, **changes)
    if isinstance(arguments, (str, AbsentType)):
        return item
    template = Template.of(arguments)  # type: ignore[arg-type]
    called = {key: value for key, value in call.arguments.items() if not template.extras or key in template.tree}
    return _without_marks(item, _merged(template.tree, called), notes)


def _merged(old: Any, called: Any) -> Any:  # noqa: ANN401 - an expected value
    """Return a called value, with the matchers of the expected one that accept it, and what it hides by a mark."""
    if isinstance(old, Mapping) and isinstance(called, dict):
        merged = {key: _merged(old.get(key, ABSENT), called.get(key, ABSENT)) for key in {**called, **old}}
        return {key: value for key, value in merged.items() if value is not ABSENT}
    if type(old) is type(called) is list and len(old) == len(called):
        return list(map(_merged, old, called))
    stays = (has_mark(called) and old is not ABSENT) or (is_pattern(old) and fits(old, called))
    return old if stays else called


def _without_marks(item: Item, arguments: dict[str, Any], notes: list[str]) -> Item:
    """Return an expected call with these arguments, in which `Ignore()` stands for what is redacted."""
    hidden: list[Path] = []
    tree = _ignoring(arguments, (), hidden)
    notes += [
        f"{name_text(item.name)}: {json_path(path, '$.input_parameters')} is redacted; Ignore() is expected"
        for path in hidden
    ]
    if isinstance(item, Expect):
        return replace(item, input_parameters=tree)
    if not holds_matcher(tree):
        return item.model_copy(update={"input_parameters": tree})
    output = item.output if "output" in item.model_fields_set else ABSENT
    return Expect(item.name, tree, output=output, type=item.type, turn=item.turn)


def _ignoring(value: Any, path: Path, hidden: list[Path]) -> Any:  # noqa: ANN401 - an expected value
    """Return a value with `Ignore()` for each redacted one in it; `hidden` gets their paths."""
    if isinstance(value, dict) and MARK not in value:  # such an object cannot hold matchers
        return {key: _ignoring(item, (*path, key), hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [_ignoring(item, (*path, index), hidden) for index, item in enumerate(value)]
    if is_pattern(value) or not has_mark(value):
        return value
    hidden.append(path)
    return Ignore()
