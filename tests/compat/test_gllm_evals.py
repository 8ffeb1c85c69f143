"""The names of gllm-evals do what its page says, over toolgrade's own scoring."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging import RuleJudge, needs_openai, served
from toolgrade import ConversationalTestCase, LLMTestCase, MLLMTestCase, Turn, evaluate, evaluate_async
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.compat.gllm_evals import (
    DeepEvalToolCorrectnessMetric,
    ToolCallParams,
    ToolCallParser,
    TrajectoryParser,
)
from toolgrade.errors import ConfigurationError, InvalidDataError, MissingFieldError, ToolgradeWarning
from toolgrade.formats.messages.read import run_from_messages
from toolgrade.judge import Judge
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.testing import BatchPlan, FakeOpenAI

QUERY = "What is the average sales amount in the orders table?"
SQL = '{"query": "SELECT AVG(amount) as avg_sales FROM orders LIMIT 1"}'
TRAJECTORY: list[dict[str, Any]] = [
    {"role": "user", "content": QUERY},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "data_checker", "arguments": SQL}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '[{"avg_sales": 250.50}]'},
    {"role": "assistant", "content": "Based on the data, the average sales amount is $250.50."},
]
CALCULATOR = {"name": "calculator", "args": {"expression": "15 + 27"}, "output": "42"}


def measure(metric: DeepEvalToolCorrectnessMetric | None = None, /, **record: object) -> MetricResult:
    """The result of a record, awaited."""
    return asyncio.run((metric or DeepEvalToolCorrectnessMetric()).measure(**record))


def asks(*calls: tuple[str | None, str, str]) -> dict[str, Any]:
    """An assistant's message that asks for calls, each an id, a name and an argument text."""
    entries = [{"id": call_id, "function": {"name": name, "arguments": text}} for call_id, name, text in calls]
    return {"role": "assistant", "content": None, "tool_calls": entries}


def answers(call_id: str | None, text: str | None) -> dict[str, Any]:
    """A tool's message."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def without_keys(patch: pytest.MonkeyPatch) -> None:
    """No key and no other server in the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TOOLGRADE_JUDGE_API_KEY", "TOOLGRADE_JUDGE_BASE_URL"):
        patch.delenv(name, raising=False)


def test_credentials_are_stored_but_never_shown(tmp_path: Path) -> None:
    """Neither in the repr nor in a file of results."""
    metric = DeepEvalToolCorrectnessMetric(model_credentials="sk-secret", model_config={"api_key": "sk-other"})
    evaluate([LLMTestCase(tools_called=[], expected_tools=[])], [metric], results=tmp_path / "results.jsonl")

    assert "sk-" not in repr(metric) + (tmp_path / "results.jsonl").read_text(encoding="utf-8")
    assert (metric.model_credentials, metric.model_config) == ("sk-secret", {"api_key": "sk-other"})


TOOLS = [{"name": "calculator", "description": "Calculates.", "parameters": {"type": "object"}}]
RECORD: dict[str, Any] = {
    "query": "What is 15 plus 27?",
    "tools_called": [CALCULATOR],
    "expected_tools": [CALCULATOR],
    "available_tools": TOOLS,
}


@needs_openai
def test_the_model_its_key_and_its_settings_take_effect() -> None:
    """The provider prefix is removed, and key and parameters are sent; other settings are applied as well."""
    judge = RuleJudge({"tool_selection": "no"})
    with FakeOpenAI(answer=served(judge)) as server:
        config = {"base_url": server.base_url, "timeout": 5, "default_hyperparameters": {"temperature": 0.5}}
        metric = DeepEvalToolCorrectnessMetric(model="openai/small", model_credentials="sk-mine", model_config=config)
        result = measure(metric, **RECORD)

    assert (result.score, result.parts["calling"], result.parts["selection"]) == (0, 1, 0)
    assert {request.body["model"] for request in server.requests} == {"small"}
    assert {request.body["temperature"] for request in server.requests} == {0.5}
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer sk-mine"}


def test_model_may_be_a_function() -> None:
    """A function needs no credentials; without available tools nothing is judged."""
    metric = DeepEvalToolCorrectnessMetric(model=RuleJudge("yes"))

    assert measure(metric, **RECORD).parts["selection"] == 1
    unjudged = measure(metric, tools_called=[CALCULATOR], expected_tools=[CALCULATOR])
    assert (unjudged.score, "selection" in unjudged.parts, unjudged.warnings) == (1, False, ())


