"""Request bodies of OpenAI's APIs from prompts, and replies and refusals from responses. Nothing is sent from here.

A *body* is the JSON object of a request or a response; a *reply* is what the model says in a response; a *refusal* is a
response with an HTTP status from 300 on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from toolgrade._internal.json import JsonObject, json_text, parse_json_value, short_repr
from toolgrade.errors import InvalidDataError, JudgeError, JudgeOutcome
from toolgrade.judge.openai.guard import PROBLEM, without_keys
from toolgrade.judge.protocol import Message, Prompt, Reply

TextApi: TypeAlias = Literal["chat", "responses"]
"""The APIs that judges use."""

LONGEST_QUOTE = 200
"""Characters of a response that an error message quotes."""

MOST_TOKENS = 1_000_000_000
"""The largest token count of one response that is believed; a larger one counts as not reported."""

_USAGE = {
    "prompt_tokens": ("input_tokens", "cached_tokens"),
    "input_tokens": ("input_tokens", "cached_tokens"),
    "completion_tokens": ("output_tokens", "reasoning_tokens"),
    "output_tokens": ("output_tokens", "reasoning_tokens"),
}
"""Token counts of the APIs, each with its name in `Reply`, and that of the one among its details."""


class Wire(NamedTuple):
    """One API: the path of its requests in a batch, how to encode a prompt, and how to decode a response.

    `body` returns a request without the model and the user's options; the endpoint enforces the schema of the reply, or
    the prompt alone demands it. `reply` reads the body of a response.
    """

    path: str
    body: Callable[[Prompt, bool], JsonObject]
    reply: Callable[[JsonObject], Reply]


def chat_body(prompt: Prompt, enforced: bool) -> JsonObject:
    """Return a prompt as a request to Chat Completions."""
    body: JsonObject = {"messages": [message.to_chat() for message in _messages(prompt, enforced)]}
    response_format = {"type": "json_schema", "json_schema": _schema(prompt)}
    return {**body, "response_format": response_format} if enforced else body


def responses_body(prompt: Prompt, enforced: bool) -> JsonObject:
    """Return a prompt as a request to the Responses API, with storage turned off."""
    # The API stores what it is sent unless told otherwise, and evidence may be confidential.
    body: JsonObject = {"input": [message.to_responses() for message in _messages(prompt, enforced)], "store": False}
    return {**body, "text": {"format": {"type": "json_schema", **_schema(prompt)}}} if enforced else body


def _schema(prompt: Prompt) -> JsonObject:
    return {"name": prompt.name, "schema": prompt.reply_schema, "strict": True}


def chat_reply(body: JsonObject) -> Reply:
    """Return the reply in a response of Chat Completions.

    Raises:
        JudgeError: The response reports an error, or has no choice with a message.
    """
    _raise_reported_error(body)
    choice = next(iter(objects_in(body.get("choices"))), {})
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _unusable(f"the answer has no choice with a message: {quote(body)}")
    return _reply(body, _text_of(message.get("content")), message.get("refusal"), choice.get("finish_reason"))


def responses_reply(body: JsonObject) -> Reply:
    """Return the reply in a response of the Responses API.

    Raises:
        JudgeError: The response reports an error, or has no output.
    """
    _raise_reported_error(body)
    if not isinstance(body.get("output"), list):
        raise _unusable(f"the answer has no output: {quote(body)}")
    parts: list[JsonObject] = []
    for message in objects_in(body["output"], "message"):
        parts += objects_in(message.get("content"))
    refusals = [str(part.get("refusal")) for part in objects_in(parts, "refusal")]
    reason = object_or_empty(body.get("incomplete_details")).get("reason")
    finish = "length" if reason == "max_output_tokens" else reason
    return _reply(body, _text_of(parts), "\n".join(refusals), finish)


def _unusable(problem: str) -> JudgeError:
    """Return the error for a response with status 200 that cannot be used, which a later one may be."""
    return JudgeError(problem, JudgeOutcome.MALFORMED)


def read_object(content: bytes) -> JsonObject:
    """Return the JSON object in the body of a response, without keys.

    Raises:
        JudgeError: The body is not a JSON object.
    """
    text = without_keys(content.decode("utf-8-sig", "replace"))
    with suppress(InvalidDataError):
        value = parse_json_value(text, allow_nan=True)
        if isinstance(value, dict):
            return cast("JsonObject", value)
    problem = f"the answer is not a JSON object; is the address that of an API? It begins {quote(text)}"
    raise _unusable(problem)


def usage_of(body: Mapping[str, Any]) -> dict[str, int]:
    """Return the token counts that a response reports, under the names of `Reply`; empty if it reports none."""
    usage = object_or_empty(body.get("usage"))
    counts: dict[str, int] = {}
    for field, (name, detail) in _USAGE.items():
        reported = {name: usage.get(field), detail: object_or_empty(usage.get(f"{field}_details")).get(detail)}
        counts |= {key: count for key, count in reported.items() if type(count) is int and 0 < count <= MOST_TOKENS}
    return counts


def object_or_empty(value: object) -> JsonObject:
    """Return a JSON object as it is, and an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def objects_in(value: object, *types: str) -> list[JsonObject]:
    """Return the objects in a list, or those of some `type`; none if the value is not a list."""
    objects = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return [item for item in objects if item.get("type") in types] if types else objects


