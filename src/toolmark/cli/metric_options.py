"""Which metrics does a command line ask for, and with which options?"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias, get_args

import click

from toolmark.calls import ToolCallParams
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
_METRICS: dict[str, tuple[Callable[..., MetricLike], tuple[str, ...]]] = {
    "argument-schema": (ArgumentSchemaMetric, ("threshold",)),
    "multimodal-tool-correctness": (MultimodalToolCorrectnessMetric, _COMPARING),
    "task-effect": (TaskEffectMetric, ("threshold", "forbidden", *_EFFECTS)),
    "tool-correctness": (ToolCorrectnessMetric, (*_COMPARING, "denominator", "only", "ignore_failed", *_EFFECTS)),
    "tool-efficiency": (ToolEfficiencyMetric, ("threshold", "max_calls", "max_seconds")),
    "tool-error-rate": (ToolErrorRate, ("max_rate",)),
    "tool-recovery": (ToolRecoveryMetric, ("threshold",)),
}
"""Each metric that a command measures, with the options that it takes beside `strict_mode`."""
_OPTIONS = {option for _, accepted in _METRICS.values() for option in accepted} - {"max_rate"}
"""What the options of the command line are called in Python; `max_rate` follows from the threshold."""
_TAKEN_BY_FEW = ("max_calls", "max_seconds", "only", "ignore_failed", "forbidden", *_EFFECTS)
"""Options that are an error if no metric takes them: whoever gives one of them means something by it."""


def _params(_context: click.Context, _option: click.Parameter, value: str) -> tuple[ToolCallParams, ...]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in names if name not in _PARAMS]
    if unknown:
        message = f"{unknown[0]!r} is none of {', '.join(_PARAMS)}"
        raise click.BadParameter(message)
    return tuple(_PARAMS[name] for name in names)


def _effects(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    split = [value.rpartition("=") for value in values]
    for name, _, effect in split:
        if not name or effect not in {"read", "write"}:
            message = f"{name or effect!r} needs a tool and what it does, as in 'get_*=read' or 'book=write'"
            raise click.BadParameter(message)
    return {name: effect for name, _, effect in split}


def _left_out(value: object) -> bool:
    """Return whether an option was not given; 0 is a value."""
    return value is None or value is False or value in ((), {})


def _metrics(names: tuple[str, ...], options: dict[str, Any], strict: bool) -> list[MetricLike]:
    """Return the metrics of these names, each with the options that it takes."""
    taken = {option for name in names for option in _METRICS[name][1]}
    for option in _TAKEN_BY_FEW:
        if option not in taken and not _left_out(options.get(option)):
            told = {"effects": "effect"}.get(option, option).replace("_", "-")
            takers = " and ".join(name for name, (_, accepted) in _METRICS.items() if option in accepted)
            message = f"--{told} is an option of {takers}, which --metric does not name"
            raise click.UsageError(message)
    made: list[MetricLike] = []
    for name in dict.fromkeys(names):
        metric, accepted = _METRICS[name]
        chosen = {option: options[option] for option in accepted if option in options}
        if "task-effect" in names and "ignore_failed" in accepted and not options.get("ignore_failed"):
            chosen.pop("error_pattern", None)  # it was given for the other
        try:
            made.append(metric(**chosen, strict_mode=strict))
        except ConfigurationError as error:  # what click lets pass, such as nan
            raise click.UsageError(str(error)) from error
    return made


_Option: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]

_CHOICE: _Option = click.option(
    "--metric",
    "metric_names",
    multiple=True,
    type=click.Choice(list(_METRICS)),
    default=["tool-correctness"],
    show_default=True,
    help="What to measure; may be given several times.",
)

_COMPARISON: tuple[_Option, ...] = (
    click.option("--ordered", "should_consider_ordering", is_flag=True, help="Only calls in the expected order count."),
    click.option(
        "--exact",
        "should_exact_match",
        is_flag=True,
        help="Score 1 only if expected and called are the same call by call.",
    ),
    click.option(
        "--params",
        "evaluation_params",
        callback=_params,
        default="name",
        show_default=True,
        help="What of a call is compared: a list of name, input, output.",
    ),
    click.option(
        "--denominator",
        type=click.Choice(get_args(Denominator)),
        default="expected",
        show_default=True,
        help="What the matched calls are divided by.",
    ),
)
"""What of the calls is compared, and how."""

_EFFECT: tuple[_Option, ...] = (
    click.option(
        "--only",
        type=click.Choice(["read", "write"]),
        help="Compare only the calls that do this, for tool-correctness.",
    ),
    click.option("--ignore-failed", is_flag=True, help="Leave out calls that did nothing, for tool-correctness."),
    click.option(
        "--effect",
        "effects",
        multiple=True,
        callback=_effects,
        metavar="NAME=read|write",
        help="What a tool does, or all that fit a pattern, for task-effect and --only; may be given several times.",
    ),
    click.option("--guess-effects", is_flag=True, help="Guess from its name what a tool does, where nothing says it."),
    click.option(
        "--error-pattern",
        metavar="REGEX",
        help="Calls whose answer it fits failed, too, for task-effect and --ignore-failed.",
    ),
    click.option(
        "--forbidden",
        multiple=True,
        metavar="NAME",
        help="A tool that must not be called, or a pattern, for task-effect.",
    ),
)
"""Which calls are compared, by what they do."""

_VERDICT: tuple[_Option, ...] = (
    click.option("--max-calls", type=click.IntRange(0), help="Calls that would do, for tool-efficiency."),
    click.option(
        "--max-seconds", type=click.FloatRange(0, min_open=True), help="Seconds that would do, for tool-efficiency."
    ),
    click.option(
        "--threshold",
        type=click.FloatRange(0, 1),
        help="A case passes from here.  [default: 0.5; 0.9 for task-effect; 1 for argument-schema and tool-error-rate]",
    ),
    click.option("--strict", is_flag=True, help="Threshold 1, and any lower score becomes 0."),
)
"""When a case passes."""


def metric_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose metrics; it is handed `metrics`, the list that they make."""

    @wraps(command)
    def measured(*, metric_names: tuple[str, ...], strict: bool, **given: Any) -> None:  # noqa: ANN401 - as click read them
        options = {name: given.pop(name) for name in _OPTIONS}
        if options["should_consider_ordering"] and options["should_exact_match"]:
            message = "--ordered and --exact contradict each other: an exact match is ordered"
            raise click.UsageError(message)
        chosen = {name: value for name, value in options.items() if value is not None}
        if "threshold" in chosen:
            chosen["max_rate"] = 1 - chosen["threshold"]
        command(metrics=_metrics(metric_names, chosen, strict), **given)

    made: Callable[..., None] = measured
    for option in reversed((_CHOICE, *_COMPARISON, *_EFFECT, *_VERDICT)):
        made = option(made)
    return made
