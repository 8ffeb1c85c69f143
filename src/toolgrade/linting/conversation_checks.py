"""Checks of goldens with turns or a simulated user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from toolgrade._internal.json import json_text
from toolgrade.cases import AnyCase, Turn
from toolgrade.dataset import Golden
from toolgrade.errors import InvalidDataError
from toolgrade.linting.findings import LintFinding, LintKind, Spot
from toolgrade.user_turns import SimulatedUser, UserTurn


def check_turns(
    case: AnyCase | Golden, turns: Sequence[tuple[Turn | UserTurn, Spot]], whole: Spot
) -> Iterator[LintFinding]:
    """Yield what the turns of a golden state and cannot be measured, and turns that state nothing if others do.

    The latter are no finding if the whole conversation, which is at `whole`, states its calls.
    """
    if isinstance(case, Golden):
        try:
            case.check_turns()
        except InvalidDataError as error:
            yield LintFinding(LintKind.CONTRADICTION, whole.path, str(error))
    if case.expected_tools is not None or all(turn.expected_tools is None for turn, _ in turns):
        return
    for number, (turn, spot) in enumerate(turns, 1):
        if turn.expected_tools is None and not turn.required_texts:
            message = f"turn {number} states nothing, so any calls pass, and other turns do; [] means no call"
            yield LintFinding(LintKind.UNSTATED_TURN, spot.path, message)


def check_user(golden: Golden, user: SimulatedUser, spot: Spot) -> Iterator[LintFinding]:
    """Yield the facts of a simulated user that no expectation has, and a goal without a stop."""
    if user.stop is None:
        message = "nothing says when the goal is reached; give stop, such as 'the refund is confirmed'"
        yield LintFinding(LintKind.NO_STOP, spot.path, message)
    stated = golden.to_dict()
    texts = {name: stated.get(name) for name in ("expected_tools", "expected_output", "required_texts")}
    expected = json_text(texts).casefold()
    for name, value in user.facts.items():
        if golden.expected_tools is not None and not any(text.casefold() in expected for text in _leaves(value)):
            message = f"the fact {name!r} is in no expectation, so an agent that gets it wrong passes"
            yield LintFinding(LintKind.UNUSED_FACT, spot.at("facts").under(name).path, message)


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of a JSON value as they stand in JSON."""
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield json_text(value).strip('"')
