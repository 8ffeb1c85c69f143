"""One recorded question as a flat record: what was asked, answered, called and expected, each under its own key.

The keys are those that `gllm-evals` uses; toolmark's own names for the same things are accepted beside them.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.alias_generators import to_camel

from toolmark._internal.json import short_repr
from toolmark.calls import CallStatus, ToolCall, ToolSpec, read_tool_spec
from toolmark.cases import LLMTestCase, Run
from toolmark.errors import InvalidDataError
from toolmark.expect import ExpectedTools, expected_names, is_expectation, read_expectation
from toolmark.formats.messages.field_readers import Notes, as_object
from toolmark.formats.messages.tool_fields import read_tools, readable_tool
from toolmark.formats.messages.trajectory import read_run
from toolmark.formats.names import describe_rewrites, strip_suffixes, suffixed_alike

_SYNONYMS = {"query": "input", "generated_response": "actual_output", "expected_response": "expected_output"}
_TRAJECTORIES = ("agent_trajectory", "expected_agent_trajectory")
_RECORD_ONLY = frozenset({*_SYNONYMS, *_TRAJECTORIES})
_PLAIN_FIELDS = ("id", "name", "input", "actual_output", "expected_output", "tags", "metadata")
_KEYS = (*_SYNONYMS, *_PLAIN_FIELDS, *_TRAJECTORIES, "tools_called", "expected_tools", "available_tools")
_BY_SPELLING = {spelling: key for key in _KEYS for spelling in (key, to_camel(key))}


def looks_like_record(value: object) -> bool:
    """Return whether an object has a key that only a record has, so that it is no case in toolmark's own form.

    These are `query`, `generated_response`, `expected_response`, `agent_trajectory` and `expected_agent_trajectory`,
    in snake_case or camelCase. Anything that is no object is no record.
    """
    return isinstance(value, Mapping) and any(_BY_SPELLING.get(key) in _RECORD_ONLY for key in value)


def case_from_record(
    record: Mapping[str, object],
    *,
    normalize_names: bool = False,
    known_names: Iterable[str] = (),
    tolerant_arguments: bool = False,
) -> LLMTestCase:
    """Return the test case that a record describes.

    Keys, all optional, in snake_case or camelCase: `query`, `generated_response`, `expected_response` (or `input`,
    `actual_output`, `expected_output`), `tools_called`, `expected_tools`, `agent_trajectory`,
    `expected_agent_trajectory` (OpenAI chat messages, see `run_from_messages`), `available_tools`, `id`, `name`,
    `tags`, `metadata`. Any other key is kept in `metadata`. `null` reads as not given.

    `expected_tools` may be the JSON form of an expectation that says more than a list of calls (`toolmark.expect`).
    `tools_called` wins over the calls of `agent_trajectory`, and `expected_tools` over those of
    `expected_agent_trajectory`; a warning says so where the two name different tools. Texts that are not given are
    taken from the trajectories. An expectation from a trajectory has the call's name, its arguments, and its output
    where one was answered. A trajectory without calls says that nothing was called (`[]`); with neither a list nor a
    trajectory the field stays `None`.

    Whatever was understood only in part stands in the `warnings` of the case's `run`, which exists where there is an
    `agent_trajectory` or something to warn of.

    Args:
        record: The record.
        normalize_names: Take random suffixes such as `_xg7c` off the names of called tools (see
            `toolmark.formats.names.strip_suffix`); each rewrite is a warning. Available and expected tools are known
            names and never change.
        known_names: More names that are surely tools'; they matter only with `normalize_names`.
        tolerant_arguments: See `run_from_messages`; in lists of tools and in expectations, too.

    Raises:
        InvalidDataError: It is no such record; `problems` has every place that is wrong.
    """
    fields = as_object(record)
    if fields is None:
        message = f"a record is an object with keys such as 'query' and 'tools_called', got {short_repr(record)}"
        raise InvalidDataError(message)
    notes = Notes(tolerant=tolerant_arguments)
    parts = _read_parts(fields, notes)
    if normalize_names:
        _normalize(parts, known_names, notes)
    _compare(parts.called, parts.run, "tools_called", "agent_trajectory", notes)
    _compare(parts.expected, parts.expected_run, "expected_tools", "expected_agent_trajectory", notes)
    return _case(parts, notes)


def with_readable_arguments(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case in toolmark's own form whose argument texts are objects, where they can only mean one.

    What was read so stands in the warnings of the case's run, and a called tool keeps its text in its execution's
    `requested_parameters`. Anything else is left as it is, for the case itself to refuse.

    Args:
        case: The case, as JSON has it.
    """
    notes = Notes(tolerant=True)
    found = dict(case)
    for key in (spelling for name in ("tools_called", "expected_tools") for spelling in (name, to_camel(name))):
        if isinstance(found.get(key), list):
            called = key in ("tools_called", "toolsCalled")
            tools = enumerate(found[key])
            found[key] = [readable_tool(tool, f"$.{key}[{index}]", notes, called=called) for index, tool in tools]
    run = found.get("run") or {"calls": found.get("tools_called", found.get("toolsCalled")) or []}
    if notes.warnings and isinstance(run, dict) and isinstance(run.get("warnings", []), list):
        found["run"] = {**run, "warnings": [*run.get("warnings", []), *notes.warnings]}
    return found


