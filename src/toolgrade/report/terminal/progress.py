"""Progress bars on standard error."""

from __future__ import annotations

import time

from rich import progress
from rich.console import Console

from toolgrade._internal.text import plural

_SECONDS = 0.1


class ProgressBar(progress.Progress):
    """A progress bar over cases, or over the bytes of files; a context manager.

    It is drawn when it is moved, not by a thread, because processes are forked only if there is no other thread.
    """

    def __init__(self, what: str, *, of_bytes: bool = False) -> None:
        """Prepare a bar that says what is done."""
        columns = (
            progress.TextColumn(what),
            progress.BarColumn(),
            progress.DownloadColumn() if of_bytes else progress.MofNCompleteColumn(),
            progress.TextColumn("{task.description}"),
            progress.TimeRemainingColumn(),
        )
        super().__init__(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        self._drawn = 0.0
        self._turns = 0

    def show(self, done: int, of: int, cases: int | None = None) -> None:
        """Move the bar to `done` of `of`; what the first call reports was done before, and does not count as speed.

        A bar over bytes also shows the number of cases.
        """
        text = "" if cases is None else plural(cases, "case")
        if self.tasks:
            self.update(self.tasks[0].id, completed=done, total=of, description=text)
        else:
            self.add_task(text, total=of, completed=done)
        self._draw()

    def step(self) -> None:
        """Move the bar by one case."""
        self.advance(self.task_ids[0])
        self._draw()

    def turn(self) -> None:
        """Count a turn of a conversation, whose case is not done yet."""
        self._turns += 1
        self.update(self.task_ids[0], description=plural(self._turns, "turn"))
        self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn >= _SECONDS:
            self._drawn = now
            self.refresh()
