"""`ArgumentSchemaMetric`: calls against the tools' JSON Schemas; unchecked calls are left out with a warning."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from toolgrade import (
    ArgumentSchemaMetric,
    ConfigurationError,
    Execution,
    LLMTestCase,
    MetricAssertionError,
    MissingFieldError,
    ResultStatus,
    Run,
    ToolCall,
    ToolCallType,
    assert_test,
    evaluate,
)
from toolgrade.redact import REDACTED

BOOK = {
    "name": "book",
    "parameters": {
        "type": "object",
        "properties": {
            "seats": {"type": "integer", "minimum": 1},
            "class": {"enum": ["economy", "business"]},
            "day": {"type": "string", "format": "date"},
            "guests": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        },
        "required": ["seats"],
        "additionalProperties": False,
    },
}
ANYTHING = {"name": "note"}
BROKEN = {"name": "broken", "parameters": {"type": "strng"}}
REMOTE = {"name": "remote", "parameters": {"$ref": "https://example.com/schema.json"}}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TOOLS = [BOOK, ANYTHING, BROKEN, REMOTE]


def book(**arguments: Any) -> ToolCall:
    """A call of the tool that has a schema."""
    return ToolCall(name="book", input_parameters=arguments)


def measured(*calls: ToolCall, **options: Any) -> Any:
    """The result of one case."""
    return ArgumentSchemaMetric(**options).measure(LLMTestCase(tools_called=list(calls), available_tools=TOOLS))


@pytest.mark.parametrize(
    ("call", "path"),
    [
        pytest.param(book(seats=2, guests=[{"name": "Ann"}]), None, id="valid"),
        pytest.param(book(seats=2.0), None, id="a whole number is an integer, however it is written"),
        pytest.param(book(), "$.input_parameters", id="a required argument is missing"),
        pytest.param(ToolCall(name="book"), "$.input_parameters", id="no arguments at all"),
        pytest.param(book(seats=1, view="sea"), "$.input_parameters", id="an argument that is not taken"),
        pytest.param(book(seats="two"), "$.input_parameters.seats", id="wrong type"),
        pytest.param(book(seats=True), "$.input_parameters.seats", id="a boolean is no integer"),
        pytest.param(book(seats=0), "$.input_parameters.seats", id="out of range"),
        pytest.param(book(seats=1, **{"class": "first"}), "$.input_parameters.class", id="none of the enum"),
        pytest.param(book(seats=1, day="2026-02-30"), "$.input_parameters.day", id="no such day"),
        pytest.param(book(seats=1, guests=[{"name": "A"}, {}]), "$.input_parameters.guests[1]", id="deep inside"),
    ],
)
def test_one_call(call: ToolCall, path: str | None) -> None:
    """A call is valid or has a finding that names the place; one call gives 1 or 0."""
    result = measured(call)

    assert (result.score, result.passed) == ((1.0, True) if path is None else (0.0, False))
    assert [(finding.kind, finding.called, finding.path) for finding in result.findings] == (
        [] if path is None else [("schema_violation", 0, path)]
    )
    assert all(finding.message in result.reason for finding in result.findings)


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-02-29T23:59:60.5+01:00", "2024-02-29 10:00:00Z"),
        ("date-time", "2024-02-29t10:00:00z", "2023-02-29T10:00:00Z"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00"),
        ("email", "a@b.c", "a.b.c"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", ":::"),
        ("regex", "a+", "("),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("uri", "anything", None),
    ],
)
def test_formats(format: str, good: str, bad: str | None) -> None:
    """Known formats are checked by default; others are annotations, as for other types."""
    tool = {"name": "a", "parameters": {"properties": {"x": {"format": format}}}}

    def score(value: object, **options: Any) -> float:
        case = LLMTestCase(tools_called=[ToolCall(name="a", input_parameters={"x": value})])
        return float(ArgumentSchemaMetric([tool], **options).measure(case))

    assert score(good) == 1
    assert score(17) == 1
    if bad is not None:
        assert score(bad) == 0
        assert score(bad, formats=False) == 1


def test_the_score_is_valid_over_checked() -> None:
    """The score is the share of valid calls, with the sum in the reason, and the value found in the finding."""
    result = measured(book(seats=1), book(seats="two"), book(seats=3))

    assert result.score == pytest.approx(2 / 3)
    assert result.reason.split("\n") == [
        "valid: 2 / 3 checked calls = 0.6667 (failed at 1).",
        "called #2 'book': $.input_parameters.seats does not fit type 'integer', called with \"two\".",
    ]
    assert result.findings[0].called_value == "two"


def test_values_under_secret_keys_stay_out_of_reasons() -> None:
    """A value that stands under a secret key is in no reason and in no written result."""
    tool = {"name": "a", "parameters": {"properties": {"password": {"type": "integer"}}}}
    case = LLMTestCase(tools_called=[ToolCall(name="a", input_parameters={"password": "hunter2"})])
    result = ArgumentSchemaMetric([tool]).measure(case)

    assert result.score == 0
    assert "hunter2" not in str(result.reason) + str(result.to_dict())


@pytest.mark.parametrize(
    ("call", "warning"),
    [
        pytest.param(book(seats=REDACTED), "redacted", id="redacted"),
        pytest.param(ToolCall(name="note", input_parameters={"x": 1}), "no input_schema", id="no schema"),
        pytest.param(ToolCall(name="broken"), "cannot be used", id="a schema that is none"),
        pytest.param(ToolCall(name="remote"), "cannot be used", id="a schema elsewhere is not fetched"),
        pytest.param(ToolCall(name="web", type=ToolCallType.HOSTED), "of a provider", id="a tool of the provider"),
    ],
)
def test_uncheckable_call_is_left_out(call: ToolCall, warning: str) -> None:
    """It counts neither way, with a warning; a case with only such calls is skipped."""
    alone, beside = measured(call), measured(call, book(seats="x"), book(seats=1))

    assert (alone.status, alone.score) == (ResultStatus.SKIPPED, None)
    assert beside.score == 0.5
    for result in (alone, beside):
        assert any(text.startswith("1 call left out: ") and warning in text for text in result.warnings)
        assert warning in result.reason


def test_arguments_that_were_not_recorded_cannot_pass() -> None:
    """The case is not measured, unless other calls fail it."""
    call = ToolCall(name="book", execution=Execution(not_captured=["input_parameters"]))

    with pytest.raises(MissingFieldError, match="cannot check 1 call: their arguments were not recorded"):
        measured(call, book(seats=1))
    failed = measured(call, book(seats=1), book(seats="x"))
    assert (failed.score, failed.warnings[0]) == (0.5, "1 call left out: their arguments were not recorded")


def test_external_schema_is_not_fetched() -> None:
    """A reference to an address sends nothing, even with a listening server."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        tool = {"name": "a", "parameters": {"$ref": f"http://127.0.0.1:{server.server_port}/schema.json"}}
        result = ArgumentSchemaMetric([tool]).measure(LLMTestCase(tools_called=[ToolCall(name="a")]))
        server.shutdown()

    assert requests == []
    assert [finding.kind for finding in result.findings] == ["invalid_schema"]


