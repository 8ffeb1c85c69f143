"""Parser of judge replies into verdicts.

A reply must have exactly the requested form, but other text may stand around it: reasoning that ends with `</think>`, a
code fence, a sentence. A reply with other keys, another verdict, or an id that is not in the prompt is malformed as a
whole: no part of it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from toolgrade._internal.json import JsonObject, short_repr
from toolgrade._internal.model import Model
from toolgrade.errors import InvalidDataError, JudgeError, JudgeOutcome
from toolgrade.judge.protocol import Decision, Prompt, Reply, Verdict

MOST_MISSING = 50
"""Missing calls that one reply may name."""

LONGEST_REPLY = 256_000
"""Characters of the longest reply that is read."""

LONGEST_REASONING = 20_000
"""Bytes of a reasoning that are kept; the characters of the rest are counted."""

_END_OF_THOUGHT = re.compile(r"</\s*think(?:ing)?\s*>", re.IGNORECASE)

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
        raise _malformed(f"expected the keys {expected}, got {short_repr(sorted(fields))}")
    try:
        reply = _Fields.model_validate(fields)
    except InvalidDataError as error:
        raise _malformed("; ".join(map(str, error.problems))) from None
    _check_ids(reply.evidence, "evidence", prompt.ids)
    tool_ids = [name for name in prompt.ids if name.startswith("t")]
    _check_ids(reply.missing, "missing", tool_ids)
    # If the verdict contradicts the list of missing calls, neither of them can be trusted.
    if "missing" in fields and (reply.verdict is Decision.NO) != bool(reply.missing):
        raise _malformed(f"verdict {reply.verdict.value!r} contradicts {len(reply.missing)} missing calls")
    if len(reply.missing) > MOST_MISSING:
        raise _malformed(f"{len(reply.missing)} missing calls, at most {MOST_MISSING} are allowed")
    rationale = _shortened(reply.reasoning)
    return Verdict(decision=reply.verdict, rationale=rationale, evidence=reply.evidence, missing=reply.missing)


def _shortened(reasoning: str) -> str:
    """Return a reasoning of at most `LONGEST_REASONING` bytes, with the number of characters that were left out."""
    content = reasoning.encode("utf-8", "replace")
    if len(content) <= LONGEST_REASONING:
        return reasoning
    begin = content[: LONGEST_REASONING - 50].decode("utf-8", "ignore")
    return f"{begin} ... ({len(reasoning) - len(begin):,} more characters)"


def _parse_object(text: object) -> JsonObject:
    """Return the one JSON object in a text, whatever stands around it."""
    if not isinstance(text, str):
        raise _malformed(f"expected a text, got {short_repr(text)}")
    if len(text) > LONGEST_REPLY:
        raise _malformed(f"it has {len(text):,} characters, at most {LONGEST_REPLY:,} are read")
    try:
        value = _decode(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"expected a JSON object, got {short_repr(text)} ({error})") from None
    if not isinstance(value, dict):
        raise _malformed(f"expected a JSON object, got {short_repr(text)}")
    return value


def _decode(text: str) -> object:
    """Return the JSON value that a text is, else the one object in it.

    Raises:
        ValueError: There is no object, or there are several.
        RecursionError: The text is too deep.
    """
    with suppress(ValueError):
        return _DECODER.decode(text.removeprefix("\ufeff"))
    with suppress(ValueError):
        return _only_object(text)
    return _only_object(_END_OF_THOUGHT.split(text)[-1])


def _only_object(text: str) -> object:
    value, end = _DECODER.raw_decode(text, max(text.find("{"), 0))
    if "{" in text[end:] or _END_OF_THOUGHT.search(text, end):
        raise ValueError("it has several objects, or one in a thought")
    return value


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> JsonObject:
    # Without this check, a second "verdict" would silently replace the first one.
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _malformed(f"duplicate keys: {short_repr([key for key, _ in pairs])}")
    return fields


# Not strict: local models write line breaks into texts as they are.
_DECODER = json.JSONDecoder(object_pairs_hook=_object_without_duplicates, strict=False)


def _check_ids(ids: Iterable[str], field: str, issued: Collection[str]) -> None:
    unknown = sorted(set(ids) - set(issued))
    if unknown:
        raise _malformed(f"{field} names {short_repr(unknown)}, which the record did not issue")
