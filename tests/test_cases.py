"""Cases, conversations, goldens, images and runs: read, written, and what counts as a called tool."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolgrade.cases
from oracles import camel_form, fields_set
from strategies import (
    NAN,
    case_fields,
    conversation_fields,
    few,
    golden_fields,
    image_case_fields,
    run_fields,
)
from toolgrade import (
    Approve,
    CallStatus,
    ConversationalTestCase,
    Execution,
    Golden,
    Handoff,
    InvalidDataError,
    LLMTestCase,
    MLLMImage,
    MLLMTestCase,
    Reject,
    Run,
    RunStatus,
    SimulatedUser,
    ToolCall,
    ToolCallType,
    ToolgradeWarning,
    ToolSpec,
    Turn,
    UserTurn,
)
from toolgrade.calls import CallOrigin, ToolEffect

FIELDS: dict[Any, st.SearchStrategy[dict[str, Any]]] = {
    LLMTestCase: case_fields,
    MLLMTestCase: image_case_fields,
    ConversationalTestCase: conversation_fields,
    Golden: golden_fields,
    Run: run_fields,
}

MOMENT = datetime.datetime(2024, 2, 29, 9, 30, 0, 1, tzinfo=datetime.timezone.utc)
SPEC = ToolSpec(
    name="f",
    description="d",
    input_schema={"inputSchema": {"x": 1}},
    type=ToolCallType.MCP,
    effect=ToolEffect.READ,
    server="s",
)
CALL = ToolCall(
    name="f",
    type=ToolCallType.HOSTED,
    description="d",
    reasoning="r",
    input_parameters={"tools_called": {"not_ours": [1, 1.0, None]}},
    output={"expected_tools": [True]},
    id="c1",
    turn=2,
    execution=Execution(
        status=CallStatus.ERROR,
        executed=True,
        error="ValueError: x",
        attempts=2,
        replayed=True,
        left_recording="left the recording at call 1",
        requested_parameters="{oops",
        model_output=["shown"],
        artifact={"a": 1},
        agent="agent",
        server="server",
        step=0,
        origin=CallOrigin.CODE,
        started_at=MOMENT,
        duration=0.1,
        children=[ToolCall(name="inner", output=None)],
        not_captured=["output"],
        source="runs.jsonl:1",
    ),
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ToolgradeWarning)  # no metric reads the context
    SPOKEN = Turn(
        role="user",
        content="i",
        tools_called=[],
        expected_tools=[CALL],
        required_texts=["t"],
        metadata={"a": 1},
        retrieval_context=["r"],
    )
RUN = Run(
    input="i",
    input_parts=["i", MLLMImage(url="u")],
    actual_output="o",
    agent_texts=["t", "o"],
    dialogue=[SPOKEN],
    calls=[CALL],
    handoffs=[Handoff(call=0, from_agent="a", to_agent="b")],
    failed_handoffs=[0],
    instructions="i",
    available_tools=[SPEC],
    status=RunStatus.STOPPED,
    error="limit",
    models=["m"],
    usage={"input_tokens": 3},
    conversation_id="conversation",
    run_id="run",
    tags=["t"],
    metadata={"startedAt": 1},
    started_at=MOMENT,
    duration=1.5,
    warnings=["w"],
)
COMMON: dict[str, Any] = {"id": "1", "available_tools": [SPEC], "tags": ["t"], "metadata": {"runId": 1}}
CALLS: dict[str, Any] = {"tools_called": [CALL], "expected_tools": [CALL, ToolCall(name="g")]}
STATED: dict[str, Any] = {"required_texts": ["t"], "ends": "ok"}
RECORDED: dict[str, Any] = {"agent_texts": ["t", "a"], "ended": False}
TEXTS = {"input": "i", "actual_output": "a", "expected_output": "e"}
IMAGES = {name: ["text", MLLMImage(url="u", path=None, data=None, mime_type="image/png")] for name in TEXTS}
UNREAD: dict[str, Any] = {"context": ["c"], "comments": "c"}
RETRIEVED = {"retrieval_context": ["c"]}
COSTS = {"token_cost": 0.5, "completion_time": 1.5}
SAID: list[dict[str, Any]] = [
    {"input": "i"},
    {"turns": [UserTurn("i", expected_tools=[CALL], required_texts=["t"]), Approve(), Reject("no")]},
    {"user": SimulatedUser(goal="g", facts={"a": [1]}, stop="s", max_turns=3)},
]
SETTING = dict.fromkeys(("scenario", "expected_outcome", "user_description", "chatbot_role"), "s")


def complete_objects() -> list[Any]:
    """Return one object of each kind with every field set."""
    turn = Turn(role="assistant", content="c", tools_called=[CALL], metadata={"k": 1}, **RETRIEVED)
    unread = {**UNREAD, **RETRIEVED}
    return [
        LLMTestCase(
            name="n",
            run=RUN,
            hyperparameters={"h": 1},
            **COMMON,
            **CALLS,
            **TEXTS,
            **STATED,
            **RECORDED,
            **unread,
            **COSTS,
        ),
        MLLMTestCase(name="n", run=RUN, **COMMON, **CALLS, **IMAGES, **STATED, **RECORDED, **unread, **COSTS),
        ConversationalTestCase(
            name="n",
            turns=[SPOKEN, turn],
            expected_tools=[CALL],
            expected_output="e",
            user_error="u",
            instructions="i",
            **COMMON,
            **STATED,
            **UNREAD,
            **SETTING,
        ),
        *(Golden(expected_output="e", expected_tools=[CALL], **said, **COMMON, **STATED, **unread) for said in SAID),
        RUN,
    ]


with warnings.catch_warnings():
    warnings.simplefilter("ignore", ToolgradeWarning)  # no metric reads some of the fields
    COMPLETE = complete_objects()
every_complete = pytest.mark.parametrize("one", COMPLETE, ids=lambda one: type(one).__name__)
every_model = pytest.mark.parametrize("model", FIELDS)


# JSON in and out


@every_complete
def test_nothing_is_left_out_of_these_tests(one: Any) -> None:
    """Every field of every kind of object is set in one of the objects that are written and read here."""

    def check(model: Any) -> None:
        others = {"input", "turns", "user"} if isinstance(model, Golden) else set()
        assert model.model_fields_set | others == type(model).model_fields.keys()
        for value in (getattr(model, name) for name in model.model_fields_set):
            for item in (value if isinstance(value, list) else [value])[:1]:
                if hasattr(item, "model_fields_set") and getattr(item, "name", "") != "inner":
                    check(item)

    check(one)


@every_complete
def test_every_field_is_written_and_read(one: Any) -> None:
    """An object with every field set comes back from JSON, from camelCase, from a pickle and from pydantic's dumps."""
    model = type(one)
    twins = [
        model.from_json(one.to_json(indent=1)),
        model.model_validate(camel_form(one.to_dict())),
        model.model_validate(one.model_dump()),
        model.model_validate_json(one.model_dump_json()),
        model(**one.model_dump()),
        copy.deepcopy(one),
        copy.copy(one),
        pickle.loads(pickle.dumps(one)),  # noqa: S301 - our own bytes
    ]
    for twin in twins:
        assert twin == one
        assert fields_set(twin) == fields_set(one)
        assert twin.to_json() == one.to_json()


