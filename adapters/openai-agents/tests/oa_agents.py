"""Agents, tools and ways of playing them for the scenarios."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from feature_table import Feature
from oa_models import Scripted
from oa_versions import FEATURES, TELLS_EXCEPTIONS, TELLS_TEXTS

from toolgrade import Run, ToolCall
from toolgrade_openai_agents import record, run_from_result

E0 = "An error occurred while running the tool. Please try again."
"""What the SDK shows a model in place of an exception; older releases append its text."""


@function_tool(strict_mode=False)
async def add(a: int, b: int) -> dict[str, int]:
    """Add."""
    return {"sum": a + b}


@function_tool(strict_mode=False)
async def boom(x: int) -> str:
    """Fail."""
    message = f"bad {x}"
    raise ValueError(message)


@function_tool(strict_mode=False, failure_error_function=None)
async def hard(x: int) -> str:
    """Fail, and end the run."""
    message = f"hard {x}"
    raise ValueError(message)


@function_tool(strict_mode=False)
async def slow(d: float) -> str:
    """Sleep for the number of seconds."""
    await asyncio.sleep(d)
    return f"slept {d}"


def make_agent(*steps: Any, tools: Sequence[Any] = (), name: str = "A", **more: Any) -> Agent[Any]:
    """An agent whose model answers by a script."""
    return Agent(name=name, model=Scripted(*steps), tools=list(tools), **more)


@dataclass
class Played:
    """A recorded run with the caller's result or error."""

    run: Run
    result: Any = None
    error: BaseException | None = None

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that count."""
        return self.run.tools_called


async def run_or_stream(mode: str, agent: Any, prompt: Any, **options: Any) -> Any:
    """The result of a run, streamed and read to its end in that mode."""
    if mode != "streamed":
        return await Runner.run(agent, prompt, **options)
    result = Runner.run_streamed(agent, prompt, **options)
    async for _ in result.stream_events():
        pass
    return result


async def played(mode: str, agent: Any, prompt: Any = "hi", **options: Any) -> Played:
    """Play one run, recorded or read from its result."""
    with record() as recorder:
        result, error = None, None
        try:
            result = await run_or_stream(mode, agent, prompt, **options)
        except Exception as raised:  # noqa: BLE001 - whatever ends the run is returned
            error = raised
        if mode == "result":
            return Played(run_from_result(result, error=error), result, error)
        assert not recorder.last_run.warnings
        assert not recorder.warnings
        return Played(recorder.last_run, result, error)


def play(mode: str, agent: Any, prompt: Any = "hi", **options: Any) -> Played:
    """Run `played` in a new event loop."""
    return asyncio.run(played(mode, agent, prompt, **options))


def summary(call: ToolCall) -> dict[str, Any]:
    """Return the fields of a call that differ from the defaults."""
    how = call.execution
    assert how is not None
    usual = {"status": "ok", "type": "function", "agent": "A"}
    fields: dict[str, Any] = {"name": call.name, "args": call.arguments, "id": call.id}
    if "output" in call.model_fields_set:
        fields["output"] = call.output
    about = {"status": how.status.value, "type": call.type.value.lower() if call.type else None, "agent": how.agent}
    about |= {"error": how.error, "server": how.server}
    fields |= {name: value for name, value in about.items() if value is not None and usual.get(name) != value}
    return fields


def summaries(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Summarize several calls."""
    return [summary(call) for call in calls]


def called(name: str, args: dict[str, Any], call_id: str | None, output: Any = ..., **more: Any) -> dict[str, Any]:
    """An expected call, in the form of `summary`; without an output, it has none."""
    result = {} if output is ... else {"output": output}
    return {"name": name, "args": args, "id": call_id} | result | more


def handled(text: str, kind: str = "ValueError") -> str:
    """Return the recorded error of a handled tool exception, as detailed as this release reports it."""
    if TELLS_EXCEPTIONS:
        return f"{kind}: {text}"
    return text if TELLS_TEXTS else E0


def model_output(call: ToolCall) -> Any:
    """What the model was shown."""
    assert call.execution is not None
    return call.execution.model_output


LIVE = ("record", "streamed")
BOTH = ("record", "streamed", "result")


def scenario(number: str, modes: Sequence[str] = BOTH, needs: str | None = None) -> Callable[[Any], Any]:
    """Name a test after its scenario, in these modes.

    Args:
        number: Its number, with a letter for one of several variants.
        modes: `record`, `streamed`, `result`; empty for a test that has no mode.
        needs: The feature without which the scenario cannot be.
    """

    def decorate(function: Any) -> Any:
        ids = [f"S{number}-{mode}" for mode in modes] or [f"S{number}"]
        test = function if needs is None or FEATURES[needs].is_due() else _absent(function, FEATURES[needs])
        return pytest.mark.parametrize("mode", list(modes) or [""], ids=ids)(test)

    return decorate


def _absent(function: Any, feature: Feature) -> Any:
    """A test in the place of one that this release cannot have: that it really cannot."""

    def absent(**_parameters: Any) -> None:
        feature.check_absent()

    absent.__doc__ = f"Not in this release: {feature.why}."
    absent.__name__ = function.__name__
    absent.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # the ids stay the same everywhere
    return absent
