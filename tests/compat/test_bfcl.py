"""BFCL's possible answers as expectations: small examples, and all of the shared data.

The data are beside the repository (`TOOLGRADE_SHARED` says where else); without them those tests are skipped. What is
demanded of them is written a second time, without the library: which answers BFCL calls right, and which are wrong.
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import ROOT
from toolgrade import DataFileError, InvalidDataError, LLMTestCase, ToolCall, ToolgradeWarning
from toolgrade.compat.bfcl import (
    cases_from_bfcl,
    metric,
    read_possible_answers,
    read_turns,
    tools_from_bfcl,
)
from toolgrade.errors import ConfigurationError
from toolgrade.expect import Plan
from toolgrade.expect.json_form import expectation_json, read_expectation

DATA = Path(os.environ.get("TOOLGRADE_SHARED") or ROOT.parent / "shared") / "data" / "bfcl"
SINGLE = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_parallel",
    "live_parallel_multiple",
)
MOST = 12  # combinations of acceptable values that are tried of one answer

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="BFCL's files are not here; set TOOLGRADE_SHARED to the folder of shared data"
)

Calls = list[tuple[str, dict[str, Any]]]


def read(category: str, folder: str = "") -> list[Any]:
    """The records of a file, as `json` reads them."""
    text = (DATA / folder / f"BFCL_v4_{category}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def score(plan: Any, calls: Calls, *, partial_credit: bool = True) -> float:
    """What calls score against an expectation."""
    called = [ToolCall(name=name, input_parameters=arguments) for name, arguments in calls]
    case = LLMTestCase(tools_called=called, expected_tools=plan)
    return metric(partial_credit=partial_credit).measure(case).score


def plan_of(arguments: dict[str, Any]) -> Plan:
    """The expectation of one call of `f`."""
    return read_possible_answers({"ground_truth": [{"f": arguments}]})


def spelled(value: Any) -> Iterator[Any]:
    """Return every value that a possible answer allows: an object has a list for each key."""
    if isinstance(value, dict):
        yield from choices(value)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        yield from map(list, itertools.product(*(list(choices(item)) for item in value)))
    else:
        yield value


def choices(lists: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Every object whose values are acceptable, those that leave out what may be left out among them."""
    options: list[list[dict[str, Any]]] = []
    for key, values in lists.items():
        named = [{key: one} for value in values if value != "" for one in spelled(value)]
        options.append([*named, *([{}] if "" in values or not values else [])])
    for parts in itertools.product(*options):
        yield {key: value for part in parts for key, value in part.items()}


def answers(truth: list[Any]) -> Iterator[Calls]:
    """Right answers to a question, at most `MOST`: every call's first choices first."""
    each = [[(name, chosen) for chosen in choices(lists)] for call in truth for name, lists in call.items()]
    return (list(calls) for calls in itertools.islice(itertools.product(*each), MOST))