@dataclass
class _Parts:
    """A record, sorted: what was given in lists, what the trajectories show, and the rest."""

    spelling: dict[str, str]
    """How the record spells the name of each field."""
    fields: dict[str, Any]
    """The fields of the case that are texts, tags and metadata."""
    specs: list[ToolSpec] | None = None
    called: list[ToolCall] | None = None
    expected: ExpectedTools | None = None
    run: Run | None = None
    expected_run: Run | None = None
    extra: dict[str, object] = field(default_factory=dict)
    """What the record says under keys of its own."""


def _read_parts(record: Mapping[str, object], notes: Notes) -> _Parts:
    given, spelling, extra = _sort_keys(record, notes)
    parts = _Parts(spelling, {key: given[key] for key in _PLAIN_FIELDS if key in given}, extra=extra)

    def path(key: str) -> str:
        return f"$.{spelling[key]}"

    if "available_tools" in given:
        parts.specs = _read_specs(given["available_tools"], path("available_tools"), notes)
    if "tools_called" in given:
        parts.called = read_tools(given["tools_called"], path("tools_called"), notes, expected=False)
    if "expected_tools" in given:
        parts.expected = _read_expected_tools(given["expected_tools"], path("expected_tools"), notes)
    if "agent_trajectory" in given:
        parts.run, _ = read_run(given["agent_trajectory"], path("agent_trajectory"), notes)
    if "expected_agent_trajectory" in given:
        parts.expected_run = _read_expected(
            given["expected_agent_trajectory"], path("expected_agent_trajectory"), notes
        )
    return parts


def _sort_keys(
    record: Mapping[str, object], notes: Notes
) -> tuple[dict[str, object], dict[str, str], dict[str, object]]:
    """Return the values by toolmark's name for them, how the record spells each name, and the values of other keys."""
    given: dict[str, object] = {}
    spelling: dict[str, str] = {}
    extra: dict[str, object] = {}
    for spelled, value in record.items():
        known = _BY_SPELLING.get(spelled)
        if known is None:
            extra[spelled] = value
            near = difflib.get_close_matches(str(spelled), _BY_SPELLING, n=1, cutoff=0.9)
            if near:
                notes.warn("$", f"unknown key {spelled!r} was kept in metadata; did you mean {near[0]!r}?")
            continue
        if value is None:
            continue
        key = _SYNONYMS.get(known, known)
        if key in given and given[key] != value:
            notes.problem(f"$.{spelled}", f"says something else than {spelling[key]!r}, which means the same; give one")
        given[key], spelling[key] = value, spelled
    return given, spelling, extra


def _read_specs(value: object, path: str, notes: Notes) -> list[ToolSpec]:
    if not isinstance(value, (list, tuple)):
        notes.problem(path, f"expected a list of tools, got {short_repr(value)}")
        return []
    specs: list[ToolSpec] = []
    for index, item in enumerate(value):
        try:
            specs.append(read_tool_spec(item))
        except InvalidDataError as error:
            notes.add_error(error, f"{path}[{index}]")
    return specs


def _read_expected_tools(value: object, path: str, notes: Notes) -> ExpectedTools:
    """Read a list of calls, or an expectation that says more."""
    if not is_expectation(value):
        return read_tools(value, path, notes, expected=True)
    try:
        return read_expectation(value)
    except InvalidDataError as error:
        notes.add_error(error, path)
        return []


