"""Runs the doors: input after input until the time is over, each within its limits."""

from __future__ import annotations

import atexit
import gc
import math
import os
import random
import re
import resource
import shlex
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from fuzz.doors import DOORS, GROUPS, Door
from toolgrade.errors import LimitError, ToolgradeError, ToolgradeWarning

SMALL = 100_000
"""Bytes of the longest input for which the limits hold."""
PATIENCE = float(os.environ.get("TOOLGRADE_FUZZ_PATIENCE", "1"))
"""Factor of the limits of time, for a slow machine."""
MOST_SECONDS = 1.0 * PATIENCE
"""Processor time of one small input."""
MOST_SECONDS_TO_A_LIMIT = 5.0 * PATIENCE
"""The same for one that ends at the limits of a case, which allow two seconds for regular expressions alone."""
MOST_MEMORY = 300 * 1024 * 1024
"""Bytes of memory of one small input."""
QUICK = 0.02
"""Seconds within which an input cannot fill that memory; reading the memory may take longer than such an input."""
HANGING = 30
"""Seconds after which an input is given up."""


class HangError(BaseException):
    """An input took too long; not an `Exception`, so that nothing under test catches it."""


@dataclass
class Tally:
    """What happened at one door.

    Attributes:
        read: Inputs that gave a valid result.
        refused: Inputs that were refused with an error of toolgrade.
        faults: The first input of each fault, by its kind and place.
        repeated: Further inputs with a fault of the same kind and place.
        seconds: Time taken, the writing of inputs included.
        slowest: Longest time of one input, in seconds.
    """

    read: int = 0
    refused: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    seconds: float = 0.0
    slowest: float = 0.0

    @property
    def inputs(self) -> int:
        """Number of the inputs."""
        return self.read + self.refused + len(self.faults) + self.repeated


@dataclass(frozen=True)
class Fuzzer:
    """A run of doors.

    Attributes:
        seed: Seed of all inputs; an input is determined by it, the name of the door and a number.
        crashes: Folder for the inputs with a fault; `None` prints their numbers only.
    """

    seed: int
    crashes: Path | None

    def run(self, names: list[str], *, seconds: float, inputs: int | None = None) -> dict[str, Tally]:
        """Run doors one after another, and return what happened.

        Args:
            names: The doors.
            seconds: Time for all of them, of which each has an equal share.
            inputs: How many inputs each group of doors has, of which each door has an equal share, in place of a time.
        """
        tallies: dict[str, Tally] = {}
        for name in names:
            if inputs is None:
                tallies[name] = self._run_door(name, seconds / len(names), sys.maxsize)
            else:
                tallies[name] = self._run_door(name, math.inf, math.ceil(inputs / _size_of_group(name)))
            print(_line(name, tallies[name]), flush=True)
        return tallies

    def input(self, name: str, number: int) -> bytes:
        """Return one input of a door."""
        return DOORS[name].write(random.Random(f"{self.seed} {name} {number}"))

    def _run_door(self, name: str, seconds: float, inputs: int) -> Tally:
        tally = Tally()
        self.input(name, 0)  # reads the seeds, before the time begins
        gc.collect()
        gc.freeze()  # walking through the seeds of all doors again and again takes longer than most inputs
        start = time.monotonic()
        number = 0
        while number < inputs and time.monotonic() - start < seconds:
            self._try(name, number, tally)
            number += 1
        tally.seconds = time.monotonic() - start
        return tally

    def _try(self, name: str, number: int, tally: Tally) -> None:
        data = self.input(name, number)
        outcome = try_input(DOORS[name], data)
        tally.slowest = max(tally.slowest, outcome.seconds)
        if outcome.fault is None:
            tally.read += not outcome.is_refused
            tally.refused += outcome.is_refused
        elif outcome.kind in tally.faults:
            tally.repeated += 1
        else:
            tally.faults[outcome.kind] = number
            self._report(name, number, data, outcome)

    def _report(self, name: str, number: int, data: bytes, outcome: Outcome) -> None:
        print(f"\nFAULT at the door {name!r}: {outcome.kind}\n{outcome.fault}", file=sys.stderr)
        replay = f"--door {shlex.quote(name)} --seed {self.seed} --number {number}"
        if self.crashes is not None:
            self.crashes.mkdir(parents=True, exist_ok=True)
            path = self.crashes / f"{name.replace(' ', '-')}-{self.seed}-{number}.input"
            path.write_bytes(data)
            replay = f"--door {shlex.quote(name)} --replay {shlex.quote(str(path))}"
        elif shared := os.environ.get("TOOLGRADE_SHARED"):
            print(
                f"With TOOLGRADE_SHARED={shlex.quote(shared)}, which the numbers of inputs depend on:", file=sys.stderr
            )
        print(f"Replay it: {shlex.quote(sys.executable)} -m fuzz {replay}\n", file=sys.stderr)


