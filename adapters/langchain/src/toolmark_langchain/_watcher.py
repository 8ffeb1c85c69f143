"""What does each callback say about the run it belongs to? Callbacks in, observations for `RunBuilder` out.

Four sources are merged, since each alone misses calls: what the model asked for, what was seen to run, what the model
was shown next, and what the nodes of a graph put out (the only source where no model events fire, as for async agents
on Python 3.10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from langchain_core.agents import AgentAction
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult

from toolmark.calls import ToolSpec
from toolmark.capture import ABSENT, Outcome, Request, RunStatus, json_equal
from toolmark_langchain import _messages, _states
from toolmark_langchain._roots import Roots, now
from toolmark_langchain._runs import Node, Recording, Runs
from toolmark_langchain._tools import declared_arguments, offered_tools

_STEP: Final = "graph:step:"
_NO_AGENT: Final = frozenset({None, "", "LangGraph", "RunnableSequence"})
_SEEN_TOOLS: Final = 8

_MODEL_ONLY: Final = (
    "the recorder was attached to a model and not to the agent round it, so what became of its calls was not seen; "
    'pass it to the agent: config={"callbacks": [recorder]}'
)


class Watcher(Roots):
    """Turns callbacks into observations."""

    def __init__(self, runs: Runs) -> None:
        """Begin with nothing seen."""
        super().__init__(runs)
        self._tools: list[tuple[object, list[object]]] = []

    # Chains, graphs and their nodes

    def chain_started(
        self,
        inputs: object,
        run_id: UUID,
        parent_run_id: UUID | None,
        name: str | None,
        tags: Sequence[str] | None,
        root: Recording | None,
    ) -> None:
        """A runnable began."""
        node = self.begin(run_id, parent_run_id, name, root=root)
        if node is not None and any(tag.startswith(_STEP) for tag in tags or ()):
            node.step = node.recording.graph = True
            node.calls = _states.calls_given(inputs)
            self._guess(node)

    def _guess(self, node: Node) -> None:
        """In a run whose beginning is missing, take the calls that a node was given for what a model asked for."""
        guessed = node.recording.guessed
        if guessed is None or node.scope is not None:
            return
        calls = [call for call in node.calls or () if call.get("id") and call["id"] not in guessed]
        guessed.update(call["id"] for call in calls)
        requests = [Request(call["name"], call["args"], call["id"]) for call in calls]
        if requests:
            node.recording.builder.model_asked(requests, agent=_agent(node, {}))

    def chain_ended(self, outputs: object, run_id: UUID) -> None:
        """A runnable returned."""
        node = self.end(run_id)
        if node is None or not (node.step or node.parent is None):
            return
        recording = node.recording
        last: BaseMessage | None = None
        for update in _states.updates_in(outputs):
            messages = _states.state_messages(update)
            last = messages[-1] if messages else last
            self._harvest(node, messages)
            answer = update.get("structured_response")
            if answer is not None and not recording.structured:
                names = _states.structured_tools(answer, messages, at_once=node.step)
                recording.structured = bool(names)
                recording.builder.pseudo_tools(names)
        if node.parent is not None:
            return
        if isinstance(last, AIMessage) and last.content == _messages.OUT_OF_STEPS:
            self.finish(node, status=RunStatus.STOPPED, error=_messages.OUT_OF_STEPS)
            return
        asks = isinstance(last, AIMessage) and bool(last.tool_calls)
        may_wait = recording.graph and recording.thread is not None and asks
        self.finish(node, _states.answer_of(outputs, graph=recording.graph), may_wait=may_wait)

    def chain_failed(self, error: BaseException, run_id: UUID) -> None:
        """A runnable raised, was cancelled, or passed control on."""
        node = self.end(run_id)
        if node is None:
            return
        if _messages.is_interrupt(error) and node.scope is None:
            node.recording.interrupted = True
        names = getattr(error, "tool_names", None) or getattr(error, "tool_name", None)
        if names and any(kind.__name__ == "StructuredOutputError" for kind in type(error).__mro__):
            node.recording.builder.pseudo_tools([names] if isinstance(names, str) else names)
        status = _messages.status_of(error)
        text = None if status is RunStatus.INTERRUPTED else _messages.error_text(error)
        self.finish(node, status=status, error=text)

    def _harvest(self, node: Node, messages: list[BaseMessage]) -> None:
        """Note the messages that no event told of: of model messages those made outside a watched model.

        On Python 3.10 the model of an async agent does not know that it runs inside one: it is not seen at all, or,
        inside `record()`, as a root of its own, which its message now shows to be part of this run.
        """
        recording, scope = node.recording, node.scope
        for message in _states.since_last_human(messages):
            if not recording.first_sight(message):
                continue
            if isinstance(message, ToolMessage):
                self._show(node, message)
            elif isinstance(message, AIMessage) and not recording.was_noted(message, scope):
                builder = recording.builder
                alone = self.runs.take_model_root(message.id)
                if alone is not None:
                    builder.offered(alone.tools, scope=scope)
                model = _messages.model_of(message) or (None if alone is None else alone.model)
                builder.model_used(model, _messages.usage_of(message))
                builder.model_asked(
                    _messages.requests_of(message), scope=scope, agent=_agent(node, {}) or message.name or None
                )

    def _show(self, node: Node, message: ToolMessage, *, reformatted: bool = False) -> None:
        result = _messages.result_of(message)
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

    def model_started(
        self,
        messages: Sequence[BaseMessage],
        run_id: UUID,
        parent_run_id: UUID | None,
        name: str | None,
        metadata: Mapping[str, Any] | None,
        parameters: Mapping[str, Any],
        options: Mapping[str, Any],
        root: Recording | None,
    ) -> None:
        """A model was asked."""
        node = self.begin(run_id, parent_run_id, name, root=root)
        if node is None:
            return
        recording, builder = node.recording, node.recording.builder
        node.hidden = bool(options.get("ls_structured_output_format") or options.get("structured_output_format"))
        used = (metadata or {}).get("ls_model_name") or parameters.get("model") or parameters.get("model_name")
        node.model = used if isinstance(used, str) else None
        node.name = _agent(node, metadata or {})
        if not node.hidden:
            node.tools = specs = self._specs(parameters)
            builder.offered(specs, scope=node.scope)
            for spec in specs:
                if isinstance(spec, ToolSpec) and spec.name not in recording.declared:
                    recording.declared[spec.name] = declared_arguments([spec], spec.name)
        for message in _states.shown_results(messages):
            self._show(node, message, reformatted=True)
        if node.scope is None:
            self.ask(recording, _messages.last_human_text(list(messages)))

    def model_ended(self, response: LLMResult, run_id: UUID) -> None:
        """A model answered."""
        node = self.end(run_id)
        if node is None:
            return
        builder = node.recording.builder
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = getattr(generation, "message", None)
        if not isinstance(message, AIMessage):
            builder.model_used(node.model)
            builder.model_asked([], scope=node.scope)
            self.finish(node, getattr(generation, "text", None))
            return
        builder.model_used(_messages.model_of(message) or node.model, _messages.usage_of(message))
        requests = [] if node.hidden else _messages.requests_of(message)
        node.recording.watch(message, node.scope)
        builder.model_asked(requests, scope=node.scope, agent=node.name)
        if node.parent is None and not node.recording.grouped:
            self.runs.model_root(node.recording, message.id or "", node.tools, node.model)
            if requests:
                builder.warn(_MODEL_ONLY)
        self.finish(node, _states.message_answer(message))

    def model_failed(self, error: BaseException, run_id: UUID) -> None:
        """A model raised; what it would have asked for is not known."""
        node = self.end(run_id)
        if node is not None:
            self.finish(node, status=_messages.status_of(error), error=_messages.error_text(error))

    def _specs(self, parameters: Mapping[str, Any]) -> list[object]:
        """Return the tools of a request, which mostly are those of the one before."""
        shape = [parameters.get("tools"), parameters.get("functions")]
        for known, specs in self._tools:
            if known == shape:
                return specs
        specs = offered_tools(parameters)
        self._tools = [(shape, specs), *self._tools[: _SEEN_TOOLS - 1]]
        return specs

    # Tools

    def tool_started(
        self,
        name: str,
        arguments: dict[str, Any] | None,
        run_id: UUID,
        parent_run_id: UUID | None,
        call_id: str | None,
        metadata: Mapping[str, Any] | None,
        root: Recording | None,
    ) -> None:
        """A tool began to run."""
        ghost = _ghost(name, arguments)
        node = self.begin(run_id, parent_run_id, name, tool=ghost is None, root=root)
        if node is None:
            return
        node.ghost = ghost
        if ghost is not None:
            return
        node.call_id = call_id or _given_id(node, name, arguments)
        declared = node.recording.declared.get(name)
        node.recording.builder.tool_started(
            str(run_id),
            name,
            arguments,
            call_id=node.call_id,
            scope=node.scope,
            agent=_agent(node, metadata or {}),
            injected=declared is not None,
            declared=declared or (),
            at=now(),
        )

    def tool_ended(self, output: object, run_id: UUID) -> None:
        """A tool returned."""
        node = self.end(run_id)
        if node is None:
            return
        result = _messages.tool_result(output, node.call_id)
        if node.ghost is not None:
            builder = node.recording.builder
            builder.result_shown(result.output, name=node.ghost, failed=True, unknown_tool=True, scope=node.scope)
            return
        self._returned(node, output, result)
        self.finish(node)

    def _returned(self, node: Node, output: object, result: _messages.Result) -> None:
        builder = node.recording.builder
        builder.tool_ended(
            str(node.run_id),
            result.output,
            model_output=ABSENT if result.error is None else result.output,
            artifact=result.artifact,
            error=result.error,
            call_id=result.call_id,
            at=now(),
        )
        target = _messages.handoff_target(output)
        if target is not None:
            builder.handed_off(to=target, key=str(node.run_id), scope=node.scope)

    def tool_failed(self, error: BaseException, run_id: UUID) -> None:
        """A tool raised, was cancelled, suspended the run, or passed control on."""
        node = self.end(run_id)
        if node is None or node.ghost is not None:
            return
        command = _messages.parent_command(error)
        if command is not None:
            self._returned(node, command, _messages.tool_result(command, node.call_id))
            self.finish(node)
            return
        outcome = _messages.failure_of(error)
        text = None if outcome is Outcome.SUSPENDED else _messages.error_text(error)
        node.recording.builder.tool_failed(str(run_id), text, outcome=outcome, at=now())
        self.finish(node, status=_messages.status_of(error), error=text)

    def agent_acted(self, action: AgentAction, run_id: UUID) -> None:
        """A classic agent decided on a tool by text; one that has an id came from a model's call, which was seen."""
        node = self.runs.find(run_id)
        if node is None or getattr(action, "tool_call_id", None) is not None or action.tool == "_Exception":
            return
        given = action.tool_input
        arguments = {"input": given} if isinstance(given, str) else given
        node.recording.builder.model_asked([Request(action.tool, arguments)], scope=node.inside)


