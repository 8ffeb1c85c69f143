"""Observations of the runs of agents: callbacks in, calls of `RunBuilder` out.

Four sources are combined, since each one misses calls: what the model requested, what ran, what the model was shown
next, and what the nodes of a graph returned. The last one is the only source where model callbacks are missing, as for
async agents on Python 3.10. The callbacks of an agent that calls the tool `add` are, with what they add:

    chain_started   LangGraph      the root: a recording begins with the question
    chain_started   model          a node, or step, of the graph: the messages of its state are known from here on
    model_started   ChatOpenAI     the offered tools and the instructions
    model_ended     ChatOpenAI     a message of the model in the log, and its requests
    chain_ended     model          the message again, now as the output of a node: the log tells that it is a copy
    chain_started   tools          a step
    tool_started    add            an execution: of which request is decided by id, name, arguments and nearness
    tool_ended      add            what it returned
    chain_ended     tools          the result as a message
    model_started   ChatOpenAI     (in the next step) the result that the model is shown
    chain_ended     LangGraph      the answer: the recording ends, or waits for a person
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from langchain_core.agents import AgentAction
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import LLMResult

from toolgrade.calls import ToolCallType
from toolgrade.capture import ABSENT, Branch, Request
from toolgrade.capture.doubles import answer_to
from toolgrade.cases import RunStatus
from toolgrade_langchain import _errors, _messages, _results, _states
from toolgrade_langchain._handovers import DESTINATION, HandOver, snake_case, targets_of
from toolgrade_langchain._message_log import LoggedMessage, MessageCall, Repetitions, Surroundings, calls_of
from toolgrade_langchain._run_tree import HAS_CONTEXT, CallbackRecording, CallbackTree, Node, now
from toolgrade_langchain._tools import offered_tools

_STEP_TAG: Final = "graph:step:"
_UNNAMED_GRAPHS: Final = frozenset({None, "", "LangGraph", "RunnableSequence"})
_MAX_TOOL_LISTS: Final = 8
_UPDATE: Final = "LangGraphUpdateState"
"""The name of a root that only changes the state of a graph."""
_LIMITS: Final = ("ModelCallLimitMiddleware.", "ToolCallLimitMiddleware.")
"""How the names of the nodes begin in which middleware may end a run."""

_MODEL_ONLY: Final = (
    "the recorder was attached to a model and not to the agent around it, so what became of its calls was not seen; "
    'pass it to the agent: config={"callbacks": [recorder]}'
)


class CallbackWatcher:
    """Observes the callback runs of a tree, under the lock of the recorder, which also handles errors here.

    The methods without an underscore are LangChain's callbacks: a section for each kind of run, in which the helpers
    follow the callback that uses them first.
    """

    def __init__(self, tree: CallbackTree) -> None:
        """Begin without observations."""
        self.tree = tree
        self._tool_lists: list[tuple[object, list[object]]] = []
        """Recent lists of offered tools as a model received them, and their specs, newest first."""
        self._failed_request: tuple[BaseException, CallbackRecording] | None = None
        """The exception of a model that is a root, and its recording."""

    # Chains, graphs and their nodes

    def chain_started(self, node: Node, inputs: object, tags: Sequence[str] | None) -> None:
        """Note that a runnable began."""
        node.inputs = inputs
        if node.parent is None and not node.recording.continues:
            self._begin_with(node, _states.input_messages(inputs))
        if any(tag.startswith(_STEP_TAG) for tag in tags or ()):
            self._step_started(node, inputs)

    def _step_started(self, node: Node, inputs: object) -> None:
        """Note that a node of a graph began."""
        self.tree.split(node)
        messages = _states.input_messages(inputs)
        node.calls = _states.calls_to_run(inputs)
        is_first = node.parent is not None and not node.parent.has_steps
        loaded = _states.loaded_messages() if node.recording.continues and is_first else []
        if node.recording.candidates is not None:
            self.tree.decide(node, [message for messages in loaded for message in messages] or messages, loaded)
        node.is_step = node.recording.has_graph = True
        node.recording.steps.add(node.name)
        if node.scope is None:
            node.recording.log.add_state(messages, node.place)
            if node.graph is None:
                node.recording.step = node.step
        node.state_messages = _states.newest_model_messages(inputs)
        self._take_handover(node)
        self._graph_began(node, inputs, loaded)
        self._assume_requests(node)

    def _begin_with(self, node: Node, messages: list[BaseMessage]) -> None:
        """Note the messages that a run begins with; the last one may have requests that the run is to carry out."""
        last, ids = _states.open_requests(messages) or (None, set())
        if last is not None and ids and node.name != _UPDATE and not node.recording.log.has(last):
            requests = [request for request in _messages.requests_of(last) if request.id in ids]
            self._add_entry(node, last, requests, last.name)
        node.recording.log.add_history(messages)

    def _take_handover(self, node: Node) -> None:
        """Note the hand-over that a node carries out, if a tool requested it."""
        handover = node.recording.handovers.take(node.name, node.graph, node.step)
        if handover is not None:
            node.recording.builder.handed_off(to=node.name, key=handover.key)

    def _graph_began(self, node: Node, inputs: object, loaded: Sequence[list[BaseMessage]]) -> None:
        """At the first node of a graph, note the messages with which the graph began, which are not new."""
        graph = node.parent
        if graph is None or graph.has_steps:
            return
        graph.has_steps = True
        if graph.parent is None:
            node.recording.loop = _states.reference_to_loop()
        self._add_history(node, graph.inputs)
        self._add_loaded(node, loaded)
        agents = [run for run in graph.around() if run.is_step]
        for entry in self._state_entries(agents[0], node.place) if agents else ():
            self._handed_over_elsewhere(node, entry, agents[0].name)
        if node.recording.thread is not None:
            self._add_history(node, inputs)  # the input of the node also has what the checkpointer stored
        if graph.parent is not None:
            graph.inputs = None

    @staticmethod
    def _add_history(node: Node, state: object) -> None:
        """Note the messages of a state as older than the run."""
        messages = _states.input_messages(state)
        if node.recording.continues:  # results may be new: the run may have waited for them
            messages = [message for message in messages if isinstance(message, AIMessage)]
        node.recording.log.add_history(messages)

    def _add_loaded(self, node: Node, lists: Sequence[list[BaseMessage]]) -> None:
        """Note what a loaded state shows of the turn: messages recorded elsewhere, and which calls were removed."""
        recording, log = node.recording, node.recording.log
        ids: dict[LoggedMessage, set[str | None]] = {}  # of the calls that each message has in the loaded state
        newest = log.newest_in_state
        if newest is not None and newest.branch == node.branch:
            ids[newest] = set()
        for messages in lists:
            turn = _states.last_turn(messages)
            ids |= self._add_loaded_turn(node, turn)
            if node.scope is None:
                recording.ask(messages)
                log.add_history(messages[: len(messages) - len(turn)])
                log.add_state(messages, node.place)
        for entry, present in ids.items() if lists else ():  # without a loaded state, nothing was removed
            recording.builder.withdrawn([call.request for call in entry.calls if call.request.id not in present])

    def _add_loaded_turn(self, node: Node, turn: Sequence[BaseMessage]) -> dict[LoggedMessage, set[str | None]]:
        """Note the messages of a turn in a loaded state; return the ids of the calls that each one has now."""
        ids: dict[LoggedMessage, set[str | None]] = {}
        entry, agent, repetitions = None, None, Repetitions()
        for message in turn:
            if isinstance(message, (ToolMessage, HumanMessage)):
                self._add_result_if_new(node, message, entry, is_loaded=True)
            elif isinstance(message, AIMessage) and not message.response_metadata.get(_messages.HANDOFF_BACK):
                if entry is not None and message.name != agent:
                    self._handed_over_elsewhere(node, entry, message.name)
                entry, agent = None, message.name
                calls = calls_of(message)
                if not message.id and not calls:  # such a message may be of any turn
                    node.recording.log.add_history([message])
                elif not node.recording.log.is_history(message):
                    entry = self._loaded_entry(node, message, repetitions.before(message))
                    repetitions.add(message)
                    ids[entry] = {call_id for call_id, _, _ in calls}
        self._mark_structured_calls(node, turn)
        return ids

    @staticmethod
    def _handed_over_elsewhere(node: Node, entry: LoggedMessage, agent: str | None) -> None:
        """Note which calls of a loaded message handed over to the agent of the next one.

        Only the names of the tools tell: `transfer_to_bob` handed over to the agent `Bob`.
        """
        if node.recording.assumed_ids is None or not agent:
            return
        for call in entry.calls:
            if call.is_answered and not call.is_running and call.request.name.endswith(f"to_{snake_case(agent)}"):
                node.recording.builder.handed_off(to=agent, request=call.request)

    def _loaded_entry(self, node: Node, message: AIMessage, earlier: int) -> LoggedMessage:
        """Return the entry of a message in a loaded state, a new one for calls that no message requested."""
        entry = node.recording.log.stored_as(message, node.place, earlier)
        requests = _messages.requests_of(message)
        if entry is not None:
            requests = [request for request in requests if request.id not in {one.id for one in entry.requests}]
            if not requests:
                return entry
        return self._add_unreported_message(node, message, requests)

    def _add_unreported_message(self, node: Node, message: AIMessage, requests: list[Request]) -> LoggedMessage:
        """Add a new model message that no callback reported, and the results in it."""
        _messages.add_answers(node.recording.builder, message, node.branch)
        return self._add_entry(node, message, requests, _agent_of(node, {}) or message.name)

    def _assume_requests(self, node: Node) -> None:
        """In a run whose beginning was not recorded, count the calls that a node executes as requests of a model."""
        log, assumed = node.recording.log, node.recording.assumed_ids
        if assumed is None or node.scope is not None:
            return
        calls = self._unrequested(node)
        if not calls:
            return
        ids = {call["id"] for call in calls}
        assumed |= ids
        requests = [Request(call["name"], call["args"], call["id"], ToolCallType.FUNCTION) for call in calls]
        entry = self._add_entry(node, None, requests, _agent_of(node, {}))
        for message in node.state_messages:
            if ids <= _states.call_ids(message):
                log.connect(message, entry)

    @staticmethod
    def _unrequested(node: Node) -> list[Mapping[str, Any]]:
        """Return the calls that a node executes and that no noted message requested."""
        log = node.recording.log
        noted = log.ids_in(node.branch)
        for message in node.state_messages:  # a graph around may have noted the message, in its branch or as older
            is_older = node.graph is not None and log.has(message)
            if is_older or log.entry_of(message, node.place) is not None:
                noted |= _states.call_ids(message)
        return [call for call in node.calls or () if call.get("id") and call["id"] not in noted]

    def chain_ended(self, outputs: object, run_id: UUID, streamed: object = None) -> None:
        """Note what a runnable returned; `streamed` is its input, if that is a stream and so complete only now."""
        node = self.tree.find(run_id)
        inputs = None if node is None else streamed or node.inputs
        self.tree.end(run_id)
        if node is None or not (node.is_step or node.parent is None):
            return
        if streamed is not None and node.parent is None:
            node.recording.log.add_history(_states.input_messages(streamed))
            node.recording.ask(streamed)
        if node.recording.candidates is not None:  # no node ran
            messages = _states.state_messages(outputs)
            self.tree.resume_ended(node.recording, messages)
            self._add_loaded(node, [messages] if messages else [])
        last = self._add_updates(node, outputs, inputs)
        if node.parent is None:
            self._root_ended(node, outputs, inputs, last)

    def _root_ended(self, node: Node, outputs: object, inputs: object, last: BaseMessage | None) -> None:
        """Note that a root ended, and the last message that it returned."""
        if isinstance(last, AIMessage) and last.content == _errors.OUT_OF_STEPS:
            node.limit = _errors.OUT_OF_STEPS
        if node.limit is not None:
            self.tree.finish(node, status=RunStatus.STOPPED, error=node.limit)
            return
        # A graph with a thread suspends a run by ending it, with the requests as its last message.
        recording = node.recording
        requests_calls = isinstance(last, AIMessage) and _states.requests_calls(last)
        self._note_wait(recording)
        may_wait = recording.has_graph and recording.thread is not None and requests_calls
        answer = _states.answer_of(
            outputs,
            is_graph=recording.has_graph,
            inputs=inputs,
            last_text=recording.last_text,
            ids_before=recording.log.ids_before - {None},
        )
        self.tree.finish(node, answer, may_wait=may_wait)

    @staticmethod
    def _note_wait(recording: CallbackRecording) -> None:
        """Note whether a graph that ends waits at a breakpoint, and which hand-overs it waits to carry out."""
        recording.interrupted |= recording.thread is not None and _states.is_at_breakpoint(recording.loop)
        for request in recording.handovers.left if recording.interrupted else ():
            for target in request.targets:
                recording.builder.handed_off(to=target, key=request.key)

    def _add_updates(self, node: Node, outputs: object, inputs: object) -> BaseMessage | None:
        """Note the messages that a node or a root returned; return the last one."""
        last: BaseMessage | None = None
        for returned in _states.updates_in(outputs):
            update = _states.without_input(returned, inputs) if node.is_step else returned
            lists = _states.message_lists(update)
            for messages in lists:
                self._add_output_messages(node, messages, is_new=update is not returned and node.is_leaf)
            messages = lists[0] if lists else []
            last = messages[-1] if messages else last
            self._leave_out_structured_answer(node, update, messages)
            is_limit = node.is_step and str(node.name).startswith(_LIMITS) and update.get("jump_to") == "end"
            if is_limit and node.parent is not None and isinstance(last, AIMessage):
                node.parent.limit = _messages.text_of(last.content)
        return last

    def chain_failed(self, error: BaseException, run_id: UUID) -> None:
        """Note that a runnable raised, was cancelled, or passed control on."""
        node = self.tree.end(run_id)
        if node is None:
            return
        if self._failed_request is not None and self._failed_request[0] is error:
            self.tree.drop(self._failed_request[1])
            self._failed_request = None
        if node.is_step:
            node.recording.unfinished.add(node.namespace)
        node.recording.interrupted |= _errors.is_interrupt(error) and node.scope is None
        if self._handover_left(node, error):
            return
        self._leave_out_refused_answer(node, error)
        status = self._status_of(node, error)
        text = None if status is RunStatus.INTERRUPTED else _errors.error_text(error)
        self.tree.finish(node, status=status, error=text)

    def _status_of(self, node: Node, error: BaseException) -> RunStatus:
        """Return the status of a run that ends with an exception."""
        if self._is_step_timeout(node, error):
            return RunStatus.STOPPED
        if node.parent is None and not node.recording.open and _errors.is_a(error, "GeneratorExit"):
            self._note_wait(node.recording)  # a stream may be left when it says that the graph waits
            if node.recording.interrupted:
                return RunStatus.INTERRUPTED
        return _errors.status_of(error)

    def _leave_out_refused_answer(self, node: Node, error: BaseException) -> None:
        """Leave out the calls of a message that carried a structured answer, if that answer was refused."""
        message = getattr(error, "ai_message", None)
        if isinstance(message, AIMessage) and _errors.is_a(error, "StructuredOutputError"):
            names = getattr(error, "tool_names", None) or [getattr(error, "tool_name", None)]
            entry = node.recording.log.entry_of(message, node.place)
            self._mark_structured(node, _named(entry.calls, names) if entry else [])

    def _handover_left(self, node: Node, error: BaseException) -> bool:
        """Note that a hand-over leaves a node or a graph, and return whether the run ends well with it."""
        handovers = node.recording.handovers
        if _errors.parent_command(error) is None:
            return False
        if node.is_step:
            handovers.leave_node(node.run_id, error)
        requests = handovers.leave_graph(error) if node.has_steps else []
        if node.parent is not None or not node.namespace:
            return False
        # This recorder observes an agent, and not the graph around it.
        for request in requests:
            for target in request.targets:
                node.recording.builder.handed_off(to=target, key=request.key)
        self.tree.finish(node)
        return True

    def _is_step_timeout(self, node: Node, error: BaseException) -> bool:
        """Return whether a graph stopped because a step took too long; a tool may raise the same exception."""
        if not _errors.is_a(error, "TimeoutError"):
            return False
        earlier = node.recording.timeout
        if earlier is None or earlier[0] is not error:
            earlier = node.recording.timeout = (error, node.has_steps)
        return earlier[1]

    def _leave_out_structured_answer(
        self, node: Node, update: Mapping[str, Any], messages: Sequence[BaseMessage]
    ) -> None:
        """Leave out calls that carry a structured answer: the node that returns the request also returns the result."""
        answer, graph = update.get("structured_response"), node.parent
        if node.has_steps:
            return
        if node.is_step and graph is not None:
            answered = list(self._answered_without_running(node, messages))
            graph.answered_here += answered
            if answer is not None:
                self._mark_structured(node, _named(graph.answered_here, {call.request.name for call in answered}))
            elif "structured_response" in update:
                self._mark_structured(node, answered)
        elif not node.is_step:  # the graph runs elsewhere, such as on a server, so its nodes are not observed
            self._mark_structured_calls(node, messages, answer)

    def _mark_structured_calls(self, node: Node, messages: Sequence[BaseMessage], answer: object = None) -> None:
        """Leave out the calls in a list of messages that carry structured answers."""
        calls = _states.structured_calls(messages, answer)
        for message in messages:
            entry = node.recording.log.entry_of(message, node.place) if calls.get(id(message)) else None
            if entry is not None:
                self._mark_structured(node, (call for call in entry.calls if call.request.id in calls[id(message)]))

    def _answered_without_running(self, node: Node, messages: Sequence[BaseMessage]) -> Iterator[MessageCall]:
        """Yield the calls that a list of messages both requests and answers, if they did not run.

        Calls of a graph inside the graph of the node do not count: they may be of tools that do not exist.
        """
        entry: LoggedMessage | None = None
        for message in messages:
            if isinstance(message, AIMessage):
                entry = node.recording.log.entry_of(message, node.place)
                if entry is not None and _is_inside(entry.branch, node.branch):
                    entry = None
            elif isinstance(message, ToolMessage) and entry is not None:
                calls = [call for call in entry.calls if call.request.id == message.tool_call_id]
                yield from (call for call in calls if not call.is_running)

    @staticmethod
    def _mark_structured(node: Node, calls: Iterable[MessageCall]) -> None:
        node.recording.builder.structured_answer([call.request for call in calls if call.request.id is not None])

    def _add_entry(
        self, node: Node, message: AIMessage | None, requests: list[Request], agent: str | None
    ) -> LoggedMessage:
        """Add a new model message to the log, to the runs around it, and its requests to the run."""
        entry = node.recording.log.add(message, requests, node.place)
        for run in node.around():
            run.messages.append(entry)
        node.recording.builder.model_asked(requests, scope=entry.branch, agent=agent or None)
        return entry

    def _add_output_messages(self, node: Node, messages: list[BaseMessage], *, is_new: bool) -> None:
        """Note the messages in the output of a node or a root that no callback reported.

        Args:
            node: The node or the root.
            messages: The messages.
            is_new: None of the messages was there before the run.
        """
        log, place = node.recording.log, node.place
        if log.has_objects(messages):  # most are known: models and nodes inside returned them
            self._place_messages(node, messages)
        else:
            if node.is_step:
                place = place._replace(around=place.around | {node.run_id.int})
            self._add_output_turn(node, messages, place, are_new=is_new)
        if node.scope is None:
            log.add_state(messages, place)

    def _add_output_turn(self, node: Node, messages: list[BaseMessage], place: Surroundings, *, are_new: bool) -> None:
        """Note the messages of the last turn in an output, of which at least one may not be known."""
        log = node.recording.log
        removed = [message for message in messages if message.type == "remove"]
        are_new = are_new and not removed
        newest: LoggedMessage | None = None
        last = _states.newest_of(messages)
        repetitions = Repetitions()
        for message in _states.last_turn(messages):
            if not isinstance(message, AIMessage):
                self._add_result_if_new(node, message, newest, is_new=are_new)
            else:
                newest = None
                # A node whose last message has no id, as in the form of a provider, has just received that message.
                is_new = all((node.is_leaf, message is messages[-1], not message.id, message.tool_calls, not removed))
                if not (is_new or are_new) and log.is_history(message):
                    continue
                if log.has(message):
                    newest = log.entry_of(message, place)
                else:
                    is_newest = (message is last or are_new) and not node.has_steps
                    earlier = repetitions.before(message)
                    original = log.original_of(message, place, earlier, removed, node.messages, is_newest=is_newest)
                    newest = self._entry_of_output(node, message, original, is_newest=is_newest)
                repetitions.add(message)

    def _add_result_if_new(
        self,
        node: Node,
        message: BaseMessage,
        entry: LoggedMessage | None,
        *,
        is_new: bool = False,
        is_loaded: bool = False,
    ) -> None:
        """Note a result in the output of a node or in a loaded state, unless it is known."""
        log = node.recording.log
        if not log.has(message) and (is_new or not log.is_history(message)):
            log.connect(message, None)
            if isinstance(message, ToolMessage):
                self._add_result(node, message, entry, is_loaded=is_loaded)
            else:
                _messages.add_answers(node.recording.builder, message, node.branch)

    def _place_messages(self, node: Node, messages: Sequence[BaseMessage]) -> None:
        """Put the messages that a node returns into this node.

        On Python 3.10, async code loses its context, so a model in a nested graph has the tool around that graph as its
        parent. Only the output of the node shows in which branch the model ran.
        """
        if HAS_CONTEXT or not node.is_step or node.has_steps:
            return
        place = node.place
        for message in messages:
            entry = node.recording.log.entry_of(message, place) if isinstance(message, AIMessage) else None
            if entry is None or not _is_inside(node.branch, entry.branch):
                continue
            entry.branch, entry.around = place.branch, entry.around | place.around | {node.run_id.int}
            for run in (node, *node.around()):
                if entry not in run.messages:
                    run.messages.append(entry)
            if entry.calls:
                node.recording.builder.model_ran_in(entry.branch, entry.requests, agent=_agent_of(node, {}))

    def _entry_of_output(
        self, node: Node, message: AIMessage, original: LoggedMessage | None, *, is_newest: bool
    ) -> LoggedMessage | None:
        """Return the entry of a model message in an output that is not noted: `original`, or else a new one.

        Args:
            node: The node that returned the message.
            message: The message.
            original: The entry of the message that this one copies or replaces, if there is one.
            is_newest: The message is the newest one of the model in the output.
        """
        recording, log = node.recording, node.recording.log
        requests = _messages.requests_of(message)
        if original is None and message.response_metadata.get(_messages.HANDOFF_BACK):
            log.connect(message, None)
            return None
        if original is not None:
            ids = {request.id for request in requests}
            if not ids or ids & original.ids():
                log.connect(message, original)
                return original
            for call, request in zip(original.calls, requests, strict=False):  # the calls have new ids
                request.replaces, call.is_answered = call.request.id, True
        is_received = is_newest and node.is_step and not message.id
        if not is_received and recording.has_assumed(message):
            return None
        self._add_model_use(node, message, is_copy=original is not None)
        entry = self._add_unreported_message(node, message, requests)
        node.messages.append(entry)
        return entry

    def _add_model_use(self, node: Node, message: AIMessage, *, is_copy: bool) -> None:
        """Note the model of a message that a node returned, its tools, its instructions and its usage.

        On Python 3.10, the context is lost in async code: the model of an async agent has no callbacks or, inside
        `record()`, is a root. Its message shows that this root is part of the present run.
        """
        builder, model = node.recording.builder, _messages.model_of(message)
        received = self.tree.take_model_request(message.id)
        if received is not None:
            builder.offered(received.tools, scope=node.scope)
            builder.instructed(received.run().instructions, scope=node.scope)
            model = model or received.model
        is_counted = is_copy or node.recording.guards.pop(message.id, None) is not None
        builder.model_used(model, None if is_counted else _messages.usage_of(message))

    def _add_result(
        self,
        node: Node,
        message: ToolMessage,
        entry: LoggedMessage | None,
        *,
        reformatted: bool = False,
        is_loaded: bool = False,
    ) -> None:
        """Note a result that the model is shown.

        Args:
            node: The run in which the result was observed.
            message: The result.
            entry: The message with the call, if it is known.
            reformatted: The model may be shown another form than the tool returned.
            is_loaded: The result is in a loaded state, so the tool may have run elsewhere.
        """
        result = _results.result_of(message)
        call = None if entry is None else entry.answered_by(message.tool_call_id)
        call = call or self._call_answered(node, message.tool_call_id, message.name)
        if call is not None:
            call.is_answered = True
        # In an agent, a tool that runs is observed; a node written by hand may run any function.
        may_have_run = not result.was_refused and (
            is_loaded or not any(run.runs_middleware for run in (node, *node.around()))
        )
        node.recording.builder.result_shown(
            result.output,
            call_id=message.tool_call_id,
            name=message.name,
            failed=result.error is not None,
            unknown_tool=result.unknown_tool,
            artifact=message.artifact,
            type=ToolCallType.MCP if result.is_mcp else None,
            request=None if call is None else call.message.twins(call),
            scope=node.branch,
            reformatted=reformatted and not isinstance(result.output, str),
            read=may_have_run,
        )

    def _call_answered(self, node: Node, call_id: str, name: str | None) -> MessageCall | None:
        """Return the call that a result answers: the nearest and newest with this id, one without a result first."""
        executed = [call for call in node.executed if call.request.id == call_id and not call.is_answered]
        if executed:
            return min(executed, key=lambda call: call.request.name != name)
        for messages in self._nearest_messages(node):
            matching = list(filter(None, (entry.answered_by(call_id) for entry in reversed(messages))))
            if matching:
                return min(matching, key=attrgetter("is_answered"))
        return None

    def _nearest_messages(self, node: Node) -> Iterator[Sequence[LoggedMessage]]:
        """Yield the model messages that may have requested what happens at a node, the nearest first."""
        log, place = node.recording.log, node.place
        messages = log.messages.get(node.scope, ())
        outer: list[Node] = []
        for run in (node, *node.around()):
            if run.graph != node.graph:  # a run of another graph also has messages of parallel branches
                outer.append(run)
                continue
            yield run.messages
            yield self._state_entries(run, place)
        yield [entry for entry in messages if entry.branch == node.branch]
        for run in outer:
            yield run.messages
            yield self._state_entries(run, place)
        yield messages

    @staticmethod
    def _state_entries(run: Node, place: Surroundings) -> Sequence[LoggedMessage]:
        """Return the newest model messages in the input of a run."""
        entries = [run.recording.log.entry_of(message, place) for message in run.state_messages]
        return [entry for entry in entries if entry is not None]

    # Models

    def model_started(self, node: Node, messages: Sequence[BaseMessage], more: Mapping[str, Any]) -> None:
        """Note what a model is shown, and which tools it is offered.

        Args:
            node: The run of the model.
            messages: The messages that it is shown.
            more: The keyword arguments of the callback.
        """
        self.tree.resumes_nothing(node.recording)
        recording, builder = node.recording, node.recording.builder
        metadata, parameters = more.get("metadata") or {}, more.get("invocation_params") or {}
        options = more.get("options") or {}
        node.is_structured = bool(options.get("ls_structured_output_format") or options.get("structured_output_format"))
        node.model = _model_name(metadata, parameters)
        node.name = _agent_of(node, metadata)
        middleware = self.tree.middleware_around(node)
        # A model that middleware asks may take the place of the agent's model.
        node.is_guard = middleware is not None and middleware.name != "model"
        if node.is_guard:
            return
        if not node.is_structured:
            node.tools = specs = self._specs(parameters)
            builder.offered(specs, scope=node.scope)
            recording.declare(specs)
        for message in messages:
            if message.type == "system":
                builder.instructed(_messages.text_of(message.content), scope=node.scope)
        self._add_results_shown(node, messages)
        if node.scope is None:
            recording.ask(prompt=_messages.question_in(messages))

    def _add_results_shown(self, node: Node, messages: Sequence[BaseMessage]) -> None:
        """Note the results among the messages that a model is shown, of the calls of its own last message."""
        log = node.recording.log
        entry: LoggedMessage | None = None
        for message in _states.newest_round(messages):
            if isinstance(message, AIMessage):
                if log.is_history(message):
                    return
                entry = log.entry_of(message, node.place)
            elif isinstance(message, ToolMessage):
                call = None if entry is None else entry.answered_by(message.tool_call_id)
                # The node that ran the tool mostly returned the very same message.
                if call is None or not call.is_answered or not log.has_objects([message]):
                    self._add_result(node, message, entry, reformatted=True)
            else:
                _messages.add_answers(node.recording.builder, message, node.branch)

    def model_ended(self, response: LLMResult, run_id: UUID) -> None:
        """Note the answer of a model."""
        node = self.tree.end(run_id)
        if node is None:
            return
        recording, builder = node.recording, node.recording.builder
        generation = next(itertools.chain(*response.generations), None)
        message = getattr(generation, "message", None)
        if not isinstance(message, AIMessage):
            builder.model_used(node.model)
            builder.model_asked([], scope=node.branch)
            self.tree.finish(node, getattr(generation, "text", None))
            return
        builder.model_used(_messages.model_of(message) or node.model, _messages.usage_of(message))
        if node.is_guard:  # its calls are some of the agent only if the node returns the message, or runs them
            recording.guards[message.id] = message, node
            return
        requests = [] if node.is_structured else _messages.requests_of(message)
        _messages.add_answers(builder, message, node.branch)
        self._add_entry(node, message, requests, node.name)
        if node.parent is None and not recording.is_group:
            self.tree.add_model_request(recording, message.id or "", node.tools, node.model)
            if requests:
                builder.warn(_MODEL_ONLY)
        if node.scope is None:
            recording.last_text = _messages.text_of(message.content)
        node.tools = []  # the node is remembered, and the offered tools are large
        self.tree.finish(node, _states.message_answer(message))

    def model_failed(self, error: BaseException, run_id: UUID) -> None:
        """Note that a model raised."""
        node = self.tree.end(run_id)
        if node is None:
            return
        self.tree.finish(node, status=_errors.status_of(error), error=_errors.error_text(error))
        # Without a context, a model inside a chain looks like a root. It is one inside if the chain raises the same.
        if not HAS_CONTEXT and node.parent is None:
            self._failed_request = (error, node.recording)

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
        metadata: Mapping[str, Any],
    ) -> None:
        """Note that a tool began to run."""
        self.tree.resumes_nothing(node.recording)
        node.missing_tool = missing_tool(name, arguments)
        if node.missing_tool is not None:
            return
        node.call_id = call_id or node.requested_id(name, arguments)
        self._take_guard(node, name)
        calls = self._candidate_calls(node, name, arguments)
        if calls and calls[0].request.type is ToolCallType.CUSTOM and arguments.keys() == {"__arg1"}:
            arguments = {"input": arguments["__arg1"]}  # LangChain's name of the only argument, a free text
        key, builder = str(node.run_id), node.recording.builder
        request = builder.tool_started(
            key,
            node.recording.spec_of(name),
            arguments,
            request=[call.request for call in calls] or None,
            call_id=node.call_id,
            scope=node.branch,
            agent=_agent_of(node, metadata),
            at=now(),
        )
        node.request = next((call for call in calls if call.request is request), None)
        if node.request is not None:
            self._call_runs(node, node.request)
        if isinstance(metadata.get(DESTINATION), str):
            builder.handed_off(to=metadata[DESTINATION], key=key, took_place=False)

    def _take_guard(self, node: Node, name: str) -> None:
        """Note the message of a model that middleware asked, if the tool that begins was requested by that message."""
        for message, guard in list(node.recording.guards.values()):
            if any(call["name"] == name and call["id"] == node.call_id for call in message.tool_calls):
                del node.recording.guards[message.id]
                self._add_entry(guard, message, _messages.requests_of(message), guard.name)

    @staticmethod
    def _call_runs(node: Node, call: MessageCall) -> None:
        """Note that a tool run carries out a call of a model."""
        call.is_running = True
        if call.suspended is not None:  # the tool goes on inside its interrupted run
            node.inside, call.suspended = call.suspended, None
        step = next((run for run in node.around() if run.is_step), None)
        if step is not None:
            step.executed.append(call)

    def _candidate_calls(self, node: Node, name: str, arguments: Mapping[str, Any]) -> list[MessageCall]:
        """Return the calls of models that a tool run may carry out: those nearest to it, the newest message first.

        A nearer model may have used the same id for another tool, so open calls of this name come first.
        """
        others: list[MessageCall] = []
        for messages in self._nearest_messages(node):
            calls = [
                call
                for message in reversed(messages)
                for call in message.calls
                if call.may_be(node.call_id, name, arguments)
            ]
            # A call with a result has run, maybe elsewhere.
            calls = [call for call in calls if not call.is_answered] or calls
            if any(call.request.name == name and call.is_open for call in calls):
                return calls
            others = others or calls
        return others

    def tool_ended(self, output: object, run_id: UUID) -> None:
        """Note what a tool returned."""
        node = self.tree.end(run_id)
        if node is None:
            return
        if node.missing_tool is not None:
            text = _results.tool_result(output, None).output
            builder = node.recording.builder
            builder.result_shown(text, name=node.missing_tool, failed=True, unknown_tool=True, scope=node.branch)
            return
        self._tool_returned(node, output)

    def _tool_returned(self, node: Node, output: object) -> None:
        """Note what a tool returned, or the command with which it passed control on."""
        builder = node.recording.builder
        result = _results.tool_result(output, node.call_id)
        builder.tool_ended(
            str(node.run_id),
            result.output,
            model_output=ABSENT if result.error is None else result.output,
            artifact=result.artifact,
            error=result.error,
            call_id=result.call_id,
            type=ToolCallType.MCP if result.is_mcp else None,
            at=now(),
        )
        builder.tool_replayed(str(node.run_id), answer_to(str(node.run_id)))
        targets = targets_of(output)
        if targets:
            step = next((run.run_id for run in node.around() if run.is_step), None)
            position = 0 if node.request is None else node.request.message.calls.index(node.request)
            node.recording.handovers.add(HandOver(str(node.run_id), targets, position, step, _steps_around(node)))
            builder.handed_off(to=targets[0], key=str(node.run_id), took_place=False)
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
        if node.request is not None:
            node.request.is_running = False
            if status is RunStatus.INTERRUPTED:
                node.request.suspended = node.inside
        text = None if status is RunStatus.INTERRUPTED else _errors.error_text(error)
        node.recording.builder.tool_failed(str(run_id), text, outcome=_errors.outcome_of(error), at=now())
        node.recording.builder.tool_replayed(str(run_id), answer_to(str(run_id)))
        self.tree.finish(node, status=status, error=text)

    def agent_acted(self, action: AgentAction, run_id: UUID) -> None:
        """Note the tool that a classic agent chose by text; an action with an id comes from a model's request."""
        node = self.tree.find(run_id)
        if node is None or getattr(action, "tool_call_id", None) is not None or action.tool == "_Exception":
            return
        arguments = {"input": action.tool_input} if isinstance(action.tool_input, str) else action.tool_input
        node.recording.builder.model_asked(
            [Request(action.tool, arguments, type=ToolCallType.FUNCTION)], scope=Branch(node.inside, node.graph)
        )


def _named(calls: Iterable[MessageCall], names: Container[str | None]) -> list[MessageCall]:
    return [call for call in calls if call.request.name in names]


def _is_inside(inner: Branch, outer: Branch) -> bool:
    """Return whether a nested graph is inside another one of its scope; the outermost one has no key."""
    if inner.scope != outer.scope or inner.key is None:
        return False
    return outer.key is None or str(inner.key).startswith(f"{outer.key}|")


def _model_name(metadata: Mapping[str, Any], parameters: Mapping[str, Any]) -> str | None:
    name = metadata.get("ls_model_name") or parameters.get("model") or parameters.get("model_name")
    return name if isinstance(name, str) else None


def _steps_around(node: Node) -> dict[str | None, int]:
    """Return the numbers of the steps that run around a node, by the name of each graph, of the graphs around its own.

    A tool may also be a node of its own, outside of any graph.
    """
    steps: dict[str | None, int] = {}
    run = node.parent
    while run is not None:
        if run.is_step and run.step is not None and run.graph != node.graph:
            steps[run.graph] = run.step
        run = run.parent
    return steps


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
