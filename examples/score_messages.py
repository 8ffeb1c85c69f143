"""Score logged OpenAI messages against the calls that you expect."""

from toolgrade import ToolCorrectnessMetric, case_from_record

record = {
    "id": "average-sales",
    "query": "What is the average sales amount in the orders table?",
    "agent_trajectory": [
        {"role": "user", "content": "What is the average sales amount in the orders table?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "run_sql", "arguments": '{"query": "SELECT AVG(amount) FROM orders"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '[{"avg": 250.5}]'},
        {"role": "assistant", "content": "The average sales amount is $250.50."},
    ],
    "expected_tools": [
        {"name": "run_sql", "args": {"query": "SELECT AVG(amount) FROM orders"}, "output": [{"avg": 250.5}]}
    ],
}

case = case_from_record(record)
result = ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"]).measure(case)
print(float(result), result.reason)
