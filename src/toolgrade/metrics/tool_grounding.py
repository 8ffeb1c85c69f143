"""Tool grounding: a metric of where the values in arguments and in the answer come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, count
from typing import Any, ClassVar, Final, NamedTuple

from toolgrade._internal.json import is_number, json_items, json_path, short_repr
from toolgrade._internal.message_content import hash_images
from toolgrade._internal.options import enabled, require
from toolgrade._internal.text import number_text, plural, printable
from toolgrade._internal.tool_names import first_match, matches, read_patterns
from toolgrade.calls import ToolCall, ToolEffect, first_of_step
from toolgrade.cases import Run, TestCase, WholeConversation, input_with_images
from toolgrade.errors import ConfigurationError
from toolgrade.expect.from_call import From
from toolgrade.failed_calls import is_unrecorded, looks_failed
from toolgrade.matching.json_compare import ABSENT, Path, has_mark, json_forms
from toolgrade.metrics.base import CallMetric, Details, Measurement
from toolgrade.metrics.call_filter import CallFilter, Only
from toolgrade.metrics.called_tools import call_text, omission_warnings, read_tools
from toolgrade.metrics.seen_values import Admits, Event, Leaf, SeenValues, Value, values_of
from toolgrade.metrics.text_search import plain_text
from toolgrade.metrics.wording import MOST_FINDINGS
from toolgrade.result import Finding, FindingKind, display_value, redact_at_path

_STATED: Final = ("enum", "default", "const")
"""Keywords of a JSON Schema that show values to the model."""
_UNKNOWN_PROMPT: Final = "the system prompt was not recorded, so values that it alone has count as from nowhere"
_ORDER: Final[tuple[FindingKind, ...]] = ("wrong_source", "ungrounded", "traced")
"""Kinds of findings, those that cost most first."""


@dataclass(frozen=True, eq=False)
class ToolGroundingMetric(CallMetric):
    """Checks that the values in arguments and in the answer come from something that the agent saw.

    What an agent sees before a call are the words of the user, the system prompt, outputs of earlier steps, and the
    `enum`, `default` and `const` of the tool's schema. A value may be copied from there, or derived: dates, numbers and
    amounts in another form, relative dates, joins and parts, and sums and differences of two or of all numbers in one
    object, list or text with at most 20 numbers, or beside the sources of the other arguments of the call.

    Each argument counts that has an id, a number, a date or an address; true, false, null, whole numbers up to 10,
    times of day and other texts do not, since chance would hit them. Of the answer, each such value counts by itself;
    it may also come from the calls. The score is the share of what counts that has a source; a case in which nothing
    counts is skipped. Left out with a warning are redacted values, and those without a source where an output was not
    recorded or an image was seen. Each source is a `traced` finding, which costs nothing. See docs/metrics.md.

    This is a tripwire, not a score of success: docs/validity.md has its false alarms on good runs.

    Args:
        only: `"read"` or `"write"` for calls of this effect alone, which is guessed where nothing declares it; calls of
            unknown effect count as writes.
        answer: Also check the final answer.
        sources: Where an argument may come from, by its name or pattern (`tool.argument`, `send_email.to`, `*.url`):
            `"user"`, `"system"`, `"schema"`, `"tool"` for any output, or names and patterns of tools. Such an argument
            counts whatever it is. One that comes from elsewhere, as an address that stood in a page which a tool read,
            makes the score 0.
        ignore: Names or patterns of arguments that do not count.
        effects: As for `TaskSuccessMetric`, for `only`.
        threshold: The lowest score that passes, in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolGroundingMetric
        >>> calls = [
        ...     ToolCall(name="look_up", input_parameters={"order": "W2378"}, output={"total": 40}),
        ...     ToolCall(name="pay", input_parameters={"order": "W2378", "amount": 99}),
        ... ]
        >>> result = ToolGroundingMetric().measure(LLMTestCase(input="Pay order #W2378.", tools_called=calls))
        >>> print(result.score, result.findings[0].message)
        0.6666666666666666 Ungrounded: called #2 'pay': amount = 99; closest: look_up.total = 40.
    """

    _name: ClassVar[str] = "tool_grounding"

    only: Only | None = None
    answer: bool = True
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    ignore: Sequence[str] = ()
    effects: Mapping[str, ToolEffect | str] = field(default_factory=dict[str, "ToolEffect | str"])
    threshold: float = 1.0
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False
    _filter: CallFilter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        super().__post_init__()
        if not isinstance(self.sources, Mapping):
            expected = "sources must map arguments to where they may come from, as in {'send_email.to': ['user']}"
            raise ConfigurationError(f"{expected}, got {short_repr(self.sources)}")
        read_patterns(self.sources, "sources")  # the keys are patterns too
        call_filter = CallFilter(
            only=self.only, ignore_failed=False, effects=self.effects, guess_effects=True, tools=None
        )
        for name, origins in self.sources.items():
            require(origins, f"sources[{name!r}] must not be empty", origins)
        self._set(
            sources={name: read_patterns(origins, f"sources[{name!r}]") for name, origins in self.sources.items()},
            ignore=read_patterns(self.ignore, "ignore"),
            only=call_filter.only and call_filter.only.value,
            _filter=call_filter,
        )

    @property
    def _options(self) -> Sequence[str]:
        options = {
            f"only={self.only}": self.only is not None,
            "no answer": not self.answer,
            "sources": self.sources,
            "ignore": self.ignore,
        }
        return enabled(options)

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase, /) -> Measurement:
        effects = self._filter.tool_effects(case.available_tools).among(calls)
        is_checked = [self.only in (None, _effect_name(effects.of(call.name))) for call in calls]
        run = _SeenRun(case, calls)
        checked = [one for index in compress(count(), is_checked) for one in self._arguments(run, calls[index], index)]
        if self.answer:
            checked += run.check_answer()
        findings = sorted(filter(None, checked), key=lambda finding: _ORDER.index(finding.kind))
        kinds = [finding.kind for finding in findings]
        traced = kinds.count("traced")
        scores, arithmetic = dict[str, float](), dict[str, str]()
        if "wrong_source" in kinds:
            scores = {"grounded": 0.0}
            arithmetic = {"grounded": "a value came from where it must not = 0"}
        elif kinds:
            scores = {"grounded": traced / len(kinds)}
            share = f"{traced} traced / {plural(len(kinds), 'value')}"
            arithmetic = {"grounded": f"{share} = {number_text(scores['grounded'])}"}
        reason = "they are redacted, or may come from what was not recorded"
        details = Details(
            arithmetic,
            findings=findings,
            warnings=[
                *(effects.warnings((), calls) if self.only else ()),
                *omission_warnings(len(checked) - len(findings), reason, "value"),
                *([_UNKNOWN_PROMPT] if traced < len(kinds) and not run.knows_prompt else ()),
            ],
        )
        skip_reason = "nothing in arguments and answer must come from somewhere"
        return Measurement(scores, details, skip_reason=skip_reason)

    def _arguments(self, run: _SeenRun, call: ToolCall, index: int) -> list[Finding | None]:
        """Return a finding for each argument of a call that counts; `None` for one that cannot be checked."""
        if not call.captured("input_parameters"):
            return [None]
        arguments: list[_Argument] = []
        for path, value in _leaves(call.arguments, keys=True):
            names = [*accumulate([call.name, *(key for key in path if isinstance(key, str))], "{}.{}".format)][:0:-1]
            if not any(matches(name, self.ignore) for name in names):
                # What is said of an argument holds for all that is in it.
                patterns = filter(None, (first_match(name, self.sources) for name in names))
                origins = next(map(self.sources.__getitem__, patterns), ())
                argument = _Argument(path, value, origins, is_key=path[-1:] == (value,))
                if (origins or not argument.is_key) and (argument.values or has_mark(value)):
                    arguments.append(argument)
        return run.check_arguments(call, index, arguments)


class _Argument(NamedTuple):
    """A leaf of the arguments, and where it may come from; empty for anywhere."""

    path: Path
    value: Any
    origins: Sequence[str] = ()
    is_key: bool = False
    """Whether it is a key of an object; most of these are names of the tool's."""

    @property
    def values(self) -> list[Value]:
        """What of it must come from somewhere."""
        values = values_of(self.value)
        is_bare = self.is_key or self.value in (None, "") or isinstance(self.value, bool)
        if self.origins and not values and not is_bare:
            text = plain_text(str(self.value))
            return [Value("number", text, [self.value]) if is_number(self.value) else Value("text", text)]
        return values


