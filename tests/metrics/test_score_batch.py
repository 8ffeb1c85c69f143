"""`score_batch` says what `measure` says, of every case, also of one that cannot be read; and results told later."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import camel_form
from strategies import (
    case_fields,
    few,
    fields,
    finite_json_values,
    flat_objects,
    nested_objects,
    objects,
    python_values,
)
from toolmark import (
    ConfigurationError,
    Execution,
    InvalidDataError,
    LLMTestCase,
    MetricResult,
    MissingFieldError,
    MLLMTestCase,
    MultimodalToolCorrectnessMetric,
    NotMeasuredError,
    ToolCall,
    ToolCorrectnessMetric,
    ToolmarkError,
)
from toolmark._internal.markers import REDACTED
from toolmark.expect import Plan
from toolmark.metrics import _sides

METRICS = [
    ToolCorrectnessMetric(),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"]),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], should_consider_ordering=True, denominator="f1"),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], should_exact_match=True),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], strict_mode=True, denominator="longest"),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], strict_mode=True, denominator="called"),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], strict_mode=True, should_consider_ordering=True),
    ToolCorrectnessMetric(strict_mode=True, denominator="f1", should_consider_ordering=True),
    ToolCorrectnessMetric(strict_mode=True),
    ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"], denominator="called"),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], ignore_failed=True, only="write"),
    ToolCorrectnessMetric(should_consider_ordering=True, denominator="called"),
    MultimodalToolCorrectnessMetric(evaluation_params=["input_parameters"]),
    ToolCorrectnessMetric(ignore_failed=True),
]
EACH = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.label)

_names = st.sampled_from(("search", "book"))
_arguments = flat_objects | nested_objects | objects((1, REDACTED, float("nan")), levels=1)
_plain_calls = st.lists(st.fixed_dictionaries({"name": _names, "input_parameters": _arguments}), max_size=4)
_call = fields(
    {"name": _names},
    {
        "input_parameters": _arguments,
        "output": finite_json_values(),
        "id": st.none() | st.text(max_size=2),
        "type": st.sampled_from((None, "function", "MCP")),
        "description": st.none() | st.just("é"),
    },
)
_odd_call = st.one_of(
    fields(
        {},
        {
            "name": st.sampled_from(("", "a", 1, None, "\ud800")),
            "args": python_values,
            "arguments": st.just('{"a": 1}'),
        },
    ),
    fields(
        {"name": _names},
        {"arguments": st.sampled_from(("{", "[]", '{"a": NaN}', None, {1: 2}, {"a": (1,)})), "typ": st.none()},
    ),
    fields({"expect": _names}, {"input_parameters": flat_objects, "optional": st.just(True)}),
    fields({"name": _names}, {"input_parameters": _arguments, "inputParameters": _arguments, "type": st.just("tool")}),
    fields({"name": _names, "execution": st.just({"status": "error", "not_captured": ["input_parameters"]})}, {}),
    st.sampled_from((None, "search", ["search"], ToolCall(name="search"), 3)),
)
_calls = _plain_calls | st.lists(_call, max_size=4) | st.lists(_call | _odd_call, max_size=3)
_plain_case = st.fixed_dictionaries({"tools_called": _plain_calls, "expected_tools": _plain_calls})
_case = fields(
    {},
    {
        "tools_called": _calls,
        "expected_tools": _calls | st.sampled_from(({"plan": [{"expect": "search"}]}, None, (), "search")),
        "id": st.sampled_from((None, 1, True, "x", "\ud800", 1.5)),
        "input": st.sampled_from((None, "hi", "é", b"hi", 1, "\udfff")),
        "tags": st.sampled_from(([], ["a"], None, [1], "a", ("a",))),
        "metadata": st.sampled_from(({}, {"a": [1]}, None, {"a": object}, [], {1: 1})),
        "unknown": st.none(),
    },
)


def one_by_one(metric: ToolCorrectnessMetric, cases: list[Any]) -> list[float | None] | str:
    """What measuring each case says, which is what its alignment says, or what is wrong with the first without one."""
    scores: list[float | None] = []
    for place, case in enumerate(cases):
        try:
            read = LLMTestCase.model_validate(case) if isinstance(case, dict) else case
            scores.append(metric.measure(read).score)
            assert scores[-1] == whole(metric, read).score
        except ToolmarkError as error:
            return f"{type(error).__name__}: case #{place + 1}: {error}"
    return scores


def at_once(metric: ToolCorrectnessMetric, cases: list[Any]) -> list[float | None] | str:
    """What `score_batch` says."""
    try:
        return metric.score_batch(cases)
    except ToolmarkError as error:
        return f"{type(error).__name__}: {error}"


@EACH
@pytest.mark.filterwarnings("ignore::toolmark.ToolmarkWarning")
@few
@given(cases=st.lists(_plain_case | _case, max_size=3))
def test_objects_score_what_measure_says(metric: ToolCorrectnessMetric, cases: list[Any]) -> None:
    """Objects as a JSON parser returns them, and worse ones: the same scores to the last bit, or the same error."""
    assert at_once(metric, cases) == one_by_one(metric, cases)


def test_strict_is_all_or_nothing_however_little_is_missing() -> None:
    """One wrong value at the bottom of three large objects is less than any tolerance, and fails a strict metric."""

    def case(value: int) -> dict[str, Any]:
        arguments: dict[str, Any] = {"key": value}
        for _ in range(3):
            arguments = {**dict.fromkeys(map(str, range(2000)), 0), "inner": arguments}
        return {"tools_called": [{"name": "a", "input_parameters": arguments}], "expected_tools": []}

    right, wrong = case(1), case(2)
    pair = {"tools_called": right["tools_called"], "expected_tools": wrong["tools_called"]}
    partial, strict = (
        ToolCorrectnessMetric(evaluation_params=["input_parameters"], strict_mode=strict) for strict in (False, True)
    )
    assert 1 - 1e-9 < (partial.score_batch([pair])[0] or 0) < 1
    assert strict.score_batch([pair]) == [0.0]
    read = LLMTestCase.model_validate(pair)
    assert (strict.measure(read).score, whole(strict, read).score) == (0.0, 0.0)


PLAIN = {"name": "a", "input_parameters": {"x": 1}}
ODD_CALLS: list[Any] = [
    {"name": "a"},
    {"name": "a", "input_parameters": None},
    {**PLAIN, "unknown": 1},
    {**PLAIN, "args": {"x": 1}},
    {**PLAIN, "type": "function"},
    {**PLAIN, "type": "no type"},
    {**PLAIN, "type": 3},
    {**PLAIN, "output": [{}] * 2},
    {**PLAIN, "output": b"x"},
    {**PLAIN, "id": 1},
    {**PLAIN, "description": "\ud800"},
    {**PLAIN, "execution": {"not_captured": ["input_parameters"]}},
    {**PLAIN, "execution": {"status": "error"}},
    {**PLAIN, "name": ""},
    {**PLAIN, "name": "\ud800"},
    {**PLAIN, "name": None},
    {"name": "a", "input_parameters": {"x": (1,)}},
    {"name": "a", "input_parameters": {"x": True}},
    {"name": "a", "input_parameters": [1]},
    {"name": "a", "arguments": '{"x": 1}'},
    {"name": "a", "arguments": "[1]"},
    {"expect": "a"},
    ToolCall(name="a"),
    "a",
]


@EACH
@pytest.mark.filterwarnings("ignore::toolmark.ToolmarkWarning")
@pytest.mark.parametrize("call", ODD_CALLS, ids=repr)
def test_every_odd_call_on_either_side(metric: ToolCorrectnessMetric, call: Any) -> None:
    """Beside a plain call, and alone: scored or refused as it is when it is measured."""
    for expected, called in (([call], [PLAIN]), ([PLAIN], [call]), ([PLAIN, call], [call, PLAIN])):
        cases = [{"expected_tools": expected, "tools_called": called}]
        assert at_once(metric, cases) == one_by_one(metric, cases)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("id", value) for value in (1, True, 1.5, "é", "\ud800", None)),
        *(("input", value) for value in (1, b"hi", "\udfff", None)),
        *(("tags", value) for value in ([], [1], ["\ud800"], ("a",), None, "a")),
        *(("metadata", value) for value in ({}, {"a": [1]}, {"a": (1,)}, [], None, {1: 1})),
        *(("available_tools", value) for value in ([], [{"name": "a"}], "a")),
        ("unknown", None),
        ("toolsCalled", []),
        (3, None),
    ],
    ids=repr,
)
def test_every_odd_field_of_a_case(field: Any, value: Any) -> None:
    """Read or refused as it is when the case is measured."""
    cases = [{"expected_tools": [PLAIN], "tools_called": [PLAIN], field: value}]
    for metric in METRICS[:3]:
        assert at_once(metric, cases) == one_by_one(metric, cases)


@EACH
@few
@given(given_fields=case_fields)
def test_cases_score_what_measure_says(metric: ToolCorrectnessMetric, given_fields: dict[str, Any]) -> None:
    """Cases with any field set or not, as models and as the objects that they are written as, under either spelling."""
    case = LLMTestCase(**given_fields)
    for cases in ([case], [case.to_dict()], [camel_form(case.to_dict())]):
        assert at_once(metric, cases) == one_by_one(metric, cases)


def plain_case(draw: random.Random) -> dict[str, Any]:
    """A case of some calls."""

    def calls() -> list[dict[str, Any]]:
        return [
            {"name": draw.choice("abc"), "input_parameters": {"x": draw.randrange(3), "y": [draw.choice((True, 1))]}}
            for _ in range(draw.randrange(7))
        ]

    return {"id": draw.randrange(9), "tools_called": calls(), "expected_tools": calls()}


@EACH
def test_many_cases_stay_in_their_order(metric: ToolCorrectnessMetric) -> None:
    """Plain ones and others side by side, more than are looked at together, from anything that can be gone through."""
    draw = random.Random(7)
    cases: list[Any] = [plain_case(draw) for _ in range(150)]
    cases[70]["expected_tools"] = {"plan": [{"expect": "a"}]}
    cases[10] = LLMTestCase.model_validate(cases[10])
    cases[149]["expected_tools"] = []
    expected = one_by_one(metric, cases)
    assert isinstance(expected, list)
    assert metric.score_batch(iter(cases)) == expected
    models = [LLMTestCase.model_validate(case) if isinstance(case, dict) else case for case in cases]
    assert metric.score_batch(models) == expected


@EACH
@few
@given(several=st.lists(case_fields, max_size=4))
def test_cases_together_score_what_each_does(metric: ToolCorrectnessMetric, several: list[dict[str, Any]]) -> None:
    """Whatever stands beside a case changes nothing of its score."""
    cases = [LLMTestCase(**given_fields) for given_fields in several]
    assert at_once(metric, cases) == one_by_one(metric, cases)


def test_no_cases_have_no_scores() -> None:
    """An empty list, as any other."""
    assert ToolCorrectnessMetric().score_batch([]) == []


def test_no_more_than_a_portion_is_held() -> None:
    """Cases are taken as they are needed, so that a file of any length can be scored."""
    taken = 0

    def cases() -> Iterator[dict[str, Any]]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield {"tools_called": [], "expected_tools": [] if taken <= 64 else None}

    with pytest.raises(MissingFieldError, match="case #65: "):
        ToolCorrectnessMetric().score_batch(cases())
    assert taken <= 128


def test_an_error_names_the_case() -> None:
    """By its position, and by the path of the place in it."""
    good: dict[str, Any] = {"tools_called": [], "expected_tools": []}
    metric = ToolCorrectnessMetric()
    with pytest.raises(InvalidDataError, match=r"^case #2: LLMTestCase: \$\.tools_called\[0\]\.name: ") as caught:
        metric.score_batch([good, {**good, "tools_called": [{"name": 3}]}])
    assert [problem.path for problem in caught.value.problems] == ["$[1].tools_called[0].name"]
    with pytest.raises(MissingFieldError, match=r"^case #1: ToolCorrectnessMetric needs expected_tools"):
        metric.score_batch([{"tools_called": []}])
    with pytest.raises(ConfigurationError, match=r"^case #3: .* measures an LLMTestCase or MLLMTestCase, got str"):
        metric.score_batch([good, good, "case"])  # type: ignore[list-item]


def test_plain_objects_are_never_made_into_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what makes it fast."""
    monkeypatch.setattr(LLMTestCase, "model_validate", None)
    draw = random.Random(3)
    for metric in METRICS[:5]:
        assert len(metric.score_batch([plain_case(draw) for _ in range(80)])) == 80