class Invoker:
    """The method and the name of a `BaseLMInvoker` of gllm-inference, over a judge of the tests."""

    model_id = "openai/gpt-x"

    async def invoke(self, messages: Any, hyperparameters: Any = None) -> SimpleNamespace:
        """Return the reply of the judge in the form of an `LMOutput`."""
        assert hyperparameters is None
        return SimpleNamespace(response=reply_to(messages))


def reply_to(messages: Any) -> str:
    """The judge says no; it was asked with one text, or with messages."""
    both = [{"role": "system", "content": messages}] * 2 if isinstance(messages, str) else messages
    return RuleJudge("no")(both)


def asked(form: type, answer: Any = str, **attributes: Any) -> Any:
    """An object with a sync `invoke` that takes only this form."""

    def invoke(messages: Any) -> Any:
        assert isinstance(messages, form)
        return answer(reply_to(messages))

    return SimpleNamespace(invoke=invoke, **attributes)


@pytest.mark.parametrize(
    "model",
    [
        Invoker(),
        asked(str, model_id="m"),
        asked(list),
        asked(list, answer=lambda text: SimpleNamespace(response=text)),
        asked(list, answer=lambda text: SimpleNamespace(text=text)),
        asked(list, answer=lambda text: SimpleNamespace(content=text)),
    ],
)
def test_model_may_be_an_invoker(model: Any) -> None:
    """One of gllm-inference gets one text, any other the messages."""
    result = measure(DeepEvalToolCorrectnessMetric(model=model), **RECORD)

    assert (result.score, result.parts["selection"]) == (0, 0)
    assert result.judge is not None
    assert result.judge["model"] == getattr(model, "model_id", result.judge["model"])


@needs_openai
def test_model_may_be_a_model_id() -> None:
    """It names the same model as the text `openai/small`."""
    model = SimpleNamespace(provider="openai", name="small", path=None)
    with FakeOpenAI(answer=served(RuleJudge("yes"))) as server:
        config = {"base_url": server.base_url}
        metric = DeepEvalToolCorrectnessMetric(model=model, model_credentials="sk-mine", model_config=config)
        result = measure(metric, **RECORD)

    assert result.parts["selection"] == 1
    assert {request.body["model"] for request in server.requests} == {"small"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "anthropic/claude"}, "of another provider"),
        (
            {"model_config": {"temperatur": 1}},
            "model_config must have settings of OpenAIJudge, .*'temperatur'",
        ),
        ({"model_config": {"default_hyperparameters": 3}}, "default_hyperparameters as an object"),
        ({"model": 3}, "a judge must be the name of a model"),
    ],
)
def test_models_and_settings_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    """They are refused when the metric is created."""
    with pytest.raises(ConfigurationError, match=message):
        DeepEvalToolCorrectnessMetric(model_credentials="k", **options)


@needs_openai
def test_a_batch_takes_the_options_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are judged in one batch with limited polls, and a second call collects."""
    monkeypatch.setattr("toolgrade.judge.openai.batch._QUIET_SECONDS", 0.1)
    records = [{**RECORD, "query": f"question {number}"} for number in range(3)]
    with FakeOpenAI(answer=served(RuleJudge("yes")), batches=[BatchPlan(polls=2)]) as server:
        metric = DeepEvalToolCorrectnessMetric(
            model_credentials="k",
            model_config={"base_url": server.base_url},
            batch_status_check_interval=0,
            batch_max_iterations=2,
        )
        early = asyncio.run(metric.measure_batch(records, tmp_path / "verdicts.sqlite"))
        results = asyncio.run(metric.measure_batch(records, tmp_path / "verdicts.sqlite"))

    assert all("has not ended after 2 checks; nothing is lost" in str(result.error) for result in early)
    assert [result.score for result in results] == [1] * 3
    assert len(server.batched) == 6


@needs_openai
def test_a_batch_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are in the order of the records; those that cannot be measured have the reason."""
    monkeypatch.setattr("toolgrade.judge.openai.batch._QUIET_SECONDS", 0.1)
    records: list[Any] = [
        RECORD,
        {"query": "?", "tools_called": [CALCULATOR], "available_tools": TOOLS},
        3,
        {**RECORD, "tools_called": [{"args": {}}]},
        {**RECORD, "query": None},
        {"tools_called": [CALCULATOR], "expected_tools": [CALCULATOR]},
        LLMTestCase(tools_called=[ToolCall(name="a_xg7c")], expected_tools=[ToolCall(name="a")]),
        {**RECORD, "query": "another question"},
    ]
    with FakeOpenAI(answer=served(RuleJudge("yes")), batches=[BatchPlan(polls=0)]) as server:
        config = {"base_url": server.base_url}
        metric = DeepEvalToolCorrectnessMetric(model_config=config, batch_status_check_interval=0)
        results = asyncio.run(metric.measure_batch(iter(records), tmp_path / "verdicts.sqlite"))

    errors = ["", "expected_tools", "a record is an object", "name", "needs input", "", "", ""]
    assert [result.score for result in results] == [None if error else 1 for error in errors]
    for result, error in zip(results, errors, strict=True):
        assert error in (result.error or "")
    assert len(server.batched) == 4


