"""Arguments that are not a JSON object but have one clear reading: opt-in and always reported."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_values
from toolgrade import CallStatus, InvalidDataError, LLMTestCase, ToolErrorRate, read_cases, run_from_messages
from toolgrade.cli.main import main
from toolgrade.convert import read_transcripts
from toolgrade.formats import case_from_record, read
from toolgrade.formats.messages.lenient_arguments import LONGEST, read_tolerantly

LITERAL = "{'a': None, 'b': True}"


@pytest.mark.parametrize(
    ("raw", "arguments", "how"),
    [
        (LITERAL, {"a": None, "b": True}, "as a Python literal"),
        (" {'a': (1, 2.5, -3), 'b': {'c': []}}\n", {"a": [1, 2.5, -3], "b": {"c": []}}, "as a Python literal"),
        ("{'a': 'it\\'s', 'b': \"x\"}", {"a": "it's", "b": "x"}, "as a Python literal"),
        ("{'path': 'C:\\d'}", {"path": "C:\\d"}, "as a Python literal"),
        ('{"a": 1,}', {"a": 1}, "without trailing commas"),
        ('{"a": [true, null, ] , }', {"a": [True, None]}, "without trailing commas"),
        ('{"a": ",}", "b": "\\",]",}', {"a": ",}", "b": '",]'}, "without trailing commas"),
        (json.dumps('{"a": 1}'), {"a": 1}, "as JSON text inside JSON text"),
        (json.dumps(json.dumps('{"a": 1}')), {"a": 1}, "as JSON text inside JSON text, " * 2),
        ('```json\n{"a": 1}\n```', {"a": 1}, "inside a code fence"),
        ('```\n{"a": 1}\n```', {"a": 1}, "inside a code fence"),
        ('```json {"a": 1}```', {"a": 1}, "inside a code fence"),
        ("```python\n{'a': 1}\n```", {"a": 1}, "inside a code fence, as a Python literal"),
        (
            json.dumps("```\n{'a': 1}\n```"), {"a": 1},
            "as JSON text inside JSON text, inside a code fence, as a Python literal",
        ),
        (json.dumps(""), None, ""),
    ],
)  # fmt: skip
def test_readings_of_a_text(raw: str, arguments: Any, how: str) -> None:
    """The object, and how it was read, from the outside in."""
    result = read_tolerantly(raw)

    assert result == (None if arguments is None else (arguments, how.removesuffix(", ")))


@pytest.mark.parametrize(
    "raw",
    [
        *("", "x", "null", "[1]", "3", '"x"', "{", "{'a'", "{'a': }", "{'a': x}", "{'a': f()}", "{**{}}"),
        *("```", "``````"),
        *('{"a": 1} {"b": 2}', '{"a": 1', '{"a": 1,, }', '{"a": NaN}', "```json\n[1]\n```", "a ```{}```"),
        *("{1: 2}", "{'a': b'x'}", "{'a': {1, 2}}", "{'a': 1j}", "{'a': ...}", "{'a', 'b'}", "{'a': 1 + 1}"),
        *('{"a": __import__("os")}', "{'a': 'x' 3}"),
        *("{'a': " + "[" * 300 + "]" * 300 + "}", "{'a': " + "-" * 50_000 + "1}"),
        *("{'a': '" + "x" * LONGEST + "'}", json.dumps(json.dumps(json.dumps(json.dumps(json.dumps("{}")))))),
        *(None, 3, [LITERAL], {"a": 1}),
    ],
    ids=lambda raw: repr(raw)[:30],
)  # fmt: skip
def test_unclear_text_is_left_unchanged(raw: object) -> None:
    """Nothing is guessed or run, and nothing hangs or overflows."""
    assert read_tolerantly(raw) is None


@given(value=st.dictionaries(st.text(max_size=3), json_values([1, -2.5, True, None, "x", ",}", "é'\""]), max_size=3))
def test_every_wrapping_of_every_object(value: dict[str, Any]) -> None:
    """What was wrapped comes out again, also of wrappings inside each other."""
    text = json.dumps(value)
    for wrapped in (
        repr(value),
        json.dumps(text),
        f"```json\n{text}\n```",
        f"```\n{value!r}\n```",
        json.dumps(repr(value)),
    ):
        result = read_tolerantly(wrapped)

        assert result is not None
        assert result[0] == value


@given(text=st.text(alphabet="{}[]'\",:`\\ \n1a", max_size=12))
def test_any_text_is_read_or_left(text: str) -> None:
    """Any text is handled without an error or a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = read_tolerantly(text)

    assert result is None or isinstance(result[0], dict)


