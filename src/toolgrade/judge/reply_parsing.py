"""Parser of judge replies into verdicts.

A reply must have exactly the requested form. A reply with other keys, another verdict, or an id that is not in the
prompt is malformed as a whole: no part of it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from toolgrade._internal.json import JsonObject, short_repr
from toolgrade._internal.model import Model
from toolgrade.errors import InvalidDataError, JudgeError, JudgeOutcome
from toolgrade.judge.protocol import Decision, Prompt, Reply, Verdict

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
    return _verdict_from_text(prompt, reply.text)


def _malformed(problem: str) -> JudgeError:
    return JudgeError(f"the judge's answer is malformed: {problem}", JudgeOutcome.MALFORMED)


class _Fields(Model):
    """The properties of a reply in text; which of them are required depends on the prompt."""

    evidence: tuple[str, ...]
    reasoning: str
    verdict: Decision
    missing: tuple[str, ...] = ()


def _verdict_from_text(prompt: Prompt, text: object) -> Verdict:
    fields = _parse_object(text)
    expected = list(prompt.reply_schema["properties"])
    if set(fields) != set(expected):
        raise _malformed(f"expected the keys {expected}, got {sorted(fields)}")
    try:
        reply = _Fields.model_validate(fields)
    except InvalidDataError as error:
        raise _malformed(str(error)) from None
    _check_ids(reply.evidence, "evidence", prompt.ids)
    tool_ids = [name for name in prompt.ids if name.startswith("t")]
    _check_ids(reply.missing, "missing", tool_ids)
    # If the verdict contradicts the list of missing calls, neither of them can be trusted.
    if "missing" in fields and (reply.verdict is Decision.NO) != bool(reply.missing):
        raise _malformed(f"verdict {reply.verdict.value!r} contradicts {len(reply.missing)} missing calls")
    if len(reply.missing) > MOST_MISSING:
        raise _malformed(f"{len(reply.missing)} missing calls, at most {MOST_MISSING} are allowed")
    return Verdict(decision=reply.verdict, rationale=reply.reasoning, evidence=reply.evidence, missing=reply.missing)


def _parse_object(text: object) -> JsonObject:
    """Return the JSON object in a text; a code fence around it and a `<think>` part before it are tolerated."""
    if not isinstance(text, str):
        raise _malformed(f"expected a text, got {short_repr(text)}")
    plain = text.strip()
    if thought := _THOUGHT.match(plain):  # some servers return the reasoning of a model at the start of its answer
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
    # Without this check, a second "verdict" would silently replace the first one.
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _malformed(f"duplicate keys: {short_repr([key for key, _ in pairs])}")
    return fields


def _check_ids(ids: Iterable[str], field: str, issued: Collection[str]) -> None:
    unknown = sorted(set(ids) - set(issued))
    if unknown:
        raise _malformed(f"{field} names {short_repr(unknown)}, which the record did not issue")
