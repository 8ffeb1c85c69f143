"""Failed calls: what a status says, and answers of tools that are errors by convention."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import (
    CallStatus,
    ConfigurationError,
    LLMTestCase,
    MetricAssertionError,
    ToolCall,
    ToolSuccessRate,
    assert_test,
    evaluate,
    evaluate_async,
)
from toolgrade.failed_calls import FAILED, LONGEST_ERROR, ErrorTexts, has_succeeded, looks_failed

ERRORS: list[Any] = [
    *("Error: 500", "  error executing tool", "ERROR 404", "Error code: 429 - slow down", "Error - no seats", "error"),
    *("ValueError: no such day", "requests.HTTPError(404)", "TimeoutError", "httpx.ReadTimeout: 30 s", "Exception: x"),
    *("Traceback (most recent call last):\n  File", "Failed to book", "Failure: full", "Error in foo(x) : no y"),
    *("An error occurred while running the tool. Please try again.", "An unexpected error has occurred"),
    *("503 Service Unavailable", "HTTP 500: Internal Server Error", "404 Not Found", "Internal Server Error"),
    *("Unknown tool: pay", "pay is not a valid tool, try one of [look].", "Event not found.", "user #12 was not found"),
    *("File not found: a.txt", [{"type": "text", "text": "Error: 500"}]),
    *({"error": "no such file"}, {"error": {"code": 7}}, {"error": "x", "code": 7, "message": "y", "data": None}),
    *([{"error": "x"}], {"results": [{"error": "x"}, {"error": "y"}]}, {"success": False, "data": [1], "id": 7}),
    *({"ok": False, "flight": "HAT1"}, {"status": "error", "data": {"a": 1}}, {"status": "FAILED", "message": "x"}),
    *({"status_code": 500, "body": "x"}, {"status": "503", "data": "x"}, "Booking failed: sold out", "[ERROR] x"),
    *("Tool execution failed", "Insufficient funds", "Cannot cancel: already shipped", "<tool_use_error>no"),
    *({"success": False, "error": "x"}, {"data": None, "errors": [{"message": "x"}]}, {"exception": "x"}),
    *({"isError": True, "content": [{"type": "text", "text": "x"}], "more": 1}, {"is_error": True}),
    *("Input validation error: 'day' is required", "MCP error -32602: no day", "2 validation errors for book"),
    *(
        "Invalid day.",
        "Unable to open a.txt",
        "Could not find [Rome].",
        "Missing required field: day",
    ),
    *({"status": 404, "message": "x"}, {"success": False}, {"ok": False, "error": "x"}, {"status": "failure"}),
    *({"status": {"code": 5}, "error": "x"}, {"status": ["failed"], "error": "x"}),
    *({"result": {"error": "x"}}, {"data": None, "result": "Error: 500"}, {"result": '{"error": "x"}'}),
    *(json.dumps("Error: 500"), json.dumps(json.dumps({"error": "x"})), "{'result': {'error': 'x'}}"),
    {"content": [{"type": "text", "text": "Error: 500"}], "isError": False},
    {
        "content": [{"type": "text", "text": '{"result": {"error": "x"}}'}],
        "structuredContent": {"error": "x"},
        "_meta": {},
    },
    [{"type": "text", "text": '{"error": "x"}'}, {"type": "text", "text": "Try it with a day."}],
    [{"type": "text", "text": '{"error": "x"}'}, {"type": "text", "text": '{"error": "y"}'}],
]
RESULTS: list[Any] = [
    *("Error rate: 3 %", "Errors: none", "The error was fixed", "Failed logins: 3", "Error handling in Python", ""),
    *("error: null\nresult: 5", "Error: none", "Error-free run", "No events found.", "not found", "timeout: 30"),
    *(
        "fine\nError: full",
        "no Error",
        "The report says that the file a.txt was not found, so I looked elsewhere",
        "404",
    ),
    *({"error": None, "id": 1}, {"error": ""}, {"error": []}, {"error": False}, {"id": 1, "error": "later"}, {}),
    *({"success": True, "errors": ["1 row skipped"]}, {"ok": True, "error": "x"}, {"status": "success", "error": "x"}),
    *(
        {"error": "none"},
        {"error": 0.03, "name": "fit"},
        {"name": "nightly", "status": "failed"},
        {"status": 401, "id": 3},
    ),
    *("Breakfast is not provided", "Missing required documents: passport", {"content": "Error: x", "name": "a.log"}),
    *({"isError": False}, {"errors": 0, "rows": 3}, [], [{"error": "x"}, {"id": 1}], 0, None, True, '{"error": "x"'),
    *({"status": {"code": 5}}, {"status_code": [404], "data": 1}),
    *({"status": 200, "message": "x"}, {"status": 404, "url": "/a"}, {"status": True}, {"success": True}, {"ok": True}),
    *(
        {"result": {"id": 1, "error": "later"}},
        {"error": "x", "result": "partly"},
        {"text": "Error: 500", "data": [1]},
    ),
    *({"results": [{"id": 1}, {"error": "x"}]}, {"data": {"name": "a", "id": 2}}),
    *({"content": "Error rate: 3 %"}, {"content": []}, json.dumps("all fine"), '"Error" is a word', "No error: 1"),
    [{"type": "text", "text": '{"error": "x"}'}, {"type": "text", "text": '{"id": 1}'}],
    [{"type": "text", "text": "3 rows"}, {"type": "text", "text": "Error: 500"}],
]


def answered(output: Any, **fields: Any) -> ToolCall:
    """A call with an answer."""
    return ToolCall(name="book", output=output, **fields)


@pytest.mark.parametrize("answer", ERRORS, ids=repr)
def test_errors_by_convention(answer: Any) -> None:
    """Also as JSON text, and as what the model received."""
    assert looks_failed(answered(answer))
    assert looks_failed(
        answered(answer if isinstance(answer, str) else json.dumps(answer)) if answer else answered("error")
    )
    assert looks_failed(answered("fine", execution={"model_output": answer}))


@pytest.mark.parametrize("answer", RESULTS, ids=repr)
def test_results_are_no_errors(answer: Any) -> None:
    """A word in the middle, an error that is empty, or one beside a result."""
    assert not looks_failed(answered(answer))
    assert isinstance(answer, str) or not looks_failed(answered(json.dumps(answer)))


@pytest.mark.parametrize(
    "text",
    ['{"result":' * 180 + "1" + "}" * 180, '"' * 1999, "[{" * 999, "Invalid" + " " * 1990, json.dumps("\\" * 900)],
    ids=["objects", "quotes", "brackets", "spaces", "backslashes"],
)
def test_nested_answers_end(text: str) -> None:
    """Whatever they hold, they are looked into only so deep, and fast."""
    blocks = [{"type": "text", "text": text}] * 2_000
    start = time.process_time()

    assert not any(looks_failed(answered(answer)) for answer in (text, blocks, {"content": blocks, "isError": False}))
    assert time.process_time() - start < 2  # seconds


@given(st.sampled_from(["Error: 500", {"error": "x"}, {"isError": True}]), st.integers(0, 6))
def test_an_error_inside_of_an_answer_stays_one(error: Any, levels: int) -> None:
    """As the result of a result, and as a result beside others it is none."""
    answer = error
    for _ in range(levels):
        answer = {"result": answer}

    assert looks_failed(answered(answer))
    assert not looks_failed(answered({"result": answer, "rows": [1]}))


@given(st.text(), st.integers(-3, 3))
def test_a_long_text_is_a_document(word: str, more: int) -> None:
    """Whatever it begins with."""
    begin = f"Error: {word}"[: LONGEST_ERROR - 10]
    text = begin.ljust(LONGEST_ERROR + more, "x")

    assert looks_failed(answered(text)) is (more < 0)


@pytest.mark.parametrize("status", CallStatus)
@pytest.mark.parametrize("executed", [True, False])
def test_the_status_decides_where_it_is_known(status: CallStatus, executed: bool) -> None:
    """`ok` says nothing about the text, whoever recorded it; any other status decides alone."""
    error, fine = (
        answered(text, execution={"status": status, "executed": executed}) for text in ("Error: 500", "done")
    )

    assert looks_failed(fine) is (status in FAILED)
    assert looks_failed(error) is (status in FAILED or status is CallStatus.OK)
    assert [has_succeeded(fine), has_succeeded(error)] == [status is CallStatus.OK, False]


@given(st.sampled_from(ERRORS + RESULTS), st.sampled_from([None, *CallStatus]))
def test_a_call_stays_as_it_is(answer: Any, status: CallStatus | None) -> None:
    """And it never both failed and succeeded."""
    call = answered(answer, **({} if status is None else {"execution": {"status": status}}))
    before = call.to_json()

    assert not (looks_failed(call) and has_succeeded(call))
    assert call.to_json() == before


@pytest.mark.parametrize(
    ("texts", "answer", "failed"),
    [
        (ErrorTexts("no seats"), "Sorry, no seats", True),
        (ErrorTexts("no seats"), "Error: 500", False),
        (ErrorTexts("no seats"), {"say": "no seats"}, True),
        (ErrorTexts("none"), "Error: 500", False),
        (ErrorTexts(None), {"isError": True}, False),
        (ErrorTexts(text_tools=["b*"]), "Error: 500", False),
        (ErrorTexts("no seats", text_tools=["book"]), "no seats", False),
        (ErrorTexts(text_tools=["look"]), "Error: 500", True),
    ],
)
def test_texts_of_the_user(texts: ErrorTexts, answer: Any, failed: bool) -> None:
    """A pattern stands in place of the conventions; tools of documents have no errors; other processes know both."""
    for one in (texts, pickle.loads(pickle.dumps(texts))):  # noqa: S301 - of this test
        with one.applied():
            assert looks_failed(answered(answer)) is failed
            assert looks_failed(answered("fine", execution={"status": "error"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error_texts": "("}, "not a regular expression"),
        ({"error_texts": ""}, "error_texts must be a regular expression"),
        ({"error_texts": 3}, "error_texts must be a regular expression"),
        ({"text_tools": "look"}, "text_tools must be a list of tool names"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    """Before anything is measured."""
    with pytest.raises(ConfigurationError, match=message):
        evaluate([LLMTestCase(tools_called=[])], [ToolSuccessRate()], **options)


CASE = LLMTestCase(tools_called=[answered("Error: 500"), answered("no seats"), answered("done")])


def _files(folder: Path, *, processes: int, **options: Any) -> float | None:
    path = folder / "runs.jsonl"
    large = CASE.model_copy(update={"metadata": {"page": "x" * 1_500_000}})  # two processes are worth it
    path.write_text(f"{large.to_json()}\n" * 6, encoding="utf-8")
    return evaluate(path, [ToolSuccessRate()], processes=processes, **options).summaries[0].mean


def _batch(_folder: Path, **options: Any) -> float | None:
    arrow = pytest.importorskip("pyarrow")
    from toolgrade.evaluation.arrow import score_batch

    batch = arrow.record_batch({"case": [CASE.to_json()]})
    return float(score_batch(batch, [ToolSuccessRate()], **options).column("score")[0].as_py())


def _async(_folder: Path, **options: Any) -> float | None:
    return asyncio.run(evaluate_async([CASE], [ToolSuccessRate()], **options)).summaries[0].mean


def _cases(_folder: Path, **options: Any) -> float | None:
    return evaluate([CASE], [ToolSuccessRate()], **options).summaries[0].mean


WAYS: dict[str, Callable[..., float | None]] = {
    "cases": _cases,
    "async": _async,
    "a file": partial(_files, processes=1),
    "processes": partial(_files, processes=2),
    "a batch": _batch,
}


@pytest.mark.parametrize("way", WAYS)
def test_they_hold_for_a_whole_evaluation(way: str, tmp_path: Path) -> None:
    """In every thread, task and process that measures, and not behind it."""
    run = WAYS[way]
    options: list[dict[str, Any]] = [
        {},
        {"error_texts": "no seats|500"},
        {"error_texts": None},
        {"text_tools": ["book"]},
    ]
    scores = [run(tmp_path, **one) for one in options]

    assert scores == pytest.approx([2 / 3, 1 / 3, 1, 1])
    assert ToolSuccessRate().measure(CASE).score == pytest.approx(2 / 3)


def test_an_assertion_takes_them() -> None:
    """And an evaluation inside of another scope keeps its texts."""
    with pytest.raises(MetricAssertionError, match="Error text: called #1"):
        assert_test(CASE, [ToolSuccessRate()])
    assert assert_test(CASE, [ToolSuccessRate()], error_texts=None)
    with ErrorTexts("none").applied():
        assert assert_test(CASE, [ToolSuccessRate()])


def test_a_file_of_results_is_resumed_with_the_same_texts(tmp_path: Path) -> None:
    """Other ones would mix two measures."""
    results = tmp_path / "results.jsonl"
    options: dict[str, Any] = {"error_texts": "x", "text_tools": ["look"]}
    evaluate([CASE], [ToolSuccessRate()], results=results, **options)

    evaluate([CASE], [ToolSuccessRate()], results=results, resume=True, **options)
    others: list[dict[str, Any]] = [{}, {**options, "error_texts": "y"}, {**options, "text_tools": []}]
    for other in others:
        with pytest.raises(ConfigurationError, match="error_texts='x', text_tools=\\['look'\\] in the file"):
            evaluate([CASE], [ToolSuccessRate()], results=results, resume=True, **other)


def test_secrets_are_not_quoted() -> None:
    """An error may repeat a key."""
    token = "ghp_" + "a1B2" * 9
    result = ToolSuccessRate().measure(LLMTestCase(tools_called=[answered(f"Error: 401 for {token}")]))

    assert "Error: 401" in str(result.reason)
    assert token not in str(result.reason)
