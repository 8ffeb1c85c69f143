"""The public names of `gllm-evals`, for code that migrates: its parsers, and its tool correctness metric.

Nothing is computed here: `toolgrade.formats` reads trajectories, `ToolCorrectnessMetric` scores, and `toolgrade.judge`
judges the selection of tools.

Deliberate differences: calls are paired optimally (in gllm-evals the pairing depends on the order of the list), each
call is judged on its own, and names in records lose a suffix only by the rule in `toolgrade.formats.names`.
"""

from __future__ import annotations

import asyncio
import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias, cast, overload

from toolgrade._internal.json import JsonObject, within_limits
from toolgrade._internal.message_content import as_object
from toolgrade._internal.model import drop_none
from toolgrade.calls import Execution, ToolCall, ToolCallParams, ToolSpec, read_tool_spec
from toolgrade.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMTestCase, Run, TestCase
from toolgrade.errors import ConfigurationError, InvalidDataError, ToolgradeError, ToolgradeWarning
from toolgrade.expect.plan import expected_names
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.messages.read import read_run
from toolgrade.formats.messages.tool_fields import read_tools
from toolgrade.formats.names import describe_rewrites, strip_suffix, strip_suffixes
from toolgrade.formats.records import case_from_record
from toolgrade.judge import BatchOptions, Judge
from toolgrade.judge.judge import JudgeLike
from toolgrade.judge.models import OneTextModel
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.metrics.called_tools import as_case
from toolgrade.metrics.tool_correctness import ToolCorrectnessMetric
from toolgrade.result import MetricResult, errored_result

STEP_KIND = "tool_call"
"""The `kind` of every step; metrics read no other steps."""

_NO_EXECUTION = Execution()
_AGENT_WITH_LETTERS = re.compile(r"(?P<bare>delegate_to_.+|(?:.*_)?agent)_[bcdfghjklmnpqrstvwxz]{3}[aeiou]", re.DOTALL)


class DefaultValues:
    """The defaults of the metric that gllm-evals gives a name.

    Example:
        >>> from toolgrade.compat.gllm_evals import DefaultValues
        >>> DefaultValues.AGENT_EVALS_MODEL
        'openai/gpt-4.1'
    """

    AGENT_EVALS_MODEL: Final = "openai/gpt-4.1"
    BATCH_STATUS_CHECK_INTERVAL: Final = 30.0
    BATCH_MAX_ITERATIONS: Final = 120


class TrajectoryParser:
    """Converts a list of OpenAI chat messages into steps.

    Example:
        >>> from toolgrade.compat.gllm_evals import TrajectoryParser
        >>> call = {"id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
        >>> trajectory = [
        ...     {"role": "user", "content": "What is the weather in Paris?"},
        ...     {"role": "assistant", "tool_calls": [call]},
        ...     {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ... ]
        >>> steps = TrajectoryParser().parse(trajectory)
        >>> [(step["name"], step["args"], step.get("output")) for step in steps]
        [('get_weather', {'city': 'Paris'}, None), ('get_weather', {'city': 'Paris'}, 'sunny')]
    """

    def convert_trajectory_to_steps(self, trajectory: Sequence[object]) -> list[JsonObject]:
        """Return the calls of a trajectory as a flat list of steps, in the order of the messages.

        A step has `tool_call_id`, `kind` (always `"tool_call"`), `name` and `args`. Each call gives a step without
        `output` at the assistant's message and, if it was answered, another one with `output` at the answer. Both share
        one `tool_call_id`, and `ToolCallParser.create_tool_call_object` merges them into one call. A call without an id
        gets its path as id, e.g. `"trajectory[1].tool_calls[0]"`. `args` is the argument object, or the raw text if
        that is not an object.

        Partly understood input gives a `ToolgradeWarning`.

        Raises:
            InvalidDataError: The trajectory is not a list of OpenAI chat messages; `problems` lists every place.
        """
        notes = Notes()
        run, answers = read_run(trajectory, "$.trajectory", notes)
        notes.raise_problems()
        _warn(notes.warnings)
        placed: list[tuple[int, int, JsonObject]] = []
        for position, call in enumerate(run.calls):
            source = (call.execution or _NO_EXECUTION).source or ""
            step = _step(call, call.id or source)
            output = step.pop("output", None)
            placed.append((_message(source), position, step))
            if source in answers and output is not None:
                placed.append((_message(answers[source]), position, {**step, "output": output}))
        return [step for _, _, step in sorted(placed, key=lambda item: item[:2])]

    def parse(self, trajectory: Sequence[object]) -> list[JsonObject]:
        """Return the same as `convert_trajectory_to_steps`."""
        return self.convert_trajectory_to_steps(trajectory)


