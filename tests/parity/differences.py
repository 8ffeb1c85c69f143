"""What a framework forces to be otherwise: everything else must be equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """One field of one scenario in which a framework differs from the others.

    Attributes:
        scenario: The scenario.
        framework: The framework.
        field: The field, such as `calls[0].error`.
        value: What it has; of a text, how it begins.
        reason: Why the framework forces it.
    """

    scenario: str
    framework: str
    field: str
    value: Any
    reason: str


_WORDS = "the error is told in the framework's own words"
_UNKNOWN = "the SDK ends a run that asks for a tool which its agent lacks, unless it is told otherwise"
_UNREAD = "LangGraph does not run a call whose arguments it could not read, and ends: its message asks for nothing else"
_RUNS = "the tool is called with what could be read, and refuses it"
_HANDS = "what hands over is a tool among the others, and offered as one"

UNKNOWN, NO_JSON, REJECTED = (
    "a tool that does not exist",
    "arguments that are no JSON",
    "arguments that the tool rejects",
)
HANDING, LATER = "handing over", "a call, and then handing over"

DIFFERENCES = (
    Difference(UNKNOWN, "LangChain", "calls[0].error", "Error: nope is not a valid tool", _WORDS),
    Difference(UNKNOWN, "LlamaIndex", "calls[0].error", "Tool nope not found. Please select", _WORDS),
    Difference(UNKNOWN, "OpenAI Agents", "calls[0].error", "Tool nope not found in agent alice", _WORDS),
    Difference(UNKNOWN, "OpenAI Agents", "status", "error", _UNKNOWN),
    Difference(UNKNOWN, "OpenAI Agents", "actual_output", None, _UNKNOWN),
    Difference(UNKNOWN, "OpenAI Agents", "error", "ModelBehaviorError: Tool nope not found", _UNKNOWN),
    Difference(NO_JSON, "LangChain", "calls[0].error", "no JSON", _WORDS),
    Difference(NO_JSON, "LlamaIndex", "calls[0].error", "TypeError: add() missing 1 required", _RUNS),
    Difference(NO_JSON, "OpenAI Agents", "calls[0].error", "not JSON: Expecting property name", _RUNS),
    Difference(NO_JSON, "LangChain", "calls[0].executed", False, _UNREAD),
    Difference(NO_JSON, "LangChain", "actual_output", "", _UNREAD),
    Difference(REJECTED, "LangChain", "calls[0].error", "ValidationError: 1 validation error for add", _WORDS),
    Difference(REJECTED, "LlamaIndex", "calls[0].error", "TypeError: can only concatenate str", _WORDS),
    Difference(REJECTED, "OpenAI Agents", "calls[0].error", "ModelBehaviorError: Invalid JSON input", _WORDS),
    *(
        Difference(scenario, framework, "available_tools", ["add", name], _HANDS)
        for scenario in (HANDING, LATER)
        for framework, name in (("LangChain", "transfer_to_bob"), ("LlamaIndex", "handoff"))
    ),
)


def is_told(difference: Difference, value: Any) -> bool:
    """Whether a value is the one of the table; of a text, the beginning counts."""
    if isinstance(difference.value, str) and difference.value and isinstance(value, str):
        return value.startswith(difference.value)
    return bool(difference.value == value)


def table(amount: int) -> str:
    """The table for the documentation."""
    lines = [
        f"Of {amount} scenarios, these have fields that a framework forces to be otherwise; all others are equal.",
        "",
        "| scenario | framework | field | what it has | why |",
        "|---|---|---|---|---|",
    ]
    for one in DIFFERENCES:
        value = one.value if not isinstance(one.value, str) else f'"{one.value}"'
        lines.append(f"| {one.scenario} | {one.framework} | `{one.field}` | `{value}` | {one.reason} |")
    return "\n".join(lines)
