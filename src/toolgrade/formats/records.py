"""Flat records: one question with its answer and its called and expected tools, each under its own key.

The keys are those of `gllm-evals`; toolgrade's own names for the same fields are accepted as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar

from pydantic.alias_generators import to_camel

from toolgrade._internal.json import short_repr, within_limits
from toolgrade._internal.message_content import Fields, as_object
from toolgrade._internal.model import drop_none
from toolgrade.calls import CallStatus, ToolCall, ToolSpec, read_tool_spec
from toolgrade.cases import LLMTestCase, Run
from toolgrade.errors import InvalidDataError
from toolgrade.expect import ExpectedTools, read_expectation
from toolgrade.expect.json_form import is_expectation
from toolgrade.expect.plan import expected_names
from toolgrade.formats.messages.field_readers import Notes, read_list, read_text
from toolgrade.formats.messages.read import read_run
from toolgrade.formats.messages.tool_fields import read_tools
from toolgrade.formats.names import describe_rewrites, strip_suffixes, suffix_warnings

_T = TypeVar("_T")

_SYNONYMS = {"query": "input", "generated_response": "actual_output", "expected_response": "expected_output"}
_TRAJECTORIES = ("agent_trajectory", "expected_agent_trajectory")
_RECORD_ONLY = frozenset({*_SYNONYMS, *_TRAJECTORIES})
_PLAIN_FIELDS = (
    *("id", "name", "input", "actual_output", "agent_texts", "ended"),
    *("expected_output", "required_texts", "ends", "tags", "metadata"),
)
_OTHERS = ("tools_called", "expected_tools", "available_tools", "instructions")
_RECORD_KEYS = (*_SYNONYMS, *_PLAIN_FIELDS, *_TRAJECTORIES, *_OTHERS)
_BY_SPELLING = {spelling: key for key in _RECORD_KEYS for spelling in (key, to_camel(key))}


def looks_like_record(value: object) -> bool:
    """Return whether an object has a key that only a record has, so that it is not a case in toolgrade's own form.

    These are `query`, `generated_response`, `expected_response`, `agent_trajectory` and `expected_agent_trajectory`,
    in snake_case or camelCase. Anything that is not an object is not a record.
    """
    return isinstance(value, Mapping) and any(_BY_SPELLING.get(key) in _RECORD_ONLY for key in value)


@within_limits
def case_from_record(
    record: Mapping[str, object],
    *,
    normalize_names: bool = False,
    known_names: Iterable[str] = (),
) -> LLMTestCase:
    """Return the test case that a record describes.

    Keys, all optional, in snake_case or camelCase: `query`, `generated_response`, `expected_response` (or `input`,
    `actual_output`, `expected_output`), `tools_called`, `expected_tools`, `agent_trajectory`,
    `expected_agent_trajectory` (OpenAI chat messages, see `run_from_messages`), `agent_texts`, `ended`,
    `required_texts`, `ends`, `available_tools`, `instructions` (the system prompt), `id`, `name`, `tags`, `metadata`.
    Any other key goes to `metadata`. `$schema` is ignored, `null` reads as not set.

    `expected_tools` may be the JSON form of a richer expectation (`toolgrade.expect`). `tools_called` wins over the
    calls of `agent_trajectory`, and `expected_tools` over those of `expected_agent_trajectory`, with a warning if the
    two name different tools. Texts that are not set are taken from the trajectories. An expectation from a trajectory
    has the call's name, its arguments, and its output if it has one. A trajectory without calls means that nothing was
    called (`[]`); with neither a list nor a trajectory the field stays `None`.

    Warnings and the system prompt are in the `run` of the case, which exists if there are any, or an
    `agent_trajectory`, whose system prompt counts if `instructions` are not set.

    Args:
        record: The record.
        normalize_names: Strip random suffixes such as `_xg7c` from the names of called tools (see
            `toolgrade.formats.names.strip_suffix`); each rewrite is a warning. Names of available and expected tools
            never change.
        known_names: More names of tools that never change; used only with `normalize_names`.

    Raises:
        InvalidDataError: The record is invalid; `problems` has every wrong place.

    Example:
        >>> from toolgrade import ToolCorrectnessMetric, case_from_record
        >>> record = {
        ...     "query": "What is the weather in Paris?",
        ...     "tools_called": [{"name": "get_weather", "args": {"city": "Paris"}}],
        ...     "expected_tools": [{"name": "get_weather"}],
        ... }
        >>> ToolCorrectnessMetric().measure(case_from_record(record)).score
        1.0
    """
    fields = as_object(record)
    if fields is None:
        message = f"a record is an object with keys such as 'query' and 'tools_called', got {short_repr(record)}"
        raise InvalidDataError(message)
    notes = Notes()
    keys = _RecordKeys(fields, notes)
    content = _Content(keys)
    if normalize_names:
        content.normalize_names(known_names, notes)
    _warn_if_different(content.called, content.run, "tools_called", "agent_trajectory", notes)
    _warn_if_different(content.expected, content.expected_run, "expected_tools", "expected_agent_trajectory", notes)
    case = content.fields()
    case |= {name: keys.values[name] for name in _PLAIN_FIELDS if name in keys.values}
    _add_metadata(case, keys.others, notes)
    case |= drop_none({"run": content.run_with(notes.warnings)})
    return _validated(case, keys, notes)


@lru_cache(maxsize=256)  # the records of a file have the same keys, and the comparison is slow
def _similar_key(key: str) -> str | None:
    return next(iter(difflib.get_close_matches(key, _BY_SPELLING, n=1, cutoff=0.9)), None)


class _RecordKeys:
    """The values of a record by toolgrade's name for them."""

    def __init__(self, record: Fields, notes: Notes) -> None:
        self.values: dict[str, object] = {}
        self.others: dict[str, object] = {}
        """Values under keys that toolgrade does not have."""
        self._spelling: dict[str, str] = {}
        self._notes = notes
        for spelled, value in record.items():
            key = _BY_SPELLING.get(spelled)
            if key is None and spelled != "$schema":
                self._add_other(spelled, value)
            elif key is not None and value is not None:
                self._add(_SYNONYMS.get(key, key), spelled, value)

    def _add(self, key: str, spelled: str, value: object) -> None:
        if key in self.values and self.values[key] != value:
            other = self._spelling[key]
            self._notes.problem(f"$.{spelled}", f"has another value than {other!r}, which is the same field; give one")
        self.values[key], self._spelling[key] = value, spelled

    def _add_other(self, spelled: str, value: object) -> None:
        self.others[spelled] = value
        similar = _similar_key(str(spelled))
        if similar is not None:
            self._notes.warn("$", f"unknown key {spelled!r} was kept in metadata; did you mean {similar!r}?")

    def path(self, key: str) -> str:
        """Return the JSON path of a field, as the record spells it."""
        return f"$.{self._spelling.get(key, key)}"

    def read(self, key: str, read: Callable[[object, str, Notes], _T]) -> _T | None:
        """Return what a reader makes of the value of a field; `None` if the field is not set."""
        return read(self.values[key], self.path(key), self._notes) if key in self.values else None


