"""Runs over HTTP: the SDK's own models, OpenAI's client, and what they make of an endpoint's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI

from toolgrade import CallStatus, Run, RunStatus, ToolCall, ToolCallType
from toolgrade.testing import AskFor, FakeOpenAI, ReceivedRequest, Reply, Step
from toolgrade.testing.fake_openai.replies import ReplyLike
from toolgrade.testing.tool_doubles import ADD, BOOM
from toolgrade_openai_agents import record

BOTH = pytest.mark.parametrize("api", [OpenAIResponsesModel, OpenAIChatCompletionsModel], ids=["responses", "chat"])
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])

WEB_SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "weather", "sources": [{"type": "url", "url": "https://a"}]},
}


@dataclass(frozen=True)
class Played:
    """The outcome of a script.

    Attributes:
        run: What was recorded.
        answer: What the caller got.
        error: What it had to catch instead.
        requests: What the endpoint was asked.
    """

    run: Run
    answer: Any
    error: Exception | None
    requests: Sequence[ReceivedRequest]


def play(api: Any, *steps: ReplyLike, streamed: bool = False) -> Played:
    """Run an agent that has two tools on a model of the SDK, against an endpoint that plays a script."""

    async def main(server: FakeOpenAI) -> Played:
        async with AsyncOpenAI(base_url=server.base_url, api_key="sk-made-up", max_retries=0) as client:
            tools: list[Any] = [
                function_tool(name_override=double.name, strict_mode=False)(double.coroutine) for double in (ADD, BOOM)
            ]
            settings = ModelSettings(include_usage=True)
            agent = Agent(name="A", model=api("m", client), tools=tools, model_settings=settings)
            answer, error = None, None
            with record() as recorder:
                try:
                    if streamed:
                        result: Any = Runner.run_streamed(agent, "hi")
                        async for _ in result.stream_events():
                            pass
                    else:
                        result = await Runner.run(agent, "hi")
                    answer = result.final_output
                except Exception as caught:  # noqa: BLE001 - whatever ends the run is looked at
                    error = caught
        assert server.errors == ()
        return Played(recorder.last_run, answer, error, server.requests)

    with FakeOpenAI(*steps) as server:
        return asyncio.run(main(server))


def summaries(calls: Sequence[ToolCall]) -> list[tuple[Any, ...]]:
    """Of each call its name, id, arguments, output, and what became of it."""
    return [
        (call.name, call.id, call.input_parameters, call.output, call.execution and call.execution.status)
        for call in calls
    ]


@BOTH
@STREAMED
def test_parallel_calls_and_a_later_one(api: Any, *, streamed: bool) -> None:
    """Calls keep the model's order, their ids and their steps; a call that fails is one of them."""
    requests = (AskFor("add", {"a": 1, "b": 2}, "c1"), AskFor("boom", {"x": 7}, "c2"), AskFor("add", {"a": 5}, "c3"))
    script = [Step("Let me see.", requests), [AskFor("add", {"a": 9}, "c4")], Reply("It is 3.", usage=(10, 5))]
    played = play(api, *script, streamed=streamed)

    assert summaries(played.run.tools_called) == [
        ("add", "c1", {"a": 1, "b": 2}, 3, CallStatus.OK),
        ("boom", "c2", {"x": 7}, None, CallStatus.ERROR),
        ("add", "c3", {"a": 5}, 7, CallStatus.OK),
        ("add", "c4", {"a": 9}, 11, CallStatus.OK),
    ]
    assert [call.execution.step for call in played.run.tools_called if call.execution] == [0, 0, 0, 1]
    assert (played.run.input, played.run.actual_output, played.run.status) == ("hi", "It is 3.", RunStatus.OK)
    assert played.answer == "It is 3."
    assert [tool.name for tool in played.run.available_tools or ()] == ["add", "boom"]
    assert played.run.warnings == []


@BOTH
@STREAMED
def test_endpoint_received_what_the_run_records(api: Any, *, streamed: bool) -> None:
    """The record matches the HTTP requests: offered tools and results for the model."""
    played = play(api, [AskFor("add", {"a": 1}, "c1")], "It is 3.", streamed=streamed)

    first, second = [request.body for request in played.requests]
    offered = [tool.get("function", tool) for tool in first["tools"]]
    assert [tool["name"] for tool in offered] == [tool.name for tool in played.run.available_tools or ()]
    [answer] = [
        item for item in second.get("input", second.get("messages")) if "3" in (item.get("output"), item.get("content"))
    ]
    assert answer.get("call_id", answer.get("tool_call_id")) == played.run.tools_called[0].id


@BOTH
@STREAMED
def test_tokens_of_all_turns_are_added_up(api: Any, *, streamed: bool) -> None:
    """The usage of a run is the sum of the reported usage, and its model is the requested one."""
    played = play(
        api,
        Reply(calls=[AskFor("add", {"a": 1}, "c1")], usage=(10, 5)),
        Reply("It is 3.", usage=(200, 70)),
        streamed=streamed,
    )

    assert played.run.usage == {"input_tokens": 210, "output_tokens": 75, "total_tokens": 285}
    assert played.run.models == ["m"]


@STREAMED
def test_a_search_of_the_provider(*, streamed: bool) -> None:
    """A hosted search stands among the calls where the model put it, with its query, and as run by the provider."""
    called = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    message["content"] = [{"type": "output_text", "text": "Sunny.", "annotations": []}]
    script = [Reply(output=[WEB_SEARCH, called]), Reply(output=[message])]
    played = play(OpenAIResponsesModel, *script, streamed=streamed)

    search, add = played.run.tools_called
    assert (search.name, search.id, search.type) == ("web_search", "ws_1", ToolCallType.HOSTED)
    assert search.input_parameters is not None
    assert search.input_parameters["query"] == "weather"
    assert (add.name, add.output) == ("add", 3)
    assert played.run.actual_output == "Sunny."


@BOTH
@STREAMED
def test_a_refusal(api: Any, *, streamed: bool) -> None:
    """A refusal ends the run with an error, on old versions with an empty answer; the calls are kept."""
    played = play(api, [AskFor("add", {"a": 1}, "c1")], Reply(refusal="I cannot."), streamed=streamed)

    assert summaries(played.run.tools_called) == [("add", "c1", {"a": 1}, 3, CallStatus.OK)]
    if played.error is None:
        assert (played.run.status, played.run.actual_output, played.answer) == (RunStatus.OK, "", "")
    else:
        error = "ModelRefusalError: Model refused to produce output: I cannot."
        assert (played.run.status, played.run.actual_output, played.run.error) == (RunStatus.ERROR, None, error)


@BOTH
@STREAMED
def test_long_arguments_in_any_script_arrive_whole(api: Any, *, streamed: bool) -> None:
    """Arguments that come in many pieces are recorded as the model wrote them, also of a tool that is not there."""
    words = {"a": 1, "note": "Grüße, 世界, 👋 " * 20}
    played = play(api, [AskFor("nope", words, "c1")], streamed=streamed)

    assert summaries(played.run.tools_called) == [("nope", "c1", words, None, CallStatus.UNKNOWN_TOOL)]
