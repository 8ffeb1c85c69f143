"""Wording of the numbers of a comparison."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages import before, small_report
from toolgrade import LLMTestCase, TaskSuccessMetric, ToolCall, ToolCorrectnessMetric, compare, evaluate
from toolgrade.report.html import render_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.report.terminal.console import make_console
from toolgrade.report.terminal.results import print_report
from toolgrade.report.text.phrases import comparison_cells, effect_hints, p_text

METRIC = compare(before(small_report())[0], small_report()).metrics[0]


@pytest.mark.parametrize(
    ("means", "texts"),
    [
        ((0.8333, 0.8303), ("0.833", "0.830")),
        ((0.75, 0.5), ("0.75", "0.50")),
        ((0.5, 0.5000001), ("0.5000000", "0.5000001")),
        ((1.0, 0.9999), ("1.00", "0.9999")),
        ((0.25, 0.25), ("0.25", "0.25")),
    ],
)
def test_different_means_have_different_texts(means: tuple[float, float], texts: tuple[str, str]) -> None:
    """With more decimals if two do not show the difference."""
    metric = replace(METRIC, mean_a=means[0], mean_b=means[1], difference=means[1] - means[0])

    assert comparison_cells(metric)[1:3] == texts


@given(st.floats(0, 1), st.floats(0, 1))
def test_means_that_differ_look_different(mean_a: float, mean_b: float) -> None:
    """If seventeen decimals show it; equal ones look equal."""
    metric = replace(METRIC, mean_a=mean_a, mean_b=mean_b, difference=mean_b - mean_a)
    text_a, text_b = comparison_cells(metric)[1:3]

    assert text_a != text_b or f"{mean_a:.17f}" == f"{mean_b:.17f}"
    assert text_a == text_b or mean_a != mean_b
    assert float(text_a) == pytest.approx(mean_a, abs=0.005)


def test_small_p_values() -> None:
    """Only their size is shown."""
    assert [p_text(value) for value in (None, 1.0, 0.0344, 0.001, 0.0009999, 0.0)] == [
        *("-", "1.000", "0.034", "0.001", "< 0.001", "< 0.001")
    ]


def test_tools_of_unknown_effect_are_listed_once() -> None:
    """With the calls of all cases, each once although two metrics report it; in every view, with what to type."""
    metrics = [TaskSuccessMetric(), ToolCorrectnessMetric(only="write", guess_effects=True)]
    names = ["frob & co", "get_user", "frob & co", "jiggle"]
    calls = [ToolCall(name=name) for name in names]
    report = evaluate(
        [LLMTestCase(tools_called=calls[start:], expected_tools=[calls[1]]) for start in (0, 1)],
        metrics,
        show_progress=False,
    )
    (text,) = effect_hints(report)
    console = make_console(StringIO())
    with console.capture() as capture:
        print_report(report, title="", console=console)
    properties = ET.fromstring(render_junit(report, title="")).iter("property")  # noqa: S314 - own output

    assert text == (
        "effect unknown: 'frob & co' (3 calls), 'jiggle' (2 calls); they were not scored: declare them with "
        "effects={'frob & co': 'write'}, --effect 'frob & co=write', or in available_tools"
    )
    assert " ".join(capture.get().split()).count(text) == 1
    assert render_markdown(report, title="").count(f"> `{text}`") == 1
    assert render_html(report).replace("&#39;", "'").count(text.replace("&", "&amp;")) == 1
    assert [one.get("value") for one in properties if one.get("name") == "hint"] == [text]
    assert effect_hints(evaluate([LLMTestCase(tools_called=calls[1:2], expected_tools=[])], metrics)) == []
