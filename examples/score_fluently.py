"""Data in your own format: map each item to a case, add metrics, run."""

from dataclasses import dataclass

from toolgrade import Evaluator, LLMTestCase, ToolCall, ToolCallParams


@dataclass
class Visit:
    """A visit to the shop, in the format of this program."""

    user_input: str
    called: list[ToolCall]
    expected: list[ToolCall]


lookup = ToolCall(name="product_lookup", input_parameters={"product_id": 101})
add_to_cart = ToolCall(name="add_to_cart", input_parameters={"product_id": 101, "quantity": 1})
visits = [
    Visit("Look up product 101 and add it to my cart.", called=[lookup, add_to_cart], expected=[lookup, add_to_cart]),
    Visit("Only look up product 101.", called=[add_to_cart, lookup], expected=[lookup]),
]

evaluator = Evaluator.from_data(
    visits, lambda visit: LLMTestCase(input=visit.user_input, tools_called=visit.called, expected_tools=visit.expected)
)
evaluator.add_tool_correctness(
    should_consider_ordering=True,
    evaluation_params=[ToolCallParams.INPUT_PARAMETERS, ToolCallParams.TOOL],
)
evaluator.add_tool_correctness_exact_match()
print(evaluator.run())