class _SeenRun:
    """A run, with all that its agent saw."""

    def __init__(self, case: TestCase, calls: Sequence[ToolCall]) -> None:
        self._case, self._calls = case, calls
        run = case.run or Run()
        self._seen = SeenValues(events_of(case, calls), [run.started_at.date()] if run.started_at else [])
        self.knows_prompt = run.instructions is not None
        self._ungrounded = 0

    def check_arguments(self, call: ToolCall, index: int, arguments: Sequence[_Argument]) -> list[Finding | None]:
        """Return what became of arguments of a call; `None` for those that cannot be checked."""
        first = first_of_step(self._calls, index)

        def admits(event: Event) -> bool:
            if event.kind == "user":
                return None in (event.turn, call.turn) or (event.turn or 0) <= (call.turn or 0)
            if event.kind == "schema":
                return event.tool == call.name
            return event.kind == "system" or (event.kind == "tool" and (event.call or 0) < first)

        def source(argument: _Argument, near: Sequence[Leaf] = ()) -> Leaf | None:
            def may_be(event: Event) -> bool:
                return admits(event) and _is_origin(event, argument.origins)

            return self._source(argument.values, may_be, near, is_free=not argument.origins)

        near = [leaf for leaf in map(source, arguments) if leaf is not None]
        findings: list[Finding | None] = []
        for argument in arguments:
            path, value, origins, _ = argument
            leaf = None if has_mark(value) else source(argument, near)
            elsewhere = self._source(argument.values, admits) if origins and leaf is None else None
            where = f"{call_text(call, index)}: {_place(path)} = {display_value(value, _full(path))}"
            kind: FindingKind = "traced"
            if leaf is not None:
                text = f"Traced: {where}, from {_origin(leaf)}."
            elif elsewhere is not None:
                kind = "wrong_source"
                text = f"Wrong source: {where}, from {_origin(elsewhere)}; it must come from {' or '.join(origins)}."
            elif has_mark(value) or self._may_hide(first, origins):
                findings.append(None)
                continue
            else:
                kind = "ungrounded"
                text = f"Ungrounded: {where}{self._closest(argument.values, admits)}."
            findings.append(
                Finding(
                    *(kind, text, call.name),
                    called=index,
                    path=_full(path),
                    expected_value=_from(leaf) if leaf is not None else ABSENT,
                    called_value=value,
                )
            )
        return findings

    def check_answer(self) -> list[Finding | None]:
        """Return what became of the values in the final answer."""
        output = self._case.actual_output
        answer = output if isinstance(output, str) else " ".join(part for part in output or () if isinstance(part, str))
        findings: list[Finding | None] = []
        for value in {(value.kind, value.meaning): value for value in values_of(answer)}.values():
            leaf = self._source([value], _is_seen_or_done)
            quote = f"the answer says {display_value(value.text, None)}"
            if leaf is not None:
                text = f"Traced: {quote}, from {_origin(leaf)}."
                findings.append(Finding("traced", text, "", called_value=value.text))
            elif self._may_hide(len(self._calls)):
                findings.append(None)
            else:
                text = f"Ungrounded: {quote}{self._closest([value], _is_seen_or_done)}."
                findings.append(Finding("ungrounded", text, "", called_value=value.text))
        return findings

    def _source(
        self, values: Sequence[Value], admits: Admits, near: Sequence[Leaf] = (), *, is_free: bool = True
    ) -> Leaf | None:
        """Return where the last of several values comes from; `None` if one of them comes from nowhere.

        A value that is not free to come from anywhere must stand there as a whole: parts can be joined to anything.
        """
        leaf: Leaf | None = None
        for value in values:

            def says(event: Event, text: str = value.text) -> bool:
                return admits(event) and text not in event.echo

            leaf = self._seen.source(value, says, joins=is_free)
            if leaf is None and is_free:
                leaf = self._seen.derived(value, near, says)
            if leaf is None:
                return None
        return leaf

    def _closest(self, values: Sequence[Value], admits: Admits) -> str:
        """Return the value that is most like the one without a source, as the end of a sentence."""
        value = next((one for one in values if self._source([one], admits) is None), None)
        self._ungrounded += 1
        is_listed = self._ungrounded <= MOST_FINDINGS  # it takes as long as all else
        closest = self._seen.closest(value, admits) if value is not None and is_listed else None
        if closest is None:
            return ""
        text, leaf = closest
        return f"; closest: {_origin(leaf)} = {printable(str(redact_at_path(text, _full(leaf.path))))}"

    def _may_hide(self, end: int, origins: Sequence[str] = ()) -> bool:
        """Return whether something was seen before a call that is not recorded as text: an output, or an image.

        For a value that must come from elsewhere than outputs, these hide nothing.
        """
        is_from_tool = not origins or not {*origins} <= {"user", "system", "schema"}
        return self._has_images or (is_from_tool and any(self._hides[:end]))

    @cached_property
    def _hides(self) -> list[bool]:
        return [
            is_unrecorded(call) or not call.captured("output") or hash_images(call.output) is not call.output
            for call in self._calls
        ]

    @cached_property
    def _has_images(self) -> bool:
        content = input_with_images(self._case)
        return isinstance(content, list) and not all(isinstance(part, str) for part in content)


