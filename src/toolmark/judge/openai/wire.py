"""How does a prompt read in OpenAI's APIs, and their answers as replies? Nothing is sent from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from toolmark._internal.json import JsonObject, json_text, parse_json, short_repr
from toolmark.errors import InvalidDataError
from toolmark.judge.prices import add_usage
from toolmark.judge.protocol import Answer, Message, Prompt, Question, Reply

TextApi: TypeAlias = Literal["chat", "responses"]
"""The APIs of models that write text."""

SHOWN = 200
"""Characters of an answer that a message quotes."""


class Rung(IntEnum):
    """What an endpoint is asked to hold the form of a reply with; each server knows some of these, from the top."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    PLAIN = 2


class UnreadableError(Exception):
    """An answer with status 200 is none: no JSON object, without what the API promises, or an error in its place."""


class Wire(NamedTuple):
    """One API.

    Attributes:
        path: Where its requests go, as lines of a batch name it.
        body: Makes the body of a request, without the model and the user's own options.
        reply: Reads the body of an answer; raises `UnreadableError`.
    """

    path: str
    body: Callable[[Prompt, Rung], JsonObject]
    reply: Callable[[JsonObject], Reply]


def chat_body(prompt: Prompt, rung: Rung) -> JsonObject:
    """Return a prompt as a request to Chat Completions."""
    messages = [message.to_chat() for message in _told(prompt, rung)]
    if rung is Rung.PLAIN:
        return {"messages": messages}
    if rung is Rung.JSON_OBJECT:
        return {"messages": messages, "response_format": {"type": "json_object"}}
    schema = {"name": prompt.name, "schema": prompt.reply_schema, "strict": True}
    return {"messages": messages, "response_format": {"type": "json_schema", "json_schema": schema}}


def responses_body(prompt: Prompt, rung: Rung) -> JsonObject:
    """Return a prompt as a request to the Responses API, which is told to keep nothing of it."""
    body: JsonObject = {"input": [message.to_responses() for message in _told(prompt, rung)], "store": False}
    if rung is Rung.PLAIN:
        return body
    if rung is Rung.JSON_OBJECT:
        return {**body, "text": {"format": {"type": "json_object"}}}
    form = {"type": "json_schema", "name": prompt.name, "schema": prompt.reply_schema, "strict": True}
    return {**body, "text": {"format": form}}


def decisions_body(state: Sequence[Message], questions: Sequence[Question]) -> JsonObject:
    """Return questions about a state as a request to the Decisions API: choices between the options of each."""
    asked = [
        {
            "type": "choice",
            "name": question.id,
            "instructions": question.text,
            "choices": [{"value": option} for option in question.options],
        }
        for question in questions
    ]
    return {"input": [message.to_responses() for message in state], "questions": asked}


def chat_reply(body: JsonObject) -> Reply:
    """Read an answer of Chat Completions.

    Raises:
        UnreadableError: There is no choice with a message.
    """
    _refuse_failure(body)
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise UnreadableError(f"the answer has no choice with a message: {_shown(body)}")
    return _reply(body, _text_of(message.get("content")), message.get("refusal"), choice.get("finish_reason"))


def responses_reply(body: JsonObject) -> Reply:
    """Read an answer of the Responses API.

    Raises:
        UnreadableError: It has no output.
    """
    _refuse_failure(body)
    output = body.get("output")
    if not isinstance(output, list):
        raise UnreadableError(f"the answer has no output: {_shown(body)}")
    items = [item for item in output if isinstance(item, dict) and item.get("type") == "message"]
    contents = [item.get("content") for item in items]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    refusals = [f"{part.get('refusal')}" for part in parts if part.get("type") == "refusal"]
    reason = (body.get("incomplete_details") or {}).get("reason")
    finish = "length" if reason == "max_output_tokens" else reason
    return _reply(body, _text_of(parts), "\n".join(refusals) or None, finish)