@pytest.mark.parametrize("model", [Judge(RuleJudge()), RuleJudge()])
def test_a_batch_needs_a_model_that_has_batches(model: Any) -> None:
    """With a function, or with a judge that has options of its own, the error says what to give."""
    with pytest.raises(ConfigurationError, match="measure_batch needs a model of OpenAI by name"):
        asyncio.run(DeepEvalToolCorrectnessMetric(model=model).measure_batch([RECORD], "nowhere"))


@needs_openai
def test_a_model_by_name_needs_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What should be judged and is not has no score, wherever it is measured; without tools no key is needed."""
    without_keys(monkeypatch)
    metric = DeepEvalToolCorrectnessMetric(available_tools=TOOLS)
    calls = [ToolCall(name="calculator")]
    case = LLMTestCase(input="?", tools_called=calls, expected_tools=calls)
    results = [
        measure(metric, **RECORD),
        measure(**RECORD),
        metric.measure(case),
        evaluate([case], [metric]).cases[0].results[0],
        *asyncio.run(metric.measure_batch([RECORD], tmp_path / "verdicts.sqlite")),
    ]

    for result in results:
        assert (result.status, result.score) == (ResultStatus.ERRORED, None)
        assert "no key for 'gpt-4.1'" in str(result.error)
    unjudged = measure(tools_called=[CALCULATOR], expected_tools=[CALCULATOR])
    assert (unjudged.score, unjudged.warnings) == (1, ())


@needs_openai
def test_the_key_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """`OPENAI_API_KEY` is the key of OpenAI; another server may need none."""
    without_keys(monkeypatch)
    metric = DeepEvalToolCorrectnessMetric(available_tools=TOOLS)
    with FakeOpenAI(answer=served(RuleJudge("no"))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("TOOLGRADE_JUDGE_API_KEY", "sk-of-environment")
        result = measure(metric, **RECORD)

    assert result.parts["selection"] == 0
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer sk-of-environment"}
    assert {request.body["model"] for request in server.requests} == {"gpt-4.1"}


def test_evaluate_takes_the_metric() -> None:
    """With the calls that the parsers return; suffixes are stripped, and cases with tools are judged."""
    calls = ToolCallParser().create_tool_call_object(TrajectoryParser().parse(TRAJECTORY))
    renamed = [call.model_copy(update={"name": "data_checker_xg7c"}) for call in calls]
    tools = [{"name": "data_checker"}]
    turns = [
        Turn(role="user", content=QUERY, expected_tools=calls),
        Turn(role="assistant", content="", tools_called=renamed),
    ]
    cases = [
        LLMTestCase(input=QUERY, tools_called=calls, expected_tools=calls),
        MLLMTestCase(tools_called=renamed, expected_tools=calls),
        LLMTestCase(input=QUERY, tools_called=renamed, expected_tools=calls, available_tools=tools),
        LLMTestCase(input=QUERY, tools_called=calls, expected_tools=[]),
        LLMTestCase(input=QUERY, tools_called=calls),
        ConversationalTestCase(turns=turns),
    ]
    metric = DeepEvalToolCorrectnessMetric(model=RuleJudge("no"), strict_mode=True)
    report = evaluate(cases, [metric])
    results = [item.results[0] for item in report.cases]

    assert report.metrics == ("tool_correctness(input_parameters, output, strict)",)
    assert [result.score for result in results] == [1, 1, 0, 0, None, 1]
    assert [result.threshold for result in results] == [1.0] * 6
    assert results[2].parts["selection"] == 0
    for at in (1, 2, 5):
        assert "renamed 'data_checker_xg7c' to 'data_checker'" in results[at].warnings
    assert asyncio.run(evaluate_async(cases, [metric])).cases[2].results[0].score == 0
    assert metric.measure(cases[0]).score == 1


def test_steps_of_a_trajectory_are_tools() -> None:
    """The two steps of an answered call count once, in the order of the requests."""
    trajectory = [asks(("a", "add", "{}"), ("b", "sub", "{}")), answers("b", "B"), answers("a", "A")]
    steps = TrajectoryParser().parse(trajectory)
    metric = DeepEvalToolCorrectnessMetric(should_exact_match=True)

    for sides in (
        {"tools_called": steps, "expected_tools": steps},
        {"agent_trajectory": trajectory, "expected_tools": steps},
        {"tools_called": steps, "expected_agent_trajectory": trajectory},
    ):
        assert measure(metric, **sides).score == 1
    assert measure(tools_called=steps, expected_tools=steps[:1]).score == 1
    with pytest.raises(InvalidDataError, match=r"\$\.expected_tools\[0\]"):
        measure(tools_called=steps, expected_tools=[{**steps[0], "args": "{oops"}])


def test_options_are_the_cores() -> None:
    """Each option works as in `ToolCorrectnessMetric` and is validated when the metric is created."""
    record = {
        "tools_called": [{"name": "b"}, {"name": "a"}, {"name": "c"}],
        "expected_tools": [{"name": "a"}, {"name": "b"}],
    }

    assert measure(**record).score == 1.0
    assert measure(DeepEvalToolCorrectnessMetric(should_consider_ordering=True), **record).score == 0.5
    assert measure(DeepEvalToolCorrectnessMetric(should_exact_match=True), **record).score == 0.0
    strict = measure(DeepEvalToolCorrectnessMetric(should_consider_ordering=True, strict_mode=True), **record)
    assert (strict.score, strict.threshold) == (0.0, 1.0)
    assert measure(DeepEvalToolCorrectnessMetric(include_reason=False), **record).reason is None
    with pytest.raises(ConfigurationError):
        DeepEvalToolCorrectnessMetric(threshold=2)


def test_arguments_and_outputs_are_compared_by_default() -> None:
    """Another output costs the whole call; an empty list of params compares names alone."""
    record = {"tools_called": [{**CALCULATOR, "output": "43"}], "expected_tools": [CALCULATOR]}

    assert measure(**record).score == 0.0
    assert measure(DeepEvalToolCorrectnessMetric(evaluation_params=[]), **record).score == 1.0
    params = [ToolCallParams.INPUT_PARAMETERS]
    assert measure(DeepEvalToolCorrectnessMetric(evaluation_params=params), **record).score == 1.0


def test_suffixes_are_removed_and_reported() -> None:
    """By the rule, or because the rest is available, for the metric or in the record."""
    record = {"tools_called": [{"name": "agent_xg7c"}, {"name": "writer_nxle"}], "expected_tools": [{"name": "agent"}]}
    tools = [{"name": "writer"}, {"name": "agent"}]

    assert list(measure(**record).warnings) == ["renamed 'agent_xg7c' to 'agent'"]
    for result in (
        measure(DeepEvalToolCorrectnessMetric(model=RuleJudge(), available_tools=tools), query="?", **record),
        measure(DeepEvalToolCorrectnessMetric(model=RuleJudge()), query="?", **record, available_tools=tools),
    ):
        assert result.score == 1.0
        assert "renamed 'writer_nxle' to 'writer'" in result.warnings


def test_expected_names_lose_their_suffixes_too() -> None:
    """Two recordings of one plan, each with suffixes of its own, are equal; other names are not."""
    called = [{"name": "delegate_to_sql_query_agent_xg7c"}, {"name": "read_data"}]
    expected = [{"name": "delegate_to_sql_query_agent_nxle"}, {"name": "read_data"}]
    assert measure(tools_called=called, expected_tools=expected).score == 1.0
    assert measure(tools_called=called, expected_tools=[*expected[:1], {"name": "read_date"}]).score == 0.5


def test_trajectory_warnings_are_in_the_result() -> None:
    """An answer without a call is a warning of the score."""
    result = measure(agent_trajectory=[*TRAJECTORY, answers("call_9", "?")], expected_agent_trajectory=TRAJECTORY)

    assert any(text.startswith("$.agent_trajectory[4]: ") for text in result.warnings)


def test_unmeasurable_records_are_errors() -> None:
    """A record that is unreadable, lacks a side, or has contradictory fields."""
    with pytest.raises(InvalidDataError):
        measure(agent_trajectory=[{"role": "oracle"}], expected_tools=[])
    with pytest.raises(MissingFieldError, match="expected_tools"):
        measure(agent_trajectory=TRAJECTORY)
    with pytest.raises(InvalidDataError, match="'query'"):
        asyncio.run(DeepEvalToolCorrectnessMetric().measure({"query": "a"}, query="b"))


def test_steps_keep_the_order_of_messages() -> None:
    """A step for a request and one for its answer, with the same id."""
    trajectory = [asks(("a", "add", '{"n": 1}'), ("b", "sub", "")), answers("b", "B"), answers("a", "A")]

    steps = TrajectoryParser().convert_trajectory_to_steps(trajectory)

    add = {"tool_call_id": "a", "kind": "tool_call", "name": "add", "args": {"n": 1}}
    sub = {"tool_call_id": "b", "kind": "tool_call", "name": "sub", "args": {}}
    assert steps == [add, sub, {**sub, "output": "B"}, {**add, "output": "A"}]
    assert TrajectoryParser().parse(trajectory) == steps


def test_calls_without_ids_get_their_place_as_one() -> None:
    """So the two steps of a call still share an id, and no two calls do."""
    with pytest.warns(ToolgradeWarning, match="no id|no tool_call_id"):
        steps = TrajectoryParser().parse([asks((None, "add", ""), (None, "add", "")), answers(None, "1")])

    assert [step["tool_call_id"] for step in steps] == [
        "trajectory[0].tool_calls[0]",
        "trajectory[0].tool_calls[1]",
        "trajectory[0].tool_calls[0]",
    ]


def test_malformed_trajectories_are_never_an_empty_list() -> None:
    """Another format is an error, what can be read in part a warning."""
    with pytest.raises(InvalidDataError, match="Anthropic"):
        TrajectoryParser().parse([{"role": "assistant", "content": [{"type": "tool_use", "name": "add"}]}])
    with pytest.warns(ToolgradeWarning, match="not a JSON object"):
        steps = TrajectoryParser().parse([asks(("a", "add", "{oops")), answers("a", "bad")])
    assert [(step["args"], step.get("output")) for step in steps] == [("{oops", None), ("{oops", "bad")]
    with pytest.warns(ToolgradeWarning, match="no content"):
        assert len(TrajectoryParser().parse([asks(("a", "add", "")), answers("a", None)])) == 1


def test_steps_of_one_call_become_one_call() -> None:
    """With and without output, in either order; nothing is counted twice."""
    questions = {"tool_call_id": "a", "kind": "tool_call", "name": "add", "args": {"n": 1}}
    answered = {**questions, "output": "1"}
    whole = ToolCall(name="add", input_parameters={"n": 1}, output="1", id="a")

    for steps in ([questions, answered], [answered, questions], [answered]):
        assert ToolCallParser().create_tool_call_object(steps) == [whole]
    assert ToolCallParser().create_tool_call_object([questions])[0].model_fields_set == {
        "name",
        "input_parameters",
        "id",
    }
    assert ToolCallParser().create_tool_call_object([]) == []


def test_steps_that_share_an_id_by_mistake_are_reported() -> None:
    """Nothing is lost: a step that does not belong to an open call is a separate call."""
    first = {"tool_call_id": "a", "name": "add", "args": {"n": 1}}
    second = {"tool_call_id": "a", "name": "add", "args": {"n": 2}}
    other = {"tool_call_id": "a", "name": "sub", "args": {}}
    parser = ToolCallParser()

    with pytest.warns(ToolgradeWarning, match="several calls"):
        calls = parser.create_tool_call_object([first, second, {**second, "output": "2"}, {**first, "output": "1"}])
    assert [call.output for call in calls] == ["1", "2"]
    with pytest.warns(ToolgradeWarning, match="several calls"):
        assert [call.name for call in parser.create_tool_call_object([first, other])] == ["add", "sub"]
    with pytest.warns(ToolgradeWarning, match="different arguments"):
        (call,) = parser.create_tool_call_object([first, {**second, "output": "2"}])
    assert (call.input_parameters, call.output) == ({"n": 1}, "2")


def test_outputs_can_be_left_out() -> None:
    """`include_output=False` leaves them unset."""
    (call,) = ToolCallParser().create_tool_call_object([CALCULATOR], include_output=False)

    assert call.model_fields_set == {"name", "input_parameters"}


def test_names_lose_their_suffix_by_default() -> None:
    """Each change is a warning."""
    steps = [{"name": "delegate_to_sql_query_agent_xg7c", "args": {}}]

    with pytest.warns(ToolgradeWarning, match="renamed 'delegate_to_sql_query_agent_xg7c' to"):
        assert ToolCallParser().create_tool_call_object(steps)[0].name == "delegate_to_sql_query_agent"
    (remaining,) = ToolCallParser().create_tool_call_object(steps, normalize_names=False)
    assert remaining.name == "delegate_to_sql_query_agent_xg7c"


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("delegate_to_sql_query_agent_xg7c", "delegate_to_sql_query_agent"),
        ("delegate_to_sql_query_agent_nxle", "delegate_to_sql_query_agent"),
        ("delegate_to_sql_query_agent_zor2", "delegate_to_sql_query_agent"),
        ("delegate_to_writer_bqze", "delegate_to_writer"),
        ("sql_agent_nxle", "sql_agent"),
        ("agent_nxle", "agent"),
        *((name, name) for name in ("read_nxle", "reagent_nxle", "delegate_to_nxle", "room_1024", "agent_qwrt")),
    ],
)
def test_suffixes_of_the_page(name: str, bare: str) -> None:
    """The page's examples lose theirs, also in calls; letters alone only after the name of an agent."""
    assert ToolCallParser().normalize_tool_name(name) == bare
    with pytest.warns(ToolgradeWarning, match="renamed") if name != bare else nullcontext():
        assert [call.name for call in ToolCallParser().create_tool_call_object([{"name": name}])] == [bare]