@EACH
@pytest.mark.parametrize(
    ("expected", "called"),
    [
        ({"x": 1}, {"x": True}),
        ({"x": False}, {"x": 0.0}),
        ({"x": float("nan")}, {"x": float("nan")}),
        ({"x": REDACTED, "y": 1}, {"x": 1, "y": 2}),
        ({"x": 1, "y": 2}, {"x": [REDACTED], "y": 1}),
        (None, {"x": 1}),
        ({}, {"x": 1}),
    ],
    ids=repr,
)
def test_values_that_are_hard_to_compare(metric: ToolCorrectnessMetric, expected: Any, called: Any) -> None:
    """As models, on either side, and as the only such value among cases that are looked at together."""
    hard = {"input_parameters": expected} if expected is not None else {}
    cases = [
        LLMTestCase(expected_tools=[ToolCall(name="a", **hard)], tools_called=[ToolCall(name="a", **{**hard, **made})])
        for made in ({"input_parameters": called}, {"input_parameters": {"x": 2}})
    ]
    assert at_once(metric, cases) == one_by_one(metric, cases)


def test_plain_cases_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their calls are looked at together, as those of plain objects are."""
    draw = random.Random(4)
    cases = [LLMTestCase.model_validate(plain_case(draw)) for _ in range(80)]
    monkeypatch.setattr(ToolCorrectnessMetric, "_measure", None)
    for metric in METRICS[:9]:
        assert len(metric.score_batch(cases)) == 80


@pytest.mark.parametrize("field", ["args", "arguments", "inputParameters", "input_parameters"])
def test_calls_with_more_fields_are_read_as_they_are(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under any name of the arguments, as an object or its text, with what else a recording says of a call."""
    monkeypatch.setattr(LLMTestCase, "model_validate", None)
    called = {"name": "a", "id": "1", "type": "function", "output": ["é"], "description": None, field: '{"x": 1}'}
    case = {"tools_called": [called], "expected_tools": [{"name": "a", field: {"x": 1}}], "tags": ["é"], "metadata": {}}
    for metric in METRICS[:5]:
        assert metric.score_batch([case]) == [1.0]


