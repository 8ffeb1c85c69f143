"""Calls that the provider runs itself, and token counts, in the raw replies of providers' models."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from li_agents import Played, ScriptedLLM, agent, asks, outcome, play, played, search
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from toolgrade.cases import Run
from toolgrade.testing import ScriptedModel, Step
from toolgrade_llama_index import record


class ProviderLLM(ScriptedLLM):
    """A model whose answers carry the raw replies of a provider: a reply, or the events of its stream."""

    raws: Any
    built_in_tools: Any = None

    def _next(self) -> tuple[Step, ChatResponse]:
        step, response = super()._next()
        raw = self.raws[self.script.used - 1]
        response.raw = raw[-1] if isinstance(raw, list) else raw
        return step, response

    def _pieces(self, step: Step, whole: ChatResponse) -> Generator[ChatResponse, None, None]:
        raw = self.raws[self.script.used - 1]
        for event in raw[:-1] if isinstance(raw, list) else ():
            yield ChatResponse(message=ChatMessage(content=""), delta="", raw=event)
        yield from super()._pieces(step, whole)


# Replies as `llama-index-llms-openai` and `llama-index-llms-anthropic` pass them on, without fields that do not matter.

LOOKUP: dict[str, Any] = {
    "type": "function_call",
    "id": "fc1",
    "call_id": "c1",
    "name": "search",
    "arguments": '{"q": "x"}',
}
SAYS = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done", "annotations": []}]}
WEB = {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"type": "search", "query": "rain"}}
REPO = {
    "type": "mcp_call",
    "id": "m1",
    "status": "completed",
    "name": "stars",
    "server_label": "repo",
    "arguments": '{"of": "a"}',
    "output": "7",
}
CODE = {"type": "code_interpreter_call", "id": "p1", "status": "failed", "code": "1/0", "outputs": None}
FIND_TOOLS = {"type": "tool_search_call", "id": "t1", "status": "completed", "arguments": {"q": "x"}}

USE = {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}}
FETCH = {"type": "server_tool_use", "id": "s1", "name": "web_fetch", "input": {"url": "u"}}
FETCHED = {"type": "web_fetch_tool_result", "tool_use_id": "s1", "content": [{"type": "text", "text": "page"}]}
REFUSED = {
    "type": "web_fetch_tool_result",
    "tool_use_id": "s1",
    "content": {"type": "web_fetch_tool_result_error", "error_code": "url_not_allowed"},
}
TOOL_SEARCH = {"type": "server_tool_use", "id": "s0", "name": "tool_search_tool_bm25", "input": {"query": "x"}}
TOOLS_FOUND = {"type": "tool_search_tool_result", "tool_use_id": "s0", "content": {"tool_references": []}}


def response(*items: Any) -> dict[str, Any]:
    """A reply of OpenAI's Responses."""
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    return {"object": "response", "model": "gpt", "output": list(items), "usage": usage}


def message(*blocks: dict[str, Any]) -> dict[str, Any]:
    """A reply of Anthropic."""
    usage = {"input_tokens": 5, "output_tokens": 2}
    return {"type": "message", "role": "assistant", "model": "claude", "content": list(blocks), "usage": usage}