def _reply(body: JsonObject, text: str, refusal: object, finish: object) -> Reply:
    fields: dict[str, Any] = {"refusal": refusal} if refusal and isinstance(refusal, str) else {"text": text}
    if isinstance(body.get("model"), str):
        fields["model"] = body["model"]
    fields = {name: _clean(value) for name, value in fields.items()}
    if finish in ("length", "content_filter"):
        fields["finish"] = finish
    return Reply(**fields, usage=usage_of(body))


def _clean(text: str) -> str:
    """Return a text without keys, which JSON may have escaped, and without lone surrogates, which no file can hold."""
    return without_keys(text.encode("utf-8", "replace").decode())


def _text_of(content: object) -> str:
    """Return the text of a content, which is a text or a list of parts; empty if there is none."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in objects_in(content, "text", "output_text")]
    return "".join(text for text in texts if isinstance(text, str))


def _raise_reported_error(body: JsonObject) -> None:
    """Raise if a response with status 200 reports an error, which a later attempt may not have."""
    error = body.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        raise _unusable(f"the endpoint reports an error: {quote(message)}")


def quote(value: object) -> str:
    """Return the beginning of a value for an error message."""
    return short_repr(value, LONGEST_QUOTE)


def _messages(prompt: Prompt, enforced: bool) -> tuple[Message, ...]:
    """Return the messages, with the schema in words where the endpoint does not enforce it."""
    if enforced:
        return prompt.messages
    text = (
        "Answer with one JSON object and nothing else: no other words, no code fence. "
        f"It must fit this JSON Schema: {json_text(prompt.reply_schema)}"
    )
    # Many servers accept only one system message, so the schema joins the one that is there.
    first, *others = prompt.messages
    if first.role == "system" and isinstance(first.content, str):
        return Message(role="system", content=f"{first.content}\n\n{text}"), *others
    return Message(role="system", content=text), *prompt.messages


_LONGEST_MESSAGE = 300
_ACCOUNT_CODES = {
    *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated"),
    *("invalid_api_key", "model_not_found"),
}
_PERMANENT_CODES = _ACCOUNT_CODES | {"unsupported_parameter", "unsupported_value", "unknown_parameter"}
"""Error codes that every request with the same settings gets."""
_FILTER_CODES = {"content_filter", "content_policy_violation", "cyber_policy_violation"}
_SIZE_CODES = {"context_length_exceeded", "string_above_max_length"}
_PERMANENT = {HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
_BAD_REQUEST = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_IMPLEMENTED}
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response with an HTTP status from 300 on; `error` is what its body says, `text` the message there."""

    status: int
    error: JsonObject
    text: str

    @classmethod
    def of(cls, response: Any) -> Refusal:  # noqa: ANN401 - of the HTTP client
        """Return the refusal of a response whose body was read."""
        body: JsonObject = {}
        with suppress(JudgeError):
            body = read_object(response.content)
        error = object_or_empty(body.get("error")) or body
        text = response.extensions.get(PROBLEM) or error.get("message") or body.get("error") or response.text
        if response.status_code < HTTPStatus.BAD_REQUEST:
            target = without_keys(response.headers.get("location", ""))[:LONGEST_QUOTE]
            text = (
                f"the endpoint redirects to {target}; redirects are not followed, so give the final address as base_url"
            )
        text = _clean(str(text)).strip().partition("\n")[0]
        return cls(response.status_code, error, text[:_LONGEST_MESSAGE])

    def __str__(self) -> str:
        """Return the status, the code and the message."""
        code = self.error.get("code") or self.error.get("type")
        return without_keys(f"HTTP {self.status}{f' ({code})' if code else ''}: {self.text}")

    @property
    def codes(self) -> set[str]:
        """The error codes."""
        return {f"{self.error.get('code')}", f"{self.error.get('type')}"}

    @property
    def outcome(self) -> JudgeOutcome:
        """The outcome of the question if no later request succeeds."""
        if self.codes & _FILTER_CODES:
            return JudgeOutcome.CONTENT_FILTER
        is_redirect = self.status < HTTPStatus.BAD_REQUEST
        if is_redirect or self.status in _PERMANENT or self.codes & _PERMANENT_CODES:
            return JudgeOutcome.FATAL
        is_passing = self.status in _PASSING or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return JudgeOutcome.TRANSIENT if is_passing else JudgeOutcome.MALFORMED

    @property
    def is_overload(self) -> bool:
        """Whether the endpoint takes no more requests for now."""
        return self.status == HTTPStatus.TOO_MANY_REQUESTS and self.outcome is JudgeOutcome.TRANSIENT

    @property
    def may_concern_form(self) -> bool:
        """Whether the endpoint may have refused how the form of the reply was demanded.

        Servers use their own words for it, so a refusal that names nothing else counts too; the weaker form is only
        remembered if it is accepted.
        """
        if self.status not in _BAD_REQUEST or self.codes & (_SIZE_CODES | _FILTER_CODES | _ACCOUNT_CODES):
            return False
        return str(self.error.get("param") or "text").startswith(("response_format", "text"))


WIRES: Mapping[TextApi, Wire] = {
    "chat": Wire("/v1/chat/completions", chat_body, chat_reply),
    "responses": Wire("/v1/responses", responses_body, responses_reply),
}
"""The APIs by their short names."""
