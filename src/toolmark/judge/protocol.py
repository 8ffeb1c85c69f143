"""What passes between toolmark and the model that judges: a prompt there, a reply back.

A model is anything with `complete` (it writes text) or `decide` (it gives probabilities). It does transport alone:
what to ask, how to read the answer, what to keep and how to count it is decided once, in this package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from toolmark._internal.json import JsonObject, canonical_json
from toolmark._internal.model import Model
from toolmark.errors import JudgeOutcome


class ImagePart(Model):
    """An image within a message."""

    url: str
    """A `data:` URL with the image itself, or an address that the provider of the model fetches."""


class Message(Model):
    """One message to the model."""

    role: Literal["system", "user"]
    content: str | tuple[str | ImagePart, ...]
    """Text, or texts and images in their order."""

    def to_chat(self) -> JsonObject:
        """Return this in the form of OpenAI's Chat Completions, which most servers and frameworks read."""
        if isinstance(self.content, str):
            return {"role": self.role, "content": self.content}
        parts: list[JsonObject] = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image_url", "image_url": {"url": part.url}}
            for part in self.content
        ]
        return {"role": self.role, "content": parts}

    def to_responses(self) -> JsonObject:
        """Return this as an input item of OpenAI's Responses API, whose form other APIs and OpenAI Agents share."""
        if isinstance(self.content, str):
            return {"role": self.role, "content": self.content}
        parts: list[JsonObject] = [
            {"type": "input_text", "text": part}
            if isinstance(part, str)
            else {"type": "input_image", "image_url": part.url, "detail": "auto"}
            for part in self.content
        ]
        return {"role": self.role, "content": parts}


class Question(Model):
    """A question for a model that decides: it gives each option a probability."""

    id: str
    text: str
    options: tuple[str, ...] = ("yes", "no", "cannot_tell")


class Prompt(Model):
    """One question to a judge, complete: it can be sent, written to a file, and sent later.

    Two prompts that ask the same have equal `content`, although their messages differ in the random markers that
    enclose the evidence.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """What is asked, e.g. `tool_selection`; also the name of the reply's schema."""
    version: str
    """Version of the wording; verdicts of different versions are not comparable."""
    messages: tuple[Message, ...]
    """What a model that writes text is sent."""
    reply_schema: JsonObject
    """JSON Schema of the reply: an object of which every property is required and no other is allowed."""
    state: tuple[Message, ...]
    """What a model that decides is shown: the evidence, without a word about the form of the reply."""
    question: Question
    """What a model that decides is asked about `state`."""
    ids: tuple[str, ...]
    """The ids that the evidence issued; a reply that names another one is malformed."""
    content: JsonObject
    """All that the answer depends on, beside the model: the question, the evidence, the hashes of images, the number of
    the sample. No marker, time or file path."""


class Reply(Model):
    """What a model answered: exactly one of `text`, `refusal` and `probabilities`.

    `usage` sums every attempt, those that failed among them: `input_tokens`, `output_tokens`, and what of them was
    `cached_tokens` and `reasoning_tokens`; a provider's other counts keep their names.
    """

    text: str | None = None
    refusal: str | None = None
    probabilities: dict[str, float] | None = None
    """Of each option of the prompt's question, in [0, 1]."""
    finish: Literal["stop", "length", "content_filter"] = "stop"
    """Why it ended: by itself, at a limit of tokens, or because the provider withheld the rest."""
    usage: dict[str, int] = Field(default_factory=dict)
    model: str | None = None
    """The model that answered, as the server names it."""
    request_id: str | None = None
    attempts: Annotated[int, Field(ge=1)] = 1
    """Requests that were sent for it."""


class Answer(Model):
    """What a model that decides says of one question: probabilities, or why not."""

    probabilities: dict[str, float] | None = None
    """Of each option, in [0, 1]."""
    refusal: str | None = None


class Answers(Model):
    """What a model that decides says of the questions it was asked, by their ids."""

    answers: dict[str, Answer]
    usage: dict[str, int] = Field(default_factory=dict)
    """As in `Reply`."""
    model: str | None = None
    request_id: str | None = None
    attempts: Annotated[int, Field(ge=1)] = 1


class Decision(str, Enum):
    """What a judge says of one criterion."""

    YES = "yes"
    NO = "no"
    CANNOT_TELL = "cannot_tell"


class Verdict(Model):
    """What a judge says of one call and one criterion."""

    decision: Decision
    probability: Annotated[float, Field(ge=0, le=1)] | None = None
    """Of this decision; only models that decide give it, or several samples (their share)."""
    rationale: str | None = None
    """The judge's words; models that decide give none."""
    evidence: tuple[str, ...] = ()
    """Ids of what it rests on, as the prompt issued them."""
    missing: tuple[str, ...] = ()
    """Ids of the tools that should have been called and were not, one for each such call; only in answer to the
    question about missing calls."""


@runtime_checkable
class TextModel(Protocol):
    """A model that writes text.

    A model may say who it is in a property `identity`, a JSON object of everything that its answers depend on (the name
    of the model, the settings that are sent): replies are kept in a cache under it, and not at all without it. It may
    have `prices` (see `Price`), from which the cost of a result is computed, and `paced = True` if it limits its
    requests and their time by itself, so that nobody else has to.
    """

    def complete(self, prompt: Prompt, /) -> Reply | Awaitable[Reply]:
        """Return the reply to a prompt; async, or sync.

        Retries, limits and deadlines are the model's own. A refusal or a reply that is cut off is a `Reply`.

        Raises:
            JudgeError: There is no reply; its outcome says why. Any other exception counts as `transient`, and a
                `TimeoutError` as `timeout`.
        """
        ...


@runtime_checkable
class DecisionModel(Protocol):
    """A model that gives probabilities and writes no text. `identity` and `prices` as in `TextModel`."""

    def decide(self, state: Sequence[Message], questions: Sequence[Question], /) -> Answers | Awaitable[Answers]:
        """Return an answer to every question about a state; async, or sync.

        Raises:
            JudgeError: As in `TextModel.complete`.
        """
        ...


JudgeFunction: TypeAlias = Callable[[list[JsonObject]], "str | Awaitable[str]"]
"""A plain function, sync or async, from messages in the form of `Message.to_chat` to the text of the reply."""


def cache_key(prompt: Prompt, identity: Mapping[str, Any]) -> str:
    """Return the key under which the reply to a prompt is kept: SHA-256, in hexadecimal, of what it depends on.

    Args:
        prompt: The prompt; its messages play no part, its `content` does.
        identity: Who answers, see `TextModel`.
    """
    whole = {
        "prompt": {"name": prompt.name, "version": prompt.version, "content": prompt.content},
        "schema": prompt.reply_schema,
        "model": dict(identity),
    }
    return hashlib.sha256(canonical_json(whole).encode("ascii")).hexdigest()


__all__ = [
    "Answer",
    "Answers",
    "Decision",
    "DecisionModel",
    "ImagePart",
    "JudgeFunction",
    "JudgeOutcome",
    "Message",
    "Prompt",
    "Question",
    "Reply",
    "TextModel",
    "Verdict",
    "cache_key",
]
