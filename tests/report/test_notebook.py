"""Reports in notebooks, and printing."""

from __future__ import annotations

from typing import Any

from reports import agents_report
from toolgrade import LLMTestCase, Report, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.redact import REDACTED

SECRET = "sk-" + "a" * 40


def report(count: int = 1) -> Report:
    """A report of one passed case, one that cannot be measured, and `count` failed ones with hostile text."""
    cases = [
        LLMTestCase(name="good", tools_called=[], expected_tools=[], tags=["a"]),
        LLMTestCase(name="unknown"),
    ]
    for number in range(count):
        name = f"<script>alert({number})</script>"
        called = [ToolCall(name=name, input_parameters={"api_key": SECRET})]
        cases.append(LLMTestCase(name=f"bad {number} {name}", tools_called=called, expected_tools=[ToolCall(name="f")]))
    return evaluate(cases, [ToolCorrectnessMetric()])


def test_rows_and_fragments_are_redacted() -> None:
    """No secret of a name or a reason gets into a table, whole or in part."""
    case = LLMTestCase(
        name=SECRET,
        tools_called=[ToolCall(name="f", input_parameters={"api_key": SECRET})],
        expected_tools=[ToolCall(name="f", input_parameters={"api_key": "other"})],
    )
    report = evaluate([case], [ToolCorrectnessMetric(evaluation_params=["input_parameters"])])
    for text in (str(report.to_rows()), report._repr_html_()):
        assert REDACTED in text
        assert SECRET[:8] not in text


def test_html_fragment_is_escaped() -> None:
    """The fragment shows totals and bad cases, runs no script, and shows no passed case."""
    html = report()._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(0)&lt;/script&gt;" in html
    assert "<td>tool_correctness</td><td>0.5</td><td>1</td><td>1</td><td>1</td><td>0</td>" in html
    assert "good" not in html
    assert "src=" not in html


def test_html_fragment_of_many_cases() -> None:
    """Ten results are listed, and the others are counted."""
    html = report(30)._repr_html_()
    assert html.count("<tr>") == 1 + 1 + 1 + 10
    assert "and 21 other results that did not pass" in html


def test_html_fragment_without_problems() -> None:
    """A report in which everything passed has one table."""
    passed = evaluate([LLMTestCase(tools_called=[], expected_tools=[])], [ToolCorrectnessMetric()])
    assert passed._repr_html_().count("<table>") == 1


def test_print(capsys: Any) -> None:
    """The report is printed with its title."""
    report().print("Nightly run")
    assert "Nightly run: 3 cases\n Failed: 1 of 3 cases failed" in capsys.readouterr().out


def test_html_fragment_of_several_agents() -> None:
    """The totals of each in a column of its own."""
    fragment = agents_report({"<b>": {"refund": "p"}, "mini": {"refund": "f"}})._repr_html_()

    assert "<th>&lt;b&gt;</th><th>mini</th>" in fragment
    assert (
        "<td>mean 1.00; 1 of 1 passed</td><td>mean 0.50; 0 of 1 passed; -0.50, p = 1.000; may be chance</td>"
        in fragment
    )