class _Content:
    """The tools and trajectories of a record; an expectation is read from its trajectory if there is no other."""

    def __init__(self, keys: _RecordKeys) -> None:
        self.specs = keys.read("available_tools", read_specs)
        self.called = keys.read("tools_called", partial(read_tools, expected=False))
        self.expected = keys.read("expected_tools", _read_expected_tools)
        self.run = keys.read("agent_trajectory", _read_run)
        self.instructions = keys.read("instructions", read_text)
        self.expected_run = keys.read("expected_agent_trajectory", _read_expected_run)
        if self.expected is None and self.expected_run is not None:
            self.expected = [_expectation(call) for call in self.expected_run.calls]

    def normalize_names(self, known_names: Iterable[str], notes: Notes) -> None:
        """Strip random suffixes from the names of called tools, and warn of each rewrite."""
        expected = expected_names(self.expected)
        names = {*known_names, *expected, *(spec.name for spec in self.specs or ())}
        rewrites: dict[tuple[str, str], int] = {}
        if self.called is not None:
            self.called, counts = strip_suffixes(self.called, names)
            rewrites |= counts
        if self.run is not None:
            calls, counts = strip_suffixes(self.run.calls, names)
            self.run = self.run.model_copy(update={"calls": calls})
            rewrites |= counts
        notes.warnings += [*describe_rewrites(rewrites), *suffix_warnings(rewrites, expected)]

    def fields(self) -> dict[str, Any]:
        """Return the fields of the case, its texts from the trajectories; those that are not set are left out."""
        fields: dict[str, Any] = {"expected_tools": self.expected, "available_tools": self.specs}
        fields["tools_called"] = self.called
        if self.run is not None:
            fields |= {"input": self.run.input, "actual_output": self.run.actual_output}
            if self.called is None:
                fields["tools_called"] = self.run.tools_called
        if self.expected_run is not None:
            fields["expected_output"] = self.expected_run.actual_output
        return drop_none(fields)

    def run_with(self, warnings: list[str]) -> Run | None:
        """Return the run with all that the record says of it; `None` if that is nothing."""
        known = drop_none({"warnings": warnings or None, "instructions": self.instructions or None})
        if not known:
            return self.run
        run = self.run or Run(calls=self.called or [])
        return run.model_copy(update=known)