def other(value: Any) -> Any:
    """Another value of the same type, that no answer in the data accepts."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 7919
    if isinstance(value, str):
        return value + "zzq"
    if isinstance(value, list):
        return [*value, other(value[0]) if value else "zzq"]
    return {**value, "zzq": 1} if isinstance(value, dict) else "zzq"


def mutants(truth: list[Any], calls: Calls) -> Iterator[tuple[str, Calls]]:
    """Return wrong answers made from a right one, each with its mistake."""
    for index, (name, arguments) in enumerate(calls):
        lists = truth[index][name]

        def put(*call: tuple[str, dict[str, Any]], index: int = index) -> Calls:
            return [*calls[:index], *call, *calls[index + 1 :]]

        yield "missing call", put()
        yield "extra call", [*calls, (name, arguments)]
        yield "wrong tool", put((name + "zzq", arguments))
        yield "extra argument", put((name, {**arguments, "zzq": 1}))
        for key, value in arguments.items():
            rest = {one: remaining for one, remaining in arguments.items() if one != key}
            if "" not in lists[key]:
                yield f"dropped {key}", put((name, rest))
            changed = other(value)
            if not (isinstance(value, bool) and changed in lists[key]):  # both truth values may be accepted
                yield f"changed {key}", put((name, {**rest, key: changed}))
    yield "another call", [*calls, ("zzq", {})]


@pytest.mark.any_version
@needs_data
@pytest.mark.parametrize("category", SINGLE)
def test_every_right_answer_of_the_data_scores_1_and_every_wrong_one_less(category: str) -> None:
    """Whatever combination of acceptable values an answer has, it is right; and one change makes it wrong."""
    goldens = cases_from_bfcl(
        DATA / f"BFCL_v4_{category}.jsonl", DATA / "possible_answer" / f"BFCL_v4_{category}.jsonl"
    )
    truths = {record["id"]: record["ground_truth"] for record in read(category, "possible_answer")}

    wrong: list[Any] = []
    calls_made = 0
    for golden in goldens:
        truth = truths[golden.id]
        right = list(answers(truth))
        wrong += [(golden.id, calls) for calls in right if score(golden.expected_tools, calls) != 1]
        for what, calls in mutants(truth, right[0]):
            calls_made += 1
            wrong += [(golden.id, what, calls)] if score(golden.expected_tools, calls) == 1 else []

    assert [golden.id for golden in goldens] == [record["id"] for record in read(category)]
    assert calls_made > 5 * len(goldens)
    assert wrong == []


def truth_lists(lists: list[tuple[str, list[Any]]]) -> list[tuple[str, list[bool]]]:
    """The truth values in lists of values: Python calls 1 and True equal."""
    return [(name, [value for value in values if isinstance(value, bool)]) for name, values in lists]


@pytest.mark.any_version
@needs_data
def test_irregular_values_of_the_data() -> None:
    """Counts of irregular value lists by kind, so that new kinds are noticed."""
    lists = [
        (record["id"], values)
        for category in SINGLE
        for record in read(category, "possible_answer")
        for call in record["ground_truth"]
        for arguments in call.values()
        for values in arguments.values()
    ]
    empty = Counter(name for name, values in lists if not values)

    assert len(lists) == 5785
    assert empty == {"live_simple_106-63-0": 2, "live_simple_112-68-0": 5}  # an empty list was meant as the value
    assert sum(values == [""] for _, values in lists) == 60  # nothing but leaving it out, or the empty text
    assert sum({} in values for _, values in lists) == 1
    assert sum(values.count(True) > 0 < values.count(False) for _, values in truth_lists(lists)) == 8  # either is right


@pytest.mark.any_version
@needs_data
def test_every_call_of_the_multi_turn_data_is_read() -> None:
    """Each turn is a golden; its calls as Python runs them score 1, and less with a changed argument."""
    goldens = cases_from_bfcl(
        DATA / "BFCL_v4_multi_turn_base.jsonl",
        DATA / "possible_answer" / "BFCL_v4_multi_turn_base.jsonl",
        function_docs=DATA / "multi_turn_func_doc",
    )
    turns = [
        (f"{record['id']}/{number}", texts)
        for record in read("multi_turn_base", "possible_answer")
        for number, texts in enumerate(record["ground_truth"], start=1)
    ]
    assert [golden.id for golden in goldens] == [name for name, _ in turns]
    docs = {golden.id: {tool.name: tool for tool in golden.available_tools or ()} for golden in goldens}

    wrong: list[str] = []
    for golden, (name, texts) in zip(goldens, turns, strict=True):
        calls = [calls_made(text, docs[name]) for text in texts]
        wrong += [name] if score(golden.expected_tools, calls) != 1 else []
        wrong += [f"{name} extra"] if score(golden.expected_tools, [*calls, ("zzq", {})]) == 1 else []
        for index, (tool, arguments) in enumerate(calls):
            changed = [{**arguments, key: other(value)} for key, value in arguments.items()]
            for broken in [*changed, {**arguments, "zzq": 1}]:
                mutant = [*calls[:index], (tool, broken), *calls[index + 1 :]]
                wrong += [f"{name} {tool} {broken}"] if score(golden.expected_tools, mutant) == 1 else []

    assert sum(len(texts) for _, texts in turns) == 1142
    assert wrong == []


def calls_made(text: str, tools: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A call by Python itself: a function of the tool's name that gives back what it was called with."""

    def function(name: str) -> Any:
        names = list(tools[name].input_schema["properties"])
        return lambda *values, **named: (name, {**dict(zip(names, values, strict=False)), **named})

    call: tuple[str, dict[str, Any]] = eval(text, {"__builtins__": {}}, {name: function(name) for name in tools})  # noqa: S307 - calls of the data, by hand
    return call


@pytest.mark.any_version
@needs_data
def test_all_schemas_of_the_data_are_valid() -> None:
    """BFCL's descriptions are valid JSON Schemas after translation."""
    from jsonschema import Draft202012Validator

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tools = [
            tool for category in SINGLE for record in read(category) for tool in tools_from_bfcl(record["function"])
        ]

    assert len(tools) > 2000
    for tool in tools:
        Draft202012Validator.check_schema(tool.input_schema or {})
        assert '"dict"' not in json.dumps(tool.input_schema).replace('"default": "dict"', "")


