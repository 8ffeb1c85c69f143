"""A case on the page: its messages and calls, its results, and the tools that were offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from toolmark._internal.json import canonical_json
from toolmark._internal.text import plural
from toolmark.calls import ToolSpec
from toolmark.cases import AnyCase, Run
from toolmark.report.html.calls import MOST_CALLS, Message, messages_of
from toolmark.report.html.results import case_problem, case_verdict, result_view
from toolmark.report.html.texts import Pictures
from toolmark.report.html.timeline import timeline
from toolmark.report.report import CaseResult

MOST_MESSAGES = 200
"""Messages of a conversation that are shown."""
MOST_TAGS = 30
"""Tags of a case that are shown, and other trials of its golden."""
MOST_TOOLS = 300
"""Tools of one set that are shown."""

_Labels: TypeAlias = Mapping[tuple[int | None, int], str]
"""Labels of calls by their turn and their position there."""


def case_view(
    entry: CaseResult,
    content: tuple[AnyCase, Any],
    tags: Mapping[str, int],
    toolsets: dict[str, dict[str, Any]],
    pictures: Pictures,
) -> dict[str, Any]:
    """Return the template data of a redacted case.

    Args:
        entry: The case with its results.
        content: Its redacted content and expectation.
        tags: The position of each tag in the filter of the page.
        toolsets: The sets of tools of the page so far, by their JSON; cases that offer the same tools share one.
        pictures: The images of the page so far.
    """
    case, expected = content
    anchor = f"k{entry.index + 1}"
    all_messages = messages_of(case)
    messages = all_messages[:MOST_MESSAGES]
    labels = _call_labels(all_messages)
    # A judge names what its verdicts rest on: `c2`, `m1`, `t3`. Only what is on the page can be linked.
    links = _numbered_links("m", anchor, len(messages)) | _call_links(messages, labels, anchor)
    tools = None
    if case.available_tools is not None:
        tools = _toolset(case.available_tools, toolsets)
        links |= _numbered_links("t", tools["anchor"], len(tools["tools"]))
    run: Run | None = getattr(case, "run", None)
    repeated = {text for result in entry.own_results for text in result.warnings}
    return {
        "entry": entry,
        "anchor": anchor,
        "verdict": case_verdict(entry),
        "problem": case_problem(entry),
        "results": [result_view(result, entry.case) for result in entry.own_results],
        "tags": [(tags.get(tag), tag) for tag in case.tags[:MOST_TAGS]],
        "links": links,
        "labels": labels,
        "messages": [
            (message, list(pictures.parts(message.content, f"message {number}")))
            for number, message in enumerate(messages, 1)
        ],
        "more_turns": len(all_messages) - len(messages),
        "expected_output": list(pictures.parts(getattr(case, "expected_output", None), "the expected answer")),
        "expected": expected,
        "times": timeline([message.calls for message in all_messages]),
        "tools": tools,
        "content": case,
        "run": run,
        "warnings": [text for text in (run.notes if run else ()) if text not in repeated],
    }


def _call_labels(messages: Sequence[Message]) -> _Labels:
    """Return the label of each call, `c1` and so on."""
    places = [(message.turn, place) for message in messages for place in range(len(message.calls))]
    return {place: f"c{number}" for number, place in enumerate(places, 1)}


def _call_links(messages: Sequence[Message], labels: _Labels, anchor: str) -> dict[str, str]:
    """Return the targets of the calls on the page by their labels."""
    places = [(message.turn, place) for message in messages for place in range(len(message.calls[:MOST_CALLS]))]
    return {labels[place]: anchor + labels[place] for place in places}


def _numbered_links(letter: str, anchor: str, amount: int) -> dict[str, str]:
    return {f"{letter}{number}": f"{anchor}{letter}{number}" for number in range(1, amount + 1)}


def _toolset(tools: Sequence[ToolSpec], toolsets: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a set of tools, the same for every case that offers the same."""
    number = len(toolsets) + 1
    new = {
        "anchor": f"g{number}",
        "title": f"Set {number}: {plural(len(tools), 'tool')}",
        "tools": tools[:MOST_TOOLS],
        "hidden": len(tools) - MOST_TOOLS,
    }
    return toolsets.setdefault(canonical_json([tool.to_dict() for tool in tools]), new)
