"""A program that judges in batches and can be killed after each step.

It prints the numbers of the steps after which it was killed, and at last how many steps there are.
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolgrade.judge import Judge, Prompt, SqliteCache
from toolgrade.judge import batch as batches
from toolgrade.judge.batch.files import Folder
from toolgrade.judge.batch.remote import Remote
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import sample_prompt


def prompts_of(folder: Path) -> list[Prompt]:
    """Three prompts that no other folder has."""
    return [sample_prompt(f"{folder.name}, question {number}") for number in range(3)]


def batch_in(folder: Path, address: str) -> tuple[batches.Batch, Judge]:
    """Return a run with batches of two requests and a cache."""
    judge = Judge(OpenAIJudge("m", base_url=address), cache=folder / "verdicts.sqlite")
    return batches.Batch(folder / "batches", judge, max_requests=2), judge


def run(folder: Path, address: str) -> batches.BatchState:
    """Submit, wait and collect."""
    folder.mkdir(exist_ok=True)
    batch, judge = batch_in(folder, address)
    batch.submit(prompts_of(folder))
    batch.poll(batch_status_check_interval=0)
    state = batch.collect()
    judge._cache.close()  # type: ignore[union-attr]
    return state


class Killer:
    """Counts steps, and kills this process after one of them."""

    def __init__(self, last: int) -> None:
        """Live as long as `last` steps; with 0 to the end."""
        self.left = last

    def step(self) -> None:
        """Record a finished step."""
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def after(self, holder: Any, name: str) -> None:
        """Count each call of a function or method as a step, when it is done."""
        inner: Callable[..., Any] = getattr(holder, name)

        def counted(*args: Any, **options: Any) -> Any:
            value = inner(*args, **options)
            self.step()
            return value

        async def awaited(*args: Any, **options: Any) -> Any:
            value = await inner(*args, **options)
            self.step()
            return value

        setattr(holder, name, awaited if holder is Remote else counted)


def steps_until_killed(folder: Path, address: str, last: int) -> int:
    """Run; return the number of steps, if the process lives so long."""
    killer = Killer(last)
    for method in ("write_prompts", "write_shard", "write_answers", "save"):
        killer.after(Folder, method)
    for method in ("upload", "create", "find", "look", "download"):
        killer.after(Remote, method)
    killer.after(SqliteCache, "put")
    run(folder, address)
    return last - killer.left


def main(folder: Path, address: str) -> None:
    """Run in a child for each step, until one is not killed."""
    importlib.import_module("openai")  # once for all children
    for last in itertools.count(1):
        child = os.fork()
        if child == 0:
            os._exit(steps_until_killed(folder / f"step {last}", address, last))
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
            return
        sys.stdout.write(f"{last}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
