"""A judged conversation, offline: a plain function replaces the model.

The function reads the record that toolgrade would send to a language model, and replies in the requested form. Use
`judge="gpt-4.1"`, an `OpenAIJudge`, or a framework's model through an adapter's `as_judge` in its place.
"""

import json
import re

from toolgrade import ConversationalTestCase, ToolCall, ToolUseMetric, Turn

TOOLS = [
    {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {"name": "send_mail", "description": "Sends a mail."},
]
CONVERSATION = ConversationalTestCase(
    turns=[
        Turn(role="user", content="What is the weather in Oslo?"),
        Turn(
            role="assistant",
            content="Rain.",
            tools_called=[ToolCall(name="weather", input_parameters={"city": "Oslo"}, output="rain")],
        ),
        Turn(role="user", content="And in Lima? Mail it to me."),
        Turn(
            role="assistant",
            content="Done.",
            tools_called=[ToolCall(name="weather", input_parameters={"city": "Rome"}, output="sun")],
        ),
        Turn(role="user", content="And in Cairo?"),
        Turn(
            role="assistant",
            content="Sun.",
            tools_called=[ToolCall(name="weather", input_parameters={"town": "Cairo"}, output="error")],
        ),
    ]
)


def judge(messages: list[dict[str, object]]) -> str:
    """Return a reply by rules that fit only this conversation."""
    question, text = str(messages[0]["content"]), str(messages[1]["content"])
    record = json.loads(re.search(r"<record-(\w+)>\n(.*)\n</record-\1>", text)[2])  # type: ignore[index]
    request = record["request"][-1]
    reply = {"evidence": [request["id"]], "reasoning": "It is what the user asked for."}
    verdict = "yes"
    if "call" in record:
        city = record["call"]["arguments"].get("city", "")
        if "Are the arguments" in question and city not in request["content"]:
            verdict, reply["reasoning"] = "no", f"The user did not ask about {city}."
    else:
        called = {call["name"] for call in record["calls"]}
        mail_tools = [tool["id"] for tool in record["tools"] if "mail" in tool["name"] and "Mail" in request["content"]]
        if mail_tools and "send_mail" not in called:
            verdict, reply["reasoning"] = "no", "The user wanted a mail, and none was sent."
        reply["missing"] = mail_tools if verdict == "no" else []
    return json.dumps({**reply, "verdict": verdict})


result = ToolUseMetric(TOOLS, judge=judge).measure(CONVERSATION)
print(result.reason)
print()
for unit in result.units:
    print(f"turn {unit.turn}: selection {unit.selection:g}, arguments {unit.arguments:g}")
    for entry in unit.questions:
        print(f"  {entry.criterion:15} {entry.tool or '':8} {entry.decision:4} by {entry.decided_by}")
print()
print(f"asked {result.usage['requests']} questions of {len(result.units)} units; coverage {result.parts['coverage']:g}")
