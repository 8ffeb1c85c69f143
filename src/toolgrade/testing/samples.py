"""Sample runs, for tests of code that processes runs, and a sample prompt, for tests of judges."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

from toolgrade._internal.json import JsonObject
from toolgrade.capture import Outcome, Request, RunBuilder
from toolgrade.cases import Run, RunStatus
from toolgrade.judge import ImagePart, Message, Prompt
from toolgrade.testing.tool_doubles import ADD, BOOM, SLOW

_NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def sample_runs() -> dict[str, Run]:
    """Return finished runs by name of what happens in them; new objects at each call, always equal.

    `plain` asks for one call and answers; `no_calls` answers at once; `parallel` asks for three calls at once;
    `failed` has a call that raises and one of an unknown tool; `retried` succeeds at the second attempt; `interrupted`
    waits for a person; `stopped` is cancelled while a tool runs; `nested` calls a tool that is an agent; `handoff`
    hands over to another agent.

    Example:
        >>> from toolgrade.testing import sample_runs
        >>> [(call.name, call.execution.error) for call in sample_runs()["failed"].calls]
        [('boom', 'ValueError: boom 1'), ('nope', "there is no tool 'nope'")]
    """
    makers = (_plain, _no_calls, _parallel, _failed, _retried, _interrupted, _stopped, _nested, _handoff)
    return {make.__name__.lstrip("_"): make() for make in makers}


def _begun(name: str, *requests: Request) -> RunBuilder:
    builder = RunBuilder(run_id=f"sample-{name}", conversation_id="samples")
    builder.started("What is 1 + 2?", at=_NOON)
    builder.offered([ADD.spec, SLOW.spec, BOOM.spec])
    builder.model_asked(requests)
    builder.model_used("scripted", {"input_tokens": 10, "output_tokens": 5})
    return builder


def _ended(builder: RunBuilder, answer: str | None = "It is 3.", status: RunStatus = RunStatus.OK) -> Run:
    builder.ended(answer, status=status, may_wait=True, at=_NOON + timedelta(seconds=2))
    return builder.build()


def _ran(builder: RunBuilder, key: str, name: str, arguments: dict[str, object], output: object) -> None:
    builder.tool_started(key, name, arguments, call_id=key, at=_NOON + timedelta(seconds=1))
    builder.tool_ended(key, output, at=_NOON + timedelta(seconds=1.5))


def _plain() -> Run:
    builder = _begun("plain", Request("add", {"a": 1, "b": 2}, "c1"))
    _ran(builder, "c1", "add", {"a": 1, "b": 2}, 3)
    return _ended(builder)


def _no_calls() -> Run:
    return _ended(_begun("no_calls"))


def _parallel() -> Run:
    builder = _begun(
        "parallel", Request("slow", {"x": 2}, "c1"), Request("slow", {"x": 1}, "c2"), Request("add", {"a": 1}, "c3")
    )
    _ran(builder, "c3", "add", {"a": 1}, 3)
    _ran(builder, "c2", "slow", {"x": 1}, "slow 1")
    _ran(builder, "c1", "slow", {"x": 2}, "slow 2")
    return _ended(builder)


def _failed() -> Run:
    builder = _begun("failed", Request("boom", {"x": 1}, "c1"), Request("nope", {}, "c2"))
    builder.tool_started("c1", "boom", {"x": 1}, call_id="c1", at=_NOON)
    builder.tool_failed("c1", "ValueError: boom 1", at=_NOON + timedelta(seconds=1))
    builder.result_shown("boom 1", call_id="c1", failed=True)
    builder.result_shown("there is no tool 'nope'", call_id="c2", failed=True)
    return _ended(builder, "I could not find out.")


def _retried() -> Run:
    builder = _begun("retried", Request("add", {"a": 1, "b": 2}, "c1"))
    builder.tool_started("first", "add", {"a": 1, "b": 2}, call_id="c1", at=_NOON)
    builder.tool_failed("first", "TimeoutError: too slow", at=_NOON + timedelta(seconds=1))
    _ran(builder, "c1", "add", {"a": 1, "b": 2}, 3)
    return _ended(builder)


def _interrupted() -> Run:
    builder = _begun("interrupted", Request("add", {"a": 1, "b": 2}, "c1"), Request("slow", {"x": 1}, "c2"))
    builder.tool_started("c1", "add", {"a": 1, "b": 2}, call_id="c1", at=_NOON)
    builder.tool_failed("c1", None, outcome=Outcome.SUSPENDED)
    return _ended(builder, None)


def _stopped() -> Run:
    builder = _begun("stopped", Request("slow", {"x": 1}, "c1"))
    builder.tool_started("c1", "slow", {"x": 1}, call_id="c1", at=_NOON)
    builder.ended(status=RunStatus.STOPPED, error="TimeoutError: 2 seconds", at=_NOON + timedelta(seconds=2))
    return builder.build()


def _nested() -> Run:
    builder = _begun("nested", Request("ask_math", {"input": "1 + 2"}, "c1"))
    builder.offered([{"name": "ask_math"}])
    builder.tool_started("c1", "ask_math", {"input": "1 + 2"}, call_id="c1", at=_NOON)
    builder.model_asked([Request("add", {"a": 1, "b": 2}, "c1")], scope="c1", agent="mathematician")
    builder.tool_started("inner", "add", {"a": 1, "b": 2}, call_id="c1", scope="c1", at=_NOON)
    builder.tool_ended("inner", 3, at=_NOON + timedelta(seconds=1))
    builder.tool_ended("c1", "three", at=_NOON + timedelta(seconds=2))
    return _ended(builder)


def _handoff() -> Run:
    builder = _begun("handoff")
    builder.model_asked([Request("transfer_to_bob", {}, "h1")], agent="alice")
    builder.handed_off(to="bob", call_id="h1")
    builder.model_asked([Request("add", {"a": 1, "b": 2}, "c1")], agent="bob")
    _ran(builder, "c1", "add", {"a": 1, "b": 2}, 3)
    return _ended(builder)


VERDICT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "evidence": {"type": "array", "items": {"enum": ["c1"]}},
        "reasoning": {"type": "string"},
        "verdict": {"enum": ["yes", "no", "cannot_tell"]},
    },
    "required": ["evidence", "reasoning", "verdict"],
    "additionalProperties": False,
}
"""JSON Schema of a reply to `sample_prompt`: `{"evidence": ["c1"], "reasoning": "...", "verdict": "yes"}`."""


def sample_prompt(
    text: str = "Was the call right?", *, images: tuple[str, ...] = (), name: str = "tool_selection"
) -> Prompt:
    """Return a prompt for tests of judges: a system message, and one of the user with the text and the images.

    Prompts of different texts or images have different keys in a cache.

    Args:
        text: The question.
        images: URLs of images that follow the text.
        name: Name of the prompt and of its schema.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> judge = Judge(lambda messages: '{"evidence": ["c1"], "reasoning": "It fits.", "verdict": "yes"}')
        >>> result = asyncio.run(judge.ask(sample_prompt("Was get_weather the right tool?")))
        >>> result.verdict.decision.value, result.verdict.rationale
        ('yes', 'It fits.')
    """
    content: str | tuple[str | ImagePart, ...] = text
    if images:
        content = (text, *(ImagePart(url=url) for url in images))
    messages = (Message(role="system", content="You judge tool calls."), Message(role="user", content=content))
    return Prompt(
        name=name,
        version="sample",
        messages=messages,
        reply_schema=VERDICT_SCHEMA,
        ids=("c1",),
        content={"text": text, "images": list(images)},
    )