def _message(place: str) -> int:
    """Return the position of the message that a path leads to."""
    return int(place.partition("[")[2].partition("]")[0])


class ToolCallParser:
    """Converts steps into tool calls, and tool calls into steps.

    Example:
        >>> from toolgrade.compat.gllm_evals import ToolCallParser
        >>> parser = ToolCallParser()
        >>> steps = [
        ...     {"tool_call_id": "c1", "name": "get_weather", "args": {"city": "Paris"}},
        ...     {"tool_call_id": "c1", "name": "get_weather", "args": {"city": "Paris"}, "output": "sunny"},
        ... ]
        >>> [(call.name, call.arguments, call.output) for call in parser.create_tool_call_object(steps)]
        [('get_weather', {'city': 'Paris'}, 'sunny')]
        >>> parser.normalize_tool_name("weather_agent_xg7c")
        'weather_agent'
    """

    @within_limits
    def create_tool_call_object(
        self,
        steps: Sequence[Mapping[str, object] | ToolCall],
        normalize_names: bool = True,
        include_output: bool = True,
    ) -> list[ToolCall]:
        """Return the calls that the steps describe, in the order of their first appearance.

        Two steps with the same `tool_call_id` and name are one call, if one has an output and the other not, in either
        order. If more steps share an id, they are paired in order, with a `ToolgradeWarning`. A step without an id is a
        call of its own.

        Args:
            steps: Steps with `name`, `args` (an object or JSON text) and optionally `output` and `tool_call_id`.
            normalize_names: Strip random suffixes from the names, as `normalize_tool_name` does; each rewrite gives a
                `ToolgradeWarning`.
            include_output: Keep the outputs.

        Raises:
            InvalidDataError: A step is not an object with a name; `problems` lists every place.
        """
        read, doubts = _read(steps)
        calls = _merge(read, doubts)
        if not include_output:
            calls = [_without_output(call) for call in calls]
        if normalize_names:
            names = [self.normalize_tool_name(call.name) for call in calls]
            rewrites = Counter((call.name, name) for call, name in zip(calls, names, strict=True) if name != call.name)
            calls = [call.model_copy(update={"name": name}) for call, name in zip(calls, names, strict=True)]
            doubts += describe_rewrites(rewrites)
        _warn(doubts)
        return calls

    def normalize_tool_name(self, tool_name: str) -> str:
        """Return the name without a random suffix: a last underscore and four ASCII characters, letters and digits.

        `agent_xg7c` becomes `agent`; `read_data` and `room_1024` are unchanged. Letters alone may be a word, so they
        are stripped only from the name of an agent (`delegate_to_...` or `..._agent`), and only if they are three
        consonants and a vowel, as hardly any word is: `sql_agent_nxle` becomes `sql_agent`, but `sql_agent_qwrt` stays.
        With a list of tools, `case_from_record` and the metric strip any such suffix if the rest is a tool's name.
        """
        letters = _AGENT_WITH_LETTERS.fullmatch(tool_name)
        return letters["bare"] if letters else strip_suffix(tool_name)

    @within_limits
    def parse(self, tool_calls: Sequence[Mapping[str, object] | ToolCall]) -> list[JsonObject]:
        """Return one step for each tool call, in any form that `case_from_record` takes.

        A step has `tool_call_id` (`None` for a call without an id), `kind`, `name`, `args`, and `output` if the call
        has one.

        Raises:
            InvalidDataError: One of them is not a call; `problems` lists every place.
        """
        calls, doubts = _read(tool_calls)
        _warn(doubts)
        return [_step(call, call.id) for call in calls]


