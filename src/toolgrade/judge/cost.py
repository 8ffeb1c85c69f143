"""Token counts, prices and cost estimates.

The user gives the prices: toolgrade ships none, since they change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from toolgrade._internal.json import json_text
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.model import Model, drop_none
from toolgrade._internal.options import require
from toolgrade._internal.text import plural
from toolgrade.errors import ConfigurationError
from toolgrade.judge.protocol import Prompt, Reply

CHARACTERS_PER_TOKEN: Final = 3
"""Characters of a prompt per token, used unless there are `ENOUGH_REPLIES` to measure the ratio.

Prompts about cases in English have 3.8 per token of OpenAI's `cl100k_base` and `o200k_base`; those in Chinese, which
are escaped as ASCII, 2.7."""

ANSWER_TOKENS: Final = 150
"""Tokens of a reply, used unless there are `ENOUGH_REPLIES` to measure them.

A reply is a JSON object with the ids of some evidence, a reasoning of one to three sentences, and a verdict of one
word."""

ENOUGH_REPLIES: Final = 20
"""Cached replies needed to estimate the tokens of prompts and replies from them."""

_MILLION = 1_000_000
_TOKEN_COUNTS = frozenset({"input_tokens", "output_tokens"})

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


@dataclass(frozen=True, slots=True)
class Spent:
    """Cost of requests.

    Attributes:
        tokens: Input and output tokens together.
        money: In the currency of the prices; 0 where they are unknown.
    """

    tokens: int = 0
    money: float = 0.0


class SpendingLimit:
    """A limit on tokens and money; `None` for no limit.

    A request reserves its estimated cost before it is sent, so that parallel requests do not overspend together, and
    charges the real cost afterwards. The estimate is the highest cost of a request so far, or the caller's guess if
    that is higher. A single request can still cost more than any before it.
    """

    def __init__(self, tokens: int | None, money: float | None) -> None:
        """Start with nothing spent."""
        self.limited: bool = (tokens, money) != (None, None)
        self._tokens, self._money = tokens or inf, money or inf
        self._lock = ForkSafeLock()
        self.spent = Spent()
        self._reserved = Spent()
        self._highest = Spent()

    def reserve(self, guess: Spent) -> Spent | None:
        """Reserve the cost of a request; return it, to be charged, or `None` if the budget does not allow it."""
        with self._lock:
            tokens, money = max(guess.tokens, self._highest.tokens), max(guess.money, self._highest.money)
            reserved = Spent(self._reserved.tokens + tokens, self._reserved.money + money)
            if self.spent.tokens + reserved.tokens > self._tokens or self.spent.money + reserved.money > self._money:
                return None
            self._reserved = reserved
            return Spent(tokens, money)

    def charge(self, reserved: Spent, cost: Spent) -> None:
        """Replace a reservation by the real cost."""
        with self._lock:
            self._reserved = Spent(self._reserved.tokens - reserved.tokens, self._reserved.money - reserved.money)
            self.spent = Spent(self.spent.tokens + cost.tokens, self.spent.money + cost.money)
            self._highest = Spent(max(cost.tokens, self._highest.tokens), max(cost.money, self._highest.money))


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
        answers: Cached replies from which the token counts are estimated; 0 if there are fewer than 20, and the counts
            are from characters.
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
    answers: int
    answer_tokens: float
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
        basis = (
            f"as {self.answers} answers in the cache" if self.answers else f"{CHARACTERS_PER_TOKEN} characters a token"
        )
        basis += f", {self.answer_tokens:.4g} tokens an answer"
        if self.images:
            basis += f"; {plural(self.images, 'question')} with images, which are not counted"
        text += f"\nabout {_rounded(self.input_tokens)} tokens in, {_rounded(self.output_tokens)} out ({basis})\n"
        if self.price is None or self.cost is None:
            return f"{text}the cost is unknown, since no price is given"
        price = f"{self.price.input:g} in and {self.price.output:g} out a million tokens"
        return f"{text}about {_rounded(self.cost)} in all, at {price}"


def estimate_cost(
    prompts: Iterable[tuple[Prompt, Reply | None]], price: Price | None, answer_tokens: int | None
) -> CostEstimate:
    """Return the estimated cost of different prompts, each with its reply in the cache.

    `answer_tokens` are those of one reply, `None` to estimate them.
    """
    new, past = Counter[str](), Counter[str]()
    for prompt, reply in prompts:
        new["prompts"] += 1
        characters, images = _size(prompt)
        if reply is None:
            new.update(requests=1, characters=characters, images=int(images > 0))
        # The usage of a reply after failed attempts has the tokens of all of them.
        elif not images and reply.attempts == 1 and reply.usage.keys() >= _TOKEN_COUNTS:
            past.update({name: reply.usage[name] for name in _TOKEN_COUNTS})
            past.update(requests=1, characters=characters)
    answers, per_character, per_reply = _token_rates(past)
    if answer_tokens is not None:
        per_reply = answer_tokens
    return CostEstimate(
        prompts=new["prompts"],
        verdicts=new["prompts"] - new["requests"],
        requests=new["requests"],
        input_tokens=round(new["characters"] * per_character),
        output_tokens=round(new["requests"] * per_reply),
        images=new["images"],
        answers=answers,
        answer_tokens=per_reply,
        price=price,
    )


def _token_rates(past: Counter[str]) -> tuple[int, float, float]:
    """Return the number of cached replies behind the rates (0 for the default rates), and the rates.

    The rates are the tokens per character of a prompt, and the tokens per reply.
    """
    # The mean of fewer replies may be far off while it looks exact; a fixed ratio does not.
    if past["requests"] < ENOUGH_REPLIES or not past["input_tokens"]:
        return 0, 1 / CHARACTERS_PER_TOKEN, ANSWER_TOKENS
    return past["requests"], past["input_tokens"] / past["characters"], past["output_tokens"] / past["requests"]


def _size(prompt: Prompt) -> tuple[int, int]:
    """Return the numbers of characters and of images in what is sent of a prompt."""
    characters = len(json_text(prompt.reply_schema)) + sum(message.characters for message in prompt.messages)
    return characters, sum(not isinstance(part, str) for message in prompt.messages for part in message.parts)


def _rounded(value: float) -> str:
    """Return a number with three significant digits; more would claim a precision that an estimate lacks."""
    return f"{float(f'{value:.3g}'):,.12g}"
