"""What tools return: values, messages, and commands of LangGraph, which are recognized by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool

from toolgrade.capture import ABSENT
from toolgrade.formats import is_refusal
from toolgrade_langchain._errors import is_a
from toolgrade_langchain._handovers import goto_of, in_list, targets_of
from toolgrade_langchain._messages import images_of_langchain, readable_images, text_of

_NO_SUCH_TOOL: Final = re.compile(r"(Error: )?\S+ is not a valid tool, try one of \[")
"""What LangGraph's `ToolNode` and LangChain's `AgentExecutor` show the model after a call of an unknown tool."""

_DATA: Final = "lc_data"
"""Where LangChain's middleware notes the decision of a person (langchain_core/messages/notification.py)."""

COMMAND: Final = "langgraph_command"
"""Key in the artifact of a call whose tool returned a command: what it did besides showing the model a message."""
HANDED_OVER: Final = "handed_over_to"
"""The only key in what such a command did if it handed over to other agents; the value is the names of the agents."""


class ToolResult(NamedTuple):
    """What a tool returned, or what the model was shown in its place.

    Attributes:
        output: The value; `ABSENT` if the model was shown none.
        artifact: What the tool returned for the program.
        error: The text of a failure.
        unknown_tool: The model asked for a tool that does not exist.
        call_id: The id of the call in the message with the result.
        is_mcp: The content has the form of a tool of an MCP server.
        rejected_by_person: The message has the mark with which LangChain's middleware notes the decision of a person.
    """

    output: object = ABSENT
    artifact: object = None
    error: str | None = None
    unknown_tool: bool = False
    call_id: str | None = None
    is_mcp: bool = False
    rejected_by_person: bool = False

    @property
    def was_refused(self) -> bool:
        """Whether the tool did not run since a person or a limit refused it, by the mark of the message or its text."""
        return self.rejected_by_person or is_refusal(self.error)


def result_of(message: ToolMessage) -> ToolResult:
    """Return the result in a tool message."""
    text = text_of(message.content)
    unknown_tool = _NO_SUCH_TOOL.match(text) is not None
    error = (text or "error") if message.status == "error" or unknown_tool else None
    content: object = message.content
    is_mcp = _looks_like_mcp_content(content, message.artifact)
    if is_mcp and isinstance(content, list):
        # The ids are random, so they are not part of the output.
        blocks = [{key: value for key, value in block.items() if key != "id"} for block in content]
        content = text if len(blocks) == 1 and blocks[0].get("type") == "text" else blocks
    data = message.additional_kwargs.get(_DATA)
    return ToolResult(
        output=readable_images(content),
        artifact=message.artifact,
        error=error,
        unknown_tool=unknown_tool,
        call_id=message.tool_call_id,
        is_mcp=is_mcp,
        rejected_by_person=isinstance(data, Mapping) and data.get("decision") == "reject",
    )


def tool_result(output: object, call_id: str | None) -> ToolResult:
    """Return the result in the output of a tool: a value, a message, a command with messages, or a list of these.

    Args:
        output: The output that `on_tool_end` received.
        call_id: The id of the call, to choose its message among several.
    """
    items = in_list(output)
    if not items or not all(map(_is_message_or_command, items)):
        return ToolResult(output=readable_images(output))
    messages = [message for item in items for message in _messages_in(item)]
    own = [message for message in messages if message.tool_call_id == call_id]
    result = result_of((own or messages)[-1]) if messages else ToolResult()
    done = _done_by_command(items)
    if done == {}:
        return result
    artifact: dict[str, object] = {COMMAND: done}
    if result.artifact is not None:
        artifact["artifact"] = result.artifact
    return result._replace(artifact=artifact)


def content_of(output: Any, tool: BaseTool) -> Any:
    """Return the content that replays a recorded output, with fresh block ids for a tool of an MCP server."""
    if not _is_mcp_tool(tool):
        return images_of_langchain(output)
    blocks = images_of_langchain([{"type": "text", "text": output}] if isinstance(output, str) else output)
    if not isinstance(blocks, list):
        return blocks
    return [{**block, "id": f"lc_{uuid4()}"} if isinstance(block, Mapping) else block for block in blocks]


def is_command(value: object) -> bool:
    """Return whether a value is a LangGraph `Command`."""
    return is_a(value, "Command") and hasattr(value, "goto")


def command_update(command: Any) -> Mapping[str, Any]:
    """Return the update of the state that a command holds, by the names of the fields."""
    update = command.update
    if isinstance(update, Mapping):
        return update
    if isinstance(update, (list, tuple)) and all(isinstance(item, tuple) and len(item) == 2 for item in update):  # noqa: PLR2004 - pairs
        return dict(update)
    if isinstance(update, (list, BaseMessage)):
        return {"messages": update}
    # The update is `None`, or an object such as a dataclass of the state. Of an object, only these fields are read.
    names = ("messages", "structured_response")
    return {name: getattr(update, name) for name in names if getattr(update, name, None) is not None}


def _looks_like_mcp_content(content: object, artifact: object) -> bool:
    """Return whether a result has the form that `langchain-mcp-adapters` gives it: blocks with ids such as `lc_4f…`.

    Callbacks show no other mark of a tool of an MCP server.
    """
    if not isinstance(content, list) or not content:
        return False
    blocks = [block for block in content if isinstance(block, Mapping) and str(block.get("id")).startswith("lc_")]
    has_structure = isinstance(artifact, Mapping) and "structured_content" in artifact
    return len(blocks) == len(content) and (artifact is None or has_structure)


def _is_message_or_command(item: object) -> bool:
    return isinstance(item, ToolMessage) or is_command(item)


def _messages_in(item: object) -> list[ToolMessage]:
    """Return the results in an item of a tool's output, a message or a command."""
    messages = item if isinstance(item, ToolMessage) else command_update(item).get("messages")
    return [one for one in in_list(messages) if isinstance(one, ToolMessage)]


def _done_by_command(items: list[Any]) -> Mapping[str, Any] | None:
    """Return what a command did besides showing the model a message, such as `{"update": {"todos": []}}`.

    It is empty if the command did nothing else, and `None` if what it did cannot be written down completely. Of a
    command that handed over to other agents, only their names count: its update is mostly the state of the agent.
    """
    commands = list(filter(is_command, items))
    targets = targets_of(items)
    if targets:
        return {HANDED_OVER: targets}
    if not commands:
        return {}
    command, update = commands[0], dict(command_update(commands[0]))
    messages = in_list(update.pop("messages", []))
    fields = {"update": update, "goto": goto_of(command), "graph": command.graph}
    done = {name: value for name, value in fields.items() if value}
    has_known_update = isinstance(command.update, (Mapping, list, tuple, BaseMessage, type(None)))
    has_other_effects = len(items) > 1 or len(messages) > 1 or len(_messages_in(command)) < len(messages)
    try:
        is_json = json.loads(json.dumps(done)) == done
    except (TypeError, ValueError, RecursionError):
        is_json = False
    return done if is_json and has_known_update and not has_other_effects else None


def _is_mcp_tool(tool: BaseTool) -> bool:
    """Return whether LangChain's adapter of MCP made a tool, in a version that gives blocks an id."""
    code = getattr(tool, "coroutine", None)
    is_of_adapter = str(getattr(code, "__module__", "")).startswith(("langchain_mcp_adapters.", "langchain.mcp."))
    return is_of_adapter and "create_text_block" in getattr(code, "__globals__", {})