@dataclass(frozen=True, eq=False)
class DeepEvalToolCorrectnessMetric:
    """Tool correctness with the constructor, the fields and the defaults of `gllm-evals`; `evaluate` takes it, too.

    Names, arguments and outputs are compared, after random suffixes are stripped from called names. The score is that
    of `ToolCorrectnessMetric`. If the available tools are known, the model judges their selection; a model given by its
    name then needs a key, without which there is no score.

    Args:
        threshold: A score at or above it passes; in [0, 1].
        model: The model that judges the selection of tools: the name of a model of OpenAI or of a server like it,
            with or without `openai/`; a `ModelId` or a `BaseLMInvoker` of gllm-inference, which gets one text; or
            whatever else `judge=` takes.
        model_credentials: The key for a model given by its name, by default `OPENAI_API_KEY` of the environment. Never
            shown.
        model_config: Settings for a model given by its name, as in `OpenAIJudge`: `base_url`, `api_key`, `timeout`, and
            so on; `default_hyperparameters`, or `options`, are sent with every request. Never shown.
        include_reason: Write a reason with the arithmetic and the findings.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        should_exact_match: 1 if expected and called are the same call by call, else 0.
        should_consider_ordering: Only calls in the expected order count.
        available_tools: The tools the agent could choose from; their names are never changed.
        evaluation_params: Fields compared besides the name; `None` for arguments and outputs, `[]` for none.
        batch_status_check_interval: Seconds between two checks of a batch, see `measure_batch`.
        batch_max_iterations: Maximum number of checks. After that nothing is lost: call `measure_batch` again.

    Raises:
        ConfigurationError: An option is out of range, or the model cannot judge.

    Example:
        >>> import asyncio
        >>> from toolgrade.compat.gllm_evals import DeepEvalToolCorrectnessMetric
        >>> record = {
        ...     "query": "What is the weather in Paris?",
        ...     "tools_called": [{"name": "get_weather", "args": {"city": "Paris"}, "output": "sunny"}],
        ...     "expected_tools": [{"name": "get_weather", "args": {"city": "Paris"}}],
        ... }
        >>> asyncio.run(DeepEvalToolCorrectnessMetric().measure(record)).reason
        '1 matched / 1 expected = 1 (passed at 0.5).'
    """

    needs_expectation: ClassVar[bool] = True
    waits: ClassVar[bool] = True
    """`evaluate` measures several cases at the same time: each may have tools whose selection is judged."""

    threshold: float = 0.5
    model: object = DefaultValues.AGENT_EVALS_MODEL
    model_credentials: InitVar[str | None] = None
    model_config: InitVar[Mapping[str, object] | None] = None
    # They are no fields: files of results have those of a metric, and these hold keys.
    include_reason: bool = True
    strict_mode: bool = False
    should_exact_match: bool = False
    should_consider_ordering: bool = False
    available_tools: Sequence[ToolSpec | ToolCall | JsonObject] | None = None
    evaluation_params: Sequence[ToolCallParams] | None = None
    batch_status_check_interval: float = DefaultValues.BATCH_STATUS_CHECK_INTERVAL
    batch_max_iterations: int = DefaultValues.BATCH_MAX_ITERATIONS
    _judge: Judge = field(init=False, repr=False)
    _core: ToolCorrectnessMetric = field(init=False, repr=False)

    def __post_init__(self, model_credentials: str | None, model_config: Mapping[str, object] | None) -> None:
        """Build the judge, and the metric behind this one, which checks the options."""
        params = self.evaluation_params
        judge = _judge(self.model, model_credentials, model_config or {})
        core = ToolCorrectnessMetric(
            threshold=self.threshold,
            evaluation_params=(ToolCallParams.INPUT_PARAMETERS, ToolCallParams.OUTPUT) if params is None else params,
            should_exact_match=self.should_exact_match,
            should_consider_ordering=self.should_consider_ordering,
            strict_mode=self.strict_mode,
            include_reason=self.include_reason,
            available_tools=self.available_tools,
            judge=None if self.available_tools is None else judge,
        )
        options = {"model_credentials": model_credentials, "model_config": model_config, "threshold": core.threshold}
        for name, value in {**options, "_judge": judge, "_core": core}.items():
            object.__setattr__(self, name, value)  # the dataclass is frozen

    @property
    def label(self) -> str:
        """The name under which `evaluate` reports results."""
        return self._core.label

    @property
    def judge(self) -> Judge:
        """The model as a judge."""
        return self._judge

    @overload
    def measure(self, case: AnyCase, /) -> MetricResult: ...

    @overload
    def measure(
        self, record: Mapping[str, object] | None = None, /, **fields: object
    ) -> Coroutine[Any, Any, MetricResult]: ...

    def measure(
        self, record: AnyCase | Mapping[str, object] | None = None, /, **fields: object
    ) -> MetricResult | Coroutine[Any, Any, MetricResult]:
        """Return the result of one record, to be awaited; that of a case of toolgrade is returned at once.

        If the judge cannot be asked, as without a key, the result of a record is errored; with a case that is raised,
        and errored in the report of `evaluate`.

        Args:
            record: The record as one object, see `case_from_record`, or a case such as `LLMTestCase`.
            fields: The record's fields by name: `query`, `generated_response`, `expected_response`, `tools_called`,
                `expected_tools`, `agent_trajectory`, `expected_agent_trajectory`, `available_tools`. `tools_called` and
                `expected_tools` win over the trajectories; `available_tools` win over the metric's. Steps of
                `TrajectoryParser` are tools, too: the two steps of one call count once.

        Raises:
            InvalidDataError: The record is invalid, or a field was given twice; `problems` lists every place.
            MissingFieldError: The record lacks the called or the expected tools.
        """
        if isinstance(record, _CASES) and not fields:
            case = self._case(record)
            return self._metric_of(case, self.judge).measure(case)
        return self._measure_record(record or {}, self.judge, fields)

    async def a_measure(self, case: AnyCase, /) -> MetricResult:
        """Return the result of a case of toolgrade; await the judge instead of blocking."""
        read = self._case(case)
        return await self._metric_of(read, self.judge).a_measure(read)

    async def measure_batch(
        self, records: Iterable[Mapping[str, object]], cache: str | os.PathLike[str]
    ) -> list[MetricResult]:
        """Return the results of many records, with the selection of tools judged over OpenAI's Batch API.

        This costs less and may take a day. A record that cannot be measured has an errored result with the reason, as
        have those whose batch has not ended after `batch_max_iterations` checks.

        Args:
            records: The records, see `measure`.
            cache: File of the verdicts, as for `Judge`; with the same one, a later call collects what is missing.

        Raises:
            ConfigurationError: The model has no batches.
        """
        if isinstance(self.model, Judge) or not isinstance(self.judge.model, OpenAIJudge):
            message = "measure_batch needs a model of OpenAI by name, or an OpenAIJudge"
            raise ConfigurationError(f"{message}; a Judge asks in batches by itself: Judge(..., batch=True)")
        interval, checks = self.batch_status_check_interval, self.batch_max_iterations
        options = BatchOptions(status_check_interval=interval, max_iterations=checks)
        judge = Judge(self.judge.model, cache=cache, batch=options)

        async def result_of(record: Mapping[str, object]) -> MetricResult:
            try:
                return await self._measure_record(record, judge)
            except ToolgradeError as error:
                return errored_result(self.label, self.threshold, error)

        return await asyncio.gather(*map(result_of, records))

    async def _measure_record(
        self, record: Mapping[str, object] | AnyCase, judge: Judge, fields: Mapping[str, object] | None = None
    ) -> MetricResult:
        case = self._case(record, fields)
        try:
            return await self._metric_of(case, judge).a_measure(case)
        except ConfigurationError as error:
            return errored_result(self.label, self.threshold, error)

    @within_limits
    def _case(self, record: object, fields: Mapping[str, object] | None = None) -> TestCase:
        """Return the case to measure, whose tools have no random suffixes."""
        names = [read_tool_spec(tool).name for tool in self.available_tools or ()]
        if isinstance(record, _CASES) and not fields:
            return _without_suffixes(as_case(record), names)
        own, named = as_object(record), fields or {}
        twice = sorted(named.keys() & (own or {}).keys())
        if twice:
            raise InvalidDataError(f"{', '.join(map(repr, twice))} given both in the record and by name; give it once")
        read: Any = record if own is None else {**own, **named}  # what is not an object is refused by its reader
        for key in ("tools_called", "expected_tools"):
            if own is not None and key in read:
                read[key] = _merge_steps(read[key], key)
        return _without_suffixes(case_from_record(read), names)

    def _metric_of(self, case: TestCase, judge: Judge) -> ToolCorrectnessMetric:
        """Return the metric of a case, which has the judge only if there are tools to choose from."""
        tools = self.available_tools if case.available_tools is None else case.available_tools
        return self._core if tools is None else replace(self._core, available_tools=tools, judge=judge)


