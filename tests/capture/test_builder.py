"""What the capture kit decides: one test for each situation that frameworks present it with."""

from datetime import datetime, timezone
from typing import Any

from observations import builder_of, call, calls, ran, slow, unrun
from toolgrade.calls import CallOrigin, ToolCallType, ToolSpec
from toolgrade.capture import Branch, Request, RunBuilder
from toolgrade.cases import Handoff, RunStatus
from toolgrade.matching.json_compare import ABSENT

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)

# Order, ids and pairing


def test_repeated_id_in_one_message_is_paired_by_arguments() -> None:
    """Each execution belongs to the request with its arguments, in any order of starts."""
    builder = builder_of(slow(1, "dup"), slow(2, "dup"))
    ran(builder, "t2", "slow", {"x": 2}, "slow 2", call_id="dup")
    ran(builder, "t1", "slow", {"x": 1}, "slow 1", call_id="dup")

    builder.result_shown("slow 2", call_id="dup")
    builder.result_shown("slow 1", call_id="dup")
    builder.result_shown("slow 2", call_id="dup")

    assert calls(builder) == [
        call("slow", {"x": 1}, "dup", output="slow 1"),
        call("slow", {"x": 2}, "dup", output="slow 2"),
    ]


def test_an_execution_with_more_arguments_belongs_to_the_request_with_some_of_them() -> None:
    """A framework may add defaults before the tool runs; two requests share the id, so the arguments decide."""
    builder = builder_of(slow(1, "dup"), slow(2, "dup"))

    ran(builder, "t2", "slow", {"x": 2, "unit": "s"}, "slow 2", call_id="dup")
    ran(builder, "t1", "slow", {"x": 1, "unit": "s"}, "slow 1", call_id="dup")

    assert [executed["output"] for executed in calls(builder)] == ["slow 1", "slow 2"]


def test_id_shared_by_two_tools_is_paired_by_name() -> None:
    """If a framework repeats an id for several tools, the name decides before the arguments."""
    builder = builder_of(slow(1, "dup"), Request("fast", {"x": 1}, "dup"))
    ran(builder, "t2", "fast", {"x": 1}, "fast 1", call_id="dup")
    ran(builder, "t1", "slow", {"x": 1}, "slow 1", call_id="dup")

    builder.result_shown("shown fast", call_id="dup", name="fast")
    builder.result_shown("shown slow", call_id="dup", name="slow")

    assert calls(builder) == [
        call("slow", {"x": 1}, "dup", output="slow 1", model_output="shown slow"),
        call("fast", {"x": 1}, "dup", output="fast 1", model_output="shown fast"),
    ]


def test_a_retry_of_one_of_two_equal_ids_is_its_own_next_attempt() -> None:
    """A failed request is run again with its own arguments, even while another of the same id has not run yet."""
    builder = builder_of(slow(1, "slow"), slow(2, "slow"), Request("slow", {}, "slow"))
    builder.tool_started("t1", "slow", {"x": 1}, call_id="slow")
    builder.tool_failed("t1", "ValueError: no")

    ran(builder, "t2", "slow", {"x": 1}, "slow 1", call_id="slow")
    ran(builder, "t3", "slow", {"x": 2}, "slow 2", call_id="slow")

    assert calls(builder) == [
        call("slow", {"x": 1}, "slow", output="slow 1", attempts=2),
        call("slow", {"x": 2}, "slow", output="slow 2"),
        unrun("slow", "pending", {}, "slow"),
    ]


def test_an_execution_without_an_id_finds_a_request_that_has_one() -> None:
    """If a framework does not pass the id to a tool, the newest request of its name is used."""
    builder = builder_of(slow(1, "c1"))

    ran(builder, "t1", "slow", {"x": 1}, "slow 1")

    assert calls(builder) == [call("slow", {"x": 1}, "c1", output="slow 1")]


