"""What judging costs, at prices that the user gives: toolmark ships none, for they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from toolmark._internal.model import Model

_MILLION = 1_000_000

LETTERS_PER_TOKEN: Final = 3
"""Characters of a prompt to one token, where no answer says it.

Prompts about cases in English have 3.8 to a token of OpenAI's `cl100k_base` and `o200k_base`; those in Chinese, which
are escaped as ASCII, 2.7."""

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Money for a million tokens, in any currency."""


class Price(Model):
    """What a million tokens of one model cost, in any currency, the same for all."""

    input: Amount
    output: Amount
    cached_input: Amount | None = None
    """Of input tokens that the provider had in its cache; as `input` where it is not given."""


Prices: TypeAlias = Mapping[str, Price]
"""Prices by the name of the model."""


def read_prices(prices: Mapping[str, Price | Mapping[str, Any]]) -> Prices:
    """Return prices by the name of the model, each given as `Price` or as a dict of its fields.

    Raises:
        InvalidDataError: One of them is no price.
    """
    return {
        name: price if isinstance(price, Price) else Price.model_validate(dict(price)) for name, price in prices.items()
    }


def cost_of(usage: Mapping[str, int], price: Price) -> float:
    """Return what these tokens cost: `usage` as in `Reply`, of which cached tokens are a part of the input."""
    cached = min(usage.get("cached_tokens", 0), usage.get("input_tokens", 0))
    fresh = usage.get("input_tokens", 0) - cached
    cached_price = price.input if price.cached_input is None else price.cached_input
    return (fresh * price.input + cached * cached_price + usage.get("output_tokens", 0) * price.output) / _MILLION


def add_usage(*usages: Mapping[str, int]) -> dict[str, int]:
    """Return the sum of usages, name by name."""
    total: dict[str, int] = {}
    for usage in usages:
        for name, amount in usage.items():
            total[name] = total.get(name, 0) + amount
    return total
