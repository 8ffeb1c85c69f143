"""What did the judge say? A reply becomes a verdict, or an outcome that says why there is none.

A reply must be exactly what was asked for. One that has other keys, another verdict, or an id that was not issued is
malformed as a whole: what is half understood is not a verdict.
"""

from __future__ import annotations

import json
import math
import re
from typing import NamedTuple

from toolmark._internal.json import JsonObject, short_repr
from toolmark.errors import JudgeOutcome
from toolmark.judge.protocol import Decision, Prompt, Reply, Verdict

MOST_MISSING = 50
"""Missing calls that one reply may name."""

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inside>.*)\n[ \t]*```", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


class Read(NamedTuple):
    """What was made of a reply.

    Attributes:
        outcome: `ok`, or why there is no verdict.
        verdict: The verdict, if `ok`.
        problem: What is wrong, unless `ok`.
    """

    outcome: JudgeOutcome
    verdict: Verdict | None = None
    problem: str | None = None


class _MalformedError(Exception):
    """The reply is not what was asked for."""


def read_reply(prompt: Prompt, reply: Reply) -> Read:
    """Return what a reply says in answer to a prompt."""
    if reply.refusal is not None:
        return Read(JudgeOutcome.REFUSAL, problem=f"the judge declined: {short_repr(reply.refusal, 200)}")
    if reply.finish == "content_filter":
        return Read(JudgeOutcome.CONTENT_FILTER, problem="the provider withheld the judge's answer")
    if reply.finish == "length":
        return Read(JudgeOutcome.TRUNCATED, problem="the judge's answer was cut off at a limit of tokens")
    try:
        if reply.probabilities is not None:
            return Read(JudgeOutcome.OK, _decided(prompt, reply.probabilities))
        return Read(JudgeOutcome.OK, _written(prompt, reply.text))
    except _MalformedError as error:
        return Read(JudgeOutcome.MALFORMED, problem=f"the judge's answer is malformed: {error}")


def _decided(prompt: Prompt, probabilities: dict[str, float]) -> Verdict:
    options = prompt.question.options
    if set(probabilities) != set(options):
        message = f"probabilities of {sorted(probabilities)}, where {sorted(options)} were asked for"
        raise _MalformedError(message)
    for name, value in probabilities.items():
        if not math.isfinite(value) or not 0 <= value <= 1:
            message = f"the probability of {name!r} is {value!r}"
            raise _MalformedError(message)
    most = max(probabilities.values())
    found = [name for name in options if probabilities[name] == most]
    # Two options that are equally likely: the judge cannot tell.
    decision = Decision(found[0]) if len(found) == 1 else Decision.CANNOT_TELL
    return Verdict(decision=decision, probability=probabilities[decision.value])


def _written(prompt: Prompt, text: object) -> Verdict:
    fields = _object(text)
    wanted = list(prompt.reply_schema["properties"])
    if set(fields) != set(wanted):
        message = f"keys {sorted(fields)}, where {wanted} were asked for"
        raise _MalformedError(message)
    evidence = _ids(fields["evidence"], "evidence", prompt.ids)
    if not isinstance(fields["reasoning"], str):
        message = f"reasoning is {short_repr(fields['reasoning'])}, no text"
        raise _MalformedError(message)
    decision = _decision(fields["verdict"])
    missing: tuple[str, ...] = ()
    if "missing" in fields:
        tools = tuple(name for name in prompt.ids if name.startswith("t"))
        missing = _missing(_ids(fields["missing"], "missing", tools), decision)
    return Verdict(decision=decision, rationale=fields["reasoning"], evidence=evidence, missing=missing)


def _object(text: object) -> JsonObject:
    if not isinstance(text, str):
        message = f"{short_repr(text)} is no text"
        raise _MalformedError(message)
    plain = text.strip()
    if thought := _THOUGHT.match(plain):  # models that think aloud begin with it
        plain = plain[thought.end() :].strip()
    if fence := _FENCE.fullmatch(plain):
        plain = fence["inside"]
    try:
        value = json.loads(plain, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        message = f"{short_repr(text)} is no JSON object ({error})"
        raise _MalformedError(message) from None
    if not isinstance(value, dict):
        message = f"{short_repr(text)} is no JSON object"
        raise _MalformedError(message)
    return value


def _once(pairs: list[tuple[str, object]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        message = "a key stands in it twice"
        raise _MalformedError(message)
    return found


def _ids(value: object, field: str, issued: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        message = f"{field} is {short_repr(value)}, no list of ids"
        raise _MalformedError(message)
    unknown = sorted(set(value) - set(issued))
    if unknown:
        message = f"{field} names {short_repr(unknown)}, which the record did not issue"
        raise _MalformedError(message)
    return tuple(value)


def _decision(value: object) -> Decision:
    try:
        return Decision(value)
    except ValueError:
        message = f"verdict is {short_repr(value)}, where yes, no or cannot_tell was asked for"
        raise _MalformedError(message) from None


def _missing(tools: tuple[str, ...], decision: Decision) -> tuple[str, ...]:
    if (decision is Decision.NO) != bool(tools):
        message = f"verdict {decision.value!r} with {len(tools)} missing calls contradicts itself"
        raise _MalformedError(message)
    if len(tools) > MOST_MISSING:
        message = f"{len(tools)} missing calls, where at most {MOST_MISSING} may be named"
        raise _MalformedError(message)
    return tools