def test_call_without_a_tool_name_is_recorded() -> None:
    """A call with an empty tool name gets a placeholder name, with a warning."""
    builder = builder_of(Request("", {"x": 1}, "c1"))
    builder.tool_started("t1", "", {"x": 1}, call_id="c1")

    run = builder.build()

    assert [entry.name for entry in run.calls] == ["(unnamed)"]
    assert run.warnings == ["a call without the name of a tool was recorded as '(unnamed)'"]


# Arguments


def test_injected_arguments_are_left_out() -> None:
    """Arguments that neither the request nor the tool's schema names were added by the framework."""
    builder = builder_of(Request("st", {"x": 1, "extra": 2}, "c1"))

    arguments = {"x": 1, "extra": 2, "y": 3, "state": object(), "tool_call_id": "c1"}
    tool = ToolSpec(name="st", input_schema={"properties": {"x": {}, "y": {}}})
    builder.tool_started("t1", tool, arguments, call_id="c1")
    builder.tool_ended("t1", "done")

    assert [entry.input_parameters for entry in builder.build().calls] == [{"x": 1, "extra": 2, "y": 3}]


def test_edited_and_requested_arguments_are_recorded() -> None:
    """If a person or a middleware edits them, the call has both."""
    builder = builder_of(slow(1, "c1"))

    ran(builder, "t1", "slow", {"x": 2}, "slow 2", call_id="c1")

    assert calls(builder) == [call("slow", {"x": 2}, output="slow 2", requested_parameters={"x": 1})]


def test_hidden_arguments_are_the_requested_ones() -> None:
    """If the tool's input is not visible, the request provides it; without a request it is unknown."""
    builder = builder_of(slow(1, "c1"))
    builder.tool_started("t1", "slow", None, call_id="c1")
    builder.tool_ended("t1", "slow 1")

    builder.tool_started("t2", "helper", None)

    helper = call("helper", {}, None, status="pending", origin="code", not_captured=["input_parameters"])
    del helper["input_parameters"]
    assert calls(builder) == [call("slow", {"x": 1}, output="slow 1"), helper]


def test_invalid_arguments_keep_the_raw_text() -> None:
    """Text that is not a JSON object gives empty arguments, the raw text, and the reason."""
    builder = builder_of(Request("slow", "{x: ", "c1", error="bad json"), Request("slow", "[1]", "c2"))

    builder.result_shown("no object", call_id="c2", failed=True)

    assert calls(builder) == [
        unrun("slow", "invalid_arguments", requested_parameters="{x: ", error="bad json"),
        unrun(
            "slow",
            "invalid_arguments",
            call_id="c2",
            requested_parameters="[1]",
            error="no object",
            model_output="no object",
        ),
    ]


def test_invalid_arguments_stay_invalid_when_the_tool_runs_anyway() -> None:
    """Some frameworks run the tool with `{}` instead; that does not make the model's text an object."""
    builder = builder_of(Request("slow", "nonsense", "c1"))

    builder.tool_started("t1", "slow", {}, call_id="c1")
    builder.tool_failed("t1", "TypeError: x is missing")

    expected = {"status": "invalid_arguments", "error": "TypeError: x is missing", "requested_parameters": "nonsense"}
    assert calls(builder) == [call("slow", **expected)]  # type: ignore[arg-type]


# What became of a call


def test_a_tool_that_says_it_failed_is_an_error() -> None:
    """A handled error that arrives as a normal return is an error; its text is not an output."""
    builder = builder_of(slow(1, "c1"))

    builder.tool_started("t1", "slow", {"x": 1}, call_id="c1")
    builder.tool_ended("t1", "bad 1", error="bad 1", model_output="bad 1", artifact={"n": 1})

    more: dict[str, Any] = {"error": "bad 1", "model_output": "bad 1", "artifact": {"n": 1}}
    assert calls(builder) == [call("slow", {"x": 1}, status="error", **more)]


def test_unknown_tool_is_detected_by_the_offered_tools() -> None:
    """A name that was not offered is unknown, with or without a message."""
    builder = builder_of(Request("nope", {"x": 1}, "c1"), Request("nope", {}, "c2"), offered=("slow",))

    builder.result_shown("no such tool", call_id="c1", failed=True)

    assert calls(builder) == [
        unrun("nope", "unknown_tool", {"x": 1}, error="no such tool", model_output="no such tool"),
        unrun("nope", "unknown_tool", call_id="c2"),
    ]


