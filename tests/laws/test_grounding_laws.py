"""Laws of `ToolGroundingMetric`, over random runs."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolgrade import LLMTestCase, Run, ToolCall, ToolGroundingMetric

IDS = st.from_regex(r"[A-Z]{2}[0-9]{5}", fullmatch=True)
VALUES: st.SearchStrategy[Any] = st.one_of(
    IDS,
    st.integers(11, 10**9),
    st.integers(1_100, 10**8).map(lambda cents: cents / 100),
    st.dates().map(str),
    st.from_regex(r"[a-z]{3,8}@[a-z]{3,8}\.example", fullmatch=True),
    st.from_regex(r"[a-z]{2,6}_[0-9]{4,9}", fullmatch=True),
    st.uuids().map(str),
    st.from_regex(r"https://[a-z]{3,8}\.example/[a-z0-9]{4,8}", fullmatch=True),
)
WORDS = st.text(st.sampled_from("abc xyz,.?! \n"), max_size=20).map(lambda text: f" {text} ")
PLACES = st.sampled_from(["user", "system", "output", "text", "nested", "json text", "key", "enum", "default"])


def run_with(place: str, value: Any, around: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """The fields of a case in which the value was seen at this place, before a call that passes it on."""
    text = f"{around[0]} {value} {around[1]}"
    outputs = {
        "output": value,
        "text": text,
        "nested": {"rows": [{"no": 1}, {"cells": [None, value]}]},
        "json text": json.dumps({"rows": [value]}),
        "key": {str(value): {"a": 1}},
    }
    schema = {"properties": {"x": {"enum": [value], "type": "string"} if place == "enum" else {"default": value}}}
    return {
        "input": text if place == "user" else "Go on.",
        "run": Run(instructions=text if place == "system" else "Help."),
        "tools_called": [ToolCall(name="look_up", output=outputs.get(place, "nothing"))],
        "available_tools": [{"name": "act", "parameters": schema}] if place in ("enum", "default") else None,
    }


def result_of(fields: dict[str, Any], *arguments: Any) -> Any:
    """The result of a run that ends with one call for each of these arguments."""
    acts = [ToolCall(name="act", input_parameters={"x": value}, output="done") for value in arguments]
    case = LLMTestCase(**{**fields, "tools_called": [*fields["tools_called"], *acts]})
    return ToolGroundingMetric().measure(case)


@given(PLACES, VALUES, WORDS, WORDS)
def test_a_value_copied_from_anywhere_is_traced(place: str, value: Any, before: str, after: str) -> None:
    """Whatever stands around it."""
    assert result_of(run_with(place, value, (before, after)), value).score == 1


@given(PLACES, st.lists(VALUES, min_size=1, max_size=4), VALUES, st.lists(VALUES, max_size=3), WORDS)
def test_more_that_was_seen_never_lowers_the_score(
    place: str, arguments: list[Any], seen: Any, more: list[Any], words: str
) -> None:
    """More words of the user, a longer prompt, or one more output."""
    fields = run_with(place, seen)
    score = result_of(fields, *arguments).score or 0
    text = f"{words} {' '.join(map(str, more))}"
    longer: list[dict[str, Any]] = [
        {"input": f"{fields['input']}{text}"},
        {"run": Run(instructions=f"{fields['run'].instructions} {text}")},
        {"tools_called": [ToolCall(name="search", output={"more": more}), *fields["tools_called"]]},
    ]
    for change in longer:
        assert (result_of({**fields, **change}, *arguments).score or 0) >= score


@given(PLACES, st.lists(IDS, min_size=3, max_size=3, unique=True), st.lists(IDS, min_size=3, max_size=3, unique=True))
def test_renaming_a_value_everywhere_changes_nothing(place: str, old: list[str], new: list[str]) -> None:
    """Neither a value that was seen nor one from nowhere."""
    names = dict(zip(old, new, strict=True))
    fields = run_with(place, old[0], ("for", f"and {old[1]}"))

    def renamed(value: Any) -> Any:
        text = json.dumps(value)
        return json.loads(re.sub("|".join(names), lambda match: names[match[0]], text))

    case = LLMTestCase(**fields).to_dict()
    outputs = [call.get("output") for call in case["tools_called"]]
    other = {
        **fields,
        "input": renamed(fields["input"]),
        "run": Run(instructions=renamed(fields["run"].instructions)),
        "tools_called": [ToolCall(name="look_up", output=renamed(output)) for output in outputs],
        "available_tools": renamed(case.get("available_tools")),
    }
    assert result_of(other, *new).score == result_of(fields, *old).score


@given(PLACES, VALUES, VALUES)
def test_only_what_was_seen_before_matters(place: str, seen: Any, value: Any) -> None:
    """An output that comes later changes nothing of what was decided before."""
    fields = run_with(place, seen)
    act = ToolCall(name="act", input_parameters={"x": value}, output="done")
    later = ToolCall(name="look_up", output=[value, str(value)])
    alone = LLMTestCase(**{**fields, "tools_called": [*fields["tools_called"], act]})
    followed = LLMTestCase(**{**fields, "tools_called": [*fields["tools_called"], act, later]})
    assert ToolGroundingMetric().measure(followed).score == ToolGroundingMetric().measure(alone).score
