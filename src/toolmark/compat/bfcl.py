"""The Berkeley Function Calling Leaderboard: its questions as goldens, its possible answers as expectations.

Its single-turn answers list the acceptable values of each argument, and `""` among them says that it may be left out;
those of its multi-turn questions are the texts of Python calls. docs/compat.md says where toolmark differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from toolmark._internal.json import json_path, short_repr
from toolmark.calls import ToolCallParams, ToolSpec
from toolmark.cases import Golden
from toolmark.compat._bfcl_files import (
    NONE,
    Docs,
    FunctionDocs,
    Record,
    Records,
    functions_of,
    properties_of,
    records_of,
    takes_empty_text,
    tools_from_bfcl,
)
from toolmark.compat._python_calls import read_call
from toolmark.dataset import problems_of
from toolmark.errors import DataFileError, InvalidDataError, Problem
from toolmark.expect import Absent, AnyOf, Expect, Matcher, Normalized, Optional, Plan
from toolmark.matching.json_compare import json_equal
from toolmark.metrics.tool_correctness import ToolCorrectnessMetric

DROPPED: Final = " ,./-_*^"
"""Characters that BFCL leaves out of texts before it compares them."""

__all__ = [
    "DROPPED",
    "FunctionDocs",
    "Records",
    "cases_from_bfcl",
    "metric",
    "read_possible_answers",
    "read_turns",
    "tools_from_bfcl",
]


def metric(*, partial_credit: bool = False) -> ToolCorrectnessMetric:
    """Return the metric by which BFCL's single-turn answers are scored: each call once, in any order, and no other.

    Args:
        partial_credit: The share of calls and arguments that are right, of the longer of the two lists. Otherwise a
            case scores 1 if all is right, else 0, so that the mean over cases is BFCL's accuracy.
    """
    params = [ToolCallParams.INPUT_PARAMETERS]
    return ToolCorrectnessMetric(evaluation_params=params, denominator="longest", strict_mode=not partial_credit)


def read_possible_answers(record: Mapping[str, Any], functions: Iterable[Mapping[str, Any]] = ()) -> Plan:
    """Return what a single-turn answer accepts: its calls, each once, in any order, and no other call.

    An argument with `""` among its values may be left out; where all its other values are texts or null, the empty text
    itself will do too, unless its function says otherwise. Texts are compared as BFCL does: in any case, and without
    spaces and `,./-_*^`; one with quotation marks may have the other kind in their place. The values of an object are
    lists of acceptable values again, at any depth, also in lists of objects. An argument with no acceptable value at
    all may be left out or `[]`.

    Args:
        record: An object with `ground_truth`, a list of `{name: {argument: [values]}}`.
        functions: The functions that can be called, as BFCL describes them; left out, any argument may be text.

    Raises:
        InvalidDataError: It is none; `problems` has every place that is wrong.
    """
    described = {str(function.get("name")): properties_of(function.get("parameters")) for function in functions}
    problems: list[Problem] = []
    calls: list[Expect] = []
    for index, entry in enumerate(_truth(record)):
        path: tuple[str | int, ...] = ("ground_truth", index)
        if not isinstance(entry, Mapping) or len(entry) != 1 or not all(map(isinstance, entry.values(), [Mapping])):
            message = f"expected one name with its arguments, {{name: {{argument: [values]}}}}, got {short_repr(entry)}"
            problems.append(Problem(json_path(path), message))
            continue
        ((name, arguments),) = entry.items()
        try:
            calls.append(Expect(name, _object(arguments, (*path, name), described.get(name, {}))))
        except InvalidDataError as error:
            problems.extend(problems_of(error))
    _raise(problems)
    return Plan(calls, allow_extra=False)


def read_turns(record: Mapping[str, Any], functions: Iterable[Mapping[str, Any]]) -> list[Plan]:
    """Return what is expected in each turn of a multi-turn answer, whose calls are texts such as `cd(folder='a')`.

    The texts are parsed, never run. Positional arguments get their names from the functions. An argument for which the
    function documents a default may have that value or be left out, wherever the answer has it or leaves it out.

    Args:
        record: An object with `ground_truth`, a list of lists of texts.
        functions: The functions that can be called, as BFCL describes them.

    Raises:
        InvalidDataError: It is none; `problems` has every place that is wrong.
    """
    properties = {str(function.get("name")): properties_of(function.get("parameters")) for function in functions}
    problems: list[Problem] = []
    turns: list[Plan] = []
    for turn, texts in enumerate(_truth(record)):
        calls: list[Expect] = []
        for index, text in enumerate(texts if isinstance(texts, (list, tuple)) else [texts]):
            try:
                name, arguments = read_call(text, properties)
            except InvalidDataError as error:
                problems.append(Problem(json_path(("ground_truth", turn, index)), str(error)))
            else:
                calls.append(Expect(name, {**arguments, **_defaults(arguments, properties.get(name, {}))}))
        turns.append(Plan(calls))
    _raise(problems)
    return turns


def cases_from_bfcl(questions: Records, answers: Records, *, function_docs: FunctionDocs | None = None) -> list[Golden]:
    """Return the questions of a category with their possible answers as goldens.

    A golden has the id of its question, what the user says as `input`, the functions as `available_tools`, and the
    answer as `expected_tools`. Each turn of a multi-turn question is a golden of its own, `id/1` and so on, with
    `bfcl_id` and `turn` in its `metadata`. Where more was said than by the user, all is in `metadata["messages"]`.

    Args:
        questions: A file such as `BFCL_v4_parallel.jsonl`, or its records.
        answers: The file of the same name in `possible_answer`, or its records.
        function_docs: For multi-turn questions: where the functions are described.

    Raises:
        DataFileError: Something cannot be read, or a question has no answer; `problems` has all of it.
        ConfigurationError: `function_docs` is needed and lacks the functions of a class.
        OSError: A file cannot be read.
    """
    asked, answered = records_of(questions, "questions"), records_of(answers, "answers")
    by_id = {str(record.value.get("id")): record for record in answered}
    docs = Docs(function_docs)
    goldens: list[Golden] = []
    problems: list[tuple[Record, Problem]] = []
    for question in asked:
        answer = by_id.get(str(question.value.get("id")))
        if answer is None:
            problems.append((question, Problem("$.id", f"{question.value.get('id')!r} has no answer")))
            continue
        at = question
        try:
            functions = functions_of(question.value, docs)
            tools = tools_from_bfcl(functions)
            messages = _messages(question.value)
            at = answer
            plans = _plans(answer.value, functions, turns=len(messages))
        except InvalidDataError as error:
            problems.extend((at, problem) for problem in problems_of(error))
        else:
            goldens += _goldens(str(question.value["id"]), messages, plans, tools, numbered=_in_turns(answer.value))
    if problems:
        lines = [f"{record.place}: {problem}" for record, problem in problems]
        raise DataFileError("\n".join(lines), [Problem(one.path, one.message, record.line) for record, one in problems])
    return goldens


def _raise(problems: Sequence[Problem]) -> None:
    if problems:
        raise InvalidDataError("\n".join(map(str, problems)), problems)


def _truth(record: Mapping[str, Any]) -> Sequence[Any]:
    truth = record.get("ground_truth")
    if isinstance(truth, (list, tuple)):
        return truth
    message = f"expected a list of calls, got {short_repr(truth)}"
    raise InvalidDataError(message, [Problem("$.ground_truth", message)])


def _object(lists: Mapping[str, Any], path: tuple[str | int, ...], described: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object whose values are lists of acceptable ones."""
    problems = [
        Problem(json_path((*path, key)), f"expected a list of acceptable values, got {short_repr(values)}")
        for key, values in lists.items()
        if not isinstance(values, (list, tuple))
    ]
    _raise(problems)
    return {key: _accepted(values, (*path, key), described.get(key)) for key, values in lists.items()}