def test_unknown_tool_is_detected_by_the_message() -> None:
    """If the offered tools are not visible, the framework's message may report an unknown tool."""
    builder = builder_of(Request("nope", {}, "c1"))

    builder.result_shown("no such tool", call_id="c1", unknown_tool=True)

    assert calls(builder) == [unrun("nope", "unknown_tool", error="no such tool", model_output="no such tool")]


def test_a_tool_offered_inside_is_not_measured_by_those_outside() -> None:
    """Each scope has its own tools; those of a sub-agent are not tools of the run."""
    builder = builder_of(Request("ask", {}, "c1"), offered=("ask",))
    builder.tool_started("outer", "ask", {}, call_id="c1")
    builder.offered([{"name": "add"}], scope="outer")
    builder.model_asked([Request("add", {}, "i1"), Request("ask", {}, "i2")], scope="outer")
    builder.tool_failed("outer", "ValueError: no")

    builder.ended("final")

    run = builder.build()
    assert run.calls[0].execution is not None
    inner = [child.to_dict()["execution"]["status"] for child in run.calls[0].execution.children]
    assert (inner, run.available_tools) == (["not_executed", "unknown_tool"], [ToolSpec(name="ask")])


def test_the_system_prompt_is_that_of_the_run() -> None:
    """Each text counts once, in the order of the requests; that of an agent inside a tool is not the run's."""
    builder = builder_of(Request("ask", {}, "c1"))
    builder.tool_started("outer", "ask", {}, call_id="c1")
    builder.instructed("inner", scope="outer")
    for text in ("A1", "", None, "B2", "A1"):
        builder.instructed(text, scope=Branch(None, "b"))
    run = builder.build()

    assert (run.instructions, run.warnings) == ("A1\n\nB2", [])
    later = RunBuilder()
    later.continue_from(run)
    later.instructed(["C3"])  # type: ignore[arg-type]
    assert later.build().instructions == "A1\n\nB2\n\n['C3']"
    assert later.warnings == ["instructions must be text, got ['C3']; its repr was stored"]
    size = later.size
    later.instructed("x" * 1000)
    assert later.size - size > 1000


def test_a_refused_call_is_rejected() -> None:
    """An error shown for a call that never ran means that a person, a policy or a limit refused it."""
    builder = builder_of(slow(1, "c1"), offered=("slow",))

    builder.result_shown("no!", call_id="c1", failed=True)

    assert calls(builder) == [unrun("slow", "rejected", {"x": 1}, error="no!", model_output="no!")]


def test_a_call_may_be_answered_without_running() -> None:
    """A cache, an emulator or a person answered: ok, the answer is the output, nothing was executed."""
    builder = builder_of(slow(1, "c1"), offered=("slow",))

    builder.result_shown("cached!", call_id="c1")

    assert calls(builder) == [unrun("slow", "ok", {"x": 1}, output="cached!")]


def test_a_call_that_was_dropped_was_not_executed() -> None:
    """A request that was neither run nor answered before the run continued and ended."""
    builder = builder_of(slow(1, "c1"))
    builder.model_asked([])

    builder.ended("final", may_wait=True)

    assert calls(builder) == [unrun("slow", "not_executed", {"x": 1})]
    assert builder.build().status is RunStatus.OK


def test_a_hosted_call_has_its_result_in_the_message() -> None:
    """What the provider ran itself carries its result or its failure, and counts as run."""
    builder = builder_of(
        Request("web_search", {"q": "cats"}, "s1", type=ToolCallType.HOSTED, result=["a cat"]),
        Request("wiki", {}, "s2", type=ToolCallType.MCP, server="docs", failure="timeout"),
    )

    assert calls(builder) == [
        {**call("web_search", {"q": "cats"}, "s1", output=["a cat"]), "type": "hosted"},
        {**call("wiki", {}, "s2", status="error", error="timeout", server="docs"), "type": "mcp"},
    ]


