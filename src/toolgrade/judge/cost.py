"""Token counts, prices and cost estimates.

The user gives the prices: toolgrade ships none, since they change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from toolgrade._internal.json import json_text
from toolgrade._internal.model import Model, drop_none
from toolgrade._internal.options import require
from toolgrade._internal.text import plural
from toolgrade.errors import ConfigurationError
from toolgrade.judge.protocol import Prompt, Reply

CHARACTERS_PER_TOKEN: Final = 3
"""Characters of a prompt per token.

Prompts about cases in English have 3.8 per token of OpenAI's `cl100k_base` and `o200k_base`; those in Chinese, which
are escaped as ASCII, 2.7."""

ANSWER_TOKENS: Final = 150
"""Tokens of a reply: a JSON object with the ids of some evidence, a reasoning of one to three sentences, a verdict."""

_MILLION = 1_000_000

PricePerMillion = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Price of a million tokens, in any currency."""


class Price(Model):
    """The price of a million tokens of one model, in any one currency."""

    input: PricePerMillion
    output: PricePerMillion
    cached_input: PricePerMillion | None = None
    """Price of input tokens that the provider had in its cache; by default that of `input`."""


Prices: TypeAlias = Mapping[str, Price]
"""Prices by the name of the model."""


def read_prices(prices: Mapping[str, Price | Mapping[str, Any]]) -> Prices:
    """Return prices by the name of the model; each may be a `Price` or a dict of its fields.

    Raises:
        InvalidDataError: One of them is not a price.
    """
    return {
        name: price if isinstance(price, Price) else Price.model_validate(dict(price)) for name, price in prices.items()
    }


def batch_prices(prices: Prices) -> Prices:
    """Return prices for OpenAI's Batch API, which bills half of the price of a single request."""
    halves = {
        name: {kind: amount / 2 for kind, amount in drop_none(dict(price)).items()} for name, price in prices.items()
    }
    return read_prices(halves)


def cost_of(usage: Mapping[str, int], price: Price) -> float:
    """Return the cost of tokens; `usage` is as in `Reply`, where cached tokens are part of the input."""
    tokens = Counter(usage)
    # Providers report cached tokens among the input tokens; a server that reports more must not make the rest negative.
    cached = min(tokens["cached_tokens"], tokens["input_tokens"])
    cached_price = price.input if price.cached_input is None else price.cached_input
    input_cost = (tokens["input_tokens"] - cached) * price.input + cached * cached_price
    return (input_cost + tokens["output_tokens"] * price.output) / _MILLION


def add_usage(*usages: Mapping[str, int]) -> dict[str, int]:
    """Return the sum of usages, name by name."""
    total = Counter[str]()
    for usage in usages:
        total.update(usage)
    return dict(total)


def add_costs(costs: Sequence[float | None]) -> float | None:
    """Return the sum, or `None` if one is unknown: a total without it would look like a low cost."""
    amounts = [cost for cost in costs if cost is not None]
    return fsum(amounts) if len(amounts) == len(costs) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """The estimated cost of judging some prompts.

    Attributes:
        prompts: Number of different prompts.
        verdicts: Prompts whose reply is in the cache; they cost nothing.
        requests: Prompts that will be sent, once each if nothing fails.
        input_tokens: Tokens of these requests, without images.
        output_tokens: Tokens of their replies.
        images: Number of these requests with images, whose tokens are unknown.
        answer_tokens: Assumed tokens of one reply.
        price: Price of a million tokens; `None` if unknown.

    Example:
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> judge = Judge("gpt-4.1", prices={"gpt-4.1": {"input": 2.0, "output": 8.0}})
        >>> cities = ("Paris", "Rome", "Paris")
        >>> print(judge.estimate(sample_prompt(f"Was get_weather right for {city}?") for city in cities))
        2 questions: 0 in the cache, 2 to be sent
        about 206 tokens in, 300 out (3 characters a token, 150 tokens an answer)
        about 0.00281 in all, at 2 in and 8 out a million tokens
    """

    prompts: int
    verdicts: int
    requests: int
    input_tokens: int
    output_tokens: int
    images: int
    answer_tokens: int
    price: Price | None

    @property
    def cost(self) -> float | None:
        """The estimated cost; `None` if the price is unknown and something will be sent."""
        if self.price is None:
            return None if self.requests else 0.0
        return cost_of({"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}, self.price)

    def check(self, max_cost: float) -> None:
        """Raise if the estimate exceeds `max_cost`, in the currency of the prices. Images are not in the estimate.

        Raises:
            ConfigurationError: The estimate is higher, or the price is unknown.
        """
        require(max_cost >= 0, "max_cost must be a number of at least 0", max_cost)
        if self.cost is None:
            message = f"max_cost {max_cost:g} cannot be checked: the price of the model is unknown"
            raise ConfigurationError(f"{message}; give the price of a million tokens (prices=)")
        if self.cost > max_cost:
            message = f"the estimated cost is {_rounded(self.cost)}, more than the maximum of {max_cost:g}"
            raise ConfigurationError(f"{message}; nothing was sent: judge a smaller sample, or raise the maximum")

    def __str__(self) -> str:
        """Return the numbers of prompts and tokens, how the tokens were estimated, and the cost."""
        text = f"{plural(self.prompts, 'question')}: {self.verdicts:,} in the cache, {self.requests:,} to be sent"
        if not self.requests:
            return text
        basis = f"{CHARACTERS_PER_TOKEN} characters a token, {self.answer_tokens} tokens an answer"
        if self.images:
            basis += f"; {plural(self.images, 'question')} with images, which are not counted"
        text += f"\nabout {_rounded(self.input_tokens)} tokens in, {_rounded(self.output_tokens)} out ({basis})\n"
        if self.price is None or self.cost is None:
            return f"{text}the cost is unknown, since no price is given"
        price = f"{self.price.input:g} in and {self.price.output:g} out a million tokens"
        return f"{text}about {_rounded(self.cost)} in all, at {price}"


def estimate_cost(
    prompts: Iterable[tuple[Prompt, Reply | None]], price: Price | None, answer_tokens: int
) -> CostEstimate:
    """Return the estimated cost of different prompts, each with its reply in the cache."""
    total = verdicts = characters = images = 0
    for prompt, reply in prompts:
        total += 1
        if reply is not None:
            verdicts += 1
            continue
        size, has_images = _size(prompt)
        characters += size
        images += has_images
    return CostEstimate(
        prompts=total,
        verdicts=verdicts,
        requests=total - verdicts,
        input_tokens=round(characters / CHARACTERS_PER_TOKEN),
        output_tokens=(total - verdicts) * answer_tokens,
        images=images,
        answer_tokens=answer_tokens,
        price=price,
    )


def _size(prompt: Prompt) -> tuple[int, bool]:
    """Return the number of characters in what is sent of a prompt, and whether it has images."""
    characters = len(json_text(prompt.reply_schema)) + sum(message.characters for message in prompt.messages)
    return characters, any(not isinstance(part, str) for message in prompt.messages for part in message.parts)


def _rounded(value: float) -> str:
    """Return a number with three significant digits; more would claim a precision that an estimate lacks."""
    return f"{float(f'{value:.3g}'):,.12g}"
