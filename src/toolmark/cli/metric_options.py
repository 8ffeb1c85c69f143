"""Options that choose the metrics of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import click
from click.core import ParameterSource

from toolmark.calls import ToolCallParams
from toolmark.cli.options import Decorator, bundle, options_in
from toolmark.errors import ConfigurationError
from toolmark.matching.alignment import Denominator
from toolmark.metrics import (
    ArgumentSchemaMetric,
    MetricLike,
    MultimodalToolCorrectnessMetric,
    TaskEffectMetric,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolErrorRate,
    ToolRecoveryMetric,
)

_PARAMS = {
    "name": ToolCallParams.TOOL,
    "input": ToolCallParams.INPUT_PARAMETERS,
    "output": ToolCallParams.OUTPUT,
}
_COMPARING = ("threshold", "evaluation_params", "should_consider_ordering", "should_exact_match")
_EFFECTS = ("effects", "guess_effects", "error_pattern")

# Each metric with the parameters it takes beside `strict_mode`.
_METRICS: dict[str, tuple[Callable[..., MetricLike], tuple[str, ...]]] = {
    "argument-schema": (ArgumentSchemaMetric, ("threshold",)),
    "multimodal-tool-correctness": (MultimodalToolCorrectnessMetric, _COMPARING),
    "task-effect": (TaskEffectMetric, ("threshold", "forbidden", *_EFFECTS)),
    "tool-correctness": (ToolCorrectnessMetric, (*_COMPARING, "denominator", "only", "ignore_failed", *_EFFECTS)),
    "tool-efficiency": (ToolEfficiencyMetric, ("threshold", "max_calls", "max_seconds")),
    "tool-error-rate": (ToolErrorRate, ("max_rate",)),
    "tool-recovery": (ToolRecoveryMetric, ("threshold",)),
}
_PARAMETERS = {name for _, accepted in _METRICS.values() for name in accepted} - {"max_rate"}

# Options that have no default: it is an error to give one that no chosen metric takes.
_OPTIONAL = {
    "max_calls": "--max-calls",
    "max_seconds": "--max-seconds",
    "only": "--only",
    "ignore_failed": "--ignore-failed",
    "forbidden": "--forbidden",
    "effects": "--effect",
    "guess_effects": "--guess-effects",
    "error_pattern": "--error-pattern",
}


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # generic only since click 8.2


class _MetricName(_Choice):
    """Name of a metric, also as reports print it: `tool_correctness` is `tool-correctness`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as in click
        return super().convert(str(value).replace("_", "-"), param, ctx)


def _parse_params(_context: click.Context, _option: click.Parameter, value: str) -> tuple[ToolCallParams, ...]:
    try:
        return tuple(_PARAMS[name.strip()] for name in value.split(",") if name.strip())
    except KeyError as error:
        raise click.BadParameter(f"{error.args[0]!r} is not one of {', '.join(_PARAMS)}") from None


def _parse_effects(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    effects: dict[str, str] = {}
    for value in values:
        name, _, effect = value.rpartition("=")
        if not name or effect not in {"read", "write"}:
            message = f"{name or effect!r} needs a tool and its effect, as in 'get_*=read' or 'book=write'"
            raise click.BadParameter(message)
        effects[name] = effect
    return effects


def _collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the options of metrics by `metrics`, the list of the chosen ones."""
    names: tuple[str, ...] = arguments.pop("metric_names")
    strict: bool = arguments.pop("strict")
    options = {name: arguments.pop(name) for name in _PARAMETERS}
    if options["should_consider_ordering"] and options["should_exact_match"]:
        raise click.UsageError("--ordered and --exact cannot be combined: an exact match is ordered")
    options = {name: value for name, value in options.items() if value is not None}
    _check_optional(names)
    if options.get("error_pattern") and not options["ignore_failed"] and "task-effect" not in names:
        raise click.UsageError("--error-pattern must be used with --ignore-failed or with --metric task-effect")
    if "threshold" in options:
        options["max_rate"] = 1 - options["threshold"]
    metrics = [_metric(name, options, strict=strict) for name in dict.fromkeys(names)]
    return {**arguments, "metrics": metrics}


def _metric(name: str, options: dict[str, Any], *, strict: bool) -> MetricLike:
    """Return the metric of a name with those of the options that it takes."""
    metric, accepted = _METRICS[name]
    parameters = {option: options[option] for option in accepted if option in options}
    if not parameters.get("ignore_failed", True):
        # tool-correctness takes an error pattern only with ignore_failed; beside task-effect it is for that one.
        parameters.pop("error_pattern", None)
    try:
        return metric(**parameters, strict_mode=strict)
    except ConfigurationError as error:  # a value that click accepts, such as nan
        raise click.UsageError(str(error)) from error


def _check_optional(names: tuple[str, ...]) -> None:
    """Refuse options that no chosen metric takes."""
    context = click.get_current_context()
    used = {option for name in names for option in _METRICS[name][1]}
    for option, flag in _OPTIONAL.items():
        if option not in used and context.get_parameter_source(option) is not ParameterSource.DEFAULT:
            metrics = " and ".join(name for name, (_, accepted) in _METRICS.items() if option in accepted)
            raise click.UsageError(f"{flag} is an option of {metrics}, which --metric does not name")


_metric_option = options_in("What is measured")
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
            help="Metric; may be repeated.",
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
            help="Effect of a tool, or of all that match a pattern, for task-effect and --only; may be repeated.",
        ),
        _effect_option("--guess-effects", is_flag=True, help="Guess effects that are not declared from tool names."),
        _effect_option(
            "--error-pattern",
            metavar="REGEX",
            help="For task-effect and --ignore-failed: calls whose output matches count as failed.",
        ),
        _effect_option(
            "--forbidden",
            multiple=True,
            metavar="NAME",
            help="For task-effect: a tool, or a pattern of tools, that must not be called; may be repeated.",
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
            help="Lowest score that passes.  [default: 0.5; 0.9 for task-effect; 1 for argument-schema and "
            "tool-error-rate]",
        ),
        _verdict_option("--strict", is_flag=True, help="Threshold 1, and any lower score becomes 0."),
    ),
    _collect,
)
"""Options that choose metrics; the command gets them as `metrics`, a list."""