def test_nothing_is_remembered_or_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Scores alone: `metric.score` still tells of what `measure` measured last."""
    metric = ToolCorrectnessMetric(verbose_mode=True, ignore_failed=True)
    metric.score_batch([{"tools_called": [], "expected_tools": []}])
    with pytest.raises(NotMeasuredError):
        _ = metric.score
    assert capsys.readouterr().out == ""


def test_a_judge_is_asked_for_each_case() -> None:
    """With a judge the cases are measured, one after the other."""
    metric = ToolCorrectnessMetric(judge=lambda _messages: "no answer", available_tools=[{"name": "a"}])
    case = {"input": "x", "tools_called": [{"name": "a"}], "expected_tools": [{"name": "a"}]}
    assert metric.score_batch([case]) == [metric.measure(LLMTestCase.model_validate(case)).score]


# Results whose words are worked out when they are read


def whole(metric: ToolCorrectnessMetric, case: LLMTestCase | MLLMTestCase) -> MetricResult:
    """The result with everything worked out at once."""
    return metric._called(case, None, judgeable=case.available_tools is not None)


@EACH
@few
@given(
    called=st.lists(
        _call | fields({"name": _names, "execution": st.just({"not_captured": ["input_parameters"]})}, {}), max_size=4
    ),
    expected=st.lists(_call, max_size=4),
    notes=st.booleans(),
)
def test_what_is_told_later_is_what_would_be_told_at_once(
    metric: ToolCorrectnessMetric, called: list[Any], expected: list[Any], *, notes: bool
) -> None:
    """Every field of a result, in whatever order they are read."""
    run = {"warnings": ["torn"]} if notes else None
    case = LLMTestCase(tools_called=called, expected_tools=expected, run=run)
    for name in [entry.name for entry in dataclasses.fields(MetricResult)]:
        assert repr(getattr(metric.measure(case), name)) == repr(getattr(whole(metric, case), name))
    if whole(metric, case) == whole(metric, case):  # unless it holds a NaN, which differs from itself
        assert metric.measure(case) == whole(metric, case)
    assert repr(metric.measure(case)) == repr(whole(metric, case))
    assert metric.measure(case).to_dict() == whole(metric, case).to_dict()
    assert repr(pickle.loads(pickle.dumps(metric.measure(case)))) == repr(whole(metric, case))  # noqa: S301 - our bytes


def a_case() -> LLMTestCase:
    """A case with a wrong argument and a call too many."""
    return LLMTestCase(
        tools_called=[ToolCall(name="a", input_parameters={"x": 1}), ToolCall(name="b")],
        expected_tools=[ToolCall(name="a", input_parameters={"x": 2, "y": 3})],
    )


METRIC = METRICS[1]


def test_a_score_asks_for_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score, verdict and parts are there at once; the alignment is made when a reason is first read, and only then."""
    made = 0
    align = ToolCorrectnessMetric._align

    def counted(self: Any, *args: Any) -> Any:
        nonlocal made
        made += 1
        return align(self, *args)

    monkeypatch.setattr(ToolCorrectnessMetric, "_align", counted)
    result = METRIC.measure(a_case())
    assert (result.score, result.passed, float(result), dict(result.parts)["calling"]) == (0.0, False, 0.0, 0.0)
    assert made == 0
    assert "wrong_argument" in [finding.kind for finding in result.findings]
    assert result.reason is not None
    assert result.alignment is not None
    assert result.warnings == ()
    assert made == 1


