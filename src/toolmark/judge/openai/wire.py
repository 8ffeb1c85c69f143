"""Prompts as request bodies of OpenAI's APIs, and their answers as replies. Nothing is sent from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from toolmark._internal.json import JsonObject, json_text, parse_json, short_repr
from toolmark.errors import InvalidDataError
from toolmark.judge.cost import add_usage
from toolmark.judge.openai.errors import unreadable_error
from toolmark.judge.protocol import Answer, Message, Prompt, Question, Reply

TextApi: TypeAlias = Literal["chat", "responses"]
"""The APIs of models that write text."""

LONGEST_QUOTE = 200
"""Characters of an answer that an error message quotes."""


_USAGE = (
    ("prompt_tokens", "input_tokens"),
    ("input_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
    ("output_tokens", "output_tokens"),
)
"""Names of token counts in the APIs, and in `Reply`; of two names for one count the later one wins."""


class Rung(IntEnum):
    """How an endpoint is told the form of a reply, strongest first; each server supports some of these."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    PLAIN = 2


class Wire(NamedTuple):
    """One API: the path of its requests in a batch, how to encode a prompt, and how to decode an answer.

    `body` leaves out the model and the user's options. `reply` raises `EndpointError`.
    """

    path: str
    body: Callable[[Prompt, Rung], JsonObject]
    reply: Callable[[JsonObject], Reply]


def chat_body(prompt: Prompt, rung: Rung) -> JsonObject:
    """Return a prompt as a request to Chat Completions."""
    body: JsonObject = {"messages": [message.to_chat() for message in _messages(prompt, rung)]}
    form = _form(rung, {"json_schema": _schema(prompt)})
    return {**body, "response_format": form} if form else body


def responses_body(prompt: Prompt, rung: Rung) -> JsonObject:
    """Return a prompt as a request to the Responses API, with storage turned off."""
    # The API stores what it is sent unless told otherwise, and evidence may be confidential.
    body: JsonObject = {"input": [message.to_responses() for message in _messages(prompt, rung)], "store": False}
    form = _form(rung, _schema(prompt))
    return {**body, "text": {"format": form}} if form else body


def _schema(prompt: Prompt) -> JsonObject:
    return {"name": prompt.name, "schema": prompt.reply_schema, "strict": True}


def _form(rung: Rung, schema: JsonObject) -> JsonObject:
    """Return the demanded form of the reply, empty if it is demanded in words alone."""
    if rung is Rung.JSON_SCHEMA:
        return {"type": "json_schema", **schema}
    return {"type": "json_object"} if rung is Rung.JSON_OBJECT else {}


def decisions_body(state: Sequence[Message], questions: Sequence[Question], _rung: Rung) -> JsonObject:
    """Return questions about a state as a request to the Decisions API, whose answers have one fixed form."""
    choices: list[JsonObject] = []
    for question in questions:
        options = [{"value": option} for option in question.options]
        choices.append({"type": "choice", "name": question.id, "instructions": question.text, "choices": options})
    return {"input": [message.to_responses() for message in state], "questions": choices}


def chat_reply(body: JsonObject) -> Reply:
    """Return the reply in an answer of Chat Completions.

    Raises:
        EndpointError: It has no choice with a message.
    """
    _raise_reported_error(body)
    choice = next(iter(_objects(body.get("choices"))), {})
    message = choice.get("message")
    if not isinstance(message, dict):
        raise unreadable_error(f"the answer has no choice with a message: {_quote(body)}")
    return _reply(body, _text_of(message.get("content")), message.get("refusal"), choice.get("finish_reason"))


