"""The names of `gllm-evals`, for code that comes from there: its parsers, and its tool correctness metric.

Nothing is computed here: trajectories are read by `toolmark.formats`, scores come from `ToolCorrectnessMetric`, and the
selection of tools is judged by `toolmark.judge`.

What differs on purpose: the pairing of calls is optimal (theirs depends on the order of the list), each call is judged
by itself, and a name loses its suffix only by the rule that stands in `toolmark.formats.names`.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from toolmark._internal.json import JsonObject
from toolmark.calls import ToolCall, ToolCallParams, ToolSpec, read_tool_spec
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError, InvalidDataError, JudgeError, JudgeOutcome, ToolmarkWarning
from toolmark.formats.messages.field_readers import Notes
from toolmark.formats.messages.tool_fields import read_tools
from toolmark.formats.messages.trajectory import read_run
from toolmark.formats.names import describe_rewrites, strip_suffix, strip_suffixes
from toolmark.formats.records import case_from_record
from toolmark.judge import Judge, JudgeLike
from toolmark.judge.batch import Batch
from toolmark.judge.openai import OpenAIJudge
from toolmark.metrics.tool_correctness import ToolCorrectnessMetric
from toolmark.result import MetricResult

STEP_KIND = "tool_call"
"""The `kind` of every step: trajectories hold no other steps that a metric reads."""


class TrajectoryParser:
    """Turns a list of OpenAI chat messages into steps."""

    def convert_trajectory_to_steps(self, trajectory: Sequence[object]) -> list[JsonObject]:
        """Return the calls of a trajectory as a flat list of steps, in the order of the messages.

        A step has `tool_call_id`, `kind` (always `"tool_call"`), `name` and `args`. Each call gives a step without
        `output` where the assistant asked for it and, if it was answered, another one with `output` where the answer
        stands; the two share one `tool_call_id`, and `ToolCallParser.create_tool_call_object` makes one call of them. A
        call without an id gets the place where it was found, e.g. `"trajectory[1].tool_calls[0]"`. `args` is the
        argument object, or the raw text where that is none.

        Whatever was understood only in part is a `ToolmarkWarning`.

        Raises:
            InvalidDataError: The trajectory is no list of OpenAI chat messages; `problems` has every place.
        """
        notes = Notes()
        run, answers = read_run(trajectory, "$.trajectory", notes)
        notes.raise_problems()
        _warn(notes.warnings)
        placed: list[tuple[int, int, JsonObject]] = []
        for position, call in enumerate(run.calls):
            source = (call.execution and call.execution.source) or ""
            step = _step(call, call.id or source)
            output = step.pop("output", None)
            placed.append((_message(source), position, step))
            if source in answers and output is not None:
                placed.append((_message(answers[source]), position, {**step, "output": output}))
        return [step for _, _, step in sorted(placed, key=lambda item: item[:2])]

    def parse(self, trajectory: Sequence[object]) -> list[JsonObject]:
        """Return what `convert_trajectory_to_steps` returns."""
        return self.convert_trajectory_to_steps(trajectory)


def _message(place: str) -> int:
    """Return which message of the trajectory a path leads to."""
    return int(place.partition("[")[2].partition("]")[0])


class ToolCallParser:
    """Turns steps into tool calls, and tool calls into steps."""

    def create_tool_call_object(
        self,
        steps: Sequence[Mapping[str, object] | ToolCall],
        normalize_names: bool = True,
        include_output: bool = True,
    ) -> list[ToolCall]:
        """Return the calls that the steps describe, in the order in which each first appears.

        Steps that share a `tool_call_id` and a name are one call: the one without output and the one with it, in either
        order. Where an id stands for more than that, the steps are paired first come first served, with a
        `ToolmarkWarning`. A step without an id is a call of its own.

        Args:
            steps: Steps with `name`, `args` (an object or JSON text) and optionally `output` and `tool_call_id`.
            normalize_names: Take random suffixes off the names, as `normalize_tool_name` does; each rewrite is a
                `ToolmarkWarning`.
            include_output: Keep the outputs.

        Raises:
            InvalidDataError: A step is no object with a name; `problems` has every place.
        """
        read, doubts = _read(steps)
        calls = _merge(read, doubts)
        if not include_output:
            calls = [_without_output(call) for call in calls]
        if normalize_names:
            calls, rewrites = strip_suffixes(calls)
            doubts += describe_rewrites(rewrites)
        _warn(doubts)
        return calls

    def normalize_tool_name(self, tool_name: str) -> str:
        """Return the name without a random suffix: a last underscore and four ASCII characters, letters and digits.

        `agent_xg7c` becomes `agent`; `read_data`, `room_1024` and `agent_nxle` stay, for no rule tells a random suffix
        of letters alone from a word. Where tools are known, `case_from_record` and the metric take such a suffix off
        too if what is left is a known tool.
        """
        return strip_suffix(tool_name)

    def parse(self, tool_calls: Sequence[Mapping[str, object] | ToolCall]) -> list[JsonObject]:
        """Return one step for each tool call, in any form that `case_from_record` takes.

        A step has `tool_call_id` (`None` where the call has no id), `kind`, `name`, `args`, and `output` where the call
        has one.

        Raises:
            InvalidDataError: One of them is no call; `problems` has every place.
        """
        calls, doubts = _read(tool_calls)
        _warn(doubts)
        return [_step(call, call.id) for call in calls]


@dataclass(frozen=True, eq=False)
class DeepEvalToolCorrectnessMetric:
    """Tool correctness with the constructor, the fields and the defaults of `gllm-evals`.

    Names, arguments and outputs are compared, and called names lose their random suffixes. The score is
    `ToolCorrectnessMetric`'s. Where the available tools are known, their selection is judged by the model; where the
    model is a name without `model_credentials`, the result says, in `warnings`, that it was not.

    Args:
        threshold: A score at or above it passes; in [0, 1].
        model: The model that judges the selection of tools: the name of a model of OpenAI or of a server like it,
            with or without `openai/`; or whatever else `judge=` takes.
        model_credentials: The key of a model that is given by its name. Never shown.
        model_config: Settings of a model that is given by its name, as `OpenAIJudge` takes them: `base_url`,
            `api_key`, `timeout`, and so on; `default_hyperparameters`, or `options`, are sent with every request.
            Never shown.
        include_reason: Put the arithmetic and the findings into words.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        should_exact_match: 1 if expected and called are the same call by call, else 0.
        should_consider_ordering: Only calls in the expected order count.
        available_tools: The tools the agent could choose from; their names are known ones and never change.
        evaluation_params: What is compared beside the name; `None` is arguments and outputs, `[]` is the name alone.
        batch_status_check_interval: Seconds between two looks at a batch, see `measure_batch`; they grow to 120.
        batch_max_iterations: The most such looks. Nothing is lost when they are used up: call `measure_batch` again.

    Raises:
        ConfigurationError: An option is out of range, or the model can be none that judges.
    """

    threshold: float = 0.5
    model: object = "openai/gpt-4.1"
    model_credentials: str | None = field(default=None, repr=False)
    model_config: Mapping[str, object] | None = field(default=None, repr=False)
    include_reason: bool = True
    strict_mode: bool = False
    should_exact_match: bool = False
    should_consider_ordering: bool = False
    available_tools: Sequence[ToolSpec | ToolCall | JsonObject] | None = None
    evaluation_params: Sequence[ToolCallParams] | None = None
    batch_status_check_interval: float = 30.0
    batch_max_iterations: int = 120
    _core: ToolCorrectnessMetric = field(init=False, repr=False)
    _judge: Judge | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the metric that does the work, which checks the options."""
        params = self.evaluation_params
        core = ToolCorrectnessMetric(
            threshold=self.threshold,
            evaluation_params=(ToolCallParams.INPUT_PARAMETERS, ToolCallParams.OUTPUT) if params is None else params,
            should_exact_match=self.should_exact_match,
            should_consider_ordering=self.should_consider_ordering,
            strict_mode=self.strict_mode,
            include_reason=self.include_reason,
            available_tools=self.available_tools,
        )
        object.__setattr__(self, "_core", core)  # the dataclass is frozen
        object.__setattr__(self, "_judge", _judge(self.model, self.model_credentials, self.model_config))

    async def measure(self, record: Mapping[str, object] | None = None, /, **fields: object) -> MetricResult:
        """Return the result of one record.

        Args:
            record: The record as one object, see `case_from_record`.
            fields: The record's fields by name: `query`, `generated_response`, `expected_response`, `tools_called`,
                `expected_tools`, `agent_trajectory`, `expected_agent_trajectory`, `available_tools`. `tools_called` and
                `expected_tools` win over the trajectories; `available_tools` win over the metric's.

        Raises:
            InvalidDataError: It is no such record, or a field was given twice; `problems` has every place.
            MissingFieldError: Neither called nor expected tools, or only one of the two, can be told from it.
        """
        core, case = self._prepared(record, fields)
        return await core.a_measure(case)

    async def measure_batch(
        self, records: Iterable[Mapping[str, object]], folder: str | os.PathLike[str]
    ) -> list[MetricResult]:
        """Return the results of many records, whose tools are judged in one go over OpenAI's Batch API.

        That costs less and may take a day. A question that no batch could answer is asked directly at the end.

        Args:
            records: The records, see `measure`.
            folder: Where the state of the batches and the verdicts are kept; the same one to go on where a call, or the
                program, was ended.

        Raises:
            ConfigurationError: The model cannot be asked in batches.
            JudgeError: The provider refuses, or the batches have not ended after `batch_max_iterations` looks.
            InvalidDataError, MissingFieldError: As for `measure`, of the first such record.
        """
        if self._judge is None:
            raise ConfigurationError("a batch needs model_credentials, or a judge as `model`")
        given = isinstance(self.model, Judge)  # then the verdicts go where it keeps them
        judge = self._judge if given else Judge(self._judge.model, cache=Path(folder) / "verdicts.db")
        prepared = [self._prepared(record, {}, judge) for record in records]
        batch = Batch(folder, judge)
        await asyncio.to_thread(batch.submit, [prompt for core, case in prepared for prompt in core.prompts(case)])
        state = await asyncio.to_thread(
            batch.poll,
            batch_status_check_interval=self.batch_status_check_interval,
            batch_max_iterations=self.batch_max_iterations,
        )
        await asyncio.to_thread(batch.collect)
        if not state.ended:
            looks = self.batch_max_iterations
            message = f"the batches have not ended after {looks} looks; call again with the same folder to go on"
            raise JudgeError(message, JudgeOutcome.TIMEOUT)
        return [await core.a_measure(case) for core, case in prepared]

    def _prepared(
        self, record: Mapping[str, object] | None, fields: Mapping[str, object], judge: Judge | None = None
    ) -> tuple[ToolCorrectnessMetric, TestCase]:
        """Return the case of a record, and the metric that measures it."""
        twice = sorted(fields.keys() & (record or {}).keys())
        if twice:
            raise InvalidDataError(f"{', '.join(map(repr, twice))} given both in the record and by name; give it once")
        known = [read_tool_spec(tool).name for tool in self.available_tools or ()]
        case = case_from_record({**(record or {}), **fields}, normalize_names=True, known_names=known)
        tools = self.available_tools if case.available_tools is None else case.available_tools
        if tools is None:
            return self._core, case
        return replace(self._core, available_tools=tools, judge=judge or self._judge), case


