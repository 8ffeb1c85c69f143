"""Expectations of the turns of a conversation as one expectation, whose calls are pinned to their turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from toolgrade.calls import ToolCall
from toolgrade.errors import InvalidDataError
from toolgrade.expect.plan import MOST_WAYS, Alternatives, Expect, Expectation, Forbid, OneOf, Parallel, Plan, PlanItem


def joined(
    whole: list[ToolCall] | Expectation | None, turns: Sequence[tuple[int, list[ToolCall] | Expectation]]
) -> list[ToolCall] | Expectation:
    """Return the expectation of a conversation and those of its turns, by their numbers, as one.

    Of several ways to follow its plan, each turn takes its own.

    Raises:
        InvalidDataError: A call of a turn names another turn, a plan of a turn has `tools`, or the conversation states
            calls beside a turn that has a plan.
    """
    calls: list[ToolCall] = []
    for number, one in turns:
        if isinstance(one, list):
            calls += [_pinned_call(call, number) for call in one]
    are_lists = all(isinstance(one, list) for _, one in turns)
    if are_lists and (whole is None or isinstance(whole, list)):
        return [*(whole or ()), *calls]
    if whole is not None:
        text = "expected_tools of a conversation and of its turns must be lists of calls if both are stated"
        raise InvalidDataError.of(f"{text}; give one plan of the conversation, with turn= of its calls")
    return _one_of_each([[_pinned_plan(plan, number) for plan in _plans(one)] for number, one in turns])


def _one_of_each(options: Sequence[Sequence[Plan]]) -> Expectation:
    """Return the plans that follow one plan of each of these."""
    if prod(map(len, options)) > MOST_WAYS:
        raise InvalidDataError.of(f"the alternatives of all turns have more than {MOST_WAYS} combinations")
    plans = [_one_plan(chosen) for chosen in product(*options)]
    return plans[0] if len(plans) == 1 else Alternatives(plans)


def _plans(expected: list[ToolCall] | Expectation) -> Sequence[Plan]:
    return [Plan(expected)] if isinstance(expected, list) else expected.plans


def _one_plan(plans: Sequence[Plan]) -> Plan:
    """Return the plans of several turns as one; other calls are allowed where all of them say so."""
    extras = {plan.allow_extra for plan in plans}
    allow_extra = extras.pop() if len(extras) == 1 else False if False in extras else None
    names = [plan.name for plan in plans if plan.name is not None]
    return Plan([item for plan in plans for item in plan.calls], allow_extra=allow_extra, name=", ".join(names) or None)


def _pinned_plan(plan: Plan, turn: int) -> Plan:
    if plan.tools:
        text = f"the plan of turn {turn} must not have tools=, which would apply to all turns"
        raise InvalidDataError.of(f"{text}; give the matchers in the arguments of its calls, or in at=")
    return _placed_plan(plan, f"turn {turn}", turn)


def _placed_plan(plan: Plan, place: str, turn: int | None = None) -> Plan:
    """Return a plan beside others, with labels of its own, and pinned to a turn if there is one."""
    name = None if plan.name is None else f"{place}: {plan.name}"
    return replace(plan, calls=[_placed(item, place, turn) for item in plan.calls], name=name)


def _placed(item: PlanItem, place: str, turn: int | None) -> PlanItem:
    if isinstance(item, ToolCall):
        return item if turn is None else _pinned_call(item, turn)
    if isinstance(item, Forbid):
        return replace(item, turn=_turn_of(item, turn))
    label, after = item.label and f"{place}: {item.label}", [f"{place}: {one}" for one in item.after]
    if isinstance(item, Expect):
        return replace(item, turn=_turn_of(item, turn), label=label, after=after)
    if isinstance(item, Parallel):
        calls: list[Any] = [_placed(call, place, turn) for call in item.calls]
        return Parallel(*calls, label=label, after=after)
    return OneOf(
        *([_placed(inner, place, turn) for inner in one] for one in item.alternatives), label=label, after=after
    )


def _pinned_call(call: ToolCall, turn: int) -> ToolCall:
    return call.model_copy(update={"turn": _turn_of(call, turn)})


def _turn_of(call: ToolCall | Expect | Forbid, turn: int | None) -> int | None:
    """Return the turn of a call that stands in the expectation of a turn."""
    if turn is not None and call.turn not in (None, turn):
        text = f"a call in the expected_tools of turn {turn} must be one of that turn, got turn={call.turn}"
        raise InvalidDataError.of(f"{text}; move it, or leave its turn out")
    return call.turn if turn is None else turn


def with_calls(expected: list[ToolCall] | Expectation, calls: list[ToolCall]) -> list[ToolCall] | Expectation:
    """Return an expectation with further calls at its end."""
    if isinstance(expected, list):
        return [*expected, *calls]
    plans = [replace(plan, calls=[*plan.calls, *calls]) for plan in expected.plans]
    return plans[0] if isinstance(expected, Plan) else Alternatives(plans)


def in_one_turn(stated: Sequence[list[ToolCall] | Expectation | None]) -> list[ToolCall] | Expectation | None:
    """Return what several texts of the user in one turn expect together; `None` if none states it."""
    present = [one for one in stated if one is not None]
    if len(present) < 2:  # noqa: PLR2004 - nothing to join
        return present[0] if present else None
    lists = [one for one in present if isinstance(one, list)]
    if len(lists) == len(present):
        return [call for one in lists for call in one]
    return _one_of_each(
        [[_placed_plan(plan, f"text {at}") for plan in _plans(one)] for at, one in enumerate(present, 1)]
    )
