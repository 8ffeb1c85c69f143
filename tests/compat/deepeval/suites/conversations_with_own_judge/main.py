"""The phone bank team: recorded conversations, a judge of our own, evaluate() and its results."""

from deepeval import assert_test, evaluate
from deepeval.dataset import ConversationalGolden, EvaluationDataset
from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseConversationalMetric, ConversationalGEval, ToolUseMetric
from deepeval.test_case import ConversationalTestCase, ToolCall, Turn

from bank_judge import BankJudge
from bank_metrics import ConfirmsBeforePaying, ToolOrder, TurnsWithTools

TOOLS = [
    ToolCall(name="identify", description="Checks who is calling"),
    ToolCall(name="balance", description="Reads the balance"),
    ToolCall(name="pay", description="Pays a bill"),
]

SCRIPTS = {
    "caller asks for the balance": [
        ("user", "How much money do I have?", []),
        ("assistant", "Who are you?", []),
        ("user", "Kim, 1990", []),
        ("assistant", "You have 20 francs.", ["identify", "balance"]),
    ],
    "caller pays a bill": [
        ("user", "Pay my phone bill", []),
        ("assistant", "Shall I pay 30 francs?", ["identify"]),
        ("user", "yes", []),
        ("assistant", "Paid.", ["pay"]),
    ],
    "caller is in a hurry": [
        ("user", "Pay it now!", []),
        ("assistant", "Paid.", ["pay", "identify"]),
    ],
}

dataset = EvaluationDataset(
    goldens=[
        ConversationalGolden(scenario=scenario, expected_outcome="the caller is served", additional_metadata={"turns": len(script)})
        for scenario, script in SCRIPTS.items()
    ]
)
for golden in dataset.goldens:
    turns = [
        Turn(role=role, content=content, tools_called=[ToolCall(name=name, input_parameters={"by": "phone"}) for name in names] or None)
        for role, content, names in SCRIPTS[golden.scenario]
    ]
    dataset.add_test_case(
        ConversationalTestCase(
            name=golden.scenario, scenario=golden.scenario, expected_outcome=golden.expected_outcome, chatbot_role="bank clerk",
            turns=turns, additional_metadata=golden.additional_metadata,
        )
    )
assert len(dataset.test_cases) == 3


def by_name(result):
    return {r.name: {d.name: d for d in r.metrics_data} for r in result.test_results}


for run_async in (True, False):
    judge = BankJudge()
    result = evaluate(
        test_cases=dataset.test_cases,
        metrics=[
            ToolUseMetric(available_tools=TOOLS, threshold=0.5, model=judge),
            ToolOrder(first="identify"),
            ConfirmsBeforePaying(threshold=1),
            TurnsWithTools(threshold=0.5),
        ],
        async_config=AsyncConfig(run_async=run_async, max_concurrent=5),
        display_config=DisplayConfig(show_indicator=False, print_results=run_async),
        error_config=ErrorConfig(ignore_errors=False),
        hyperparameters={"judge": judge.get_model_name()},
        identifier=f"phone bank {run_async}",
    )
    assert judge.asked >= 3
    table = by_name(result)
    assert set(table) == set(SCRIPTS)
    assert all(set(row) == {"Tool Use", "Tool Order", "Confirms Before Paying", "Turns With Tools"} for row in table.values())
    assert [table[s]["Tool Use"].score for s in SCRIPTS] == [1.0, 1.0, 1.0]
    assert [table[s]["Tool Order"].score for s in SCRIPTS] == [1.0, 1.0, 0.0]
    assert [table[s]["Confirms Before Paying"].score for s in SCRIPTS] == [1.0, 1.0, 0.0]
    assert [table[s]["Turns With Tools"].score for s in SCRIPTS] == [0.5, 1.0, 1.0]
    assert {r.name: r.success for r in result.test_results} == {
        "caller asks for the balance": True, "caller pays a bill": True, "caller is in a hurry": False,
    }
    hurry = next(r for r in result.test_results if r.name == "caller is in a hurry")
    assert hurry.conversational is True
    assert [turn.role for turn in hurry.turns] == ["user", "assistant"]
    assert hurry.metadata == {"turns": 2}
    failed = [d for d in hurry.metrics_data if not d.success]
    assert sorted(d.name for d in failed) == ["Confirms Before Paying", "Tool Order"]
    assert all(d.error is None for d in hurry.metrics_data)
    assert table["caller is in a hurry"]["Tool Order"].reason == "first: pay"

bad = BankJudge(mood="bad")
result = evaluate(dataset.test_cases[:1], [ToolUseMetric(available_tools=TOOLS, model=bad, strict_mode=1)])
assert result.test_results[0].success is False
assert result.test_results[0].metrics_data[0].score == 0

assert_test(dataset.test_cases[1], [ToolOrder(first="identify"), ConfirmsBeforePaying()])
try:
    assert_test(test_case=dataset.test_cases[2], metrics=[ToolOrder(first="identify")], run_async=False)
except AssertionError as error:
    assert "Tool Order" in str(error)
else:
    raise AssertionError("the third caller was not identified first")

broken = BankJudge(mood="broken")
result = evaluate(
    dataset.test_cases[:1], [ToolUseMetric(available_tools=TOOLS, model=broken), ToolOrder(first="identify")],
    error_config=ErrorConfig(ignore_errors=True),
)
row = by_name(result)["caller asks for the balance"]
assert row["Tool Use"].error and row["Tool Use"].success is False
assert row["Tool Order"].success is True
print("OK")
