"""Replies of models in traces that the reader of messages knows, too: what it makes of them, traces give as well."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spans import agent, chat, hidden, run_of, span, spans, tool
from toolgrade.cases import Run
from toolgrade.formats import read, read_traces

Plain = dict[str, Any]
ASKED: Plain = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "How deep?"}
QUESTION: Plain = {"role": "user", "content": "How deep?"}


def openinference(reply: object, **more: Any) -> Run:
    """A run of one model span of OpenInference."""
    marks: Plain = {
        "openinference.span.kind": "LLM",
        "output.value": reply if isinstance(reply, str) else json.dumps(reply),
    }
    return run_of(spans(span(1, **marks, **ASKED, **more)))


def langfuse(reply: object) -> Run:
    """A run of one generation of Langfuse."""
    generation: Plain = {"id": "g", "traceId": "t", "type": "GENERATION", "input": [QUESTION], "output": reply}
    return run_of({"id": "t", "observations": [generation]})


def essence(run: Run) -> object:
    """What a trace and messages have in common."""
    calls = [
        (
            call.name,
            call.arguments,
            call.output,
            call.type,
            call.execution and (call.execution.status, call.execution.executed),
        )
        for call in run.calls
    ]
    return calls, run.actual_output


def candidate(*parts: Plain, **more: Any) -> Plain:
    """A response of Gemini."""
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **more}]}


def response(*items: Plain) -> Plain:
    """A response of OpenAI's Responses API."""
    return {"object": "response", "status": "completed", "output": list(items)}


def choice(**message: Any) -> Plain:
    """A response of OpenAI's Chat Completions API."""
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}]}


CODE: Plain = {"executableCode": {"language": "PYTHON", "code": "print(9)"}}
PRINTED: Plain = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "9\n"}}
MAP: Plain = {"toolCall": {"toolType": "GOOGLE_MAPS", "args": {"near": "Bonn"}, "id": "m"}}
PLACE: Plain = {"toolResponse": {"toolType": "GOOGLE_MAPS", "response": {"places": 2}, "id": "m"}}
MEASURE: Plain = {"function_call": {"name": "measure", "args": {"at": "pier"}}}
MEASURED: Plain = {"function_response": {"name": "measure", "response": {"metres": 4}}}
GROUND: Plain = {"toolUse": {"toolUseId": "n", "name": "nova", "input": {"q": "x"}, "type": "server_tool_use"}}
GROUNDED: Plain = {"toolResult": {"toolUseId": "n", "type": "nova_result", "content": [{"json": {"hits": 1}}]}}
AUTOMATIC: Plain = {
    **candidate({"text": "Four metres."}),
    "automatic_function_calling_history": [
        {"role": "user", "parts": [{"text": "How deep?"}]},
        {"role": "model", "parts": [MEASURE]},
        {"role": "user", "parts": [MEASURED]},
    ],
}
SAID = {"text": "So it is."}
WORDS: Plain = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wiped."}]}
REPLIES: dict[str, Plain] = {
    "automatic calls": AUTOMATIC,
    "automatic call that failed": {
        **AUTOMATIC,
        "automatic_function_calling_history": [
            *AUTOMATIC["automatic_function_calling_history"][:2],
            {"role": "user", "parts": [{"function_response": {"name": "measure", "response": {"error": "no pier"}}}]},
        ],
    },
    "thought": candidate({"text": "Hm.", "thought": True}, SAID),
    "code": candidate({"text": "I compute."}, CODE, PRINTED, SAID),
    "tool of Google": candidate(MAP, PLACE, SAID),
    "tool of Bedrock": {
        "output": {"message": {"role": "assistant", "content": [GROUND, GROUNDED, SAID]}},
        "stopReason": "end_turn",
    },
    "refusal": choice(content=None, refusal="I must not."),
    "refusal beside an empty text": choice(content="", refusal="I must not."),
    "refusal among parts": response(
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I must not."}]}
    ),
    "no parts": candidate(finishReason="STOP"),
    "reasoning": response({"type": "reasoning", "id": "r", "summary": []}),
    "no content": choice(content=None),
    "no blocks": {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"},
    "request for approval": response(
        {"type": "mcp_approval_request", "id": "a", "name": "wipe", "arguments": '{"all": true}', "server_label": "s"}
    ),
    "lost call": {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "call:measure{"}]},
}


