"""Lint: every kind of finding with its place, and uncertain cases without a finding."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from toolgrade import (
    Approve,
    ConversationalTestCase,
    DataFileError,
    Golden,
    InvalidDataError,
    LLMTestCase,
    SimulatedUser,
    ToolCall,
    ToolSpec,
    Turn,
    UserTurn,
    write_cases,
)
from toolgrade.expect import (
    Absent,
    AnyOf,
    Approx,
    Contains,
    Exact,
    Expect,
    Forbid,
    Glob,
    Ignore,
    IgnoreCase,
    OneOf,
    Optional,
    Parallel,
    Plan,
    Present,
    Regex,
)
from toolgrade.linting import lint
from toolgrade.linting.findings import LintKind, LintReport
from toolgrade.linting.run import read_tools

BOOK = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "seats": {"type": "integer"},
        "price": {"type": "number"},
        "class": {"enum": ["economy", "business"]},
        "meals": {"type": "array", "items": {"type": "string"}},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [{"name": "book", "parameters": BOOK}, {"name": "look_up"}, {"name": "look_out"}]


def findings_of(expected: Any, tools: Any = TOOLS) -> list[tuple[str, str, str]]:
    """Return kind, path in the case, and message of the findings of one expectation."""
    report = lint([Golden(input="x", expected_tools=expected)], tools)
    return [(one.kind.value, one.path.removeprefix("$[0].expected_tools"), one.message) for one in report]


def read(*values: Any, tools: Any = None) -> LintReport:
    """What is found in a file of these lines."""
    lines = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return lint(io.BytesIO(b"\n".join(lines) + b"\n"), tools)


def booked(*calls: Any, **options: Any) -> list[tuple[str, str, str]]:
    """What is found in a plan of calls."""
    return findings_of(Plan(calls, **options))


def test_nothing_wrong() -> None:
    """A report without findings is an empty sequence with the number of checked goldens."""
    report = read(
        {"id": "a", "input": "x", "expected_tools": [{"name": "book", "args": {"city": "Rome"}}]},
        {"id": "b", "input": "x"},
        {"id": "c", "input": "x", "expected_tools": [], "available_tools": TOOLS},
    )

    assert not report
    assert (list(report), len(report)) == ([], 0)
    assert (report.cases, report.without_expectation, report.without_tools) == (3, 1, 1)
    assert report.summary() == (
        "0 findings in 3 cases; 1 without expected_tools; "
        "1 without available tools, whose names and arguments were not checked"
    )


def test_all_unreadable_lines_are_reported_at_once() -> None:
    """Invalid JSON, invalid cases, and all errors of a plan, with line and path; other lines are read."""
    plan = [
        {"expect": "a", "tmes": 2, "input_parameters": {"x": {"$is": "aprox", "value": 1}}},
        {"expect": "b", "input_parameters": {"y": {"$is": "approx", "value": 1, "relative": 2}}},
    ]
    report = read(b"{", {"expected_tools": {"plan": plan}}, 5, {"turns": []}, {"expected_tools": [{"expect": ""}]})

    assert {one.kind for one in report} == {LintKind.UNREADABLE}
    assert [(one.line, one.path) for one in report] == [
        (1, "$"),
        (2, "$.expected_tools.plan[0].tmes"),
        (2, "$.expected_tools.plan[0].input_parameters.x"),
        (2, "$.expected_tools.plan[1].input_parameters.y.relative"),
        (3, "$"),
        (4, "$.turns"),
        (5, "$.expected_tools[0]"),
    ]
    assert "did you mean 'times'?" in report[1].message
    assert "did you mean 'approx'?" in report[2].message
    assert report.cases == 5


def test_single_alternative_has_no_index_in_paths() -> None:
    """Errors in a choice have the path of the file."""
    bad = {"expect": "a", "tmes": 1}
    report = read({"expected_tools": {"plan": [{"one_of": [bad, [bad]]}]}})

    assert [one.path.removeprefix("$.expected_tools.plan[0].one_of") for one in report] == ["[0].tmes", "[1][0].tmes"]


def test_paths_use_the_spelling_of_the_file() -> None:
    """With other key spellings, bare lists, single alternatives and array items."""
    call = {"expect": "book", "inputParameters": {"city": 5}}
    plan = {"alternatives": [[call], {"plan": [{"oneOf": [call, [{"name": "look_up"}, call]]}, {"parallel": [call]}]}]}
    case = {"input": "x", "expectedTools": plan}
    inside = [
        "$.expectedTools.alternatives[0][0]",
        "$.expectedTools.alternatives[1].plan[0].oneOf[0]",
        "$.expectedTools.alternatives[1].plan[0].oneOf[1][1]",
        "$.expectedTools.alternatives[1].plan[1].parallel[0]",
    ]

    report = read(case, tools=TOOLS)
    in_array = lint(io.BytesIO(json.dumps([{"input": "y"}, case]).encode()), TOOLS)

    assert [one.path for one in report] == [f"{path}.inputParameters.city" for path in inside]
    assert [one.path for one in in_array] == [f"$[1]{path[1:]}.inputParameters.city" for path in inside]
    assert {one.line for one in in_array} == {None}
    assert next(report.lines()).startswith(f"<file>:1: {report[0].path}: 5 does not fit type")


def test_records_too() -> None:
    """Expectations from a recorded trajectory are checked, with their place."""
    call = {"id": "1", "type": "function", "function": {"name": "bok", "arguments": "{}"}}
    report = read(
        {"query": "x", "expected_agent_trajectory": [{"role": "assistant", "tool_calls": [call]}]}, tools=TOOLS
    )

    assert [(one.kind, one.path) for one in report] == [(LintKind.UNKNOWN_TOOL, "$.expected_agent_trajectory[0]")]


def test_duplicate_ids() -> None:
    """The second one is reported with the line of the first; cases without an id are ignored."""
    report = read({"id": "a"}, {"input": "x"}, {"input": "x"}, {"id": "a"}, {"id": "b"})

    assert [(one.kind, one.line, one.path, one.message) for one in report] == [
        (LintKind.DUPLICATE_ID, 4, "$.id", "the id 'a' is already used by line 1")
    ]
    broken = read({"id": "a", "expected_tools": 3}, {"id": "a"}, {"id": "a", "nonsense": 1})
    assert [(one.kind, one.line) for one in broken if one.kind is LintKind.DUPLICATE_ID] == [
        (LintKind.DUPLICATE_ID, 2),
        (LintKind.DUPLICATE_ID, 3),
    ]


@pytest.mark.parametrize(
    ("item", "path", "text"),
    [
        (ToolCall(name="bok"), "[0].name", "expects the tool 'bok', which is not available; did you mean 'book'?"),
        (Expect("pay"), ".plan[0].expect", "expects the tool 'pay', which is not available; there are 'book'"),
        (Expect(Glob("pay_*")), ".plan[0].expect", "expects pay_*, which matches no available tool; there are"),
        (Expect(Regex("x.*")), ".plan[0].expect", "expects /x.*/, which matches no available tool"),
        (
            Forbid("lok_up"),
            ".plan[0].forbid",
            "forbids the tool 'lok_up', which is not available; did you mean 'look_up'",
        ),
    ],
)
def test_unknown_tools(item: Any, path: str, text: str) -> None:
    """Names that no tool has, and matchers that accept none."""
    ((kind, where, message),) = findings_of([item] if isinstance(item, ToolCall) else Plan([item]))

    assert (kind, where) == ("unknown_tool", path)
    assert text in message


def test_unknown_tool_has_no_argument_findings() -> None:
    """Only the unknown tool itself is reported."""
    places = {"city": Ignore()}

    assert booked(tools={"book": places, "look_*": places}) == []
    assert [(kind, path) for kind, path, _ in booked(tools={"bok": places, "pay_*": places})] == [
        ("unknown_tool", ".tools.bok"),
        ("unknown_tool", '.tools["pay_*"]'),
    ]


def test_whose_tools() -> None:
    """Those that are given win over those of the case; tools of a provider have names of their own."""
    case = {"expected_tools": [{"name": "pay"}], "available_tools": [{"name": "pay"}]}

    assert not read(case)
    assert [one.kind for one in read(case, tools=TOOLS)] == [LintKind.UNKNOWN_TOOL]
    assert [one.kind for one in read({**case, "available_tools": []})] == [LintKind.UNKNOWN_TOOL]
    assert findings_of([ToolCall(name="web_search", type="hosted")]) == []


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"city": 5}, {"city": "5 does not fit type 'string'"}),
        ({}, {"": "lacks 'city', which the tool requires"}),
        ({"city": "a", "setas": 1}, {"setas": "the tool does not take 'setas'; did you mean 'seats'?"}),
        ({"city": "a", "class": "first"}, {"class": "\"first\" does not fit enum ['economy', 'business']"}),
        ({"city": "a", "who": {}}, {"who": "lacks 'name', which the tool requires"}),
        ({"city": "a", "meals": ["x", 5]}, {"meals[1]": "5 does not fit type 'string'"}),
    ],
)
@pytest.mark.parametrize("kind", [ToolCall, Expect])
def test_arguments_without_matchers(kind: Any, arguments: Any, wrong: dict[str, str]) -> None:
    """They are checked like those of a call."""
    call = kind(name="book", input_parameters=arguments)
    findings = findings_of(Plan([call]))

    assert {
        where.removeprefix(".plan[0].input_parameters").removeprefix("."): text for _, where, text in findings
    } == wrong
    assert {kind for kind, _, _ in findings} == {"arguments"}


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"seats": "two"}, {".seats": "\"two\" does not fit type 'integer'"}),
        ({"seats": Exact("x")}, {".seats": "\"x\" does not fit type 'integer'"}),
        ({"cty": Ignore()}, {".cty": "the tool does not take 'cty'; did you mean 'city'?"}),
        ({"city": Absent()}, {".city": "lacks 'city', which the tool requires"}),
        ({"who": {"name": Absent()}}, {".who.name": "lacks 'name', which the tool requires"}),
        ({"meals": [Regex("x"), 5]}, {".meals[1]": "5 does not fit type 'string'"}),
        ({"tip": Absent()}, {}),
        *(
            ({place: matcher}, {})
            for place in ("city", "class", "meals", "who")
            for matcher in (Present(), Regex("e.*"))
        ),
        ({"who": {"name": AnyOf(1, 2)}}, {}),
    ],
)
def test_arguments_around_matchers(arguments: dict[str, Any], wrong: dict[str, str]) -> None:
    """They are checked; a matcher fits any schema."""
    findings = booked(Expect("book", {"city": IgnoreCase("a"), **arguments}))

    assert {where.removeprefix(".plan[0].input_parameters"): text for _, where, text in findings} == wrong


def test_arguments_that_are_not_specified() -> None:
    """If others are allowed, none is missing; the named ones are still checked."""
    assert findings_of([ToolCall(name="book")]) == []
    assert booked(Expect("book"), Expect("book", {"seats": 1}, extra_arguments=True)) == []
    assert booked(Expect("book", at={"seats": Exact(1)}), Forbid("book", {"seats": 2})) == []
    assert [path for _, path, _ in booked(Expect("book", at={"seats": Exact("x")}))] == [".plan[0].at.seats"]
    assert [path for _, path, _ in booked(Forbid("book", {"sets": 2}))] == [".plan[0].input_parameters.sets"]


def test_matchers_for_all_calls_of_a_tool_apply() -> None:
    """They are checked in its arguments."""
    tools: Any = {"book": {"city": Ignore(), "seats": Exact("x")}}

    assert [path for _, path, _ in booked(ToolCall(name="book", input_parameters={}), tools=tools)] == [
        ".plan[0].input_parameters"
    ]


def test_names_by_pattern_must_fit_one_tool() -> None:
    """Arguments fit if they fit one of the tools that a name may mean; so they do where a tool has no schema."""
    other = {"name": "book_train", "parameters": {"properties": {"seat": {"type": "integer"}}, "required": ["seat"]}}
    wrong = Expect(Glob("book*"), {"seat": "x"})

    assert booked(Expect(Glob("*"), {"seat": "x"})) == []
    assert findings_of(Plan([Expect(Glob("book*"), {"seat": 1})]), [*TOOLS, other]) == []
    assert [message for _, _, message in findings_of(Plan([wrong]), [other, TOOLS[0]])] == [
        "\"x\" does not fit type 'integer'"
    ]
    assert len(findings_of(Plan([wrong]), [TOOLS[0], other])) == 2


@pytest.mark.parametrize(
    "schema",
    [
        {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}},
        {"anyOf": [{"required": ["b"]}, {"properties": {"a": {"const": 2}}}]},
        {"not": {"properties": {"a": {"const": 1}}}},
        {"minProperties": 2},
    ],
)
def test_rules_about_several_arguments_need_exact_calls(schema: dict[str, Any]) -> None:
    """Without matchers the violation is certain; with one, another value may fit."""
    tools = [{"name": "f", "parameters": schema}]

    assert len(findings_of([ToolCall(name="f", input_parameters={"a": 1})], tools)) == 1
    assert findings_of(Plan([Expect("f", {"a": AnyOf(1, 2), "b": Optional(1)})]), tools) == []
    assert findings_of(Plan([Expect("f", {"a": Present()})]), tools) == []
    assert findings_of(Plan([Expect("f", {"a": 1}, extra_arguments=True)]), tools) == []


def test_schemas_that_cannot_be_used() -> None:
    """They are reported once for each file and decide nothing."""
    tools = [
        {"name": "a", "parameters": {"type": "nonsense"}},
        {"name": "b", "parameters": {"$ref": "https://example.org/x"}},
    ]
    case = {"expected_tools": [{"name": "a", "args": {}}, {"name": "b", "args": {}}], "available_tools": tools}
    report = read(case, case)

    assert [(one.kind, one.line) for one in report] == [(LintKind.SCHEMA, 1), (LintKind.SCHEMA, 1)]
    assert "the tool 'a' cannot be checked against: its input_schema is invalid" in report[0].message


def test_forbidden_expected_calls() -> None:
    """A call that is always forbidden can never score 1; one with other possible values can."""
    rome = ToolCall(name="book", input_parameters={"city": "Rome"})
    forbidden = [
        (Forbid("book"), rome),
        (Forbid(Glob("b*")), Expect("book", {"city": Regex("R.*")})),
        (Forbid("book", {"city": Regex("R.*")}), rome),
        (Forbid("book", {"city": "Rome"}), Expect("book", {"city": "Rome", "seats": 2}, extra_arguments=True)),
        (Forbid(Glob("look_*")), Expect(Regex("look.*"))),
        (Forbid(Glob("x*")), Expect(Glob("x*"), optional=True)),
    ]
    fine = [
        (Forbid("look_up"), rome),
        (Forbid("book", {"city": "Oslo"}), rome),
        (Forbid("book", {"city": "Rome", "seats": 2}), rome),
        (Forbid("book", {"city": "Rome"}), ToolCall(name="book")),
        (Forbid("book", {"city": "Rome"}), Expect("book", {"city": Regex("R.*")})),
        (Forbid("look_up"), Expect(Glob("look_*"))),
    ]

    for forbid, call in forbidden:
        places = [
            (kind, path)
            for kind, path, _ in booked(OneOf([call], [ToolCall(name="zzq")]), forbid)
            if kind != "unknown_tool"
        ]
        assert places == [("contradiction", ".plan[0].one_of[0]")], (forbid, call)
    for forbid, call in fine:
        assert booked(call, forbid) == [], (forbid, call)
    ((_, _, message),) = booked(rome, Forbid("book"))
    assert message == "is forbidden by $[0].expected_tools.plan[1], so a call exactly as expected scores 0"


def test_alternative_forbids_only_for_itself() -> None:
    """Another alternative may expect the call."""
    call = Expect("book")

    assert booked(OneOf([call], [Forbid("book"), Expect("look_up")])) == []
    assert [path for _, path, _ in booked(OneOf([call], [Forbid("book"), call]))] == [".plan[0].one_of[1][1]"]


def test_one_step_and_one_after_the_other() -> None:
    """Calls of one step cannot come after each other; what stands outside can."""
    first, second = Expect("book", label="a"), Expect("look_up", after=["a"])

    assert booked(first, second) == []
    assert booked(first, Parallel(second, Expect("look_out"))) == []
    assert [(kind, path) for kind, path, _ in booked(Parallel(first, second))] == [
        ("contradiction", ".plan[0].parallel[1]")
    ]
    assert [path for _, path, _ in booked(Parallel(OneOf(first, Expect("book")), second))] == [".plan[0].parallel[1]"]


def test_matcher_like_values_in_plain_calls() -> None:
    """They are read as values at any place."""
    arguments = {"city": {"$is": "ignore"}, "list": [1, {"$is": "regex"}]}
    call = ToolCall(name="look_up", input_parameters=arguments, output={"$is": "present"})

    assert [(kind, path) for kind, path, _ in findings_of([call])] == [
        ("literal_matcher", "[0].input_parameters.city"),
        ("literal_matcher", "[0].input_parameters.list[1]"),
        ("literal_matcher", "[0].output"),
    ]
    assert findings_of(Plan([Expect("look_up", {"city": Exact({"$is": "ignore"})})])) == []


def test_matchers_that_do_nothing() -> None:
    """They have no value of their own or at their place."""
    call = Expect(
        "look_up", {"to": {"city": "a"}}, at={"to.town": IgnoreCase(), "to.city": IgnoreCase(), "x": Ignore()}
    )

    assert [(kind, path) for kind, path, _ in booked(call)] == [("no_effect", '.plan[0].at["to.town"]')]


def test_plans_that_ask_for_nothing() -> None:
    """Where every call is optional, and nothing is ruled out, doing nothing scores 1."""
    may = Expect("look_up", optional=True)

    assert [kind for kind, _, _ in booked(may)] == ["asks_nothing"]
    assert [kind for kind, _, _ in booked(OneOf([may], []), allow_extra=True)] == ["asks_nothing"]
    assert (
        booked() == booked(may, allow_extra=False) == booked(may, Forbid("book")) == booked(may, Expect("book")) == []
    )


def test_alternatives_that_are_the_same() -> None:
    """Plans and alternatives of a choice; the second is reported."""
    one, two = Expect("look_up"), Expect("look_out")
    plans = {"alternatives": [{"plan": [{"name": "look_up"}]}, {"plan": [{"name": "look_up"}], "name": "b"}] * 2}

    assert [(kind, path) for kind, path, _ in booked(OneOf(one, two, [one]))] == [
        ("same_alternative", ".plan[0].one_of[2]")
    ]
    assert [path for _, path, _ in findings_of(plans)] == [".alternatives[2]", ".alternatives[3]"]


def test_tools_of_a_file() -> None:
    """A list of tools in any form, or an object with one; all problems at once."""

    def tools(value: Any) -> list[ToolSpec]:
        return read_tools(io.BytesIO(json.dumps(value).encode()))

    assert [tool.name for tool in tools(TOOLS)] == [tool.name for tool in tools({"tools": TOOLS})]
    with pytest.raises(DataFileError) as caught:
        tools({"tools": [{}, {"name": "a"}, 5]})
    assert [problem.path for problem in caught.value.problems] == ["$.tools[0].name", "$.tools[2]"]
    with pytest.raises(DataFileError, match=r"expected a list of tools, got \{'name': 'a'\}"):
        tools({"name": "a"})
    with pytest.raises(DataFileError, match="not JSON"):
        read_tools(io.BytesIO(b"["))
    with pytest.raises(InvalidDataError):
        lint([], [5])


def test_cases_themselves() -> None:
    """Python cases and goldens are checked like an array; called tools do not matter."""
    case = LLMTestCase(id="a", tools_called=[ToolCall(name="x")], expected_tools=[ToolCall(name="bok")])
    report = lint([case, Golden(id="a", input="x")], TOOLS)

    assert [(one.kind.value, one.path) for one in report] == [
        ("unknown_tool", "$[0].expected_tools[0].name"),
        ("duplicate_id", "$[1].id"),
    ]
    assert report.to_dict()["findings"][1] == {
        "line": None,
        "path": "$[1].id",
        "kind": "duplicate_id",
        "message": "the id 'a' is already used by item 1",
    }


def test_many_unknown_names() -> None:
    """Suggestions stay short, whatever the number of tools."""
    tools = [{"name": f"tool_{number}"} for number in range(1_000)]
    plan = Plan([Expect(f"tol_{number}") for number in range(1_000)])
    messages = [message for _, _, message in findings_of(plan, tools)]
    assert len(messages) == 1_000
    assert max(map(len, messages)) < 1_000


@pytest.mark.parametrize("text", ["...", "…", " TODO ", "TBD", "<user_id>", "<the new date>", "{{city}}", "??"])
def test_placeholders(text: str) -> None:
    """In arguments at any depth, in required texts and in the expected answer, but not inside matchers."""
    case = {
        "input": "x",
        "expected_tools": [{"name": "pay", "args": {"to": [{"name": text}], "sum": 3}}],
        "required_texts": ["real", text],
        "expected_output": text,
    }
    paths = ["$.expected_output", "$.required_texts[1]", "$.expected_tools[0].args.to[0].name"]

    assert [(one.kind, one.path) for one in read(case)] == [(LintKind.PLACEHOLDER, path) for path in paths]
    assert booked(Expect("book", {"city": text}))[0][:2] == ("placeholder", ".plan[0].input_parameters.city")
    assert not booked(Expect("book", {"city": Contains(text)}))


@pytest.mark.parametrize("text", ["to be done", "a < b", "Wait...", "<b>bold</b>", "?", "TODO list", "{x}", ""])
def test_texts_that_are_not_placeholders(text: str) -> None:
    """Only a whole text can be one."""
    assert not booked(Expect("book", {"city": text}))


@pytest.mark.parametrize(
    ("called", "has_finding"),
    [
        ([{"status": "error"}], True),
        ([{"status": "error"}, {"status": "ok"}], False),
        ([{"status": "ok"}], False),
        ([{"status": "rejected"}], False),
        ([{"status": "pending"}], False),
        ([], False),
    ],
)
def test_expected_writes_that_failed_in_the_recording(called: list[dict[str, str]], has_finding: bool) -> None:
    """The tool refused the call exactly as it is expected, and never accepted it."""
    call = {"name": "pay", "args": {"sum": 3}}
    calls = [{"name": "pay", "args": {"sum": 4}}, *({**call, "execution": execution} for execution in called)]
    report = read({"input": "x", "expected_tools": [call], "tools_called": calls})

    assert [(one.kind, one.path) for one in report] == [(LintKind.FAILED_CALL, "$.expected_tools[0]")] * has_finding
    if has_finding:
        assert "called #2" in report[0].message


def test_failures_of_a_recording_by_their_texts() -> None:
    """Answers that begin as usual error texts count as failures; reads and calls of any arguments are not checked."""

    def kinds(expected: Any, name: str = "pay") -> list[str]:
        refused = ToolCall(name=name, input_parameters={"sum": 3}, output="Error: full", execution={"status": "ok"})
        case = LLMTestCase(expected_tools=expected, tools_called=[refused])
        return [one.kind.value for one in lint([case])]

    assert kinds([ToolCall(name="pay", input_parameters={"sum": 3})]) == ["failed_call"]
    assert kinds(Plan([Expect(Glob("p*"), {"sum": Approx(3, abs=1)})])) == ["failed_call"]
    assert kinds([ToolCall(name="pay", input_parameters={"sum": 4})]) == []
    assert kinds([ToolCall(name="pay")]) == []
    assert kinds([ToolCall(name="get_sum", input_parameters={"sum": 3})], "get_sum") == []


_BOOKING = UserTurn("Book it.", expected_tools=[ToolCall(name="bock")], required_texts=["TODO"])
_REFUND = SimulatedUser(goal="get a refund", facts={"order": "4711", "reason": "It broke", "paid": [12, 30]})


def test_turns_of_goldens_are_checked_as_goldens(tmp_path: Path) -> None:
    """In memory and in a file, also those of recorded conversations; paths name the turn of the golden."""
    golden = Golden(turns=["Find a flight.", Approve(), _BOOKING])
    turns = [
        Turn(role="user", content="Find a flight."),
        Turn(role="assistant", content="LH1."),
        Turn(role="user", content="Book it.", expected_tools=[ToolCall(name="bock")], required_texts=["TODO"]),
    ]
    expected = [
        ("unstated_turn", "$.turns[0]"),
        ("placeholder", "$.turns[2].required_texts[0]"),
        ("unknown_tool", "$.turns[2].expected_tools[0].name"),
    ]
    file = tmp_path / "goldens.jsonl"
    for one in (golden, ConversationalTestCase(turns=turns)):
        write_cases(file, [one])
        for report in (lint([one], TOOLS), lint(file, TOOLS)):
            assert [(found.kind.value, found.path.replace("$[0]", "$")) for found in report] == expected
            assert report.findings[0].message.startswith("turn 1 states nothing")
            assert report.without_expectation == 0


def test_goldens_that_contradict_themselves() -> None:
    """They are refused by an evaluation, too."""
    golden = Golden(turns=["Find a flight.", UserTurn("Book it.", expected_tools=[ToolCall(name="book", turn=1)])])
    messages = [found.message for found in lint([golden], TOOLS) if found.kind.value == "contradiction"]
    assert [message[:60] for message in messages] == ["a call in the expected_tools of turn 2 must be one of that t"]


@pytest.mark.parametrize(
    "golden",
    [
        Golden(turns=["Find a flight.", "Book it."], expected_tools=[]),
        Golden(turns=["Find a flight.", _BOOKING], expected_tools=[]),
        Golden(turns=[UserTurn("Find a flight.", required_texts=["LH1"]), _BOOKING]),
        Golden(turns=["Find a flight.", "Book it."]),
    ],
)
def test_turns_that_something_states(golden: Golden) -> None:
    """By themselves, by the golden, or no turn at all."""
    assert "unstated_turn" not in {found.kind.value for found in lint([golden], TOOLS)}


def test_simulated_users(tmp_path: Path) -> None:
    """Facts are looked for in all expectations, whatever the spelling; a function is no text to check."""
    calls = [ToolCall(name="book", input_parameters={"city": "order 4711"})]
    golden = Golden(user=_REFUND, expected_tools=calls, required_texts=["it BROKE"])
    file = tmp_path / "goldens.jsonl"
    write_cases(file, [golden])

    for report in (lint([golden], TOOLS), lint(file, TOOLS)):
        assert [(found.kind.value, found.path.replace("$[0]", "$")) for found in report] == [
            ("no_stop", "$.user"),
            ("unused_fact", "$.user.facts.paid"),
        ]
    stopping = SimulatedUser(goal="get a refund", stop="it is confirmed", facts={"paid": [12, 30]})
    assert not lint(
        [Golden(user=stopping, expected_tools=[ToolCall(name="book", input_parameters={"city": "12"})])], TOOLS
    )
    assert not lint([Golden(user=lambda _: None, expected_tools=[])], TOOLS)


def recorded(
    expected: dict[str, Any], *, question: str = "Mail ann@shop.example.", output: Any = "sent", reads: str = "mail"
) -> Any:
    """A case that expects one write, beside a recording of it."""
    return LLMTestCase(
        input=question,
        expected_tools=[ToolCall(name=reads, input_parameters=expected)],
        tools_called=[
            ToolCall(name="look_up", output={"order": "A-1702", "day": "2026-05-20"}),
            ToolCall(name=reads, input_parameters=expected, output=output),
        ],
    )


UNTRACED: list[tuple[dict[str, Any], bool]] = [
    ({"to": "ann@shop.example", "order": "A-1702", "day": "May 20, 2026"}, False),
    ({"subject": "Your order is late"}, True),
    ({"subject": "mail ann@shop.example"}, False),
    ({"day": "2026-05-21"}, True),
    ({"order": "A-1703"}, True),
    ({"amount": 4017.5, "flag": True, "kind": "gold", "no": 3, "note": None}, False),
    ({"amount": 4017513}, True),
    ({"rows": [{"order": "A-1702"}, {"order": "B-9"}]}, True),
]


@pytest.mark.parametrize(("expected", "is_found"), UNTRACED, ids=repr)
def test_values_that_no_run_could_know(expected: dict[str, Any], is_found: bool) -> None:
    """Neither the task nor an output mentions them, so only chance passes."""
    findings = [finding for finding in lint([recorded(expected)]) if finding.kind is LintKind.UNTRACED]
    assert bool(findings) is is_found
    for finding in findings:
        assert finding.path.startswith("$[0].expected_tools[0].input_parameters.")
        assert finding.message.startswith("no task and no output mentions ")
        assert finding.message.endswith("; use Ignore(), or From() if a call returns it")


def test_a_value_that_any_run_of_the_expectation_knew_is_no_finding() -> None:
    """A run that went wrong early saw less; without outputs, and for reads, nothing is question."""
    expected = {"order": "A-1703"}

    def kinds(*cases: LLMTestCase) -> list[str]:
        return [finding.kind.value for finding in lint(cases)]

    assert kinds(recorded(expected), recorded(expected)) == ["untraced"]
    assert kinds(recorded(expected), recorded(expected, question="Mail Ann about A-1703.")) == []
    assert kinds(recorded(expected, question="About A-1703."), recorded(expected)) == []
    assert kinds(recorded(expected, output=None)) == []
    assert kinds(recorded(expected, reads="get_order")) == []


IDLE: list[tuple[dict[str, Any], bool]] = [
    ({"expected_tools": [{"name": "get_order"}], "ends": "ok"}, True),
    ({"expected_tools": [{"name": "get_order"}], "expected_output": {"$is": "not", "value": "sorry"}}, True),
    ({"expected_output": {"$is": "not", "value": "sorry"}}, True),
    ({"expected_tools": [{"name": "get_order"}], "required_texts": ["A-17"]}, False),
    ({"expected_tools": [{"name": "cancel"}], "ends": "ok"}, False),
    ({"expected_tools": [{"name": "get_order"}]}, False),
    ({"expected_tools": [], "ends": "ok"}, False),
]


@pytest.mark.parametrize(("fields", "is_found"), IDLE, ids=repr)
def test_goldens_that_a_run_passes_by_doing_nothing(fields: dict[str, Any], is_found: bool) -> None:
    """Of what only TaskSuccessMetric reads; a golden that expects nothing is meant so."""
    golden = Golden.model_validate({"input": "Where is my order?", **fields})
    assert [finding.kind.value for finding in lint([golden])] == (["asks_nothing"] if is_found else [])