def _agent(node: Node, metadata: Mapping[str, Any]) -> str | None:
    """Return the name of the agent: that of the graph round the node; the outermost may bear a trace's name instead."""
    named = metadata.get("lc_agent_name")
    above: Node | None = node
    while above is not None and not above.step:
        above = above.parent
    graph = None if above is None else above.parent
    if graph is None or graph.name in _NO_AGENT or (graph.parent is None and named):
        return named if isinstance(named, str) else None
    return graph.name


def _ghost(name: str, arguments: Mapping[str, Any] | None) -> str | None:
    """Return the name that was asked for, where an agent executor runs a stand-in for a tool that does not exist."""
    if name == "_Exception":
        return name
    asked = (arguments or {}).get("requested_tool_name") if name == "invalid_tool" else None
    return asked if isinstance(asked, str) else None


def _given_id(node: Node, name: str, arguments: dict[str, Any] | None) -> str | None:
    """Return the id of the call that the nearest node was given and that this run executes, each call once."""
    above = node.parent
    while above is not None and above.calls is None and above.inside == node.scope:
        above = above.parent
    if above is None or above.calls is None or above.inside != node.scope:
        return None
    asked = [call for call in above.calls if call.get("name") == name]
    same = [call for call in asked if _within(call.get("args"), arguments)]
    chosen = next(iter(same or asked), None)
    if chosen is None:
        return None
    above.calls = [call for call in above.calls if call is not chosen] if len(above.calls) > 1 else above.calls
    call_id = chosen.get("id")
    return call_id if isinstance(call_id, str) else None


def _within(asked: object, handed: Mapping[str, Any] | None) -> bool:
    if not isinstance(asked, Mapping) or handed is None:
        return False
    try:
        return all(key in handed and json_equal(value, handed[key]) for key, value in asked.items())
    except TypeError:
        return False
