"""Observations of the runs of agents: callbacks in, calls of `RunBuilder` out.

Four sources are combined, since each one misses calls: what the model requested, what ran, what the model was shown
next, and what the nodes of a graph returned. The last one is the only source where model callbacks are missing, as for
async agents on Python 3.10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from langchain_core.agents import AgentAction
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult

from toolmark.calls import ToolSpec
from toolmark.capture import ABSENT, Request, json_equal
from toolmark.cases import RunStatus
from toolmark_langchain import _errors, _messages, _results, _states
from toolmark_langchain._run_tree import Node, RunTree, now
from toolmark_langchain._tools import declared_arguments, offered_tools

_STEP_TAG: Final = "graph:step:"
_UNNAMED_GRAPHS: Final = frozenset({None, "", "LangGraph", "RunnableSequence"})
_MAX_TOOL_LISTS: Final = 8

_MODEL_ONLY: Final = (
    "the recorder was attached to a model and not to the agent around it, so what became of its calls was not seen; "
    'pass it to the agent: config={"callbacks": [recorder]}'
)


class Watcher:
    """Observes the callback runs of a tree. Used under the recorder's lock, which also handles errors here."""

    def __init__(self, tree: RunTree) -> None:
        """Begin without observations."""
        self.tree = tree
        self._tool_lists: list[tuple[object, list[object]]] = []

    # Chains, graphs and their nodes

    def chain_started(self, node: Node, inputs: object, tags: Sequence[str] | None) -> None:
        """Note that a runnable began."""
        if any(tag.startswith(_STEP_TAG) for tag in tags or ()):
            node.is_step = node.recording.has_graph = True
            node.calls = _states.calls_to_run(inputs)
            self._assume_requests(node)

    def _assume_requests(self, node: Node) -> None:
        """In a run whose beginning was not recorded, take the calls that a node executes for requests of a model."""
        assumed = node.recording.assumed_ids
        if assumed is None or node.scope is not None:
            return
        calls = [call for call in node.calls or () if call.get("id") and call["id"] not in assumed]
        assumed.update(call["id"] for call in calls)
        if calls:
            requests = [Request(call["name"], call["args"], call["id"]) for call in calls]
            node.recording.builder.model_asked(requests, agent=_agent_of(node, {}))

    def chain_ended(self, outputs: object, run_id: UUID) -> None:
        """Note what a runnable returned."""
        node = self.tree.end(run_id)
        if node is None or not (node.is_step or node.parent is None):
            return
        recording = node.recording
        last: BaseMessage | None = None
        for update in _states.updates_in(outputs):
            messages = _states.state_messages(update)
            last = messages[-1] if messages else last
            self._add_messages(node, messages)
            answer = update.get("structured_response")
            if answer is not None and not recording.is_structured:
                names = _states.pseudo_tools(answer, messages, same_node=node.is_step)
                recording.is_structured = bool(names)
                recording.builder.pseudo_tools(names)
        if node.parent is not None:
            return
        if isinstance(last, AIMessage) and last.content == _errors.OUT_OF_STEPS:
            self.tree.finish(node, status=RunStatus.STOPPED, error=_errors.OUT_OF_STEPS)
            return
        # A graph with a thread suspends a run by ending it, with the requests as its last message.
        requests_calls = isinstance(last, AIMessage) and bool(last.tool_calls)
        may_wait = recording.has_graph and recording.thread is not None and requests_calls
        self.tree.finish(node, _states.answer_of(outputs, is_graph=recording.has_graph), may_wait=may_wait)

    def chain_failed(self, error: BaseException, run_id: UUID) -> None:
        """Note that a runnable raised, was cancelled, or passed control on."""
        node = self.tree.end(run_id)
        if node is None:
            return
        if _errors.is_interrupt(error) and node.scope is None:
            node.recording.interrupted = True
        names = getattr(error, "tool_names", None) or getattr(error, "tool_name", None)
        if names and _errors.is_a(error, "StructuredOutputError"):
            node.recording.builder.pseudo_tools([names] if isinstance(names, str) else names)
        status = _errors.status_of(error)
        text = None if status is RunStatus.INTERRUPTED else _errors.error_text(error)
        self.tree.finish(node, status=status, error=text)

    def _add_messages(self, node: Node, messages: list[BaseMessage]) -> None:
        """Note the messages in an output that no callback reported."""
        recording, builder, scope = node.recording, node.recording.builder, node.scope
        for message in _states.last_turn(messages):
            if not recording.note_message(message):
                continue
            if isinstance(message, ToolMessage):
                self._add_result(node, message)
            elif isinstance(message, AIMessage) and not recording.has_calls_of(message, scope):
                # On Python 3.10, the context is lost in async code: the model of an async agent has no callbacks or,
                # inside `record()`, is a root. Its message shows that this root is part of the present run.
                request = self.tree.take_model_request(message.id)
                if request is not None:
                    builder.offered(request.tools, scope=scope)
                model = _messages.model_of(message) or (None if request is None else request.model)
                builder.model_used(model, _messages.usage_of(message))
                agent = _agent_of(node, {}) or message.name or None
                builder.model_asked(_messages.requests_of(message), scope=scope, agent=agent)

    def _add_result(self, node: Node, message: ToolMessage, *, reformatted: bool = False) -> None:
        result = _results.result_of(message)
        node.recording.builder.result_shown(
            message.content,
            call_id=message.tool_call_id,
            name=message.name,
            failed=result.error is not None,
            unknown_tool=result.unknown_tool,
            artifact=message.artifact,
            scope=node.scope,
            reformatted=reformatted and not isinstance(message.content, str),
        )

    # Models

    def model_started(self, node: Node, messages: Sequence[BaseMessage], more: Mapping[str, Any]) -> None:
        """Note what a model is shown, and which tools it is offered.

        Args:
            node: The run of the model.
            messages: The messages that it is shown.
            more: The keyword arguments of the callback.
        """
        recording, builder = node.recording, node.recording.builder
        metadata, options = more.get("metadata") or {}, more.get("options") or {}
        parameters = more.get("invocation_params") or {}
        node.is_structured = bool(options.get("ls_structured_output_format") or options.get("structured_output_format"))
        model = metadata.get("ls_model_name") or parameters.get("model") or parameters.get("model_name")
        node.model = model if isinstance(model, str) else None
        node.name = _agent_of(node, metadata)
        if not node.is_structured:
            node.tools = specs = self._specs(parameters)
            builder.offered(specs, scope=node.scope)
            for spec in specs:
                if isinstance(spec, ToolSpec) and spec.name not in recording.declared:
                    recording.declared[spec.name] = declared_arguments(spec)
        for message in _states.new_results(messages):
            self._add_result(node, message, reformatted=True)
        if node.scope is None:
            recording.ask(_messages.question_in(list(messages)))

    def model_ended(self, response: LLMResult, run_id: UUID) -> None:
        """Note the answer of a model."""
        node = self.tree.end(run_id)
        if node is None:
            return
        recording, builder = node.recording, node.recording.builder
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = getattr(generation, "message", None)
        if not isinstance(message, AIMessage):
            builder.model_used(node.model)
            builder.model_asked([], scope=node.scope)
            self.tree.finish(node, getattr(generation, "text", None))
            return
        builder.model_used(_messages.model_of(message) or node.model, _messages.usage_of(message))
        requests = [] if node.is_structured else _messages.requests_of(message)
        recording.note_model_message(message, node.scope)
        builder.model_asked(requests, scope=node.scope, agent=node.name)
        if node.parent is None and not recording.is_group:
            self.tree.add_model_request(recording, message.id or "", node.tools, node.model)
            if requests:
                builder.warn(_MODEL_ONLY)
        self.tree.finish(node, _states.message_answer(message))

    def model_failed(self, error: BaseException, run_id: UUID) -> None:
        """Note that a model raised."""
        node = self.tree.end(run_id)
        if node is not None:
            self.tree.finish(node, status=_errors.status_of(error), error=_errors.error_text(error))

    def _specs(self, parameters: Mapping[str, Any]) -> list[object]:
        """Return the tools of a request, which are mostly those of a recent one."""
        tools = [parameters.get("tools"), parameters.get("functions")]
        for recent, specs in self._tool_lists:
            if recent == tools:
                return specs
        specs = offered_tools(parameters)
        self._tool_lists = [(tools, specs), *self._tool_lists[: _MAX_TOOL_LISTS - 1]]
        return specs

    # Tools

    def tool_started(
        self,
        node: Node,
        name: str,
        arguments: dict[str, Any],
        call_id: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        """Note that a tool began to run."""
        node.missing_tool = missing_tool(name, arguments)
        if node.missing_tool is not None:
            return
        node.call_id = call_id or _requested_id(node, name, arguments)
        declared = node.recording.declared.get(name)
        node.recording.builder.tool_started(
            str(node.run_id),
            name,
            arguments,
            call_id=node.call_id,
            scope=node.scope,
            agent=_agent_of(node, metadata or {}),
            injected=declared is not None,
            declared=declared or (),
            at=now(),
        )

    def tool_ended(self, output: object, run_id: UUID) -> None:
        """Note what a tool returned."""
        node = self.tree.end(run_id)
        if node is None:
            return
        if node.missing_tool is not None:
            text = _results.tool_result(output, None).output
            builder = node.recording.builder
            builder.result_shown(text, name=node.missing_tool, failed=True, unknown_tool=True, scope=node.scope)
            return
        self._tool_returned(node, output)

    def _tool_returned(self, node: Node, output: object) -> None:
        builder = node.recording.builder
        result = _results.tool_result(output, node.call_id)
        builder.tool_ended(
            str(node.run_id),
            result.output,
            model_output=ABSENT if result.error is None else result.output,
            artifact=result.artifact,
            error=result.error,
            call_id=result.call_id,
            at=now(),
        )
        target = _results.handoff_target(output)
        if target is not None:
            builder.handed_off(to=target, key=str(node.run_id), scope=node.scope)
        self.tree.finish(node)

    def tool_failed(self, error: BaseException, run_id: UUID) -> None:
        """Note that a tool raised, was cancelled, suspended the run, or passed control on."""
        node = self.tree.end(run_id)
        if node is None or node.missing_tool is not None:
            return
        command = _errors.parent_command(error)
        if command is not None:
            self._tool_returned(node, command)
            return
        status = _errors.status_of(error)
        text = None if status is RunStatus.INTERRUPTED else _errors.error_text(error)
        node.recording.builder.tool_failed(str(run_id), text, outcome=_errors.outcome_of(error), at=now())
        self.tree.finish(node, status=status, error=text)

    def agent_acted(self, action: AgentAction, run_id: UUID) -> None:
        """Note the tool that a classic agent chose by text; an action with an id comes from a model's request."""
        node = self.tree.find(run_id)
        if node is None or getattr(action, "tool_call_id", None) is not None or action.tool == "_Exception":
            return
        arguments = {"input": action.tool_input} if isinstance(action.tool_input, str) else action.tool_input
        node.recording.builder.model_asked([Request(action.tool, arguments)], scope=node.inside)


def missing_tool(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the name that the model requested, if an agent executor runs a stand-in for a missing tool."""
    if name == "_Exception":
        return name
    requested = arguments.get("requested_tool_name") if name == "invalid_tool" else None
    return requested if isinstance(requested, str) else None


def _agent_of(node: Node, metadata: Mapping[str, Any]) -> str | None:
    """Return the name of the agent around a node: that of the graph, or that in the metadata."""
    agent = metadata.get("lc_agent_name")
    step: Node | None = node
    while step is not None and not step.is_step:
        step = step.parent
    graph = None if step is None else step.parent
    # The outermost graph may be named after its trace, by `run_name`.
    if graph is None or graph.name in _UNNAMED_GRAPHS or (graph.parent is None and agent):
        return agent if isinstance(agent, str) else None
    return graph.name


def _requested_id(node: Node, name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the id of the call that a tool run executes: of those of the nearest node, each is used once."""
    step = node.parent
    while step is not None and step.calls is None and step.inside == node.scope:
        step = step.parent
    if step is None or step.calls is None or step.inside != node.scope:
        return None
    calls = [call for call in step.calls if call.get("name") == name]
    chosen = next((call for call in calls if _contains(arguments, call.get("args"))), calls[0] if calls else None)
    if chosen is None:
        return None
    if len(step.calls) > 1:  # a node with one call may retry it
        step.calls = [call for call in step.calls if call is not chosen]
    call_id = chosen.get("id")
    return call_id if isinstance(call_id, str) else None


def _contains(arguments: Mapping[str, Any], requested: object) -> bool:
    """Return whether the arguments of a tool contain the requested ones; injected arguments come on top."""
    if not isinstance(requested, Mapping):
        return False
    try:
        return all(key in arguments and json_equal(value, arguments[key]) for key, value in requested.items())
    except TypeError:
        return False
