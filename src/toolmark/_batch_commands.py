"""`toolmark batch`: judging over the Batch API from the command line, a thin shell over `toolmark.judge.batch`."""

from __future__ import annotations

import io
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from toolmark._json import parse_json
from toolmark._text import count, visible
from toolmark.cases import ConversationalTestCase, TestCase
from toolmark.dataset import read_bytes, read_cases
from toolmark.errors import DataFileError, InvalidDataError, Problem, ToolmarkError
from toolmark.metrics import MetricLike, ToolCorrectnessMetric, ToolUseMetric

if TYPE_CHECKING:
    from toolmark.judge import Prompt
    from toolmark.judge.batch import Batch, BatchState

_CACHE = "verdicts.sqlite"
_SHOWN = 10

folder_argument = click.argument("folder", type=click.Path(file_okay=False))
cache_option = click.option(
    "--cache",
    type=click.Path(dir_okay=False),
    help=f"Where the verdicts go; by default {_CACHE} in FOLDER.",
)


@click.group()
def batch() -> None:
    """Judge over OpenAI's Batch API: at half the price, within a day.

    `submit` sends what has no verdict yet, `poll` waits, `collect` fetches the verdicts. Each may be called again at
    any time, and does nothing twice. FOLDER holds the state between them.

    The judge is the model that --judge or TOOLMARK_JUDGE_MODEL names; TOOLMARK_JUDGE_BASE_URL and
    TOOLMARK_JUDGE_API_KEY, or OPENAI_BASE_URL and OPENAI_API_KEY, say where and with which key.
    """


@batch.command()
@folder_argument
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@click.option("--judge", "model", help="Name of the model that judges.")
@cache_option
def submit(folder: str, file: str | None, model: str | None, cache: str | None) -> None:
    """Send what a judge would be asked about the cases of FILE, and what came back without an answer.

    FILE holds JSON Lines: conversations, whose tool use is judged, or test cases, of which the selection of tools is.
    Of test cases that do not say which tools were available, nothing is asked.

    Exit code 2 if the command line, FILE or the provider refuses; what was sent before is kept.
    """
    from toolmark.judge import Judge, SqliteCache  # noqa: PLC0415 - `toolmark --help` stays quick
    from toolmark.judge.batch import Batch  # noqa: PLC0415 - as above

    with _told_errors(), closing(SqliteCache(cache or Path(folder) / _CACHE)) as store:
        if file is None:
            made = Batch.reopened(folder, cache=store)
            _show(made, made.submit())
        else:
            Path(folder).mkdir(parents=True, exist_ok=True)
            judge = Judge(model, cache=store)
            made = Batch(folder, judge)
            _show(made, made.submit(list(_prompts(file, judge))))


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


def _prompts(file: str, judge: object) -> Iterator[Prompt]:
    """Yield what is asked about each case; one that cannot be judged is told, and the others go on."""
    for number, case in enumerate(_cases(file), start=1):
        metric: MetricLike
        if isinstance(case, ConversationalTestCase):
            metric = ToolUseMetric(judge=judge)  # type: ignore[arg-type]
        else:
            metric = ToolCorrectnessMetric(judge=judge)  # type: ignore[arg-type]
        try:
            yield from metric.prompts(case)
        except ToolmarkError as error:
            name = case.name or case.id or f"case {number}"
            click.echo(f"warning: {visible(name)} is not judged: {visible(str(error))}", err=True)


def _cases(file: str) -> list[TestCase] | list[ConversationalTestCase]:
    """Return the cases of a file, or its conversations, if its first line is one."""
    content = read_bytes(file)
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    if not lines or b'"turns"' not in lines[0][1]:
        return read_cases(io.BytesIO(content))
    found: list[ConversationalTestCase] = []
    problems: list[Problem] = []
    for number, line in lines:
        try:
            found.append(ConversationalTestCase.model_validate(parse_json(line)))
        except InvalidDataError as error:
            told = error.problems or (Problem("$", str(error)),)
            problems += [Problem(problem.path, problem.message, number) for problem in told]
    if problems:
        text = "\n".join(f"{file}:{problem.line}: {problem}" for problem in problems)
        raise DataFileError(text, problems)
    return found


def _line(state: BatchState) -> str:
    statuses = ", ".join(f"{shard.name} {shard.status or shard.state}" for shard in state.shards)
    return f"batches: {statuses}"


def _show(made: Batch, state: BatchState) -> None:
    click.echo(
        f"{count(state.prompts, 'question')}: {state.verdicts} with a verdict, {state.under_way} under way, "
        f"{state.open} to be sent again, {len(state.lost)} without a verdict"
    )
    for lost in list(state.lost.values())[:_SHOWN]:
        click.echo(f"  {lost.outcome}: {visible(lost.problem)}")
    if len(state.lost) > _SHOWN:
        click.echo(f"  and {len(state.lost) - _SHOWN} more, see {visible(str(made.folder / 'manifest.json'))}")
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
    click.echo("\n".join(f"error: {visible(line)}" for line in message.split("\n")), err=True)
    sys.exit(2)
