"""Runs that were not recorded: read from their messages or from the state of their graph."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from lc_agents import ScriptedModel, add, asks, called, make_agent, memory, react_agent, scripted, summaries, thread
from lc_versions import FEATURES, scenario
from pydantic import BaseModel

from toolgrade.errors import InvalidDataError
from toolgrade_langchain import ToolCallRecorder, run_from_messages, run_from_state

TURN = [
    SystemMessage("be kind"),
    HumanMessage("1+2?"),
    asks(("add", {"a": 1}, "c1"), ("add", {"a": 5}, "c2")),
    ToolMessage("7", tool_call_id="c2"),
    ToolMessage("3", tool_call_id="c1"),
    AIMessage("three", usage_metadata={"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}),
]
CALLS = [
    called("add", {"a": 1}, "c1", "3", executed=False),
    called("add", {"a": 5}, "c2", "7", executed=False),
]


def test_messages_are_a_run() -> None:
    """Calls keep the model's order, carry their results and name the message they were read from."""
    run = run_from_messages(TURN, available_tools=[{"name": "add"}], conversation_id="s", run_id="r")

    assert summaries(run.calls) == CALLS
    assert [call.execution.source for call in run.calls] == ["messages[2].tool_calls[0]", "messages[2].tool_calls[1]"]
    assert (run.input, run.actual_output, run.status.value, run.instructions) == ("1+2?", "three", "ok", "be kind")
    assert [offered.name for offered in run.available_tools or ()] == ["add"]
    assert run.usage == {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    assert (run.conversation_id, run.run_id) == ("s", "r")


def test_only_the_last_turn_is_the_run() -> None:
    """What was called for an earlier question belongs to another run."""
    run = run_from_messages([*TURN, HumanMessage("and now?"), AIMessage("nothing")])

    assert (run.input, run.calls, run.actual_output) == ("and now?", [], "nothing")


def test_messages_as_objects_and_pairs() -> None:
    """Messages may come in every form that LangChain takes."""
    call = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    messages = [
        ("user", "hi"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "3", "tool_call_id": "c1"},
        ("assistant", "three"),
    ]

    run = run_from_messages(messages)

    assert summaries(run.calls) == CALLS[:1]
    assert (run.input, run.actual_output) == ("hi", "three")


def test_every_invalid_message_is_reported() -> None:
    """All problems of a list are reported at once, with their paths."""
    with pytest.raises(InvalidDataError) as caught:
        run_from_messages([("user", "hi"), 7, {"content": "no role"}])

    assert [problem.path for problem in caught.value.problems] == ["$.messages[1]", "$.messages[2]"]


def test_failed_unknown_and_unanswered_calls() -> None:
    """Failures, unknown tools, unreadable arguments and missing answers are read from the messages."""
    request = asks(
        ("slow", {}, "c1"), ("nope", {}, "c2"), ("slow", {"x": 1}, "c3"), invalid=[("slow", "{x", "c4", "bad json")]
    )
    run = run_from_messages(
        [
            HumanMessage("q"),
            request,
            ToolMessage("x is missing", tool_call_id="c1", status="error"),
            ToolMessage("Error: nope is not a valid tool, try one of [slow].", tool_call_id="c2", status="error"),
        ]
    )

    assert [call.execution.status.value for call in run.calls] == [
        "error",
        "unknown_tool",
        "not_executed",
        "invalid_arguments",
    ]
    assert [call.output for call in run.calls] == [None] * 4
    assert (run.status.value, run.actual_output) == ("stopped", None)


def test_refused_calls() -> None:
    """The words of LangChain's middleware show that a call was refused and did not fail."""
    texts = [
        "User rejected the tool call for `slow` with reason: no!",
        "Tool call limit exceeded. Do not call 'slow' again.",
    ]
    answers = [ToolMessage(text, tool_call_id=f"c{index}", status="error") for index, text in enumerate(texts)]
    request = asks(("slow", {"x": 1}, "c0"), ("slow", {"x": 2}, "c1"))

    run = run_from_messages([HumanMessage("q"), request, *answers])

    assert [call.execution.status.value for call in run.calls] == ["rejected", "rejected"]


def test_result_without_request_is_a_warning() -> None:
    """A tool message without its request is not dropped silently."""
    run = run_from_messages([HumanMessage("q"), ToolMessage("3", tool_call_id="c9"), AIMessage("done")])

    assert run.warnings == ["$.messages[1]: answers no open call before it (id 'c9'); it was left out"]


def test_no_messages() -> None:
    """An empty list is a run without calls or output."""
    run = run_from_messages([])

    assert (run.input, run.calls, run.status.value) == (None, [], "stopped")


def test_a_state_is_a_run() -> None:
    """The state of a graph gives the calls that a recorder would have seen, and its thread."""
    turns = {"one": [asks(("add", {"a": 1}, "c1")), "three"], "two": [asks(("add", {"a": 2}, "c1")), "four"]}
    agent = make_agent(ScriptedModel(script=turns), [add], checkpointer=memory())
    recorder = ToolCallRecorder()
    for question in turns:
        agent.invoke({"messages": [("user", question)]}, thread("T", recorder))

    run = run_from_state(agent.get_state(thread("T")))

    expected = called("add", {"a": 2}, "c1", "4")
    assert summaries(recorder.run.calls) == [expected]
    assert summaries(run.calls) == [{**expected, "executed": False}]
    assert (run.input, run.actual_output, run.status.value, run.conversation_id) == ("two", "four", "ok", "T")


def test_the_state_of_a_graph_that_waits() -> None:
    """A state with steps to come is a run that was interrupted; its calls are pending."""
    agent = react_agent(
        scripted(asks(("add", {"a": 1}, "c1")), "final"), [add], checkpointer=memory(), interrupt_before=["tools"]
    )
    agent.invoke({"messages": [("user", "hi")]}, thread("T"))

    run = run_from_state(agent.get_state(thread("T")))

    assert [call.execution.status.value for call in run.calls] == ["pending"]
    assert (run.status.value, run.actual_output) == ("interrupted", None)


def test_the_values_of_a_state() -> None:
    """What `invoke` returned is enough; a result that a tool returned directly is the answer."""
    values: dict[str, Any] = {
        "messages": [HumanMessage("q"), asks(("add", {"a": 1}, "c1")), ToolMessage("3", tool_call_id="c1")]
    }

    run = run_from_state(values)

    assert (run.actual_output, run.status.value) == ("3", "ok")


class Ans(BaseModel):
    """A structured answer."""

    value: int


@scenario("state", needs="tool_strategy")
def test_the_structured_output_of_a_state() -> None:
    """The pseudo-tool of structured output is not a call when a state is read either."""
    from langchain.agents.structured_output import ToolStrategy

    script = [asks(("add", {"a": 1}, "c1")), asks(("Ans", {"value": 3}, "c2"))]
    agent = make_agent(scripted(*script), [add], response_format=ToolStrategy(Ans))

    run = run_from_state(agent.invoke({"messages": [("user", "hi")]}))

    assert summaries(run.calls) == CALLS[:1]
    assert run.actual_output == '{"value":3}'


REFUSED = {
    "text": asks(("Ans", {"value": "much"}, "c1")),
    "two": asks(("Ans", {"value": 1}, "c1"), ("Ans", {"value": 2}, "c2")),
}


@pytest.mark.skipif(
    not FEATURES["tool_strategy"].is_due(), reason="structured output by a tool came with langchain 1.0"
)
@pytest.mark.parametrize("handle_errors", [True, "Try again."])
@pytest.mark.parametrize("refused", REFUSED)
def test_structured_answers_that_the_agent_refused(refused: str, handle_errors: Any) -> None:
    """Earlier attempts at a structured answer are no calls, in a state or under a recorder that did not see them."""
    from langchain.agents.structured_output import ToolStrategy

    recorder = ToolCallRecorder()
    script = [REFUSED[refused], asks(("add", {"a": 1}, "c1")), asks(("Ans", {"value": 3}, "c2"))]
    strategy = ToolStrategy(Ans, handle_errors=handle_errors)
    options = {"checkpointer": memory(), "interrupt_before": ["tools"]}
    agent = make_agent(scripted(*script), [add], response_format=strategy, **options)
    agent.invoke({"messages": [("user", "hi")]}, thread("T"))
    state = agent.invoke(None, thread("T", recorder))

    runs = [
        run_from_state(state),
        *([recorder.run, run_from_messages(state["messages"])] if handle_errors is True else []),
    ]
    assert [[(call.name, call.output) for call in run.calls] for run in runs] == [[("add", "3")]] * len(runs)


class Weather(BaseModel):
    """An answer."""

    t: int


def ask(name: str, arguments: dict[str, Any], call_id: str) -> AIMessage:
    """A message with one call."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id}])


def test_only_the_call_with_the_structured_answer_is_left_out() -> None:
    """A call of another message may have its id, and a tool that failed may have its name."""
    values: dict[str, Any] = {
        "messages": [
            HumanMessage("q"),
            ask("lookup", {"x": 1}, "call_0"),
            ToolMessage("5", tool_call_id="call_0"),
            ask("Weather", {"t": "x"}, "call_1"),
            ToolMessage("no number", tool_call_id="call_1", status="error"),
            ask("Weather", {"t": 5}, "call_0"),
            ToolMessage("Returning structured response", tool_call_id="call_0"),
        ],
        "structured_response": Weather(t=5),
    }

    run = run_from_state(values, available_tools=[{"name": "lookup"}, {"name": "Weather"}])

    assert [(call.name, call.execution.status.value, call.output) for call in run.calls] == [
        ("lookup", "ok", "5"),
        ("Weather", "error", None),
    ]


def test_a_later_result_of_a_call_replaces_the_one_before_it() -> None:
    """As it does for a recorder."""
    run = run_from_messages(
        [
            HumanMessage("q"),
            ask("add", {"a": 1}, "c1"),
            ToolMessage("Error: try again", tool_call_id="c1", status="error"),
            ToolMessage("3", tool_call_id="c1"),
        ]
    )

    assert [(call.execution.status.value, call.output) for call in run.calls] == [("ok", "3")]
    assert run.warnings == []


def test_ids_of_runs_are_text() -> None:
    """Anything else is an error, not a run that cannot be written."""
    with pytest.raises(InvalidDataError, match="run_id"):
        run_from_messages(TURN, run_id=7)  # type: ignore[arg-type]


def test_a_state_without_messages() -> None:
    """A state without messages raises an error that names the value."""
    with pytest.raises(InvalidDataError, match="got dict"):
        run_from_state({"count": 3})
