"""A case on the page: its messages and calls, its results, and the tools that were offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from toolmark._internal.json import canonical_json
from toolmark._internal.text import plural, shorten, unique_labels
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

_LONGEST_ANCHOR = 120

_Labels: TypeAlias = Mapping[tuple[int | None, int], str]
"""Labels of calls by their turn and their position there."""


def case_view(
    entry: CaseResult,
    content: tuple[AnyCase, Any],
    anchor: str,
    tags: Mapping[str, int],
    toolsets: dict[str, dict[str, Any]],
    pictures: Pictures,
) -> dict[str, Any]:
    """Return the template data of a redacted case.

    Args:
        entry: The case with its results.
        content: Its redacted content and expectation.
        anchor: The element that shows it; see `case_anchors`.
        tags: The position of each tag in the filter of the page.
        toolsets: The sets of tools of the page so far, by their JSON; cases that offer the same tools share one.
        pictures: The images of the page so far.
    """
    case, expected = content
    parts = f"{anchor}:"
    run: Run | None = getattr(case, "run", None)
    all_messages = messages_of(case)
    messages = all_messages[:MOST_MESSAGES]
    labels = _call_labels(all_messages)
    # A judge names what its verdicts rest on: `c2`, `m1`, `t3`. Only what is on the page can be linked.
    # A judge sees the messages of a dialogue as one, so that its numbers are not those of the page.
    has_dialogue = run is not None and bool(run.dialogue)
    links = _numbered_links("m", parts, 0 if has_dialogue else len(messages)) | _call_links(messages, labels, parts)
    tools = None
    if case.available_tools is not None:
        tools = _toolset(case.available_tools, toolsets)
        links |= _numbered_links("t", tools["anchor"], len(tools["tools"]))
    repeated = {text for result in entry.own_results for text in result.warnings}
    return {
        "entry": entry,
        "anchor": anchor,
        "verdict": case_verdict(entry),
        "problem": case_problem(entry),
        "results": [result_view(result, entry.case) for result in entry.own_results],
        "tags": [(tags.get(tag), tag) for tag in case.tags[:MOST_TAGS]],
        "required_texts": _required_texts(case, entry),
        "links": links,
        "labels": labels,
        "messages": [
            (message, list(pictures.parts(message.content, f"message {number}")))
            for number, message in enumerate(messages, 1)
        ],
        "has_dialogue": has_dialogue,
        "more_turns": len(all_messages) - len(messages),
        "expected_output": list(pictures.parts(getattr(case, "expected_output", None), "the expected answer")),
        "expected": expected,
        "times": timeline([message.calls for message in all_messages]),
        "tools": tools,
        "content": case,
        "run": run,
        "warnings": [text for text in (run.notes if run else ()) if text not in repeated],
    }


def case_anchors(cases: Sequence[CaseResult]) -> dict[int, str]:
    """Return the name of the element of each case by its position: its label, such that a link works in every report.

    It holds only letters, digits and `-._~%`, so that a colon can separate it from the name of a part: `case-a:c2`.
    """
    labels = [quote(shorten(case.label, _LONGEST_ANCHOR), safe="", errors="backslashreplace") for case in cases]
    unique = unique_labels([f"case-{label}" for label in labels])
    return {case.index: label.replace(" #", "~") for case, label in zip(cases, unique, strict=True)}


def _required_texts(case: AnyCase, entry: CaseResult) -> list[tuple[str, bool | None]]:
    """Return the texts that the agent must say, and whether it did; `None` if no metric looked for them."""
    required: list[str] = getattr(case, "required_texts", [])
    looked = any("required_texts" in result.parts for result in entry.own_results)
    missing = {
        str(finding.expected_value)
        for result in entry.own_results
        for finding in result.findings
        if finding.kind == "missing_text"
    }
    is_clear = looked and missing <= {*required}  # secrets may be redacted differently inside a finding
    return [(text, text not in missing if is_clear else None) for text in required]


def row_view(entry: CaseResult, tags: Sequence[str], anchor: str, tag_places: Mapping[str, int]) -> dict[str, Any]:
    """Return the template data of a redacted case that is shown without details; see `case_view`."""
    return {
        "entry": entry,
        "anchor": anchor,
        "verdict": case_verdict(entry),
        "problem": case_problem(entry),
        "tags": [(tag_places.get(tag), tag) for tag in tags[:MOST_TAGS]],
        "body": None,
    }


def _call_labels(messages: Sequence[Message]) -> _Labels:
    """Return the label of each call, `c1` and so on."""
    places = [(message.turn, message.first + place) for message in messages for place in range(len(message.calls))]
    return {place: f"c{number}" for number, place in enumerate(places, 1)}


def _call_links(messages: Sequence[Message], labels: _Labels, anchor: str) -> dict[str, str]:
    """Return the targets of the calls on the page by their labels."""
    places = [
        (message.turn, message.first + place)
        for message in messages
        for place in range(len(message.calls[:MOST_CALLS]))
    ]
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
