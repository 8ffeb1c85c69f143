"""The published JSON Schemas: they are those of the readers, accept what toolgrade writes, and refuse what it refuses.

After an intended change, write them anew: `TOOLGRADE_UPDATE_SCHEMAS=1 pytest tests/schemas`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

import toolgrade.schemas
from command_runner import RUNNER
from plan_drawing import plans
from processes import ROOT
from strategies import (
    case_fields,
    conversation_fields,
    finite_json_values,
    golden_fields,
    image_case_fields,
    run_fields,
)
from toolgrade import ConversationalTestCase, Golden, InvalidDataError, LLMTestCase, MLLMTestCase, read_cases
from toolgrade.cli.main import main
from toolgrade.dataset import read_any_case, read_golden, read_goldens
from toolgrade.expect import (
    AnyOf,
    Approx,
    Contains,
    ContainsAll,
    DateEqual,
    Exact,
    Expect,
    Glob,
    Ignore,
    Normalized,
    Plan,
    Regex,
    SameMeaning,
    Schema,
    Unordered,
)
from toolgrade.expect.matcher import MATCHERS
from toolgrade.formats import case_from_record
from toolgrade.schemas import KINDS
from toolgrade.schemas.build import build

FOLDER = Path(toolgrade.schemas.__file__).parent
SCHEMAS = {kind: build(kind) for kind in KINDS}
VALIDATORS = {kind: Draft7Validator(schema) for kind, schema in SCHEMAS.items()}
READERS: dict[str, Any] = {
    "cases": lambda value: read_any_case(value, "line 1"),
    "goldens": lambda value: read_golden(value, "line 1"),
    "records": case_from_record,
}


def problems(kind: str, value: object) -> list[str]:
    """Return what a schema has to say of a value."""
    return [f"{error.json_path}: {error.message}" for error in VALIDATORS[kind].iter_errors(value)]


def is_read(kind: str, value: Any) -> bool:
    """Whether the reader accepts a value."""
    try:
        READERS[kind](value)
    except InvalidDataError:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_files_are_those_of_the_readers(kind: str) -> None:
    """A field, a matcher or a key of plans that changes changes its schema."""
    path = FOLDER / f"{kind}.schema.json"
    schema = build(kind)
    if os.environ.get("TOOLGRADE_UPDATE_SCHEMAS"):
        path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    # Values are compared: releases of pydantic differ in the order of keys, and in 0 and 0.0.
    assert json.loads(path.read_text(encoding="utf-8")) == schema
    Draft7Validator.check_schema(schema)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_prints_them(kind: str) -> None:
    """Byte by byte; other names are an error with the right ones."""
    result = RUNNER.invoke(main, ["schema", kind])

    assert (result.exit_code, result.stdout) == (0, (FOLDER / f"{kind}.schema.json").read_text(encoding="utf-8"))
    assert RUNNER.invoke(main, ["schema", "case"]).exit_code == 2


# What toolgrade writes is valid


@given(case_fields, conversation_fields, golden_fields, image_case_fields)
def test_what_toolgrade_writes_is_valid(
    case: dict[str, Any], conversation: dict[str, Any], golden: dict[str, Any], images: dict[str, Any]
) -> None:
    """Alone, as a line, and in an array with others."""
    written = [
        LLMTestCase(**case).to_dict(),
        ConversationalTestCase(**conversation).to_dict(),
        MLLMTestCase(**images).to_dict(),
    ]
    # A case whose image input is not a list is read as a case without images, which has no images elsewhere.
    written = [one for one in written if is_read("cases", one)]

    assert [problems("cases", one) for one in written] == [[]] * len(written)
    assert problems("cases", written) == []
    assert problems("goldens", [Golden(**golden).to_dict()]) == []


@given(plans())
def test_plans_are_valid(plan: Plan) -> None:
    """In cases and in goldens."""
    case = LLMTestCase(expected_tools=plan).to_dict()
    golden = Golden(input="q", expected_tools=plan).to_dict()

    assert problems("cases", case) == problems("goldens", golden) == []


EXAMPLES = {
    "any_of": AnyOf(1, Approx(2, abs=1)),
    "approx": Approx(100, rel=0.01),
    "contains": Contains("x"),
    "contains_all": ContainsAll("x", "y"),
    "date": DateEqual("2026-01-01", formats=["%d.%m.%Y"]),
    "exact": Exact({"$is": 1}),
    "glob": Glob("a*"),
    "ignore": Ignore(),
    "normalized": Normalized("x", drop="-"),
    "regex": Regex("a+", ignore_case=True, search=True),
    "same_meaning": SameMeaning("x"),
    "schema": Schema({"type": "object"}, formats=True),
    "unordered": Unordered([1, 2]),
}


@pytest.mark.parametrize("name", sorted(MATCHERS.keys() - {"predicate"}))
def test_matchers_are_valid(name: str) -> None:
    """Each of them as an argument, at a place, and as an answer if it has a value."""
    matcher = EXAMPLES.get(name)
    if matcher is None:
        parameters = {} if name in ("present", "absent") else {"value": [1] if name in ("subset", "superset") else "x"}
        matcher = MATCHERS[name](**parameters)
    expected = Plan([Expect("a", {"b": matcher}, at={"c": matcher})], tools={"a": {"d": matcher}})
    case = LLMTestCase(expected_tools=expected, expected_output=matcher).to_dict()

    assert problems("cases", case) == []
    wrong = {"$is": name, "nosuch": 1}
    assert problems("cases", {"expected_tools": [{"expect": "a", "at": {"b": wrong}}]}) != []
    assert not is_read("cases", {"expected_tools": [{"expect": "a", "at": {"b": wrong}}]})


def json_values(text: str) -> list[Any]:
    """Return the JSON objects of a page: whole blocks, and code in a line."""
    blocks = re.findall(r"^```json\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    values: list[Any] = []
    for code in [*blocks, *re.findall(r"`(\{\".*?\})`", text)]:
        try:
            values.append(json.loads(code))
        except ValueError:  # a shortened example
            continue
    return values


def test_examples_of_the_documentation_are_valid() -> None:
    """Each JSON object that a reader accepts, as a case, a golden, an expectation or a matcher, is valid."""
    valid = 0
    for path in (ROOT / "docs").glob("*.md"):
        for value in json_values(path.read_text(encoding="utf-8")):
            wrapped = [value, {"expected_tools": value}, {"expected_tools": [value]}, {"expected_output": value}]
            for kind, one in [(kind, {**one, **extra}) for one in wrapped for kind, extra in EXTRA.items()]:
                if is_read(kind, one):
                    valid += 1
                    assert problems(kind, one) == [], path.name
    assert valid >= 9


EXTRA: dict[str, dict[str, Any]] = {"cases": {}, "goldens": {"input": "q"}}
"""What a file needs besides an expectation."""


# Both accept the same

CALL = {"name": "a"}
VALID = {
    "cases": [
        {},
        {"$schema": "./cases.schema.json", "input": "q", "toolsCalled": [{"name": "a", "args": {"x": 1}}]},
        {"tools_called": [{"name": "a", "arguments": '{"x": 1}', "type": "Function"}], "expectedTools": []},
        {"id": 7, "metadata": {"a": 1}},
        {"additional_metadata": {"a": 1}},
        {"input": ["see", {"url": "https://example.com/a.png"}], "actual_output": ["x"]},
        {"turns": [{"role": "user", "content": "q"}], "$schema": "x"},
        {"query": "q", "tools_called": [CALL], "other": 1, "$schema": "x"},
        {"generatedResponse": "x", "agent_trajectory": [{"role": "user", "content": "x"}]},
        {
            "available_tools": [
                {"type": "function", "function": {"name": "f", "parameters": {}}},
                {"type": "web_search"},
            ]
        },
        {"expected_tools": {"plan": [{"oneOf": [CALL, [CALL, {"expect": "b", "times": [1, None]}]]}]}},
        {"expected_tools": {"alternatives": [[CALL], {"plan": [], "name": "x"}]}},
        {"expected_tools": [{"forbid": {"$is": "glob", "pattern": "delete_*"}}]},
        {"run": {"calls": [CALL], "started_at": "2026-01-01T00:00:00Z", "usage": {"input_tokens": 3}}},
    ],
    "goldens": [
        {"input": "q"},
        {"$schema": "./goldens.schema.json", "input": "q", "id": 1, "expected_tools": [CALL], "must_end": True},
        {"input": "q", "expectedOutput": {"$is": "contains", "value": "x"}},
    ],
    "records": [{}, {"query": "q", "anything": [1]}, {"$schema": "x", "tools_called": [{"function": CALL}]}],
}
WRONG = {
    "cases": [
        *(1, "x", None),
        {"tools_caled": []},
        {"tools_called": {}},
        {"metadata": {}, "additional_metadata": {}},
        {"tools_called": [{"name": "a", "args": {}, "arguments": {}}]},
        {"expected_tools": [{"expect": "a", "extraArguments": True, "extra_arguments": True}]},
        {"tools_called": [{}]},
        {"tools_called": [{"name": ""}]},
        {"tools_called": [{"name": "a", "optional": True}]},
        {"tools_called": [{"name": "a", "type": "tool"}]},
        {"tools_called": [{"name": "a", "args": [1]}]},
        {"tools_called": [{"name": "a", "turn": -1}]},
        {"tools_called": [{"name": "a", "execution": {"status": "fine"}}]},
        {"metadata": 1},
        {"id": []},
        {"input": [1]},
        {"input": ["x"], "hyperparameters": {}},
        {"turns": 1},
        {"turns": [{"role": "system", "content": "x"}]},
        {"turns": [{"role": "user"}]},
        {"query": 3},
        {"query": "q", "tools_called": 1},
        {"expected_tools": {}},
        {"expected_tools": {"plan": [CALL], "nosuch": 1}},
        {"expected_tools": {"plan": CALL}},
        {"expected_tools": {"alternatives": []}},
        {"expected_tools": [{"expect": ""}]},
        {"expected_tools": [{"expect": "a", "optional": "yes"}]},
        {"expected_tools": [{"expect": "a", "times": 0}]},
        {"expected_tools": [{"expect": "a", "times": [1]}]},
        {"expected_tools": [{"expect": "a", "input_parameters": [1]}]},
        {"expected_tools": [{"expect": "a", "at": {"x": 1}}]},
        {"expected_tools": [{"expect": "a", "at": {"x": {"$is": "aprox"}}}]},
        {"expected_tools": [{"expect": "a", "at": {"x": {"$is": "regex"}}}]},
        {"expected_tools": [{"expect": "a", "at": {"x": {"$is": "predicate", "name": "f"}}}]},
        {"expected_tools": [{"one_of": []}]},
        {"expected_tools": [{"parallel": CALL}]},
        {"expected_tools": [{"name": "a", "optional": True}]},
        {"expected_output": {"$is": "nosuch"}},
        {"expected_output": 3},
        {"run": {"status": "nosuch"}},
    ],
    "goldens": [*([], 1), {}, {"input": None}, {"input": "q", "tools_called": []}, {"input": "q", "tags": "x"}],
    "records": [{"query": 1}, {"metadata": 3}, {"tags": "x"}, {"agent_trajectory": 3}],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in VALID.items() for value in values])
def test_valid_values_are_read(kind: str, value: Any) -> None:
    """By both, alone and in an array."""
    assert problems(kind, value) == problems(kind, [value, value]) == []
    assert is_read(kind, value)


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in WRONG.items() for value in values if value != []]
)
def test_wrong_values_are_refused(kind: str, value: Any) -> None:
    """By both, alone and in an array."""
    assert not is_read(kind, value)
    assert problems(kind, value) != []
    assert problems(kind, [value]) != []


@given(run_fields, st.text(max_size=6), finite_json_values())
def test_a_case_with_another_key_is_refused_by_both(run: dict[str, Any], key: str, value: Any) -> None:
    """Unless it is one of the keys."""
    case = {**LLMTestCase(run=run).to_dict(), key: value}
    if problems("cases", case) == []:
        assert is_read("cases", case)


# The key `$schema`


def test_the_key_is_ignored(tmp_path: Path) -> None:
    """In lines and in items of cases, conversations, records and goldens; it is not in their metadata."""
    values = [{"$schema": "./x.json", **value} for value in VALID["cases"]]
    lines, array, goldens = (tmp_path / name for name in ("a.jsonl", "b.json", "goldens.json"))
    lines.write_text("".join(json.dumps(value) + "\n" for value in values[:5]), encoding="utf-8")
    array.write_text(json.dumps(values[:5]), encoding="utf-8")
    goldens.write_text(json.dumps([{"$schema": "x", "input": "q"}]), encoding="utf-8")

    assert [case.to_dict() for case in read_cases(lines)][1] == {
        "input": "q",
        "tools_called": [{"name": "a", "input_parameters": {"x": 1}}],
        "name": "line 2",
    }
    assert len(read_cases(array)) == 5
    assert [golden.to_dict() for golden in read_goldens(goldens)] == [{"input": "q"}]
    assert case_from_record({"query": "q", "$schema": "x"}) == LLMTestCase(input="q")
    score = RUNNER.invoke(main, ["score", str(array), "--goldens", str(goldens)])
    assert "one case" not in score.stderr
    images = {"$schema": "x", "input": ["see"], "tools_called": [CALL], "expected_tools": [CALL]}
    assert RUNNER.invoke(main, ["score", "-"], input=json.dumps(images)).exit_code == 0
