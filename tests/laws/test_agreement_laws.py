"""Laws of the agreement of runs: of their order, of equal runs, of names of tools, and of repeated runs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolgrade import LLMTestCase, ToolCall
from toolgrade.calls import ToolEffect, ToolSpec
from toolgrade.evaluation.agreement import RunContent, agreements

EFFECTS = {"look": ToolEffect.READ, "book": ToolEffect.WRITE, "pay": ToolEffect.WRITE}
NAMES = {"look": "book_it", "book": "get_all", "pay": "x"}
"""Other names of the same tools, which suggest other effects."""

_values = st.sampled_from((0, 1, 1.0, True, "1", "a", "A", None, [], [1, 2], [2, 1], {}, {"a": 1}))
_arguments = st.dictionaries(st.sampled_from("ab"), _values, max_size=2)
_calls = st.lists(st.tuples(st.sampled_from([*EFFECTS]), _arguments), max_size=3)
_answers = st.sampled_from((None, "", "?!", "Done.", "done", "Done, it cost 12 EUR", "12 EUR", "no"))
runs_drawn = st.lists(st.tuples(_calls, _answers), min_size=2, max_size=4)


def agreement(runs: list[Any], names: dict[str, str] | None = None) -> list[tuple[float | None, float | None]]:
    """The agreement of runs of calls and answers, of tools with these names."""
    new = names or {name: name for name in EFFECTS}
    tools = [ToolSpec(name=new[name], effect=effect) for name, effect in EFFECTS.items()]
    cases = [
        LLMTestCase(
            tools_called=[ToolCall(name=new[name], input_parameters=arguments) for name, arguments in calls],
            actual_output=answer,
            available_tools=tools,
        )
        for calls, answer in runs
    ]
    return agreements([RunContent.of(case) for case in cases])


@given(runs_drawn, st.randoms(use_true_random=False))
def test_order_and_names(runs: list[Any], rng: Any) -> None:
    """Numbers are in [0, 1], and belong to a run wherever it stands and whatever its tools are called."""
    numbers = agreement(runs)
    places = list(range(len(runs)))
    rng.shuffle(places)

    assert all(0 <= one <= 1 for both in numbers for one in both if one is not None)
    assert agreement([runs[place] for place in places]) == [numbers[place] for place in places]
    assert agreement(runs, NAMES) == numbers
    answers = sum(bool(answer) for _, answer in runs)
    assert [answer is not None for _, answer in numbers] == [bool(answer) and answers > 1 for _, answer in runs]


@given(runs_drawn, st.integers(2, 4))
def test_equal_runs_agree(runs: list[Any], count: int) -> None:
    """Fully, and one more of a kind never lowers what its kind agrees with."""
    calls, answer = runs[0]

    assert agreement([(calls, answer)] * count) == [(1.0, 1.0 if answer else None)] * count

    (writes, answers), *_ = agreement(runs)
    (more_writes, more_answers), *_ = agreement([runs[0], *runs])
    assert writes is not None
    assert more_writes is not None
    assert more_writes >= writes
    assert answers is None or more_answers is None or more_answers >= answers
