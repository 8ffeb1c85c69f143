"""Scenes of the parity table, played on libraries that OpenTelemetry records.

The fields of each run are compared with those that the three adapters have in common. `parity.json` has the fields in
which a library differs, and `parity/libraries.py` says why. `TOOLGRADE_UPDATE_GOLDEN=1` writes it anew.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from parity.libraries import DIFFERENCES, PLAYABLE
from parity.records import RECORDS, fields_of, is_equal
from parity.scenarios import SCENARIOS
from toolgrade import Run
from toolgrade.agents import Conversation
from toolgrade.live.otel import as_agent
from toolgrade.testing import AgentTool, Scene, ToolDouble

Play = Callable[[Scene], Callable[[str], Any]]
"""Returns the function that asks an agent which plays a scene."""


def plays_scenes(library: str, play: Play) -> Callable[[str], None]:
    """Return the test that plays every scene on a library."""

    @pytest.mark.parametrize("scenario", PLAYABLE)
    def test_scene(scenario: str) -> None:
        """The run has the fields of the adapters' runs, but for those that are listed."""
        scene = SCENARIOS[scenario]()
        run = asyncio.run(as_agent(play(scene))(scene.input, Conversation()))
        assert_listed(library, scenario, run)

    return test_scene


def assert_listed(library: str, scenario: str, run: Run) -> None:
    """Compare a run with the stored record, and its differences with the listed ones."""
    record, fields = json.loads(RECORDS.read_text(encoding="utf-8"))[scenario], fields_of(run)
    paths = [path for path in record if not (path in fields and is_equal(path, record[path], fields[path]))]
    # Other calls have other fields.
    has_others = any(path.endswith(".length") for path in paths)
    differing = sorted({_field(path, has_others=has_others) for path in paths})
    listed = json.loads(DIFFERENCES.read_text(encoding="utf-8"))
    if os.environ.get("TOOLGRADE_UPDATE_GOLDEN") == "1":
        listed.setdefault(library, {}).pop(scenario, None)
        if differing:
            listed[library][scenario] = differing
        text = json.dumps(listed, indent=1, ensure_ascii=False)
        DIFFERENCES.write_text(text + "\n", encoding="utf-8", newline="\n")
    assert listed[library].get(scenario, []) == differing, [
        (path, record[path], fields.get(path, "(none)")) for path in paths
    ]


def _field(path: str, *, has_others: bool) -> str:
    """Return the name of a field of the run or, whichever call it is, of a call."""
    if not path.startswith("calls"):
        return f"run.{path}"
    return "calls" if has_others else path.rpartition(".")[2]


def function_of(tool: ToolDouble | AgentTool, play: Play) -> Callable[..., Any]:
    """Return the function of a tool; an agent as a tool is a function that asks it."""
    if isinstance(tool, ToolDouble):
        return tool.function
    inner = tool.scene

    def ask(input: str) -> str:
        """Ask another agent."""
        answer = play(inner)(input)
        return str(asyncio.run(answer) if asyncio.iscoroutine(answer) else answer)

    ask.__name__ = tool.name
    return ask


def shown_errors(function: Callable[..., Any], error: Callable[[str], Exception]) -> Callable[..., Any]:
    """Return a function that raises the library's own exception for a tool whose error the model is to see."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as cause:
            raise error(str(cause)) from cause

    return call