def completed(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """A stream of OpenAI's Responses: its last event has the reply."""
    return [{"type": "response.created", "response": {}}, {"type": "response.completed", "response": reply}]


def pieces(*indexes: int) -> list[dict[str, Any]]:
    """A stream of Anthropic, with the arguments of the calls at these places."""
    deltas = [
        {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta"}} for index in indexes
    ]
    usage = {"input_tokens": 5, "output_tokens": 2}
    return [{"type": "content_block_stop", "index": 0}, *deltas, *deltas, {"type": "message_delta", "usage": usage}]


SEARCHED = ("search", "function", 0, "found x")
WEB_CALL = ("web_search", "hosted", 0, None)
FETCHED_CALL = ("web_fetch", "hosted", 0, "page")

SCENARIOS: dict[str, tuple[list[Any], list[Any], int]] = {
    "around a call of the agent": (
        [response(WEB, LOOKUP, REPO), response(SAYS)],
        [WEB_CALL, SEARCHED, ("stars", "mcp", 0, "7")],
        0,
    ),
    "beside the answer, one failed": (
        [response(LOOKUP), response(WEB, CODE, SAYS)],
        [SEARCHED, ("web_search", "hosted", 1, None), ("code_interpreter", "hosted", 1, "! status: failed")],
        0,
    ),
    "streamed": ([completed(response(WEB, LOOKUP)), completed(response(SAYS))], [WEB_CALL, SEARCHED], 0),
    "a search for tools": ([response(FIND_TOOLS, LOOKUP), response(SAYS)], [SEARCHED], 0),
    "no calls by the provider": ([response(LOOKUP), completed(response(SAYS))], [SEARCHED], 0),
    "Anthropic": ([message(FETCH, FETCHED, USE), message()], [FETCHED_CALL, SEARCHED], 0),
    "Anthropic, failed": (
        [message(USE, FETCH, REFUSED), message()],
        [SEARCHED, ("web_fetch", "hosted", 0, "! url_not_allowed")],
        0,
    ),
    "Anthropic, a search for tools": ([message(TOOL_SEARCH, TOOLS_FOUND, USE), message()], [SEARCHED], 0),
    "Anthropic, streamed": ([pieces(1, 3), pieces()], [SEARCHED], 1),
    "Anthropic, streamed without": ([pieces(1), pieces()], [SEARCHED], 0),
    "an unreadable reply": ([response(WEB, 3, LOOKUP), response(SAYS)], [SEARCHED], 1),
    "a reply of another kind": ([{"output": {"message": {}}}, {"content": [{"text": "done"}]}], [SEARCHED], 0),
}


class Loop(Workflow):
    """A workflow of the user's own that asks a model and runs its tools."""

    model: Any
    streams: bool

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        """Ask until there is an answer."""
        tool, chat = FunctionTool.from_defaults(search), [ChatMessage(content=ev.user_msg)]
        while True:
            if self.streams:
                stream = await self.model.astream_chat_with_tools([tool], chat_history=chat)
                answer = [piece async for piece in stream][-1]
            else:
                answer = await self.model.achat_with_tools([tool], chat_history=chat)
            calls = self.model.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
            if not calls:
                return StopEvent(result=answer.message.content)
            chat += [ChatMessage(content=str(await tool.acall(**call.tool_kwargs))) for call in calls]


def playing(raws: list[Any], way: str) -> Run:
    """The run of an agent or a workflow with these replies; each model calls `search` and then answers."""
    model = ProviderLLM(script=ScriptedModel(asks(("search", {"q": "x"}, "c1")), "done"), raws=raws)
    streams = any(isinstance(raw, list) for raw in raws)
    if way != "workflow":
        return played(lambda: agent(llm=model, tools=[search], streaming=streams)).run(way)

    async def go() -> Played:
        workflow = Loop()
        workflow.model, workflow.streams = model, streams
        return await play(workflow)

    return asyncio.run(go()).run("C")


@pytest.mark.parametrize("way", ["C", "E", "workflow"])
@pytest.mark.parametrize("scenario_id", SCENARIOS)
def test_calls_by_the_provider(scenario_id: str, way: str) -> None:
    """They stand among the calls of the agent, in the model's order; if LlamaIndex hides them, a warning says so."""
    raws, expected, warnings = SCENARIOS[scenario_id]

    run = playing(raws, way)

    calls = [(call.name, call.type and call.type.value, call.execution.step, outcome(call)) for call in run.calls]  # type: ignore[union-attr]
    if way == "E":  # which does not show who runs the agent's tools
        calls = [(name, kind or "function", step, result) for name, kind, step, result in calls]
    assert calls == expected
    assert (len(run.warnings), run.status.value, run.actual_output) == (warnings, "ok", "done")


@pytest.mark.parametrize("raws", [[response(LOOKUP), completed(response(SAYS))], [pieces(1), pieces()]])
def test_usage_of_streams(raws: list[Any]) -> None:
    """The tokens of a streamed answer count, also where its last event has them in the reply."""
    usage = playing(raws, "C").usage or {}

    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 4)


def test_answer_of_a_block() -> None:
    """A text beside calls that the provider ran is an answer, in a loop without a workflow too."""
    model = ProviderLLM(script=ScriptedModel("sunny"), raws=[response(WEB, SAYS)])

    with record() as rec, rec.single_run("weather?"):
        model.chat_with_tools([FunctionTool.from_defaults(search)], user_msg="weather?")

    assert rec.last_run.actual_output == "sunny"
    assert [call.name for call in rec.last_run.tools_called] == ["web_search"]


def test_tools_of_the_provider_are_offered() -> None:
    """A model can choose from its provider's tools too; of one that only the program can run, the call was not run."""
    screen = {
        "type": "computer_call",
        "id": "i1",
        "call_id": "c2",
        "action": {"type": "screenshot"},
        "status": "completed",
    }
    model = ProviderLLM(
        script=ScriptedModel(asks(("search", {"q": "x"}, "c1")), "done"),
        raws=[response(LOOKUP), response(screen)],
        built_in_tools=[{"type": "web_search_preview"}, {"type": "computer_use_preview"}, {"type": "mcp"}],
    )

    run = played(lambda: agent(llm=model, tools=[search])).run("C")

    offered = {spec.name: spec.type and spec.type.value for spec in run.available_tools or ()}
    assert offered == {"search": None, "web_search": "hosted", "computer_use_preview": "function"}
    assert [(call.name, outcome(call)) for call in run.calls] == [
        ("search", "found x"),
        ("computer_use_preview", "not_executed"),
    ]
