"""Framework-independent scenarios of agents."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TypeAlias

from toolgrade.testing import AgentTool, AskFor, HandOff, Scene, ToolDouble
from toolgrade.testing.tool_doubles import ADD, BOOM, FILL, PICTURE, SLOW, flaky_tool

Make: TypeAlias = Callable[[], Scene]
"""Makes a scene anew, since a tool may remember."""


def echo(value: dict) -> dict:  # type: ignore[type-arg]  # some frameworks read the annotation, and know plain `dict`
    """Return the argument."""
    return value


def say(text: str) -> str:
    """Return a text."""
    return text


def nothing() -> None:
    """Return nothing."""


def numbers(count: int) -> list:  # type: ignore[type-arg]
    """Return a list."""
    return list(range(count))


ECHO = ToolDouble.of(echo, value="object")
SAY = ToolDouble.of(say, text="string")
NOTHING = ToolDouble.of(nothing)
NUMBERS = ToolDouble.of(numbers, count="integer")

ALICE = "alice"


def _scene(*steps: object, tools: tuple[object, ...] = (ADD,), **more: object) -> Make:
    # Copied each time: a framework may hand a tool the very arguments, and a tool may change them.
    return lambda: Scene(copy.deepcopy(steps), tools, agent=ALICE, **more)  # type: ignore[arg-type]


def _inner(*steps: object, tools: tuple[object, ...] = (ADD,), agent: str = "inner", **more: object) -> Scene:
    return Scene(steps, tools, agent=agent, **more)  # type: ignore[arg-type]


def _add(a: object, call_id: str, **more: object) -> AskFor:
    return AskFor("add", {"a": a, **more}, call_id)


def _ask(call_id: str, name: str = "ask") -> AskFor:
    return AskFor(name, {"input": "q"}, call_id)


SCENARIOS: Mapping[str, Make] = {
    "an answer without calls": _scene("hello"),
    "one call": _scene([_add(1, "c1")], "3"),
    "one call with all arguments": _scene([_add(1, "c1", b=5)], "6"),
    "a call that repeats a default": _scene([_add(1, "c1", b=2)], "3"),
    "two calls at once": _scene([_add(1, "c1"), _add(2, "c2")], "done"),
    "calls at once that end in another order": _scene(
        [AskFor("slow", {"x": 3}, "c1"), AskFor("slow", {"x": 1}, "c2"), _add(1, "c3")], "done", tools=(SLOW, ADD)
    ),
    "one call after another": _scene([_add(1, "c1")], [_add(2, "c2")], [_add(3, "c3")], "done"),
    "calls at once, and then others": _scene(
        [_add(1, "c1"), AskFor("slow", {"x": 1}, "c2")], [_add(2, "c3"), _add(3, "c4")], "done", tools=(ADD, SLOW)
    ),
    "the same call again": _scene([_add(1, "c1")], [_add(1, "c2")], "done"),
    "the same call twice at once": _scene([_add(1, "c1"), _add(1, "c2")], "done"),
    "many steps": _scene(*([_add(number, f"c{number}")] for number in range(8)), "done"),
    "nested arguments": _scene([AskFor("echo", {"value": {"a": [1, {"b": None}], "c": {}}}, "c1")], "x", tools=(ECHO,)),
    "text of other scripts": _scene([AskFor("say", {"text": "naïve — 東京 🛫"}, "c1")], "x", tools=(SAY,)),
    "a text that is JSON": _scene([AskFor("say", {"text": '{"a": 1}'}, "c1")], "x", tools=(SAY,)),
    "a call without arguments": _scene([AskFor("nothing", {}, "c1")], "x", tools=(NOTHING,)),
    "a list as output": _scene([AskFor("numbers", {"count": 3}, "c1")], "x", tools=(NUMBERS,)),
    "a tool that changes its arguments": _scene([AskFor("fill", {"form": {"a": 1}}, "c1")], "x", tools=(FILL,)),
    "a tool that raises": _scene([AskFor("boom", {"x": 1}, "c1")], "sorry", tools=(BOOM,)),
    "a tool that raises next to one that does not": _scene(
        [AskFor("boom", {"x": 1}, "c1"), _add(1, "c2")], "done", tools=(BOOM, ADD)
    ),
    "a failed call asked for again": lambda: Scene(
        [[AskFor("flaky", {"x": 1}, "c1")], [AskFor("flaky", {"x": 1}, "c2")], "done"], [flaky_tool()], agent=ALICE
    ),
    "a tool that does not exist": _scene([AskFor("nope", {"x": 1}, "c1")], "done"),
    "arguments that are not JSON": _scene([AskFor("add", "{a: ", "c1")], "done"),
    "arguments that the tool rejects": _scene([_add("one", "c1")], "done"),
    "a model that fails": _scene([_add(1, "c1")], RuntimeError("the model is down")),
    "a model that fails at once": _scene(RuntimeError("the model is down")),
    "an agent as a tool": _scene([_ask("c1")], "done", tools=(AgentTool("ask", _inner([_add(1, "c1")], "three")),)),
    "an agent as a tool, whose tool raises": _scene(
        [_ask("c1")],
        "done",
        tools=(AgentTool("ask", _inner([AskFor("boom", {"x": 1}, "i1")], "sorry", tools=(BOOM,))),),
    ),
    "an agent as a tool next to a call": _scene(
        [_add(5, "c1"), _ask("c2")], "done", tools=(ADD, AgentTool("ask", _inner([_add(1, "i1")], "three")))
    ),
    "a hand-off": _scene([HandOff("bob", "h1")], handoffs=[Scene([[_add(1, "b1")], "bye"], [ADD], agent="bob")]),
    "a call, then a hand-off": _scene(
        [_add(1, "c1")], [HandOff("bob", "h1")], handoffs=[Scene([[_add(2, "b1")], "bye"], [ADD], agent="bob")]
    ),
    "three agents as tools at once, with equal ids": _scene(
        [_ask(f"c{n}", f"ask_{n}") for n in range(3)],
        "done",
        tools=tuple(AgentTool(f"ask_{n}", _inner([_add(n, "c1")], "three", agent=f"bob {n}")) for n in range(3)),
    ),
    "a structured answer": _scene([_add(1, "c1")], '{"total":3}', is_structured=True),
    "an agent as a tool, with a structured answer": _scene(
        [_ask("c1")], "done", tools=(AgentTool("ask", _inner([_add(1, "i1")], '{"total":3}', is_structured=True)),)
    ),
    "an image of the user, and one of a tool": _scene(
        [AskFor("picture", {}, "c1")], "a dot", tools=(PICTURE,), images=(PICTURE.function(),)
    ),
    "a hand-off to an agent that does not exist": _scene(
        [HandOff("carol", "h1")], "done", handoffs=[Scene(["bye"], [ADD], agent="bob")]
    ),
}
"""Scenes of one run, by what happens in them."""
