"""`toolgrade batch`: judging over OpenAI's Batch API."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolgrade._internal.text import plural, printable, printable_lines
from toolgrade.calls import ToolSpec
from toolgrade.cases import AnyCase, ConversationalTestCase
from toolgrade.cli.help import CommandGroup
from toolgrade.cli.io import exit_on_error, stop, warn
from toolgrade.cli.offered_tools import tools_in, tools_option
from toolgrade.cli.options import grouped, samples_option
from toolgrade.cli.path_types import Source, Target
from toolgrade.dataset import read_any_cases, source_name
from toolgrade.errors import ToolgradeError
from toolgrade.metrics import ToolCorrectnessMetric, ToolUseMetric

if TYPE_CHECKING:
    from toolgrade.judge import Judge, MemoryCache, Price, Prompt, SqliteCache
    from toolgrade.judge.batch import Batch, BatchState

_CACHE = "verdicts.sqlite"
_LISTED = 10


def _parse_price(_context: click.Context, _option: click.Parameter, value: str | None) -> Price | None:
    if value is None:
        return None
    from toolgrade.judge import Price  # noqa: PLC0415 - not loaded for --help

    per_input, _, per_output = value.partition("/")
    try:
        return Price(input=float(per_input), output=float(per_output))
    except ValueError:  # float and Price raise it
        message = f"{value!r} must be two prices such as 2/8: per million input tokens, and per million output tokens"
        raise click.BadParameter(message) from None


_folder_argument = click.argument("folder", type=click.Path(file_okay=False))
_cache_option = click.option(
    "--cache", type=click.Path(dir_okay=False), help=f"File of the verdicts.  [default: {_CACHE} in FOLDER]"
)
_judging_options = grouped(
    "judging",
    ("samples", "canary", "image_folder"),
    samples_option,
    click.option(
        "--canary",
        is_flag=True,
        help="Also judge planted prompt-injection calls, to check that the judge ignores instructions in the data.",
    ),
    click.option(
        "--image-folder",
        type=click.Path(file_okay=False, exists=True),
        help="Folder of the images that cases name by path; no other file is sent.",
    ),
)
"""Options of what is asked; the command gets them as `judging`, arguments of `Judge`."""


@click.group(cls=CommandGroup)
def batch() -> None:
    """Judge cases with OpenAI's Batch API, at half the price and within a day.

    `submit` sends the questions that have no verdict yet, `poll` waits, `collect` downloads the verdicts, and `score`
    scores with them. Each can be repeated at any time and does nothing twice. FOLDER holds the state.

    --judge or TOOLGRADE_JUDGE_MODEL names the model that judges; TOOLGRADE_JUDGE_BASE_URL and TOOLGRADE_JUDGE_API_KEY,
    or OPENAI_BASE_URL and OPENAI_API_KEY, name the server and the key.
    """


@batch.command()
@_folder_argument
@click.argument("file", required=False, type=Source(allow_dash=True))
@click.option("--judge", "model", help="Name of the model that judges.")
@tools_option
@_judging_options
@click.option(
    "--price",
    callback=_parse_price,
    metavar="IN/OUT",
    help="Price of a million tokens, such as 2/8, without the discount for batches; in any currency.",
)
@click.option("--max-cost", type=click.FloatRange(0), metavar="X", help="Send nothing if the estimate is higher.")
@click.option(
    "--answer-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens of one answer, for the estimate.  [default: the mean of the answers in the cache, or 150]",
)
@click.option("--dry-run", is_flag=True, help="Print what would be sent and what it would cost, and send nothing.")
@_cache_option
def submit(
    *,
    folder: str,
    file: str | None,
    model: str | None,
    tools_path: str | None,
    judging: dict[str, Any],
    price: Price | None,
    max_cost: float | None,
    answer_tokens: int | None,
    dry_run: bool,
    cache: str | None,
) -> None:
    """Send the questions about the cases of FILE, and again those that came back without an answer.

    FILE holds JSON Lines: conversations, whose tool use is judged, or test cases, whose selection of tools is judged.
    Nothing is asked about test cases without available tools, which are those of the case or of --tools.

    The number of questions and an estimate of their cost are printed before anything is sent.

    Exit code 2 if the command line or FILE is wrong, the provider refuses, or the estimate is above --max-cost; what
    was sent before is kept.
    """
    from toolgrade.judge.batch import Batch  # noqa: PLC0415 - not loaded for --help

    with exit_on_error(file or folder, "nothing was sent", action="use"):
        if not dry_run:
            Path(folder).mkdir(parents=True, exist_ok=True)
        with _open_cache(folder, cache, dry_run=dry_run) as store:
            prompts: list[Prompt] = []
            if file is None:
                job = Batch.reopened(folder, cache=store)
            else:
                judge = _named_judge(model, cache=store, **judging)
                job = Batch(folder, judge)
                prompts = _prompts(file, judge, tools_in(tools_path, file))
            estimate = job.estimate(prompts, answer_tokens=answer_tokens)
            if price is not None:
                estimate = replace(estimate, price=price)
            click.echo(printable_lines(str(estimate)))
            if max_cost is not None:
                estimate.check(max_cost)
            if not dry_run:
                _show(job, job.submit(prompts))


@batch.command()
@_folder_argument
@click.option(
    "--batch-status-check-interval",
    "interval",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds between two status requests; grows by half each time, up to 120.",
)
@click.option(
    "--batch-max-iterations",
    "iterations",
    type=click.IntRange(1),
    help="Status requests after which to stop.  [default: wait to the end, up to a day]",
)
@_cache_option
def poll(folder: str, interval: float, iterations: int | None, cache: str | None) -> None:
    """Wait until the provider has ended the batches of FOLDER.

    Exit code 1 if they have not ended after --batch-max-iterations; nothing is lost, poll again.
    """
    from toolgrade.judge.batch import Batch  # noqa: PLC0415 - not loaded for --help

    with exit_on_error(folder, "nothing was changed"), _open_cache(folder, cache) as store:
        job = Batch.reopened(folder, cache=store)
        state = job.poll(batch_status_check_interval=interval, batch_max_iterations=iterations, on_state=_show_statuses)
        _show(job, state)
    sys.exit(0 if state.ended else 1)


@batch.command()
@_folder_argument
@_cache_option
def collect(folder: str, cache: str | None) -> None:
    """Download the verdicts of the batches of FOLDER that have ended.

    Exit code 1 if a question has no verdict: `submit FOLDER` sends again those that can still be answered.
    """
    from toolgrade.judge.batch import Batch  # noqa: PLC0415 - not loaded for --help

    with exit_on_error(folder, "nothing was changed"), _open_cache(folder, cache) as store:
        job = Batch.reopened(folder, cache=store)
        state = job.collect()
        _show(job, state)
    sys.exit(0 if state.verdicts == state.prompts else 1)


@batch.command()
@_folder_argument
@click.argument("file", type=Source(allow_dash=True))
@click.option(
    "--results",
    required=True,
    type=Target(dir_okay=False),
    help="Write each case with its results, as JSON Lines without secrets.",
)
@tools_option
@_judging_options
@_cache_option
def score(
    *, folder: str, file: str, results: str, tools_path: str | None, judging: dict[str, Any], cache: str | None
) -> None:
    """Score the cases of FILE with the verdicts of FOLDER, without asking the judge again.

    FILE, --tools, --samples, --canary and --image-folder must be those of `submit`. Show the file of --results with
    `toolgrade report`, or estimate from the results of a sample with `toolgrade extrapolate`.

    Exit code 1 if a case could not be scored because a verdict is missing, 2 if the command line or FILE is wrong.
    """
    from toolgrade.evaluation.run import evaluate  # noqa: PLC0415 - not loaded for --help
    from toolgrade.judge.batch import Batch  # noqa: PLC0415 - as above

    with exit_on_error(file, "nothing was scored"), _open_cache(folder, cache) as store:
        judge = Batch.verdicts(folder, cache=store, **judging)
        cases = _cases(file)
        metric = _metric(cases[0], judge, tools_in(tools_path, file))
        report = evaluate(cases, [metric], results=results)
    for summary in report.summaries:
        coverage = "" if summary.coverage is None else f"; {100 * summary.coverage:.4g} % of the questions decided"
        click.echo(printable(f"{summary}{coverage}"))
    sys.exit(int(any(summary.errored for summary in report.summaries)))


@contextmanager
def _open_cache(
    folder: str, cache: str | None, *, dry_run: bool = False
) -> Generator[SqliteCache | MemoryCache, None, None]:
    """Open the cache of verdicts; a dry run creates no file."""
    from toolgrade.judge import MemoryCache, SqliteCache  # noqa: PLC0415 - not loaded for --help

    path = Path(cache or Path(folder) / _CACHE)
    if dry_run and not path.exists():
        yield MemoryCache()
        return
    with closing(SqliteCache(path)) as store:
        yield store


def _named_judge(model: str | None, **options: Any) -> Judge:  # noqa: ANN401 - those of `Judge`
    """Return the judge of this model, or of the environment; exit if neither names one."""
    from toolgrade.judge import Judge  # noqa: PLC0415 - not loaded for --help

    if not model and not os.environ.get("TOOLGRADE_JUDGE_MODEL"):
        stop("no judge is configured: name a model with --judge, or set TOOLGRADE_JUDGE_MODEL; nothing was sent")
    return Judge(model, **options)


def _metric(case: AnyCase, judge: Judge, tools: list[ToolSpec] | None) -> ToolUseMetric | ToolCorrectnessMetric:
    """Return the metric that judges a case."""
    if isinstance(case, ConversationalTestCase):
        return ToolUseMetric(available_tools=tools, judge=judge)
    return ToolCorrectnessMetric(available_tools=tools, judge=judge)


def _prompts(file: str, judge: Judge, tools: list[ToolSpec] | None) -> list[Prompt]:
    """Return the questions about all cases; a case that cannot be judged is reported and left out."""
    prompts: list[Prompt] = []
    without_tools = 0
    for number, case in enumerate(_cases(file), start=1):
        if not isinstance(case, ConversationalTestCase) and tools is case.available_tools is None:
            without_tools += 1
        try:
            prompts += _metric(case, judge, tools).prompts(case)
        except ToolgradeError as error:
            warn(f"{case.name or case.id or f'case {number}'} is not judged: {error}")
    if without_tools:
        warn(f"nothing is asked about {plural(without_tools, 'case')} without available_tools; name them with --tools")
    return prompts


def _cases(file: str) -> list[AnyCase]:
    """Return the cases or the conversations of a file."""
    cases = read_any_cases(file)
    if len({isinstance(case, ConversationalTestCase) for case in cases}) > 1:
        name = source_name(file)
        stop(f"{name} has conversations and test cases, which need different metrics; write them to separate files")
    return cases


def _show_statuses(state: BatchState) -> None:
    statuses = ", ".join(f"{shard.name} {shard.status or shard.state}" for shard in state.shards)
    click.echo(f"batches: {statuses}", err=True)


def _show(job: Batch, state: BatchState) -> None:
    click.echo(
        f"{plural(state.prompts, 'question')}: {state.verdicts} with a verdict, {state.under_way} under way, "
        f"{state.open} to be sent again, {len(state.lost)} without a verdict"
    )
    for lost in list(state.lost.values())[:_LISTED]:
        click.echo(f"  {lost.outcome}: {printable(lost.problem)}")
    if len(state.lost) > _LISTED:
        click.echo(f"  and {len(state.lost) - _LISTED} more, see {printable(str(job.folder / 'manifest.json'))}")
    if state.usage:
        click.echo(f"tokens: {state.usage.get('input_tokens', 0)} in, {state.usage.get('output_tokens', 0)} out")