def decisions_answers(body: JsonObject, questions: Sequence[Question]) -> dict[str, Answer]:
    """Read an answer of the Decisions API, which has the order of the questions.

    Raises:
        UnreadableError: It does not answer each question with a probability for every option.
    """
    _refuse_failure(body)
    found = body.get("answers")
    if not isinstance(found, list) or len(found) != len(questions):
        raise UnreadableError(f"there is not one answer for each of {len(questions)} questions: {_shown(body)}")
    return {question.id: _decided(told, question) for question, told in zip(questions, found, strict=True)}


def _decided(told: Any, question: Question) -> Answer:  # noqa: ANN401 - whatever the endpoint sent
    if isinstance(told, dict) and told.get("type") == "refusal":
        return Answer(refusal="the model declined to answer this question")
    listed = told.get("probabilities") if isinstance(told, dict) else None
    shares = {
        entry["value"]: float(entry["probability"])
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict)
        and isinstance(entry.get("value"), str)
        and isinstance(entry.get("probability"), (int, float))
    }
    if set(shares) != set(question.options):
        raise UnreadableError(f"question {question.id!r} has no probability for each of its options: {_shown(told)}")
    return Answer(probabilities=shares)


def read_object(text: str | bytes) -> JsonObject:
    """Return the JSON object that an answer should be.

    Raises:
        UnreadableError: It is none.
    """
    try:
        content = parse_json(text, allow_nan=True)
    except InvalidDataError:
        content = None
    if not isinstance(content, dict):
        told = short_repr(text, SHOWN)
        raise UnreadableError(f"the answer is no JSON object; is the address that of an API? It begins {told}")
    return cast("JsonObject", content)


def usage_of(body: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens that an answer says it used, under the names of `Reply`; empty if it says nothing."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return {}
    found: dict[str, int] = {}
    for side, names in (
        ("input", ("input_tokens", "prompt_tokens")),
        ("output", ("output_tokens", "completion_tokens")),
    ):
        amount = next((usage[name] for name in names if _is_count(usage.get(name))), None)
        if amount is not None:
            found[f"{side}_tokens"] = amount
        for name in names:
            details = usage.get(f"{name}_details")
            counts = details.items() if isinstance(details, dict) else ()
            found = add_usage(found, {key: count for key, count in counts if _is_count(count) and count})
    return found


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _reply(body: JsonObject, text: str, refusal: object, finish: object) -> Reply:
    fields: dict[str, Any] = {"text": text} if not isinstance(refusal, str) or not refusal else {"refusal": refusal}
    if finish in ("length", "content_filter"):
        fields["finish"] = finish
    if isinstance(body.get("model"), str):
        fields["model"] = body["model"]
    return Reply(**fields, usage=usage_of(body))


def _text_of(content: object) -> str:
    """Return the text of a content, which is a text or a list of parts; empty if there is none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [
        part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in ("text", "output_text")
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _refuse_failure(body: JsonObject) -> None:
    """Raise where an answer with status 200 says that there was an error."""
    error = body.get("error")
    if error:
        told = error.get("message") if isinstance(error, dict) else error
        raise UnreadableError(f"the endpoint says that it failed: {short_repr(told, SHOWN)}")


def _shown(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _told(prompt: Prompt, rung: Rung) -> tuple[Message, ...]:
    """Return the messages, with the schema in words where the endpoint does not hold the reply to it."""
    if rung is Rung.JSON_SCHEMA:
        return prompt.messages
    text = (
        "Answer with one JSON object and nothing else: no other words, no code fence. "
        f"It must fit this JSON Schema: {json_text(prompt.reply_schema)}"
    )
    first, *others = prompt.messages
    if first.role == "system" and isinstance(first.content, str):
        return Message(role="system", content=f"{first.content}\n\n{text}"), *others
    return Message(role="system", content=text), *prompt.messages


WIRES: Mapping[TextApi, Wire] = {
    "chat": Wire("/v1/chat/completions", chat_body, chat_reply),
    "responses": Wire("/v1/responses", responses_body, responses_reply),
}
"""The APIs of models that write text, by their short names."""