def responses_reply(body: JsonObject) -> Reply:
    """Return the reply in an answer of the Responses API.

    Raises:
        EndpointError: It has no output.
    """
    _raise_reported_error(body)
    if not isinstance(body.get("output"), list):
        raise unreadable_error(f"the answer has no output: {_quote(body)}")
    messages = [item for item in _objects(body["output"]) if item.get("type") == "message"]
    parts = [part for message in messages for part in _objects(message.get("content"))]
    refusals = [str(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
    reason = json_object(body.get("incomplete_details")).get("reason")
    finish = "length" if reason == "max_output_tokens" else reason
    return _reply(body, _text_of(parts), "\n".join(refusals), finish)


def decisions_answers(body: JsonObject, questions: Sequence[Question]) -> dict[str, Answer]:
    """Return the answers of the Decisions API, which come in the order of the questions.

    Raises:
        EndpointError: It does not give every question a probability for each option.
    """
    _raise_reported_error(body)
    answers = body.get("answers")
    if not isinstance(answers, list) or len(answers) != len(questions):
        raise unreadable_error(f"expected one answer for each of {len(questions)} questions: {_quote(body)}")
    return {question.id: _decision(answer, question) for question, answer in zip(questions, answers, strict=True)}


def _decision(answer: object, question: Question) -> Answer:
    fields = json_object(answer)
    if fields.get("type") == "refusal":
        return Answer(refusal="the model declined to answer this question")
    shares = {
        entry["value"]: float(entry["probability"])
        for entry in _objects(fields.get("probabilities"))
        if isinstance(entry.get("value"), str) and isinstance(entry.get("probability"), (int, float))
    }
    if shares.keys() != set(question.options):
        message = f"question {question.id!r} has no probability for each of its options: {_quote(answer)}"
        raise unreadable_error(message)
    return Answer(probabilities=shares)


def read_object(text: str | bytes) -> JsonObject:
    """Return the JSON object in the body of an answer.

    Raises:
        EndpointError: It is not a JSON object.
    """
    with suppress(InvalidDataError):
        content = parse_json(text, allow_nan=True)
        if isinstance(content, dict):
            return cast("JsonObject", content)
    quote = short_repr(text, LONGEST_QUOTE)
    raise unreadable_error(f"the answer is not a JSON object; is the address that of an API? It begins {quote}")


def usage_of(body: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens that an answer reports, under the names of `Reply`; empty if it reports none."""
    usage = json_object(body.get("usage"))
    counts, total = _counts(usage), dict[str, int]()
    for name, side in _USAGE:
        if name in counts:
            total[side] = counts[name]
        details = _counts(json_object(usage.get(f"{name}_details")))
        total = add_usage(total, {key: count for key, count in details.items() if count})
    return total


def _counts(fields: Mapping[str, object]) -> dict[str, int]:
    return {name: value for name, value in fields.items() if type(value) is int and value >= 0}


def json_object(value: object) -> JsonObject:
    """Return a JSON object as it is, and an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[JsonObject]:
    """Return the objects in a list; none if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _reply(body: JsonObject, text: str, refusal: object, finish: object) -> Reply:
    fields: dict[str, Any] = {"refusal": refusal} if refusal and isinstance(refusal, str) else {"text": text}
    if finish in ("length", "content_filter"):
        fields["finish"] = finish
    if isinstance(body.get("model"), str):
        fields["model"] = body["model"]
    return Reply(**fields, usage=usage_of(body))


def _text_of(content: object) -> str:
    """Return the text of a content, which is a text or a list of parts; empty if there is none."""
    if isinstance(content, str):
        return content
    parts = [part for part in _objects(content) if part.get("type") in ("text", "output_text")]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _raise_reported_error(body: JsonObject) -> None:
    """Raise if an answer with status 200 reports an error."""
    error = body.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        raise unreadable_error(f"the endpoint reports an error: {short_repr(message, LONGEST_QUOTE)}")


def _quote(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


def _messages(prompt: Prompt, rung: Rung) -> tuple[Message, ...]:
    """Return the messages, with the schema in words where the endpoint does not enforce it."""
    if rung is Rung.JSON_SCHEMA:
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


WIRES: Mapping[TextApi, Wire] = {
    "chat": Wire("/v1/chat/completions", chat_body, chat_reply),
    "responses": Wire("/v1/responses", responses_body, responses_reply),
}
"""The APIs of models that write text, by their short names."""