_CASES = (LLMTestCase, MLLMTestCase, ConversationalTestCase)
_PROVIDER = "openai/"


def _judge(model: object, key: str | None, config: Mapping[str, object]) -> Judge:
    """Return the judge that the options describe."""
    name = _name_of(model)
    if name is not None:
        return Judge(_openai_judge(name, key, dict(config)))
    invoke, model_id = getattr(model, "invoke", None), getattr(model, "model_id", None)
    if callable(invoke) and isinstance(model_id, str):  # a BaseLMInvoker, which reads a text as a message of the user
        return Judge(OneTextModel(invoke, "a BaseLMInvoker"), identity={"model": model_id})
    return Judge.of(cast("JudgeLike", model))  # which checks it


def _name_of(model: object) -> str | None:
    """Return the name of a model that is given by its name or a `ModelId`; `None` for any other model."""
    provider, path, name = (getattr(model, part, None) for part in ("provider", "path", "name"))
    if isinstance(model, str):
        return model
    if not isinstance(provider, str) or not isinstance(name, str) or hasattr(model, "invoke"):
        return None
    return "/".join(filter(None, (getattr(provider, "value", provider), path, name)))


def _openai_judge(name: str, key: str | None, settings: dict[str, Any]) -> OpenAIJudge:
    """Return the model of a name with the settings in `model_config`."""
    if "/" in name and not name.startswith(_PROVIDER) and not settings.get("base_url"):
        message = (
            f"model must be a name such as 'openai/...', got {name!r} of another provider; give a base_url in "
            "model_config for a server that speaks OpenAI's API, or a model or a function as `model`"
        )
        raise ConfigurationError(message)
    of_config, options = settings.pop("api_key", None), settings.pop("options", None)
    hyperparameters = settings.pop("default_hyperparameters", None)
    try:
        sent = {**(options or {}), **(hyperparameters or {})}
        return OpenAIJudge(name.removeprefix(_PROVIDER), api_key=key or of_config, options=sent, **settings)
    except TypeError as error:
        text = "model_config must have settings of OpenAIJudge, and default_hyperparameters as an object"
        raise ConfigurationError(f"{text}: {error}") from None