def test_a_search_for_tools_is_neither_called_nor_offered() -> None:
    """A provider's own; a function of the user may have its name."""
    builder = builder_of(*(Request("tool_search", {}, kind.value, type=kind) for kind in ToolCallType))
    builder.model_asked([Request("tool_search_tool_regex", {}, "s1"), Request("tool_search_tool_of_mine", {}, "c1")])
    builder.offered([ToolSpec(name="tool_search_tool_bm25", type=ToolCallType.HOSTED)])

    run = builder.build()
    assert ([call.id for call in run.calls], run.available_tools) == (["function", "mcp", "custom", "c1"], None)


def test_a_request_for_approval_waits_without_a_thread() -> None:
    """Its run is interrupted until somebody decides, or the model goes on without it."""
    builder = builder_of(Request("pay", {}, "a1", needs_approval=True))
    builder.ended("")
    waiting = builder.build()
    builder.model_asked([])
    ended = builder.build()

    assert (waiting.status, ended.status) == (RunStatus.INTERRUPTED, RunStatus.OK)
    statuses = [run.calls[0].execution and run.calls[0].execution.status.value for run in (waiting, ended)]
    assert statuses == ["pending", "not_executed"]


def test_a_hand_off_is_a_call_and_a_handoff() -> None:
    """The hand-off call is stored among the calls and named by position; it is not a called tool."""
    builder = builder_of(slow(1, "c1"))
    ran(builder, "t1", "slow", {"x": 1}, "slow 1", call_id="c1")
    builder.model_asked([Request("to_bob", {}, "h1")], agent="alice")
    builder.handed_off(to="bob", call_id="h1")

    builder.ended("bob is done", may_wait=True)

    run = builder.build()
    assert run.handoffs == [Handoff(call=1, from_agent="alice", to_agent="bob")]
    assert run.to_dict()["calls"][1] == unrun("to_bob", "ok", call_id="h1", step=1, agent="alice")
    assert ([entry.name for entry in run.tools_called], run.status) == (["slow"], RunStatus.OK)


def test_a_hand_off_by_execution() -> None:
    """If a framework runs hand-offs as tools, leaving the execution in the middle is not a failure."""
    builder = builder_of(Request("to_bob", {}, "h1"))
    builder.tool_started("t1", "to_bob", {}, call_id="h1")

    builder.handed_off(to="bob", key="t1")
    builder.ended("done")

    assert calls(builder) == [call("to_bob", {}, "h1")]
    assert builder.build().handoffs == [Handoff(call=0, to_agent="bob")]


def test_a_call_that_hands_off_to_two_agents() -> None:
    """Each agent is a hand-off of its own, also in a run that goes on; a repeated one is not."""
    builder = builder_of(Request("split", {}, "h1"))
    builder.handed_off(to="bob", call_id="h1", took_place=False)
    for name in ("bob", "eve", "bob"):
        builder.handed_off(to=name, call_id="h1")
    builder.ended("done")
    later = RunBuilder()
    later.continue_from(builder.build())

    handoffs = [Handoff(call=0, to_agent="bob"), Handoff(call=0, to_agent="eve")]
    assert builder.build().handoffs == later.build().handoffs == handoffs


def test_a_hand_off_that_did_not_take_place() -> None:
    """It is neither a hand-off of the run nor a called tool, until it takes place."""
    builder = builder_of(Request("to_bob", {}, "h1"), Request("to_eve", {}, "h2"))
    for name in ("bob", "eve"):
        builder.handed_off(to=name, call_id=f"h{'be'.index(name[0]) + 1}", took_place=False)
    builder.ended("done")
    before = builder.build()
    builder.handed_off(to="bob", call_id="h1")
    after = builder.build()

    assert (before.handoffs, before.failed_handoffs, before.tools_called) == ([], [0, 1], [])
    assert [call.execution.status.value for call in before.calls if call.execution] == ["not_executed"] * 2
    assert (after.handoffs, after.failed_handoffs) == ([Handoff(call=0, to_agent="bob")], [1])


