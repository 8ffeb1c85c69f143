"""A refund conversation with a simulated user in ten trials, offline: an endpoint plays both models.

The agent is a loop around a chat model with one tool. The user has a goal and facts, and its texts are checked against
them. In three of the trials the agent's model refunds another order, which pass^k shows. With a key of OpenAI, leave
`base_url` out and take real models.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from openai import OpenAI

from toolgrade import Golden, Run, SimulatedUser, ToolCall, ToolCorrectnessMetric, evaluate, run_from_messages
from toolgrade.agents import Conversation
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import AskFor, FakeOpenAI
from toolgrade.testing.fake_openai.http import ReceivedRequest

TOOL = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}
GOLDEN = Golden(
    id="refund",
    user=SimulatedUser(
        goal="get a refund for an order",
        facts={"order": "4711", "reason": "the screen is broken"},
        stop="the agent has confirmed the refund",
    ),
    expected_tools=[ToolCall(name="refund", input_parameters={"order": "4711"})],
)


def shop_agent(client: OpenAI) -> Any:  # noqa: ANN401 - a function
    """Return an agent with a model of this client."""

    def agent(text: str, conversation: Conversation) -> Run:
        history = conversation.memory.setdefault("history", [])
        start = len(history)
        history.append({"role": "user", "content": text})
        while True:
            reply = client.chat.completions.create(model="agent", messages=history, tools=[TOOL])
            message = reply.choices[0].message
            history.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return run_from_messages(history[start:])
            for call in message.tool_calls:
                order = json.loads(call.function.arguments)["order"]
                history.append({"role": "tool", "tool_call_id": call.id, "content": f"refunded order {order}"})

    return agent


def models() -> Any:  # noqa: ANN401 - a function
    """Return a function that plays the models of the agent and of the user."""
    refunds = count(1)

    def play(request: ReceivedRequest) -> Any:  # noqa: ANN401 - a step
        messages = request.body["messages"]
        said = str(messages[-1]["content"])
        if request.model == "user":
            return (
                "[stop]" if "refunded" in said else "It is order 4711." if "Which order" in said else "I want a refund."
            )
        if messages[-1]["role"] == "tool":
            return f"Done: {said}."
        if "order 4711" not in said:
            return "Which order is it?"
        return [AskFor("refund", {"order": "4712" if next(refunds) in {3, 6, 9} else "4711"})]

    return play


def main() -> None:
    """Ask in ten trials, and print how reliable the agent is."""
    with FakeOpenAI(answer=models()) as server, OpenAI(base_url=server.base_url, api_key="none") as client:
        report = evaluate(
            goldens=[GOLDEN],
            agent=shop_agent(client),
            metrics=[ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=1)],
            user_model=OpenAIJudge("user", base_url=server.base_url),
            trials=10,
            max_concurrency=1,
            show_progress=False,
        )
    for turn in report.cases[0].case.turns:  # type: ignore[union-attr]
        print(f"{turn.role}: {turn.content}", *(call.name for call in turn.tools_called or []))
    (summary,) = report.trial_summaries
    print({k: round(chance, 3) for k, chance in summary.pass_hat.items()})
    print(report.verdict.sentence)


if __name__ == "__main__":
    main()
