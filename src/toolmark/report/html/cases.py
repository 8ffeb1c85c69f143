"""What is shown of a case: what was said and called, when, what every metric says of it, and where it came from?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from toolmark._internal.json import canonical_json
from toolmark._internal.text import number_text, plural, shorten
from toolmark.calls import ToolCall, ToolSpec
from toolmark.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMImage, MLLMTestCase, Run, RunStatus
from toolmark.expect import Alternatives, Plan, expectation_json
from toolmark.redact import Redactor
from toolmark.report.html.calls import MOST_CALLS, CallView, call_view
from toolmark.report.html.results import (
    Places,
    ResultView,
    Verdict,
    first_finding,
    result_view,
    score_text,
    verdict_of,
)
from toolmark.report.html.texts import LONGEST_LINE, LONGEST_NAME, Clip, Picture, Pictures, clip, value_clip
from toolmark.report.html.timeline import Timeline, timeline
from toolmark.report.report import CaseResult

MOST_MESSAGES = 200
"""Messages of a conversation that are shown."""
MOST_TAGS = 30
"""Tags of a case that are shown, and other trials of its question."""
MOST_TOOLS = 300
"""Tools that an agent could choose from that are shown."""

_RANKS: dict[Verdict, int] = {"error": 0, "failed": 1, "passed": 2, "skipped": 3}


class Cell(NamedTuple):
    """What one metric says of a case, in a few characters; `verdict` is `None` where the case is not its own."""

    metric: str
    verdict: Verdict | None
    score: str
    value: float | None


class Fact(NamedTuple):
    """Something known of a case or its run: its name, and a text or JSON value."""

    name: str
    value: Clip


class Link(NamedTuple):
    """Another case on the page; without an anchor it is not shown there."""

    anchor: str
    text: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What was said at once, and what was called with it; `anchor` is empty of an expected answer."""

    anchor: str
    label: str
    role: str
    parts: tuple[Clip | Picture, ...]
    calls: tuple[CallView, ...] = ()
    note: str = ""
    metadata: Clip | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolView:
    """One tool that an agent could choose from."""

    anchor: str
    label: str
    name: str
    facts: str
    description: Clip | None
    schema: Clip | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """Tools that were offered together, shown once for all cases that had them."""

    anchor: str
    title: str
    tools: tuple[ToolView, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseView:
    """One case.

    Attributes:
        anchor: Where it stands on the page.
        index: Its position in what was evaluated, from 0.
        label: What it is called.
        verdict: What became of it: the worst that any metric says.
        cells: One for each metric.
        problem: What was found first.
        linked: What can be pointed to in it: `c1` for its first call, and so on.
        tags: Its tags, each with its place in the list of all tags of the page, `None` where it is not in it.
        results: What every metric says of it.
        messages: What was said and called.
        expected: The expected calls; `None` where none are known.
        times: When calls were made; `None` where there is nothing to see.
        tools: The tools that were offered; `None` where that is not known.
        facts: What else is known.
        warnings: What its recording could not understand or did not keep.
        trials: The other trials of its question.
    """

    anchor: str
    index: int
    label: str
    verdict: Verdict
    cells: tuple[Cell, ...]
    problem: str
    tags: tuple[tuple[int | None, str], ...]
    results: tuple[ResultView, ...]
    linked: frozenset[str] = frozenset()
    messages: tuple[Message, ...] = ()
    expected: Clip | None = None
    times: Timeline | None = None
    tools: ToolSet | None = None
    facts: tuple[Fact, ...] = ()
    warnings: tuple[str, ...] = ()
    trials: tuple[Link, ...] = ()


def case_verdict(case: CaseResult) -> Verdict:
    """Return the worst that any metric says of a case."""
    verdicts: list[Verdict] = [verdict_of(result) for result in case.own_results]
    return min(verdicts, key=lambda verdict: _RANKS[verdict]) if verdicts else "skipped"


def worst_first(case: CaseResult) -> tuple[int, float, int]:
    """Order cases: not measured, failed, passed, skipped; in each the lowest score first, then as given."""
    scores = [result.score for result in case.own_results if result.score is not None]
    return _RANKS[case_verdict(case)], min(scores, default=0.0), case.index


@dataclass(slots=True)
class CaseViewer:
    """Makes the views of the cases of one page.

    Attributes:
        redactor: Takes secrets out of what is shown.
        tags: All tags of the page that can be chosen, with their places.
        trials: By cluster, the trials of each question.
        shown: Indices of the cases that stand on the page.
        sets: The sets of tools met so far, by their content.
    """

    redactor: Redactor
    tags: Mapping[str, int]
    trials: Mapping[int, Sequence[CaseResult]]
    shown: frozenset[int]
    sets: dict[str, ToolSet] = field(default_factory=dict[str, ToolSet])
    _pictures: Pictures = field(default_factory=Pictures, init=False)

    def view(self, entry: CaseResult) -> CaseView:
        """Return what is shown of a case; what was evaluated may be no case at all, and failed for it."""
        anchor = f"k{entry.index + 1}"
        results = entry.own_results
        case = entry.case
        known = isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase))
        shown = _Shown(self, self.redactor.model(_without_copies(case)), anchor, _others(case)) if known else None
        places = shown.places() if shown else Places(anchors={}, calls={})
        worst = min(results, key=lambda result: _RANKS[verdict_of(result)], default=None)
        view = CaseView(
            anchor=anchor,
            index=entry.index,
            label=shorten(self.text(entry.label), LONGEST_NAME),
            verdict=case_verdict(entry),
            cells=tuple(self._cells(entry)),
            problem="" if worst is None else first_finding(worst, self.redactor),
            tags=tuple(map(self._tag, tags_of(case)[:MOST_TAGS])),
            results=tuple(result_view(result, case, self.redactor, places) for result in results),
            linked=frozenset(places.anchors),
            trials=tuple(self._links(entry)),
        )
        return view if shown is None else shown.completed(view)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return str(self.redactor(text))

    def picture(self, image: MLLMImage, place: str) -> Picture:
        """Return an image of a case."""
        return self._pictures.of(image, place)

    def toolset(self, tools: Sequence[ToolSpec]) -> ToolSet:
        """Return a set of tools, the same for every case that offers the same."""
        key = canonical_json([tool.to_dict() for tool in tools])
        if key not in self.sets:
            anchor = f"g{len(self.sets) + 1}"
            views = (_tool(tool, f"{anchor}t{place}", f"t{place}") for place, tool in enumerate(tools[:MOST_TOOLS], 1))
            more = len(tools) - MOST_TOOLS
            self.sets[key] = ToolSet(
                anchor=anchor,
                title=f"Set {len(self.sets) + 1}: {plural(len(tools), 'tool')}",
                tools=tuple(views),
                note=f"{plural(more, 'more tool')} not shown here" if more > 0 else "",
            )
        return self.sets[key]

    def _tag(self, tag: str) -> tuple[int | None, str]:
        return self.tags.get(tag), shorten(self.text(tag), LONGEST_NAME)

    def _cells(self, entry: CaseResult) -> Iterator[Cell]:
        for place, result in enumerate(entry.results):
            metric = self.text(result.metric)
            if place in entry.apart:
                yield Cell(metric, None, "", None)
            else:
                yield Cell(metric, verdict_of(result), score_text(result), result.score)

    def _links(self, entry: CaseResult) -> Iterator[Link]:
        others = self.trials.get(entry.cluster, ()) if entry.trial is not None else ()
        for other in others[:MOST_TAGS] if len(others) > 1 else ():
            here = other.index in self.shown and other.index != entry.index
            yield Link(f"k{other.index + 1}" if here else "", f"trial {other.trial}", case_verdict(other))


