"""A judge measured against the labels of people, offline: a fake endpoint replaces the model.

The endpoint answers by two rules that look for words, as a weak model might. Verdicts are stored in a file, so that the
second measurement asks nothing. Use the name of a real model in its place, or on the command line:

    toolgrade validate conversations.jsonl --label metadata.solved --metric tool-use --judge gpt-4.1 \
        --cache verdicts.sqlite
"""

import json
import re
import tempfile
from pathlib import Path

from toolgrade import (
    ConversationalTestCase,
    Judge,
    LLMTestCase,
    ToolCall,
    ToolCorrectnessMetric,
    ToolUseMetric,
    Turn,
    validate,
)
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import FakeOpenAI, ReceivedRequest

TOOLS = [
    {"name": "forecast", "description": "The weather of the next days in a city."},
    {"name": "alarm", "description": "Sends an alarm when the weather changes."},
]
CITIES = ("Bandung", "Cairo", "Lima", "Oslo")
# Question, expected tool, called tool, and whether a person says that the agent did what was asked for. The author of
# the last expected tools overlooked the second half of the question.
LABELLED = [
    *[(f"What will the weather be like in {city}?", "forecast", "forecast", True) for city in CITIES],
    *[(f"Do I need an umbrella in {city} tomorrow?", "forecast", "forecast", True) for city in CITIES],
    *[(f"Wake me when the weather in {city} changes.", "alarm", "alarm", True) for city in CITIES],
    *[(f"What will the weather be like in {city}?", "forecast", "alarm", False) for city in CITIES],
    *[(f"Warn me when the weather in {city} gets bad.", "alarm", "forecast", False) for city in CITIES],
    *[(f"What is the weather in {city}, and can you warn me?", "forecast", "forecast", False) for city in CITIES],
]


def answer(request: ReceivedRequest) -> str:
    """Return a verdict: a question with `weather` needs a forecast, one with `me when` or `warn` needs an alarm."""
    record = json.loads(re.search(r"<record-(\w+)>\n(.*)\n</record-\1>", request.body["messages"][1]["content"])[2])
    question = record["request"][-1]
    reply = {"evidence": [question["id"]], "reasoning": "The question has the word.", "verdict": "yes"}
    if "call" in record:
        word = "me when" if record["call"]["name"] == "alarm" else "weather"
        reply["verdict"] = "yes" if word in question["content"] else "no"
    else:
        wants_alarm = "warn" in question["content"]
        reply["missing"] = [tool["id"] for tool in record["tools"] if tool["name"] == "alarm"] if wants_alarm else []
        reply["verdict"] = "no" if wants_alarm else "yes"
    return json.dumps(reply)


cases = [
    LLMTestCase(
        input=question,
        tools_called=[ToolCall(name=tool)],
        expected_tools=[ToolCall(name=expected)],
        available_tools=TOOLS,
        metadata={"solved": solved},
    )
    for question, expected, tool, solved in LABELLED
]
conversations = [
    ConversationalTestCase(
        turns=[
            Turn(role="user", content=question),
            Turn(role="assistant", content="Done.", tools_called=[ToolCall(name=tool)]),
        ],
        available_tools=TOOLS,
        metadata={"solved": solved},
    )
    for question, _, tool, solved in LABELLED
]

with FakeOpenAI(answer=answer) as server, tempfile.TemporaryDirectory() as folder:
    model = OpenAIJudge("weak-model", base_url=server.base_url)
    judge = Judge(model, cache=Path(folder) / "verdicts.sqlite")
    metrics = [ToolCorrectnessMetric(), ToolCorrectnessMetric(judge=judge)]
    for attempt in ("first", "second"):
        before = len(server.requests)
        selection = validate(cases, metrics, label="metadata.solved", show_progress=False)
        use = validate(conversations, [ToolUseMetric(judge=judge)], label="metadata.solved", show_progress=False)
        print(f"{attempt} measurement: {len(server.requests) - before} questions asked")

print()
print(selection)
print()
print(use)
