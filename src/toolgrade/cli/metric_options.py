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
from toolgrade.cli.options import Decorator, InputPath, OutputPath, bundle, clear_settings, on_command_line, options_in
from toolgrade.errors import ConfigurationError
from toolgrade.matching.alignment import Denominator
from toolgrade.metrics import (
    ArgumentSchemaMetric,
    MetricLike,
    TaskSuccessMetric,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolErrorRate,
    ToolRecoveryMetric,
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
    "task-success": TaskSuccessMetric,
    "tool-correctness": ToolCorrectnessMetric,
    "tool-efficiency": ToolEfficiencyMetric,
    "tool-error-rate": ToolErrorRate,
    "tool-recovery": ToolRecoveryMetric,
    "tool-use": ToolUseMetric,
}

_SHARED = ("threshold", "evaluation_params", "should_consider_ordering", "should_exact_match", "denominator")
"""Parameters of metrics that are options; a metric that does not have one ignores it."""
_JUDGE_OPTIONS = ("judge_url", "cache", "samples")
"""Parameters of the judge's options besides its name."""
_SPECIAL = (
    *("max_calls", "max_seconds", "only", "ignore_failed", "forbidden"),
    *("calls_only", "compare", "effects", "guess_effects", "error_pattern", "judge"),
    "available_tools",
)
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
    strict: bool = arguments.pop("strict")
    arguments["judge"] = _judge(names, **{name: arguments.pop(name) for name in ("judge", *_JUDGE_OPTIONS)})
    options = {name: arguments.pop(name) for name in (*_SHARED, *_SPECIAL)}
    _check_combinations(names, options)
    if options["threshold"] is not None:
        options["max_rate"] = 1 - options["threshold"]
    return {**arguments, "metrics": [_metric(name, options, strict=strict) for name in names]}


def _judge(
    names: Sequence[str], judge: str | None, judge_url: str | None, cache: str | None, samples: int
) -> Judge | None:
    """Return the judge that all metrics share, and so its cache; `None` if none is to be asked."""
    model = judge or os.environ.get("TOOLGRADE_JUDGE_MODEL")
    if judge is None and "tool-use" not in names:
        for parameter in filter(on_command_line, _JUDGE_OPTIONS):
            raise click.UsageError(f"--{parameter.replace('_', '-')} must be used with --judge")
        return None
    if not model:
        raise click.UsageError("tool-use needs the name of a model; give --judge or set TOOLGRADE_JUDGE_MODEL")
    from toolgrade.judge import Judge  # noqa: PLC0415 - loaded only if a metric asks a judge

    options: dict[str, Any] = {"cache": cache or "memory", "samples": samples}
    if judge_url is None:
        return Judge(judge, **options)
    from toolgrade.judge.openai import OpenAIJudge  # noqa: PLC0415 - as above

    return Judge(OpenAIJudge(model, base_url=judge_url), **options)


def _check_combinations(names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other, or that no chosen metric has."""
    if options["should_consider_ordering"] and options["should_exact_match"]:
        raise click.UsageError("--ordered and --exact cannot be combined: an exact match is ordered")
    _check_special(names)
    leaves_out_failed = options["ignore_failed"] or "task-success" in names
    if options["error_pattern"] and not leaves_out_failed and on_command_line("error_pattern"):
        message = "--error-pattern must be used with --ignore-failed or --metric task-success"
        raise click.UsageError(message)


def _check_special(names: Sequence[str]) -> None:
    """Refuse options that no chosen metric has; a setting of the project may be for other metrics."""
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
    # --ignore-failed turns it on, which it is by default for task-success.
    return parameters - {"ignore_failed"} if name == "task-success" else parameters


def _metric(name: str, options: Mapping[str, Any], *, strict: bool) -> MetricLike:
    """Return the metric of a name with those of the options that it has."""
    accepted = _parameters(name)
    parameters = drop_none({option: value for option, value in options.items() if option in accepted})
    if "judge" not in parameters:
        parameters.pop("available_tools", None)
    if not parameters.get("ignore_failed", True):
        # tool-correctness takes an error pattern only with ignore_failed; beside a metric of tasks it is for that one.
        parameters.pop("error_pattern", None)
    try:
        return _METRICS[name](**parameters, strict_mode=strict)
    except ConfigurationError as error:  # a value that click accepts, such as nan
        raise click.UsageError(str(error)) from error


_metric_option = options_in("What is measured")
_judge_option = options_in("Judge")
_effect_option = options_in("Tool effects")
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
            "--samples",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            metavar="N",
            help="Ask each question N times; the majority counts.",
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
            "--only", type=click.Choice(["read", "write"]), help="For tool-correctness: compare only these calls."
        ),
        _effect_option(
            "--ignore-failed", is_flag=True, help="For tool-correctness: leave out calls that had no effect."
        ),
        _effect_option(
            "--effect",
            "effects",
            multiple=True,
            callback=_parse_effects,
            metavar="NAME=read|write",
            help="Effect of a tool, or of all that match a pattern, for task-success and --only; may be repeated.",
        ),
        _effect_option(
            "--guess-effects/--no-guess-effects",
            default=None,
            help="Guess effects that are not declared from tool names.  [default: only for task-success]",
        ),
        _effect_option(
            "--error-pattern",
            metavar="REGEX",
            help="For task-success and --ignore-failed: calls whose output matches count as failed; "
            "'default' matches outputs that begin as usual error texts, and is the default of task-success.",
        ),
        _effect_option(
            "--forbidden",
            multiple=True,
            metavar="NAME",
            help="For task-success: a tool, or a pattern of tools, that must not be called; may be repeated.",
        ),
        _verdict_option("--max-calls", type=click.IntRange(0), help="For tool-efficiency: calls that are enough."),
        _verdict_option(
            "--max-seconds",
            type=click.FloatRange(0, min_open=True),
            help="For tool-efficiency: seconds that are enough.",
        ),
        _verdict_option(
            "--threshold",
            type=click.FloatRange(0, 1),
            help="Lowest score that passes.  [default: 0.5; 0.98 for task-success; 1 for "
            "argument-schema and tool-error-rate]",
        ),
        _verdict_option("--strict", is_flag=True, help="Threshold 1, and any lower score becomes 0."),
    ),
    _collect,
)
"""Options that choose metrics; the command gets them as `metrics`, a list."""
