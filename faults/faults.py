"""The faults: each hurts a program at a random moment, and checks its files and what it says."""

from __future__ import annotations

import ctypes
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from faults.programs import Program, check

Fault = Callable[[Program, int, random.Random], int]
"""Hurts a program this many times, and returns how often."""

_DROP_BOUNDING, _IGNORE_PERMISSIONS = 24, (1, 2)
"""Number of the call that gives up a capability, and the capabilities by which root ignores permissions."""

_LIBC = ctypes.CDLL(None)


def work_seconds(program: Program) -> float:
    """Return how long a run without faults works."""
    program.fresh()
    start = time.monotonic()
    program.start_copy().communicate()
    return time.monotonic() - start


def stopped_by(number: signal.Signals) -> Fault:
    """Return the fault that sends a signal, resumes, and sends it again, until the work is done."""

    def stop_again_and_again(program: Program, times: int, rng: random.Random) -> int:
        seconds = work_seconds(program)
        stopped = 0
        while stopped < times:
            program.fresh()
            is_done = False
            while stopped < times and not is_done:
                program.wait_for_children()
                is_done = not _stop(program, number, rng.uniform(0, seconds), rng)
                stopped += not is_done
                seconds *= 0.7 if is_done else 1.1  # most moments shall lie before the end, on a busy machine, too
                program.check_partial()
            program.finish()
        return stopped

    return stop_again_and_again


_IGNORED = re.compile(rb"Exception ignored in: .*?\nKeyboardInterrupt: *\n", re.DOTALL)
"""What Python prints of an interrupt in a finalizer; the program goes on."""


def _stop(program: Program, number: signal.Signals, moment: float, rng: random.Random) -> bool:
    """Start a program and send a signal after some seconds; return whether it was stopped before its end."""
    process = program.start_copy()
    time.sleep(moment)
    # The processes of a group die together when a container ends or a terminal sends Ctrl-C, and one alone when the
    # system has no memory left.
    with suppress(ProcessLookupError):
        if number == signal.SIGINT or rng.random() < 0.5:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
    _, err = process.communicate()
    if number == signal.SIGINT and program.is_command:
        err = _IGNORED.sub(b"", err)
        last_traceback = err.rpartition(b"Traceback")[2]
        if b"super().main(" not in last_traceback and last_traceback.endswith(b"KeyboardInterrupt\n"):
            return True  # the command had not begun, or was over
        # A signal that comes after the program, while the interpreter shuts down, ends Python without a word.
        is_clean = process.returncode >= 0 or (process.returncode == -signal.SIGINT and not err)
        check(is_clean, f"{program.name}: ended with {process.returncode} after Ctrl-C: {err.decode()}")
        check(b"Traceback" not in err, f"{program.name}: showed a traceback after Ctrl-C: {err.decode()}")
    return not program.is_done(process.returncode, err)


def full_disk(program: Program, times: int, rng: random.Random) -> int:
    """Let the disk be full at a random size; then there is space again."""
    program.fresh()
    program.finish()
    needed = program.disk_share * sum(path.stat().st_size for path in program.output.rglob("*") if path.is_file())
    for _ in range(times):
        with _small_disk(program.output, rng.randint(0, round(needed))) as (limit, enlarge):
            with suppress(OSError):  # an older file may not fit
                program.fresh()
            _, err = (process := program.start(limit)).communicate(timeout=120)
            program.check_exit(process.returncode, err, after="the disk was full")
            enlarge()
            program.check_partial()
            program.finish()
            program.wait_for_children()
    return times


@contextmanager
def _small_disk(folder: Path, size: int) -> Generator[tuple[Callable[[], None] | None, Callable[[], None]], None, None]:
    """Limit the space of a folder; yield what a program must run before it starts, and what ends the limit.

    Without the right to mount a disk, no file of the program may be larger than the size.
    """
    size = max(4096, size)
    if not can_mount(folder, size):
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)), lambda: None
        return
    try:
        yield None, lambda: _command("mount", "-o", "remount,size=1g", str(folder))
    finally:
        _command("umount", str(folder))


