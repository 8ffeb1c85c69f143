"""Types exchanged with a judging model: a prompt out, a reply back.

A model is any object with `complete`. It only transports: what to ask, how to parse the answer, what to cache and what
to count is decided once, in this package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Annotated, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from toolgrade._internal.json import JsonObject
from toolgrade._internal.model import Model


class ImagePart(Model):
    """An image within a message.

    Example:
        >>> from toolgrade.judge import ImagePart, Message
        >>> picture = ImagePart(url="https://example.com/paris.png")
        >>> message = Message(role="user", content=("What is the weather here?", picture))
        >>> message.to_chat()["content"][1]
        {'type': 'image_url', 'image_url': {'url': 'https://example.com/paris.png'}}
    """

    url: str
    """A `data:` URL that holds the image, or an address that the model's provider fetches."""


class Message(Model):
    """One message to the model.

    Example:
        >>> from toolgrade.judge import Message
        >>> Message(role="user", content="Was it right to call get_weather?").to_chat()
        {'role': 'user', 'content': 'Was it right to call get_weather?'}
    """

    role: Literal["system", "user"]
    content: str | tuple[str | ImagePart, ...]
    """Text, or texts and images in order."""

    @property
    def parts(self) -> tuple[str | ImagePart, ...]:
        """The texts and images, in order."""
        return (self.content,) if isinstance(self.content, str) else self.content

    @property
    def characters(self) -> int:
        """Number of characters in the texts; images have none."""
        return sum(len(part) for part in self.parts if isinstance(part, str))

    def to_chat(self) -> JsonObject:
        """Return this as a message of OpenAI's Chat Completions, a form that most servers and frameworks read."""
        return self._encode("text", lambda url: {"type": "image_url", "image_url": {"url": url}})

    def to_responses(self) -> JsonObject:
        """Return this as an input item of OpenAI's Responses API, a form that OpenAI Agents shares."""
        return self._encode("input_text", lambda url: {"type": "input_image", "image_url": url, "detail": "auto"})

    def _encode(self, text_type: str, encode_image: Callable[[str], JsonObject]) -> JsonObject:
        if isinstance(self.content, str):
            return {"role": self.role, "content": self.content}
        parts = [
            {"type": text_type, "text": part} if isinstance(part, str) else encode_image(part.url)
            for part in self.content
        ]
        return {"role": self.role, "content": parts}


class Prompt(Model):
    """One complete question to a judge: it can be sent now, or later in a batch.

    Prompts that ask the same question have equal `content`. Their messages differ, since random markers enclose the
    evidence.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> weather = ToolCall(name="get_weather", input_parameters={"city": "Paris"})
        >>> case = LLMTestCase(input="What is the weather in Paris?", tools_called=[weather], expected_tools=[weather])
        >>> metric = ToolCorrectnessMetric(available_tools=[{"name": "get_weather"}], judge="gpt-4.1")
        >>> [prompt.name for prompt in metric.prompts(case)]
        ['tool_selection', 'missing_calls']
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """The criterion, e.g. `tool_selection`; also the name of the reply's schema."""
    version: str
    """Version of the wording; verdicts of different versions are not comparable."""
    messages: tuple[Message, ...]
    reply_schema: JsonObject
    """JSON Schema of the reply: an object with exactly these properties, all required."""
    ids: tuple[str, ...]
    """The ids that the evidence issued; a reply that names another one is malformed."""
    content: JsonObject
    """Everything the answer depends on besides the model: the question, the evidence, the hashes of images, the number
    of the sample. No marker, time or file path."""