@dataclass(frozen=True)
class Outcome:
    """What one input led to.

    Attributes:
        seconds: Its processor time.
        is_refused: Whether it ended in an error of toolgrade.
        kind: Kind and place of its fault.
        fault: Text of its fault, `None` if there is none.
    """

    seconds: float
    is_refused: bool = False
    kind: str = ""
    fault: str | None = None


def try_input(door: Door, data: bytes) -> Outcome:
    """Return what an input leads to.

    One that is slow is tried again, with its processor time: it may have loaded modules, or waited for other programs.
    """
    outcome = _try_once(door, data, time.monotonic)
    return _try_once(door, data, time.process_time) if outcome.kind.startswith("slow") else outcome


def _try_once(door: Door, data: bytes, clock: Callable[[], float]) -> Outcome:
    _Alarm.start()
    start = clock()
    is_refused, limit = False, MOST_SECONDS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ToolgradeWarning)
            door.check(data)
    except ToolgradeError as error:
        is_refused, limit = True, MOST_SECONDS_TO_A_LIMIT if isinstance(error, LimitError) else MOST_SECONDS
    except (Exception, HangError) as error:  # noqa: BLE001 - this is what is looked for
        return Outcome(clock() - start, False, _kind(error), "".join(traceback.format_exception(error)))
    finally:
        _Alarm.stop()
    seconds = clock() - start
    if len(data) < SMALL and seconds > limit:
        return Outcome(seconds, is_refused, "slow", f"{len(data):,} bytes took {seconds:.1f} s of processor time")
    used = _Memory.used() if seconds > QUICK else 0
    if len(data) < SMALL and used > MOST_MEMORY:
        return Outcome(seconds, is_refused, "large", f"{len(data):,} bytes took {used:,} bytes of memory")
    return Outcome(seconds, is_refused)


class _Alarm:
    """Gives up an input that takes too long.

    Its timer looks at the clock each second: setting one for each input takes longer than most inputs.
    """

    began = math.inf
    """When the input began, by `time.monotonic`."""
    is_set = False

    @classmethod
    def start(cls) -> None:
        """Begin with an input."""
        if not cls.is_set:
            cls.is_set = True
            signal.signal(signal.SIGALRM, cls._tick)
            signal.setitimer(signal.ITIMER_REAL, 1, 1)
            atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
        cls.began = time.monotonic()

    @classmethod
    def stop(cls) -> None:
        """End the input."""
        cls.began = math.inf

    @classmethod
    def _tick(cls, _signal: int, _frame: FrameType | None) -> None:
        if time.monotonic() - cls.began > HANGING:
            cls.began = math.inf
            raise HangError(f"the input took more than {HANGING} s")


class _Memory:
    """The memory of the process when it was last read, in bytes."""

    now = 0
    peak = 0

    @classmethod
    def used(cls) -> int:
        """Return the memory that the peak rose above what the process had before, 0 if there is no new peak."""
        now, peak = _memory(), _peak_memory()
        used = peak - cls.now if peak > cls.peak > 0 else 0
        cls.now, cls.peak = now, peak
        return used


def _kind(error: BaseException) -> str:
    """Return the class, the place and the beginning of an error, with its numbers and quotations left out."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = re.sub(r"\d+|'[^']*'", "_", str(error))[:40]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {text}"


def _peak_memory() -> int:
    """Return the most memory that the process had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _memory() -> int:
    """Return the memory that the process has now, in bytes; where the system does not tell, the most it had."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return _peak_memory()
    return pages * resource.getpagesize()


def _size_of_group(name: str) -> int:
    """Return how many doors are in the group of a door."""
    return next(len(doors) for doors in GROUPS.values() if name in doors)


def _line(name: str, tally: Tally) -> str:
    rate = tally.inputs / tally.seconds if tally.seconds else 0.0
    return (
        f"{name:18} {tally.inputs:8,} inputs in {tally.seconds:6.1f} s ({rate:6,.0f}/s), {tally.read:8,} read, "
        f"{tally.refused:8,} refused, {len(tally.faults):3} faults, slowest {tally.slowest:.2f} s"
    )


def kinds(tallies: dict[str, Tally]) -> Iterator[tuple[str, str]]:
    """Yield the door and the kind of each fault."""
    for name, tally in tallies.items():
        for kind in tally.faults:
            yield name, kind
