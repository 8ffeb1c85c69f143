"""Asking of agents: from a golden to the case with its run, also if the agent breaks or is late."""

from __future__ import annotations

import asyncio

from toolgrade._internal.model import drop_none, set_fields
from toolgrade._internal.sync_bridge import GRACE, call
from toolgrade._internal.text import error_text
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.cases import LLMTestCase, Run, RunStatus
from toolgrade.dataset import Golden


async def run_golden(golden: Golden, agent: AgentCallable, limit: float | None = None) -> LLMTestCase:
    """Run an agent on one golden in a new conversation, and return the case.

    If the agent raises, or has not answered after `limit` seconds, the run of the case says so. Its called tools are
    then unknown, unless the agent has stored them in `Conversation.unfinished`. The id of the golden becomes that of
    the case.
    """
    run = await _run_agent(agent, golden.question, limit)
    if run.status is RunStatus.STOPPED and run.error is None:  # a list of messages may not know, but the agent does
        run = run.model_copy(update={"error": "the run was stopped"})
    if run.error is not None:
        run = run.model_copy(update={"error": " ".join(run.error.split())})  # reports show it on one line
    return _case(golden, run)


async def _run_agent(agent: AgentCallable, question: str, limit: float | None) -> Run:
    """Return the run of an agent on one question; if the agent breaks or is late, a run that says so."""
    conversation = Conversation()
    # The agent has a task of its own: what it does to its context or its task concerns no other question.
    asking = asyncio.ensure_future(_answer(agent, question, conversation))
    try:
        await asyncio.wait({asking}, timeout=limit)
        is_late = not asking.done()
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking}, timeout=GRACE)
    run = asking.result() if asking.done() and not asking.cancelled() else None
    if run is not None and not is_late:
        return run
    conversation.unfinished = conversation.unfinished or run
    error = f"TimeoutError: no answer within {limit:g} s" if is_late else "CancelledError"
    return _broken_run(question, conversation, RunStatus.STOPPED, error)


async def _answer(agent: AgentCallable, question: str, conversation: Conversation) -> Run:
    """Return the run of an agent; if it raises or returns something else, a run with the error."""
    result, error = await call(agent, question, conversation)
    if error is None and isinstance(result, Run):
        return result
    text = f"the agent must return a Run, got {type(result).__name__}" if error is None else error_text(error)
    return _broken_run(question, conversation, RunStatus.ERROR, text)


def _broken_run(question: str, conversation: Conversation, status: RunStatus, error: str) -> Run:
    """Return the run of an agent that did not return one, with unknown calls unless it has stored them."""
    run = conversation.unfinished or Run(
        input=question,
        conversation_id=conversation.id,
        warnings=["the agent failed without a run, so its calls are unknown"],
    )
    return run.model_copy(update={"status": status, "error": error, "actual_output": None})


def _case(golden: Golden, run: Run) -> LLMTestCase:
    """Return the case of a golden and its run.

    The golden's input replaces that of the run, and so do its available tools unless they are `None`. Tags are joined
    and metadata is merged; for a key in both, the golden's value counts.
    """
    case = run.to_test_case(
        expected_tools=golden.expected_tools,
        expected_output=golden.expected_output,
        required_texts=golden.required_texts or None,
        ends=golden.ends,
        id=golden.id,
    )
    # A field that is set, even to an empty value, is written to files; without tags or metadata it should not be.
    changed = {
        "input": golden.input,
        "tags": [*golden.tags, *case.tags] or None,
        "metadata": {**case.metadata, **golden.metadata} or None,
        "available_tools": golden.available_tools,
    }
    fields = set_fields(case) | drop_none(changed)
    if run.status is not RunStatus.OK and "calls" not in run.model_fields_set:
        del fields["tools_called"]  # unknown calls, which differ from no calls
    return LLMTestCase(**fields)