@pytest.mark.parametrize(
    ("values", "right", "wrong"),
    [
        ([5], [5, 5.0], [True, "5", 6, None]),
        ([True], [True], [1, "true", False]),
        ([4.5, 5], [4.5, 5], [4]),
        (["New York, NY"], ["new york NY", "New_York/ny", "New-York,N.Y."], ["New York", "", "New York; NY"]),
        (['it\'s "x"'], ["it's 'x'", 'it"s "x"', 'IT\'S "X"'], ["its x"]),
        ([["A b", "c"]], [["a-B", "C"]], [["c", "a b"], ["a b"], "a b, c"]),
        ([None], [None], ["None", 0]),
        ([{"a": [1, 2], "b": ["", "x"]}], [{"a": 1}, {"a": 2, "b": "X"}], [{"b": "x"}, {"a": 3}, {"a": 1, "c": 1}, 1]),
        ([[{"a": ["x"]}, {"a": [2]}]], [[{"a": "X"}, {"a": 2}]], [[{"a": 2}, {"a": "x"}], [{"a": "x"}], {"a": "x"}]),
        ([{}], [{}], [{"a": 1}, []]),
        ([{"a": 5, "b": "x"}], [{"a": 5, "b": "X"}], [{"a": [5], "b": "x"}, {"a": 6, "b": "x"}]),
        ([[{"a": {"b": 5}}]], [[{"a": {"b": 5}}]], [[{"a": {"b": 6}}]]),
    ],
)
def test_values_accepted_by_a_list(values: list[Any], right: list[Any], wrong: list[Any]) -> None:
    """Numbers by value, texts without case and some characters, objects by a list for each key."""
    plan = plan_of({"x": values, "y": [1]})

    assert [score(plan, [("f", {"x": value, "y": 1})]) for value in right] == [1] * len(right)
    assert all(score(plan, [("f", {"x": value, "y": 1})]) < 1 for value in wrong)
    assert score(plan, [("f", {"y": 1})]) < 1


@pytest.mark.parametrize(
    ("values", "right", "wrong"),
    [
        (["", "fahrenheit"], [{"x": "Fahrenheit"}, {}, {"x": ""}], [{"x": "celsius"}]),
        ([2, ""], [{"x": 2}, {}], [{"x": ""}, {"x": 3}]),
        ([""], [{}, {"x": ""}], [{"x": "a"}, {"x": 1}]),
        (["", None], [{}, {"x": None}, {"x": ""}], [{"x": 0}]),
        ([], [{}, {"x": []}], [{"x": ["a"]}, {"x": None}]),
    ],
)
def test_optional_arguments(values: list[Any], right: list[Any], wrong: list[Any]) -> None:
    """The empty text marks an argument as optional; for texts it is also a value."""
    plan = plan_of({"x": values, "y": [1]})

    assert [score(plan, [("f", {**arguments, "y": 1})]) for arguments in right] == [1] * len(right)
    assert all(score(plan, [("f", {**arguments, "y": 1})]) < 1 for arguments in wrong)


@pytest.mark.parametrize(
    ("described", "values", "accepted"),
    [
        ({"type": "string"}, [""], True),
        ({"type": "string", "enum": ["a", "b"]}, ["", "a"], False),
        ({"type": "string", "enum": ["a", ""]}, ["", "a"], True),
        ({"type": "integer"}, [""], False),
        ({"type": "dict", "properties": {"y": {"type": "float"}}}, [{"y": [""]}], False),
        ({"type": "array", "items": {"type": "dict", "properties": {"y": {"type": "float"}}}}, [[{"y": [""]}]], False),
    ],
)
def test_empty_text_with_a_known_function(described: Any, values: list[Any], accepted: bool) -> None:
    """It is a value only if the function accepts it; omission is always right."""
    function = {"name": "f", "parameters": {"type": "dict", "properties": {"x": described}}}
    plan = read_possible_answers({"ground_truth": [{"f": {"x": values}}]}, [function])
    inside = values[0]
    inputs: Any = [{"y": ""}] if isinstance(inside, list) else {"y": ""} if isinstance(inside, dict) else ""
    lacking: Any = {"x": [{}]} if isinstance(inside, list) else {"x": {}} if isinstance(inside, dict) else {}

    assert (score(plan, [("f", {"x": inputs})]) == 1) is accepted
    assert score(plan, [("f", lacking)]) == 1