# Messages, records, files


def messages(raw: object) -> list[dict[str, Any]]:
    """A run with one call."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": raw}}
    return [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "done"}]


def test_a_call_that_was_read_is_not_invalid() -> None:
    """It has its arguments and its answer as output; its text is kept, and the warning names call and reading."""
    (call,) = (run := run_from_messages(messages(LITERAL), tolerant_arguments=True)).calls

    assert (call.arguments, call.output) == ({"a": None, "b": True}, "done")
    assert call.execution is not None
    assert (call.execution.status, call.execution.requested_parameters) == (CallStatus.OK, LITERAL)
    assert call.execution.error is None
    assert run.warnings == [
        "$.messages[0].tool_calls[0]: the arguments of 'f' are not a JSON object; they were read as a Python literal"
    ]


def test_by_default_nothing_is_read() -> None:
    """The tolerant mode is opt-in."""
    (call,) = run_from_messages(messages(LITERAL)).calls

    assert call.arguments == {}
    assert call.execution is not None
    assert call.execution.status is CallStatus.INVALID_ARGUMENTS


@pytest.mark.parametrize("raw", ["{}", '{"a": "{\'b\': 1}"}', "", None, {"a": 1}, '{"a": 1, "b": "```"}', "no object"])
def test_valid_and_unreadable_arguments_stay(raw: object) -> None:
    """The mode changes neither valid arguments nor unreadable ones."""
    assert run_from_messages(messages(raw), tolerant_arguments=True) == run_from_messages(messages(raw))


@pytest.mark.parametrize(
    "recorded",
    [
        messages(LITERAL),
        [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": LITERAL}],
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": LITERAL}]}],
    ],
    ids=["openai-chat", "openai-responses", "anthropic"],
)
def test_every_format(recorded: list[dict[str, Any]]) -> None:
    """The mode means the same in all of them."""
    (call,) = (run := read(recorded, tolerant_arguments=True).run).calls

    assert call.arguments == {"a": None, "b": True}
    assert call.execution is not None
    assert call.execution.requested_parameters == LITERAL
    assert "they were read as a Python literal" in run.warnings[0]


def test_custom_tools_take_text() -> None:
    """Their input is not an argument object and is not read as one."""
    call = {"id": "c1", "type": "custom", "custom": {"name": "f", "input": LITERAL}}
    run = run_from_messages([{"role": "assistant", "tool_calls": [call]}], tolerant_arguments=True)

    assert (run.calls[0].arguments, run.warnings) == ({"input": LITERAL}, [])


def test_records() -> None:
    """In lists of tools, in expectations, and in trajectories."""
    tool = {"name": "f", "args": LITERAL, "output": "done"}
    record = {"query": "x", "tools_called": [tool], "expected_tools": [tool], "agent_trajectory": messages(LITERAL)}
    case = case_from_record(record, tolerant_arguments=True)

    assert case.tools_called is not None
    assert isinstance(case.expected_tools, list)
    assert case.tools_called[0].arguments == case.expected_tools[0].arguments == {"a": None, "b": True}
    assert case.tools_called[0].output == "done"
    assert case.tools_called[0].execution is not None
    assert case.tools_called[0].execution.requested_parameters == LITERAL
    assert case.expected_tools[0].execution is None
    assert case.run is not None
    assert [text.partition(":")[0] for text in case.run.warnings] == [
        "$.tools_called[0]",
        "$.expected_tools[0]",
        "$.agent_trajectory[0].tool_calls[0]",
    ]
    with pytest.raises(InvalidDataError, match="not a JSON object"):
        case_from_record(record)


def test_expected_trajectories() -> None:
    """A text that can be read is an expectation, one that cannot stays a problem."""
    case = case_from_record({"expected_agent_trajectory": messages(LITERAL)}, tolerant_arguments=True)

    assert isinstance(case.expected_tools, list)
    assert case.expected_tools[0].arguments == {"a": None, "b": True}
    with pytest.raises(InvalidDataError, match="not a JSON object"):
        case_from_record({"expected_agent_trajectory": messages("x")}, tolerant_arguments=True)


@pytest.mark.parametrize("key", ["input_parameters", "inputParameters", "args", "arguments"])
@pytest.mark.parametrize("side", ["tools_called", "toolsCalled", "expected_tools", "expectedTools"])
def test_cases_in_files(tmp_path: Any, side: str, key: str) -> None:
    """In toolgrade's own form, under every name of the field; the run has a warning next to its others."""
    path = tmp_path / "cases.jsonl"
    run = {"calls": [], "warnings": ["cut short"]}
    path.write_text(json.dumps({"id": "1", side: [{"name": "f", key: LITERAL}, {"name": "g"}], "run": run}) + "\n")
    (case,) = read_cases(path, tolerant_arguments=True)
    tools = case.tools_called if side.startswith("tools") else case.expected_tools

    assert isinstance(tools, list)
    assert tools[0].arguments == {"a": None, "b": True}
    assert (tools[0].execution is not None) is side.startswith("tools")
    assert case.run is not None
    assert case.run.warnings[0] == "cut short"
    assert case.run.warnings[1].startswith(f"$.{side}[0]: the arguments of 'f' are not a JSON object")
    with pytest.raises(InvalidDataError, match="not JSON"):
        read_cases(path)