_PROVIDER = "openai/"
_SETTINGS = frozenset(
    {"api", "base_url", "client", "cost_budget", "deadline", "max_attempts", "max_concurrency"}
    | {"options", "prices", "timeout", "token_budget"}
)


def _judge(model: object, key: str | None, config: Mapping[str, object] | None) -> Judge | None:
    """Return the judge that the options describe; `None` for a name without a key."""
    if not isinstance(model, str):
        return Judge.of(cast("JudgeLike", model))  # which checks it
    settings = dict(config or {})
    own = settings.pop("api_key", None)
    key = str(own) if key is None and own is not None else key
    if key is None:
        return None
    if "/" in model and not model.startswith(_PROVIDER) and not settings.get("base_url"):
        message = (
            f"model {model!r} is of a provider that toolmark does not ask by name; give 'openai/...', a base_url in "
            "model_config for a server that speaks OpenAI's API, or a model or a function as `model`"
        )
        raise ConfigurationError(message)
    sent = settings.pop("default_hyperparameters", None)
    unknown = sorted(settings.keys() - _SETTINGS)
    if unknown:
        message = f"model_config holds {unknown}; known are default_hyperparameters, {', '.join(sorted(_SETTINGS))}"
        raise ConfigurationError(message)
    if sent is not None or "options" in settings:
        settings["options"] = {**_mapping(sent), **_mapping(settings.get("options"))}
    return Judge(OpenAIJudge(model.removeprefix(_PROVIDER), api_key=key, **cast("dict[str, Any]", settings)))


