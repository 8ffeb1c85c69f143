"""The laws of the success of a task: what its score must keep, whatever the case states."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strategies import NAN
from toolgrade import LLMTestCase, MetricResult, TaskSuccessMetric, ToolCall
from toolgrade.expect import SameMeaning
from toolgrade.expect.meaning import meaning_key

EFFECTS = {"look": "read", "find": "read", "*": "write"}
PARTS = ("effects", "arguments", "turns", "required_texts", "ended", "answer", "reads", "forbidden")

_plain = st.sampled_from((0, 1, 1.0, True, "1", "1.0", "01", "x", " X", "x  y", "X y", None, NAN))
_values = st.recursive(
    _plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
_fields = st.fixed_dictionaries(
    {"name": st.sampled_from(("look", "find", "book", "book", "pay"))},
    optional={
        "input_parameters": st.dictionaries(st.sampled_from("ab"), _values, max_size=2),
        "turn": st.integers(1, 2),
    },
)
_words = st.sampled_from(("yes", "no", "12", "12.0", "New York", "x"))
_texts = st.lists(_words, max_size=3)
_stated = st.fixed_dictionaries(
    {},
    optional={
        "required_texts": _texts,
        "ends": st.sampled_from(["ok", "stopped", "any", None]),
        "expected_output": st.lists(_words, min_size=1, max_size=3).map(" ".join),
    },
)
_calls = st.lists(_fields.map(lambda fields: ToolCall(**fields)), max_size=4)


@st.composite
def _cases(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a case with the calls of a run that knows its turns, texts and end."""
    called = [
        ToolCall(**{"turn": 1, **fields}, execution={"status": "ok"}) for fields in draw(st.lists(_fields, max_size=4))
    ]
    recorded = {"agent_texts": draw(_texts), "actual_output": draw(_words), "ended": draw(st.booleans())}
    return {"expected_tools": draw(_calls), "tools_called": called, **recorded, **draw(_stated)}


def measured(case: dict[str, Any], **options: Any) -> MetricResult:
    """The result of a case."""
    return TaskSuccessMetric(**{"effects": EFFECTS, **options}).measure(LLMTestCase(**case))


def score(case: dict[str, Any], **options: Any) -> float:
    """The score of a case."""
    return float(measured(case, **options))


@given(case=_cases())
def test_bounds_and_explanations(case: dict[str, Any]) -> None:
    """Scores and parts are in [0, 1]; the score is 1 only if each part is; a lower one has a finding in the reason."""
    result = measured(case, forbidden=["pay"])

    assert result.score is not None
    assert 0 <= result.score <= 1
    assert result.parts["total"] == result.score
    assert all(0 <= part <= 1 for part in result.parts.values())
    holding = all(result.parts.get(name, 1) == 1 for name in PARTS)
    assert (result.score == 1) is holding
    assert [one for one in result.findings if one.kind != "equal_by_meaning"] or result.score == 1
    assert all(finding.message in str(result.reason) for finding in result.findings)
    assert repr(result) == repr(measured(case, forbidden=["pay"]))


@given(case=_cases())
def test_parts_are_those_that_the_case_states(case: dict[str, Any]) -> None:
    """And the score is their product, as documented."""
    parts = measured(case).parts
    states = {
        "required_texts": bool(case.get("required_texts")),
        "ended": case.get("ends") in {"ok", "stopped"},
        "answer": "expected_output" in case,
        "reads": any(call.name in ("look", "find") for call in case["expected_tools"]),
        "forbidden": False,
    }
    assert {name: name in parts for name in states} == states

    product = (parts.get("effects", 1) + parts.get("arguments", 1)) / 2 * (0.98 + 0.02 * parts.get("reads", 1))
    for name in ("required_texts", "ended", "answer"):
        product *= (1 + parts.get(name, 1)) / 2
    assert abs(parts["total"] - product) < 1e-9


