"""The linter of cases, from a file or in memory, and the reader of a file of tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias, cast

from toolgrade._internal.budget import CaseBudget
from toolgrade._internal.json import JsonObject, canonical_json, parse_json, short_repr
from toolgrade.calls import ToolSpec, read_tool_spec
from toolgrade.cases import AnyCase, LLMTestCase, MLLMTestCase, Turn
from toolgrade.dataset import Document, Golden, Source, file_error, problems_of, read_bytes, source_name
from toolgrade.errors import DataFileError, InvalidDataError, Problem
from toolgrade.failed_calls import is_unrecorded
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.records import read_specs
from toolgrade.inputs import Entry, Reading, read_entries
from toolgrade.linting.conversation_checks import check_turns, check_user
from toolgrade.linting.findings import LintFinding, LintKind, LintReport, Spot
from toolgrade.linting.idle_checks import check_idle
from toolgrade.linting.plan_checks import check_expectation, check_placeholder
from toolgrade.linting.schema_fit import Tools
from toolgrade.metrics.called_tools import as_case
from toolgrade.metrics.seen_values import SeenValues
from toolgrade.metrics.tool_grounding import events_of
from toolgrade.user_turns import SimulatedUser, UserTurn

Cases: TypeAlias = "Source | Iterable[AnyCase | Golden]"
"""A file, or cases and goldens."""


def lint(source: Cases, tools: Iterable[object] | None = None, *, allow_nan: bool = False) -> LintReport:
    """Return all findings about the expectations of cases or goldens, in the order of the file.

    Args:
        source: A file that `read_cases` reads, goldens included, or the cases themselves.
        tools: The available tools, in any form that `ToolSpec` reads; by default those of each case. If there are none,
            names and arguments are not checked, and the report counts these cases.
        allow_nan: Accept bare NaN and infinities, which are not JSON.

    Raises:
        InvalidDataError: One of the tools cannot be read.
        OSError: The file cannot be opened or read.

    Example:
        >>> from toolgrade import Golden, ToolCall
        >>> from toolgrade.linting import lint
        >>> golden = Golden(input="What is the weather in Paris?", expected_tools=[ToolCall(name="get_wether")])
        >>> print(lint([golden], tools=[{"name": "get_weather"}])[0])
        $[0].expected_tools[0].name: expects the tool 'get_wether', which is not available; did you mean 'get_weather'?
    """
    specs = None if tools is None else list(map(read_tool_spec, tools))
    if isinstance(source, (str, os.PathLike)) or hasattr(source, "read"):
        file = cast("Source", source)
        how = Reading(unit="any", allow_nan=allow_nan, goldens=True)
        return _Linter(source_name(file), specs).report(read_entries(file, how))
    entries = (Entry(Document(_json_of(one), item=index), [one]) for index, one in enumerate(list[Any](source)))
    return _Linter("<cases>", specs).report(entries)


def read_tools(source: Source) -> list[ToolSpec]:
    """Return the tools of a JSON file: a list of them, in any form that `ToolSpec` reads, or `{"tools": [...]}`.

    Args:
        source: A path, `"-"` for standard input, or an open binary file; gzip is recognized by its content.

    Raises:
        DataFileError: The file has neither form; `problems` lists every tool that cannot be read.
        OSError: The file cannot be opened or read.

    Example:
        >>> from pathlib import Path
        >>> from toolgrade.linting.run import read_tools
        >>> _ = Path("tools.json").write_text('[{"name": "get_weather"}, {"name": "book_flight"}]')
        >>> [tool.name for tool in read_tools("tools.json")]
        ['get_weather', 'book_flight']
    """
    name = source_name(source)
    try:
        value = parse_json(read_bytes(source))
    except InvalidDataError as error:
        raise DataFileError(f"{name}: {error}", problems_of(error)) from None
    path, items = ("$.tools", value.get("tools")) if isinstance(value, dict) else ("$", value)
    if not isinstance(items, list):
        raise file_error(source, [Problem("$", f"expected a list of tools, got {short_repr(value)}")])
    notes = Notes()
    tools = read_specs(items, path, notes)
    if notes.problems:
        raise file_error(source, notes.problems)
    return tools


class _Linter:
    """Checks the documents of one source, and counts its cases."""

    def __init__(self, source: str, tools: list[ToolSpec] | None) -> None:
        self.source = source
        self.tools = Tools(tools)
        self.ids: dict[str, str] = {}  # the place of the first case with each id
        self.reported_schemas: set[str] = set()  # the messages
        self.untraced: dict[str, dict[str, LintFinding]] = {}
        """By expectation, values that none of its runs so far could know, with the finding of the first run."""
        self.cases = self.without_expectation = self.without_tools = 0

    def report(self, entries: Iterable[Entry]) -> LintReport:
        """Return the findings of all entries."""
        findings = [finding for entry in entries for finding in self._check_entry(entry)]
        untraced = [finding for of_one in self.untraced.values() for finding in of_one.values()]
        if untraced:
            findings = sorted([*findings, *untraced], key=lambda finding: finding.line or 0)
        return LintReport(self.source, tuple(findings), self.cases, self.without_expectation, self.without_tools)

    def _check_entry(self, entry: Entry) -> Iterator[LintFinding]:
        document = entry.document
        if entry.problems:
            if document.line is not None or document.item is not None:  # else it has only the problems of the file
                self.cases += 1
            yield from map(LintFinding.unreadable, entry.problems)
            if isinstance(document.value, dict):  # others may still have its id
                yield from self._check_id(document.value.get("id"), document)
        for case in entry.cases:
            self.cases += 1
            untraced: dict[str, LintFinding] = {}
            seen = _seen_in(case)
            for finding in self._check_case(case, document, seen):
                # A finding about the schema of a tool is reported for the first case only.
                if finding.kind is LintKind.SCHEMA:
                    if finding.message in self.reported_schemas:
                        continue
                    self.reported_schemas.add(finding.message)
                located = replace(finding, line=document.line)
                if finding.kind is LintKind.UNTRACED:
                    untraced[finding.message] = located
                else:
                    yield located
            if seen is not None:
                self._add_untraced(_json_of(case), untraced)

    def _add_untraced(self, case: JsonObject, untraced: dict[str, LintFinding]) -> None:
        """Keep the values that no other run with the same expectation knew either."""
        key = canonical_json([part.get("expected_tools") for part in (case, *case.get("turns", ()))])
        earlier = self.untraced.setdefault(key, untraced)
        self.untraced[key] = {message: earlier[message] for message in earlier if message in untraced}

    def _check_case(self, case: AnyCase | Golden, document: Document, seen: SeenValues | None) -> Iterator[LintFinding]:
        yield from self._check_id(case.id, document)
        spot = _spot(document)
        yield from check_placeholder(case.expected_output, spot.at("expected_output"))
        turns = _turns_in(case, spot)
        yield from check_turns(case, turns, spot)
        yield from check_idle(case, spot)
        if isinstance(case, Golden) and isinstance(case.user, SimulatedUser):
            yield from check_user(case, case.user, spot.at("user"))
        stating: list[tuple[AnyCase | Golden | Turn | UserTurn, Spot]] = [(case, spot), *turns]
        for one, where in stating:
            for index, text in enumerate(one.required_texts):
                yield from check_placeholder(text, where.at("required_texts", index))
        if all(one.expected_tools is None for one, _ in stating):
            self.without_expectation += 1
            return
        tools = self.tools if self.tools.specs is not None else self.tools.of(case.available_tools)
        if tools.specs is None:
            self.without_tools += 1
        findings: list[LintFinding] = []
        with CaseBudget():
            for one, where in stating:
                if one.expected_tools is not None:
                    called = getattr(one, "tools_called", None) or ()
                    findings += check_expectation(one.expected_tools, where.at("expected_tools"), tools, called, seen)
        yield from findings

    def _check_id(self, case_id: object, document: Document) -> Iterator[LintFinding]:
        """Yield a finding if an earlier case has the same id."""
        if not isinstance(case_id, str):
            return
        earlier = self.ids.setdefault(case_id, document.place)
        if earlier != document.place:
            message = f"the id {case_id!r} is already used by {earlier}"
            yield LintFinding(LintKind.DUPLICATE_ID, _spot(document).at("id").path, message, line=document.line)


def _seen_in(case: AnyCase | Golden) -> SeenValues | None:
    """Return what the agent saw in the recording of a case; `None` without a recording that has all outputs."""
    run = None if isinstance(case, Golden) else as_case(case)
    calls = run.tools_called if run is not None else None
    if run is None or not calls or any(is_unrecorded(call) or not call.captured("output") for call in calls):
        return None
    return SeenValues(events_of(run, calls))


def _json_of(case: AnyCase | Golden) -> JsonObject:
    """Return the JSON form of a case, without a function that is its user."""
    is_function = isinstance(case, Golden) and callable(case.user)
    return (case.model_copy(update={"user": None}) if is_function else case).to_dict()


def _turns_in(case: AnyCase | Golden, spot: Spot) -> list[tuple[Turn | UserTurn, Spot]]:
    """Return the texts of the user in a conversation, each with its location."""
    turns = [] if isinstance(case, (LLMTestCase, MLLMTestCase)) else case.turns or []
    places = [(turn, spot.at("turns", index)) for index, turn in enumerate(turns)]
    return [
        (turn, where)
        for turn, where in places
        if isinstance(turn, UserTurn) or (isinstance(turn, Turn) and turn.role == "user")
    ]


def _spot(document: Document) -> Spot:
    """Return the location of a document in its file."""
    return Spot(document.value, () if document.item is None else (document.item,))