WORDS = (
    "data name info user file list item text json mode type page next sync html http grpc chat team desk task tool call"
    " help year plan copy move edit view find load save send open stop sort main beta test prod logs docs yaml xlsx"
)


@pytest.mark.parametrize("start", ["read", "sql_agent", "delegate_to_sql_query_agent"])
def test_words_are_no_suffixes(start: str) -> None:
    """Not even after the name of an agent."""
    names = [f"{start}_{word}" for word in WORDS.split()]

    assert [*map(ToolCallParser().normalize_tool_name, names)] == names


def test_tool_calls_become_steps() -> None:
    """Each call is one step in any form; broken arguments stay text."""
    openai = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"n": 1}'}}

    assert ToolCallParser().parse([openai, CALCULATOR, ToolCall(name="noop")]) == [
        {"tool_call_id": "c1", "kind": "tool_call", "name": "add", "args": {"n": 1}},
        {"tool_call_id": None, "kind": "tool_call", **CALCULATOR},
        {"tool_call_id": None, "kind": "tool_call", "name": "noop", "args": {}},
    ]
    with pytest.warns(ToolgradeWarning, match="not a JSON object"):
        assert ToolCallParser().parse([{"name": "add", "args": "{oops"}])[0]["args"] == "{oops"
    with pytest.raises(InvalidDataError):
        ToolCallParser().parse([{"args": {}}])


