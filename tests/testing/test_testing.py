"""The testing kit: scripted models, sample runs, and a contract that good adapters pass and bad ones fail."""

from __future__ import annotations

import asyncio
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from toolgrade.calls import ToolCall
from toolgrade.cases import Run
from toolgrade.errors import ToolgradeError
from toolgrade.testing import AdapterContract, AskFor, HandOff, NotSupportedError, Recorded, Scene, ScriptedModel, Step
from toolgrade.testing.contract import check_contract
from toolgrade.testing.scripted_model import ScriptEndedError
from toolgrade.testing.tool_doubles import ADD, HangingTool, flaky_tool
from toy_framework import PlainContract, Recorder
from wrong_adapters import MUTANTS, AddsDefaults

RULES = [name for name in vars(AdapterContract) if name.startswith("test_")]


class TestPlainAgent(PlainContract):
    """A plain agent's recorder keeps the whole contract."""


# Adapters that are wrong


@pytest.mark.parametrize(("mutant", "rule"), [(mutant, rule) for mutant, rules in MUTANTS.items() for rule in rules])
def test_a_wrong_adapter_breaks_the_contract(mutant: type[Recorder | PlainContract], rule: str) -> None:
    """Whoever records wrongly fails the rule that it breaks, with an assertion and not by accident."""
    contract = mutant if issubclass(mutant, PlainContract) else type("Wrong", (PlainContract,), {"recorder": mutant})

    with pytest.raises(AssertionError):
        getattr(contract(), f"test_{rule}")()


def test_every_rule_is_broken_by_some_wrong_adapter() -> None:
    """A rule that nothing was ever seen to break proves little."""
    broken = {f"test_{rule}" for rules in MUTANTS.values() for rule in rules}

    assert broken == set(RULES) - {"test_nothing_is_left_out_silently"}


# What is left out


def test_unsupported_hook_needs_a_reason() -> None:
    """Its tests fail until a reason is declared; then they are skipped with it."""

    class Silent(PlainContract):
        async def astream(self, scene: Scene) -> Recorded:  # noqa: ARG002 - it only refuses
            raise NotSupportedError("it does not stream")

    class Explained(Silent):
        unsupported: ClassVar[dict[str, str]] = {"test_streamed_run": "the framework does not stream"}

    with pytest.raises(AssertionError, match=r"'test_streamed_run' was left out \(it does not stream\); give the"):
        Silent().test_streamed_run()
    with pytest.raises(unittest.SkipTest, match="the framework does not stream"):
        Explained().test_streamed_run()
    check_contract(Explained)


def test_hooks_say_how_to_offer_them() -> None:
    """A subclass with only `arun` gets an error that names the missing hook."""
    hooks = AdapterContract()

    with pytest.raises(NotSupportedError, match="override `astream`"):
        asyncio.run(hooks.astream(Scene([])))
    with pytest.raises(NotSupportedError, match="override `run_many`"):
        hooks.run_many([])
    with pytest.raises(NotSupportedError, match="override `converse`"):
        hooks.converse([])


def test_outdated_reason_fails() -> None:
    """If the feature works, the declared reason is an error."""

    class Outdated(PlainContract):
        unsupported: ClassVar[dict[str, str]] = {"test_plain_run": "not yet"}

    with pytest.raises(AssertionError, match="'test_plain_run' passes as it stands; take it out"):
        Outdated().test_plain_run()


def test_incomplete_contracts_are_refused() -> None:
    """Overridden rules, wrong names, empty reasons and a missing `arun` are reported at once."""

    class Cheat(AdapterContract):
        unsupported: ClassVar[dict[str, str]] = {"test_handoff": " ", "test_nothing": "why not"}

        def test_plain_run(self) -> None:
            """Pass."""

        test_steps = None  # type: ignore[assignment]

    with pytest.raises(AssertionError) as raised:
        Cheat().test_nothing_is_left_out_silently()

    assert str(raised.value).splitlines() == [
        "Cheat:",
        "  test_plain_run is overridden; give the reason in `unsupported`",
        "  test_steps is overridden; give the reason in `unsupported`",
        "  test_nothing, in `unsupported`, is not a test of the contract",
        "  test_handoff has no reason in `unsupported`",
        "  arun is not implemented",
    ]


def test_every_rule_has_a_docstring() -> None:
    """The docstring of each test is the rule, as a sentence."""
    docs = [getattr(AdapterContract, name).__doc__ or "" for name in RULES]

    assert all(doc.endswith(".") and "\n" not in doc for doc in docs)


def test_differences_have_their_place() -> None:
    """The failure names the call, the field, and expected and recorded values."""

    class Wrong(PlainContract):
        recorder: ClassVar[type[Recorder]] = AddsDefaults

    with pytest.raises(AssertionError) as raised:
        Wrong().test_plain_run()

    assert str(raised.value).splitlines() == [
        "arun:",
        "  calls[0].input_parameters: expected {'a': 1}, got {'a': 1, 'b': 2}",
        "  calls[0].requested_parameters: expected None, got {'a': 1}",
    ]


