"""The generator of random programs, played on the reference framework, which is right, and on adapters that are not."""

from __future__ import annotations

import pytest

from programs import check_programs, random_program
from toolgrade.testing import AgentTool
from toy_framework import PlainContract, Recorder
from wrong_adapters import CompletionOrder, DropsFailedCalls, KeysByIdOnly, KnowsNoScopes


@pytest.mark.any_version
def test_reference_adapter_records_the_truth() -> None:
    """The truth of a script is what an adapter without faults records."""
    check_programs(PlainContract())


def test_programs_have_all_features() -> None:
    """A hundred programs have agents inside agents, and every feature."""
    programs = [random_program(seed) for seed in range(100)]
    scenes = [scene for program in programs for scene in program.scenes]
    inner = [tool.scene for scene in scenes for tool in scene.tools if isinstance(tool, AgentTool)]

    assert {program.kind for program in programs} == {"run", "branches", "approvals"}
    assert any(isinstance(tool, AgentTool) for scene in inner for tool in scene.tools)
    assert any(scene.is_structured for scene in inner)
    assert any(scene.handoffs for scene in scenes)
    assert any(step.error for scene in scenes for step in scene.steps)  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", [CompletionOrder, DropsFailedCalls, KeysByIdOnly, KnowsNoScopes])
def test_wrong_adapters_are_noticed(wrong: type[Recorder]) -> None:
    """An adapter that loses, mixes or reorders calls does not record the truth of all programs."""
    contract = type("Wrong", (PlainContract,), {"recorder": wrong})()

    with pytest.raises(AssertionError, match="program"):
        check_programs(contract)
