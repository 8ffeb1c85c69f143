"""What do LangChain's messages and exceptions say? Requests, results, texts and names; nothing is kept here.

LangGraph's classes are recognised by their names, so that nothing but `langchain-core` is imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from toolmark.capture import ABSENT, Outcome, Request, RunStatus
from toolmark_langchain._hosted import hosted_requests

_NO_SUCH_TOOL: Final = re.compile(r"(Error: )?\S+ is not a valid tool, try one of \[")
"""What LangGraph's `ToolNode` and LangChain's `AgentExecutor` show the model after a call of an unknown tool."""

OUT_OF_STEPS: Final = "Sorry, need more steps to process this request."
"""What LangGraph's prebuilt agent answers, in the model's place, when its steps run out."""

_LIMITS: Final = frozenset(
    {"GraphRecursionError", "ModelCallLimitExceededError", "ToolCallLimitExceededError", "GraphDrained"}
)
_GIVEN_UP: Final = frozenset({"CancelledError", "GeneratorExit", "KeyboardInterrupt"})


def text_of(content: object) -> str:
    """Return the text of a message's content: of a list of blocks, that of its text blocks, joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (block if isinstance(block, str) else _block_text(block) for block in content)
    return "".join(parts)


def _block_text(block: object) -> str:
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") in (None, "text") else None
    return text if isinstance(text, str) else ""


def object_in(text: str) -> dict[str, Any]:
    """Return the arguments of a tool that was handed a text: the JSON object that it is, else the text as `input`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"input": text}


# What the model asked for


def requests_of(message: AIMessage) -> list[Request]:
    """Return the calls that a model message asks for: run by the provider, well-formed, and not readable ones."""
    asked = [Request(call["name"], call["args"], call.get("id")) for call in message.tool_calls]
    unread = [
        Request(call.get("name") or "", call.get("args") or "", call.get("id"), error=call.get("error"))
        for call in message.invalid_tool_calls
    ]
    return [*hosted_requests(message), *asked, *unread]


def usage_of(message: AIMessage) -> dict[str, int]:
    """Return the token counts of a message; none where the answer came from a cache and cost nothing."""
    usage: Mapping[str, Any] = message.usage_metadata or {}
    if usage.get("total_cost") == 0:
        return {}
    counts = {name: amount for name, amount in usage.items() if isinstance(amount, int)}
    for direction in ("input", "output"):
        details = usage.get(f"{direction}_token_details")
        for name, amount in details.items() if isinstance(details, Mapping) else ():
            if isinstance(amount, int):
                counts[f"{direction}_{name}_tokens"] = amount
    return counts


def model_of(message: AIMessage) -> str | None:
    """Return the name of the model that wrote a message, if the message has it."""
    about = message.response_metadata
    name = about.get("model_name") or about.get("model")
    return name if isinstance(name, str) else None


# What a tool returned


class Result(NamedTuple):
    """What a tool returned, or what the model was shown in its place."""

    output: object = ABSENT
    artifact: object = None
    error: str | None = None
    unknown_tool: bool = False
    call_id: str | None = None


def result_of(message: ToolMessage) -> Result:
    """Return what a tool message says."""
    text = text_of(message.content)
    unknown = _NO_SUCH_TOOL.match(text) is not None
    failed = message.status == "error" or unknown
    return Result(
        message.content, message.artifact, (text or "error") if failed else None, unknown, message.tool_call_id
    )


def tool_result(value: object, call_id: str | None) -> Result:
    """Return what a tool returned: a value, a message, a command that holds messages, or a list of these.

    Args:
        value: What `on_tool_end` was given.
        call_id: The call's id, to find its message among several.
    """
    if isinstance(value, ToolMessage):
        return result_of(value)
    items = value if isinstance(value, list) else [value]
    if not items or not all(isinstance(item, ToolMessage) or is_command(item) for item in items):
        return Result(value)
    messages: list[ToolMessage] = []
    for item in items:
        found = [item] if isinstance(item, ToolMessage) else command_messages(item)
        messages += [message for message in found if isinstance(message, ToolMessage)]
    own = [message for message in messages if message.tool_call_id == call_id] if call_id else messages
    own = own or messages[-1:]
    return result_of(own[-1]) if own else Result()


# Commands and control flow


def _is_a(value: object, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(value).__mro__)


def is_command(value: object) -> bool:
    """Return whether a value is a LangGraph `Command`."""
    return _is_a(value, "Command") and hasattr(value, "goto")


def command_update(command: Any) -> Mapping[str, Any]:
    """Return the change of state that a command asks for."""
    update = command.update
    if isinstance(update, Mapping):
        return update
    if isinstance(update, (list, tuple)) and all(isinstance(item, tuple) and len(item) == 2 for item in update):  # noqa: PLR2004 - pairs
        return dict(update)
    return {"messages": update} if isinstance(update, (list, BaseMessage)) else _fields(update)


def command_messages(command: object) -> list[object]:
    """Return the messages that a command adds."""
    found = command_update(command).get("messages")
    return found if isinstance(found, list) else [] if found is None else [found]


def _fields(state: object) -> Mapping[str, Any]:
    names = ("messages", "structured_response")
    return {name: getattr(state, name) for name in names if getattr(state, name, None) is not None}


def handoff_target(value: Any) -> str | None:
    """Return the agent to which a tool's result passes control: a command that leads out of its own graph."""
    for item in value if isinstance(value, list) else [value]:
        if is_command(item) and item.graph is not None:
            goto = item.goto
            first = goto[0] if isinstance(goto, (list, tuple)) and goto else goto
            name = getattr(first, "node", first)
            if isinstance(name, str):
                return name
    return None


def is_interrupt(error: object) -> bool:
    """Return whether an exception only suspends the run."""
    return _is_a(error, "GraphBubbleUp") and not _is_a(error, "ParentCommand") and not _is_a(error, "GraphDrained")


def parent_command(error: BaseException) -> object | None:
    """Return the command with which an exception passes control to the graph above; None for any other exception."""
    return error.args[0] if _is_a(error, "ParentCommand") and error.args else None


def failure_of(error: BaseException) -> Outcome:
    """Return how a tool ended that raised this."""
    if is_interrupt(error):
        return Outcome.SUSPENDED
    return Outcome.CANCELLED if type(error).__name__ in _GIVEN_UP else Outcome.ERROR


def status_of(error: BaseException) -> RunStatus:
    """Return how a run ended that raised this."""
    if is_interrupt(error):
        return RunStatus.INTERRUPTED
    name = type(error).__name__
    return RunStatus.STOPPED if name in _GIVEN_UP or name in _LIMITS else RunStatus.ERROR


def error_text(error: BaseException) -> str:
    """Return `"TypeName: text"`, or the name alone where there is no text."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not break the recording
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def last_human_text(messages: list[Any]) -> str | None:
    """Return the text of the last message of a person."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return text_of(message.content)
    return None