@pytest.mark.parametrize(
    "case",
    [
        {"tools_called": [3, {"name": 3, "args": LITERAL}]},
        {"tools_called": [{"name": "f", "args": LITERAL, "execution": "x"}]},
        {"tools_called": [{"name": "f", "args": LITERAL}], "run": "x"},
        {"tools_called": [{"name": "f", "args": LITERAL}], "run": {"warnings": 3}},
        {"tools_called": [{"name": "f", "args": "x"}]},
    ],
)
def test_broken_cases_are_still_refused(tmp_path: Any, case: dict[str, Any]) -> None:
    """With their paths; the mode repairs only arguments."""
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(case))

    with pytest.raises(InvalidDataError, match=r"cases.jsonl:1: \$\."):
        read_cases(path, tolerant_arguments=True)


def test_a_case_without_a_run_gets_one(tmp_path: Any) -> None:
    """The run carries the warning into every result."""
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({"tools_called": [{"name": "f", "args": LITERAL}]}))
    (case,) = read_cases(path, tolerant_arguments=True)
    result = ToolErrorRate().measure(case)

    assert any("the arguments of 'f' are not a JSON object" in text for text in result.warnings)


def test_commands(tmp_path: Any) -> None:
    """`convert` and `score` accept the option, and `convert` reports the repairs."""
    recorded, cases = tmp_path / "log.json", tmp_path / "cases.jsonl"
    expected = [{"name": "f", "args": LITERAL}]
    recorded.write_text(json.dumps({"messages": messages(LITERAL), "expected_tools": expected}))
    converted = CliRunner().invoke(main, ["convert", str(recorded), "--to", str(cases), "--tolerant-arguments"])

    assert converted.exit_code == 0, converted.output
    assert "they were read as a Python literal" in converted.output
    (case,) = read_cases(cases)
    assert isinstance(case, LLMTestCase)
    assert case.tools_called is not None
    assert case.tools_called[0].arguments == {"a": None, "b": True}
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps({"query": "x", "expected_tools": expected, "tools_called": expected}))
    assert CliRunner().invoke(main, ["score", str(raw), "--params", "input"]).exit_code == 2
    assert CliRunner().invoke(main, ["score", str(raw), "--params", "input", "--tolerant-arguments"]).exit_code == 0


def test_conversations_of_files_are_read_alike(tmp_path: Any) -> None:
    """`read_transcripts` hands the option on."""
    path = tmp_path / "log.json"
    path.write_text(json.dumps(messages(LITERAL)))
    (recorded,) = read_transcripts(path, tolerant_arguments=True)

    assert recorded.transcript.run.calls[0].arguments == {"a": None, "b": True}
