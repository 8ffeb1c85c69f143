"""What does a failure of OpenAI's client mean: try again, wait together, ask in another form, or give up?"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from toolmark._internal.json import JsonObject
from toolmark.errors import JudgeOutcome

if TYPE_CHECKING:
    import openai

_SHOWN = 300
_STAYS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})
_STAYING_CODES = frozenset(
    {
        *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated"),
        *("invalid_api_key", "model_not_found", "unsupported_parameter", "unsupported_value", "unknown_parameter"),
    }
)
"""Codes that no other request with the same settings escapes."""

_FILTERED_CODES = frozenset({"content_filter", "content_policy_violation", "cyber_policy_violation"})
_FORM_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter", "invalid_json_schema"})
_FORM_WORDS = ("response_format", "json_schema", "json_object", "text.format", "structured output")
_SIZE_CODES = frozenset({"context_length_exceeded", "string_above_max_length"})
_BAD_REQUEST = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_IMPLEMENTED})
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_TRY_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, *_BUSY})


@dataclass(frozen=True, slots=True)
class Fault:
    """What a failed request means.

    Attributes:
        outcome: What becomes of the question if nothing better happens.
        message: What went wrong, for a person.
        again: Whether the same request may succeed later.
        everybody: Whether all requests should wait: the endpoint is asked too much.
        retry_after: Seconds that the endpoint asked for.
        other_form: Whether the request may be accepted with a weaker demand on the form of the reply.
        billed: Whether the endpoint may have done the work all the same.
    """

    outcome: JudgeOutcome
    message: str
    again: bool = False
    everybody: bool = False
    retry_after: float | None = None
    other_form: bool = False
    billed: bool = False


def unanswered(error: openai.APIConnectionError) -> Fault:
    """Return what a lost connection means."""
    cause = error.__cause__
    reason = f"{type(cause).__name__}: {cause}" if cause is not None and f"{cause}" else f"{error}"
    return Fault(JudgeOutcome.TRANSIENT, f"the connection failed: {reason}", again=True, billed=True)


def too_late(seconds: float) -> Fault:
    """Return what an answer means that did not come in time."""
    return Fault(JudgeOutcome.TIMEOUT, f"no whole answer within {seconds:g} seconds", again=True, billed=True)


def refused(error: openai.APIStatusError) -> Fault:
    """Return what an HTTP status from 400 on means."""
    status, code = error.status_code, f"{error.code or error.type or ''}"
    headers = error.response.headers
    message = f"HTTP {status}{f' ({code})' if code else ''}: {_told(error)}"
    codes = {f"{error.code}", f"{error.type}"}
    if codes & _FILTERED_CODES:
        return Fault(JudgeOutcome.CONTENT_FILTER, message)
    other_form = status in _BAD_REQUEST and not codes & _SIZE_CODES and _is_about_form(error, codes)
    if status in _STAYS or codes & _STAYING_CODES:
        return Fault(JudgeOutcome.FATAL, message, other_form=other_form)
    if status in _TRY_AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        asked = retry_after(headers)
        busy = status == HTTPStatus.TOO_MANY_REQUESTS or (status in _BUSY and asked is not None)
        again = headers.get("x-should-retry") != "false" and status != HTTPStatus.NOT_IMPLEMENTED
        return Fault(JudgeOutcome.TRANSIENT, message, again, busy and again, asked, other_form)
    return Fault(JudgeOutcome.MALFORMED, message, other_form=other_form)


def _is_about_form(error: openai.APIStatusError, codes: set[str]) -> bool:
    """Whether the endpoint may dislike how the form of the reply was demanded.

    Servers say so in words of their own, so a refusal that names nothing else counts too; the weaker form is kept only
    if it is accepted.
    """
    if error.param:
        return error.param.startswith(("response_format", "text"))
    text = error.message.lower()
    return any(word in text for word in _FORM_WORDS) or not codes & (_STAYING_CODES - _FORM_CODES)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an endpoint asks to wait, 0 or more; `None` if it does not say, or nonsense."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except ValueError:
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _told(error: openai.APIStatusError) -> str:
    """Return what the endpoint said; the client wraps it in its own words and the whole body."""
    body = error.body
    said = cast("JsonObject", body).get("message") if isinstance(body, dict) else None
    text = said if isinstance(said, str) else error.message
    return text.strip().partition("\n")[0][:_SHOWN]