def test_a_broken_schema_is_a_finding_on_the_tool() -> None:
    """It is reported once for all calls of the tool."""
    result = measured(ToolCall(name="broken"), ToolCall(name="broken"), book(seats=1))

    assert [(finding.kind, finding.tool, finding.called) for finding in result.findings] == [
        ("invalid_schema", "broken", None)
    ]
    assert "'strng' at $.type does not fit" in result.findings[0].message
    assert result.score == 1


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"name": "boook"}, id="no such tool"),
        pytest.param({"name": "x", "type": "mcp", "execution": {"status": "unknown_tool"}}, id="known to be unknown"),
    ],
)
def test_an_unknown_tool_is_invalid(fields: Any) -> None:
    """A call of a tool that was not available is invalid, and its finding says why."""
    result = measured(ToolCall(**fields), book(seats=1))

    assert result.score == 0.5
    assert [finding.kind for finding in result.findings] == ["unknown_tool"]


def test_text_that_is_not_an_object_is_invalid() -> None:
    """Without validation, also for a tool without a schema."""
    result = measured(ToolCall(name="note", execution=Execution(status="invalid_arguments", error="no JSON")))

    assert result.score == 0
    assert [finding.path for finding in result.findings] == ["$.input_parameters"]


def test_no_call_is_skipped_and_no_tools_are_an_error() -> None:
    """Without calls the case is skipped; unknown tools are an error, and `[]` means no tools."""
    call = ToolCall(name="book")

    assert ArgumentSchemaMetric().measure(LLMTestCase(tools_called=[])).reason == "Skipped: no call was made."
    with pytest.raises(MissingFieldError, match="available_tools of case 'c1'"):
        ArgumentSchemaMetric().measure(LLMTestCase(id="c1", tools_called=[call]))
    with pytest.raises(MissingFieldError, match="needs tools_called"):
        ArgumentSchemaMetric().measure(LLMTestCase(available_tools=TOOLS))
    with pytest.raises(ConfigurationError, match="got str"):
        ArgumentSchemaMetric().measure("case")
    assert ArgumentSchemaMetric().measure(LLMTestCase(tools_called=[call], available_tools=[])).score == 0


