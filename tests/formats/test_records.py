"""Records: flat objects with the keys of gllm-evals, read into test cases."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import TaskSuccessMetric
from toolgrade.calls import CallStatus, ToolCall, ToolCallType
from toolgrade.cases import LLMTestCase
from toolgrade.errors import InvalidDataError
from toolgrade.expect import Approx, ContainsAll
from toolgrade.formats.names import strip_suffix
from toolgrade.formats.records import case_from_record, looks_like_record


def trajectory(*names: str, output: str | None = "ok", answer: str | None = "Done.") -> list[dict[str, Any]]:
    """Return messages in which these tools are called in sequence."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    for index, name in enumerate(names):
        entry = {"id": f"c{index}", "type": "function", "function": {"name": name, "arguments": '{"n": 1}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [entry]})
        if output is not None:
            messages.append({"role": "tool", "tool_call_id": f"c{index}", "content": output})
    return messages if answer is None else [*messages, {"role": "assistant", "content": answer}]


def called(case: LLMTestCase) -> list[ToolCall]:
    """The called tools, which must be known."""
    assert case.tools_called is not None
    return case.tools_called


def expected(case: LLMTestCase) -> list[ToolCall]:
    """The expected tools, which must be known."""
    assert case.expected_tools is not None
    return case.expected_tools


def warnings_of(case: LLMTestCase) -> list[str]:
    """What the reading of a record left in doubt."""
    return [] if case.run is None else case.run.warnings


def problems(record: Any) -> list[str]:
    """The paths of the problems that keep a record from being read."""
    with pytest.raises(InvalidDataError) as raised:
        case_from_record(record)
    return [problem.path for problem in raised.value.problems]


def test_a_record_with_lists_is_read_whole() -> None:
    """Every key has its place in the case; without a trajectory or a warning there is no run."""
    case = case_from_record(
        {
            "id": 7,
            "name": "sum",
            "query": "15 + 27?",
            "generated_response": "42.",
            "expected_response": "It is 42.",
            "tools_called": [{"name": "calculator", "args": {"expression": "15 + 27"}, "output": "42"}],
            "expected_tools": [{"name": "calculator", "args": {"expression": "15 + 27"}, "output": "42"}],
            "available_tools": [{"name": "calculator", "description": "Adds.", "parameters": {"type": "object"}}],
            "tags": ["math"],
            "metadata": {"seed": 1},
            "latency": 0.5,
            "agent_trajectory": None,
        }
    )

    tool = {"name": "calculator", "input_parameters": {"expression": "15 + 27"}, "output": "42"}
    assert case.to_dict() == {
        "id": "7",
        "name": "sum",
        "input": "15 + 27?",
        "actual_output": "42.",
        "expected_output": "It is 42.",
        "tools_called": [tool],
        "expected_tools": [tool],
        "available_tools": [{"name": "calculator", "description": "Adds.", "input_schema": {"type": "object"}}],
        "tags": ["math"],
        "metadata": {"latency": 0.5, "seed": 1},
    }


def test_a_record_with_trajectories_is_read_whole() -> None:
    """Calls, texts and expectations come from the messages; an expectation has name, arguments and output alone."""
    record = {
        "agent_trajectory": trajectory("add"),
        "expected_agent_trajectory": trajectory("add", "sub", output="3", answer="It is 3."),
    }
    case = case_from_record(record)

    assert (case.input, case.actual_output, case.expected_output) == ("Do it.", "Done.", "It is 3.")
    assert [(entry.name, entry.output, entry.id) for entry in called(case)] == [("add", "ok", "c0")]
    assert [tool.to_dict() for tool in expected(case)] == [
        {"name": name, "input_parameters": {"n": 1}, "output": "3"} for name in ("add", "sub")
    ]
    assert case.run is not None
    assert case.run.calls == case.tools_called
    assert case.run.warnings == []


def test_an_expectation_without_an_answer_has_no_output() -> None:
    """What was not answered demands nothing of the output."""
    case = case_from_record({"expected_agent_trajectory": trajectory("add", output=None)})

    assert expected(case)[0].model_fields_set == {"name", "input_parameters"}


def test_texts_of_the_record_win_over_those_of_the_messages() -> None:
    """The record's own words come first."""
    record = {"agent_trajectory": trajectory("add"), "query": "Q", "generated_response": "A", "expected_response": "E"}
    case = case_from_record({**record, "expected_agent_trajectory": trajectory()})

    assert (case.input, case.actual_output, case.expected_output) == ("Q", "A", "E")


@pytest.mark.parametrize("spelling", ["snake", "camel"])
def test_both_spellings_and_both_vocabularies_work(spelling: str) -> None:
    """Toolgrade's own names and camelCase mean the same as the page's names."""
    record = (
        {"input": "Q", "actual_output": "A", "expected_output": "E", "tools_called": [], "expected_tools": []}
        if spelling == "snake"
        else {"query": "Q", "generatedResponse": "A", "expectedResponse": "E", "toolsCalled": [], "expectedTools": []}
    )

    assert case_from_record(record) == LLMTestCase(
        input="Q", actual_output="A", expected_output="E", tools_called=[], expected_tools=[]
    )


def test_synonyms_that_disagree_are_an_error() -> None:
    """Equal values under two names are accepted, different values are an error."""
    assert case_from_record({"query": "Q", "input": "Q"}).input == "Q"
    assert problems({"query": "Q", "input": "other"}) == ["$.input"]


def test_missing_values_stay_unknown() -> None:
    """An empty list and a trajectory without calls mean no calls; missing keys mean unknown."""
    assert case_from_record({"query": "Q"}).tools_called is None
    assert case_from_record({"query": "Q", "tools_called": None, "expected_tools": []}).tools_called is None
    assert case_from_record({"tools_called": []}).tools_called == []
    case = case_from_record({"agent_trajectory": trajectory(), "expected_agent_trajectory": trajectory()})
    assert (case.tools_called, case.expected_tools, warnings_of(case)) == ([], [], [])


def test_lists_override_trajectories() -> None:
    """The run is still attached, and different tools are reported once for each side."""
    record = {
        "tools_called": [{"name": "mul"}],
        "agent_trajectory": trajectory("add"),
        "expected_tools": [{"name": "sub"}],
        "expected_agent_trajectory": trajectory("add"),
    }
    case = case_from_record(record)
    same = case_from_record({**record, "tools_called": [{"name": "add"}], "expected_tools": [{"name": "add"}]})

    assert ([entry.name for entry in called(case)], [tool.name for tool in expected(case)]) == (["mul"], ["sub"])
    assert case.run is not None
    assert [entry.name for entry in case.run.calls] == ["add"]
    assert [text.partition(":")[0] for text in warnings_of(case)] == ["$.tools_called", "$.expected_tools"]
    assert warnings_of(same) == []
    assert called(same)[0].output is None


def test_every_shape_of_a_tool_is_read() -> None:
    """The name and the arguments are found in each of the usual forms."""
    shapes: list[Any] = [
        ToolCall(name="add", input_parameters={"n": 1}),
        {"name": "add", "args": {"n": 1}},
        {"name": "add", "arguments": '{"n": 1}'},
        {"name": "add", "input_parameters": {"n": 1}},
        {"name": "add", "inputParameters": {"n": 1}},
        {"name": "add", "args": {"n": 1}, "arguments": {"n": 1}},
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"n": 1}'}},
    ]
    case = case_from_record({"tools_called": shapes, "expected_tools": shapes})

    for tool in [*called(case), *expected(case)]:
        assert (tool.name, tool.input_parameters) == ("add", {"n": 1})
    assert called(case)[-1].id == "c1"
    assert called(case)[-1].type is ToolCallType.FUNCTION
    assert expected(case)[-1].type is None
    assert warnings_of(case) == []


def test_more_fields_of_a_tool_are_read() -> None:
    """Ids, types, texts and execution data are read; `tool_call` is not a type."""
    tool = {"name": "add", "tool_call_id": 3, "kind": "MCP", "reasoning": "why", "execution": {"status": "error"}}
    custom = {"type": "custom", "custom": {"name": "shell", "input": "ls"}, "output": "x"}
    case = case_from_record({"tools_called": [tool, {"name": "add", "kind": "tool_call"}, custom]})

    assert [entry.to_dict() for entry in called(case)] == [
        {"name": "add", "type": "mcp", "reasoning": "why", "id": "3", "execution": {"status": "error"}},
        {"name": "add"},
        {"name": "shell", "type": "custom", "input_parameters": {"input": "ls"}, "output": "x"},
    ]
    assert warnings_of(case) == []


def test_a_kind_makes_no_demand() -> None:
    """`kind` is the type of a step; only `type` is validated as a call type."""
    case = case_from_record({"expected_tools": [{"name": "a", "kind": "function"}, {"name": "a", "type": "FUNCTION"}]})

    assert [tool.type for tool in expected(case)] == [None, ToolCallType.FUNCTION]


def test_unknown_types_are_reported_or_refused() -> None:
    """A called tool with an unknown type is kept without it; an expected one is an error."""
    case = case_from_record({"tools_called": [{"name": "a", "type": "robot"}, {"name": "a", "kind": ["x"]}]})

    assert [entry.type for entry in called(case)] == [None, None]
    assert [text.partition(": ")[0] for text in warnings_of(case)] == [
        "$.tools_called[0].type",
        "$.tools_called[1].kind",
    ]
    assert problems({"expected_tools": [{"name": "a", "type": "robot"}]}) == ["$.expected_tools[0].type"]


@pytest.mark.parametrize("key", ["args", "output", "type"])
def test_null_reads_as_not_set_and_says_so(key: str) -> None:
    """Foreign records write null for unknown values; one warning covers all nulls of one kind."""
    tools = [{"name": "a", key: None}, {"name": "b", key: None}]
    case = case_from_record({"tools_called": tools, "expected_tools": tools})

    assert [tool.model_fields_set for tool in [*called(case), *expected(case)]] == [{"name"}] * 4
    assert warnings_of(case) == [
        f"$.{place}[0].{key} (and 1 more): {key!r} is null and was read as not set"
        for place in ("tools_called", "expected_tools")
    ]


def test_an_explicit_tool_call_keeps_its_null() -> None:
    """A `ToolCall` object is toolgrade's own: its `output=None` is a value."""
    case = case_from_record({"expected_tools": [ToolCall(name="a", output=None)]})

    assert "output" in expected(case)[0].model_fields_set
    assert warnings_of(case) == []


def test_unknown_keys_of_a_tool_are_reported() -> None:
    """A call has no field for them, so a warning reports that they are dropped."""
    case = case_from_record({"tools_called": [{"name": "a", "ms": 3}, {"name": "b", "ms": 4}]})

    assert warnings_of(case) == ["$.tools_called[0] (and 1 more): 'ms' is not a field of a call and was left out"]


@pytest.mark.parametrize("arguments", ["{oops", "[1]", 7])
def test_broken_arguments_are_the_agents_or_the_authors_mistake(arguments: object) -> None:
    """In a called tool they are recorded with a warning, in an expected one they are an error."""
    tool = {"name": "a", "args": arguments, "output": "bad"}
    case = case_from_record({"tools_called": [tool]})

    assert called(case)[0].to_dict() == {
        "name": "a",
        "input_parameters": {},
        "execution": {"status": "invalid_arguments", "requested_parameters": arguments, "model_output": "bad"},
    }
    assert warnings_of(case)[0].startswith("$.tools_called[0]: ")
    assert problems({"expected_tools": [tool]}) == ["$.expected_tools[0]"]


def test_broken_arguments_in_an_expected_trajectory_are_an_error() -> None:
    """Broken arguments are an error in expected trajectories and a status in called ones."""
    messages = trajectory("add")
    messages[1]["tool_calls"][0]["function"]["arguments"] = "{oops"
    case = case_from_record({"agent_trajectory": messages})

    assert called(case)[0].execution is not None
    assert called(case)[0].execution.status is CallStatus.INVALID_ARGUMENTS
    assert problems({"expected_agent_trajectory": messages}) == ["$.expected_agent_trajectory[1].tool_calls[0]"]


def test_doubts_about_the_expected_trajectory_reach_the_case() -> None:
    """An expected trajectory has no run, so its warnings are added to the others."""
    orphan = {"role": "tool", "tool_call_id": "x", "content": "?"}
    case = case_from_record({"tools_called": [], "expected_agent_trajectory": [*trajectory("add"), orphan]})

    assert [text.partition(":")[0] for text in warnings_of(case)] == ["$.expected_agent_trajectory[4]"]


def test_all_problems_are_reported_at_once() -> None:
    """Each has its path in the record under the name that the record uses."""
    record = {
        "query": 3,
        "id": [1],
        "tags": "x",
        "metadata": [],
        "other": 1,
        "toolsCalled": [{"args": {}}, 3, {"name": "a", "args": {}, "arguments": {"n": 1}}, {"name": "a", "id": {}}],
        "expected_tools": {"name": "a"},
        "available_tools": [{"name": "a"}, {}],
        "agent_trajectory": [{"role": "oracle"}],
        "expected_agent_trajectory": "[]",
    }

    assert problems(record) == [
        "$.available_tools[1].name",
        "$.toolsCalled[0].name",
        "$.toolsCalled[1]",
        "$.toolsCalled[2]",
        "$.toolsCalled[3].id",
        "$.expected_tools",
        "$.agent_trajectory[0].role",
        "$.expected_agent_trajectory",
        "$.id",
        "$.query",
        "$.tags",
        "$.metadata",
    ]
    assert problems({"available_tools": "a"}) == ["$.available_tools"]
    assert problems({"tools_called": [{"name": "a", "execution": {"status": "odd"}}]}) == [
        "$.tools_called[0].execution.status"
    ]


@pytest.mark.parametrize("record", [None, [], "query", 3])
def test_a_record_is_an_object(record: object) -> None:
    """Anything else is named in the error."""
    with pytest.raises(InvalidDataError, match="a record is an object"):
        case_from_record(record)  # type: ignore[arg-type]


def test_unknown_keys_go_to_metadata() -> None:
    """No field of a record is lost silently, and a key that looks mistyped is reported."""
    case = case_from_record({"query": "Q", "trial": 2, "seed": 1, "metadata": {"seed": 5, "trial": 2}})
    typo = case_from_record({"query": "Q", "tool_called": []})

    assert case.metadata == {"trial": 2, "seed": 5}
    assert warnings_of(case) == ["$: metadata has its own 'seed'; the record's 'seed' was left out"]
    assert typo.metadata == {"tool_called": []}
    assert "did you mean 'tools_called'?" in warnings_of(typo)[0]


def test_records_and_cases_are_distinguished() -> None:
    """One record key is enough; toolgrade's own keys are not record keys."""
    for key in ("query", "generated_response", "expectedResponse", "agent_trajectory", "expectedAgentTrajectory"):
        assert looks_like_record({key: None, "tools_called": []})
    for value in ({"input": "Q", "tools_called": [], 3: 4}, {}, [], None, "query"):
        assert not looks_like_record(value)


def test_names_are_normalized_only_on_request() -> None:
    """`normalize_names` removes a random suffix, with a warning for each change."""
    record = {"tools_called": [{"name": "agent_xg7c"}, {"name": "agent_xg7c"}, {"name": "read_data"}]}

    plain, normalized = case_from_record(record), case_from_record(record, normalize_names=True)

    assert [entry.name for entry in called(plain)] == ["agent_xg7c", "agent_xg7c", "read_data"]
    assert plain.run is None
    assert [entry.name for entry in called(normalized)] == ["agent", "agent", "read_data"]
    assert warnings_of(normalized) == ["renamed 'agent_xg7c' to 'agent' (2 calls)"]


def test_listed_names_decide_where_the_rule_cannot() -> None:
    """Available, expected and passed names never change; `agent_nxle` may be stripped to one of them."""
    record = {
        "agent_trajectory": trajectory("agent_nxle", "parse_ipv4", "lookup_a1b2", "other_nxle"),
        "expected_tools": [{"name": "parse_ipv4"}],
        "available_tools": [{"name": "agent"}],
    }
    case = case_from_record(record, normalize_names=True, known_names=["lookup_a1b2"])

    assert [entry.name for entry in called(case)] == ["agent", "parse_ipv4", "lookup_a1b2", "other_nxle"]
    assert case.run is not None
    assert case.run.calls == case.tools_called
    assert warnings_of(case) == ["renamed 'agent_nxle' to 'agent'"]


def test_trajectory_and_list_are_compared_after_their_names() -> None:
    """A suffix alone makes no difference between the two."""
    record = {"tools_called": [{"name": "agent"}], "agent_trajectory": trajectory("agent_xg7c")}

    assert warnings_of(case_from_record(record, normalize_names=True)) == ["renamed 'agent_xg7c' to 'agent'"]
    assert len(warnings_of(case_from_record(record))) == 1


def test_an_expected_name_with_a_suffix_is_reported_where_it_matters() -> None:
    """It is compared unchanged, so a call of the same tool with another suffix does not match."""
    case = case_from_record(
        {"tools_called": [{"name": "agent_xg7c"}], "expected_tools": [{"name": "agent_a1b2"}, {"name": "parse_ipv4"}]},
        normalize_names=True,
    )

    assert [tool.name for tool in expected(case)] == ["agent_a1b2", "parse_ipv4"]
    assert len(warnings_of(case)) == 2
    assert "expected 'agent_a1b2' and called 'agent_xg7c' differ only" in warnings_of(case)[1]


@pytest.mark.parametrize(
    ("name", "names", "stripped"),
    [
        ("agent_xg7c", [], "agent"),
        ("agent_XG7C", [], "agent"),
        ("my_agent_7abc", [], "my_agent"),
        ("agent_nxle", [], "agent_nxle"),
        ("agent_nxle", ["agent"], "agent"),
        ("agent_1024", [], "agent_1024"),
        ("agent_1024", ["agent"], "agent"),
        ("agent_xg7c", ["agent_xg7c"], "agent_xg7c"),
        ("agent_nxle", ["agent", "agent_nxle"], "agent_nxle"),
        ("agent_xg7", [], "agent_xg7"),
        ("agent_xg7cd", [], "agent_xg7cd"),
        ("agent-xg7c", [], "agent-xg7c"),
        ("agent_xg7\N{LATIN SMALL LETTER E WITH ACUTE}", [], "agent_xg7\N{LATIN SMALL LETTER E WITH ACUTE}"),
        ("_xg7c", [], "_xg7c"),
        ("_xg7c", [""], "_xg7c"),
        ("xg7c", [], "xg7c"),
        ("agent_a1b2_xg7c", [], "agent_a1b2"),
        ("", [], ""),
    ],
)
def test_the_suffix_rule(name: str, names: list[str], stripped: str) -> None:
    """The last underscore and four letters and digits are removed, or as much as leaves a listed name."""
    assert strip_suffix(name, names) == stripped


@given(name=st.text(max_size=12), names=st.lists(st.text(max_size=12)))
def test_stripping_keeps_listed_names_and_a_nonempty_rest(name: str, names: list[str]) -> None:
    """The result is a prefix, empty only for an empty name; listed names stay."""
    stripped = strip_suffix(name, names)

    assert name.startswith(stripped)
    assert bool(stripped) == bool(name)
    assert name not in names or stripped == name


def test_what_the_agent_must_say_and_do() -> None:
    """A record states texts, the end, turns and a matcher of the answer, and records what they are compared with."""
    record = {
        "query": "Book.",
        "expectedResponse": {"$is": "contains_all", "values": ["12A", {"$is": "approx", "value": 120}]},
        "requiredTexts": ["120"],
        "ends": "ok",
        "agentTexts": ["120 EUR?", "Seat 12A is booked for 120.00 EUR."],
        "ended": True,
        "tools_called": [{"name": "book", "args": {"seat": "12a"}, "turn": 2}],
        "expected_tools": [{"name": "book", "args": {"seat": "12A"}, "turn": 2}],
    }
    case = case_from_record(record)

    assert not case.metadata
    assert case.expected_output == ContainsAll("12A", Approx(120))
    assert (case.required_texts, case.ends, case.ended) == (["120"], "ok", True)
    assert LLMTestCase.from_json(case.to_json()) == case
    result = TaskSuccessMetric().measure(case)
    assert result.score == 1
    assert {"required_texts", "ended", "answer"} <= result.parts.keys()
    assert TaskSuccessMetric().measure(case_from_record({**record, "ended": False})).parts["ended"] == 0


def test_wrong_statements_are_named() -> None:
    """Each at its key, a broken matcher at its own place."""
    wrong = {"query": "x", "expected_response": {"$is": "contain"}, "required_texts": "a", "ends": "soon"}

    assert sorted(problems(wrong)) == ["$.ends", "$.expected_response", "$.required_texts"]
    assert problems({"query": "x", "expected_output": {"$is": "contains"}}) == ["$.expected_output"]
    assert problems({"query": "x", "expected_output": {"text": "a"}}) == ["$.expected_output"]


def test_texts_and_turns_of_a_trajectory() -> None:
    """The run has all texts of the agent, and each call its turn; an expected trajectory states no turns."""
    messages = [
        *trajectory("look", answer="Found it. Book?"),
        {"role": "user", "content": "Yes."},
        *trajectory("book", answer="Booked.")[1:],
    ]
    case = case_from_record({"agent_trajectory": messages, "expected_agent_trajectory": messages})

    assert case.run is not None
    assert case.run.agent_texts == ["Found it. Book?", "Booked."]
    assert [call.turn for call in called(case)] == [1, 2]
    assert [call.turn for call in expected(case)] == [None, None]