def tags_of(case: object) -> list[str]:
    """Return the tags of whatever was evaluated."""
    return case.tags if isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)) else []


def _without_copies(case: AnyCase) -> AnyCase:
    """Return a case whose run does not hold the calls and tools again; secrets are then looked for only once."""
    if isinstance(case, ConversationalTestCase) or case.run is None:
        return case
    run = case.run.model_copy(update={"calls": [], "available_tools": None})
    tools = case.run.available_tools if case.available_tools is None else case.available_tools
    return case.model_copy(update={"run": run, "available_tools": tools})


def _others(case: AnyCase) -> int:
    """Return how many calls of the run are not calls of the case."""
    run: Run | None = getattr(case, "run", None)
    return 0 if run is None else len(run.calls) - len(getattr(case, "tools_called", None) or ())


class _Shown:
    """One case, free of secrets, on its way onto the page."""

    def __init__(self, viewer: CaseViewer, case: AnyCase, anchor: str, others: int) -> None:
        self._viewer = viewer
        self._others = others
        self._case = case
        self._anchor = anchor
        self._run: Run | None = getattr(case, "run", None)
        tools = case.available_tools
        self._tools = None if tools is None else viewer.toolset(tools)
        self._turns: list[tuple[int | None, Sequence[ToolCall]]] = (
            [(index, turn.tools_called or ()) for index, turn in enumerate(case.turns)]
            if isinstance(case, ConversationalTestCase)
            else [(None, case.tools_called or ())]
        )
        made = [(turn, position) for turn, calls in self._turns for position in range(len(calls))]
        self._labels = {place: f"c{index}" for index, place in enumerate(made, 1)}

    def places(self) -> Places:
        """Return where the parts of the case stand."""
        anchors = {
            label: self._anchor + label
            for (turn, position), label in self._labels.items()
            if position < MOST_CALLS and (turn or 0) < MOST_MESSAGES
        }
        messages = len(self._turns) if isinstance(self._case, ConversationalTestCase) else 2
        anchors |= {f"m{place}": f"{self._anchor}m{place}" for place in range(1, min(messages, MOST_MESSAGES) + 1)}
        anchors |= {tool.label: tool.anchor for tool in self._tools.tools} if self._tools else {}
        return Places(anchors=anchors, calls=self._labels)

    def completed(self, view: CaseView) -> CaseView:
        """Return the view of the case with all that is known of it."""
        return replace(
            view,
            messages=tuple(self._messages()),
            expected=self._expected(),
            times=timeline([made for _, made in self._turns]),
            tools=self._tools,
            facts=tuple(self._facts()),
            warnings=tuple(self._warnings(view)),
        )

    def _messages(self) -> Iterator[Message]:
        case = self._case
        if isinstance(case, ConversationalTestCase):
            for index, turn in enumerate(case.turns[:MOST_MESSAGES]):
                metadata = value_clip(turn.metadata) if turn.metadata else None
                yield self._message(index, turn.role, turn.content, turn.tools_called or (), metadata=metadata)
            if len(case.turns) > MOST_MESSAGES:
                more = plural(len(case.turns) - MOST_MESSAGES, "more turn")
                yield Message(anchor="", label="", role="", parts=(Clip("", f"{more} not shown here"),))
            return
        yield self._message(0, "user", case.input, ())
        yield self._message(1, "assistant", case.actual_output, case.tools_called or ())
        if case.expected_output is not None:
            parts = tuple(self._parts(case.expected_output, "the expected answer"))
            yield Message(anchor="", label="", role="expected answer", parts=parts)

    def _warnings(self, view: CaseView) -> Iterator[str]:
        """Yield what no result repeats."""
        repeated = {text for result in view.results for text in result.warnings}
        for text in self._run.notes if self._run is not None else ():
            if shorten(text, LONGEST_LINE * 2) not in repeated:
                yield shorten(text, LONGEST_LINE * 2)

    def _message(
        self,
        index: int,
        role: str,
        content: str | list[str | MLLMImage] | None,
        calls: Sequence[ToolCall],
        *,
        metadata: Clip | None = None,
    ) -> Message:
        turn = index if isinstance(self._case, ConversationalTestCase) else None
        labels = [self._labels[turn, position] for position in range(min(len(calls), MOST_CALLS))]
        more = len(calls) - MOST_CALLS
        return Message(
            anchor=f"{self._anchor}m{index + 1}",
            label=f"m{index + 1}",
            role=role,
            parts=tuple(self._parts(content, f"message {index + 1}")),
            calls=tuple(
                call_view(call, self._viewer.redactor, anchor=self._anchor + label, label=label)
                for label, call in zip(labels, calls, strict=False)
            ),
            note=f"{plural(more, 'more call')} not shown here" if more > 0 else "",
            metadata=metadata,
        )

    def _parts(self, content: str | list[str | MLLMImage] | None, place: str) -> Iterator[Clip | Picture]:
        images = 0
        for part in [] if content is None else [content] if isinstance(content, str) else content:
            if isinstance(part, str):
                yield clip(part)
            else:
                images += 1
                yield self._viewer.picture(part, f"image {images} of {place}")

    def _expected(self) -> Clip | None:
        expected = getattr(self._case, "expected_tools", None)
        if expected is None:
            return None
        plain = (
            expectation_json(expected)
            if isinstance(expected, (Plan, Alternatives))
            else [call.to_dict() for call in expected]
        )
        return value_clip(self._viewer.redactor(plain))

    def _facts(self) -> Iterator[Fact]:
        case, run = self._case, self._run
        if case.name is not None and case.id is not None:
            yield Fact("name", clip(self._viewer.text(case.name), LONGEST_LINE))
        if case.metadata:
            yield Fact("metadata", value_clip(case.metadata))
        if run is not None:
            if self._others > 0:
                yield Fact("not scored", Clip(f"{plural(self._others, 'other call')} of the run"))
            for name, value in _of_run(run, case):
                yield Fact(
                    name, value_clip(self._viewer.redactor(value)) if not isinstance(value, str) else clip(value)
                )


