"""The fields of a case that metrics read, with the errors for those that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolgrade.calls import ToolCall, ToolSpec, read_tool_spec
from toolgrade.cases import ConversationalTestCase, LLMTestCase, MLLMTestCase, TestCase
from toolgrade.errors import ConfigurationError, MissingFieldError

if TYPE_CHECKING:
    from toolgrade.expect.plan import Expectation


def run_notes(case: TestCase) -> Sequence[str]:
    """Return the notes on what the recording of a case lacks."""
    return () if case.run is None else tuple(case.run.notes)


def case_label(case: TestCase | ConversationalTestCase) -> str:
    """Return ` of case 'id'`, or nothing if the case has neither id nor name."""
    return f" of case {case.id or case.name!r}" if case.id or case.name else ""


def check_case(case: object, metric: str) -> None:
    """Raise `ConfigurationError` unless it is a case of a single question."""
    if not isinstance(case, (LLMTestCase, MLLMTestCase)):
        raise ConfigurationError(f"{metric} measures an LLMTestCase or MLLMTestCase, got {type(case).__name__}")


def called_tools(case: TestCase, metric: str) -> list[ToolCall]:
    """Return the called tools of a case.

    Raises:
        ConfigurationError: It is not a single-turn case.
        MissingFieldError: The case has no `tools_called`.
    """
    check_case(case, metric)
    if case.tools_called is None:
        needs = f"{metric} needs tools_called{case_label(case)}"
        raise MissingFieldError("; ".join([needs, *run_notes(case)[:1], "give the calls, or [] for none"]))
    return case.tools_called


def expectation_of(case: TestCase, metric: str) -> list[ToolCall] | Expectation:
    """Return the expected tools of a case; a plan of calls without further rules is returned as their list.

    Raises:
        ConfigurationError: It is not a case of a single question.
        MissingFieldError: The case has no `expected_tools`.
    """
    check_case(case, metric)
    expected = case.expected_tools
    if expected is None:
        needs = f"{metric} needs expected_tools{case_label(case)}"
        raise MissingFieldError(f"{needs}; give the calls, or [] for none")
    if isinstance(expected, list):
        return expected
    from toolgrade.expect.plan import without_rules  # noqa: PLC0415 - loaded with the first plan

    return without_rules(expected)


def read_tools(option: Iterable[object] | None) -> tuple[ToolSpec, ...] | None:
    """Return available tools as specs; `None` if they are not set."""
    return None if option is None else tuple(map(read_tool_spec, option))


def needed_tools(
    option: Iterable[object] | None, case: TestCase | ConversationalTestCase, metric: str
) -> tuple[ToolSpec, ...]:
    """Return the available tools of a metric, by default those of the case.

    Raises:
        MissingFieldError: Neither the metric nor the case has tools.
    """
    tools = read_tools(case.available_tools if option is None else option)
    if tools is None:
        needs = f"{metric} needs available_tools{case_label(case)}, of the metric or of the case"
        raise MissingFieldError(f"{needs}; give the tools, or [] for none")
    return tools
