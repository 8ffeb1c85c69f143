"""What the capture kit decides of messages that were read rather than watched, and of calls that others carry out."""

from typing import Any

import pytest

from observations import builder_of, call, calls, ran, slow, unrun
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request, RunBuilder
from toolgrade.matching.json_compare import ABSENT

MCP = ToolCallType.MCP


def read(*entries: Request | tuple[object, str | None] | None) -> RunBuilder:
    """Return a run from these messages: requests, results with their ids, and `None` for the user."""
    builder = RunBuilder()
    for index, what in enumerate(entries):
        if isinstance(what, Request):
            builder.model_asked([what], source=f"[{index}]")
        elif what is None:
            builder.user_spoke()
        else:
            builder.result_read(what[0], call_id=what[1], source=f"[{index}]")
    builder.ended()
    return builder


def outputs(builder: RunBuilder) -> list[object]:
    """The output of each call."""
    return [entry.output for entry in builder.build().calls]


# Results that were read


def test_call_from_messages_has_only_their_facts() -> None:
    """Without a visible execution there are no attempts; the place is known."""
    builder = RunBuilder()
    builder.model_asked([Request("add", {}, "c1"), Request("add", {}, "c2", source="$[0]")], source="messages[3]")

    assert [entry["execution"] for entry in calls(builder)] == [
        {"status": "pending", "executed": False, "step": 0, "source": "messages[3].tool_calls[0]"},
        {"status": "pending", "executed": False, "step": 0, "source": "$[0]"},
    ]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([slow(1, "c"), slow(2, "c"), ("one", "c"), ("two", "c")], ["one", "two"]),
        ([slow(1, "c"), ("one", "c"), slow(2, "c"), ("two", "c")], ["one", "two"]),
        ([slow(1, "c"), None, slow(2, "c"), ("two", "c")], [None, "two"]),
        ([slow(1, "c"), slow(9, "d"), ("nine", "d"), slow(2, "c"), ("two", "c")], [None, "nine", "two"]),
        ([slow(1, "c"), None, slow(2, "c"), ("two", "c"), ("one", "c")], ["one", "two"]),
        ([slow(1, None), slow(2, "c"), ("one", None), ("two", "c")], ["one", "two"]),
        ([slow(1, None), slow(2, "c"), ("two", "c"), ("one", "x")], ["one", "two"]),
        ([slow(1, "c"), ("one", None)], ["one"]),
        ([slow(1, "c"), ("one", "x")], [None]),
    ],
)
def test_a_result_that_was_read_belongs_to_an_open_call(entries: list[Any], expected: list[object]) -> None:
    """By id, in order; of those asked for since the last results or words of the user first; then without an id."""
    assert outputs(read(*entries)) == expected


def test_read_result_is_never_used_twice() -> None:
    """A surplus result is dropped with a warning that names its place."""
    builder = read(slow(1, "c1"), ("one", "c1"), ("two", "c1"))

    assert outputs(builder) == ["one"]
    assert builder.warnings == ["[2]: answers no open call before it (id 'c1'); it was left out"]


def test_names_decide_where_ids_do_not() -> None:
    """Without an id, the result of another tool matches no call; with one, the id decides, with a warning."""
    builder = RunBuilder()
    builder.model_asked([Request("add", {}), Request("sub", {}), Request("mul", {}, "c1")], source="[0]")
    places = [
        builder.result_read("S", name="sub", source="[1]"),
        builder.result_read("D", name="div", source="[2]"),
        builder.result_read("M", call_id="c1", name="div", source="[3]"),
    ]

    assert places == ["[0].tool_calls[1]", None, "[0].tool_calls[2]"]
    assert outputs(builder) == [None, "S", "M"]
    assert builder.warnings == [
        "[2]: answers no open call before it (name 'div'); it was left out",
        "[3]: has the id of the call of 'mul' but the name 'div'; the id won",
    ]


def test_a_result_without_content_is_not_captured() -> None:
    """The call was answered with unknown content, which is not null."""
    builder = read(slow(1, "c1"), (ABSENT, "c1"), slow(2, "c2"), (None, "c2"))
    first, second = builder.build().calls

    assert first.execution is not None
    assert (first.execution.status.value, first.execution.not_captured) == ("ok", ["output"])
    assert "output" not in first.model_fields_set
    assert "output" in second.model_fields_set
    assert builder.warnings == ["[1]: the tool message has no content; the output of 'slow' was not captured"]


@pytest.mark.parametrize(
    ("how", "status", "error"),
    [
        ({"failed": True}, "error", "no"),
        ({"failed": True, "error": "why"}, "error", "why"),
        ({"rejected": True}, "rejected", "no"),
        ({"failed": True, "ran": True}, "error", "no"),
    ],
)
def test_read_failure_is_an_error_unless_rejected(how: dict[str, Any], status: str, error: str) -> None:
    """Messages do not show whether the tool ran, so a failure is not a rejection."""
    builder = RunBuilder()
    builder.model_asked([slow(1, "c1")], source="[0]")
    builder.result_read("no", call_id="c1", source="[1]", **how)
    (entry,) = builder.build().calls

    assert entry.execution is not None
    assert (entry.execution.status.value, entry.execution.error) == (status, error)
    assert (entry.output, entry.execution.model_output) == (None, "no")


@pytest.mark.parametrize("ran", [True, False])
def test_a_failure_without_a_word_is_one_all_the_same(ran: bool) -> None:
    """Its error says no more than that."""
    builder = RunBuilder()
    builder.model_asked([slow(1, "c1")], source="[0]")
    builder.result_read(ABSENT, "[1]", call_id="c1", failed=True, ran=ran)

    assert [
        (entry.execution.status.value, entry.execution.error) for entry in builder.build().calls if entry.execution
    ] == [("error", "failed")]


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
