"""Messages and turns of a case with their calls, for every view."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from toolgrade._internal.text import short_json
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.cases import (
    ConversationalTestCase,
    Exchange,
    LLMTestCase,
    MLLMImage,
    MLLMTestCase,
    Run,
    RunStatus,
    TestCase,
    Turn,
    input_with_images,
)
from toolgrade.redact import DEFAULT
from toolgrade.report.text.phrases import Word, one_line
from toolgrade.report.text.side_by_side import CallRow
from toolgrade.result import TOLERANCE, MetricResult, ResultStatus

_LONGEST_VALUE = 200

Content: TypeAlias = "str | list[str | MLLMImage] | None"


class MessageView(NamedTuple):
    """A message with its calls; `turn` is the turn of the user, from 1, `None` in a case without turns.

    `first` is the position of its first call among the calls of the case.
    """

    turn: int | None
    role: str
    content: Content
    calls: Sequence[ToolCall] = ()
    metadata: Mapping[str, Any] | None = None
    first: int = 0

    @property
    def text(self) -> str:
        """The content as one text, in which `[image]` stands for each image."""
        parts = self.content if isinstance(self.content, list) else [self.content or ""]
        return " ".join("[image]" if isinstance(part, MLLMImage) else part for part in parts)


def messages_of(case: object) -> list[MessageView]:
    """Return the messages of a case; those of a case without turns are its input, and its answer with all calls."""
    if isinstance(case, ConversationalTestCase):
        return list(_messages_in(case.turns))
    if isinstance(case, (LLMTestCase, MLLMTestCase)):
        if case.run is not None and case.run.dialogue:
            return _dialogue(case, case.run.dialogue)
        answer = MessageView(None, "assistant", case.actual_output, case.tools_called or ())
        return [MessageView(None, "user", input_with_images(case)), answer]
    return []


def _messages_in(turns: Sequence[Turn]) -> Iterator[MessageView]:
    number = first = 0
    for at, turn in enumerate(turns):
        number += turn.role == "user" and (at == 0 or turns[at - 1].role != "user")
        calls = turn.tools_called or ()
        metadata = {name: value for name, value in turn.metadata.items() if (name, value) != ("status", "ok")}
        yield MessageView(number or 1, turn.role, turn.content, calls, metadata, first)
        first += len(calls)


def transcript_text(case: object) -> str:
    """Return a case or a run for people, without secrets: a line for each message, and one for each call before it.

    user: Book the cheapest flight
      book_flight {"seats": 2} -> error: the booking service did not answer
    assistant: It did not work.
    """
    case = case.to_test_case() if isinstance(case, Run) else case
    lines: list[str] = []
    messages = messages_of(case)
    for message in messages:
        for call in message.calls:
            lines += _call_lines(call, 1)
        if message.text or not message.calls or message is messages[-1]:
            lines.append(f"{message.role}: {_plain(message.text) or '(nothing)'}")
    return "\n".join([*lines, *_run_lines(getattr(case, "run", None) or Run())])


def _run_lines(run: Run) -> Iterator[str]:
    """Yield what a run has beside its messages: handoffs, warnings, and how it ended if not well."""
    yield from (f"handoff: {one.from_agent or '?'} -> {one.to_agent or '?'}" for one in run.handoffs)
    failed = [run.calls[at] for at in run.failed_handoffs if at < len(run.calls)]
    yield from (f"handoff that failed: {one_line(call.name)}" for call in failed)
    yield from (f"warning: {_plain(text)}" for text in run.warnings)
    if run.status is not RunStatus.OK or run.error is not None:
        yield f"the run ended: {run.status.value}{f' ({_plain(run.error)})' if run.error else ''}"


def _call_lines(call: ToolCall, level: int) -> Iterator[str]:
    """Yield a call with its arguments and what came of it, and the calls inside it, further to the right."""
    execution = call.execution
    status = "" if execution is None or execution.status is CallStatus.OK else execution.status.value.replace("_", " ")
    output = "" if call.output is None else _plain(call.output if isinstance(call.output, str) else _json(call.output))
    error = _plain(execution.error) if execution is not None and execution.error else ""
    result = ": ".join(filter(None, [status, error])) or output
    yield f"{'  ' * level}{one_line(call.name)} {_json(call.arguments)}{f' -> {result}' if result else ''}"
    for child in () if execution is None else execution.children:
        yield from _call_lines(child, level + 1)


def _json(value: Any) -> str:  # noqa: ANN401 - a JSON value
    return short_json(DEFAULT(value), _LONGEST_VALUE)


def _plain(text: str) -> str:
    return one_line(str(DEFAULT(text)))


class TurnView(NamedTuple):
    """A turn of a conversation in one result: its texts, its score if it has one, its calls and its findings.

    `rows` are the calls side by side, if they were compared; `called` names them in any case.
    """

    number: int | None
    """From 1; `None` for what belongs to no turn."""
    question: str | None
    answer: str | None
    word: Word | None
    score: float | None
    rows: Sequence[CallRow]
    called: Sequence[str]
    findings: Sequence[str]


def turns_of(result: MetricResult, case: object, rows: Sequence[CallRow]) -> list[TurnView]:
    """Return the turns of a conversation; none of any other case. `rows` are all calls side by side."""
    if not isinstance(case, ConversationalTestCase) or result.status is not ResultStatus.SCORED:
        return []
    turns: dict[int | None, Exchange] = dict(enumerate(case.exchanges, start=1))
    beside = [one for one in result.findings if result.alignment is None or one.expected is one.called is None]
    rows_of, findings_of = _by_turn(rows, turns), _by_turn(beside, turns)
    scores = turn_scores(result)
    views: list[TurnView] = []
    for number in dict.fromkeys([*turns, *rows_of, *findings_of]):
        one = turns.get(number, Exchange(0, [], []))
        word, score = scores.get(number, (None, None))
        names = [call.name for call in one.calls or ()]
        messages = [finding.message for finding in findings_of[number]]
        views.append(TurnView(number, one.question, one.answer, word, score, rows_of[number], names, messages))
    return views


def _by_turn(items: Iterable[Any], turns: Container[int | None]) -> defaultdict[int | None, list[Any]]:
    """Return items by their `turn`; `None` stands for one that is not of these turns."""
    groups: defaultdict[int | None, list[Any]] = defaultdict(list)
    for item in items:
        groups[item.turn if item.turn in turns else None].append(item)
    return groups


def turn_scores(result: MetricResult) -> dict[int | None, tuple[Word, float]]:
    """Return whether each turn of a conversation passes by itself, and its score, by its number."""
    parts = {name.removeprefix("turn "): score for name, score in result.parts.items() if name.startswith("turn ")}
    least = result.threshold - TOLERANCE
    return {
        int(number): ("passed" if score >= least else "failed", score)
        for number, score in parts.items()
        if number.isdecimal()
    }


def _dialogue(case: TestCase, dialogue: Sequence[Turn]) -> list[MessageView]:
    """Return the messages of a run in which the user spoke several times, with the calls of the case in their order.

    The calls that answer a message of the user stand before the last text of the agent that follows it.
    """
    calls = case.tools_called or []
    numbers = list(accumulate((call.turn or 0 for call in calls), max))
    exchanges = _exchanges(dialogue)
    messages: list[MessageView] = []
    first = 0
    for number, turns in enumerate(exchanges, start=int(dialogue[0].role == "user")):
        end = len(calls) if turns is exchanges[-1] else max(bisect_right(numbers, number), first)
        messages += [MessageView(None, turn.role, turn.content) for turn in turns]
        if end > first:
            answer = messages.pop() if turns[-1].role == "assistant" else MessageView(None, "assistant", None)
            messages.append(answer._replace(calls=calls[first:end], first=first))
        first = end
    return messages


def _exchanges(dialogue: Sequence[Turn]) -> list[list[Turn]]:
    """Return the turns of a dialogue in groups, each of which begins with the user, but for the first one perhaps."""
    exchanges: list[list[Turn]] = []
    for turn in dialogue:
        if turn.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(turn)
    return exchanges
