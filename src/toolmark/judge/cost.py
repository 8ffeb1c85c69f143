"""What will judging cost? Told before anything is sent, from the prompts, the cache and the prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from toolmark._internal.json import json_text
from toolmark._internal.text import plural
from toolmark.errors import ConfigurationError
from toolmark.judge.prices import LETTERS_PER_TOKEN, Price, cost_of
from toolmark.judge.protocol import ImagePart, Message, Prompt, Reply

BATCH_SHARE: Final = 0.5
"""What a request of OpenAI's Batch API costs, as a share of the same one sent by itself."""

ANSWER_TOKENS: Final = 150
"""Tokens that an answer takes, where no earlier ones say it: a few ids, one to three sentences, a word."""

ENOUGH: Final = 20
"""Answers in the cache from which on they say how many tokens a question takes, and an answer."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What asking some prompts will take, about.

    Attributes:
        prompts: Different ones.
        verdicts: Of them, those whose verdict is in the cache: they cost nothing.
        settled: Of them, those that are not sent since they are in a batch already, or were given up.
        requests: Of them, those that will be sent, once if nothing fails.
        input_tokens: Of these, images not counted.
        output_tokens: Of their answers.
        images: How many of these show images, whose tokens nobody knows here.
        answers: Answers in the cache that the tokens were reckoned by; 0 if there are too few, and the tokens are from
            the letters of the prompts.
        answer_tokens: What one answer was taken to have.
        batch: They go into a batch, which costs half.
        price: Of a million tokens; `None` if it is not known.
    """

    prompts: int
    verdicts: int
    settled: int
    requests: int
    input_tokens: int
    output_tokens: int
    images: int
    answers: int
    answer_tokens: float
    batch: bool
    price: Price | None

    @property
    def cost(self) -> float | None:
        """What they cost, about; `None` if no price is known and something is sent."""
        if self.price is None:
            return None if self.requests else 0.0
        whole = cost_of({"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}, self.price)
        return whole * BATCH_SHARE if self.batch else whole

    def check(self, max_cost: float) -> None:
        """Raise where they cost more than is allowed, as far as this estimate knows: images are not in it.

        Args:
            max_cost: What they may cost, in the currency of the prices.

        Raises:
            ConfigurationError: They cost more, or nobody knows what they cost.
        """
        if not max_cost >= 0:
            raise ConfigurationError(f"max_cost must be a number of at least 0, got {max_cost!r}")
        if self.cost is None:
            remedy = "give the price of a million tokens of the model (prices=, or --price IN/OUT)"
            raise ConfigurationError(f"no price is known, so nobody can tell whether {max_cost:g} is enough; {remedy}")
        if self.cost > max_cost:
            told = f"it would cost about {_about(self.cost)}, more than the {max_cost:g} that are allowed"
            raise ConfigurationError(f"{told}; nothing was sent: judge a smaller sample, or allow more")

    def __str__(self) -> str:
        """Return what will be sent, the tokens with how they were reckoned, and the cost."""
        settled = f", {self.settled} under way or given up" if self.settled else ""
        lines = [
            f"{plural(self.prompts, 'question')}: {self.verdicts} in the cache{settled}, {self.requests} to be sent"
        ]
        if not self.requests:
            return lines[0]
        basis = f"as {self.answers} answers in the cache" if self.answers else f"{LETTERS_PER_TOKEN} characters a token"
        basis += f", {self.answer_tokens:.4g} tokens an answer"
        images = f"; {plural(self.images, 'question')} with images, which are not counted" if self.images else ""
        lines.append(f"about {_about(self.input_tokens)} tokens in, {_about(self.output_tokens)} out ({basis}{images})")
        if self.price is None or self.cost is None:
            lines.append("the cost is not known, since no price is")
        else:
            half = ", halved for a batch" if self.batch else ""
            price = f"{self.price.input:g} in and {self.price.output:g} out a million tokens{half}"
            lines.append(f"about {_about(self.cost)} in all, at {price}")
        return "\n".join(lines)


@dataclass(slots=True)
class Reckoning:
    """Adds prompts up, and what the answers to some of them took.

    Attributes:
        writes: The model writes text; else it is shown the evidence alone, and gives probabilities.
        letters: Of the prompts to be sent.
        requests: How many there are.
        images: How many of them show images.
        verdicts: Prompts that have a verdict.
        known_letters: Of those whose verdict says what it took.
        known_input: The tokens of these prompts.
        known_output: The tokens of their answers.
        answers: How many these are.
    """

    writes: bool
    letters: int = 0
    requests: int = 0
    images: int = 0
    verdicts: int = 0
    known_letters: int = 0
    known_input: int = 0
    known_output: int = 0
    answers: int = 0

    def add(self, prompt: Prompt, found: Reply | None) -> None:
        """Add a prompt, with the reply that the cache has."""
        letters, images = self._size(prompt)
        if found is None:
            self.requests += 1
            self.letters += letters
            self.images += bool(images)
            return
        self.verdicts += 1
        if found.attempts == 1 and not images and {"input_tokens", "output_tokens"} <= found.usage.keys():
            self.answers += 1
            self.known_letters += letters
            self.known_input += found.usage["input_tokens"]
            self.known_output += found.usage["output_tokens"]

    def _size(self, prompt: Prompt) -> tuple[int, int]:
        """Return the letters and the images that a model is sent."""
        texts, images = [json_text(prompt.reply_schema)] if self.writes else [prompt.question.text], 0
        for message in prompt.messages if self.writes else prompt.state:
            for part in _parts(message):
                if isinstance(part, ImagePart):
                    images += 1
                else:
                    texts.append(part)
        return sum(map(len, texts)), images

    def estimate(self, price: Price | None, answer_tokens: int | None) -> CostEstimate:
        """Return what the prompts to be sent will take, one by one.

        Args:
            price: Of a million tokens.
            answer_tokens: Of one answer; `None` for as many as the answers in the cache had, else `ANSWER_TOKENS`.
        """
        enough = self.answers >= ENOUGH and self.known_input > 0
        per_letter = self.known_input / self.known_letters if enough else 1 / LETTERS_PER_TOKEN
        each: float = (self.known_output / self.answers if enough else ANSWER_TOKENS) if self.writes else 0
        each = each if answer_tokens is None else answer_tokens
        return CostEstimate(
            prompts=self.requests + self.verdicts,
            verdicts=self.verdicts,
            settled=0,
            requests=self.requests,
            input_tokens=round(self.letters * per_letter),
            output_tokens=round(self.requests * each),
            images=self.images,
            answers=self.answers if enough else 0,
            answer_tokens=each,
            batch=False,
            price=price,
        )


def reckoned(
    prompts: Iterable[Prompt],
    key_of: Callable[[Prompt], str],
    cached: Callable[[Prompt], Reply | None],
    *,
    writes: bool,
) -> Reckoning:
    """Return the sum of prompts, each counted once.

    Args:
        prompts: The prompts.
        key_of: Says which of them ask the same.
        cached: Returns the reply that the cache has.
        writes: See `Reckoning`.
    """
    reckoning, seen = Reckoning(writes), set[str]()
    for prompt in prompts:
        key = key_of(prompt)
        if key not in seen:
            seen.add(key)
            reckoning.add(prompt, cached(prompt))
    return reckoning


def _about(value: float) -> str:
    """Return a number with three digits that count; more would say what nobody knows."""
    return f"{float(f'{value:.3g}'):,.12g}"


def _parts(message: Message) -> tuple[Any, ...]:
    return (message.content,) if isinstance(message.content, str) else message.content