class LetsCancellationThrough(PlainContract):
    """Raises what it should hand back."""

    async def arun(self, scene: Scene) -> Recorded:
        """Play the scene, and raise what ended it."""
        recorded = await super().arun(scene)
        if recorded.error is not None:
            raise recorded.error
        return recorded


class EndsTooSoon(PlainContract):
    """A framework that ends without running its tools."""

    async def arun(self, scene: Scene) -> Recorded:
        """Do nothing."""
        return Recorded(Run(input=scene.input))


class KeepsNoExecutions(PlainContract):
    """Knows names alone."""

    async def arun(self, scene: Scene) -> Recorded:
        """Record a name."""
        return Recorded(Run(input=scene.input, actual_output="final", calls=[ToolCall(name="add")]), "final")


@pytest.mark.parametrize(
    ("contract", "rule", "message"),
    [
        (LetsCancellationThrough, "cancelled_run", "`arun` must return what was recorded, with the cancellation"),
        (EndsTooSoon, "cancelled_run", "the run ended before the tool 'hang' had begun"),
        (KeepsNoExecutions, "plain_run", r"calls\[0\].execution: expected one, got none"),
    ],
)
def test_wrong_hook_gets_an_explanation(contract: type[PlainContract], rule: str, message: str) -> None:
    """The error says what the hook must do."""
    with pytest.raises(AssertionError, match=message):
        getattr(contract(), f"test_{rule}")()


# Scripted models and tools


def test_a_script_gives_its_steps_in_order() -> None:
    """Text, calls and whole steps are given one after the other; an exception is raised where it stands."""
    requests: list[AskFor | HandOff] = [AskFor("add", {"a": 1}, "c1"), HandOff("bob")]
    model = ScriptedModel(requests, Step("slowly", delay=0.5), ValueError("down"), "final")

    first, second = model.next_step(), model.next_step()
    with pytest.raises(ValueError, match="down"):
        model.next_step()

    assert (first.text, first.calls, second.text, second.delay) == (None, tuple(requests), "slowly", 0.5)
    assert (model.next_step().text, model.used) == ("final", 4)


def test_a_script_that_is_over_says_so() -> None:
    """The error has the script's length and is a toolgrade error."""
    model = ScriptedModel("final")
    model.next_step()

    with pytest.raises(
        ScriptEndedError, match="asked 2 times, but its script has 1 steps; add what it should say next"
    ):
        model.next_step()
    assert issubclass(ScriptEndedError, ToolgradeError)


def test_a_script_gives_each_step_once_to_many_threads() -> None:
    """Threads that ask at the same time get different steps."""
    model = ScriptedModel(*(f"{n}" for n in range(100)))
    barrier = threading.Barrier(4)

    def take() -> list[str | None]:
        barrier.wait()
        return [model.next_step().text for _ in range(25)]

    with ThreadPoolExecutor(4) as pool:
        answers = [text for future in [pool.submit(take) for _ in range(4)] for text in future.result()]

    assert sorted(answers, key=str) == sorted((f"{n}" for n in range(100)), key=str)


def test_arguments_are_written_as_a_model_writes_them() -> None:
    """An object is JSON text, and raw text stays what it is."""
    assert [AskFor("add", arguments).arguments_text for arguments in ({"a": 1}, {}, "{a: ")] == [
        '{"a": 1}',
        "{}",
        "{a: ",
    ]


def test_a_text_is_streamed_in_pieces() -> None:
    """The pieces make up the text; a step without text has none."""
    assert Step("a longer answer").chunks(6) == ["a long", "er ans", "wer"]
    assert Step("").chunks() == Step.of([AskFor("add")]).chunks() == []


def test_tools_have_a_schema() -> None:
    """A tool double has the schema of its function and fails as often as configured."""
    flaky = flaky_tool(2)
    outcomes = []
    for _ in range(3):
        try:
            outcomes.append(flaky.function(1))
        except ValueError as error:
            outcomes.append(f"{error}")

    assert ADD.spec.to_dict() == {
        "name": "add",
        "description": "Add two numbers.",
        "input_schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a"],
        },
    }
    assert (ADD.function(1), asyncio.run(flaky_tool(0).coroutine(2))) == (3, "flaky 2")
    assert outcomes == ["not yet", "not yet", "flaky 1"]


def test_a_hanging_tool_ends_when_released() -> None:
    """It signals its start and returns when released, in a thread or an event loop."""
    hanging = HangingTool()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(hanging.tool.function, 1)
        asyncio.run(hanging.begun())
        is_running = not future.done()
        hanging.release()

    assert (is_running, future.result(), asyncio.run(hanging.tool.coroutine(2))) == (True, "hung 1", "hung 2")
