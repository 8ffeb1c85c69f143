"""The Berkeley Function Calling Leaderboard: its questions as goldens, its possible answers as expectations.

Single-turn answers list the acceptable values of each argument, and `""` among them means that it may be left out;
multi-turn answers are texts of Python calls. docs/coming-from/bfcl.md lists the differences.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, Final, TypeAlias

from toolgrade._internal.json import JsonObject, json_path, short_repr, to_json_value, within_limits
from toolgrade.calls import ToolCallParams, ToolSpec
from toolgrade.dataset import FileProblems, Golden, file_error, problems_of, read_documents, source_name
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError, Problem, ToolgradeWarning
from toolgrade.expect import Absent, AnyOf, Expect, Matcher, Normalized, Optional, Plan
from toolgrade.matching.argument_pattern import fits
from toolgrade.metrics.tool_correctness import ToolCorrectnessMetric

DROPPED: Final = " ,./-_*^"
"""Characters that BFCL removes from texts before it compares them."""

_Path: TypeAlias = "tuple[str | int, ...]"

_ARGUMENT_DEPTH: Final = 4
"""Length of the path of an argument; longer ones lead into objects, where the data have some values without a list."""

Records: TypeAlias = "str | os.PathLike[str] | Iterable[Mapping[str, Any]]"
"""A file of JSON Lines, or the records themselves."""

FunctionDocs: TypeAlias = "str | os.PathLike[str] | Mapping[str, Sequence[Mapping[str, Any]]]"
"""The folder `multi_turn_func_doc`, or lists of functions by their class."""

_TYPES: Final = {
    **{name: name for name in ("array", "boolean", "integer", "null", "number", "object", "string")},
    "dict": "object",
    "float": "number",
    "tuple": "array",
}
_ANY: Final = "any"
_SCHEMA_KEYS: Final = ("items", "additionalProperties", "anyOf", "oneOf", "allOf")

NONE: Final = "None"
"""Text for a default of None in the descriptions."""

_FILES: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MemoryAPI_kv": "memory_kv",
    "MemoryAPI_rec_sum": "memory_rec_sum",
    "MemoryAPI_vector": "memory_vector",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
    "WebSearchAPI": "web_search",
}

_PARSE_ERRORS = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)

__all__ = ["cases_from_bfcl", "metric", "read_possible_answers", "read_turns", "tools_from_bfcl"]


def metric(*, partial_credit: bool = False) -> ToolCorrectnessMetric:
    """Return the metric for BFCL's single-turn answers: each call once, in any order, and no other.

    Args:
        partial_credit: Score the share of correct calls and arguments, of the longer of the two lists. Otherwise a case
            scores 1 if everything is correct, else 0, so that the mean over cases is BFCL's accuracy.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.bfcl import metric
        >>> weather, flight = ToolCall(name="get_weather"), ToolCall(name="book_flight")
        >>> case = LLMTestCase(tools_called=[weather], expected_tools=[weather, flight])
        >>> metric().measure(case).score, metric(partial_credit=True).measure(case).score
        (0.0, 0.5)
    """
    params = [ToolCallParams.INPUT_PARAMETERS]
    return ToolCorrectnessMetric(evaluation_params=params, denominator="longest", strict_mode=not partial_credit)


@within_limits
def read_possible_answers(record: Mapping[str, Any], functions: Iterable[Mapping[str, Any]] = ()) -> Plan:
    """Return the calls that a single-turn answer accepts: each once, in any order, and no other call.

    An argument with `""` among its values may be left out; if all its other values are texts or null, the empty text is
    accepted too, unless its function says otherwise. Texts are compared as in BFCL: case-insensitive, and without
    spaces and `,./-_*^`; quotation marks of either kind are equal. The values of an object are again lists of
    acceptable values, at any depth, also in lists of objects; there, any other value is the only acceptable one. An
    argument without any acceptable value may be left out or `[]`.

    Args:
        record: An object with `ground_truth`, a list of `{name: {argument: [values]}}`.
        functions: The available functions, as BFCL describes them; without them, any argument may be text.

    Raises:
        InvalidDataError: The record is not such an object; `problems` lists every place.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.bfcl import metric, read_possible_answers
        >>> record = {"ground_truth": [{"get_weather": {"city": ["Paris", "Paris, France"], "unit": ["celsius", ""]}}]}
        >>> plan = read_possible_answers(record)  # either text will do, and the unit may be left out
        >>> called = ToolCall(name="get_weather", input_parameters={"city": "paris france"})
        >>> metric().measure(LLMTestCase(tools_called=[called], expected_tools=plan)).score
        1.0
    """
    descriptions = _argument_descriptions(functions)
    reader = _AnswerReader()
    calls: list[Expect] = []
    for index, entry in enumerate(_ground_truth(record)):
        path: _Path = ("ground_truth", index)
        if not isinstance(entry, Mapping) or [isinstance(value, Mapping) for value in entry.values()] != [True]:
            reader.problem(path, "expected one name with its arguments, {name: {argument: [values]}}", entry)
            continue
        ((name, arguments),) = entry.items()
        calls.append(Expect(name, reader.accepted_object(arguments, (*path, name), descriptions.get(name, {}))))
    _raise_problems(reader.problems)
    return Plan(calls, allow_extra=False)


@within_limits
def read_turns(record: Mapping[str, Any], functions: Iterable[Mapping[str, Any]]) -> list[Plan]:
    """Return the calls expected in each turn of a multi-turn answer, which are texts such as `cd(folder='a')`.

    The texts are parsed, never executed. Positional arguments get their names from the functions. An argument whose
    function documents a default may have that value or be left out, if the answer has the default or leaves it out.

    Args:
        record: An object with `ground_truth`, a list of lists of texts.
        functions: The available functions, as BFCL describes them.

    Raises:
        InvalidDataError: The record is not such an object; `problems` lists every place.

    Example:
        >>> from toolgrade.compat.bfcl import read_turns
        >>> city = {"city": {"type": "string"}}
        >>> functions = [{"name": name, "parameters": {"properties": city}} for name in ("get_weather", "book_flight")]
        >>> record = {"ground_truth": [["get_weather('Paris')"], ["book_flight(city='Paris')"]]}
        >>> [[(call.name, call.input_parameters) for call in plan.calls] for plan in read_turns(record, functions)]
        [[('get_weather', {'city': 'Paris'})], [('book_flight', {'city': 'Paris'})]]
    """
    descriptions = _argument_descriptions(functions)
    problems: list[Problem] = []
    turns: list[Plan] = []
    for turn, texts in enumerate(_ground_truth(record)):
        calls: list[Expect] = []
        for index, text in enumerate(texts if isinstance(texts, (list, tuple)) else [texts]):
            try:
                name, arguments = read_call(text, descriptions)
            except InvalidDataError as error:
                problems.append(Problem(json_path(("ground_truth", turn, index)), str(error)))
            else:
                calls.append(Expect(name, {**arguments, **_defaults(arguments, descriptions.get(name, {}))}))
        turns.append(Plan(calls))
    _raise_problems(problems)
    return turns


@within_limits
def cases_from_bfcl(questions: Records, answers: Records, *, function_docs: FunctionDocs | None = None) -> list[Golden]:
    """Return the questions of a category with their possible answers as goldens.

    A golden has the id of its question, the user's text as `input`, the functions as `available_tools`, and the answer
    as `expected_tools`. Each turn of a multi-turn question is a golden, `id/1` and so on, with `bfcl_id` and `turn` in
    its `metadata`. If the question has messages of other roles, all messages are in `metadata["messages"]`.

    Args:
        questions: A file such as `BFCL_v4_parallel.jsonl`, or its records.
        answers: The file of the same name in `possible_answer`, or its records.
        function_docs: Descriptions of the functions; needed for multi-turn questions.

    Raises:
        DataFileError: Something cannot be read, or a question has no answer; `problems` lists everything.
        ConfigurationError: `function_docs` lacks the functions of a class.
        OSError: A file cannot be read.

    Example:
        >>> from toolgrade.compat.bfcl import cases_from_bfcl
        >>> city = {"city": {"type": "string"}}
        >>> function = {"name": "get_weather", "parameters": {"type": "dict", "properties": city}}
        >>> message = {"role": "user", "content": "What is the weather in Paris?"}
        >>> questions = [{"id": "simple_0", "question": [[message]], "function": [function]}]
        >>> answers = [{"id": "simple_0", "ground_truth": [{"get_weather": {"city": ["Paris"]}}]}]
        >>> [golden] = cases_from_bfcl(questions, answers)
        >>> golden.id, golden.input, golden.available_tools[0].name
        ('simple_0', 'What is the weather in Paris?', 'get_weather')
    """
    question_records = records_of(questions, "questions")
    answers_by_id = {str(record.value.get("id")): record for record in records_of(answers, "answers")}
    functions_of_class = class_functions(function_docs)
    goldens: list[Golden] = []
    problems = _RecordProblems()
    for question in question_records:
        answer = answers_by_id.get(str(question.value.get("id")))
        if answer is None:
            problems.add(question, [Problem("$.id", f"{question.value.get('id')!r} has no answer")])
            continue
        with problems.collected(question):
            functions = functions_of(question.value, functions_of_class)
            tools = tools_from_bfcl(functions)
            turns = _turns_of(question.value)
            with problems.collected(answer):
                plans = _plans(answer.value, functions, turns=len(turns))
                goldens += _goldens(str(question.value["id"]), turns, plans, tools, has_turns=_has_turns(answer.value))
    problems.check()
    return goldens


def tools_from_bfcl(functions: Iterable[Mapping[str, Any]]) -> list[ToolSpec]:
    """Return BFCL's function descriptions as tools with JSON Schemas.

    The types `dict`, `float` and `tuple` become `object`, `number` and `array`; `any` is left out. An argument whose
    default is null or "None" may be null. Arguments without a description are not accepted, as in BFCL. An unknown type
    is left out with a `ToolgradeWarning`.

    Raises:
        InvalidDataError: A function has no name, or its parameters are not an object.

    Example:
        >>> from toolgrade.compat.bfcl import tools_from_bfcl
        >>> days = {"days": {"type": "float"}}
        >>> function = {"name": "get_weather", "parameters": {"type": "dict", "properties": days}}
        >>> [tool] = tools_from_bfcl([function])
        >>> tool.name, tool.input_schema["properties"]
        ('get_weather', {'days': {'type': 'number'}})
    """
    return [_tool(function) for function in functions]


class _RecordProblems:
    """Problems of the records of several files."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.problems: list[Problem] = []

    def add(self, record: Record, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.texts.append(f"{record.place}: {problem}")
            self.problems.append(Problem(problem.path, problem.message, record.line))

    @contextmanager
    def collected(self, record: Record) -> Generator[None, None, None]:
        """Collect the problems of a record instead of raising them."""
        try:
            yield
        except InvalidDataError as error:
            self.add(record, problems_of(error))

    def check(self) -> None:
        if self.problems:
            raise DataFileError("\n".join(self.texts), self.problems)


def _argument_descriptions(functions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the descriptions of the arguments by the name of the function."""
    descriptions: dict[str, Mapping[str, Any]] = {}
    for index, function in enumerate(functions):
        if not isinstance(function, Mapping):
            raise _problem(f"$.functions[{index}]", f"expected an object, got {short_repr(function)}")
        descriptions[str(function.get("name"))] = properties_of(function.get("parameters"))
    return descriptions


def _raise_problems(problems: Sequence[Problem]) -> None:
    if problems:
        raise InvalidDataError("\n".join(map(str, problems)), problems)


def _problem(path: str, message: str) -> InvalidDataError:
    return InvalidDataError(message, [Problem(path, message)])


def _ground_truth(record: Mapping[str, Any]) -> Sequence[Any]:
    if not isinstance(record, Mapping):
        raise _problem("$", f"expected an object with 'ground_truth', got {short_repr(record)}")
    truth = record.get("ground_truth")
    if isinstance(truth, (list, tuple)):
        return truth
    raise _problem("$.ground_truth", f"expected a list of calls, got {short_repr(truth)}")


class _AnswerReader:
    """Reader of acceptable values that collects all problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def problem(self, path: _Path, expected: str, value: object) -> None:
        self.problems.append(Problem(json_path(path), f"{expected}, got {short_repr(value)}"))

    def accepted_object(self, lists: Mapping[str, Any], path: _Path, descriptions: Mapping[str, Any]) -> dict[str, Any]:
        """Return an expected object from lists of acceptable values."""
        return {key: self.accepted(values, (*path, key), descriptions.get(key)) for key, values in lists.items()}

    def accepted(self, values: object, path: _Path, description: object) -> Any:  # noqa: ANN401 - a value or a matcher
        """Return the matcher for a list of acceptable values."""
        if not isinstance(values, (list, tuple)):
            if len(path) == _ARGUMENT_DEPTH:
                self.problem(path, "expected a list of acceptable values", values)
                return None
            values = [values]
        if not values:  # the author meant an empty list, although BFCL itself accepts nothing here
            return Optional([])
        alternatives: list[Any] = []
        for index, value in enumerate(values):
            if value != "":
                alternatives += self.alternatives(value, (*path, index), description)
        if "" not in values:
            return _any_of(alternatives)
        if _is_text(values) and accepts_empty_text(description):
            alternatives.append(Normalized("", drop=DROPPED))
        return Optional(_any_of(alternatives)) if alternatives else Absent()

    def alternatives(self, value: Any, path: _Path, description: object) -> list[Any]:  # noqa: ANN401 - as above
        """Return the values and matchers that one acceptable value stands for."""
        if isinstance(value, Mapping):
            return [self.accepted_object(value, path, properties_of(description))]
        if _is_list_of_objects(value):
            items = properties_of(description.get("items")) if isinstance(description, Mapping) else {}
            return [[self.accepted_object(item, (*path, index), items) for index, item in enumerate(value)]]
        if not _contains_text(value):
            return [value]
        # BFCL treats both kinds of quotation marks as equal.
        spellings = [value, _replace(value, "'", '"'), _replace(value, '"', "'")]
        unique = {repr(spelling): spelling for spelling in spellings}
        return [Normalized(spelling, drop=DROPPED) for spelling in unique.values()]


def _any_of(alternatives: Sequence[Any]) -> Any:  # noqa: ANN401 - as above
    return alternatives[0] if len(alternatives) == 1 else AnyOf(*alternatives)


def _is_text(values: Sequence[object]) -> bool:
    return all(isinstance(value, (str, NoneType)) for value in values)


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, (list, tuple)) and {isinstance(item, Mapping) for item in value} == {True}


def _contains_text(value: object) -> bool:
    return any(map(_contains_text, value)) if isinstance(value, (list, tuple)) else isinstance(value, str)


def _replace(value: Any, old: str, new: str) -> Any:  # noqa: ANN401 - as above
    """Return a text, or a list of texts at any depth, with a character replaced."""
    if isinstance(value, (list, tuple)):
        return [_replace(item, old, new) for item in value]
    return value.replace(old, new) if isinstance(value, str) else value


def _defaults(arguments: Mapping[str, Any], descriptions: Mapping[str, Any]) -> dict[str, Matcher]:
    """Return matchers for the arguments that may be left out, because the answer has their default or none."""
    matchers: dict[str, Matcher] = {}
    for name, description in descriptions.items():
        if not isinstance(description, Mapping) or "default" not in description:
            continue
        default = description["default"]
        accepted = AnyOf(None, NONE) if default == NONE else default
        if name not in arguments or fits(accepted, arguments[name]):
            matchers[name] = Optional(accepted)
    return matchers


def _turns_of(question: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """Return the messages of each turn."""
    turns = question.get("question")
    if isinstance(turns, list) and {isinstance(turn, list) for turn in turns} == {True}:
        return turns
    raise _problem("$.question", f"expected a list of turns, which are lists of messages, got {short_repr(turns)}")


def _plans(answer: Mapping[str, Any], functions: Sequence[Mapping[str, Any]], *, turns: int) -> list[Plan]:
    plans = read_turns(answer, functions) if _has_turns(answer) else [read_possible_answers(answer, functions)]
    if len(plans) != turns:
        raise _problem("$.ground_truth", f"has {len(plans)} turns, but the question has {turns}")
    return plans


def _has_turns(answer: Mapping[str, Any]) -> bool:
    return any(isinstance(entry, (list, tuple)) for entry in _ground_truth(answer))


def _goldens(
    question_id: str,
    turns: Sequence[Sequence[Mapping[str, Any]]],
    plans: Sequence[Plan],
    tools: list[ToolSpec],
    *,
    has_turns: bool,
) -> Iterator[Golden]:
    """Yield the golden of each turn; the turns of a multi-turn question are counted from 1."""
    for number, (messages, plan) in enumerate(zip(turns, plans, strict=True), 1):
        fields: dict[str, Any] = {"id": question_id}
        if has_turns:
            fields = {"id": f"{question_id}/{number}", "metadata": {"bfcl_id": question_id, "turn": number}}
        texts = [str(message.get("content")) for message in messages if message.get("role") == "user"]
        if len(messages) > len(texts):
            fields.setdefault("metadata", {})["messages"] = [dict(message) for message in messages]
        yield Golden(input="\n\n".join(texts), expected_tools=plan, available_tools=tools, **fields)


@dataclass(frozen=True)
class Record:
    """A record with its place for error messages."""

    value: Mapping[str, Any]
    place: str
    line: int | None


def records_of(source: Records, what: str) -> list[Record]:
    """Return records, or those of a file.

    Raises:
        DataFileError: Lines cannot be read, or are not objects; `problems` lists all of them.
        OSError: The file cannot be read.
    """
    if not isinstance(source, (str, os.PathLike)):
        return [Record(value, f"{what}[{index}]", None) for index, value in enumerate(source)]
    problems = FileProblems()
    name = source_name(source)
    records = [
        Record(value, f"{name}:{document.line or document.place}", document.line)
        for document, value in problems.read(read_documents(source), _object)
    ]
    unreadable = [*problems.problems, *problems.torn]
    if unreadable:
        raise file_error(source, unreadable)
    return records


def _object(value: Any, _place: str) -> Mapping[str, Any]:  # noqa: ANN401 - a JSON value
    if not isinstance(value, dict):
        raise InvalidDataError.of(f"expected an object, got {short_repr(value)}")
    return value


def _tool(function: Mapping[str, Any]) -> ToolSpec:
    parameters = function.get("parameters")
    fields: dict[str, Any] = {key: function[key] for key in ("name", "description") if key in function}
    if isinstance(parameters, Mapping):
        fields["input_schema"] = {"additionalProperties": False, **_schema(parameters, str(function.get("name")))}
    elif parameters is not None:
        message = f"the parameters of {function.get('name')!r} must be an object, got {short_repr(parameters)}"
        raise InvalidDataError(message)
    return ToolSpec(**fields)


def _schema(description: Any, tool: str) -> Any:  # noqa: ANN401 - a schema may be true or false
    """Return the JSON Schema of a description, or of each in a list of them, at any depth."""
    if isinstance(description, list):
        return [_schema(inner, tool) for inner in description]
    if not isinstance(description, Mapping):
        return description
    schema: JsonObject = dict(description)
    _translate_type(schema, tool)
    if schema.get("default", "") in (None, NONE):
        _allow_null(schema)
    for key in _SCHEMA_KEYS:
        if key in schema:
            schema[key] = _schema(schema[key], tool)
    if isinstance(schema.get("properties"), Mapping):
        schema["properties"] = {name: _schema(inner, tool) for name, inner in schema["properties"].items()}
    return schema


def _translate_type(schema: JsonObject, tool: str) -> None:
    name = schema.pop("type", _ANY)
    if isinstance(name, list):
        types: Any = [_TYPES[one] for one in name if one in _TYPES]
    else:
        types = _TYPES.get(name)
    if types:
        schema["type"] = types
    elif name not in (None, _ANY):
        message = f"the type {name!r} of an argument of {tool!r} is unknown, and was left out"
        warnings.warn(message, ToolgradeWarning, stacklevel=2)


def _allow_null(schema: JsonObject) -> None:
    """Let an argument be null: for Python a null default is the same as leaving the argument out."""
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("enum"), list):
        schema["enum"] = [*schema["enum"], None]


def class_functions(docs: FunctionDocs | None) -> Callable[[str], Sequence[Mapping[str, Any]]]:
    """Return a function that returns the functions of a class; a file is read when its class is first needed.

    It raises `ConfigurationError` if the class is not in `docs`.
    """

    @cache
    def functions(name: str) -> Sequence[Mapping[str, Any]]:
        if isinstance(docs, Mapping) and name in docs:
            return docs[name]
        if isinstance(docs, (str, os.PathLike)):
            for suffix in (".json", ".jsonl"):
                path = Path(docs) / f"{_FILES.get(name, name)}{suffix}"
                if path.is_file():
                    return [record.value for record in records_of(path, name)]
        message = f"function_docs does not contain the functions of {name!r}"
        raise ConfigurationError(f"{message}; give BFCL's folder multi_turn_func_doc")

    return functions


def functions_of(
    question: Mapping[str, Any], functions_of_class: Callable[[str], Iterable[Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    """Return the functions available for a question.

    Raises:
        ConfigurationError: The functions of a class that it names are missing.
        InvalidDataError: They are not objects with a name.
    """
    if "function" in question:
        functions: Any = question["function"]
    else:
        functions = list(chain.from_iterable(map(functions_of_class, question.get("involved_classes", ()))))
    if not isinstance(functions, list) or not all(map(_is_function, functions)):
        message = f"expected a list of functions, which are objects with a name, got {short_repr(functions)}"
        raise InvalidDataError(message, [Problem("$.function", message)])
    excluded = set(question.get("excluded_function", ()))
    return [function for function in functions if function["name"] not in excluded]


def _is_function(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value.get("name"))


def properties_of(description: object) -> Mapping[str, Any]:
    """Return the descriptions of an object's keys; none if it is not an object."""
    properties = description.get("properties") if isinstance(description, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def accepts_empty_text(description: object) -> bool:
    """Return whether an argument may be the empty text; true without a description."""
    if not isinstance(description, Mapping):
        return True
    kind, values = description.get("type"), description.get("enum")
    return kind in (None, "string", _ANY) and (not isinstance(values, list) or "" in values)


def read_call(text: object, parameters: Mapping[str, Collection[str]]) -> tuple[str, JsonObject]:
    """Return the name and the arguments of a call; its arguments must be literals.

    `parameters` holds the parameter names of each function in order, for positional arguments.

    Raises:
        InvalidDataError: The text is not such a call, or its arguments are ambiguous.
    """
    quote = short_repr(text)
    name, call = _parse_call(text, quote)
    names = list(parameters.get(name, ()))
    if len(call.args) > len(names):
        problem = f"has {len(names)} parameters" if name in parameters else "has no description"
        raise InvalidDataError(f"{quote} has {len(call.args)} positional arguments, but {name!r} {problem}")
    values: list[tuple[str | None, ast.expr]] = [*zip(names, call.args, strict=False)]
    values += [(keyword.arg, keyword.value) for keyword in call.keywords]
    return name, _literals(values, quote)


def _parse_call(text: object, quote: str) -> tuple[str, ast.Call]:
    if not isinstance(text, str):
        raise InvalidDataError(f"expected the text of a call, got {quote}")
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except _PARSE_ERRORS as error:
        raise InvalidDataError(f"expected a Python expression, got {quote}: {error}") from None
    if isinstance(call, ast.Call) and (name := _dotted_name(call.func)):
        return name, call
    raise InvalidDataError(f"expected a call of a named function, got {quote}")


def _literals(values: Iterable[tuple[str | None, ast.expr]], quote: str) -> JsonObject:
    arguments: JsonObject = {}
    for key, value in values:
        if key is None:
            raise InvalidDataError(f"{quote} has '**' arguments; write them out")
        if key in arguments:
            raise InvalidDataError(f"{quote} has the argument {key!r} twice")
        try:
            arguments[key] = to_json_value(ast.literal_eval(value))
        except _PARSE_ERRORS:
            raise InvalidDataError(f"{quote} has an argument that is not a literal") from None
    return arguments


def _dotted_name(node: ast.expr) -> str | None:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(attributes)]) if isinstance(node, ast.Name) else None
