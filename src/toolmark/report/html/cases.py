"""A case on the page: its messages and calls, its results, and the tools that were offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolmark._internal.json import canonical_json
from toolmark._internal.text import plural
from toolmark.calls import ToolSpec
from toolmark.cases import AnyCase
from toolmark.report.html.calls import MOST_CALLS, messages_of
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


class CaseViewer:
    """Template data of the cases of one page; sets of tools that several cases offer are shown once.

    `tags` has the position of each tag in the filter of the page.
    """

    def __init__(self, tags: Mapping[str, int]) -> None:
        """Begin a page."""
        self.toolsets: dict[str, dict[str, Any]] = {}
        self._tags = tags
        self._pictures = Pictures()

    def view(self, entry: CaseResult, case: AnyCase, expected: Any) -> dict[str, Any]:  # noqa: ANN401 - a JSON value
        """Return the template data of a redacted case with its redacted content and expectation."""
        anchor = f"k{entry.index + 1}"
        messages = messages_of(case)
        places = [(message.turn, place) for message in messages for place in range(len(message.calls))]
        shown = messages[:MOST_MESSAGES]
        labels = {place: f"c{number}" for number, place in enumerate(places, 1)}
        # A judge names what its verdicts rest on: `c2`, `m1`, `t3`. Only what is on the page can be linked.
        links = {f"m{number}": f"{anchor}m{number}" for number in range(1, len(shown) + 1)}
        for message in shown:
            for place in range(len(message.calls[:MOST_CALLS])):
                label = labels[message.turn, place]
                links[label] = anchor + label
        tools = None if case.available_tools is None else self._toolset(case.available_tools)
        if tools is not None:
            links |= {f"t{number}": f"{tools['anchor']}t{number}" for number in range(1, len(tools["tools"]) + 1)}
        run = getattr(case, "run", None)
        repeated = {text for result in entry.own_results for text in result.warnings}
        return {
            "entry": entry,
            "anchor": anchor,
            "verdict": case_verdict(entry),
            "problem": case_problem(entry),
            "results": [result_view(result, entry.case) for result in entry.own_results],
            "tags": [(self._tags.get(tag), tag) for tag in case.tags[:MOST_TAGS]],
            "links": links,
            "labels": labels,
            "messages": [
                (message, list(self._pictures.parts(message.content, f"message {number}")))
                for number, message in enumerate(shown, 1)
            ],
            "more_turns": len(messages) - len(shown),
            "expected_output": list(
                self._pictures.parts(getattr(case, "expected_output", None), "the expected answer")
            ),
            "expected": expected,
            "times": timeline([message.calls for message in messages]),
            "tools": tools,
            "content": case,
            "run": run,
            "warnings": [text for text in (run.notes if run is not None else ()) if text not in repeated],
        }

    def _toolset(self, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        """Return a set of tools, the same for every case that offers the same."""
        number = len(self.toolsets) + 1
        new = {
            "anchor": f"g{number}",
            "title": f"Set {number}: {plural(len(tools), 'tool')}",
            "tools": tools[:MOST_TOOLS],
            "hidden": len(tools) - MOST_TOOLS,
        }
        return self.toolsets.setdefault(canonical_json([tool.to_dict() for tool in tools]), new)