SAID_TOO: Plain = {"type": "text", "content": "I measure."}
ASKS: Plain = {"type": "tool_call", "id": "c", "name": "measure", "arguments": {}}


@pytest.mark.parametrize("reader", [openinference, langfuse])
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_reply_is_read_as_among_messages(reader: Any, reply: Plain) -> None:
    """The calls, their outcomes and the answer; what was captured is not reported as missing."""
    run = reader(reply)

    assert essence(run) == essence(read(reply).run)
    assert run.warnings == [] or "finishMessage" in str(reply)


@pytest.mark.parametrize(("parts", "names"), [([SAID_TOO], ["(unnamed)"]), ([SAID_TOO, ASKS], ["measure"])])
def test_a_message_may_say_that_a_call_was_lost(parts: list[Plain], names: list[str]) -> None:
    """Beside its text; not if it shows a call."""
    message: Plain = {"role": "assistant", "parts": parts, "finish_reason": "MALFORMED_FUNCTION_CALL"}

    run = run_of(spans(hidden(1, **{"gen_ai.output.messages": json.dumps([message])})))

    assert ([call.name for call in run.calls], run.actual_output) == (names, None)


def test_the_reason_for_a_lost_call_alone_is_reported() -> None:
    """As the content was not captured."""
    run = run_of(spans(hidden(1, **{"gen_ai.response.finish_reasons": ["MALFORMED_FUNCTION_CALL"]})))

    (warning,) = run.warnings
    assert warning.endswith("the model stopped to call tools, but the trace does not show the calls")


def test_a_request_for_approval_waits_until_it_is_answered() -> None:
    """The call that was allowed takes its place."""
    reply = REPLIES["request for approval"]
    (asked,) = reply["output"]
    allowed = {**asked, "type": "mcp_call", "id": "b", "approval_request_id": "a", "output": "gone"}
    marks: Plain = {"openinference.span.kind": "LLM"}
    first = span(2, 1, **marks, **ASKED, **{"output.value": json.dumps(reply)})
    second = span(3, 1, **marks, **ASKED, **{"output.value": json.dumps(response(allowed, WORDS))})

    waiting, done = run_of(spans(agent(1), first)), run_of(spans(agent(1), first, second))

    assert [waiting.status.value, *(call.execution.status.value for call in waiting.calls if call.execution)] == [
        "interrupted",
        "pending",
    ]
    assert (done.status.value, [(call.id, call.output) for call in done.calls]) == ("ok", [("b", "gone")])


def test_a_response_without_items_says_nothing() -> None:
    """Messages refuse it; in a trace the model ran."""
    for run in (openinference(response()), langfuse(response())):
        assert (essence(run), run.warnings) == (([], None), [])


@pytest.mark.parametrize(
    ("reply", "indexed"),
    [
        (AUTOMATIC, {"content": "Four metres."}),
        (REPLIES["code"], {"contents.0.message_content.text": "I compute.So it is."}),
        (
            {"role": "assistant", "content": [GROUND, GROUNDED, SAID]},
            {"tool_calls.0.tool_call.id": "n", "tool_calls.0.tool_call.function.name": "nova"},
        ),
    ],
)
def test_a_response_shows_more_than_indexed_messages(reply: Plain, indexed: Plain) -> None:
    """They lack calls, or who ran them."""
    message: Plain = {f"llm.output_messages.0.message.{key}": value for key, value in indexed.items()}

    run = openinference(reply, **message, **{"llm.output_messages.0.message.role": "assistant"})

    assert essence(run) == essence(read(reply).run)


@pytest.mark.parametrize("text", ['{"candidates": [{"name": "Ann"}]}', '{"output": [1]}'])
def test_json_of_the_model_is_its_answer(text: str) -> None:
    """It only shares a key with responses."""
    assert openinference(text).actual_output == text


CALLS = "tool_calls=[{'name': 'measure', 'args': {'at': 'pier'}, 'id': 'c', 'type': 'tool_call'}]"
STOP = "<FinishReason.STOP: 'STOP'>"
GEMINI = "Part(function_call=FunctionCall(args={'at': 'pier'}, name='measure'))"


