"""Documented differences between frameworks; all other fields must be equal."""

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
        value: The value of this framework; for a text, its beginning.
        reason: Why the framework forces it.
    """

    scenario: str
    framework: str
    field: str
    value: Any
    reason: str


_WORDS = "the error has the framework's wording"
_UNKNOWN = "by default the SDK ends a run that calls a tool its agent lacks"
_UNREAD = "LangGraph does not run a call with unreadable arguments, and ends if the message has no other call"
_RUNS = "the tool is called with the readable arguments and rejects them"
_REFUSES = "the SDK checks the arguments itself and does not call the tool"
_HANDS = "hand-offs are offered as tools"
_REFUSED = "its one tool for hand-offs exists and refuses the agent; elsewhere each agent has its own"

UNKNOWN, NOT_JSON, REJECTED = (
    "a tool that does not exist",
    "arguments that are not JSON",
    "arguments that the tool rejects",
)
HANDING, LATER = "a hand-off", "a call, then a hand-off"
NOBODY = "a hand-off to an agent that does not exist"

DIFFERENCES = (
    Difference(UNKNOWN, "LangChain", "calls[0].error", "Error: nope is not a valid tool", _WORDS),
    Difference(UNKNOWN, "LlamaIndex", "calls[0].error", "Tool nope not found. Please select", _WORDS),
    Difference(UNKNOWN, "OpenAI Agents", "calls[0].error", "Tool nope not found in agent alice", _WORDS),
    Difference(UNKNOWN, "OpenAI Agents", "status", "error", _UNKNOWN),
    Difference(UNKNOWN, "OpenAI Agents", "actual_output", None, _UNKNOWN),
    Difference(UNKNOWN, "OpenAI Agents", "error", "ModelBehaviorError: Tool nope not found", _UNKNOWN),
    Difference(NOT_JSON, "LangChain", "calls[0].error", "no JSON", _WORDS),
    Difference(NOT_JSON, "LlamaIndex", "calls[0].error", "TypeError: add() missing 1 required", _RUNS),
    Difference(NOT_JSON, "OpenAI Agents", "calls[0].error", "not JSON: unexpected 'a'", _WORDS),
    Difference(NOT_JSON, "LangChain", "calls[0].executed", False, _UNREAD),
    Difference(NOT_JSON, "OpenAI Agents", "calls[0].executed", False, _REFUSES),
    Difference(NOT_JSON, "LangChain", "actual_output", "", _UNREAD),
    Difference(REJECTED, "LangChain", "calls[0].error", "ValidationError: 1 validation error for add", _WORDS),
    Difference(REJECTED, "LlamaIndex", "calls[0].error", "TypeError: can only concatenate str", _WORDS),
    Difference(REJECTED, "OpenAI Agents", "calls[0].error", "ModelBehaviorError: Invalid JSON input", _WORDS),
    Difference(REJECTED, "OpenAI Agents", "calls[0].executed", False, _REFUSES),
    Difference(NOBODY, "LlamaIndex", "calls.length", 0, _REFUSED),
    Difference(NOBODY, "LlamaIndex", "failed_handoffs", [0], _REFUSED),
    Difference(NOBODY, "LangChain", "calls[0].error", "Error: transfer_to_carol is not a valid tool", _WORDS),
    Difference(NOBODY, "OpenAI Agents", "calls[0].error", "Tool transfer_to_carol not found in agent alice", _WORDS),
    Difference(NOBODY, "OpenAI Agents", "status", "error", _UNKNOWN),
    Difference(NOBODY, "OpenAI Agents", "actual_output", None, _UNKNOWN),
    Difference(NOBODY, "OpenAI Agents", "error", "ModelBehaviorError: Tool transfer_to_carol", _UNKNOWN),
    *(
        Difference(scenario, framework, "available_tools", ["add", name], _HANDS)
        for scenario in (HANDING, LATER, NOBODY)
        for framework, name in (("LangChain", "transfer_to_bob"), ("LlamaIndex", "handoff"))
    ),
)


def is_documented(difference: Difference, value: Any) -> bool:
    """Whether a value is the one of the table; texts are compared by their beginning."""
    if isinstance(difference.value, str) and difference.value and isinstance(value, str):
        return value.startswith(difference.value)
    return bool(difference.value == value)


def table(amount: int) -> str:
    """Return the table for the page."""
    lines = [
        f"Of {amount} scenarios, these have fields that differ between frameworks; all others are equal.",
        "",
        "| scenario | framework | field | value | reason |",
        "|---|---|---|---|---|",
    ]
    for one in DIFFERENCES:
        value = one.value if not isinstance(one.value, str) else f'"{one.value}"'
        lines.append(f"| {one.scenario} | {one.framework} | `{one.field}` | `{value}` | {one.reason} |")
    return "\n".join(lines)
