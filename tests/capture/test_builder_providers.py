"""Calls that providers run, that replace requests, or that programs of the model make."""

from observations import builder_of, call, calls, ran, slow, unrun
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request, RunBuilder

MCP = ToolCallType.MCP


def test_call_from_messages_has_only_their_facts() -> None:
    """Without a visible execution there are no attempts; the place is known."""
    builder = RunBuilder()
    builder.model_asked([Request("add", {}, "c1", source="$[0]")])

    assert [entry["execution"] for entry in calls(builder)] == [
        {"status": "pending", "executed": False, "step": 0, "source": "$[0]"},
    ]


# What providers run


def test_hosted_call_without_a_result_was_executed() -> None:
    """The call is ok, and its output was not captured."""
    builder = builder_of(Request("web_search", {}, "w1", ToolCallType.HOSTED, ran=True))

    assert calls(builder) == [call("web_search", {}, "w1", not_captured=["output"]) | {"type": "hosted"}]


def test_hosted_call_with_a_result_was_executed() -> None:
    """A failed call has the provider's error."""
    builder = builder_of(Request("fetch", {}, "w1"), Request("fetch", {}, "w2"))
    builder.result_shown("page", call_id="w1", ran=True)
    builder.result_shown("gone", call_id="w2", ran=True, failed=True)

    assert calls(builder) == [
        call("fetch", {}, "w1", output="page"),
        call("fetch", {}, "w2", status="error", error="gone", model_output="gone"),
    ]


def test_a_list_of_tools_that_is_not_whole_makes_no_tool_unknown() -> None:
    """Nor does any list make one unknown that the provider or its servers run."""
    partly, wholly = (
        builder_of(slow(1, "c1")),
        builder_of(slow(1, "c1"), Request("search", {}, "m1", MCP), offered=("add",)),
    )
    partly.offered([{"name": "add"}], all_known=False)
    partly.ended()
    wholly.ended()

    assert [entry["execution"]["status"] for entry in calls(partly) + calls(wholly)] == [
        "not_executed",
        "unknown_tool",
        "not_executed",
    ]
    assert partly.build().available_tools == wholly.build().available_tools


# Requests that others carry out


def test_request_and_its_execution_item_are_one_call() -> None:
    """The call is placed where it ran; for repeated ids the newest request is used."""
    builder = builder_of(Request("search", {"q": "x"}, "a1", MCP), Request("search", {"q": "y"}, "a2", MCP))
    builder.result_shown("no", call_id="a2", failed=True)
    builder.model_asked([Request("search", {"q": "x"}, "m1", MCP, result="RES", replaces="a1")])
    builder.model_asked([Request("search", {"q": "z"}, "m2", MCP, result="Z", replaces="a9")])

    assert calls(builder) == [
        unrun("search", "rejected", {"q": "y"}, "a2", error="no", model_output="no") | {"type": "mcp"},
        call("search", {"q": "x"}, "m1", output="RES", step=1) | {"type": "mcp"},
        call("search", {"q": "z"}, "m2", output="Z", step=2) | {"type": "mcp"},
    ]


# Calls made inside a program that the model wrote


def test_calls_of_a_program_are_its_children() -> None:
    """They run and are answered separately, and none of them is a top-level call."""
    builder = builder_of(Request("program", {"code": "..."}, "p1"))
    builder.model_asked([Request("add", {"a": 1}, "c1", caller="p1"), Request("add", {"a": 2}, "c2", caller="p1")])
    ran(builder, "k1", "add", {"a": 1}, 3, call_id="c1")
    builder.result_shown("4", call_id="c2")
    builder.result_shown("done", call_id="p1")
    builder.model_asked([slow(1, "c3")])

    inner = [call("add", {"a": 1}, "c1", output=3), unrun("add", "ok", {"a": 2}, "c2", output="4")]
    assert calls(builder) == [
        unrun("program", "ok", {"code": "..."}, "p1", output="done", children=inner),
        unrun("slow", "pending", {"x": 1}, "c3", step=1),
    ]


def test_call_of_an_unknown_program_is_top_level() -> None:
    """The call is not lost, and the run has a warning."""
    builder = builder_of(Request("add", {}, "c1", caller="p1"))

    assert calls(builder) == [unrun("add", "pending")]
    assert builder.warnings == ["'add' was called inside 'p1', an unknown call; it was recorded outside of it"]


def test_one_request_object_twice_is_two_calls() -> None:
    """The object is the handle of the first one."""
    request = Request("add", {}, "c1")
    builder = builder_of(request, request)
    ran(builder, "k1", "add", {}, 3, request=request)

    assert calls(builder) == [call("add", {}, "c1", output=3), unrun("add", "pending", {}, "c1")]
    assert builder.warnings == ["the same Request object of 'add' was recorded twice; each call needs its own"]
