"""Which tools may an agent choose from?"""

from __future__ import annotations

from typing import Any

from agents import Agent, RunContextWrapper

from toolmark import ToolSpec
from toolmark_openai_agents import _sdk


async def available_tools(agent: Any, *, context: Any = None, handoffs: bool = True) -> list[ToolSpec]:  # noqa: ANN401
    """Return the tools of an agent, as its model is offered them.

    Its MCP servers are asked, and must be connected. Tools that are not enabled are left out, as is what hands over to
    other agents. Tools of the same name are listed once, as of the first agent that has one.

    Args:
        agent: The agent.
        context: What `Runner.run` would be given as `context`, for tools that are enabled by it.
        handoffs: Also the tools of the agents that it can hand over to, and of theirs.
    """
    specs: dict[str, ToolSpec] = {}
    wrapper = RunContextWrapper(context=context)
    waiting, seen = [agent], []
    while waiting:
        one = waiting.pop(0)
        seen.append(one)
        for tool in await one.get_all_tools(wrapper):
            spec = _sdk.spec_of(one, tool)
            if spec is not None:
                specs.setdefault(spec.name, spec)
        others = [_target(handoff) for handoff in getattr(one, "handoffs", ())] if handoffs else []
        waiting += [
            other for other in others if other is not None and not any(other is known for known in [*seen, *waiting])
        ]
    return list(specs.values())


def _target(handoff: Any) -> Any:  # noqa: ANN401 - objects of the SDK
    """Return the agent that a hand-over leads to; `None` where only its name is known."""
    if isinstance(handoff, Agent):
        return handoff
    found = getattr(handoff, "_agent_ref", None)
    return found() if callable(found) else None
