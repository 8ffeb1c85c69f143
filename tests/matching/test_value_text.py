"""Expected and called values as text: two that differ are shown differently, and a matcher in its own words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oracles import equal
from strategies import AWKWARD, twins
from toolgrade import LLMTestCase, TaskSuccessMetric, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.expect import AllOf, Approx, Exact, Expect, Ignore, IgnoreCase, Not, Plan, Regex, SameMeaning, Unordered
from toolgrade.matching.value_text import pair_text, text_of, value_text
from toolgrade.report.html import render_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.report.redaction import redact
from toolgrade.report.text.first_problem import first_problem
from toolgrade.report.text.side_by_side import rows

#: Long texts of few characters, which have many equal parts.
texts = st.text('ab." \u00a0\u0430', max_size=12).map(lambda text: text * 20) | st.text(max_size=200)
LONG = "abc " * 200
values = twins | st.sampled_from(AWKWARD) | texts | st.lists(texts, max_size=3)


@given(values, values, texts, st.sampled_from([40, 80, 400]))
def test_values_that_differ_are_shown_differently(one: Any, other: Any, start: str, limit: int) -> None:
    """However long they are, however late they differ, and by whatever characters."""
    assume(not equal(one, other))
    for expected, called in (
        (one, other),
        ([start, one, LONG], [start, other, LONG]),
        ([LONG, one, LONG], [LONG, other, LONG]),
        (SameMeaning(one), other),
    ):
        pair = pair_text(expected, called, limit)

        assert pair.expected != pair.called
        assert pair.expected.isprintable()
        assert max(len(pair.expected), len(pair.called)) <= limit


@pytest.mark.parametrize(
    ("expected", "called", "note"),
    [
        ("Paris", "P\u0430ris", "they look alike: U+0061 is expected, U+0430 called"),
        ("New York", "New\u00a0York", "they differ in white space: U+0020 is expected, U+00A0 called"),
        ("a b", "a  b ", "they differ in white space: U+0062 is expected, U+0020 U+0062 U+0020 called"),
        ("\u00e9", "e\u0301", "they look alike: U+00E9 is expected, U+0065 U+0301 called"),
        ("ab", "a\u200bb", "they look alike: nothing is expected, U+200B called"),
        (IgnoreCase("ab"), "a\u00adb", "they look alike: nothing is expected, U+00AD called"),
        (["a-b"], ["a\u2011b"], "they look alike: U+002D is expected, U+2011 called"),
        ("a\nb", "a b", "they differ in white space: U+000A is expected, U+0020 called"),
        ("[redacted by toolgrade]", "[redacted by toolgrade]", ""),
        ("Paris", "Rome", ""),
        ("a", ["a"], ""),
    ],
)
def test_what_is_hard_to_see_is_said(expected: Any, called: Any, note: str) -> None:
    """The code points of texts that look alike."""
    assert pair_text(expected, called, 80).note == (f" ({note})" if note else "")


def test_numbers_that_json_lacks_are_no_texts() -> None:
    """`NaN` is not `"NaN"`."""
    numbers = [float("nan"), {"a": float("-inf")}, "NaN", 1]

    assert text_of(numbers) == '[NaN, {"a": -Infinity}, "NaN", 1]'
    assert value_text([Approx(1, abs=2), {"x": Ignore()}], 60) == '[about 1 (abs 2), {"x": anything}]'


def test_the_form_of_a_matcher_is_never_printed() -> None:
    """Not in reasons, findings, rows, lines and pages, wherever the matcher stands."""
    inner = [{"first": IgnoreCase("Ann"), "key": Exact({"$is": "x"})}, Unordered([Approx(1), Regex("a+")])]
    arguments = {"a": inner, "b": AllOf({"c": Not(1)}, Ignore()), "password": IgnoreCase("x")}
    plan = Plan([Expect("book", arguments, output=[Not("x")])])
    called = [ToolCall(name="book", input_parameters={"a": 1, "b": 2, "password": "hunter2"}, output=3)]
    plain = [ToolCall(name="book", input_parameters={"a": [{"b": "c"}], "d": {"e": "f"}})]
    cases = [LLMTestCase(tools_called=called, expected_tools=expected) for expected in (plan, plain)]
    exact = ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"])
    meaning = ToolCorrectnessMetric(evaluation_params=["input_parameters"], compare="meaning")
    report = evaluate(cases, [exact, meaning, TaskSuccessMetric()], show_progress=False)
    shown = [render_html(report), render_markdown(report, title="t"), render_junit(report, title="t"), str(report)]
    for case, result in redact(report).results():
        shown += [str(result.reason), *(one.message for one in result.findings), first_problem(result)]
        shown += [str(row) for nested in (True, False) for row in rows(result, case.case, nested=nested)]

    for text in shown:
        for form in ("same_meaning", "ignore_case", '"approx"', "all_of", '"not"', "unordered&", "hunter2"):
            assert form not in text, form
    whole = '[{"first": "Ann" in any case, "key": {"$is": "x"}}, unordered [about 1 (rel 1e-06), /a+/]]'
    assert any(f"$.input_parameters.a expected {whole}"[:60] in text for text in shown)
