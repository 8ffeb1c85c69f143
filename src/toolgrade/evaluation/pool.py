"""Processes of this machine that work on jobs; results come in the order of the jobs.

Processes are forked if this one has no second thread, and otherwise spawned, which takes longer because they import
everything again: a fork of a program with threads may hang. They end with the process that started them, however that
ends, and ignore Ctrl-C, which that process handles.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from pickle import PicklingError, dumps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from toolgrade.errors import ConfigurationError, WorkerDiedError

if TYPE_CHECKING:
    from concurrent.futures import Future

J = TypeVar("J")
T = TypeVar("T")

_AHEAD: Final = 4
"""Jobs for each process that are begun before the result of the first is taken, so that results need little memory."""

_work: Callable[[Any], Any]
"""What a process does with its jobs."""


def run_jobs(work: Callable[[J], T], jobs: Iterator[J], processes: int) -> Generator[tuple[J, T], None, None]:
    """Yield each job with the result of `work`, in order; closing the generator ends all processes.

    With one process the jobs run in this one.

    Raises:
        ConfigurationError: `work` cannot be pickled.
        WorkerDiedError: A process was killed, or could not start.
    """
    if processes == 1:
        yield from ((job, work(job)) for job in jobs)
        return
    _check_picklable(work)
    import multiprocessing  # noqa: PLC0415 - only large files need it
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - as above
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415 - as above

    context = multiprocessing.get_context("fork" if _has_one_thread() else "spawn")
    pool = ProcessPoolExecutor(processes, context, _prepare, (work,))
    begun: deque[tuple[J, Future[T]]] = deque()
    try:
        while True:
            with _interrupts_held_back():
                begun.extend((job, pool.submit(_do, job)) for job in islice(jobs, _AHEAD * processes - len(begun)))
            if not begun:
                return
            job, future = begun.popleft()
            yield job, future.result()
    except BrokenProcessPool:
        raise WorkerDiedError(
            "a process that scored a part ended early; if it was killed because memory ran out, use fewer processes; a "
            "script that is run itself must call this under `if __name__ == '__main__':`"
        ) from None
    finally:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            with suppress(ProcessLookupError):  # it has ended already
                process.terminate()
        pool.shutdown(cancel_futures=True)


def _check_picklable(work: object) -> None:
    try:
        dumps(work)
    except (PicklingError, TypeError, AttributeError) as error:
        remedy = "define metrics in a module, without functions in functions, or use processes=1"
        raise ConfigurationError(f"the metrics cannot be handed to other processes: {error}; {remedy}") from error


def _prepare(work: Callable[[Any], Any]) -> None:
    """Begin a process."""
    global _work  # noqa: PLW0603 - what each job would otherwise bring along
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _do(job: object) -> Any:  # noqa: ANN401 - what `work` returns
    return _work(job)


def _end_with_parent() -> None:
    from multiprocessing import parent_process  # noqa: PLC0415 - as above

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _has_one_thread() -> bool:
    """Return whether the system knows that this process has one thread, also counting those of extension modules."""
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:  # not Linux
        return False


@contextmanager
def _interrupts_held_back() -> Generator[None, None, None]:
    """Let Ctrl-C wait until processes are started: in the hooks of a fork, Python prints the interrupt and goes on."""
    if not hasattr(signal, "pthread_sigmask"):  # not POSIX
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
