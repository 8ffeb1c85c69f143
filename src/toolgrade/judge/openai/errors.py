"""Failed requests to an endpoint: whether to retry, slow down, ask in another form, or give up."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from toolgrade._internal.json import JsonObject
from toolgrade.errors import JudgeOutcome

if TYPE_CHECKING:
    import openai

_LONGEST_MESSAGE = 300
_PERMANENT = {HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
_ACCOUNT_CODES = {
    *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated"),
    *("invalid_api_key", "model_not_found"),
}
_PERMANENT_CODES = _ACCOUNT_CODES | {"unsupported_parameter", "unsupported_value", "unknown_parameter"}
"""Error codes that every request with the same settings gets."""

_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "cyber_policy_violation"})
_FORM_WORDS = ("response_format", "json_schema", "json_object", "text.format", "structured output")
_SIZE_CODES = frozenset({"context_length_exceeded", "string_above_max_length"})
_BAD_REQUEST = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_IMPLEMENTED})
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_RETRY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, *_BUSY})


@dataclass(eq=False)
class EndpointError(Exception):
    """A failed request.

    `outcome` is that of the question if no later request succeeds. `retry` says that the same request may succeed
    later, `overload` that all requests should wait, for `retry_after` seconds if the endpoint says so, `other_form`
    that a weaker demand on the form of the reply may be accepted, and `billed` that the endpoint may have done the
    work.
    """

    outcome: JudgeOutcome
    message: str
    retry: bool = False
    overload: bool = False
    retry_after: float | None = None
    other_form: bool = False
    billed: bool = False


def unusable_response_error(message: str) -> EndpointError:
    """Return the error for a response with status 200 that cannot be used, or for a request without a response."""
    return EndpointError(JudgeOutcome.TRANSIENT, message, retry=True, billed=True)


def connection_error(error: openai.APIConnectionError) -> EndpointError:
    """Return the error for a lost connection."""
    cause = error.__cause__
    reason = f"{type(cause).__name__}: {cause}" if f"{cause or ''}" else str(error)
    return EndpointError(JudgeOutcome.TRANSIENT, f"the connection failed: {reason}", retry=True, billed=True)


def timeout_error(seconds: float) -> EndpointError:
    """Return the error for an answer that is not complete in time."""
    message = f"no complete answer within {seconds:g} seconds"
    return EndpointError(JudgeOutcome.TIMEOUT, message, retry=True, billed=True)


def status_error(error: openai.APIStatusError) -> EndpointError:
    """Return the error for an HTTP status from 400 on."""
    status, code = error.status_code, f"{error.code or error.type or ''}"
    message = f"HTTP {status}{f' ({code})' if code else ''}: {_endpoint_message(error)}"
    codes = {f"{error.code}", f"{error.type}"}
    if codes & _FILTER_CODES:
        return EndpointError(JudgeOutcome.CONTENT_FILTER, message)
    other_form = status in _BAD_REQUEST and not codes & _SIZE_CODES and _concerns_form(error, codes)
    if status in _PERMANENT or codes & _PERMANENT_CODES:
        return EndpointError(JudgeOutcome.FATAL, message, other_form=other_form)
    if status not in _RETRY and status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return EndpointError(JudgeOutcome.MALFORMED, message, other_form=other_form)
    return _transient_error(error, message, other_form=other_form)


def _transient_error(error: openai.APIStatusError, message: str, *, other_form: bool) -> EndpointError:
    """Return the error for an HTTP status after which the same request may succeed."""
    status, headers = error.status_code, error.response.headers
    seconds = retry_after(headers)
    retry = headers.get("x-should-retry") != "false" and status != HTTPStatus.NOT_IMPLEMENTED
    # A 503 without a time to wait may be one broken server, which is no reason to stop everybody.
    busy = {HTTPStatus.TOO_MANY_REQUESTS} if seconds is None else _BUSY
    return EndpointError(JudgeOutcome.TRANSIENT, message, retry, status in busy and retry, seconds, other_form)


def _concerns_form(error: openai.APIStatusError, codes: set[str]) -> bool:
    """Return whether the endpoint may have rejected how the form of the reply was demanded.

    Servers use their own words for it, so a rejection that names nothing else counts too; the weaker form is only
    remembered if it is accepted.
    """
    if error.param:
        return error.param.startswith(("response_format", "text"))
    text = error.message.lower()
    return any(word in text for word in _FORM_WORDS) or not codes & _ACCOUNT_CODES


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an endpoint asks to wait, at least 0; `None` without a valid header."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) * scale
            if math.isfinite(seconds):
                return max(0.0, seconds)
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    return None


def _endpoint_message(error: openai.APIStatusError) -> str:
    """Return the endpoint's own message, which the client wraps in its words and the whole body."""
    message = cast("JsonObject", error.body).get("message") if isinstance(error.body, dict) else None
    text = message if isinstance(message, str) else error.message
    return text.strip().partition("\n")[0][:_LONGEST_MESSAGE]
