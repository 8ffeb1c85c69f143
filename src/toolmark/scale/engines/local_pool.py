"""Who works on the parts? Processes, each of which is given the next part when it has done one.

A process is started anew (`spawn`), not copied: a copy of a program that has threads may hang. It ends with the one
that started it, however that ends, and it ignores Ctrl-C, which the other acts on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from multiprocessing import connection
from pickle import PicklingError, dumps
from typing import Any, TypeVar, cast

from toolmark.errors import ConfigurationError, WorkerDiedError

J = TypeVar("J")
T = TypeVar("T")


def done(work: Callable[[J], T], jobs: Sequence[J], processes: int) -> Generator[tuple[J, T], None, None]:
    """Yield each job with what `work` makes of it, in any order; nothing is under way when the generator is closed.

    Args:
        work: Is called once for each job; can be pickled if there are several processes.
        jobs: The jobs.
        processes: How many work; one works in this process.

    Raises:
        ConfigurationError: `work` cannot be handed to other processes.
        WorkerDiedError: A process was killed, or could not start.
    """
    if processes == 1 or len(jobs) < 2:  # noqa: PLR2004 - a single job
        yield from ((job, work(job)) for job in jobs)
        return
    check_picklable(work)
    with closing(_Pool(work, min(processes, len(jobs)))) as pool:
        yield from pool.run(iter(jobs))


def check_picklable(work: object) -> None:
    """Raise where something cannot be handed to other processes.

    Raises:
        ConfigurationError: It cannot.
    """
    try:
        dumps(work)
    except (PicklingError, TypeError, AttributeError) as error:
        remedy = "define metrics in a module, without functions in functions, or use processes=1"
        raise ConfigurationError(f"the metrics cannot be handed to other processes: {error}; {remedy}") from error


class _Pool:
    """Processes, each with a pipe of its own."""

    def __init__(self, work: Callable[[Any], Any], processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._members: dict[connection.Connection, Any] = {}
        for _ in range(processes):
            mine, theirs = context.Pipe()
            member = context.Process(target=_serve, args=(theirs, work), daemon=True)
            member.start()
            theirs.close()  # so that the pipe ends with the process
            self._members[mine] = member

    def run(self, jobs: Iterator[J]) -> Iterator[tuple[J, Any]]:
        under_way: dict[connection.Connection, J] = {}
        for pipe, job in zip(self._members, jobs, strict=False):
            self._give(pipe, job)
            under_way[pipe] = job
        while under_way:
            for pipe in cast("list[connection.Connection]", connection.wait(list(under_way))):
                job, made = under_way.pop(pipe), self._taken(pipe)
                following = next(jobs, None)
                if following is not None:
                    self._give(pipe, following)
                    under_way[pipe] = following
                yield job, made

    def _give(self, pipe: connection.Connection, job: object) -> None:
        try:
            pipe.send(job)
        except OSError:
            raise self._died(pipe) from None

    def _taken(self, pipe: connection.Connection) -> Any:  # noqa: ANN401 - what `work` returned
        try:
            answer = pipe.recv()
        except (EOFError, OSError):
            raise self._died(pipe) from None
        return received(answer)

    def _died(self, pipe: connection.Connection) -> WorkerDiedError:
        member = self._members[pipe]
        member.join(1)
        return WorkerDiedError(
            f"a process that scored a part ended early (exit code {member.exitcode}); if it was killed for want of "
            "memory, use fewer processes; a script that is run itself must call this under `if __name__ == '__main__':`"
        )

    def close(self) -> None:
        """End all processes, whatever they are at."""
        for pipe, member in self._members.items():
            member.terminate()
            member.join()
            pipe.close()


def _serve(pipe: connection.Connection, work: Callable[[Any], Any]) -> None:
    """Do one job after the other, until nobody gives any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        while True:
            job = pipe.recv()
            pipe.send(attempted(work, job))
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def attempted(work: Callable[[J], T], job: J) -> tuple[bool, T | Exception]:
    """Return what work makes of a job, or what it raised, and which of them; `received` takes it."""
    try:
        return True, work(job)
    except Exception as error:  # noqa: BLE001 - raised where it can be acted on
        return False, _sendable(error)


def received(answer: tuple[bool, Any]) -> Any:  # noqa: ANN401 - what `work` returned
    """Return what was made of a job in another process, or raise what was raised there."""
    is_made, made = answer
    if not is_made:
        raise made
    return made


def _sendable(error: Exception) -> Exception:
    try:
        dumps(error)
    except Exception:  # noqa: BLE001 - an exception may be anybody's code
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