@pytest.mark.filterwarnings("ignore::toolgrade.errors.ToolgradeWarning")
@given(data=st.data())
def test_steps_and_core_read_the_same_calls(data: st.DataObject) -> None:
    """With any ids, arguments and order of answers.

    Calls that are equal in id, name and arguments may exchange their answers: steps cannot tell them apart.
    """
    ids = st.sampled_from([None, "a", "b"])
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": "Hi"}]
    for number in range(data.draw(st.integers(0, 8))):
        if data.draw(st.booleans()):
            text = st.sampled_from(["", "{oops", '{"n": 1}', f'{{"n": {number}}}'])
            calls = st.tuples(ids, st.sampled_from(["add", "sub"]), text)
            messages.append(asks(*data.draw(st.lists(calls, min_size=1, max_size=3))))
        else:
            messages.append(answers(data.draw(ids), f"answer {number}"))

    run = run_from_messages(messages)
    calls = ToolCallParser().create_tool_call_object(TrajectoryParser().parse(messages))

    def message_text(call: ToolCall) -> tuple[object, ...]:
        execution = call.execution
        broken = execution is not None and execution.status is CallStatus.INVALID_ARGUMENTS
        raw = execution.requested_parameters if execution is not None else None
        document_text = execution.model_output if execution is not None else None
        return call.name, call.arguments, call.output, broken, raw, document_text

    assert [call.name for call in calls] == [call.name for call in run.calls]
    assert sorted(map(repr, map(message_text, calls))) == sorted(map(repr, map(message_text, run.calls)))
