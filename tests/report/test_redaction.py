"""Nothing that leaves a report holds a secret, while the score was made from the real values."""

import pytest

from toolmark import LLMTestCase, Report, ToolCall, ToolCorrectnessMetric, evaluate
from toolmark.redact import OFF, REDACTED
from toolmark.report.terminal import make_console, print_report

EXPECTED = {"api_key": "one-1", "auth": {"authorization": {"value": "two-2"}}, "max_tokens": 1}
CALLED = {"api_key": "three-3", "auth": {"authorization": {"value": "four-4"}}, "max_tokens": 2}
SECRETS = ("one-1", "two-2", "three-3", "four-4", "abcdef1234567890xyz")


def report() -> Report:
    """A report of one case whose arguments differ in secrets, in an ordinary value, and in a text with a token."""
    called = ToolCall(name="a", input_parameters={**CALLED, "note": "Bearer abcdef1234567890xyz"})
    case = LLMTestCase(expected_tools=[ToolCall(name="a", input_parameters=EXPECTED)], tools_called=[called])
    return evaluate([case], [ToolCorrectnessMetric(evaluation_params=["input_parameters"])])


def test_the_written_report_holds_no_secret() -> None:
    """Values under secret keys, at any depth, and known shapes are marked; other values stay."""
    text = report().to_json()

    assert not [secret for secret in SECRETS if secret in text]
    assert REDACTED in text
    assert '"expected_value": 1' in text


def test_the_reason_holds_no_secret() -> None:
    """A reason is made to be sent on."""
    reason = report().cases[0].results[0].reason or ""

    assert not [secret for secret in SECRETS if secret in reason]
    assert "$.input_parameters.max_tokens expected 1, called with 2" in reason


def test_the_terminal_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the short list nor the comparison side by side."""
    print_report(report(), title="secrets", console=make_console())
    out = capsys.readouterr().out

    assert not [secret for secret in SECRETS if secret in out]
    assert "max_tokens: 1" in out


def test_the_score_sees_the_real_values() -> None:
    """Different secrets are different arguments, and the findings in memory hold them."""
    result = report().cases[0].results[0]

    assert result.score == 0
    assert {finding.expected_value for finding in result.findings} >= {"one-1", "two-2"}


def test_it_can_be_switched_off() -> None:
    """With `OFF` the values are written as they are."""
    assert "one-1" in report().to_json(redactor=OFF)