def _mapping(value: object) -> Mapping[str, object]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    message = f"model_config: default_hyperparameters and options are objects, got {type(value).__name__}"
    raise ConfigurationError(message)


def _warn(texts: Iterable[str]) -> None:
    """Warn at the line that called the method that calls this."""
    for text in texts:
        warnings.warn(text, ToolmarkWarning, stacklevel=3)


def _read(values: object) -> tuple[list[ToolCall], list[str]]:
    """Return the calls that were given, and what was understood only in part."""
    notes = Notes()
    calls = read_tools(values, "$", notes, expected=False)
    notes.raise_problems()
    return calls, notes.warnings


def _step(call: ToolCall, call_id: str | None) -> JsonObject:
    execution = call.execution
    raw = None if execution is None else execution.requested_parameters
    step: JsonObject = {"tool_call_id": call_id, "kind": STEP_KIND, "name": call.name, "args": call.arguments}
    if raw is not None and not isinstance(raw, dict):
        step["args"] = raw
    if "output" in call.model_fields_set:
        step["output"] = call.output
    elif execution is not None and execution.model_output is not None:
        step["output"] = execution.model_output
    return step


def _without_output(call: ToolCall) -> ToolCall:
    return ToolCall(**{name: getattr(call, name) for name in call.model_fields_set if name != "output"})


