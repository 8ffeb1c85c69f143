"""How do I score data in a shape of my own? Say how an item becomes a case, add metrics, run."""

from dataclasses import dataclass

from toolmark import Evaluator, LLMTestCase, ToolCall, ToolCallParams


@dataclass
class Visit:
    """One visit of the shop, as this program happens to keep it."""

    user_input: str
    made: list[ToolCall]
    wanted: list[ToolCall]


lookup = ToolCall(name="product_lookup", input_parameters={"product_id": 101})
add_to_cart = ToolCall(name="add_to_cart", input_parameters={"product_id": 101, "quantity": 1})
visits = [
    Visit("Look up product 101 and add it to my cart.", made=[lookup, add_to_cart], wanted=[lookup, add_to_cart]),
    Visit("Only look up product 101.", made=[add_to_cart, lookup], wanted=[lookup]),
]

evaluator = Evaluator.from_data(
    visits, lambda visit: LLMTestCase(input=visit.user_input, tools_called=visit.made, expected_tools=visit.wanted)
)
evaluator.add_tool_correctness(
    should_consider_ordering=True,
    evaluation_params=[ToolCallParams.INPUT_PARAMETERS, ToolCallParams.TOOL],
)
evaluator.add_tool_correctness_exact_match()
print(evaluator.run())
