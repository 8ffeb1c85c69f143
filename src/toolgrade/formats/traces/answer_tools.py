"""smolagents answers by a tool, `final_answer`: a call of it is the answer of the agent, and not one of its calls."""

from __future__ import annotations

from dataclasses import replace

from toolgrade._internal.message_content import as_object, object_of, text_of
from toolgrade.formats.traces.attribute_aliases import TOOLS_OF_SMOLAGENTS
from toolgrade.formats.traces.span_tree import Tree
from toolgrade.formats.traces.trace_messages import Message

_ANSWER_TOOL = "final_answer"


def leave_out_answers(tree: Tree) -> None:
    """Turn each call of `final_answer` into the text of its message; the tool is then neither called nor offered."""
    for span in tree.spans:
        if span.within is None or TOOLS_OF_SMOLAGENTS not in span.within.attributes:
            continue
        if span.kind == "tool" and span.tool_run.tool == _ANSWER_TOOL:
            span.kind = "other"
        span.offered = [tool for tool in span.offered if _name_of(tool) != _ANSWER_TOOL]
        span.prompt = list(map(_with_answer_as_text, span.prompt))
        span.reply = None if span.reply is None else list(map(_with_answer_as_text, span.reply))


def _name_of(tool: object) -> object:
    fields = object_of(tool)
    return (as_object(fields.get("function")) or fields).get("name")


def _with_answer_as_text(message: Message) -> Message:
    requests = tuple(request for request in message.requests if request.name != _ANSWER_TOOL)
    if len(requests) == len(message.requests):
        return message
    (answer, *_) = (request for request in message.requests if request.name == _ANSWER_TOOL)
    text = answer.arguments.get("answer") if isinstance(answer.arguments, dict) else None
    return replace(message, requests=requests, text=text_of(text) or message.text)