def _effect_name(effect: ToolEffect | None) -> str:
    return "read" if effect is ToolEffect.READ else "write"


def _leaves(arguments: Mapping[str, Any], *, keys: bool = False) -> Iterator[tuple[Path, Any]]:
    """Yield each text, number, truth value and null in arguments with its path, in written order.

    Texts that are JSON are read. With `keys`, also the keys of objects inside are yielded.
    """
    stack: list[tuple[Path, Any]] = [((), arguments)]
    while stack:
        path, value = stack.pop()
        form = json_forms(value)[-1] if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value
        if isinstance(form, (dict, list)):
            stack.extend(((*path, key), item) for key, item in reversed([*json_items(form)]))
            if keys and path and isinstance(form, dict):
                yield from (((*path, key), key) for key in form)
        else:
            yield path, value


def events_of(case: TestCase, calls: Sequence[ToolCall]) -> Iterator[Event]:
    """Yield all that the agent saw, and its own calls."""
    run = case.run or Run()
    if run.instructions is not None:
        yield Event("system", run.instructions)
    for turn, text in _texts_of_user(case):
        yield Event("user", text, turn=turn)
    for tool in read_tools(case.available_tools) or ():
        yield Event("schema", list(_stated(tool.input_schema)), tool.name)
    for index, call in enumerate(calls):
        execution = call.execution
        displays = [] if execution is None else [execution.model_output, execution.error]
        passed = [value.text for _, leaf in _leaves(call.arguments) for value in values_of(leaf)]
        echo = frozenset(passed if looks_failed(call) else ())
        for output in (call.output, *displays):
            yield Event("tool", output, call.name, call.turn, index, echo)
        yield Event("call", call.arguments, call.name, call.turn, index)


