"""A plain Python agent and its components, scored through decorators.

`@observe` marks the agent, `@observe(tool=True)` its tools, and `@observe(metrics=[...])` a component that is scored
each time it runs. Without an evaluation nothing is recorded. Tools run in parallel tasks, and one of them fails.
"""

from __future__ import annotations

import asyncio

from toolgrade import Golden, Report, ToolCall, ToolCorrectnessMetric, evaluate, observe
from toolgrade.compat.deepeval.tracing import update_current_span
from toolgrade.report.terminal import print_report

PRICES = {"tea": 4.5, "coffee": 7.0}
STOCK = {"tea": 12, "coffee": 0}

# --- Tools ------------------------------------------------------------------------------------------------------------


@observe(tool=True)
async def price(item: str, currency: str = "EUR") -> str:
    """Return the price of an item."""
    await asyncio.sleep(0)
    return f"{PRICES[item]} {currency}"


@observe(tool=True)
def stock(item: str) -> int:
    """Return the number of items in stock."""
    return STOCK[item]


@observe(tool=True)
def order(item: str, amount: int) -> str:
    """Order an item, if enough are in stock."""
    if stock(item) < amount:  # a tool called inside a tool is a child of that call
        message = f"not enough {item}"
        raise LookupError(message)
    return f"{amount} x {item} ordered"


# --- Agent ------------------------------------------------------------------------------------------------------------


@observe(metrics=[ToolCorrectnessMetric(threshold=1)])
async def look_up(items: list[str]) -> dict[str, str]:
    """Look up several prices in parallel; each is expected exactly once."""
    unique_items = sorted(set(items))
    update_current_span(
        expected_tools=[ToolCall(name="price", input_parameters={"item": item}) for item in unique_items]
    )
    prices = await asyncio.gather(*(price(item) for item in items))
    return dict(zip(items, prices, strict=True))


@observe
async def shop(question: str) -> str:
    """Answer a question by fixed rules, in place of a model."""
    items = [item for item in PRICES if item in question]
    prices = await look_up(items or ["tea"])
    if "order" not in question:
        return f"{prices}"
    try:
        return order(items[0], 1)
    except LookupError as error:
        return f"Sorry: {error}."


# --- Goldens ----------------------------------------------------------------------------------------------------------

GOLDENS = [
    Golden(
        id="compare",
        input="What do tea and coffee cost?",
        expected_tools=[
            ToolCall(name="price", input_parameters={"item": "tea"}),
            ToolCall(name="price", input_parameters={"item": "coffee"}),
        ],
    ),
    Golden(
        id="order",
        input="Please order two packs of tea.",
        expected_tools=[
            ToolCall(name="price", input_parameters={"item": "tea"}),
            ToolCall(name="order", input_parameters={"item": "tea", "amount": 2}),
        ],
    ),
    Golden(
        id="sold-out",
        input="Please order coffee.",
        expected_tools=[
            ToolCall(name="price", input_parameters={"item": "coffee"}),
            ToolCall(name="order", input_parameters={"item": "coffee", "amount": 1}),
        ],
    ),
]


def main() -> Report:
    """Ask every question, score the answers and the component, and print the comparison."""
    metric = ToolCorrectnessMetric(threshold=0.9, evaluation_params=["input_parameters"])
    report = evaluate(observed_callback=shop, goldens=GOLDENS, metrics=[metric], show_progress=False)
    print_report(report, title="shop")
    return report


if __name__ == "__main__":
    main()
