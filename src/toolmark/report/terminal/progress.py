"""Progress bar over cases."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class CaseProgress(Progress):
    """A progress bar over cases, on standard error; a context manager."""

    def __init__(self, total: int) -> None:
        """Prepare the bar for this number of cases."""
        columns = (TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        super().__init__(*columns, console=Console(stderr=True), transient=True)
        self._cases = self.add_task("scoring", total=total)

    def advance_one(self) -> None:
        """Move the bar by one case."""
        self.advance(self._cases)

    def show(self, done: int, of: int) -> None:
        """Move the bar to `done` of `of` cases."""
        self.update(self._cases, completed=done, total=of)