class Reply(Model):
    """A model's answer: a text, or a refusal.

    `usage` sums all attempts, failed ones included: `input_tokens`, `output_tokens`, and the `cached_tokens` and
    `reasoning_tokens` among them.

    Example:
        >>> from toolgrade.judge import Judge, Reply
        >>> from toolgrade.testing import sample_prompt
        >>> text = '{"evidence": ["c1"], "reasoning": "The user asked for Paris.", "verdict": "yes"}'
        >>> result = Judge("gpt-4.1").store(sample_prompt(), Reply(text=text))
        >>> result.verdict.decision.value, result.verdict.rationale
        ('yes', 'The user asked for Paris.')
    """

    text: str | None = None
    refusal: str | None = None
    finish: Literal["stop", "length", "content_filter"] = "stop"
    """Why the reply ends: it is complete, it reached a token limit, or the provider withheld the rest."""
    usage: dict[str, int] = Field(default_factory=dict)
    model: str | None = None
    """The model that answered, as the server names it."""
    request_id: str | None = None
    """The server's id of the request, such as for its support."""
    attempts: Annotated[int, Field(ge=1)] = 1
    """Requests sent for this reply."""


class Decision(str, Enum):
    """A judge's decision about one criterion."""

    YES = "yes"
    NO = "no"
    CANNOT_TELL = "cannot_tell"


class JudgeVerdict(Model):
    """A judge's verdict on one question."""

    decision: Decision
    rationale: str | None = None
    """The judge's reasoning."""
    evidence: tuple[str, ...] = ()
    """Ids of the evidence that the verdict rests on, as the prompt issued them."""
    missing: tuple[str, ...] = ()
    """Ids of the tools of missing calls, one id for each missing call; only for the question about missing calls."""


@runtime_checkable
class TextModel(Protocol):
    """A model that writes text.

    Optional attributes: `identity`, a JSON object of everything that the answers depend on (model name, settings sent);
    replies are cached under it, and not shared between objects without it. `prices` (see `Price`), from which costs are
    computed. `paced = True` if the model limits its own concurrency and time, so that `Judge` must not.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge, Reply
        >>> from toolgrade.testing import sample_prompt
        >>> class MyModel:
        ...     def complete(self, prompt):  # sends prompt.messages to a model
        ...         return Reply(text='{"evidence": ["c1"], "reasoning": "The user asked for it.", "verdict": "yes"}')
        >>> asyncio.run(Judge(MyModel()).ask(sample_prompt())).verdict.rationale
        'The user asked for it.'
    """

    def complete(self, prompt: Prompt, /) -> Reply | Awaitable[Reply]:
        """Return the reply to a prompt; sync or async.

        Retries, limits and deadlines are up to the model. A refusal or a truncated answer is a `Reply`.

        Raises:
            JudgeError: There is no reply; `outcome` says why. Any other exception counts as `transient`, a
                `TimeoutError` as `timeout`.
        """
        ...


class GeneratingModel(Protocol):
    """A model that takes one text and returns one, without images, such as a `DeepEvalBaseLLM`.

    An async `a_generate` is used instead of `generate` if there is one. With a required argument `schema` it gets a
    class of pydantic. Of a tuple, the first item is the text.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> class MyModel:  # such as a subclass of DeepEvalBaseLLM
        ...     def generate(self, prompt):
        ...         return '{"evidence": [], "reasoning": "Nobody asked for it.", "verdict": "no"}'
        >>> asyncio.run(Judge(MyModel()).ask(sample_prompt())).verdict.rationale
        'Nobody asked for it.'
    """

    @property
    def generate(self) -> Callable[..., object]:
        """Return the reply to a prompt."""
        ...


class InvokableModel(Protocol):
    """A model that takes chat messages and returns a text or a message, such as a chat model of LangChain.

    An async `ainvoke` is used instead of `invoke` if there is one.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> class MyModel:
        ...     def invoke(self, messages):
        ...         return '{"evidence": [], "reasoning": "Nobody asked for it.", "verdict": "no"}'
        >>> asyncio.run(Judge(MyModel()).ask(sample_prompt())).verdict.rationale
        'Nobody asked for it.'
    """

    @property
    def invoke(self) -> Callable[..., object]:
        """Return the reply to messages in the form of `Message.to_chat`."""
        ...


JudgeFunction: TypeAlias = Callable[[list[JsonObject]], "str | Awaitable[str]"]
"""A plain function, sync or async, from messages in the form of `Message.to_chat` to the text of the reply."""
