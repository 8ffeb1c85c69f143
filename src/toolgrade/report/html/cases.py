"""A case on the page: its messages and calls, its results, and the tools that were offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from toolgrade._internal.json import canonical_json
from toolgrade._internal.text import number_text, plural, printable, shorten, unique_labels
from toolgrade.calls import ToolSpec
from toolgrade.cases import AnyCase, ConversationalTestCase, Run
from toolgrade.report.html.messages import MOST_CALLS, message_parts, timeline
from toolgrade.report.report import CaseResult
from toolgrade.report.text.phrases import Word
from toolgrade.report.text.side_by_side import rows
from toolgrade.report.text.transcript import MessageView, messages_of, turn_scores
from toolgrade.result import Finding, FindingKind, MetricResult

MOST_MESSAGES = 200
"""Messages of a conversation that are shown."""
MOST_TAGS = 30
"""Tags of a case that are shown, and other rows of its golden."""
MOST_TOOLS = 300
"""Tools of one set that are shown."""

_LONGEST_ANCHOR = 120
_SOURCE_KINDS: tuple[FindingKind, ...] = ("traced", "ungrounded", "wrong_source")
_LONGEST_SIDE = 400

_SIDE_BY_SIDE = frozenset[FindingKind](
    {
        *("missing", "unexpected", "out_of_order", "not_parallel", "forbidden", "not_compared"),
        *("wrong_argument", "missing_argument", "extra_argument", "wrong_output", "wrong_type"),
    }
)


def case_view(
    entry: CaseResult,
    content: tuple[AnyCase, Any],
    anchor: str,
    toolsets: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Return the template data of a redacted case.

    `content` is its redacted content and expectation, `anchor` the element that shows it (see `case_anchors`).
    `toolsets` are those of the page so far; cases that offer the same tools share a set.
    """
    case, expected = content
    run: Run | None = getattr(case, "run", None)
    has_dialogue = run is not None and bool(run.dialogue)
    messages = messages_of(case)
    listed = messages[:MOST_MESSAGES]
    links = _call_links(messages, anchor)
    if not has_dialogue:  # a judge sees the messages of a dialogue as one: its numbers are not those of the page
        links |= _numbered_links("m", f"{anchor}:", len(listed))
    tools = None
    if case.available_tools is not None:
        tools = _toolset(case.available_tools, toolsets)
        links |= _numbered_links("t", tools["anchor"], len(tools["tools"]))
    return {
        "entry": entry,
        "anchor": anchor,
        "content": case,
        "expected": expected,
        "results": [_result_view(result, entry.case) for result in entry.own_results],
        "required_texts": _required_texts(case, entry),
        "links": links,
        "sources": _sources(entry.own_results),
        "turns": _turn_badges(entry.own_results),
        "messages": [(one, message_parts(one.content)) for one in listed],
        "has_dialogue": has_dialogue,
        "more_turns": len(messages) - len(listed),
        "expected_output": message_parts(getattr(case, "expected_output", None)),
        "times": timeline([message.calls for message in messages]),
        "tools": tools,
        "run": run,
        "warnings": [] if run is None else _notes_beside(entry.own_results, run),
    }


def _sources(results: Sequence[MetricResult]) -> dict[str, list[tuple[FindingKind, str]]]:
    """Return where the arguments of each call come from, by its label: `date = "2026-05-03", from the words of ...`."""
    sources: dict[str, list[tuple[FindingKind, str]]] = {}
    for result in results:
        for one in result.findings:
            if one.called is not None and _stands_at_its_call(one):
                _, _, text = one.message.partition(f"{one.tool!r}: ")
                sources.setdefault(f"c{one.called + 1}", []).append((one.kind, text or one.message))
    return sources


def _stands_at_its_call(finding: Finding) -> bool:
    """Return whether a finding is shown at its call, as where an argument comes from."""
    return finding.kind in _SOURCE_KINDS and finding.called is not None


def _notes_beside(results: Sequence[MetricResult], run: Run) -> list[str]:
    """Return the notes of a run without those that a result repeats."""
    repeated = {text for result in results for text in result.warnings}
    return [text for text in run.notes if text not in repeated]


def _call_links(messages: Sequence[MessageView], anchor: str) -> dict[str, str]:
    """Return the links of the calls that are on the page.

    A judge names by such labels what its verdicts rest on: `c2`, and likewise `m1` and `t3`.
    """
    listed = [(message.first + 1, message.calls[:MOST_CALLS]) for message in messages[:MOST_MESSAGES]]
    labels = [f"c{first + place}" for first, calls in listed for place in range(len(calls))]
    return {label: f"{anchor}:{label}" for label in labels}


def _turn_badges(results: Sequence[MetricResult]) -> dict[int | None, list[tuple[Word, str, str]]]:
    """Return the scores of each turn of a conversation, by its number: their words, and the metrics with the scores."""
    badges: dict[int | None, list[tuple[Word, str, str]]] = {}
    for result in results:
        for number, (word, score) in turn_scores(result).items():
            metric = result.metric if len(results) > 1 else ""
            badges.setdefault(number, []).append((word, metric, number_text(score)))
    return badges


def _numbered_links(kind: str, anchor: str, amount: int) -> dict[str, str]:
    return {f"{kind}{number}": f"{anchor}{kind}{number}" for number in range(1, amount + 1)}


def _result_view(result: MetricResult, case: AnyCase) -> dict[str, Any]:
    """Return the template data of a redacted result."""
    lines = rows(result, case, nested=True, longest=_LONGEST_SIDE)
    reason = _reason_beside(result, in_rows=_SIDE_BY_SIDE if lines else frozenset())
    findings = [] if lines else [one.message for one in result.findings if one.message not in reason]
    return {"result": result, "reason": reason, "rows": lines, "findings": findings}


def _reason_beside(result: MetricResult, in_rows: frozenset[FindingKind]) -> str:
    """Return the reason without what stands beside it: the error, the warnings, and findings of kinds in the rows."""
    reason = result.reason or ""
    if reason == f"Not measured: {str(result.error).partition(': ')[2]}":
        return ""
    repeated = {f"Note: {printable(text).rstrip('.')}." for text in result.warnings}
    repeated |= {one.message for one in result.findings if one.kind in in_rows or _stands_at_its_call(one)}
    return "\n".join(line for line in reason.split("\n") if line not in repeated)


def case_anchors(cases: Sequence[CaseResult]) -> dict[int, str]:
    """Return the name of the element of each case by its position: its label, such that a link works in every report.

    It holds only letters, digits and `-._~%`, so that a colon can separate it from the name of a part: `case-a:c2`.
    """
    labels = [quote(shorten(case.label, _LONGEST_ANCHOR), safe="", errors="backslashreplace") for case in cases]
    unique = unique_labels([f"case-{label}" for label in labels])
    return {case.index: label.replace(" #", "~") for case, label in zip(cases, unique, strict=True)}


def _required_texts(case: AnyCase, entry: CaseResult) -> list[tuple[str, bool | None]]:
    """Return the texts that the agent must say, and whether it did; `None` if no metric looked for them."""
    required: list[str] = [*getattr(case, "required_texts", [])]
    if isinstance(case, ConversationalTestCase):
        required += [text for exchange in case.exchanges for text in exchange.required_texts]
    looked = any("required_texts" in result.parts for result in entry.own_results)
    findings = [finding for result in entry.own_results for finding in result.findings]
    missing = {str(one.expected_value) for one in findings if one.kind == "missing_text"}
    is_clear = looked and missing <= {*required}  # secrets may be redacted differently inside a finding
    return [(text, text not in missing if is_clear else None) for text in required]


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