def test_the_metric_s_tools_win_over_the_case_s() -> None:
    """The metric's tools replace those of the case."""
    case = LLMTestCase(tools_called=[book(seats="x")], available_tools=TOOLS)

    assert ArgumentSchemaMetric([{"name": "book", "parameters": {}}]).measure(case).score == 1
    assert ArgumentSchemaMetric().measure(case).score == 0


def test_standard_metric_interfaces_work() -> None:
    """`evaluate` and `assert_test` with run warnings; options appear in the label."""
    good = LLMTestCase(tools_called=[book(seats=1)], available_tools=TOOLS, run=Run(warnings=["a span was lost"]))
    bad = LLMTestCase(tools_called=[book(seats="x"), book(seats=1)], available_tools=TOOLS)
    report = evaluate([good, bad, LLMTestCase(tools_called=[book()])], [ArgumentSchemaMetric(threshold=0.5)])

    assert [case.results[0].score for case in report.cases] == [1, 0.5, None]
    assert report.cases[0].results[0].warnings == ("a span was lost",)
    assert report.cases[2].results[0].status is ResultStatus.ERRORED
    with pytest.raises(
        MetricAssertionError, match=r"argument_schema\(strict\): valid: .* = 0.5, strict: 0 \(failed at 1\)"
    ):
        assert_test(bad, [ArgumentSchemaMetric(threshold=0.5, strict_mode=True)])
    assert ArgumentSchemaMetric(formats=False).label == "argument_schema(no formats)"


def test_a_forbidden_argument_is_named() -> None:
    """The schema `false` takes no value, and the finding has the place of the value."""
    tool = {"name": "a", "parameters": {"properties": {"x": False, "y": {"items": [False]}}, "$schema": DRAFT_7}}
    call = ToolCall(name="a", input_parameters={"x": 1, "y": [2]})
    result = ArgumentSchemaMetric([tool]).measure(LLMTestCase(tools_called=[call]))
    assert [finding.path for finding in result.findings] == ["$.input_parameters.x", "$.input_parameters.y[0]"]


def test_a_pattern_that_takes_too_long_is_an_error() -> None:
    """The case is not measured, so that no text takes its call out of the score; other patterns follow the standard."""
    slow = {"properties": {"x": {"pattern": "^(a|aa)+$"}}}
    case = LLMTestCase(
        tools_called=[ToolCall(name="t", input_parameters={"x": "a" * 60 + "b"})],
        available_tools=[{"name": "t", "parameters": slow}],
    )
    result = evaluate([case], [ArgumentSchemaMetric()], show_progress=False).cases[0].results[0]
    assert result.status is ResultStatus.ERRORED
    assert "longer than the 2 s of one case" in str(result.error)
    quick = {"patternProperties": {"^n_": {"type": "integer"}}, "properties": {"x": {"pattern": "a+"}}}
    for arguments, valid in (({"n_1": 1, "x": "baa"}, 1), ({"n_1": "1"}, 0), ({"x": "b"}, 0), ({"x": 5}, 1)):
        one = LLMTestCase(
            tools_called=[ToolCall(name="t", input_parameters=arguments)],
            available_tools=[{"name": "t", "parameters": quick}],
        )
        assert ArgumentSchemaMetric().measure(one).score == valid
