"""Engine that scores parts in Ray tasks, one for each part, on a cluster or on this machine.

Ray decides where a part is scored, and scores it again if a machine is lost. Parts are divided, stored and joined as
without Ray, so the results are the same, byte by byte. All machines must see the files, and the folder of the parts,
under the same paths.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.text import printable
from toolgrade.errors import ConfigurationError, WorkerDiedError
from toolgrade.scale.engines.local_pool import attempt, result_of

J = TypeVar("J")
T = TypeVar("T")

_AHEAD: Final = 2
"""Number of parts sent ahead for each core, so that no core waits for the next."""

_CONNECT_SECONDS: Final = 10


def run_on_ray(work: Callable[[J], T], jobs: Sequence[J], processes: int) -> Generator[tuple[J, T], None, None]:
    """Yield each job with the result of `work`, in any order; see `run_jobs`.

    Args:
        work: Called once for each job, in another process.
        jobs: The jobs.
        processes: Number of cores, if Ray is started on this machine; a cluster (`RAY_ADDRESS`) uses all it has.

    Raises:
        MissingPackageError: Ray is not installed.
        ConfigurationError: There is no cluster at `RAY_ADDRESS`.
        WorkerDiedError: Ray gave up a part.
    """
    if not jobs:
        return
    ray = import_extra("ray", "ray", "--engine ray")
    is_own_session = not ray.is_initialized()
    if is_own_session:
        _start(ray, processes)
    under_way: dict[Any, J] = {}
    try:
        yield from _run_tasks(ray, work, jobs, under_way)
    finally:
        if is_own_session:
            ray.shutdown()
        else:  # the session of the caller goes on, and nothing waits for these parts
            for unanswered in under_way:
                ray.cancel(unanswered)  # not by force: Ray would abort if the part is finished at the same moment


def _start(ray: Any, processes: int) -> None:  # noqa: ANN401 - a module without types
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    address = os.environ.get("RAY_ADDRESS")
    if not address or address == "local":
        ray.init(address="local", num_cpus=processes, include_dashboard=False, **quiet)
        return
    try:
        _check_address(address)
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        remedy = "name what ray start printed, with RAY_AUTH_MODE=token if the cluster asks for one"
        where = f"RAY_ADDRESS={printable(address)}"
        raise ConfigurationError(f"Ray cannot be reached at {where}: {error}; {remedy}") from error


def _check_address(address: str) -> None:
    """Check that something listens at an address, because Ray itself would try for minutes.

    Raises:
        OSError: Nothing listens there.
        ValueError: The address has no host or no port.
    """
    if address == "auto":  # a cluster that Ray finds on this machine
        return
    place = urlsplit(address if "://" in address else f"//{address}")
    if place.hostname is None or place.port is None:
        raise ValueError("it should be host:port")
    with socket.create_connection((place.hostname, place.port), timeout=_CONNECT_SECONDS):
        pass


def _run_tasks(
    ray: Any,  # noqa: ANN401 - a module without types
    work: Callable[[J], T],
    jobs: Sequence[J],
    under_way: dict[Any, J],
) -> Generator[tuple[J, T], None, None]:
    """Yield each job with its result; `under_way` holds the jobs that Ray has not answered, by reference."""
    task = ray.remote(attempt)
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
        except ray.exceptions.RayError as error:  # an error of a part is in its answer, so this one is of Ray itself
            raise WorkerDiedError(f"Ray gave up a part: {error}") from error
        yield job, result_of(answer)