def _of_run(run: Run, case: AnyCase) -> Iterator[tuple[str, Any]]:
    """Yield what is known of the recording, as texts and JSON values."""
    if run.status is not RunStatus.OK:
        yield "run", run.status.value
    if run.started_at is not None:
        yield "started", run.started_at.isoformat(sep=" ")
    if run.duration is not None:
        yield "took", f"{number_text(run.duration)} s"
    if run.models:
        yield "models", shorten(", ".join(run.models), LONGEST_LINE)
    if run.usage:
        yield "usage", ", ".join(f"{amount:,} {name.replace('_', ' ')}" for name, amount in run.usage.items())
    for name in ("run_id", "conversation_id"):
        if getattr(run, name) is not None:
            yield name.replace("_", " "), shorten(getattr(run, name), LONGEST_LINE)
    if run.handoffs:
        told = (f"{one.from_agent or '?'} to {one.to_agent or '?'}" for one in run.handoffs[:MOST_TAGS])
        yield "handoffs", shorten(", ".join(told), LONGEST_LINE)
    for name in ("input", "actual_output", "tags", "metadata"):
        value = getattr(run, name)
        if value and value != getattr(case, name, None):
            yield f"{name.replace('_', ' ')} of the run", value


def _tool(tool: ToolSpec, anchor: str, label: str) -> ToolView:
    facts = [value.value for value in (tool.type, tool.effect) if value is not None]
    return ToolView(
        anchor=anchor,
        label=label,
        name=shorten(tool.name, LONGEST_NAME),
        facts=", ".join(facts),
        description=None if tool.description is None else clip(tool.description),
        schema=None if tool.input_schema is None else value_clip(tool.input_schema),
    )
