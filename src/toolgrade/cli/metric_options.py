"""Options that choose the metrics of a command."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from typing import TYPE_CHECKING, Any, get_args

import click

from toolgrade._internal.model import drop_none
from toolgrade._internal.text import printable
from toolgrade.calls import ToolCallParams, ToolSpec
from toolgrade.cli.io import exit_on_error
from toolgrade.cli.options import (
    Decorator,
    InputPath,
    OutputPath,
    bundle,
    clear_settings,
    is_default,
    on_command_line,
    options_in,
)
from toolgrade.errors import ToolgradeError
from toolgrade.matching.alignment import Denominator
from toolgrade.metrics import (
    ArgumentSchemaMetric,
    BudgetMetric,
    MetricLike,
    RunHealthMetric,
    TaskSuccessMetric,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolGroundingMetric,
    ToolRecoveryMetric,
    ToolSuccessRate,
    ToolUseMetric,
)
from toolgrade.metrics.called_tools import Compare

_ALIKE = 0.5

_PARAMS = {
    "name": ToolCallParams.TOOL,
    "tool": ToolCallParams.TOOL,  # as the library and reports name it; so below
    "input": ToolCallParams.INPUT_PARAMETERS,
    "input_parameters": ToolCallParams.INPUT_PARAMETERS,
    "output": ToolCallParams.OUTPUT,
}

_METRICS: dict[str, Callable[..., MetricLike]] = {
    "argument-schema": ArgumentSchemaMetric,
    "budget": BudgetMetric,
    "run-health": RunHealthMetric,
    "task-success": TaskSuccessMetric,
    "tool-correctness": ToolCorrectnessMetric,
    "tool-efficiency": ToolEfficiencyMetric,
    "tool-grounding": ToolGroundingMetric,
    "tool-recovery": ToolRecoveryMetric,
    "tool-success-rate": ToolSuccessRate,
    "tool-use": ToolUseMetric,
}

_SHARED = ("threshold", "evaluation_params", "should_consider_ordering", "should_exact_match", "denominator")
"""Parameters of metrics that are options; a metric that does not have one ignores it."""
_BUDGETS: dict[str, Callable[[str], float]] = {
    "max_calls": int,
    "max_seconds": float,
    "max_tokens": int,
}
"""Limits of `--budget`, and how their numbers are read."""
_JUDGE_OPTIONS = ("judge_url", "cache")
"""Parameters of the judge's options besides its name."""
_SPECIAL = ("forbidden", "calls_only", "compare", "effects", "judge", "available_tools")
"""Further ones. It is an error to give one that no chosen metric has."""

if TYPE_CHECKING:
    from toolgrade.judge import Judge

    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # generic only since click 8.2


