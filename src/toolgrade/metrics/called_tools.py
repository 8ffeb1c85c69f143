"""Calls and tools of a case: what the recording says, the form that matching compares, findings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolgrade._internal.json import json_text
from toolgrade._internal.message_content import hash_images
from toolgrade._internal.text import plural, printable, shorten
from toolgrade.calls import CallStatus, ToolCall, ToolSpec, read_tool_spec
from toolgrade.cases import (
    ConversationalTestCase,
    LLMTestCase,
    MLLMImage,
    MLLMTestCase,
    Run,
    TestCase,
    WholeConversation,
)
from toolgrade.errors import ConfigurationError, MissingExpectationError, MissingFieldError, NotMeasuredError
from toolgrade.failed_calls import answer_quote, applied_error_texts, looks_failed
from toolgrade.matching.alignment import CallItem
from toolgrade.matching.argument_pattern import Template
from toolgrade.matching.json_compare import ABSENT, AbsentType, frozen, has_mark
from toolgrade.result import Finding, FindingKind, redact_at_path
from toolgrade.verdict import is_record_only, run_end

if TYPE_CHECKING:
    from toolgrade.expect.plan import Expectation

_MAX_ERROR_LENGTH = 120


def status_of(call: ToolCall) -> CallStatus | None:
    """Return the status of a call; `None` without an `execution`, as the status was not recorded."""
    return None if call.execution is None else call.execution.status


def identity_key(call: ToolCall) -> Hashable | None:
    """Return a key that identical calls share: name and arguments; `None` if not all arguments are known."""
    # Without valid, captured arguments, those that the model requested are compared.
    uses_requested = not call.captured("input_parameters") or status_of(call) is CallStatus.INVALID_ARGUMENTS
    arguments: Any = call.arguments
    if uses_requested:
        arguments = call.execution and call.execution.requested_parameters
        if arguments is None:
            return None
    return None if has_mark(arguments) else (call.name, uses_requested, frozen(arguments))


def call_text(call: ToolCall, index: int) -> str:
    """Return `called #3 'search'` for the call at position 2."""
    return f"called #{index + 1} {printable(call.name)!r}"


def call_finding(
    kind: FindingKind,
    title: str,
    call: ToolCall,
    index: int,
    detail: str = "",
    **values: Any,  # noqa: ANN401 - fields of a finding
) -> Finding:
    """Return a finding about one called tool, such as `Failed: called #3 'search', error: full`."""
    return Finding(kind, f"{title}: {call_text(call, index)}{detail}.", call.name, called=index, **values)


def error_text(call: ToolCall) -> str:
    """Return how a call failed, such as `error: TimeoutError: 30 s`, without secrets of a known form."""
    if call.execution is None or call.execution.status is CallStatus.OK:
        return f"answered {answer_quote(call)!r}"
    message = str(redact_at_path(call.execution.error or "", None))
    detail = shorten(printable(message), _MAX_ERROR_LENGTH).rstrip(".")
    return f"{call.execution.status.value}: {detail}" if detail else call.execution.status.value


def error_text_finding(call: ToolCall, index: int) -> Finding:
    """Return the finding that a call failed by its answer alone."""
    return call_finding("error_text", "Error text", call, index, f" {error_text(call)}")


def outcome_text(call: ToolCall) -> str:
    """Return what became of a call that did not succeed, such as `failed (error: TimeoutError: 30 s)`."""
    return f"{'failed' if looks_failed(call) else 'was not done'} ({error_text(call)})"


class Undone(NamedTuple):
    """A called tool that did nothing: its position, its name, what became of it, and whether that is a failure."""

    called: int
    name: str
    outcome: str
    failed: bool

    @classmethod
    def of(cls, call: ToolCall, index: int) -> Undone:
        """Return what became of the call at a position."""
        return cls(index, call.name, outcome_text(call), looks_failed(call))


def omission_warnings(amount: int, reason: str, noun: str = "call") -> list[str]:
    """Return the warning that calls were left out of the score; empty if there are none."""
    return [f"{plural(amount, noun)} left out: {reason}"] if amount else []


def inferred_success_warnings(calls: Iterable[ToolCall]) -> list[str]:
    """Return the warning that calls count as successful only because their answers are not marked as errors."""
    texts = applied_error_texts()
    if texts.own is not None:
        return []  # a pattern of the user covers the answers of these tools
    amount = sum(_is_inferred_success(call) for call in calls)
    what = "a failure in words of its own" if texts.pattern else "a failure that only its text reports"
    return [f"{plural(amount, 'call')} recorded by the answer alone: {what} is not detected"] if amount else []


def _is_inferred_success(call: ToolCall) -> bool:
    execution = call.execution
    is_answered = execution is not None and execution.status is CallStatus.OK and not execution.executed
    return is_answered and not looks_failed(call)


def run_notes(case: TestCase) -> Sequence[str]:
    """Return the notes on what the recording of a case lacks."""
    notes = () if case.run is None else tuple(case.run.notes)
    if case.ends in {None, "any"} or run_end(case)[0] is not None:
        return notes
    return (*notes, f"nothing recorded says how the run ended, which must end with {case.ends!r}")


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
        MissingExpectationError: The case has no `expected_tools`.
    """
    check_case(case, metric)
    expected = case.expected_tools
    if expected is None:
        needs = f"{metric} needs expected_tools{case_label(case)}"
        raise MissingExpectationError(f"{needs}; give the calls, or [] for none")
    if isinstance(expected, list):
        return expected
    from toolgrade.expect.from_call import bind_to_run  # noqa: PLC0415 - loaded with the first plan
    from toolgrade.expect.plan import without_rules  # noqa: PLC0415 - as above

    bound: Expectation = bind_to_run(expected, case.tools_called or ())
    return without_rules(bound)