def test_reasoning_of_a_request_is_that_of_the_call() -> None:
    """The thought before a call stands in the call; without one, the field is not set."""
    first, second = builder_of(Request("a", {}, reasoning="because"), Request("b", {})).build().calls

    assert (first.reasoning, "reasoning" in second.model_fields_set) == ("because", False)


def test_arguments_that_the_framework_refuses() -> None:
    """A tool whose start was reported, but which did not begin, failed without being executed."""
    builder = builder_of(slow(1, "c1"))
    builder.tool_started("t1", "slow", {"x": 1}, call_id="c1")
    builder.tool_failed("t1", "ValueError: bad", ran=False)

    (one,) = builder.build().calls
    assert one.execution is not None
    assert (one.execution.status.value, one.execution.executed, one.execution.error) == (
        "error",
        False,
        "ValueError: bad",
    )


def test_branch_of_a_model_that_becomes_known_after_its_message() -> None:
    """Its calls are then those of the branch, and of the agent there."""
    builder = RunBuilder()
    one, two = Request("add", {"a": 1}, "c1"), Request("add", {"a": 1}, "c1")
    for request in (one, two):
        builder.model_asked([request])
    builder.model_ran_in(Branch(None, "left"), [one], agent="first")
    builder.model_ran_in(Branch(None, "right"), [two], agent="second")
    for branch in ("right", "left"):
        builder.tool_started(branch, "add", {"a": 1}, call_id="c1", scope=Branch(None, branch))
        builder.tool_ended(branch, branch)

    run = builder.build()
    assert [(one.execution.agent, one.output) for one in run.calls if one.execution] == [
        ("first", "left"),
        ("second", "right"),
    ]


def test_hand_offs_of_agents_at_once_are_told_apart_by_branch() -> None:
    """Two agents of one scope hand over under the same id: each leads to its own agent."""
    builder = RunBuilder()
    for branch in (1, 2):
        builder.model_asked([Request(f"to_{branch}", {}, "h1")], scope=Branch(None, branch))
    for branch in (1, 2):
        builder.handed_off(to=f"agent {branch}", call_id="h1", scope=Branch(None, branch))

    assert builder.build().handoffs == [Handoff(call=n, to_agent=f"agent {n + 1}") for n in (0, 1)]


def test_calls_of_a_message_that_goes_on() -> None:
    """Calls that run while the model requests more are of one step, each branch has its own, and wait alike."""
    builder = RunBuilder()
    for number in (1, 2):
        for call_id in (f"c{number}", f"d{number}"):
            builder.model_asked([slow(number, call_id)], scope=Branch(None, number), goes_on=True)
            if call_id != "d2":
                ran(builder, call_id, "slow", {"x": number}, "slept", call_id=call_id, scope=Branch(None, number))
    builder.ended(may_wait=True)

    run = builder.build()
    how = [call.execution for call in run.calls if call.execution]
    assert [call.id for call in run.calls] == ["c1", "d1", "c2", "d2"]
    assert [one.step for one in how] == [0, 0, 1, 1]
    assert [one.status.value for one in how] == ["ok", "ok", "ok", "pending"]


def test_structured_answers_are_not_calls() -> None:
    """They are left out at every level; they are neither steps nor tools, and nothing waits for them."""
    answers = [Request("Answer", {"bad": 1}, "a1"), Request("Answer", {}, "a2"), Request("Answer", {"value": 3}, "a3")]
    builder = builder_of(answers[0], offered=("ask", "Answer"))
    builder.model_asked([Request("ask", {}, "c1")])
    builder.tool_started("t1", "ask", {}, call_id="c1")
    builder.model_asked([answers[1]], scope="t1")
    builder.tool_ended("t1", "done")
    builder.model_asked([answers[2]])

    builder.structured_answer(answers)
    builder.ended('{"value": 3}', may_wait=True)

    run = builder.build()
    assert run.to_dict()["calls"] == [call("ask", output="done")]
    assert (run.status, run.available_tools) == (RunStatus.OK, [ToolSpec(name="ask")])