def test_calls_are_counted() -> None:
    """Parallel calls match in any order and once each; extra and missing calls are wrong, with partial credit."""
    plan = read_possible_answers({"ground_truth": [{"a.b": {"x": [1]}}, {"a.b": {"x": [1, 2]}}]})

    assert score(plan, [("a.b", {"x": 2}), ("a.b", {"x": 1})]) == 1
    assert score(plan, [("a.b", {"x": 1}), ("a.b", {"x": 1})]) == 1
    assert score(plan, [("a.b", {"x": 2}), ("a.b", {"x": 2})]) == 0.5
    assert score(plan, [("a.b", {"x": 1})]) == 0.5
    assert score(plan, [("a.b", {"x": 1}), ("a.b", {"x": 2}), ("c", {})]) == pytest.approx(2 / 3)
    assert score(plan, [("a.b", {"x": 1}), ("a.b", {"x": 2}), ("c", {})], partial_credit=False) == 0


def test_expectations_are_written_and_read() -> None:
    """What was read has a JSON form that reads as the same."""
    plan = plan_of({"a": ["", "x y"], "b": [{"c": [1, 2]}], "d": [["it's"]]})

    assert read_expectation(json.loads(json.dumps(expectation_json(plan)))) == plan


@pytest.mark.parametrize(
    ("record", "paths"),
    [
        ({}, ["$.ground_truth"]),
        ({"ground_truth": [{"f": {"x": 1, "y": [1], "z": "a"}}]}, ["$.ground_truth[0].f.x", "$.ground_truth[0].f.z"]),
        ({"ground_truth": [{}, "f()", {"f": []}]}, [f"$.ground_truth[{index}]" for index in range(3)]),
    ],
)
def test_an_answer_that_is_none(record: dict[str, Any], paths: list[str]) -> None:
    """All problems are reported at once."""
    with pytest.raises(InvalidDataError) as caught:
        read_possible_answers(record)

    assert [problem.path for problem in caught.value.problems] == paths


FUNCTIONS = [
    {
        "name": "cp",
        "description": "Copies.",
        "parameters": {
            "type": "dict",
            "properties": {
                "source": {"type": "string"},
                "target": {"type": "string"},
                "times": {"type": "integer", "default": 1},
                "mode": {"type": "string", "default": "None"},
            },
            "required": ["source", "target"],
        },
    },
    {"name": "files.ls", "parameters": {"type": "dict", "properties": {}, "required": []}},
]


def test_texts_of_calls() -> None:
    """Positional arguments get names; defaults may be omitted or present."""
    first, second, third = read_turns(
        {"ground_truth": [["cp('a', target='b')", "files.ls()"], ["cp('a','b',1)"], []]}, FUNCTIONS
    )
    files = ("files.ls", {})

    assert score(first, [("cp", {"source": "a", "target": "b"}), files]) == 1
    assert score(first, [("cp", {"source": "a", "target": "b", "times": 1, "mode": None}), files]) == 1
    assert score(first, [("cp", {"source": "a", "target": "b", "times": 2}), files]) < 1
    assert score(first, [("cp", {"source": "a"}), files]) < 1
    assert score(first, [("cp", {"source": "a", "target": "b"})]) == 0.5
    assert score(second, [("cp", {"source": "a", "target": "b"})]) == 1
    assert score(third, []) == 1
    assert score(third, [files]) == 0


@pytest.mark.parametrize(
    ("text", "reply_text"),
    [
        ("cp('a', 'b', 1, 'x', 'y')", "5 positional arguments, but 'cp' has 4 parameters"),
        ("mv('a')", "'mv' has no description"),
        ("cp('a', source='b')", "has the argument 'source' twice"),
        ("cp(**{'source': 'a'})", "has .* arguments; write them out"),
        ("cp(source=open('x'))", "not a literal"),
        ("cp(*['a'])", "not a literal"),
        ("cp", "expected a call of a named function"),
        ("(lambda: 1)()", "expected a call of a named function"),
        ("cp(", "expected a Python expression"),
        (1, "expected the text of a call"),
    ],
)
def test_invalid_call_texts_are_refused(text: object, reply_text: str) -> None:
    """Nothing is run or guessed; the error has the position."""
    with pytest.raises(InvalidDataError, match=reply_text) as caught:
        read_turns({"ground_truth": [["files.ls()", text]]}, FUNCTIONS)

    assert [problem.path for problem in caught.value.problems] == ["$.ground_truth[0][1]"]