def _read_expected(value: object, path: str, notes: Notes) -> Run:
    """Read a trajectory whose calls are expectations: arguments that nobody can read are then an error."""
    heard = Notes(notes.problems, tolerant=notes.tolerant)
    run, _ = read_run(value, path, heard)
    for call in run.calls:
        execution = call.execution
        if execution is not None and execution.status is CallStatus.INVALID_ARGUMENTS:
            message = f"the arguments of {call.name!r} are not a JSON object, so nothing can be compared with them"
            notes.problem(f"$.{execution.source}", message)
    notes.warnings.extend(heard.warnings)
    return run


def _expectation(call: ToolCall) -> ToolCall:
    """Return what a recorded call demands of another run: its name, arguments, and output if it has one."""
    known = {"output": call.output} if "output" in call.model_fields_set else {}
    return ToolCall(name=call.name, input_parameters=call.input_parameters, **known)


def _expected_calls(parts: _Parts) -> ExpectedTools | None:
    if parts.expected is not None or parts.expected_run is None:
        return parts.expected
    return [_expectation(call) for call in parts.expected_run.calls]


def _normalize(parts: _Parts, known_names: Iterable[str], notes: Notes) -> None:
    expected = expected_names(_expected_calls(parts))
    known: Collection[str] = {*known_names, *expected, *(spec.name for spec in parts.specs or ())}
    rewrites = dict[tuple[str, str], int]()
    if parts.called is not None:
        parts.called, made = strip_suffixes(parts.called, known)
        rewrites |= made
    if parts.run is not None:
        calls, made = strip_suffixes(parts.run.calls, known)
        parts.run = parts.run.model_copy(update={"calls": calls})
        rewrites |= made
    notes.warnings.extend(describe_rewrites(rewrites))
    notes.warnings.extend(suffixed_alike(rewrites, expected))


def _compare(given: ExpectedTools | None, run: Run | None, given_key: str, run_key: str, notes: Notes) -> None:
    """Note that the given list wins over a trajectory, where the two name different tools."""
    if given is None or run is None:
        return
    names = expected_names(given)
    shown_names = [call.name for call in run.calls]
    if names != shown_names:
        notes.warn(
            f"$.{given_key}",
            f"names other tools ({short_repr(names)}) than {run_key} ({short_repr(shown_names)}); {given_key} won",
        )


def _case(parts: _Parts, notes: Notes) -> LLMTestCase:
    fields = dict(parts.fields)
    run, expected = parts.run, _expected_calls(parts)
    called = parts.called if parts.called is not None or run is None else run.tools_called
    from_runs = {
        "input": run and run.input,
        "actual_output": run and run.actual_output,
        "expected_output": parts.expected_run and parts.expected_run.actual_output,
    }
    for key, text in from_runs.items():
        if text is not None:
            fields.setdefault(key, text)
    lists = {"tools_called": called, "expected_tools": expected, "available_tools": parts.specs}
    fields |= {key: value for key, value in lists.items() if value is not None}
    _add_extra(fields, parts.extra, notes)
    if run is None and notes.warnings:
        run = Run(calls=called or [])
    if run is not None:
        fields["run"] = run.model_copy(update={"warnings": notes.warnings}) if notes.warnings else run
    return _validated(fields, parts.spelling, notes)


def _validated(fields: dict[str, Any], spelling: Mapping[str, str], notes: Notes) -> LLMTestCase:
    """Return the case, or raise all problems of the record, each at the key under which the record has the field."""
    case: LLMTestCase | None = None
    try:
        case = LLMTestCase.model_validate(fields)
    except InvalidDataError as error:
        for problem in error.problems:
            name = problem.path.removeprefix("$.").partition("[")[0].partition(".")[0]
            rest = problem.path.removeprefix(f"$.{name}")
            notes.problem(f"$.{spelling.get(name, name)}{rest}", problem.message)
    notes.raise_problems()
    if case is None:  # pragma: no cover - a case is only missing where a problem was raised
        raise InvalidDataError("the record is no case")
    return case


def _add_extra(fields: dict[str, Any], extra: Mapping[str, object], notes: Notes) -> None:
    """Keep the keys that only this record knows in the case's metadata."""
    metadata = fields.get("metadata", {})
    if not extra or not isinstance(metadata, Mapping):
        return  # metadata that is no object is an error that the case itself will find
    for key in extra:
        if key in metadata and metadata[key] != extra[key]:
            notes.warn("$", f"metadata has its own {key!r}; the record's {key!r} was left out")
    fields["metadata"] = {**extra, **metadata}