@every_model
@few
@given(data=st.data())
def test_objects_are_read_copied_pickled_and_dumped(model: Any, data: st.DataObject) -> None:
    """Each gives an equal object, with the same fields set in it and in everything inside; camelCase is read, too."""
    one = model(**data.draw(FIELDS[model]))
    assert model.from_json(one.to_json()).to_json() == one.to_json()
    for twin in (
        model.from_json(one.to_json()),
        model.model_validate(camel_form(one.to_dict())),
        copy.deepcopy(one),
        pickle.loads(pickle.dumps(one)),  # noqa: S301 - our own bytes
        model(**one.model_dump()),
    ):
        assert twin == one
        assert fields_set(twin) == fields_set(one)


@every_model
@few
@given(data=st.data())
def test_arguments_are_copied(model: Any, data: st.DataObject) -> None:
    """Construction does not change them, and later changes do not affect the object."""
    given_fields = data.draw(FIELDS[model])
    before = repr(given_fields)
    one = model(**given_fields)
    assert repr(given_fields) == before
    snapshot = one.to_json()
    _empty(given_fields)
    assert one.to_json() == snapshot


def _empty(value: Any) -> None:
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _empty(item)
    if isinstance(value, (dict, list)):
        value.clear()


def test_a_case_is_written_as_people_write_it() -> None:
    """One line of JSON with only the set fields in order; NaN is the text "NaN"."""
    case = LLMTestCase(
        id=7,  # type: ignore[arg-type]
        tools_called=[ToolCall(name="search", input_parameters={"q": NAN})],
        expected_tools=[],
    )
    text = '{"id": "7", "tools_called": [{"name": "search", "input_parameters": {"q": "NaN"}}], "expected_tools": []}'
    assert case.to_json() == text
    assert LLMTestCase.from_json(text).id == "7"