def test_call_by_code_is_a_call() -> None:
    """An execution without a request is placed where it began, with origin code and no step."""
    builder = builder_of(slow(1, "c1"))
    ran(builder, "t1", "slow", {"x": 1}, "slow 1", call_id="c1")
    ran(builder, "t2", "slow", {"x": 1}, "again")
    builder.model_asked([slow(2, "c2")])

    ran(builder, "t3", "add", {"a": 5}, 7, call_id="z1")

    run = builder.build()
    assert run.to_dict()["calls"] == [
        call("slow", {"x": 1}, output="slow 1"),
        call("slow", {"x": 1}, None, output="again", origin="code"),
        unrun("slow", "pending", {"x": 2}, "c2", step=1),
        call("add", {"a": 5}, "z1", output=7, origin="code"),
    ]
    assert [entry.id for entry in run.select_calls(code=False)] == ["c1", "c2"]
    assert [entry.execution.origin for entry in run.calls if entry.execution][1] is CallOrigin.CODE


def test_agents_at_the_same_time_have_ids_of_their_own() -> None:
    """Two concurrent agents in one scope with the same ids each keep their own calls."""
    builder = builder_of()
    branches = [Branch(None, "one"), Branch(None, "two")]
    for branch in branches:
        builder.model_asked([Request("add", {"of": branch.key}, "c1")], scope=branch)

    for key, branch in enumerate(branches):
        builder.tool_started(key, "add", {"of": branch.key}, call_id="c1", scope=branch)
        builder.tool_ended(key, branch.key)
    for branch in branches:
        builder.model_asked([Request("nope", {"of": branch.key}, "c2")], scope=branch)
    assert builder.result_shown("no such tool", call_id="c2", unknown_tool=True, scope=branches[0])
    run = builder.build()

    assert [(call.name, call.arguments["of"], call.output) for call in run.calls] == [
        ("add", "one", "one"),
        ("add", "two", "two"),
        ("nope", "one", None),
        ("nope", "two", None),
    ]
    statuses = [call.execution.status.value for call in run.calls if call.execution is not None]
    assert statuses == ["ok", "ok", "unknown_tool", "pending"]
    assert [call.execution.attempts for call in run.calls if call.execution is not None] == [1, 1, 1, 1]


def test_the_request_that_a_recorder_names_wins() -> None:
    """It decides before ids, names, arguments and order; a request that no model made is a call by code."""
    builder = RunBuilder()
    first, second = [Request("slow", {"x": number}, "c1", source=f"m[{number}]") for number in (1, 2)]
    by_code = Request("slow", id="c3", source="m[3]")
    for number, request in enumerate([first, second]):
        builder.model_asked([request], scope=Branch(None, number))
    builder.tool_started("t1", "slow", {"x": 2}, call_id="c1", request=first)
    builder.tool_ended("t1", "first")
    builder.result_shown("second", call_id="c9", request=second)
    builder.handed_off(to="Bob", request=second)
    for attempt in ("t2", "t3"):
        builder.tool_started(attempt, "slow", {"x": 2}, request=by_code)

    run = builder.build()
    assert [(call.id, call.arguments, call.output) for call in run.calls] == [
        ("c1", {"x": 2}, "first"),
        ("c1", {"x": 2}, "second"),
        ("c3", {"x": 2}, None),
    ]
    executions = [call.execution for call in run.calls if call.execution is not None]
    assert [execution.source for execution in executions] == ["m[1]", "m[2]", "m[3]"]
    assert (executions[0].requested_parameters, executions[2].origin, executions[2].attempts) == ({"x": 1}, "code", 2)
    assert [(handoff.call, handoff.to_agent) for handoff in run.handoffs] == [(1, "Bob")]


def test_of_several_requests_the_nearest_that_fits_is_chosen() -> None:
    """One with equal arguments comes before a nearer one with others, then one that has not run before a newer one."""
    builder = RunBuilder()
    near, far, last = slow(1, "c1"), slow(2, "c1"), slow(3, "c1")
    for request in (far, near, last):
        builder.model_asked([request])
    chosen = [
        builder.tool_started(key, "slow", {"x": x}, call_id="c1", request=[near, far])
        for key, x in (("t1", 2), ("t2", 9), ("t3", 2))
    ]

    assert chosen[0] is chosen[2] is far
    assert chosen[1] is near
    assert [call.execution and call.execution.attempts for call in builder.build().calls] == [2, 1, 1]
    assert builder.tool_started("t4", "slow", {"x": 1}, request=[]) is None


