"""Random programs of many agents, played on the SDK's runner and compared with their truth."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import test_contract
from agents import RunConfig
from oa_versions import ENFORCES_IDS, FEATURES

import programs
from programs import Program, check_programs, random_program
from toolmark.testing import AgentTool, Scene

MISSING = {
    "repeated ids": ENFORCES_IDS,
    "unknown tools": not FEATURES["not_found"].is_due(),
    "approvals": not FEATURES["approvals"].is_due(),
}
"""What a program may have, and whether the installed release cannot do it."""

PLAYED = programs.FEATURES - {feature for feature, is_missing in MISSING.items() if is_missing}


class Continuing(test_contract.TestContract):
    """Plays scenes in which a call of an unknown tool does not end the run."""

    run_config: ClassVar[Any] = (
        None if MISSING["unknown tools"] else RunConfig(tool_not_found_behavior="return_error_to_model")
    )


def program_with_equal_ids(seed: int, features: frozenset[str]) -> Program:
    """A program in which the ids of a run are unique, as the SDK wants them, and those of other runs are the same."""
    program = random_program(seed, features)
    return replace(program, scenes=[_numbered(scene, itertools.count()) for scene in program.scenes])


def _numbered(scene: Scene, numbers: Iterator[int]) -> Scene:
    """The scene with numbers as ids; an agent that takes over goes on in the same run."""
    steps = [
        replace(step, calls=tuple(replace(call, id=f"c{next(numbers)}") for call in step.calls)) for step in scene.steps
    ]
    tools = [
        replace(tool, scene=_numbered(tool.scene, itertools.count())) if isinstance(tool, AgentTool) else tool
        for tool in scene.tools
    ]
    return replace(scene, steps=steps, tools=tools, handoffs=[_numbered(other, numbers) for other in scene.handoffs])


def test_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded of a program is what its script and its tools say."""
    if MISSING["repeated ids"]:
        monkeypatch.setattr(programs, "random_program", program_with_equal_ids)
    check_programs(Continuing(), PLAYED)
