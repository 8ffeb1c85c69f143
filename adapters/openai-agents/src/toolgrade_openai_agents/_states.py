"""Saved states of interrupted runs, results of streamed runs, and the conversation that a run's options name.

Fields whose names differ between releases of the SDK are looked for by name, not by version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from agents import RunConfig
from agents.tracing import get_current_trace

from toolgrade.formats import read_responses_answer, read_responses_call
from toolgrade_openai_agents._messages import raw_item
from toolgrade_openai_agents._tools import field_of

_UNNAMED: Final = (None, "", "no-op", RunConfig().workflow_name)
"""Without tracing, all traces have the same id and name; runs that nobody named have the SDK's default."""


def conversation_of(input: Any, options: Mapping[str, Any]) -> str | None:
    """Return the conversation that a run's options name: of its session, by id, or by the group of its traces.

    The state of an interrupted run has the id that the run began with.
    """
    name = (
        session_id(options.get("session"))
        or options.get("conversation_id")
        or (getattr(input, "_conversation_id", None) if is_state(input) else None)
        or field_of(options.get("run_config"), "group_id")
    )
    return name if isinstance(name, str) else None


def session_id(session: Any) -> str | None:
    """Return the id of a session; `None` without one, or where it has none yet."""
    if session is None:
        return None
    for attribute in ("session_id", "_session_id"):  # older releases hide that of a conversation of the provider
        # Such a conversation has no id before its first request, and raises.
        with suppress(Exception):
            name = getattr(session, attribute, None)
            if isinstance(name, str) and name:
                return name
    return None


def is_tool_span(span: Any) -> bool:
    """Return whether a span is that of one tool run; tools of the provider's kind run in the span of their agent."""
    return type(getattr(span, "span_data", None)).__name__ == "FunctionSpanData"


def trace_of(run_config: Any) -> dict[str, Any]:
    """Return the id and the name of the trace that a configuration names, else of the current one."""
    trace = get_current_trace()
    values = {
        "trace_id": field_of(run_config, "trace_id") or getattr(trace, "trace_id", None),
        "workflow_name": field_of(run_config, "workflow_name") or getattr(trace, "name", None),
    }
    return {name: value for name, value in values.items() if value not in _UNNAMED}


# Interrupted runs


def is_state(input: Any) -> bool:
    """Return whether the input of a run is the state of an interrupted one."""
    return not isinstance(input, (str, list)) and hasattr(input, "get_interruptions")


def state_items(state: Any) -> list[Any]:
    """Return the items of the run so far."""
    return list(getattr(state, "_generated_items", None) or ())


def state_responses(state: Any) -> list[Any]:
    """Return the model's responses so far."""
    return list(getattr(state, "_model_responses", None) or ())


def state_input(state: Any) -> Any:
    """Return the input that the run began with."""
    return getattr(state, "_original_input", None)


def fingerprints(items: Iterable[Any]) -> list[str]:
    """Return the ids, names and arguments of calls, and the texts of results, equal for stored and loaded items."""
    values: list[str] = []
    for item in map(raw_item, items):
        request, answer = read_responses_call(item), read_responses_answer(item)
        if request is not None:
            values.append(_json_text("call", request.id, request.name, request.arguments))
        elif answer is not None:
            values.append(_json_text("result", answer.call_id, answer.content))
    return values


def _json_text(*values: object) -> str:
    return json.dumps(values, sort_keys=True, default=str)


# Results


def task_of(result: Any) -> Any:
    """Return the task of a streamed run."""
    task = getattr(result, "run_loop_task", None)
    return task if task is not None else result._run_impl_task  # noqa: SLF001 - its name in older releases


def has_answer(result: Any) -> bool:
    """Return whether a streamed run has answered or waits for a person."""
    return getattr(result, "final_output", None) is not None or bool(getattr(result, "interruptions", None))


def stop_reason(result: Any) -> str:
    """Return why a streamed run stopped that neither answered nor raised."""
    turns, limit = getattr(result, "current_turn", None), getattr(result, "max_turns", None)
    if isinstance(turns, int) and isinstance(limit, int) and turns > limit:
        return f"MaxTurnsExceeded: Max turns ({limit}) exceeded"
    return "the stream was left before its end"


def guardrail_texts(result: Any) -> set[str]:
    """Return the texts that guardrails showed the model in place of running a tool."""
    texts: set[str] = set()
    for outcome in getattr(result, "tool_input_guardrail_results", None) or ():
        message = field_of(getattr(getattr(outcome, "output", None), "behavior", None), "message")
        if isinstance(message, str):
            texts.add(message)
    return texts
