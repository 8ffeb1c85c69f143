"""Nothing that leaves a report holds a secret, while the score was made from the real values."""

import pytest

from toolgrade import LLMTestCase, MetricResult, Report, ResultStatus, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.expect import Approx, Expect, Plan
from toolgrade.redact import DEFAULT, OFF, REDACTED
from toolgrade.report.redaction import redact
from toolgrade.report.terminal import print_report
from toolgrade.report.terminal.console import make_console
from toolgrade.report.text.first_problem import brief, first_problem
from toolgrade.result import Finding

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


def test_redaction_can_be_disabled() -> None:
    """With `OFF` values are written unchanged."""
    assert "one-1" in report().to_json(redactor=OFF)


def test_first_problems_of_redacted_results_hold_no_secret() -> None:
    """Neither values under secret keys, nor tokens that an error repeats; `OFF` leaves them."""
    finding = Finding("wrong_argument", "", "pay", 0, 0, "$.input_parameters.api_key", "old-1", "new-2")
    error = MetricResult(
        metric="m",
        status=ResultStatus.ERRORED,
        threshold=1,
        reason="Not measured: ghp_0123456789abcdefghijABCDEF",
        findings=(finding,),
    )
    redacted = redact(error)

    assert brief(redacted.findings[0]) == f'c1 pay: args.api_key "{REDACTED}", expected "{REDACTED}"'
    assert "ghp_" not in str(redacted)
    assert redact(error, OFF) is error
    assert first_problem(error) == 'c1 pay: args.api_key "new-2", expected "old-1"'


def test_labels_and_metric_names_are_redacted() -> None:
    """A token used as an id is a secret; the report object stays unchanged."""
    original = report()
    token = "ghp_0123456789abcdefghijABCDEF"
    case = original.cases[0].case.model_copy(update={"id": token})
    renamed = evaluate([case], [ToolCorrectnessMetric()])

    assert redact(renamed, DEFAULT).cases[0].label == REDACTED
    assert renamed.cases[0].label == token
    assert redact(renamed, OFF) is renamed


def test_matchers_next_to_a_secret_stay_matchers() -> None:
    """Only the secret part of an expected value is replaced."""
    plan = Plan([Expect("a", {"options": [Approx(5), {"password": "word-1"}]})])
    called = ToolCall(name="a", input_parameters={"options": [7, {"password": "word-2"}]})
    case = LLMTestCase(tools_called=[called], expected_tools=plan)
    result = redact(ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case))
    assert result.alignment is not None
    (difference,) = result.alignment.pairs[0].differences

    assert isinstance(difference.expected[0], Approx)
    assert difference.expected[1] == difference.called[1] == {"password": REDACTED}


def test_messages_of_written_findings_hold_no_token() -> None:
    """A message may quote a judge or an error; `OFF` leaves it."""
    finding = Finding("wrong_tool", "The judge says Bearer abcdef1234567890xyz", "pay", called=0)

    assert finding.to_dict()["message"] == f"The judge says Bearer {REDACTED}"
    assert finding.to_dict(OFF)["message"] == finding.message