class _MetricName(_Choice):
    """Name of a metric, also as reports print it: `tool_correctness` is `tool-correctness`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as in click
        name = str(value).replace("_", "-")
        if name in self.choices:
            return super().convert(name, param, ctx)
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().removesuffix("-metric")
        near = get_close_matches(words, self.choices, n=1, cutoff=_ALIKE)
        hint = f"did you mean {near[0]!r}?" if near else f"the metrics are {', '.join(self.choices)}"
        return self.fail(f"{printable(str(value))!r} is not a metric; {hint}", param, ctx)


def _parse_params(_context: click.Context, _option: click.Parameter, value: str) -> tuple[ToolCallParams, ...]:
    try:
        return tuple(_PARAMS[name.strip()] for name in value.split(",") if name.strip())
    except KeyError as error:
        raise click.BadParameter(f"{error.args[0]!r} is not one of name, input, output") from None


def _parse_effects(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    effects: dict[str, str] = {}
    for value in values:
        name, _, effect = value.rpartition("=")
        if not name or effect not in {"read", "write"}:
            message = f"{name or effect!r} needs a tool and its effect, as in 'get_*=read' or 'book=write'"
            raise click.BadParameter(message)
        effects[name] = effect
    return effects


def _parse_budget(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    limits: dict[str, float] = {}
    for value in values:
        name, _, text = value.partition("=")
        if name not in _BUDGETS or name in limits:
            raise click.BadParameter(f"{value!r} is not one of {', '.join(_BUDGETS)} with its limit, once each")
        try:
            limits[name] = _BUDGETS[name](text)
        except ValueError:
            raise click.BadParameter(f"{text!r} is not a number; write it as in 'max_tokens=20000'") from None
    return limits


def _read_tools(_context: click.Context, _option: click.Parameter, value: str | None) -> list[ToolSpec] | None:
    if value is None:
        return None
    from toolgrade.cli.inputs import tools_in  # noqa: PLC0415 - not loaded without this option

    with exit_on_error(value, "nothing was scored"):
        return tools_in(value, None)


def _collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the options of metrics by `metrics`, the list of the chosen ones."""
    clear_settings(arguments, "should_consider_ordering", "should_exact_match")
    clear_settings(arguments, "threshold", "strict")
    names = list(dict.fromkeys(arguments.pop("metric_names")))
    budget: dict[str, float] = arguments.pop("budget")
    if budget and "budget" not in names:
        names = [*([] if is_default("metric_names") else names), "budget"]
    strict: bool = arguments.pop("strict")
    arguments["judge"] = _judge(names, **{name: arguments.pop(name) for name in ("judge", *_JUDGE_OPTIONS)})
    options = {name: arguments.pop(name) for name in (*_SHARED, *_SPECIAL)}
    _check_combinations(names, options)
    options |= budget
    return {**arguments, "metrics": [_metric(name, options, strict=strict) for name in names]}


def _judge(names: Sequence[str], judge: str | None, judge_url: str | None, cache: str | None) -> Judge | None:
    """Return the judge that all metrics share, and so its cache; `None` if none is to be asked."""
    model = judge or os.environ.get("TOOLGRADE_JUDGE_MODEL")
    if judge is None and "tool-use" not in names:
        for parameter in filter(on_command_line, _JUDGE_OPTIONS):
            raise click.UsageError(f"--{parameter.replace('_', '-')} must be used with --judge")
        return None
    if not model:
        raise click.UsageError("tool-use needs the name of a model; give --judge or set TOOLGRADE_JUDGE_MODEL")
    from toolgrade.judge import Judge  # noqa: PLC0415 - loaded only if a metric asks a judge

    cache = cache or "memory"
    if judge_url is None:
        return Judge(judge, cache=cache)
    from toolgrade.judge.openai import OpenAIJudge  # noqa: PLC0415 - as above

    return Judge(OpenAIJudge(model, base_url=judge_url), cache=cache)