def _warn(texts: Iterable[str]) -> None:
    """Warn at the line that called the method that calls this."""
    for text in texts:
        warnings.warn(text, ToolgradeWarning, stacklevel=3)


def _read(values: object) -> tuple[list[ToolCall], list[str]]:
    """Return the calls in a list of steps, and warnings about what was only partly understood."""
    notes = Notes()
    calls = read_tools(values, "$", notes, expected=False)
    notes.raise_problems()
    return calls, notes.warnings


def _merge_steps(value: object, key: str) -> object:
    """Return steps as calls, one for the two steps of a call; any other list of tools as it is."""
    if not isinstance(value, list) or STEP_KIND not in [one.get("kind") for one in value if isinstance(one, Mapping)]:
        return value
    notes = Notes()
    calls = read_tools(value, f"$.{key}", notes, expected=key == "expected_tools")
    notes.raise_problems()
    calls = _merge(calls, notes.warnings)
    _warn(notes.warnings)
    return calls


def _without_suffixes(case: TestCase, known: Iterable[str]) -> TestCase:
    """Return a case whose called and expected tools have no random suffixes, with a warning for each rewrite."""
    tools = {*known, *(tool.name for tool in case.available_tools or ())}
    changes: dict[str, Any] = {}
    stated = expected = case.expected_tools
    pairs: list[tuple[ToolCall, ToolCall]] = []
    if isinstance(stated, list):
        changes["expected_tools"] = expected = [_renamed(call, tools) for call in stated]
        pairs += zip(stated, expected, strict=True)
    names = {*tools, *expected_names(expected)}
    calls, rewrites = strip_suffixes(case.tools_called or (), names)
    called = [_renamed(call, names) for call in calls]
    pairs = [*zip(calls, called, strict=True), *pairs]
    rewrites |= Counter((before.name, after.name) for before, after in pairs if before.name != after.name)
    if not rewrites:
        return case
    run = case.run or Run(calls=called)
    changes["run"] = run.model_copy(update={"warnings": [*run.warnings, *describe_rewrites(rewrites)]})
    if case.tools_called is not None:
        changes["tools_called"] = called
    return case.model_copy(update=changes)


def _renamed(call: ToolCall, known: Collection[str]) -> ToolCall:
    """Return a call without the suffix of its name, unless that is a tool's."""
    name = call.name if call.name in known else ToolCallParser().normalize_tool_name(call.name)
    return call if name == call.name else call.model_copy(update={"name": name})


def _step(call: ToolCall, call_id: str | None) -> JsonObject:
    raw = _requested(call)
    args = call.arguments if raw is None or isinstance(raw, dict) else raw
    return {"tool_call_id": call_id, "kind": STEP_KIND, "name": call.name, "args": args, **_output(call)}


def _requested(call: ToolCall) -> object:
    return (call.execution or _NO_EXECUTION).requested_parameters


def _output(call: ToolCall) -> JsonObject:
    """Return the `output` of a step; empty if the call was not answered."""
    if "output" in call.model_fields_set:
        return {"output": call.output}
    return drop_none({"output": (call.execution or _NO_EXECUTION).model_output})


def _without_output(call: ToolCall) -> ToolCall:
    return ToolCall(**{name: getattr(call, name) for name in call.model_fields_set if name != "output"})


_Steps: TypeAlias = dict[bool, ToolCall]
"""The one or two steps of one call, by whether they have an answer."""


def _merge(steps: Sequence[ToolCall], doubts: list[str]) -> list[ToolCall]:
    """Return one call for the steps that share an id and a name, and add a warning for each guess to `doubts`."""
    calls: list[_Steps] = []
    by_id: dict[str, list[_Steps]] = {}
    for step in steps:
        is_answer = bool(_output(step))
        same_id = [] if step.id is None else by_id.setdefault(step.id, [])
        candidates = _candidates(step, same_id, is_answer=is_answer)
        if not candidates:
            if same_id:
                doubts.append(f"several calls have the id {step.id!r}; steps with it were paired in order")
            candidates = [{}]
            calls += candidates
            same_id += candidates
        elif _arguments_of(_join(candidates[0])) != _arguments_of(step):
            doubts.append(f"steps with id {step.id!r} give {step.name!r} different arguments; the first ones count")
        candidates[0][is_answer] = step
    return [_join(call) for call in calls]


def _candidates(step: ToolCall, same_id: Sequence[_Steps], *, is_answer: bool) -> list[_Steps]:
    """Return the calls that a step may belong to; those with its arguments come first."""
    calls = [call for call in same_id if is_answer not in call and _join(call).name == step.name]
    return sorted(calls, key=lambda call: _arguments_of(_join(call)) != _arguments_of(step))


def _join(steps: _Steps) -> ToolCall:
    """Return the call of its steps; the answer adds its fields to the request."""
    if len(steps) == 1:
        return next(iter(steps.values()))
    request, answer = steps[False], steps[True]
    added = (answer.model_fields_set - request.model_fields_set) | (answer.model_fields_set & {"execution"})
    return request.model_copy(update={name: getattr(answer, name) for name in added})


def _arguments_of(call: ToolCall) -> tuple[JsonObject, object]:
    return call.arguments, _requested(call)


__all__ = ["DeepEvalToolCorrectnessMetric", "DefaultValues", "ToolCallParams", "ToolCallParser", "TrajectoryParser"]