def read_specs(value: object, path: str, notes: Notes) -> list[ToolSpec]:
    """Return the tools of a list; problems go to `notes`."""
    specs: list[ToolSpec] = []
    for index, item in enumerate(read_list(value, path, notes, "a list of tools")):
        try:
            specs.append(read_tool_spec(item))
        except InvalidDataError as error:
            notes.add_error(error, f"{path}[{index}]")
    return specs


def _read_expected_tools(value: object, path: str, notes: Notes) -> ExpectedTools:
    """Read a list of calls, or a richer expectation."""
    if not is_expectation(value):
        return read_tools(value, path, notes, expected=True)
    try:
        return read_expectation(value)
    except InvalidDataError as error:
        notes.add_error(error, path)
        return []


def _read_run(value: object, path: str, notes: Notes) -> Run:
    run, _ = read_run(value, path, notes)
    return run


def _read_expected_run(value: object, path: str, notes: Notes) -> Run:
    """Read a trajectory whose calls are expectations: unreadable arguments are then an error."""
    # The run repeats the warnings of its notes, so it must not have those of the rest of the record.
    own_notes = Notes(notes.problems)
    run = _read_run(value, path, own_notes)
    for call in run.calls:
        execution = call.execution
        if execution is not None and execution.status is CallStatus.INVALID_ARGUMENTS:
            message = f"the arguments of {call.name!r} are not a JSON object, so nothing can be compared with them"
            notes.problem(f"$.{execution.source}", message)
    notes.warnings.extend(own_notes.warnings)
    return run


def _expectation(call: ToolCall) -> ToolCall:
    """Return a recorded call as an expectation: its name, arguments, and output if it has one."""
    fields = {"output": call.output} if "output" in call.model_fields_set else {}
    return ToolCall.from_valid({"name": call.name, "input_parameters": call.input_parameters, **fields})


def _warn_if_different(tools: ExpectedTools | None, run: Run | None, key: str, run_key: str, notes: Notes) -> None:
    """Warn if a list wins over a trajectory that names other tools."""
    if tools is None or run is None:
        return
    names, run_names = expected_names(tools), [call.name for call in run.calls]
    if names != run_names:
        lists = f"({short_repr(names)}) than {run_key} ({short_repr(run_names)})"
        notes.warn(f"$.{key}", f"names other tools {lists}; {key} was used")


def _add_metadata(case: dict[str, Any], others: Mapping[str, object], notes: Notes) -> None:
    """Add the keys that only this record has to the metadata of a case."""
    metadata = case.get("metadata", {})
    if not others or not isinstance(metadata, Mapping):
        return  # the case itself refuses metadata that is not an object
    for key in others:
        if key in metadata and metadata[key] != others[key]:
            notes.warn("$", f"metadata has its own {key!r}; the record's {key!r} was left out")
    case["metadata"] = {**others, **metadata}


def _validated(case: dict[str, Any], keys: _RecordKeys, notes: Notes) -> LLMTestCase:
    """Return the case, or raise all problems of the record, each at the record's own key."""
    try:
        valid = LLMTestCase(**case)
    except InvalidDataError as error:
        for problem in error.problems:
            name = problem.path.removeprefix("$.").partition("[")[0].partition(".")[0]
            notes.problem(keys.path(name) + problem.path.removeprefix(f"$.{name}"), problem.message)
        notes.raise_problems()
        raise
    notes.raise_problems()
    return valid
