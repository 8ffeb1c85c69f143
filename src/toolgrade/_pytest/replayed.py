"""Tests that run inside of a tape; see docs/replay.md."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolgrade.dataset import Golden
from toolgrade.errors import ReplayError
from toolgrade.replay import replay
from toolgrade.replay.cursor import RecordMode


def replayed(
    test: Callable[..., Any], path: Path, record_mode: RecordMode, options: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return a test that runs while a tape is replayed; it fails if a call left the recording.

    The test itself enters the tape, since a plugin for asynchronous tests may call it in another context. With an
    argument `golden`, it is one run on the recorded run of that golden. What `evaluate` runs inside of it has its own
    verdict.
    """
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def atest(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the test
            with _opened(path, record_mode, options, kwargs.get("golden")):
                return await test(*args, **kwargs)

        return atest

    @functools.wraps(test)
    def plain_test(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the test
        with _opened(path, record_mode, options, kwargs.get("golden")):
            return test(*args, **kwargs)

    return plain_test


@contextmanager
def _opened(
    path: Path, record_mode: RecordMode, options: Mapping[str, Any], golden: object
) -> Generator[None, None, None]:
    if record_mode == "none" and not path.exists():
        raise ReplayError(f"there is no tape {str(path)!r}; record it with pytest --toolgrade-record once")
    if record_mode != "none":
        path.parent.mkdir(parents=True, exist_ok=True)
    with replay(path, record_mode=record_mode, **options) as tape:
        if isinstance(golden, Golden):
            with tape.run(golden) as cursor:
                yield
        else:
            cursor = tape.outside
            yield
        if cursor.left:
            raise ReplayError("\n".join(str(one.execution and one.execution.left_recording) for one in cursor.left))
