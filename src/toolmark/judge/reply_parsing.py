"""Parser of judge replies into verdicts.

A reply must have exactly the requested form. One with other keys, another verdict, or an id that the prompt did not
issue is malformed as a whole: a half-understood reply is not a verdict.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, Final

from toolmark._internal.json import JsonObject, short_repr
from toolmark.errors import JudgeError, JudgeOutcome
from toolmark.judge.protocol import Decision, Prompt, Reply, Verdict

MOST_MISSING = 50
"""Missing calls that one reply may name."""

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inside>.*)\n[ \t]*```", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)

_INCOMPLETE: Final[dict[str, tuple[JudgeOutcome, str]]] = {
    "content_filter": (JudgeOutcome.CONTENT_FILTER, "the provider withheld the judge's answer"),
    "length": (JudgeOutcome.TRUNCATED, "the judge's answer was cut off at a token limit"),
}


def parse_reply(prompt: Prompt, reply: Reply) -> Verdict:
    """Return the verdict in a reply to a prompt.

    Raises:
        JudgeError: The reply holds no verdict; `outcome` is `refusal`, `content_filter`, `truncated` or `malformed`.
    """
    if reply.refusal is not None:
        raise JudgeError(f"the judge declined: {short_repr(reply.refusal, 200)}", JudgeOutcome.REFUSAL)
    if reply.finish in _INCOMPLETE:
        outcome, problem = _INCOMPLETE[reply.finish]
        raise JudgeError(problem, outcome)
    if reply.probabilities is not None:
        return _verdict_from_probabilities(prompt, reply.probabilities)
    return _verdict_from_text(prompt, reply.text)


def _malformed(problem: str) -> JudgeError:
    return JudgeError(f"the judge's answer is malformed: {problem}", JudgeOutcome.MALFORMED)


def _verdict_from_probabilities(prompt: Prompt, probabilities: dict[str, float]) -> Verdict:
    options = prompt.question.options
    if set(probabilities) != set(options):
        raise _malformed(f"expected probabilities of {sorted(options)}, got {sorted(probabilities)}")
    for name, value in probabilities.items():
        if not math.isfinite(value) or not 0 <= value <= 1:
            raise _malformed(f"the probability of {name!r} is {value!r}")
    most = max(probabilities.values())
    likeliest = [name for name in options if probabilities[name] == most]
    # Two options that are equally likely: the judge cannot tell.
    decision = Decision(likeliest[0]) if len(likeliest) == 1 else Decision.CANNOT_TELL
    return Verdict(decision=decision, probability=probabilities[decision.value])


def _verdict_from_text(prompt: Prompt, text: object) -> Verdict:
    fields = _parse_object(text)
    expected = list(prompt.reply_schema["properties"])
    if set(fields) != set(expected):
        raise _malformed(f"expected the keys {expected}, got {sorted(fields)}")
    evidence = _check_ids(fields["evidence"], "evidence", prompt.ids)
    if not isinstance(fields["reasoning"], str):
        raise _malformed(f"reasoning must be a text, got {short_repr(fields['reasoning'])}")
    try:
        decision = Decision(fields["verdict"])
    except ValueError:
        raise _malformed(f"verdict must be yes, no or cannot_tell, got {short_repr(fields['verdict'])}") from None
    missing: tuple[str, ...] = ()
    if "missing" in fields:
        tools = tuple(name for name in prompt.ids if name.startswith("t"))
        missing = _check_ids(fields["missing"], "missing", tools)
        if (decision is Decision.NO) != bool(missing):
            raise _malformed(f"verdict {decision.value!r} contradicts {len(missing)} missing calls")
        if len(missing) > MOST_MISSING:
            raise _malformed(f"{len(missing)} missing calls, at most {MOST_MISSING} are allowed")
    return Verdict(decision=decision, rationale=fields["reasoning"], evidence=evidence, missing=missing)


def _parse_object(text: object) -> JsonObject:
    """Return the JSON object in a text; a code fence around it and a `<think>` part before it are tolerated."""
    if not isinstance(text, str):
        raise _malformed(f"expected a text, got {short_repr(text)}")
    plain = text.strip()
    if thought := _THOUGHT.match(plain):  # reasoning models without a channel of their own begin with it
        plain = plain[thought.end() :].strip()
    if fence := _FENCE.fullmatch(plain):
        plain = fence["inside"]
    try:
        value: Any = json.loads(plain, object_pairs_hook=_object_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"expected a JSON object, got {short_repr(text)} ({error})") from None
    if not isinstance(value, dict):
        raise _malformed(f"expected a JSON object, got {short_repr(text)}")
    return value


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> JsonObject:
    # A second "verdict" would overwrite the first one silently.
    duplicates = [key for key, amount in Counter(key for key, _ in pairs).items() if amount > 1]
    if duplicates:
        raise _malformed(f"duplicate keys: {short_repr(duplicates)}")
    return dict(pairs)


def _check_ids(value: object, field: str, issued: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _malformed(f"{field} must be a list of ids, got {short_repr(value)}")
    unknown = sorted(set(value) - set(issued))
    if unknown:
        raise _malformed(f"{field} names {short_repr(unknown)}, which the record did not issue")
    return tuple(value)