@dataclass
class _Halves:
    """One call, of which two steps may tell: one that it was asked for, one what came of it."""

    asked: ToolCall | None = None
    answered: ToolCall | None = None

    def lacks(self, *, answer: bool) -> bool:
        return (self.answered if answer else self.asked) is None

    def whole(self) -> ToolCall:
        if self.asked is None or self.answered is None:
            (call,) = (half for half in (self.asked, self.answered) if half is not None)
            return call
        asked, answered = self.asked, self.answered
        update = {
            name: getattr(answered, name)
            for name in answered.model_fields_set
            if name == "execution" or name not in asked.model_fields_set
        }
        return asked.model_copy(update=update)


def _merge(steps: Sequence[ToolCall], doubts: list[str]) -> list[ToolCall]:
    """Return one call for the steps that share an id and a name, and add to `doubts` what had to be guessed."""
    found: list[_Halves] = []
    by_id: dict[str, list[_Halves]] = {}
    for step in steps:
        answer = _has_answer(step)
        same_id = [] if step.id is None else by_id.setdefault(step.id, [])
        open_calls = [call for call in same_id if call.lacks(answer=answer) and call.whole().name == step.name]
        same_arguments = [call for call in open_calls if _asked_with(call.whole()) == _asked_with(step)]
        if not open_calls:
            if same_id:
                doubts.append(f"id {step.id!r} was given to several calls; steps with it were paired in order")
            open_calls = [_Halves()]
            found.extend(open_calls)
            same_id.extend(open_calls)
        elif not same_arguments:
            doubts.append(f"steps with id {step.id!r} give {step.name!r} different arguments; the first ones count")
        half = (same_arguments or open_calls)[0]
        if answer:
            half.answered = step
        else:
            half.asked = step
    return [half.whole() for half in found]


def _has_answer(step: ToolCall) -> bool:
    return "output" in step.model_fields_set or (step.execution is not None and step.execution.model_output is not None)


def _asked_with(call: ToolCall) -> tuple[JsonObject, object]:
    return call.arguments, None if call.execution is None else call.execution.requested_parameters


__all__ = ["STEP_KIND", "DeepEvalToolCorrectnessMetric", "ToolCallParams", "ToolCallParser", "TrajectoryParser"]