def as_case(case: TestCase | ConversationalTestCase) -> TestCase:
    """Return a conversation as the one case that metrics measure, and any other case as it is.

    Raises:
        NotMeasuredError: The simulated user of the conversation did something wrong.
    """
    refuse_spoilt(case)
    return case.to_test_case() if isinstance(case, ConversationalTestCase) else case


def refuse_spoilt(case: object) -> None:
    """Raise `NotMeasuredError` for a conversation whose simulated user did something wrong."""
    if isinstance(case, ConversationalTestCase) and case.user_error is not None:
        raise NotMeasuredError(f"the user spoilt the conversation{case_label(case)}: {case.user_error}")


def scored_turns(case: TestCase) -> frozenset[int] | None:
    """Return the turns of a conversation whose calls are compared with the expected ones; `None` for all."""
    return case.scored_turns if isinstance(case, WholeConversation) else None


def calls_in_turns(
    case: TestCase, called: list[ToolCall], expected: list[ToolCall] | Expectation, metric: str
) -> list[ToolCall]:
    """Return the called tools, with their turns if expected calls state theirs. A run without turns is one turn.

    Raises:
        MissingFieldError: Expected calls state their turns, and no called tool does.
    """
    stating = expected if isinstance(expected, list) else expected.expected_calls()
    if all(call.turn is None for call in stating):
        return called
    if any(call.turn is not None for call in called) or not called:
        return called
    if recorded_run(case) is None:
        needs = f"{metric} needs the turn of the tools_called{case_label(case)}"
        raise MissingFieldError(f"{needs}, since its expected_tools state theirs; give each call its turn")
    return [call.model_copy(update={"turn": 1}) for call in called]


def recorded_run(case: TestCase) -> Run | None:
    """Return the run of a case, unless it only carries the warnings of a record."""
    return None if case.run is None or is_record_only(case.run) else case.run


def text_of(content: str | list[str | MLLMImage]) -> str:
    """Return the texts of a content without its images."""
    return content if isinstance(content, str) else "\n".join(part for part in content if isinstance(part, str))


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


Compare: TypeAlias = Literal["exact", "meaning"]
"""How arguments without matchers are compared: as JSON values, or by meaning (`toolgrade.expect.SameMeaning`)."""


def expected_item(call: ToolCall, *, output: bool = False) -> CallItem:
    """Return an expected call for comparison; unset fields are absent. With `output`, images compare by content."""
    fields = call.__pydantic_fields_set__  # `model_fields_set` is a property, and this runs for each call
    kind = call.type
    return CallItem(
        call.name,
        kind if kind is None else kind.value,
        _comparable_arguments(call) if "input_parameters" in fields else ABSENT,
        _comparable_output(call, output=output) if "output" in fields else ABSENT,
        call.turn,
    )


def called_item(call: ToolCall, *, output: bool = False) -> CallItem:
    """Return a called tool for comparison; fields that were not recorded are absent."""
    kind = None if call.type is None else call.type.value
    missing = () if call.execution is None else call.execution.not_captured
    return CallItem(
        call.name,
        ABSENT if "type" in missing else kind,
        ABSENT if "input_parameters" in missing else _comparable_arguments(call),
        ABSENT if "output" in missing else _comparable_output(call, output=output),
        call.turn,
    )


def name_alone(call: ToolCall) -> CallItem:
    """Return a call for comparison that has no partner."""
    return CallItem(call.name, None, ABSENT, ABSENT)


def _comparable_arguments(call: ToolCall) -> dict[str, Any] | str:
    """Return the argument object, or the text that a model wrote instead, which equals no object."""
    if call.execution is None or call.execution.status is not CallStatus.INVALID_ARGUMENTS:
        return call.input_parameters or {}
    text = call.execution.requested_parameters
    return text if isinstance(text, str) else json_text(text)


def _comparable_output(call: ToolCall, *, output: bool) -> Any:  # noqa: ANN401 - a JSON value
    return hash_images(call.output) if output else call.output


def item_by_meaning(item: CallItem, tools: Sequence[ToolSpec] = ()) -> CallItem:
    """Return an expected call whose arguments are compared by meaning, except where they are matchers.

    The first of the tools with its name says which arguments may be left out.
    """
    arguments = item.arguments
    if isinstance(arguments, (AbsentType, str)):
        return item
    from toolgrade.expect.argument_defaults import ArgumentSchema  # noqa: PLC0415 - most metrics compare exact values
    from toolgrade.expect.meaning import by_meaning  # noqa: PLC0415 - as above

    template = Template.of(arguments)
    schema = next((tool.input_schema for tool in tools if tool.name == item.name and tool.input_schema), None)
    tree = by_meaning(dict(template.tree), ArgumentSchema(schema, schema), extras=template.extras)
    return item._replace(arguments=Template(tree, template.extras, by_meaning=True))
