"""Tests that run inside of a tape, with their fixtures; see docs/replay.md."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from toolgrade.capture.doubles import at
from toolgrade.dataset import Golden
from toolgrade.errors import ReplayError
from toolgrade.replay import replay
from toolgrade.replay.cursor import RecordMode


class ReplayedTest:
    """A tape that is open while a test is set up, runs and is torn down.

    A test of a golden is one run on the recorded run of that golden. The test fails if a call left the recording, also
    in what `evaluate` runs inside of it.
    """

    def __init__(self, path: Path, record_mode: RecordMode, options: Mapping[str, Any], golden: object) -> None:
        """Open the tape.

        Raises:
            ReplayError: There is none yet.
            ToolgradeError: See `replay`.
        """
        if record_mode == "none" and not path.exists():
            raise ReplayError(f"there is no tape {str(path)!r}; record it with pytest --toolgrade-record once")
        if record_mode != "none":
            path.parent.mkdir(parents=True, exist_ok=True)
        self._opened = ExitStack()
        self._tape = self._opened.enter_context(replay(path, record_mode=record_mode, **options))
        self._cursor = self._tape.outside
        if isinstance(golden, Golden):
            self._cursor = self._opened.enter_context(self._tape.run(golden))
        self._reported = 0
        self._failure: BaseException | None = None

    def around(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """Return the test with its check; it sees the tape also if a plugin calls it in a context of its own."""
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def atest(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the test
                __tracebackhide__ = True
                with self._running():
                    result = await test(*args, **kwargs)
                self._check()
                return result

            return atest

        @functools.wraps(test)
        def plain_test(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the test
            __tracebackhide__ = True
            with self._running():
                result = test(*args, **kwargs)
            self._check()
            return result

        return plain_test

    @contextmanager
    def _running(self) -> Generator[None, None, None]:
        try:
            with at(self._cursor):
                yield
        except BaseException as error:
            self._failure = error
            raise

    def _check(self) -> None:
        __tracebackhide__ = True
        left, self._reported = self._tape.left_calls[self._reported :], self._tape.left
        reasons = dict.fromkeys(one.execution.left_recording for one in left if one.execution is not None)
        if reasons:
            remedy = "pytest --toolgrade-record all records the test anew, if that is intended"
            raise ReplayError("\n".join([*map(str, reasons), remedy]))

    def close(self, *, failed: bool) -> None:
        """Close the tape, which is not written if the test has failed.

        Args:
            failed: The end of the test has failed, so that nothing is checked.

        Raises:
            ReplayError: Fixtures, or what a plugin ran in its own way, left the recording.
        """
        error = self._failure
        with self._opened:
            if error is not None:  # as if it was raised in the block of the tape
                self._opened.pop_all().__exit__(type(error), error, error.__traceback__)
            if not failed:
                self._check()
