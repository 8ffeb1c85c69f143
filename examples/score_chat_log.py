"""Score a log of Chat Completions: read each exchange, add the expected calls, evaluate."""

import json
from typing import Any

from toolgrade import ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.formats import read
from toolgrade.report.terminal import print_report


def exchange(messages: list[dict[str, Any]], answer: dict[str, Any]) -> str:
    """Return a log line of a proxy or a client hook: the last request of a conversation, and its response."""
    response = {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", **answer}}]}
    return json.dumps({"request": {"messages": messages}, "response": response})


def request_call(call_id: str, name: str, **arguments: object) -> dict[str, Any]:
    """Return the fields of an assistant message that requests a call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


log = [
    exchange(
        [
            {"role": "user", "content": "Refund order 17."},
            {"role": "assistant", **request_call("call_1", "find_order", order=17)},
            {"role": "tool", "tool_call_id": "call_1", "content": '{"paid": 40}'},
        ],
        request_call("call_2", "refund", order=17, amount=40),
    ),
    exchange([{"role": "user", "content": "Where is order 18?"}], {"content": "It has been shipped."}),
]

expected = {
    "refund": [
        ToolCall(name="find_order", input_parameters={"order": 17}),
        ToolCall(name="refund", input_parameters={"order": 17, "amount": 40}),
    ],
    "status": [ToolCall(name="find_order", input_parameters={"order": 18})],
}

cases = []
for line, (name, calls) in zip(log, expected.items(), strict=True):
    transcript = read(json.loads(line))
    print(f"{name}: {transcript.format}, {len(transcript.run.calls)} calls, ended: {transcript.run.status.value}")
    cases.append(transcript.run.to_test_case(expected_tools=calls, name=name))

report = evaluate(cases, [ToolCorrectnessMetric(evaluation_params=["input_parameters"])])
print_report(report, title="The log")
