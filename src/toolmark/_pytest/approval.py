"""What was called becomes what is expected: the calls of a run as the expectation of later ones."""

from __future__ import annotations

from toolmark.calls import ToolCall
from toolmark.cases import ConversationalTestCase, LLMTestCase, MLLMTestCase, Run, RunStatus, TestCase
from toolmark.errors import ConfigurationError, InvalidDataError, MissingFieldError


def case_of(measured: object) -> TestCase:
    """Return the case that a run, a case or a list of calls is.

    Raises:
        ConfigurationError: It is none of these.
    """
    if isinstance(measured, (LLMTestCase, MLLMTestCase)):
        return measured
    if isinstance(measured, Run):
        return measured.to_test_case()
    if isinstance(measured, (list, tuple)) and all(isinstance(call, ToolCall) for call in measured):
        return LLMTestCase(tools_called=list(measured))
    what = "conversation; give the case of a turn" if isinstance(measured, ConversationalTestCase) else None
    raise ConfigurationError(f"needed is a Run, a case or a list of ToolCall, got a {what or type(measured).__name__}")


def written_calls(case: TestCase) -> list[ToolCall]:
    """Return the called tools of a case as they are when they come out of a file: NaN, for one, is a text there.

    Raises:
        MissingFieldError: The case does not say what was called.
    """
    if case.tools_called is None:
        raise MissingFieldError("the case has no tools_called; [] would say that nothing was called")
    return [ToolCall.from_json(call.to_json()) for call in case.tools_called]


def approved_calls(case: TestCase) -> list[ToolCall]:
    """Return the called tools of a case as expected ones: names and arguments, still with their secrets.

    Arguments that were not recorded are left out, and so match anything.

    Raises:
        MissingFieldError: The case does not say what was called.
        InvalidDataError: An error ended its run, so that what was called is hardly what should be.
    """
    if case.run is not None and case.run.status is RunStatus.ERROR:
        raise InvalidDataError(f"what a run called that ended with an error is not approved ({case.run.error})")
    return list(map(_expected, written_calls(case)))


def _expected(call: ToolCall) -> ToolCall:
    if not call.captured("input_parameters"):
        return ToolCall(name=call.name)
    return ToolCall(name=call.name, input_parameters=call.arguments)
