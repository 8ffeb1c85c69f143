"""Conversion of recorded calls to expected calls."""

from __future__ import annotations

from toolgrade.calls import CallStatus, ToolCall
from toolgrade.cases import ConversationalTestCase, LLMTestCase, MLLMTestCase, Run, RunStatus, TestCase
from toolgrade.errors import ConfigurationError, InvalidDataError, MissingFieldError


def case_of(measured: object) -> TestCase:
    """Return the case of a run, a case or a list of calls.

    Raises:
        ConfigurationError: The argument is none of these.
    """
    if isinstance(measured, (LLMTestCase, MLLMTestCase)):
        return measured
    if isinstance(measured, Run):
        return measured.to_test_case()
    if isinstance(measured, (list, tuple)) and all(isinstance(call, ToolCall) for call in measured):
        return LLMTestCase(tools_called=list(measured))
    hint = ""
    if isinstance(measured, ConversationalTestCase):
        hint = "; pass the case of a turn"
    elif callable(measured):  # `recorder.run`, which is a method of some recorders
        hint = "; pass a recorded run, such as recorder.last_run"
    kind = type(measured).__name__
    raise ConfigurationError(f"expected a Run, a case or a list of ToolCall, got {kind}{hint}")


def written_calls(case: TestCase) -> list[ToolCall]:
    """Return the called tools of a case as read back from a file, where NaN, for one, is text.

    Raises:
        MissingFieldError: The case has no `tools_called`.
    """
    if case.tools_called is None:
        raise MissingFieldError("the case has no tools_called; set [] if nothing was called")
    return [ToolCall.from_json(call.to_json()) for call in case.tools_called]


def approved_calls(case: TestCase) -> list[ToolCall]:
    """Return the called tools of a case as expected ones: names and arguments, with their secrets.

    Arguments that were not recorded, or are not a JSON object, are left out, and match anything.

    Raises:
        MissingFieldError: The case has no `tools_called`.
        InvalidDataError: Its run ended with an error, so its calls are not a model for later ones.
    """
    if case.run is not None and case.run.status is RunStatus.ERROR:
        raise InvalidDataError(f"the run ended with an error, and is not approved ({case.run.error})")
    return list(map(_expected, written_calls(case)))


def _expected(call: ToolCall) -> ToolCall:
    is_broken = call.execution is not None and call.execution.status is CallStatus.INVALID_ARGUMENTS
    if is_broken or not call.captured("input_parameters"):
        return ToolCall(name=call.name)
    return ToolCall(name=call.name, input_parameters=call.arguments)
