"""Who works on the parts, past one machine? Tasks of Ray, one for each part, on a cluster or on this machine.

Ray decides where a part is scored, and scores it again where a machine was lost. What a part is, when it is done, and
how parts are joined is the same as without Ray, and so are the results, byte by byte. All machines see the files, and
the folder of the parts, under the same paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any, TypeVar

from toolmark._packed import extra
from toolmark.errors import WorkerDiedError

J = TypeVar("J")
T = TypeVar("T")

_AHEAD = 2
"""Parts that are given out for each core, so that none waits for the next."""


def done_on_ray(work: Callable[[J], T], jobs: Sequence[J], processes: int) -> Generator[tuple[J, T], None, None]:
    """Yield each job with what `work` makes of it, in any order, as `done` does.

    Args:
        work: Is called once for each job.
        jobs: The jobs.
        processes: How many cores are used, where Ray is started here; a cluster (`RAY_ADDRESS`) uses what it has.

    Raises:
        MissingPackageError: Ray is not installed.
        WorkerDiedError: Ray gave a part up.
    """
    ray = extra("ray", "ray", "--engine ray")
    is_ours = not ray.is_initialized()
    if is_ours:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if os.environ.get("RAY_ADDRESS"):
            ray.init(address="auto", **quiet)
        else:
            ray.init(address="local", num_cpus=processes, include_dashboard=False, **quiet)
    try:
        yield from _done(ray, work, jobs)
    finally:
        if is_ours:
            ray.shutdown()


def _done(ray: Any, work: Callable[[J], T], jobs: Sequence[J]) -> Generator[tuple[J, T], None, None]:  # noqa: ANN401 - a module without types
    task = ray.remote(_work)
    shared = ray.put(work)
    waiting = iter(jobs)
    under_way: dict[Any, J] = {}
    ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    while True:
        for job in islice(waiting, ahead - len(under_way)):
            under_way[task.remote(shared, job)] = job
        if not under_way:
            return
        (ready,), _ = ray.wait(list(under_way))
        job = under_way.pop(ready)
        try:
            made = ray.get(ready)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise WorkerDiedError(f"Ray gave a part up: {error}") from error
        yield job, made


def _work(work: Callable[[J], T], job: J) -> T:
    return work(job)
