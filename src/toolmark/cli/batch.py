"""`toolmark batch`: judging over the Batch API from the command line, a thin shell over `toolmark.judge.batch.api`."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from toolmark._internal.text import plural, printable, printable_lines
from toolmark.cases import AnyCase, ConversationalTestCase
from toolmark.cli.path_types import Source, Target
from toolmark.dataset import Told, placed_text, read_any_case, read_documents, source_name, torn_text
from toolmark.errors import ConfigurationError, DataFileError, ToolmarkError
from toolmark.metrics import ToolCorrectnessMetric, ToolUseMetric

if TYPE_CHECKING:
    from toolmark.judge import Judge, MemoryCache, Price, Prompt, SqliteCache
    from toolmark.judge.batch import Batch, BatchState

_CACHE = "verdicts.sqlite"
_SHOWN = 10

folder_argument = click.argument("folder", type=click.Path(file_okay=False))
cache_option = click.option(
    "--cache",
    type=click.Path(dir_okay=False),
    help=f"Where the verdicts go; by default {_CACHE} in FOLDER.",
)


def _price(_context: click.Context, _option: click.Parameter, value: str | None) -> Price | None:
    if value is None:
        return None
    from toolmark.judge import Price  # noqa: PLC0415 - as above

    first, _, second = value.partition("/")
    try:
        return Price(input=float(first), output=float(second))
    except ValueError:  # also that of a price
        message = f"{value!r} is no price such as 2/8: of a million tokens of input, and of output"
        raise click.BadParameter(message) from None


_samples_option = click.option(
    "--samples",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Each question is asked so many times; the majority counts.",
)
_canary_option = click.option(
    "--canary", is_flag=True, help="Planted calls are asked about, too, that order the judge to approve of them."
)


@click.group()
def batch() -> None:
    """Judge over OpenAI's Batch API: at half the price, within a day.

    `submit` sends what has no verdict yet, `poll` waits, `collect` fetches the verdicts, `score` scores by them. Each
    may be called again at any time, and does nothing twice. FOLDER holds the state between them.

    The judge is the model that --judge or TOOLMARK_JUDGE_MODEL names; TOOLMARK_JUDGE_BASE_URL and
    TOOLMARK_JUDGE_API_KEY, or OPENAI_BASE_URL and OPENAI_API_KEY, say where and with which key.
    """


@batch.command()
@folder_argument
@click.argument("file", required=False, type=Source(allow_dash=True))
@click.option("--judge", "model", help="Name of the model that judges.")
@_samples_option
@_canary_option
@click.option(
    "--price",
    callback=_price,
    metavar="IN/OUT",
    help="What a million tokens cost, such as 2/8, without the discount for batches; in any currency.",
)
@click.option("--max-cost", type=click.FloatRange(0), metavar="X", help="Send nothing if it would cost more, about.")
@click.option(
    "--answer-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens of one answer, for the estimate; by default those of answers in the cache, or 150.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be sent and what it would cost, and do nothing.")
@cache_option
def submit(
    *,
    folder: str,
    file: str | None,
    model: str | None,
    samples: int,
    canary: bool,
    price: Price | None,
    max_cost: float | None,
    answer_tokens: int | None,
    dry_run: bool,
    cache: str | None,
) -> None:
    """Send what a judge would be asked about the cases of FILE, and what came back without an answer.

    FILE holds JSON Lines: conversations, whose tool use is judged, or test cases, of which the selection of tools is.
    Of test cases that do not say which tools were available, nothing is asked.

    Before anything is sent, it is told how many questions there are, and what they will cost, about.

    Exit code 2 if the command line, FILE or the provider refuses, or --max-cost is too little; what was sent before is
    kept.
    """
    from toolmark.judge import Judge  # noqa: PLC0415 - `toolmark --help` stays quick
    from toolmark.judge.batch import Batch  # noqa: PLC0415 - as above

    with _told_errors(), _store(folder, cache, dry_run=dry_run) as store:
        prompts: list[Prompt] = []
        if file is None:
            made = Batch.reopened(folder, cache=store)
        else:
            judge = Judge(model, cache=store, samples=samples, canary=canary)
            made = Batch(folder, judge)
            prompts = list(_prompts(file, judge))
        estimate = made.estimate(prompts, answer_tokens=answer_tokens)
        estimate = estimate if price is None else replace(estimate, price=price)
        click.echo(printable_lines(str(estimate)))
        if max_cost is not None:
            estimate.check(max_cost)
        if not dry_run:
            _show(made, made.submit(prompts))


@batch.command()
@folder_argument
@click.option(
    "--batch-status-check-interval",
    "interval",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds between two looks; they grow by half each time, up to 120.",
)
@click.option(
    "--batch-max-iterations",
    "iterations",
    type=click.IntRange(1),
    help="Looks after which to stop; by default it waits to the end, which may take a day.",
)
@cache_option
def poll(folder: str, interval: float, iterations: int | None, cache: str | None) -> None:
    """Wait until the provider has ended the batches of FOLDER.

    Exit code 1 if they have not ended after --batch-max-iterations; nothing is lost, call it again.
    """
    from toolmark.judge import SqliteCache  # noqa: PLC0415 - as above
    from toolmark.judge.batch import Batch  # noqa: PLC0415 - as above

    with _told_errors(), closing(SqliteCache(cache or Path(folder) / _CACHE)) as store:
        made = Batch.reopened(folder, cache=store)
        state = made.poll(
            batch_status_check_interval=interval,
            batch_max_iterations=iterations,
            on_state=lambda state: click.echo(_line(state), err=True),
        )
        _show(made, state)
    sys.exit(0 if state.ended else 1)


@batch.command()
@folder_argument
@cache_option
def collect(folder: str, cache: str | None) -> None:
    """Fetch the verdicts of the batches of FOLDER that have ended.

    Exit code 1 if a question is left without a verdict: `submit FOLDER` sends again what may be answered yet.
    """
    from toolmark.judge import SqliteCache  # noqa: PLC0415 - as above
    from toolmark.judge.batch import Batch  # noqa: PLC0415 - as above

    with _told_errors(), closing(SqliteCache(cache or Path(folder) / _CACHE)) as store:
        made = Batch.reopened(folder, cache=store)
        state = made.collect()
        _show(made, state)
    sys.exit(0 if state.verdicts == state.prompts else 1)


@batch.command()
@folder_argument
@click.argument("file", type=Source(allow_dash=True))
@click.option(
    "--results",
    required=True,
    type=Target(dir_okay=False),
    help="Write each case with its results there, as JSON Lines without secrets.",
)
@_samples_option
@_canary_option
@cache_option
def score(folder: str, file: str, results: str, samples: int, canary: bool, cache: str | None) -> None:
    """Score the cases of FILE by the verdicts of FOLDER; nobody is asked, and nothing is paid for.

    FILE, --samples and --canary are those of `submit`. `toolmark report` shows the file of --results, and of a sample
    `toolmark extrapolate` says what it tells of all cases.

    Exit code 1 if a case could not be scored, since a verdict is lacking; 2 if the command line or FILE is wrong.
    """
    from toolmark.evaluation.run import evaluate  # noqa: PLC0415 - as above
    from toolmark.judge import SqliteCache  # noqa: PLC0415 - as above
    from toolmark.judge.batch import Batch  # noqa: PLC0415 - as above

    with _told_errors(), closing(SqliteCache(cache or Path(folder) / _CACHE)) as store:
        judge = Batch.verdicts(folder, cache=store, samples=samples, canary=canary)
        cases = _cases(file)
        report = evaluate(cases, [_metric(cases[0], judge)], results=results)
    for line in report.summaries:
        coverage = "" if line.coverage is None else f"; {100 * line.coverage:.4g} % of the questions decided"
        click.echo(printable(f"{line}{coverage}"))
    sys.exit(int(any(line.errored for line in report.summaries)))


@contextmanager
def _store(folder: str, cache: str | None, *, dry_run: bool) -> Generator[SqliteCache | MemoryCache, None, None]:
    """Open the cache for what is to be sent, and make the folder; a dry run makes nothing that is not there."""
    from toolmark.judge import MemoryCache, SqliteCache  # noqa: PLC0415 - as above

    path = Path(cache or Path(folder) / _CACHE)
    if dry_run and not path.exists():
        yield MemoryCache()
        return
    if not dry_run:
        Path(folder).mkdir(parents=True, exist_ok=True)
    with closing(SqliteCache(path)) as store:
        yield store


def _metric(case: AnyCase, judge: Judge) -> ToolUseMetric | ToolCorrectnessMetric:
    """Return what asks about a case."""
    return (
        ToolUseMetric(judge=judge) if isinstance(case, ConversationalTestCase) else ToolCorrectnessMetric(judge=judge)
    )


def _prompts(file: str, judge: Judge) -> Iterator[Prompt]:
    """Yield what is asked about each case; one that cannot be judged is told, and the others go on."""
    for place, case in enumerate(_cases(file), start=1):
        try:
            yield from _metric(case, judge).prompts(case)
        except ToolmarkError as error:
            name = case.name or case.id or f"case {place}"
            click.echo(f"warning: {printable(name)} is not judged: {printable(str(error))}", err=True)


def _cases(file: str) -> list[AnyCase]:
    """Return the cases of a file, or its conversations; a line that was never written to its end is left out, and told.

    Raises:
        DataFileError: Lines that cannot be read; all are told.
        ConfigurationError: There are both, and no metric is for both.
    """
    told = Told()
    cases = [case for _, case in told.read(read_documents(file), read_any_case)]
    name = source_name(file)
    if told.problems or (told.torn and not cases):
        problems = [*told.problems, *told.torn]
        raise DataFileError("\n".join(placed_text(name, problem) for problem in problems), problems)
    if len({isinstance(case, ConversationalTestCase) for case in cases}) > 1:
        remedy = "they are scored by different metrics, so give each kind in a file of its own"
        raise ConfigurationError(f"{name} has conversations and test cases; {remedy}")
    for problem in told.torn:
        click.echo(f"warning: {torn_text(name, problem)}", err=True)
    return cases


def _line(state: BatchState) -> str:
    statuses = ", ".join(f"{shard.name} {shard.status or shard.state}" for shard in state.shards)
    return f"batches: {statuses}"


def _show(made: Batch, state: BatchState) -> None:
    click.echo(
        f"{plural(state.prompts, 'question')}: {state.verdicts} with a verdict, {state.under_way} under way, "
        f"{state.open} to be sent again, {len(state.lost)} without a verdict"
    )
    for lost in list(state.lost.values())[:_SHOWN]:
        click.echo(f"  {lost.outcome}: {printable(lost.problem)}")
    if len(state.lost) > _SHOWN:
        click.echo(f"  and {len(state.lost) - _SHOWN} more, see {printable(str(made.folder / 'manifest.json'))}")
    usage = state.usage
    if usage:
        click.echo(f"tokens: {usage.get('input_tokens', 0)} in, {usage.get('output_tokens', 0)} out")


@contextmanager
def _told_errors() -> Generator[None, None, None]:
    """End the program with code 2 and one message where the library raises one of its errors."""
    try:
        yield
    except ToolmarkError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"{error.filename or ''}: {error.strerror or error}")


def _stop(message: str) -> NoReturn:
    click.echo("\n".join(f"error: {printable(line)}" for line in message.split("\n")), err=True)
    sys.exit(2)