@given(case=_cases())
def test_an_expectation_that_is_not_met_never_raises_the_score(case: dict[str, Any]) -> None:
    """Whichever is added: a call, its turn, a text, an end, an answer."""
    before = score(case)
    texts = case.get("required_texts", [])
    added = [
        {"expected_tools": [*case["expected_tools"], ToolCall(name="never_called")]},
        {"expected_tools": [*case["expected_tools"], ToolCall(name="never_called", turn=2)]},
        {"expected_tools": [ToolCall(name="find_nothing"), *case["expected_tools"]]},
        {"required_texts": ["not said by anyone", *texts]},
        {"ends": "ok", "ended": False},
    ]
    if "expected_output" not in case:
        added.append({"expected_output": "neither of these"})
    for change in added:
        effects = {**EFFECTS, "find_nothing": "read"}
        assert score({**case, **change}, effects=effects) <= before + 1e-12


@given(case=_cases())
def test_what_the_case_does_not_state_changes_nothing(case: dict[str, Any]) -> None:
    """Without expectations of texts, end, answer and turns, what was recorded of them plays no part."""
    bare = {name: case[name] for name in ("expected_tools", "tools_called")}
    bare["expected_tools"] = [call.model_copy(update={"turn": None}) for call in bare["expected_tools"]]
    others = {"agent_texts": case["agent_texts"], "actual_output": case["actual_output"], "ended": case["ended"]}
    without_turns = [call.model_copy(update={"turn": None}) for call in case["tools_called"]]

    assert repr(measured({**bare, **others})) == repr(measured(bare))
    assert score({**bare, "tools_called": without_turns}) == score(bare)


@given(case=_cases(), seed=st.integers(0, 99))
def test_order_plays_no_part(case: dict[str, Any], seed: int) -> None:
    """Of calls, of required texts and of lists of plain values."""
    draw = random.Random(seed)

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shuffled(item) for key, item in value.items()}
        if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
            return draw.sample(value, len(value))
        return list(map(shuffled, value)) if isinstance(value, list) else value

    called = [call.model_copy(update={"input_parameters": shuffled(call.arguments)}) for call in case["tools_called"]]
    other = {
        **case,
        "tools_called": draw.sample(called, len(called)),
        "expected_tools": draw.sample(case["expected_tools"], len(case["expected_tools"])),
        "agent_texts": draw.sample(case["agent_texts"], len(case["agent_texts"])),
    }
    assert abs(score(case) - score(other)) < 1e-12


@given(case=_cases())
def test_comparing_by_meaning_never_finds_less_in_equal_shapes(case: dict[str, Any]) -> None:
    """Calls that are equal as JSON values have the same meaning, so the expected run scores 1 in both ways."""
    expected = [call for call in case["expected_tools"] if "turn" not in call.model_fields_set]
    run = {**case, "expected_tools": expected, "tools_called": expected, "ended": True}
    for compare in ("exact", "meaning"):
        result = measured(run, compare=compare)
        assert result.parts.get("arguments", 1) == 1
        assert not [finding for finding in result.findings if finding.kind == "equal_by_meaning"]


@given(one=_values, other=_values)
def test_meaning_is_an_equivalence(one: Any, other: Any) -> None:
    """The matcher and its key agree, in both directions, and a full credit is an acceptance."""
    same = meaning_key(one) == meaning_key(other)

    assert SameMeaning(one).accepts(other) is SameMeaning(other).accepts(one) is same
    assert SameMeaning(one).accepts(one)
    assert (SameMeaning(one).credit(other) == (1, 1)) is same
    assert same is _slowly_same(one, other)


def _slowly_same(one: Any, other: Any) -> bool:
    """Compare two values as the documentation says, without keys."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_slowly_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        if any(isinstance(item, (list, dict)) for item in (*one, *other)):
            return all(map(_slowly_same, one, other))
        rest = list(other)
        for item in one:
            match = next((place for place, value in enumerate(rest) if _slowly_same(item, value)), None)
            if match is None:
                return False
            del rest[match]
        return True
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if isinstance(one, (list, dict)) or isinstance(other, (list, dict)):
        return False
    return _spelled(one) == _spelled(other)


def _spelled(value: Any) -> Any:
    if isinstance(value, str):
        text = " ".join(value.lower().split())
        return {"1": 1.0, "1.0": 1.0}.get(text, text)
    return "a number that is none" if value != value else float(value)  # noqa: PLR0124 - NaN
