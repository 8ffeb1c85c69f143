"""Multimodal tool correctness: the same score for cases that hold images."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from toolgrade import (
    LLMTestCase,
    MissingFieldError,
    MLLMImage,
    MLLMTestCase,
    MultimodalToolCorrectnessMetric,
    ToolCall,
    ToolCallParams,
    ToolCorrectnessMetric,
)

OPTIONS: list[dict[str, Any]] = [
    {},
    {"should_consider_ordering": True},
    {"should_exact_match": True},
    {"strict_mode": True},
    {"threshold": 0.9},
    {"include_reason": False},
    {"evaluation_params": [ToolCallParams.INPUT_PARAMETERS, ToolCallParams.OUTPUT]},
]


def test_page_example() -> None:
    """The example of the page, as a reader would type it."""
    test_case = MLLMTestCase(
        input="What's in this image?",
        actual_output="The image shows a pair of running shoes.",
        # Replace this with the tools that was actually used by your LLM agent
        tools_called=[ToolCall(name="ImageAnalysis"), ToolCall(name="ToolQuery")],
        expected_tools=[ToolCall(name="ImageAnalysis")],
    )

    metric = MultimodalToolCorrectnessMetric()
    metric.measure(test_case)
    assert metric.score == 1
    assert str(metric.reason).startswith("1 matched / 1 expected = 1 (passed at 0.5).")


def test_ordering_example_of_the_page() -> None:
    """Two analyses and then the query, where the query was expected in between, are not all right."""
    names = ("ImageAnalysis", "ImageAnalysis", "ToolQuery")
    test_case = MLLMTestCase(
        tools_called=[ToolCall(name=name) for name in names],
        expected_tools=[ToolCall(name=names[index]) for index in (0, 2, 1)],
    )
    assert MultimodalToolCorrectnessMetric(should_consider_ordering=True).measure(test_case).score == 2 / 3
    assert (
        MultimodalToolCorrectnessMetric(should_consider_ordering=True, strict_mode=True).measure(test_case).score == 0
    )


def test_the_seven_options_of_the_page() -> None:
    """The documented options and defaults, without a judge and available tools."""
    parameters = inspect.signature(MultimodalToolCorrectnessMetric).parameters
    assert {name: parameter.default for name, parameter in parameters.items()} == {
        "threshold": 0.5,
        "evaluation_params": (ToolCallParams.TOOL,),
        "include_reason": True,
        "strict_mode": False,
        "verbose_mode": False,
        "should_consider_ordering": False,
        "should_exact_match": False,
    }


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options) or "defaults")
def test_images_play_no_part_in_the_score(options: dict[str, Any]) -> None:
    """A case scores the same with images, with other images, and as plain text, and as the plain metric scores it."""
    sides: dict[str, Any] = {
        "expected_tools": [ToolCall(name="a", input_parameters={"x": 1, "y": 2}), ToolCall(name="b", output=1)],
        "tools_called": [ToolCall(name="b", output=2), ToolCall(name="a", input_parameters={"x": 1})],
    }
    cases = [
        MLLMTestCase(input=["Look:", MLLMImage(url="https://example.com/1.png")], **sides),
        MLLMTestCase(input=["Look:", MLLMImage(data="iVBORw==")], expected_output=[MLLMImage(path="2.png")], **sides),
        MLLMTestCase(input="Look", **sides),
        LLMTestCase(input="Look", **sides),
    ]
    plain = ToolCorrectnessMetric(**options).measure(cases[-1])
    for case in cases:
        result = MultimodalToolCorrectnessMetric(**options).measure(case)
        assert result == plain.renamed(result.metric)
        assert result.metric == plain.metric.replace("tool_correctness", "multimodal_tool_correctness")


def test_missing_side_names_this_metric() -> None:
    """The error names the called metric."""
    with pytest.raises(MissingFieldError, match=r"^MultimodalToolCorrectnessMetric needs tools_called"):
        MultimodalToolCorrectnessMetric().measure(MLLMTestCase(expected_tools=[]))
