"""Engine that scores parts in Ray tasks, one for each part, on a cluster or on this machine.

Ray decides where a part is scored, and scores it again where a machine was lost. What a part is, when it is done, and
how parts are joined is the same as without Ray, and so are the results, byte by byte. All machines see the files, and
the folder of the parts, under the same paths.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from toolmark._internal.lazy_imports import import_extra
from toolmark._internal.text import printable
from toolmark.errors import ConfigurationError, WorkerDiedError
from toolmark.scale.engines.local_pool import attempted, received

J = TypeVar("J")
T = TypeVar("T")

_AHEAD: Final = 2
"""Parts that are given out for each core, so that none waits for the next."""

_KNOCK_SECONDS: Final = 10


def done_on_ray(work: Callable[[J], T], jobs: Sequence[J], processes: int) -> Generator[tuple[J, T], None, None]:
    """Yield each job with what `work` makes of it, in any order, as `done` does.

    Args:
        work: Is called once for each job.
        jobs: The jobs.
        processes: How many cores are used, where Ray is started here; a cluster (`RAY_ADDRESS`) uses what it has.

    Raises:
        MissingPackageError: Ray is not installed.
        ConfigurationError: There is no cluster at `RAY_ADDRESS`.
        WorkerDiedError: Ray gave a part up.
    """
    if not jobs:
        return
    ray = import_extra("ray", "ray", "--engine ray")
    is_ours = not ray.is_initialized()
    if is_ours:
        _start(ray, processes)
    under_way: dict[Any, J] = {}
    try:
        yield from _done(ray, work, jobs, under_way)
    finally:
        if is_ours:
            ray.shutdown()
        else:  # the session goes on, and nobody waits for these parts
            for unanswered in under_way:
                ray.cancel(unanswered)  # not by force: Ray aborts where a forced end meets a part that is just done


def _start(ray: Any, processes: int) -> None:  # noqa: ANN401 - a module without types
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    address = os.environ.get("RAY_ADDRESS")
    if not address or address == "local":
        ray.init(address="local", num_cpus=processes, include_dashboard=False, **quiet)
        return
    try:
        _knock(address)
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        remedy = "name what ray start printed, with RAY_AUTH_MODE=token if the cluster asks for one"
        where = f"RAY_ADDRESS={printable(address)}"
        raise ConfigurationError(f"Ray cannot be reached at {where}: {error}; {remedy}") from error


def _knock(address: str) -> None:
    """Raise at once where nobody listens; Ray itself tries for minutes.

    Raises:
        OSError: Nobody does.
        ValueError: This is no address.
    """
    if address == "auto":  # one that Ray finds on this machine
        return
    place = urlsplit(address if "://" in address else f"//{address}")
    if place.hostname is None or place.port is None:
        raise ValueError("it should be host:port")
    with socket.create_connection((place.hostname, place.port), timeout=_KNOCK_SECONDS):
        pass


def _done(
    ray: Any,  # noqa: ANN401 - a module without types
    work: Callable[[J], T],
    jobs: Sequence[J],
    under_way: dict[Any, J],
) -> Generator[tuple[J, T], None, None]:
    """Yield each job with its result; `under_way` holds the jobs that Ray has not answered, by reference."""
    task = ray.remote(attempted)
    shared = ray.put(work)
    waiting = iter(jobs)
    while True:
        ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        for job in islice(waiting, max(0, ahead - len(under_way))):
            under_way[task.remote(shared, job)] = job
        if not under_way:
            return
        (ready,), _ = ray.wait(list(under_way))
        job = under_way.pop(ready)
        try:
            answer = ray.get(ready)
        except ray.exceptions.RayError as error:  # what a part raises is an answer, so this is of Ray itself
            raise WorkerDiedError(f"Ray gave a part up: {error}") from error
        yield job, received(answer)
