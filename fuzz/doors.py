"""The doors of toolgrade: for each way in, a writer of random inputs and a check of what must hold of every input.

An input is bytes, so that it can be kept in a file and tried again. Most hold one JSON value, in the dialect of Python,
which has NaN, lone surrogates and integers of any length.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fuzz import conversations, recording, secrets_planted
from fuzz.recorded import message_seeds, trace_seeds
from hostile import VALUES, mutated, mutated_bytes
from hostile_values import KEYWORDS, MATCHERS
from seeds import (
    CASE,
    CASES,
    CONVERSATION,
    GOLDEN,
    MESSAGES,
    PLAN,
    RECORD,
    STEPS,
    STREAM,
    TOOLS,
    lines,
    results_of,
)
from toolgrade import ArgumentSchemaMetric, LLMTestCase, Report, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade._internal.budget import CaseBudget
from toolgrade.cases import ConversationalTestCase, TestCase
from toolgrade.compat.gllm_evals import ToolCallParser
from toolgrade.dataset import Golden
from toolgrade.errors import ToolgradeError
from toolgrade.evaluation import read_results
from toolgrade.expect import Expect, Schema, expectation_json, read_expectation
from toolgrade.formats import case_from_record, read, read_traces
from toolgrade.formats.traces.read import Traces, read_trace_documents
from toolgrade.inputs import Reading, read_cases, read_entries
from toolgrade.judge import Prompt, Reply
from toolgrade.judge.openai.wire import chat_reply, read_object, responses_reply
from toolgrade.judge.prompts import parse_reply
from toolgrade.linting import lint
from toolgrade.linting.run import read_tools
from toolgrade.metrics import ToolEfficiencyMetric, ToolPolicyMetric, ToolRecoveryMetric, ToolSuccessRate
from toolgrade.report.html import render_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.testing import sample_prompt


@dataclass(frozen=True)
class Door:
    """One way into toolgrade.

    Attributes:
        write: Returns a random input.
        check: Hands an input to toolgrade. A `ToolgradeError` is the documented refusal; any other exception, an
            `AssertionError` of the check included, is a fault.
    """

    write: Callable[[random.Random], bytes]
    check: Callable[[bytes], object]


@contextmanager
def _any_json() -> Iterator[None]:
    """Let Python write and read integers of any length, and values of any depth that the mutators make."""
    digits, depth = sys.get_int_max_str_digits(), sys.getrecursionlimit()
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(20_000)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(digits)
        sys.setrecursionlimit(depth)


def _encoded(value: Any) -> bytes:
    with _any_json():
        return json.dumps(value).encode()


def _decoded(data: bytes) -> Any:
    with _any_json():
        return json.loads(data)


def _mutated_json(chance: random.Random, seed: Any, *, changes: int = 3) -> bytes:
    with _any_json():
        return json.dumps(mutated(seed, chance, changes=changes)).encode()


def _mutated_lines(chance: random.Random, *seeds: Any) -> bytes:
    """Return JSON Lines with changes in the values, in the bytes, or in both."""
    in_values = chance.random() < 0.7
    data = b"\n".join(_mutated_json(chance, seed) if in_values else _encoded(seed) for seed in seeds)
    return mutated_bytes(data, chance) if not in_values or chance.random() < 0.3 else data


# What must hold of everything that was read


def _check_case(case: TestCase | ConversationalTestCase | Golden) -> None:
    """Check that a case is written to a file and read again as the same."""
    text = case.to_json()
    again = type(case).from_json(text).to_json()
    assert again == text, f"the case changes when it is written and read: {text} became {again}"


def _check_run(run: Run) -> None:
    _check_case(run.to_test_case())


def _check_score(case: TestCase, metrics: list[Any]) -> Report:
    """Check that every metric gives a result, and that a score is from 0 to 1."""
    report = evaluate([case], metrics, show_progress=False)
    for result in report.cases[0].results:
        assert result.score is None or 0 <= result.score <= 1, f"{result.metric} scored {result.score}"
        unexpected = ("AttributeError", "TypeError", "KeyError", "IndexError", "RecursionError", "ValueError")
        assert not (result.error or "").startswith(unexpected), f"{result.metric} failed: {result.error}"
    return report


def _metrics() -> list[Any]:
    return [
        ToolCorrectnessMetric(),
        ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"], should_consider_ordering=True),
        ArgumentSchemaMetric(),
        ToolEfficiencyMetric(),
        ToolSuccessRate(),
        ToolPolicyMetric(denied=["b*"], required_before={"add": ["look_up"]}),
        ToolRecoveryMetric(),
    ]


def _check_report(report: Report) -> None:
    """Check that a report is rendered in every form, and that its JSON is read again."""
    read_results(io.BytesIO(report.to_json().encode()))
    render_markdown(report, title="x")
    render_junit(report, title="x")
    render_html(report)


# Cases


def _check_record(data: bytes) -> None:
    _check_case(case_from_record(_decoded(data)))


def _check_scores(data: bytes) -> None:
    case = case_from_record(_decoded(data))
    report = _check_score(case, _metrics())
    if len(data) % 8 == 0:  # rendering takes much longer than scoring
        _check_report(report)


def _check_case_file(data: bytes) -> None:
    for case in read_cases(io.BytesIO(data), allow_nan=True):
        _check_case(case)


def _check_fields(data: bytes) -> None:
    """Check a case, a conversation or a golden that is built from its fields."""
    fields = _decoded(data)
    if isinstance(fields, dict):
        model = ConversationalTestCase if "turns" in fields else LLMTestCase if "run" in fields else Golden
        _check_case(model(**fields))


def _check_steps(data: bytes) -> None:
    ToolCallParser().create_tool_call_object(_decoded(data))


def _check_tools(data: bytes) -> None:
    read_tools(io.BytesIO(data))


def _check_lint(data: bytes) -> None:
    lint(io.BytesIO(data), allow_nan=True)


def _write_file(chance: random.Random) -> bytes:
    """Return a file of any kind: one value a line, or one value on several lines."""
    items = [{"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}, STEPS]
    trace = chance.choice(trace_seeds())
    kinds = [[MESSAGES, {"messages": MESSAGES}], MESSAGES, items, [CASE, CONVERSATION, RECORD, GOLDEN], trace]
    values = chance.choice(kinds)
    if chance.random() < 0.8:
        return _mutated_lines(chance, *values)
    with _any_json():
        return json.dumps(mutated(chance.choice([values, values[0]]), chance), indent=1).encode()


def _check_file(data: bytes) -> None:
    """Check that every line is a case, a conversation or a problem in each form, and that nothing disappears."""
    for unit in ("cases", "conversations", "any"):
        for entry in read_entries(io.BytesIO(data), Reading(unit=unit, allow_nan=True)):
            assert bool(entry.cases) != bool(entry.problems), f"expected cases or problems, got {entry}"
            for case in entry.cases:
                _check_case(case)


# Messages and traces


def _check_messages(data: bytes) -> None:
    transcript = read(_decoded(data))
    _check_run(transcript.run)
    _check_case(transcript.conversation)


def _check_traces(data: bytes) -> None:
    for run in read_traces(_decoded(data)).runs:
        _check_run(run)


def _names(traces: Traces) -> Counter[str]:
    """Return how often each tool was called or handed over to, at any depth."""
    names: Counter[str] = Counter()
    calls = [call for run in traces.runs for call in run.calls]
    while calls:
        call = calls.pop()
        names[call.name] += 1
        calls += call.execution.children if call.execution else ()
    return names


def _read_documents(documents: list[Any]) -> Traces:
    return read_trace_documents([(f"line {number}", document) for number, document in enumerate(documents, start=1)])


@cache
def _names_in_seed(number: int) -> dict[str, int]:
    try:
        return dict(_names(_read_documents(trace_seeds()[number])))
    except ToolgradeError:
        return {}


def _write_shuffled_trace(chance: random.Random) -> bytes:
    number = chance.randrange(len(trace_seeds()))
    documents = conversations.shuffled_spans(trace_seeds()[number], chance)
    return _encoded({"names": _names_in_seed(number), "documents": documents})


def _check_shuffled_trace(data: bytes) -> None:
    """Check that a trace has the same calls in whatever order its spans come, and however often."""
    value = _decoded(data)
    traces = _read_documents(value["documents"])
    names = _names(traces)
    has_warning = traces.warnings or any(run.warnings for run in traces.runs)
    assert names == value["names"] or has_warning, f"expected the calls {value['names']}, got {dict(names)}"


# Expectations and schemas


@cache
def _plan_seeds() -> list[Any]:
    matchers = [expectation_json(Expect("a", {"x": matcher})) for matcher in MATCHERS]
    items: list[Any] = [
        {"expect": "a", "label": "first", "times": [0, 2], "optional": True, "output": 1},
        {"parallel": [{"name": "b"}, {"expect": "c", "extra_arguments": True}], "label": "both", "after": ["first"]},
        {"one_of": [{"name": "a"}, [{"expect": "b"}, {"name": "c"}]], "after": ["both"]},
        {"expect": "c", "at": {"x[0]": {"$is": "present"}}},
    ]
    plan = {"plan": items, "allow_extra": False, "tools": {"a": [0, 3]}, "name": "p"}
    return [PLAN, {"plan": items}, plan, {"alternatives": [plan, {"plan": PLAN}]}, *([one] for one in matchers)]


def _check_plan(data: bytes) -> None:
    expectation = read_expectation(_decoded(data))
    plain = expectation_json(expectation)
    assert expectation_json(read_expectation(plain)) == plain
    calls = [ToolCall(name=name, input_parameters={"x": value}) for name in "abc" for value in ("a", [1], {})]
    case = LLMTestCase(tools_called=calls, expected_tools=expectation)
    _check_case(case)
    _check_score(case, [ToolCorrectnessMetric(evaluation_params=["input_parameters"])])


def _write_values(chance: random.Random) -> bytes:
    return _mutated_json(chance, [chance.choice(VALUES) for _ in range(4)])


def _check_matchers(data: bytes) -> None:
    """Check that every matcher decides a value within the limits of one case."""
    value = _decoded(data)
    for matcher in MATCHERS:
        with CaseBudget():
            assert matcher.accepts(value) in (True, False)
            assert matcher.credit(value) in (None, (0, 1), (1, 1))


def _write_schema(chance: random.Random) -> bytes:
    parts = [chance.choice(KEYWORDS) for _ in range(chance.randint(1, 4))]
    schema: dict[str, Any] = {
        "allOf": parts,
        "properties": {"a": parts[0]},
        "items": parts[-1],
        "$defs": {"d": parts[0]},
    }
    schema |= chance.choice(({}, {"$ref": "#/$defs/d"}, {"$schema": "http://json-schema.org/draft-04/schema#"}))
    with _any_json():
        value = mutated([list(VALUES), {"a": 1}], chance, changes=3)
        return json.dumps({"schema": mutated(schema, chance), "value": value}).encode()


def _check_schema(data: bytes) -> None:
    content = _decoded(data)
    tool = {"name": "t", "parameters": content["schema"]}
    call = ToolCall(name="t", input_parameters={"a": content["value"]})
    if len(data) % 4 == 0:  # building the validator twice takes twice as long
        _check_score(LLMTestCase(tools_called=[call], available_tools=[tool]), [ArgumentSchemaMetric()])
    with CaseBudget():
        assert Schema(content["schema"]).accepts(content["value"]) in (True, False)


# Results


@cache
def _results() -> list[list[Any]]:
    """Return files of results and the JSON of a report, as the values of their lines."""
    cases = [*CASES, case_from_record(RECORD), LLMTestCase(id="plan", tools_called=[], expected_tools=PLAN)]
    with tempfile.TemporaryDirectory() as folder:
        data = results_of(cases, Path(folder) / "results.jsonl")
    return [[json.loads(line) for line in data.splitlines()], [read_results(io.BytesIO(data)).to_dict()]]


def _write_results(chance: random.Random) -> bytes:
    values = chance.choice(_results())
    if chance.random() < 0.3:
        return mutated_bytes(lines(*values), chance)
    place = chance.randrange(len(values))
    changed = list(values)
    with _any_json():
        changed[place] = mutated(values[place], chance)
        return lines(*changed)


def _check_results(data: bytes) -> None:
    report = read_results(io.BytesIO(data))
    if len(data) % 4 == 0:  # rendering takes much longer than reading
        _check_report(report)


# Judges

_VERDICT = {"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}
_MISSING = {"evidence": ["c1"], "reasoning": "one is missing", "verdict": "no", "missing": ["t1"]}


@cache
def _prompts() -> list[Prompt]:
    plain = sample_prompt()
    schema = {**plain.reply_schema, "properties": {**plain.reply_schema["properties"], "missing": {"type": "array"}}}
    return [plain, plain.model_copy(update={"reply_schema": schema, "ids": ("c1", "t1", "t2")})]


def _reply_text(chance: random.Random) -> str:
    text = _mutated_lines(chance, chance.choice((_VERDICT, _MISSING))).decode(errors="replace")
    before, after = chance.choice((("", ""), ("```json\n", "\n```"), ("<think>{}</think>", " "), ("", "\n{}")))
    return before + text + after


def _write_reply(chance: random.Random) -> bytes:
    return _encoded({"prompt": chance.randrange(2), "text": _reply_text(chance)})


def _check_verdict(prompt: Prompt, reply: Reply) -> None:
    verdict = parse_reply(prompt, reply)
    assert {*verdict.evidence, *verdict.missing} <= set(prompt.ids)


def _check_reply(data: bytes) -> None:
    value = _decoded(data)
    _check_verdict(_prompts()[value["prompt"]], Reply(text=value["text"]))


def _bodies(text: str) -> list[dict[str, Any]]:
    message = {"role": "assistant", "content": text, "refusal": None}
    return [
        {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}, "model": "m"},
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}], "usage": {}},
    ]


def _write_body(chance: random.Random) -> bytes:
    return _mutated_lines(chance, chance.choice(_bodies(json.dumps(_VERDICT))))


def _check_body(data: bytes) -> None:
    (prompt, _) = _prompts()
    with suppress(ToolgradeError):
        body = read_object(data)
        for decode in (chat_reply, responses_reply):
            with suppress(ToolgradeError):
                _check_verdict(prompt, decode(body))


GROUPS: dict[str, dict[str, Door]] = {
    "records": {
        "cases": Door(lambda chance: _mutated_json(chance, chance.choice([CASE, CONVERSATION, GOLDEN])), _check_fields),
        "tools": Door(lambda chance: _mutated_lines(chance, TOOLS), _check_tools),
        "steps": Door(lambda chance: _mutated_json(chance, STEPS), _check_steps),
        "records": Door(lambda chance: _mutated_json(chance, RECORD), _check_record),
        "scores": Door(lambda chance: _mutated_json(chance, RECORD), _check_scores),
        "case files": Door(lambda chance: _mutated_lines(chance, RECORD, RECORD), _check_case_file),
        "lint": Door(lambda chance: _mutated_lines(chance, RECORD), _check_lint),
        "files": Door(_write_file, _check_file),
    },
    "messages": {
        "messages": Door(lambda chance: _mutated_json(chance, chance.choice([MESSAGES, STREAM])), _check_messages),
        "recorded messages": Door(
            lambda chance: _mutated_json(chance, chance.choice(message_seeds())), _check_messages
        ),
        "conversations": Door(conversations.write, conversations.check),
    },
    "traces": {
        "traces": Door(lambda chance: _mutated_json(chance, chance.choice(trace_seeds()), changes=6), _check_traces),
        "shuffled traces": Door(_write_shuffled_trace, _check_shuffled_trace),
    },
    "expectations": {
        "plans": Door(lambda chance: _mutated_json(chance, chance.choice(_plan_seeds())), _check_plan),
        "matchers": Door(_write_values, _check_matchers),
        "schemas": Door(_write_schema, _check_schema),
    },
    "results": {"results": Door(_write_results, _check_results)},
    "judges": {
        "judge replies": Door(_write_reply, _check_reply),
        "judge responses": Door(_write_body, _check_body),
    },
    "recording": {
        "recorder": Door(recording.write, recording.check_recorder),
        "builder": Door(recording.write, recording.check_builder),
        **{
            name: Door(recording.writer_with(package, *modules), check)
            for name, package, modules, check in (
                ("callbacks", "toolgrade_langchain", ("langgraph.graph",), recording.check_callbacks),
                (
                    "agents",
                    "toolgrade_openai_agents",
                    ("agents.run", "openai.types.responses"),
                    recording.check_agents_sdk,
                ),
                ("spans", "toolgrade_llama_index", ("llama_index.core.tools",), recording.check_spans),
            )
            if find_spec(package)
        },
    },
    "redaction": {"redaction": Door(secrets_planted.write, secrets_planted.check)},
}
"""The doors of each kind of input."""

DOORS: dict[str, Door] = {name: door for doors in GROUPS.values() for name, door in doors.items()}
