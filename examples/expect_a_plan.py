"""Several correct ways to do a task: a plan with variants, an order, and forbidden calls."""

from toolgrade import Golden, LLMTestCase, TaskSuccessMetric, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Alternatives, Approx, Expect, Forbid, Glob, IgnoreCase, OneOf, Plan
from toolgrade.linting import lint

tools = [
    {"name": "find_order", "parameters": {"properties": {"mail": {"type": "string"}}, "required": ["mail"]}},
    {"name": "refund", "parameters": {"properties": {"amount": {"type": "number"}}, "required": ["amount"]}},
    {"name": "send_voucher", "parameters": {"properties": {"amount": {"type": "number"}}}},
    {"name": "delete_account", "parameters": {}},
]

# Find the order first, then either refund about the price or send a voucher; never delete anything.
plan = Plan(
    [
        Expect("find_order", {"mail": IgnoreCase("ann@example.com")}, label="found", times=(1, 2)),
        OneOf(Expect("refund", {"amount": Approx(19.99, abs=0.01)}), Expect("send_voucher"), after=["found"]),
        Forbid(Glob("delete_*")),
    ]
)
question = Golden(id="shoes", input="My shoes are broken.", expected_tools=plan)
print(lint([question], tools=tools).summary())

runs = {
    "refunded": [
        ToolCall(name="find_order", input_parameters={"mail": "Ann@Example.com"}),
        ToolCall(name="refund", input_parameters={"amount": 20}),
    ],
    "hasty": [
        ToolCall(name="send_voucher", input_parameters={"amount": 5}),
        ToolCall(name="find_order", input_parameters={"mail": "ann@example.com"}),
    ],
    "overdone": [
        ToolCall(name="find_order", input_parameters={"mail": "ann@example.com"}),
        ToolCall(name="refund", input_parameters={"amount": 19.99}),
        ToolCall(name="delete_account"),
    ],
}
metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
for name, called in runs.items():
    case = LLMTestCase(input=question.input, tools_called=called, expected_tools=question.expected_tools)
    print(f"\n{name}: {metric.measure(case).reason}")

# Two golden trajectories: the result names the better one, which counts.
either = Alternatives(
    [
        Plan([ToolCall(name="find_order"), ToolCall(name="refund")]),
        Plan([ToolCall(name="send_voucher")], name="voucher"),
    ]
)
case = LLMTestCase(tools_called=[ToolCall(name="send_voucher")], expected_tools=either)
print(f"\neither: {ToolCorrectnessMetric().measure(case).reason}")

# Only calls that change something count; lookups do not.
changed = LLMTestCase(
    tools_called=[ToolCall(name="find_order"), *runs["refunded"]],
    expected_tools=[ToolCall(name="refund", input_parameters={"amount": 20})],
)
print(f"\nchanged: {TaskSuccessMetric(calls_only=True).measure(changed).reason}")