@pytest.mark.parametrize(
    "printed",
    [
        f"AIMessage(content='I look.', additional_kwargs={{}}, {CALLS})",
        f"GenerateContentResponse(candidates=[Candidate(content=Content(parts=[{GEMINI}]), finish_reason={STOP})])",
        f"[{GEMINI}]",
    ],
)
def test_calls_of_printed_replies_are_calls(printed: str) -> None:
    """Of LangChain and google-genai."""
    for run in (openinference(printed), run_of(spans(hidden(1, **{"gen_ai.completion.0.content": printed})))):
        assert [(call.name, call.arguments) for call in run.calls] == [("measure", {"at": "pier"})]
        assert (run.actual_output, run.warnings) == (None, [])


@pytest.mark.parametrize(
    ("printed", "answer"),
    [
        ("[Part(text='Deep.')]", "Deep."),
        ("AgentFinish(return_values={'output': 'x'}, log='')", None),
        ("[Part(a=b)]", None),
    ],
)
def test_a_printed_reply_is_never_the_answer(printed: str, answer: str | None) -> None:
    """Its text is, or there is one warning."""
    run = openinference(printed)

    assert (run.actual_output, len(run.warnings)) == (answer, int(answer is None))


@pytest.mark.parametrize("place", ["root", "trace"])
def test_a_graph_in_langfuse_says_that_it_waits(place: str) -> None:
    """In the output of its observation, or of the trace."""
    asks = {"__interrupt__": [{"value": "Sure?"}]}
    root: Plain = {"id": "r", "type": "CHAIN", "name": "graph", "output": json.dumps(asks) if place == "root" else None}
    call = {"id": "c", "type": "function", "function": {"name": "wipe", "arguments": "{}"}}
    model: Plain = {"id": "g", "parentObservationId": "r", "type": "GENERATION", "input": [QUESTION]}
    model["output"] = {"role": "assistant", "content": None, "tool_calls": [call]}

    run = run_of({"id": "t", "observations": [root, model], "output": asks if place == "trace" else None})

    assert run.status.value == "interrupted"
    assert [call.execution.status.value for call in run.calls if call.execution] == ["pending"]


def adk_trace(number: int, trace: str, result: Plain) -> list[Plain]:
    """Spans of Google's kit: the tool of the call that a person has to confirm."""
    names: Plain = {"gen_ai.tool.call.id": "adk-1", "gen_ai.conversation.id": "s"}
    return [tool(number, None, "wipe", trace=trace, **names, **{"gcp.vertex.agent.tool_response": json.dumps(result)})]


@pytest.mark.parametrize("call_id", ["adk-1", "wipe_0"])
def test_a_tool_of_googles_kit_waits_for_a_confirmation(call_id: str) -> None:
    """The run goes on in the next trace of the session, whichever id the messages have."""
    asks = {"error": "This tool call requires confirmation, please approve or reject."}
    session: Plain = {"gen_ai.conversation.id": "s"}
    request = {"id": call_id, "name": "wipe", "arguments": {"all": True}}
    first = [chat(1, None, request, trace="a" * 32, **session), *adk_trace(2, "a" * 32, asks)]
    history = [{"role": "user", "content": "Wipe."}, {"role": "assistant", "tool_calls": [request]}]
    asked_again = chat(13, None, trace="b" * 32, **session, **{"gen_ai.input.messages": json.dumps(history)})

    waiting = run_of(spans(*first))
    (done,) = read_traces(spans(*first, *adk_trace(12, "b" * 32, {"result": "gone"}), asked_again)).runs

    for run, status, of_call in ((waiting, "interrupted", "pending"), (done, "ok", "ok")):
        assert run.status.value == status
        assert [call.execution.status.value for call in run.calls if call.execution] == [of_call]
    assert done.actual_output == "Done."


@pytest.mark.parametrize(("text", "value"), [("null", None), ("[]", []), ("nothing", "nothing")])
def test_the_result_of_a_tool_may_be_null(text: str, value: object) -> None:
    """It returned nothing."""
    (call,) = run_of(
        spans(chat(1, None, {"id": "c", "name": "add"}), tool(2, 1, **{"gen_ai.tool.call.result": text}))
    ).calls

    assert (call.output, call.execution and call.execution.status.value) == (value, "ok")
