"""Hand-overs between the agents of a graph: which of those that tools requested took place.

A tool requests one by a command for a graph around its own. It takes place when the node that the command names begins
in that graph, in the step after that of the agent. A node that does not exist never begins. Of several requests in one
message, LangGraph carries out the one whose exception leaves the graph of the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from toolgrade_langchain._errors import is_a, parent_command

DESTINATION: Final = "__handoff_destination"
"""Key of the agent in the metadata of a tool, as `langgraph-supervisor` and `langgraph-swarm` mark theirs."""

_END: Final = "__end__"


@dataclass(slots=True, eq=False)
class HandOver:
    """A request to hand over.

    Attributes:
        key: The tool run that made it.
        targets: The names of the agents that have not begun.
        position: The position of its call in the message of the model.
        node: The callback run of the node that it ran in.
        steps: The numbers of the steps that run around it in the graphs around its own, by the name of each.
        error: The exception with which that node passed the command on.
        has_left: That exception left the graph of the agent.
    """

    key: str
    targets: list[str]
    position: int
    node: UUID | None
    steps: Mapping[str | None, int]
    error: BaseException | None = None
    has_left: bool = False


class HandOvers:
    """The requests of one run that did not take place so far."""

    def __init__(self) -> None:
        """Begin without requests."""
        self._requests: list[HandOver] = []

    @property
    def left(self) -> list[HandOver]:
        """The requests whose commands left the graph of an agent, and whose nodes have not begun."""
        return [request for request in self._requests if request.has_left]

    def add(self, request: HandOver) -> None:
        """Note a request."""
        self._requests.append(request)

    def leave_node(self, node: UUID, error: BaseException) -> None:
        """Note that a node passes on the requests of the tools in it."""
        for request in self._requests:
            if request.node == node:
                request.error = error

    def leave_graph(self, error: BaseException) -> list[HandOver]:
        """Note that an exception leaves the graph of an agent, and return the requests that it carries."""
        targets = set(targets_of(parent_command(error)))
        requests = [request for request in self._requests if request.error is error and targets & {*request.targets}]
        for request in requests:
            request.has_left = True
        return requests

    def take(self, name: str | None, graph: str | None, step: int | None) -> HandOver | None:
        """Return the request that a node that begins carries out, without this target; `None` if no tool requested it.

        Args:
            name: The name of the node.
            graph: The nested graph that it is a node of.
            step: The number of its step.
        """
        due = [
            request
            for request in self._requests
            if name in request.targets and graph in request.steps and request.steps[graph] + 1 == step
        ]
        if not due:
            return None
        chosen = min(due, key=lambda request: (not request.has_left, request.position))
        chosen.targets.remove(str(name))
        if not chosen.targets:
            self._requests.remove(chosen)
        return chosen


def snake_case(agent: str) -> str:
    """Return the name of an agent as `langgraph-supervisor` and `langgraph-swarm` have it in the names of tools."""
    return "_".join(agent.split()).lower()


def is_named_after_handover(tool: str, targets: Sequence[str]) -> bool:
    """Return whether the name of a tool only says that it hands over, to one of these agents or by a usual name."""
    return tool.startswith("transfer_to_") or any(tool.endswith(f"to_{snake_case(target)}") for target in targets)


def in_list(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value in a list."""
    return value if isinstance(value, list) else [value]


def goto_of(command: Any) -> list[Any]:
    """Return what a command passes control to: names of nodes, and LangGraph's `Send`."""
    return list(command.goto) if isinstance(command.goto, tuple) else in_list(command.goto)


def targets_of(output: Any) -> list[str]:
    """Return the names of the agents to which a tool's output passes control, by a command that leaves its graph.

    A command that ends the graph around passes control to nobody.
    """
    for item in in_list(output):
        if is_a(item, "Command") and getattr(item, "graph", None) is not None:
            names = [getattr(target, "node", target) for target in goto_of(item)]
            targets = [name for name in names if isinstance(name, str) and name != _END]
            if targets:
                return targets
    return []
