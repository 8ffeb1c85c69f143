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
"""Key in that, of a command that handed over: the names of the agents."""


class ToolResult(NamedTuple):
    """What a tool returned, or what the model was shown in its place."""

    output: object = ABSENT
    artifact: object = None
    error: str | None = None
    unknown_tool: bool = False
    call_id: str | None = None
    is_mcp: bool = False
    is_rejected: bool = False

    @property
    def is_refusal(self) -> bool:
        """Whether middleware refused to run a tool, as a mark of the message or its text says."""
        return self.is_rejected or is_refusal(self.error)


def result_of(message: ToolMessage) -> ToolResult:
    """Return the result in a tool message."""
    text = text_of(message.content)
    unknown_tool = _NO_SUCH_TOOL.match(text) is not None
    error = (text or "error") if message.status == "error" or unknown_tool else None
    content: object = message.content
    is_mcp = _is_of_mcp(content, message.artifact)
    if is_mcp and isinstance(content, list):
        blocks = [{key: value for key, value in block.items() if key != "id"} for block in content]
        content = text if len(blocks) == 1 and blocks[0].get("type") == "text" else blocks
    output, data = readable_images(content), message.additional_kwargs.get(_DATA)
    is_rejected = isinstance(data, Mapping) and data.get("decision") == "reject"
    return ToolResult(output, message.artifact, error, unknown_tool, message.tool_call_id, is_mcp, is_rejected)


def _is_of_mcp(content: object, artifact: object) -> bool:
    """Return whether a result has the form of `langchain-mcp-adapters`: blocks with ids of LangChain.

    Its tools have no other mark that callbacks show. The ids are random, so they are not part of the output.
    """
    if not isinstance(content, list) or not content:
        return False
    blocks = [block for block in content if isinstance(block, Mapping) and str(block.get("id")).startswith("lc_")]
    has_structure = isinstance(artifact, Mapping) and "structured_content" in artifact
    return len(blocks) == len(content) and (artifact is None or has_structure)


def tool_result(output: object, call_id: str | None) -> ToolResult:
    """Return the result in the output of a tool: a value, a message, a command with messages, or a list of these.

    Args:
        output: The output that `on_tool_end` received.
        call_id: The id of the call, to choose its message among several.
    """
    items = in_list(output)
    if not items or not all(map(_is_result, items)):
        return ToolResult(readable_images(output))
    messages = [message for item in items for message in _messages_in(item)]
    own = [message for message in messages if message.tool_call_id == call_id]
    result = result_of((own or messages)[-1]) if messages else ToolResult()
    done = _done_by_command(items)
    if done == {}:
        return result
    more = {} if result.artifact is None else {"artifact": result.artifact}
    return result._replace(artifact={COMMAND: done, **more})


def _done_by_command(items: list[Any]) -> Mapping[str, Any] | None:
    """Return what a command did besides showing the model a message: nothing, or JSON; `None` if it is not JSON.

    The update of a command that hands over is mostly the state of the agent, and left out.
    """
    commands = list(filter(is_command, items))
    targets = targets_of(items)
    if not commands or targets:
        return {HANDED_OVER: targets} if targets else {}
    command, update = commands[0], dict(command_update(commands[0]))
    messages = in_list(update.pop("messages", []))
    fields = {"update": update, "goto": goto_of(command), "graph": command.graph}
    done = {name: value for name, value in fields.items() if value}
    is_whole = isinstance(command.update, (Mapping, list, tuple, BaseMessage, type(None)))
    has_more = len(items) > 1 or len(messages) > 1 or len(_messages_in(command)) < len(messages)
    try:
        is_json = json.loads(json.dumps(done)) == done
    except (TypeError, ValueError, RecursionError):
        is_json = False
    return done if is_json and is_whole and not has_more else None


def content_of(output: Any, tool: BaseTool) -> Any:
    """Return a recorded output as the tool returned it."""
    if not _comes_from_mcp(tool):
        return images_of_langchain(output)
    blocks = images_of_langchain([{"type": "text", "text": output}] if isinstance(output, str) else output)
    if not isinstance(blocks, list):
        return blocks
    return [{**block, "id": f"lc_{uuid4()}"} if isinstance(block, Mapping) else block for block in blocks]


def _comes_from_mcp(tool: BaseTool) -> bool:
    """Return whether an adapter of MCP made a tool that returns blocks with ids of LangChain."""
    code = getattr(tool, "coroutine", None)
    is_of_adapter = str(getattr(code, "__module__", "")).startswith(("langchain_mcp_adapters.", "langchain.mcp."))
    return is_of_adapter and "create_text_block" in getattr(code, "__globals__", {})


def _is_result(item: object) -> bool:
    return isinstance(item, ToolMessage) or is_command(item)


def is_command(value: object) -> bool:
    """Return whether a value is a LangGraph `Command`."""
    return is_a(value, "Command") and hasattr(value, "goto")


def command_update(command: Any) -> Mapping[str, Any]:
    """Return the update of the state that a command holds."""
    update = command.update
    if isinstance(update, Mapping):
        return update
    if isinstance(update, (list, tuple)) and all(isinstance(item, tuple) and len(item) == 2 for item in update):  # noqa: PLR2004 - pairs
        return dict(update)
    if isinstance(update, (list, BaseMessage)):
        return {"messages": update}
    names = ("messages", "structured_response")
    return {name: getattr(update, name) for name in names if getattr(update, name, None) is not None}


def _messages_in(item: object) -> list[ToolMessage]:
    """Return the results in an item of a tool's output, a message or a command."""
    messages = item if isinstance(item, ToolMessage) else command_update(item).get("messages")
    return [one for one in in_list(messages) if isinstance(one, ToolMessage)]