def _texts_of_user(case: TestCase) -> Iterator[tuple[int | None, str]]:
    """Yield the texts of the user, each with its turn; `None` for one that comes before all calls."""
    if isinstance(case, WholeConversation):
        yield from ((one.number, one.question or "") for one in case.conversation.exchanges)
        return
    parts = case.input if isinstance(case.input, list) else [case.input]
    yield from ((None, part) for part in parts if isinstance(part, str))
    turns = [turn for turn in (case.run or Run()).dialogue if turn.role == "user"]
    yield from ((number, turn.content) for number, turn in enumerate(turns, start=1))


def _stated(schema: object) -> Iterator[Any]:
    """Yield the values that a JSON Schema states."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            yield from (part[key] for key in _STATED if key in part)
        if isinstance(part, (dict, list)):
            stack.extend(item for _, item in json_items(part))


def _is_origin(event: Event, origins: Sequence[str]) -> bool:
    return not origins or event.kind in origins or (event.kind == "tool" and matches(event.tool, origins))


def _is_seen_or_done(event: Event) -> bool:
    return event.kind != "schema"


def _full(path: Path) -> str:
    return json_path(path, "$.input_parameters")


def _place(path: Path) -> str:
    """Return a path as people write it: `passengers[0].dob`."""
    return printable(json_path(path, "")).removeprefix(".")


def _from(leaf: Leaf) -> Any:  # noqa: ANN401 - a matcher or `ABSENT`
    """Return the matcher of values that come from the output of a tool as a leaf does; `ABSENT` for other sources."""
    if leaf.event.kind != "tool":
        return ABSENT
    is_key = leaf.path[-1:] == (leaf.value,)
    return From(leaf.event.tool, json_path(leaf.path[:-1] if is_key else leaf.path))


def _origin(leaf: Leaf) -> str:
    """Return where a value was seen, such as `look_up.total`."""
    event, place = leaf.event, _place(leaf.path)
    if event.kind == "tool":
        name = printable(event.tool)
        return name + (place if place.startswith("[") or not place else f".{place}")
    in_turn = "" if event.turn is None else f" in turn {event.turn}"
    return {
        "user": f"the words of the user{in_turn}",
        "system": "the system prompt",
        "schema": f"the schema of {printable(event.tool)!r}",
        "call": f"the call of {printable(event.tool)!r}",
    }[event.kind]