def can_mount(folder: Path, size: int) -> bool:
    """Mount a disk of this size on a folder; return whether that was possible."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    options = f"size={size}"
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=False).returncode == 0


def _command(*words: str) -> None:
    subprocess.run(words, check=True)


def read_only(program: Program, times: int, rng: random.Random) -> int:
    """Forbid writing to a folder that is empty or has a part of the work; then allow it again."""
    seconds = work_seconds(program)
    for _ in range(times):
        program.fresh()
        if rng.random() < 0.5:
            _stop(program, signal.SIGKILL, rng.uniform(0, seconds), rng)
            program.wait_for_children()
        before = _contents(program.output)
        paths = [path for path in (program.output, *program.output.rglob("*")) if not path.is_symlink()]
        modes = {path: path.stat().st_mode for path in paths}
        for path, mode in modes.items():
            path.chmod(mode & 0o555)
        _, err = (process := program.start(_obey_permissions)).communicate(timeout=120)
        for path, mode in modes.items():
            path.chmod(mode)
        program.check_exit(process.returncode, err, after="the folder was read-only")
        check(_contents(program.output) == before, f"{program.name}: wrote to a read-only folder")
        program.check_partial()
        program.finish()
    return times


def _obey_permissions() -> None:
    """Let root obey the permissions of files from the next program on."""
    for capability in _IGNORE_PERMISSIONS:
        _LIBC.prctl(_DROP_BOUNDING, capability, 0, 0, 0)


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def torn_file(program: Program, times: int, rng: random.Random) -> int:
    """Cut off the end of a file, or fill it with zeros as a crashed machine may; then resume.

    The program does its work, or refuses the file and leaves it as it is.
    """
    seconds = work_seconds(program)
    for _ in range(times):
        program.fresh()
        _stop(program, signal.SIGKILL, rng.uniform(seconds / 3, 1.5 * seconds), rng)
        program.wait_for_children()
        files = sorted(path for path in program.output.rglob("*") if path.is_file() and not path.is_symlink())
        files = [path for path in files if path.stat().st_size]
        if files:
            path = rng.choice(files)
            data = path.read_bytes()
            cut = rng.randrange(len(data))
            path.write_bytes(data[:cut] + bytes(rng.choice([0, len(data) - cut])))
        program.forget()
        _, err = (process := program.start_copy()).communicate()
        # Complete results are not read again, so that a command that refuses to write them anew says nothing of them.
        if (
            program.check_exit(process.returncode, err, after="a file was torn")
            and process.returncode in program.done_codes
        ):
            program.check_complete()
    return times


def writers_at_once(program: Program, times: int, _rng: random.Random) -> int:
    """Start three programs at once on the same files."""
    for _ in range(times):
        program.fresh()
        processes = [program.start() for _ in range(3)]
        for process in processes:
            _, err = process.communicate(timeout=120)
            program.check_exit(process.returncode, err, after="another program wrote the same files")
        program.writers = 3
        program.check_partial()
        program.finish()
        program.writers = 1
    return times


def closed_pipe(program: Program, times: int, rng: random.Random) -> int:
    """Read some of the output and close the pipe, as `head` does."""
    if not program.is_command:
        return 0
    for _ in range(times):
        program.fresh()
        process = program.start(program=program.piped_arguments())
        if process.stdout is not None:
            process.stdout.read(rng.choice([0, 1, 100, 10_000]))
            process.stdout.close()
        err = b"" if process.stderr is None else process.stderr.read()
        process.wait(120)
        check(b"Traceback" not in err and b"Exception ignored" not in err, f"{program.name}: {err.decode()}")
        check(process.returncode >= 0, f"{program.name}: ended with {process.returncode} when its pipe was closed")
        program.check_partial()
        program.finish()
    return times


FAULTS: Mapping[str, Fault] = {
    "kill -9": stopped_by(signal.SIGKILL),
    "Ctrl-C": stopped_by(signal.SIGINT),
    "full disk": full_disk,
    "read-only folder": read_only,
    "torn file": torn_file,
    "writers at once": writers_at_once,
    "closed pipe": closed_pipe,
}