def _check_combinations(names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other, or that no chosen metric has."""
    if options["should_consider_ordering"] and options["should_exact_match"]:
        raise click.UsageError("--ordered and --exact cannot be combined: an exact match is ordered")
    # A setting of the project may be for other metrics.
    flags = {option.name: option.opts[0] for option in click.get_current_context().command.params}
    for parameter in filter(on_command_line, _SPECIAL):
        metrics = [name for name in _METRICS if parameter in _parameters(name)]
        if not set(metrics).intersection(names):
            message = f"{flags[parameter]} is an option of {' and '.join(metrics)}, which --metric does not name"
            raise click.UsageError(message)


def _parameters(name: str) -> set[str]:
    """Return the names of the parameters of a metric, those without an option included."""
    parameters = set(signature(_METRICS[name]).parameters)
    if "judge" not in parameters:  # tools are for a judge; other metrics read those of the cases
        parameters.discard("available_tools")
    return parameters


def _metric(name: str, options: Mapping[str, Any], *, strict: bool) -> MetricLike:
    """Return the metric of a name with those of the options that it has."""
    accepted = _parameters(name)
    parameters = drop_none({option: value for option, value in options.items() if option in accepted})
    if "judge" not in parameters:
        parameters.pop("available_tools", None)
    try:
        return _METRICS[name](**parameters, strict_mode=strict)
    except ToolgradeError as error:  # a value that click accepts, such as nan
        raise click.UsageError(str(error)) from error


_metric_option = options_in("What is measured")
_judge_option = options_in("Judge")
_effect_option = options_in("Tool effects")
_failure_option = options_in("Failed calls")
_verdict_option = options_in("When a case passes")

metric_options: Decorator = bundle(
    (
        _metric_option(
            "--metric",
            "metric_names",
            multiple=True,
            type=_MetricName(list(_METRICS)),
            default=["tool-correctness"],
            show_default=True,
            metavar="NAME",
            help=f"Metric: {', '.join(_METRICS)}; may be repeated.",
        ),
        _metric_option(
            "--ordered", "should_consider_ordering", is_flag=True, help="Count only calls in the expected order."
        ),
        _metric_option(
            "--exact",
            "should_exact_match",
            is_flag=True,
            help="Score 1 if the calls are equal to the expected ones, position by position, else 0.",
        ),
        _metric_option(
            "--params",
            "evaluation_params",
            callback=_parse_params,
            default="name",
            show_default=True,
            help="Parts of a call that are compared: a comma-separated list of name, input, output.",
        ),
        _metric_option(
            "--denominator",
            type=click.Choice(get_args(Denominator)),
            default="expected",
            show_default=True,
            help="What the matched calls are divided by.",
        ),
        _metric_option(
            "--compare",
            type=click.Choice(get_args(Compare)),
            help="How arguments are compared: as JSON values, or by meaning.  [default: meaning for task-success, else "
            "exact]",
        ),
        _metric_option(
            "--calls-only",
            is_flag=True,
            help="For task-success: score the calls alone, not texts, turns, the end or the answer.",
        ),
        _judge_option(
            "--judge",
            metavar="MODEL",
            help="Model that judges, for tool-use and tool-correctness; it is sent the cases.  [default for tool-use: "
            "TOOLGRADE_JUDGE_MODEL]",
        ),
        _judge_option(
            "--judge-url",
            metavar="URL",
            help="Address of a server with OpenAI's API, such as http://localhost:8000/v1; its key is "
            "TOOLGRADE_JUDGE_API_KEY.  [default: OpenAI's]",
        ),
        _judge_option(
            "--cache",
            type=OutputPath(dir_okay=False),
            metavar="FILE",
            help="File of verdicts, such as verdicts.sqlite; only questions that it lacks are asked.",
        ),
        _judge_option(
            "--tools",
            "available_tools",
            type=InputPath(),
            callback=_read_tools,
            metavar="FILE",
            help="JSON file with the available tools, or cases, recorded messages or traces with them.  "
            "[default: those of each case]",
        ),
        _effect_option(
            "--effect",
            "effects",
            multiple=True,
            callback=_parse_effects,
            metavar="NAME=read|write",
            help="Effect of a tool, or of all that match a pattern, for task-success; may be repeated.",
        ),
        _failure_option(
            "--error-texts",
            default="default",
            metavar="PATTERN|none",
            help="Answers of tools that count as failures: a regular expression, or none.  [default: those that are "
            "errors by convention, such as 'Error: ...']",
        ),
        _failure_option(
            "--text-tools",
            multiple=True,
            metavar="NAME",
            help="Tool, or pattern of tools, that returns documents, whose text is never a failure; may be repeated.",
        ),
        _effect_option(
            "--forbidden",
            multiple=True,
            metavar="NAME",
            help="For task-success: a tool, or a pattern of tools, that must not be called; may be repeated.",
        ),
        _verdict_option(
            "--budget",
            multiple=True,
            callback=_parse_budget,
            metavar="NAME=LIMIT",
            help="Measure budget, with this limit: max_calls, max_seconds or max_tokens; may be repeated.",
        ),
        _verdict_option(
            "--threshold",
            type=click.FloatRange(0, 1),
            help="Lowest score that passes.  [default: 0.5; 0.98 for task-success; 1 for "
            "argument-schema, budget, run-health, tool-grounding and tool-success-rate]",
        ),
        _verdict_option("--strict", is_flag=True, help="Threshold 1, and any lower score becomes 0."),
    ),
    _collect,
)
"""Options that choose metrics; the command gets them as `metrics`, a list."""
