"""OpenInference (its specification, "Semantic Conventions" and "Tool and Function Calling").

The instrumentations of smolagents, CrewAI and BeeAI, and Phoenix, write these conventions with details of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any

from toolgrade._internal.json import as_text
from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, text_of
from toolgrade._internal.model import drop_none
from toolgrade.formats.messages.field_readers import decoded
from toolgrade.formats.traces.messages import TraceMessage, requests_in
from toolgrade.formats.traces.span_tree import Span, Tree
from toolgrade.formats.traces.tracers.tracer import HANDOFF, INPUT, OUTPUT, Attributes, Tracer
from toolgrade.formats.traces.values import indexed, json_object, object_under
from toolgrade.matching.json_compare import ABSENT

_KIND = "openinference.span.kind"
_AGENT = "gen_ai.agent.name"
_HANDOFF_PREFIX = "handoff to "
_BEEAI_MARKS = frozenset({"metadata.class_name", "metadata.path"})
_SMOLAGENTS_TOOLS = "smolagents.tools_names"
_ANSWER_TOOL = "final_answer"


def _attributes_beside(fields: Fields) -> Attributes:
    """Return the kind of a span, which Phoenix takes out of the attributes."""
    return {} if fields.get("span_kind") is None else {_KIND: fields["span_kind"]}


def _translate(attributes: Attributes, span_name: str) -> Attributes:
    translated: Attributes = {}
    if _KIND in attributes and span_name.startswith(_HANDOFF_PREFIX) and attributes.get("tool.name") is None:
        translated[HANDOFF] = span_name.removeprefix(_HANDOFF_PREFIX)
    if first_of(attributes, _AGENT, "agent.name") is None:
        translated[_AGENT] = _agent_of(attributes, span_name)
    if _names_response_only(attributes):
        translated["output.value"] = None
    if _KIND in attributes and _BEEAI_MARKS & attributes.keys():
        translated |= _beeai_names(attributes)
    return {**attributes, **translated}


def _agent_of(attributes: Fields, span_name: str) -> str | None:
    # LangChain's `create_agent` puts the name of the agent into the metadata of every run.
    agent = text_of(object_under(attributes, "metadata").get("lc_agent_name"))
    if agent is None and _SMOLAGENTS_TOOLS in attributes:
        return span_name.removesuffix(".run")
    if agent is None and attributes.get(_KIND) == "AGENT":  # of CrewAI
        return text_of(first_of(attributes, "graph.node.name", "graph.node.id"))
    return agent


def _names_response_only(attributes: Fields) -> bool:
    """Return whether the output has the id and the model of a response alone: Phoenix writes it without the content."""
    named = drop_none({name: attributes.get(f"gen_ai.response.{name}") for name in ("id", "model")})
    return bool(named) and decoded(attributes.get("output.value")) == named


def _beeai_names(attributes: Fields) -> Attributes:
    """Return what differs in a span of the BeeAI framework."""
    # Events of a tool or an agent (an error, a retry, an answer) have spans of their own, with the kind of the span
    # that they are of.
    if "metadata.path" in attributes and "metadata.id" in attributes:
        return {_KIND: "CHAIN"}
    arguments = json_object(attributes.get("input.value"))
    if "tool.name" in attributes and sorted(arguments) == ["input", "options"]:
        return {"input.value": arguments["input"]}
    return {}


def _offered(span: Span) -> Iterator[Any]:
    for entry in indexed(span.attributes, "llm.tools."):
        schema = json_object(first_of(entry, "tool.json_schema", "json_schema"))
        tool = as_object(first_of(schema, "function", "toolSpec")) or schema
        if "toolSpec" in schema:  # Amazon Bedrock wraps the JSON Schema once more
            tool = {**tool, "inputSchema": object_of(tool.get("inputSchema")).get("json")}
        name = text_of(entry.get("tool.name")) or text_of(tool.get("name"))
        yield {"type": "function", "function": {**tool, "name": name}} if name else {}


def _leave_out_answers(tree: Tree) -> None:
    """Turn each call of `final_answer` by an agent of smolagents into the text of its message.

    Such an agent answers by that tool, so it is neither called nor offered. An agent that writes code calls it in the
    code, and its history has the output of the code as the answer to a call, which nobody made.
    """
    spans = [span for span in tree.spans if span.within and _SMOLAGENTS_TOOLS in span.within.attributes]
    requesting = {span.within for span in spans if requests_in(span.reply_messages)}
    models: dict[Span | None, Span] = {}
    for span in sorted(spans, key=attrgetter("order")):
        writes_code = span.within not in requesting
        if span.kind == "model":
            models[span.within] = span
        elif span.tool_run.tool == _ANSWER_TOOL:
            span.kind, model, result = "other", models.get(span.within), span.tool_run.result
            if model is not None and writes_code and result is not ABSENT:
                model.reply = [*model.reply_messages, TraceMessage("model", span.path, as_text(result))]
        _leave_out_tool(span, writes_code=writes_code)


def _leave_out_tool(span: Span, *, writes_code: bool) -> None:
    span.offered = [tool for tool in span.offered if _name_of(tool) != _ANSWER_TOOL]
    prompt = [message for message in span.prompt if not (writes_code and message.answer)]
    span.prompt = list(map(_with_answer_as_text, prompt))
    span.reply = None if span.reply is None else list(map(_with_answer_as_text, span.reply))


def _name_of(tool: object) -> object:
    fields = object_of(tool)
    return (as_object(fields.get("function")) or fields).get("name")


def _with_answer_as_text(message: TraceMessage) -> TraceMessage:
    answers = [request for request in message.requests if request.name == _ANSWER_TOOL]
    if not answers:
        return message
    arguments = answers[0].arguments
    text = text_of(arguments.get("answer")) if isinstance(arguments, dict) else None
    requests = tuple(request for request in message.requests if request.name != _ANSWER_TOOL)
    return replace(message, requests=requests, text=text or message.text)


OPENINFERENCE = Tracer(
    names={
        "gen_ai.operation.name": (_KIND,),
        _AGENT: ("agent.name",),
        "gen_ai.conversation.id": ("session.id",),
        "gen_ai.response.model": ("llm.model_name",),
        "gen_ai.response.finish_reasons": ("llm.finish_reason",),
        "gen_ai.usage.input_tokens": ("llm.token_count.prompt",),
        "gen_ai.usage.output_tokens": ("llm.token_count.completion",),
        "gen_ai.usage.total_tokens": ("llm.token_count.total",),
        "gen_ai.tool.name": ("tool.name", "tool_call.function.name"),
        "gen_ai.tool.call.id": ("tool.id", "tool_call.id"),
        "gen_ai.tool.call.arguments": ("tool_call.function.arguments",),
        INPUT: ("input.value",),
        OUTPUT: ("output.value",),
    },
    lists={"user": ("llm.input_messages.",), "model": ("llm.output_messages.",)},
    beside=_attributes_beside,
    translate=_translate,
    offered=_offered,
    clean=_leave_out_answers,
)