def test_a_case_of_200_levels_round_trips() -> None:
    """Values of 200 levels in a case, in its run and in the calls inside its calls are written and read."""
    value: Any = 1
    for _ in range(199):
        value = [value]
    inner = ToolCall(name="inner", input_parameters={"k": value}, output=[value])
    call = ToolCall(name="outer", input_parameters={"k": value}, execution=Execution(children=[inner]))
    case = LLMTestCase(tools_called=[call], expected_tools=[call], metadata={"k": value}, run=Run(calls=[call]))
    assert LLMTestCase.from_json(case.to_json()) == case


# What is not known


def test_no_calls_and_unknown_calls_differ() -> None:
    """`[]` says that nothing was called or expected; leaving it out, or null, says that it is not known."""
    assert LLMTestCase(tools_called=[], expected_tools=[]).to_dict() == {"tools_called": [], "expected_tools": []}
    assert LLMTestCase().tools_called is None
    assert LLMTestCase.from_json('{"toolsCalled": null}').to_dict() == {"tools_called": None}


@pytest.mark.parametrize(
    ("model", "fields", "problem"),
    [
        pytest.param(LLMTestCase, {"tools": []}, "$.tools: unknown field 'tools'", id="unknown field"),
        pytest.param(LLMTestCase, {"expected_tool": []}, "did you mean 'expected_tools'?", id="nearly a field"),
        pytest.param(
            LLMTestCase,
            {"tools_called": [{"name": "a"}, {"nam": "b"}]},
            "$.tools_called[1].name: is required",
            id="call",
        ),
        pytest.param(LLMTestCase, {"tools_called": "search"}, "expected a list, got 'search'", id="text of calls"),
        pytest.param(LLMTestCase, {"id": True}, "expected a string, got True", id="truth as an id"),
        pytest.param(LLMTestCase, {"metadata": [1]}, "expected an object, got list", id="list as metadata"),
        pytest.param(
            LLMTestCase, {"available_tools": [{"name": "a"}, 3]}, "item 1: an available tool must be", id="tool"
        ),
        pytest.param(Turn, {"role": "system", "content": "x"}, "'user' or 'assistant'", id="role"),
        pytest.param(Turn, {"role": "user"}, "$.content: is required", id="turn without content"),
        pytest.param(ConversationalTestCase, {}, "$.turns: is required", id="conversation without turns"),
        pytest.param(Golden, {}, "exactly one of input, turns, user, got none", id="golden that says nothing"),
        pytest.param(Golden, {"input": "a", "turns": ["a"]}, "user, got input, turns", id="golden of two kinds"),
        pytest.param(Golden, {"turns": []}, "must have at least one text of the user", id="golden without turns"),
        pytest.param(Golden, {"turns": [{"approve": True}]}, "$.turns[0]: must be a text of the user", id="first turn"),
        pytest.param(Golden, {"turns": ["a", 3]}, "$.turns[1]: a turn must be text, a UserTurn", id="turn of a golden"),
        pytest.param(
            Turn,
            {"role": "assistant", "content": "a", "expected_tools": []},
            "$.expected_tools: must be of a turn of the user",
            id="expectation of an answer",
        ),
        pytest.param(Run, {"status": "fine"}, "'ok', 'error', 'interrupted' or 'stopped'", id="status of a run"),
        pytest.param(MLLMTestCase, {"input": [3]}, "part 0 must be text or an MLLMImage, got int", id="part"),
        pytest.param(MLLMTestCase, {"input": 3}, "expected text, or a list of texts and images", id="number as input"),
        pytest.param(MLLMTestCase, {"input": [{"urll": "x"}]}, "did you mean 'url'?", id="image"),
        pytest.param(MLLMImage, {}, "exactly one of url, path, data, got none", id="image of nothing"),
        pytest.param(MLLMImage, {"url": "x", "path": "y"}, "got url, path", id="image given twice"),
        pytest.param(MLLMImage, {"data": "no base64!"}, "bytes or base64 text", id="image data"),
    ],
)
def test_invalid_cases_are_refused(model: Any, fields: dict[str, Any], problem: str) -> None:
    """With JSON path and accepted values, in Python and in JSON."""
    for read in (lambda: model(**fields), lambda: model.from_json(json.dumps(fields))):
        with pytest.raises(InvalidDataError) as caught:
            read()
        assert problem in str(caught.value)
        assert caught.value.problems