def test_types_are_translated_where_they_are_types() -> None:
    """An argument named `type` stays; types are translated at any depth, and unknown ones are reported."""
    described = {
        "type": "dict",
        "properties": {
            "type": {"type": "float", "description": "x"},
            "at": {"type": "tuple", "items": {"type": "any"}},
            "none": {"type": "string", "enum": ["a"], "default": "None"},
            "more": {"type": "dict", "properties": {"n": {"type": "float"}}, "additionalProperties": {"type": "dict"}},
        },
        "required": ["type"],
    }
    (tool,) = tools_from_bfcl([{"name": "a.b", "description": "d", "parameters": described}])

    assert tool.to_dict() == {
        "name": "a.b",
        "description": "d",
        "input_schema": {
            "type": "object",
            "properties": {
                "type": {"type": "number", "description": "x"},
                "at": {"type": "array", "items": {}},
                "none": {"type": ["string", "null"], "enum": ["a", None], "default": "None"},
                "more": {
                    "type": "object",
                    "properties": {"n": {"type": "number"}},
                    "additionalProperties": {"type": "object"},
                },
            },
            "required": ["type"],
            "additionalProperties": False,
        },
    }
    with pytest.warns(ToolgradeWarning, match="the type 'HashMap' of an argument of 'j'"):
        (tool,) = tools_from_bfcl([{"name": "j", "parameters": {"type": "HashMap"}}])
    assert tool.input_schema == {"additionalProperties": False}


def question(name: str, *turns: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    """A question as BFCL writes it."""
    return {"id": name, "question": list(turns), **more}


def user(text: str) -> dict[str, str]:
    """What the user says."""
    return {"role": "user", "content": text}


def test_goldens() -> None:
    """A golden has the user's text, the tools, and the expectation; each turn is its own golden."""
    single, *turns, only = cases_from_bfcl(
        [
            question("s", [{"role": "system", "content": "Be brief."}, user("Copy.")], function=FUNCTIONS),
            question("m", [user("Copy.")], [user("List.")], involved_classes=["Files"], excluded_function=["cp"]),
            question("o", [user("List.")], involved_classes=["Files"]),
        ],
        [
            {"id": "m", "ground_truth": [["files.ls()"], ["files.ls()", "files.ls()"]]},
            {"id": "o", "ground_truth": [["files.ls()"]]},
            {"id": "s", "ground_truth": [{"cp": {"source": ["a"], "target": ["b"]}}]},
        ],
        function_docs={"Files": FUNCTIONS},
    )

    assert (single.id, single.input) == ("s", "Copy.")
    assert [message["role"] for message in single.metadata["messages"]] == ["system", "user"]
    assert [tool.name for tool in single.available_tools or ()] == ["cp", "files.ls"]
    assert [(golden.id, golden.input) for golden in turns] == [("m/1", "Copy."), ("m/2", "List.")]
    assert [golden.metadata for golden in turns] == [{"bfcl_id": "m", "turn": number} for number in (1, 2)]
    assert [tool.name for tool in turns[0].available_tools or ()] == ["files.ls"]
    assert [len(golden.expected_tools or ()) for golden in turns] == [1, 2]
    assert only.id == "o/1"


def test_all_problems_of_files_are_reported_at_once(tmp_path: Path) -> None:
    """Missing and invalid answers, and different numbers of turns; each with its place."""
    questions = [question(name, [user("x")], function=[]) for name in ("a", "b", "c")]
    inputs = [{"id": "b", "ground_truth": 1}, {"id": "c", "ground_truth": [[], []]}]
    for name, records in (("q.jsonl", questions), ("a.jsonl", inputs)):
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")

    with pytest.raises(DataFileError) as caught:
        cases_from_bfcl(tmp_path / "q.jsonl", tmp_path / "a.jsonl")

    assert str(caught.value).replace(str(tmp_path), "").splitlines() == [
        "/q.jsonl:1: $.id: 'a' has no answer",
        "/a.jsonl:1: $.ground_truth: expected a list of calls, got 1",
        "/a.jsonl:2: $.ground_truth: has 2 turns, but the question has 1",
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A line that is not an object is an error with its line number; missing functions are requested."""
    (tmp_path / "q.jsonl").write_text('{"id": "a"}\n[1\n5\n', encoding="utf-8")

    with pytest.raises(DataFileError) as caught:
        cases_from_bfcl(tmp_path / "q.jsonl", [])
    assert [problem.line for problem in caught.value.problems] == [2, 3]
    with pytest.raises(ConfigurationError, match=r"function_docs does not contain the functions of 'Files'"):
        cases_from_bfcl([question("m", [user("x")], involved_classes=["Files"])], [{"id": "m", "ground_truth": [[]]}])
    with pytest.raises(DataFileError, match=r"questions\[0\]: \$\.function: expected a list of functions"):
        cases_from_bfcl([question("m", [user("x")], function=[{}])], [{"id": "m", "ground_truth": [[]]}])
