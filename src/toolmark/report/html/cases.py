"""A case on the page: its messages and calls, its results, the tools that were offered, and its recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from toolmark._internal.json import canonical_json
from toolmark._internal.text import number_text, plural, shorten
from toolmark.calls import ToolCall, ToolSpec
from toolmark.cases import AnyCase, ConversationalTestCase, MLLMImage, Run, RunStatus
from toolmark.report.html.calls import MOST_CALLS, call_view
from toolmark.report.html.results import case_problem, case_verdict, result_view
from toolmark.report.html.texts import LONGEST_LINE, LONGEST_NAME, Clip, Picture, Pictures, clip, value_clip
from toolmark.report.html.timeline import timeline
from toolmark.report.report import CaseResult

MOST_MESSAGES = 200
"""Messages of a conversation that are shown."""
MOST_TAGS = 30
"""Tags of a case that are shown, and other trials of its golden."""
MOST_TOOLS = 300
"""Tools of one set that are shown."""

_Content: TypeAlias = "str | list[str | MLLMImage] | None"


class CaseViewer:
    """Template data of the cases of one page; sets of tools that several cases offer are shown once.

    `tags` has the position of each tag in the filter of the page.
    """

    def __init__(self, tags: Mapping[str, int]) -> None:
        """Begin a page."""
        self.toolsets: dict[str, dict[str, Any]] = {}
        self._tags = tags
        self._pictures = Pictures()

    def view(self, entry: CaseResult, content: tuple[AnyCase, Any] | None) -> dict[str, Any]:
        """Return the template data of a redacted case with its redacted content and expectation."""
        view: dict[str, Any] = {
            "entry": entry,
            "anchor": f"k{entry.index + 1}",
            "verdict": case_verdict(entry),
            "problem": case_problem(entry),
            "results": [result_view(result, entry.case) for result in entry.own_results],
            "tags": [],
            "links": {},
            "labels": {},
            "messages": [],
            "more_turns": 0,
            "expected_output": [],
            "expected": None,
            "times": None,
            "tools": None,
            "facts": [],
            "warnings": [],
        }
        if content is not None:
            self._add_content(view, *content)
        return view

    def _add_content(self, view: dict[str, Any], case: AnyCase, expected: Any) -> None:  # noqa: ANN401 - a JSON value
        anchor: str = view["anchor"]
        turns = _turns(case)
        labels: dict[tuple[int | None, int], str] = {}
        for turn, calls in turns:
            for position in range(len(calls)):
                labels[turn, position] = f"c{len(labels) + 1}"
        view["labels"] = labels
        messages = list(self._messages(case, anchor, labels))
        view["messages"] = messages
        view["more_turns"] = max(len(turns) - MOST_MESSAGES, 0)
        view["expected_output"] = list(self._parts(getattr(case, "expected_output", None), "the expected answer"))
        view["times"] = timeline([calls for _, calls in turns])
        view["tags"] = [(self._tags.get(tag), tag) for tag in case.tags[:MOST_TAGS]]
        view["expected"] = None if expected is None else value_clip(expected)
        run: Run | None = getattr(case, "run", None)
        view["facts"] = [*_case_facts(case), *([] if run is None else _run_facts(run, case))]
        repeated = {text for result in view["entry"].own_results for text in result.warnings}
        view["warnings"] = [text for text in (run.notes if run is not None else ()) if text not in repeated]
        # A judge names what its verdicts rest on: `c2`, `m1`, `t3`. Only what is on the page can be linked.
        links = {one["label"]: one["anchor"] for one in messages if one["label"]}
        links |= {call["label"]: call["anchor"] for one in messages for call in one["calls"]}
        if case.available_tools is not None:
            view["tools"] = tools = self._toolset(case.available_tools)
            links |= {tool["label"]: tool["anchor"] for tool in tools["tools"]}
        view["links"] = links

    def _messages(
        self, case: AnyCase, anchor: str, labels: Mapping[tuple[int | None, int], str]
    ) -> Iterator[dict[str, Any]]:
        messages: list[tuple[int | None, str, _Content, Sequence[ToolCall], Any]]
        if isinstance(case, ConversationalTestCase):
            messages = [
                (index, turn.role, turn.content, turn.tools_called or (), turn.metadata)
                for index, turn in enumerate(case.turns[:MOST_MESSAGES])
            ]
        else:
            messages = [
                (None, "user", case.input, (), None),
                (None, "assistant", case.actual_output, case.tools_called or (), None),
            ]
        for index, (turn, role, content, calls, metadata) in enumerate(messages, 1):
            labelled = [(call, labels[turn, position]) for position, call in enumerate(calls[:MOST_CALLS])]
            yield {
                "anchor": f"{anchor}m{index}",
                "label": f"m{index}",
                "role": role,
                "parts": list(self._parts(content, f"message {index}")),
                "calls": [call_view(call, anchor=anchor + label, label=label) for call, label in labelled],
                "hidden": len(calls) - len(labelled),
                "metadata": value_clip(metadata) if metadata else None,
            }

    def _parts(self, content: _Content, place: str) -> Iterator[Clip | Picture]:
        images = 0
        for part in [content] if isinstance(content, str) else content or []:
            if isinstance(part, str):
                yield clip(part)
            else:
                images += 1
                yield self._pictures.show(part, f"image {images} of {place}")

    def _toolset(self, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        """Return a set of tools, the same for every case that offers the same."""
        key = canonical_json([tool.to_dict() for tool in tools])
        if key not in self.toolsets:
            number_of_set = len(self.toolsets) + 1
            views = [_tool_view(tool, f"g{number_of_set}", place) for place, tool in enumerate(tools[:MOST_TOOLS], 1)]
            self.toolsets[key] = {
                "anchor": f"g{number_of_set}",
                "title": f"Set {number_of_set}: {plural(len(tools), 'tool')}",
                "tools": views,
                "hidden": len(tools) - len(views),
            }
        return self.toolsets[key]


def _turns(case: AnyCase) -> list[tuple[int | None, Sequence[ToolCall]]]:
    """Return the calls of each turn with its position; those of a case without turns have the position `None`."""
    if isinstance(case, ConversationalTestCase):
        return [(index, turn.tools_called or ()) for index, turn in enumerate(case.turns)]
    return [(None, case.tools_called or ())]


def _tool_view(tool: ToolSpec, set_anchor: str, place: int) -> dict[str, Any]:
    return {
        "anchor": f"{set_anchor}t{place}",
        "label": f"t{place}",
        "name": shorten(tool.name, LONGEST_NAME),
        "facts": ", ".join(value.value for value in (tool.type, tool.effect) if value is not None),
        "description": None if tool.description is None else clip(tool.description),
        "schema": None if tool.input_schema is None else value_clip(tool.input_schema),
    }


def _case_facts(case: AnyCase) -> Iterator[tuple[str, Clip]]:
    if case.name is not None and case.id is not None:
        yield "name", clip(case.name, LONGEST_LINE)
    if case.metadata:
        yield "metadata", value_clip(case.metadata)


def _run_facts(run: Run, case: AnyCase) -> Iterator[tuple[str, Clip]]:
    """Yield the facts about a recording; its calls are only those that are not calls of the case."""
    if run.calls:
        yield "not scored", clip(f"{plural(len(run.calls), 'other call')} of the run")
    if run.status is not RunStatus.OK:
        yield "run", clip(run.status.value)
    if run.started_at is not None:
        yield "started", clip(run.started_at.isoformat(sep=" "))
    if run.duration is not None:
        yield "took", clip(f"{number_text(run.duration)} s")
    if run.models:
        yield "models", clip(", ".join(run.models), LONGEST_LINE)
    if run.usage:
        yield "usage", clip(", ".join(f"{amount:,} {name.replace('_', ' ')}" for name, amount in run.usage.items()))
    for name in ("run_id", "conversation_id"):
        if getattr(run, name) is not None:
            yield name.replace("_", " "), clip(getattr(run, name), LONGEST_LINE)
    if run.handoffs:
        handoffs = ", ".join(f"{one.from_agent or '?'} to {one.to_agent or '?'}" for one in run.handoffs)
        yield "handoffs", clip(handoffs, LONGEST_LINE)
    for name in ("input", "actual_output", "tags", "metadata"):
        value = getattr(run, name)
        if value and value != getattr(case, name, None):
            text = clip(value) if isinstance(value, str) else value_clip(value)
            yield f"{name.replace('_', ' ')} of the run", text
