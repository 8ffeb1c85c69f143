"""Processes of this machine that work on a list of jobs; each takes the next job when it is free.

Processes are forked if this one has no second thread, and otherwise spawned, which takes longer because they import
everything again: a fork of a program with threads may hang. They end with the process that started them, however that
ends, and ignore Ctrl-C, which that process handles.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing import connection
from pathlib import Path
from pickle import PicklingError, dumps
from typing import Any, TypeVar, cast

from toolgrade.errors import ConfigurationError, WorkerDiedError

J = TypeVar("J")
T = TypeVar("T")


def run_jobs(work: Callable[[J], T], jobs: Sequence[J], processes: int) -> Generator[tuple[J, T], None, None]:
    """Yield each job with the result of `work`, in any order; closing the generator ends all processes.

    With one process the jobs run in this one.

    Raises:
        ConfigurationError: `work` cannot be pickled.
        WorkerDiedError: A process was killed, or could not start.
    """
    if processes == 1 or len(jobs) < 2:  # noqa: PLR2004 - a single job
        yield from ((job, work(job)) for job in jobs)
        return
    check_picklable(work)
    with closing(_Pool(work, min(processes, len(jobs)))) as pool:
        yield from pool.run(iter(jobs))


def check_picklable(work: object) -> None:
    """Check that an object can be sent to other processes.

    Raises:
        ConfigurationError: It cannot.
    """
    try:
        dumps(work)
    except (PicklingError, TypeError, AttributeError) as error:
        remedy = "define metrics in a module, without functions in functions, or use processes=1"
        raise ConfigurationError(f"the metrics cannot be handed to other processes: {error}; {remedy}") from error


class _Pool:
    """Processes, each with its own pipe."""

    def __init__(self, work: Callable[[Any], Any], processes: int) -> None:
        context: Any = multiprocessing.get_context("fork" if _has_one_thread() else "spawn")
        self._members: dict[connection.Connection, Any] = {}
        with _interrupts_held_back():
            for _ in range(processes):
                own_end, worker_end = context.Pipe()
                member = context.Process(target=_serve, args=(worker_end, work), daemon=True)
                member.start()
                worker_end.close()  # so that the pipe ends with the process
                self._members[own_end] = member

    def run(self, jobs: Iterator[J]) -> Iterator[tuple[J, Any]]:
        under_way: dict[connection.Connection, J] = {}
        for pipe, job in zip(self._members, jobs, strict=False):
            self._give(pipe, job)
            under_way[pipe] = job
        while under_way:
            for pipe in cast("list[connection.Connection]", connection.wait(list(under_way))):
                job, result = under_way.pop(pipe), self._receive(pipe)
                following = next(jobs, None)
                if following is not None:
                    self._give(pipe, following)
                    under_way[pipe] = following
                yield job, result

    def _give(self, pipe: connection.Connection, job: object) -> None:
        try:
            pipe.send(job)
        except OSError:
            raise self._death_error(pipe) from None

    def _receive(self, pipe: connection.Connection) -> Any:  # noqa: ANN401 - what `work` returned
        try:
            answer = pipe.recv()
        except (EOFError, OSError):
            raise self._death_error(pipe) from None
        is_result, value = answer
        if not is_result:
            raise value
        return value

    def _death_error(self, pipe: connection.Connection) -> WorkerDiedError:
        member = self._members[pipe]
        member.join(1)
        return WorkerDiedError(
            f"a process that scored a part ended early (exit code {member.exitcode}); if it was killed for want of "
            "memory, use fewer processes; a script that is run itself must call this under `if __name__ == '__main__':`"
        )

    def close(self) -> None:
        """End all processes at once."""
        for pipe, member in self._members.items():
            member.terminate()
            member.join()
            pipe.close()


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


def _has_one_thread() -> bool:
    """Return whether the system knows that this process has one thread, also counting those of extension modules."""
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:  # not Linux
        return False


def _serve(pipe: connection.Connection, work: Callable[[Any], Any]) -> None:
    """Do one job after the other, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        while True:
            job = pipe.recv()
            pipe.send(_attempt(work, job))
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _attempt(work: Callable[[J], T], job: J) -> tuple[bool, T | Exception]:
    """Return whether a job succeeded, and its result or exception."""
    try:
        return True, work(job)
    except Exception as error:  # noqa: BLE001 - raised where it can be acted on
        return False, _sendable(error)


def _sendable(error: Exception) -> Exception:
    try:
        dumps(error)
    except Exception:  # noqa: BLE001 - an exception may be anybody's code
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
