"""Worker processes: each part once, and all processes end in any case."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from processes import HEEDS_INTERRUPTS, environment
from scale_workers import die, double, fail, fail_badly, is_alive, slower_first
from toolgrade.errors import ConfigurationError, WorkerDiedError
from toolgrade.evaluation.pool import run_jobs


def test_every_job_is_done_once() -> None:
    """Several processes share the jobs, and each job has its result."""
    results = dict(run_jobs(double, iter(range(20)), 3))

    assert {job: value for job, (value, _) in results.items()} == {number: 2 * number for number in range(20)}
    assert os.getpid() not in {pid for _, pid in results.values()}
    assert multiprocessing.active_children() == []


def test_one_process_needs_no_other() -> None:
    """Where nothing is to be shared, nothing is started; without jobs there is nothing to do."""
    assert {pid for _, (_, pid) in run_jobs(double, iter(range(5)), 1)} == {os.getpid()}
    assert list(run_jobs(double, iter(()), 4)) == []


def test_results_are_in_the_order_of_the_jobs() -> None:
    """Whoever finishes first; jobs are begun a few ahead, and not all at once."""
    jobs = iter(range(100))
    with closing(run_jobs(slower_first, jobs, 2)) as results:
        assert [next(results) for _ in range(5)] == [(number, number) for number in range(5)]
    assert next(jobs) < 20


def test_an_error_is_raised_here() -> None:
    """What a process raises is raised where it was asked, and the others end."""
    with pytest.raises(ValueError, match="three"):
        list(run_jobs(fail, iter(range(10)), 2))
    with pytest.raises(Exception, match=r"pickle|local object"):  # the words of Python 3.10 and 3.13
        list(run_jobs(fail_badly, iter(range(10)), 2))
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(os.name != "posix", reason="processes are killed as POSIX does")
def test_killed_process_is_reported() -> None:
    """The other processes do not wait forever."""
    with pytest.raises(WorkerDiedError, match=r"a process .* ended early; if it was killed"):
        list(run_jobs(die, iter(range(10)), 2))
    assert multiprocessing.active_children() == []


def test_abandoned_results_stop_the_processes() -> None:
    """Work stops if the results are no longer read."""
    with closing(run_jobs(double, iter(range(100)), 2)) as results:
        next(results)
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="processes are not forked here")
def test_an_interrupt_during_a_fork_stops_the_program() -> None:
    """Python only prints an exception in the hooks of a fork, and the program would go on."""
    program = (
        f"{HEEDS_INTERRUPTS}\n"
        "import os, signal; os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT))\n"
        "from scale_workers import double; from toolgrade.evaluation.pool import run_jobs\n"
        "try: list(run_jobs(double, iter([1, 2]), 2))\n"
        "except KeyboardInterrupt: print('stopped')"
    )
    paths = os.pathsep.join([environment()["PYTHONPATH"], str(Path(__file__).parents[1])])
    settings = environment(PYTHONPATH=paths)
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_functions_that_cannot_be_pickled_are_refused() -> None:
    """A function that other processes cannot import gives an error."""
    with pytest.raises(ConfigurationError, match="cannot be handed to other processes"):
        list(run_jobs(lambda number: number, iter(range(10)), 2))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="whether a process lives is read from the system")
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """However the parent ends, and whatever the workers are doing."""
    program = (
        "import sys; from scale_workers import linger; from toolgrade.evaluation.pool import run_jobs; "
        "list(run_jobs(linger, iter(sys.argv[1:] * 2), 2))"
    )
    paths = os.pathsep.join([environment()["PYTHONPATH"], str(Path(__file__).parents[1])])
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=environment(PYTHONPATH=paths))
    end = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    members = [path.name for path in tmp_path.iterdir()]

    parent.send_signal(signal.SIGKILL)
    parent.wait()

    assert len(members) == 2
    end = time.monotonic() + 30
    while (left := [pid for pid in members if is_alive(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []
