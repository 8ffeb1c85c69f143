"""Hurts every program with every fault: `python -m faults --kills 200`. Needs Linux; prints what was tried."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "judge")]

from faults.faults import FAULTS  # noqa: E402 - the programs are those of the tests
from faults.programs import PROGRAMS, Program  # noqa: E402 - as above


def main() -> int:
    """Hurt the programs, as many at once as there are cores; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kills",
        type=int,
        default=10,
        metavar="N",
        help="how often each program is killed; other faults hurt it a tenth as often",
    )
    parser.add_argument("--seed", type=int, default=None, help="of the random moments; printed")
    parser.add_argument("--only", metavar="PROGRAM", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--fault", choices=FAULTS, help="only this fault")
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.only is not None:
        chosen = next(program for program in PROGRAMS if program.name == options.only)
        return hurt(chosen, options.kills, seed, list(FAULTS) if options.fault is None else [options.fault])
    print(f"seed {seed}, {options.kills} kills", flush=True)
    # Each program in a process of its own: the endpoint of one must not be copied into the programs of another.
    again = [sys.executable, "-m", "faults", "--kills", str(options.kills), "--seed", str(seed)]
    again += [] if options.fault is None else ["--fault", options.fault]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = list(pool.map(lambda program: subprocess.call([*again, "--only", program.name]), PROGRAMS))
    return max(codes)


def hurt(chosen: type[Program], kills: int, seed: int, faults: list[str]) -> int:
    """Hurt one program with some faults; return the exit status."""
    status = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        program = chosen(Path(folder))
        for name in faults:
            start = time.monotonic()
            try:
                rounds = kills if name == "kill -9" else max(1, kills // 10)
                count = FAULTS[name](program, rounds, random.Random(f"{seed} {name}"))
                result = f"{count} times"
            except AssertionError as error:
                status, result = 1, f"FAILED: {error}"
            finally:
                program.wait_for_children()
            print(f"{program.name:16} {name:17} {result}, {time.monotonic() - start:.0f} s", flush=True)
        program.starter.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