def test_arguments_and_outputs_without_content_are_unset() -> None:
    """Content of the tool span completes the message."""
    builder = builder_of(Request("slow", ABSENT, "c1"), Request("slow", ABSENT, "c2"))
    for key, arguments, output in (("t1", None, ABSENT), ("t2", {"x": 1}, "ok")):
        builder.tool_started(key, "slow", arguments, call_id=f"c{key[1]}")
        builder.tool_ended(key, output)

    first, second = builder.build().calls

    assert not {"input_parameters", "output"} & first.model_fields_set
    assert first.execution is not None
    assert first.execution.not_captured == ["input_parameters", "output"]
    assert first.execution.status.value == "ok"
    assert (second.input_parameters, second.output, second.execution and second.execution.not_captured) == (
        {"x": 1},
        "ok",
        [],
    )


def test_a_failure_that_was_read_is_an_error() -> None:
    """If the execution was not visible, a failed result is not a rejection."""
    builder = builder_of(slow(1, "c1"), slow(2, "c2"))

    builder.result_shown("no", call_id="c1", failed=True)
    builder.result_shown("no", call_id="c2", failed=True, read=True)

    assert [call.execution and call.execution.status.value for call in builder.build().calls] == ["rejected", "error"]


def test_requests_among_which_an_observation_is() -> None:
    """An execution or a result that names the requests of its message belongs to one of them, not to a newer one."""
    builder = builder_of()
    messages = [[Request("add", {"of": "x"}, "c1"), Request("nope", {}, "c2")] for _ in range(2)]
    for requests in messages:
        builder.model_asked(requests)

    for number, requests in enumerate(messages):
        builder.tool_started(number, "add", {"of": "x"}, call_id="c1", request=requests)
        builder.tool_ended(number, number)
        assert builder.result_shown(f"no {number}", call_id="c2", unknown_tool=True, request=requests)
    run = builder.build()

    assert [(call.name, call.output, call.execution and call.execution.error) for call in run.calls] == [
        ("add", 0, None),
        ("nope", None, "no 0"),
        ("add", 1, None),
        ("nope", None, "no 1"),
    ]


def test_structured_answers_that_ran_are_calls() -> None:
    """Only these requests are left out, and none that was executed; so is a tool that only they name."""
    builder = builder_of()
    builder.offered([{"name": name} for name in ("add", "Answer", "Both")])
    ran_too, answer, other = Request("add", {}, "c2"), Request("Answer", {}, "c1"), Request("Both", {}, "c3")
    builder.model_asked([Request("Both", {}, "c1"), ran_too])
    builder.tool_started("k", "add", {}, call_id="c2")
    builder.tool_ended("k", 1)
    builder.model_asked([answer, other])

    builder.structured_answer([answer, ran_too, other])
    run = builder.build()

    assert [(call.name, call.id) for call in run.calls] == [("Both", "c1"), ("add", "c2")]
    assert [tool.name for tool in run.available_tools or ()] == ["add", "Both"]


def test_a_request_that_somebody_replaced_by_another_tool() -> None:
    """The call is one of the tool that was executed, with the requested arguments next to its own, and a warning."""
    builder = builder_of()
    request = Request("slow", {"x": 1}, "c1")
    builder.model_asked([request])

    builder.tool_started("k", "add", {"a": 1}, request=request)
    builder.tool_ended("k", 3)
    run = builder.build()

    (entry,) = run.calls
    assert entry.execution is not None
    assert (entry.name, entry.arguments, entry.output) == ("add", {"a": 1}, 3)
    assert entry.execution.requested_parameters == {"x": 1}
    assert run.warnings == ["the model requested 'slow' (id 'c1'), and 'add' was executed in its place"]