@pytest.mark.parametrize("change", [copy.copy, copy.deepcopy, dataclasses.replace], ids=lambda change: change.__name__)
def test_a_copy_has_everything(change: Any) -> None:
    """Copies of a result of which nothing was read yet."""
    assert change(METRIC.measure(a_case())) == whole(METRIC, a_case())


def test_what_is_told_is_told_of_the_calls_that_were_measured() -> None:
    """Calls that are added to the case later change nothing; arguments that are changed later are noticed."""
    case = a_case()
    result = METRIC.measure(case)
    assert case.tools_called is not None
    case.tools_called.append(ToolCall(name="c"))
    assert result == whole(METRIC, a_case())
    case = a_case()
    result = METRIC.measure(case)
    assert case.tools_called is not None
    case.tools_called[0].arguments["x"] = 2
    with pytest.raises(NotMeasuredError, match=r"a case was changed after tool_correctness.* measured it"):
        _ = result.reason
    assert result.score == 0.0


def test_there_are_no_other_fields() -> None:
    """A field that results do not have is missed as always, and those that were given are not worked out again."""
    with pytest.raises(AttributeError, match="'MetricResult' object has no attribute 'reasons'"):
        _ = METRIC.measure(a_case()).reasons  # type: ignore[attr-defined]
    result = METRIC.measure(a_case())
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.reason = "another"  # type: ignore[misc]


def test_only_plain_cases_are_taken() -> None:
    """A plan, a type, or a field that was not captured is left to the alignment."""
    plain = ToolCall(name="a", input_parameters={"x": 1})
    assert _sides.sides_of_calls([plain], [plain]) is not None
    assert _sides.sides_of_calls([plain.model_copy(update={"type": "mcp"})], [plain]) is None
    hidden = Execution(not_captured=["input_parameters"])
    assert _sides.sides_of_calls([plain], [plain.model_copy(update={"execution": hidden})]) is None
    case = LLMTestCase(tools_called=[plain], expected_tools=Plan([plain], allow_extra=True))
    assert METRIC.measure(case).score == METRIC.score_batch([case])[0] == 1.0


def test_recorded_lines_score_the_same() -> None:
    """From the text of a line to a score, with and without models."""
    draw = random.Random(5)
    lines = [json.dumps(plain_case(draw)) for _ in range(70)]
    for metric in METRICS:
        assert metric.score_batch(map(json.loads, lines)) == metric.score_batch(map(LLMTestCase.from_json, lines))