# Images


def test_images_are_stored_as_base64() -> None:
    """A case with images is read back from JSON."""
    image = MLLMImage(data=b"\x89PNG", mime_type="image/png")  # type: ignore[arg-type]
    assert image.data == "iVBORw=="
    case = MLLMTestCase(input=["What is this?", image, {"url": "https://example.com/a.png"}])  # type: ignore[list-item]
    assert case.input == ["What is this?", image, MLLMImage(url="https://example.com/a.png")]
    assert MLLMTestCase.from_json(case.to_json()) == case


# Runs


def _run() -> Run:
    tool = ToolCall(name="tool", execution=Execution(executed=True))
    agent = ToolCall(name="agent", execution=Execution(executed=True, children=[tool]))
    failed = ToolCall(name="failed", execution=Execution(status=CallStatus.UNKNOWN_TOOL))
    coded = ToolCall(name="coded", execution=Execution(executed=True, origin=CallOrigin.CODE))
    return Run(
        input="question",
        actual_output="answer",
        calls=[agent, ToolCall(name="plain"), failed, ToolCall(name="transfer"), coded],
        handoffs=[Handoff(call=3, to_agent="other"), Handoff(from_agent="a", to_agent="b")],
        available_tools=[ToolSpec(name="tool")],
        run_id="run 1",
        tags=["t"],
        metadata={"k": 1},
        warnings=["incomplete"],
    )


@pytest.mark.parametrize(
    ("options", "names"),
    [
        pytest.param({}, "agent plain failed coded", id="default"),
        pytest.param({"nested": True}, "agent tool plain failed coded", id="nested"),
        pytest.param({"handoffs": True}, "agent plain failed transfer coded", id="handoffs"),
        pytest.param({"executed_only": True}, "agent coded", id="executed only"),
        pytest.param({"executed_only": True, "nested": True}, "agent tool coded", id="executed only, nested"),
        pytest.param({"code": False}, "agent plain failed", id="without what a program called"),
    ],
)
def test_called_tools_of_a_run(options: dict[str, bool], names: str) -> None:
    """All top-level calls of the model with any status; others on request."""
    called = _run().select_calls(**options)
    assert " ".join(call.name for call in called) == names
    assert _run().to_test_case(**options).tools_called == called


def test_a_run_becomes_a_case() -> None:
    """The case has calls, input, answer, tools, the run itself, and the expectation."""
    run = _run()
    case = run.to_test_case(expected_tools=[ToolCall(name="agent")], name="first")
    assert case.tools_called == run.tools_called
    assert (case.id, case.name, case.input, case.actual_output) == (None, "first", "question", "answer")
    assert (case.tags, case.metadata, case.available_tools) == (["t"], {"k": 1}, [ToolSpec(name="tool")])
    assert case.run == run
    assert LLMTestCase.from_json(case.to_json()) == case


def test_an_empty_run_becomes_a_case_in_which_nothing_was_called() -> None:
    """A run without calls has called nothing, which is known; what it does not say is not set."""
    case = Run().to_test_case()
    assert case.model_fields_set == {"tools_called", "run"}
    assert (case.tools_called, case.expected_tools, Run().status) == ([], None, RunStatus.OK)


def test_unread_field_is_mentioned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first use of a field that no metric reads is a warning at the caller's line; the second is silent."""
    monkeypatch.setattr(toolgrade.cases, "_announced", set())
    text = "^context is stored with its case, but no metric of toolgrade reads it$"
    with pytest.warns(ToolgradeWarning, match=text) as warned:
        LLMTestCase(context=["a"])
    assert [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LLMTestCase(context=["b"])
        LLMTestCase(comments=None)