def _accepted(values: Sequence[Any], path: tuple[str | int, ...], described: object) -> Any:  # noqa: ANN401 - a value or a matcher
    if not values:  # whoever wrote it meant an empty list; BFCL itself accepts nothing here
        return Optional([])
    named = [value for value in values if value != ""]
    wanted = [one for index, value in enumerate(named) for one in _value(value, (*path, index), described)]
    may_lack = len(named) < len(values)
    if may_lack and all(value is None or isinstance(value, str) for value in named) and takes_empty_text(described):
        wanted.append(Normalized("", drop=DROPPED))
    if not wanted:
        return Absent()
    accepted = wanted[0] if len(wanted) == 1 else AnyOf(*wanted)
    return Optional(accepted) if may_lack else accepted


def _value(value: Any, path: tuple[str | int, ...], described: object) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield what an acceptable value accepts."""
    if isinstance(value, Mapping):
        yield _object(value, path, properties_of(described))
    elif isinstance(value, (list, tuple)) and value and all(isinstance(item, Mapping) for item in value):
        inside = properties_of(described.get("items")) if isinstance(described, Mapping) else {}
        yield [_object(item, (*path, index), inside) for index, item in enumerate(value)]
    elif not _holds(value, str):
        yield value
    else:
        spelled = [value, *(_respelled(value, a, b) for a, b in ("'\"", "\"'"))]
        yield from (Normalized(one, drop=DROPPED) for at, one in enumerate(spelled) if one not in spelled[:at])


def _holds(value: object, kind: type) -> bool:
    return any(_holds(item, kind) for item in value) if isinstance(value, (list, tuple)) else isinstance(value, kind)


def _respelled(value: Any, old: str, new: str) -> Any:  # noqa: ANN401 - as above
    """Return a text, or a list of them, with another kind of quotation marks: BFCL takes both for one."""
    if isinstance(value, (list, tuple)):
        return [_respelled(item, old, new) for item in value]
    return value.replace(old, new) if isinstance(value, str) else value


def _defaults(given: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Matcher]:
    """Return what may be left out, since the function takes it for granted."""
    found: dict[str, Matcher] = {}
    for name, described in properties.items():
        if not isinstance(described, Mapping) or "default" not in described:
            continue
        defaults = [None, NONE] if described["default"] == NONE else [described["default"]]
        if name not in given or any(json_equal(default, given[name]) for default in defaults):
            found[name] = Optional(AnyOf(*defaults) if len(defaults) > 1 else defaults[0])
    return found


def _messages(question: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    turns = question.get("question")
    if isinstance(turns, list) and turns and all(isinstance(turn, list) for turn in turns):
        return turns
    message = f"expected a list of turns, which are lists of messages, got {short_repr(turns)}"
    raise InvalidDataError(message, [Problem("$.question", message)])


def _plans(answer: Mapping[str, Any], functions: Sequence[Mapping[str, Any]], *, turns: int) -> list[Plan]:
    plans = read_turns(answer, functions) if _in_turns(answer) else [read_possible_answers(answer, functions)]
    if len(plans) != turns:
        message = f"has {len(plans)} turns, where the question has {turns}"
        raise InvalidDataError(message, [Problem("$.ground_truth", message)])
    return plans


def _in_turns(answer: Mapping[str, Any]) -> bool:
    return any(isinstance(entry, (list, tuple)) for entry in _truth(answer))


def _goldens(
    id_: str,
    turns: Sequence[Sequence[Mapping[str, Any]]],
    plans: Sequence[Plan],
    tools: list[ToolSpec],
    *,
    numbered: bool,
) -> Iterator[Golden]:
    for number, (messages, plan) in enumerate(zip(turns, plans, strict=True), start=1):
        said = [str(message.get("content")) for message in messages if message.get("role") == "user"]
        fields: dict[str, Any] = {"metadata": {"bfcl_id": id_, "turn": number}} if numbered else {}
        if len(messages) > len(said):
            fields.setdefault("metadata", {})["messages"] = [dict(message) for message in messages]
        yield Golden(
            id=f"{id_}/{number}" if numbered else id_,
            input="\n\n".join(said),
            expected_tools=plan,
            available_tools=tools,
            **fields,
        )
