"""The command `python -m fuzz`; see `fuzz/README.md`."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from fuzz.doors import DOORS
from fuzz.run import Fuzzer, kinds, try_input


def main() -> int:
    """Run the doors, or one input; return 1 if there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Try random inputs at every door of toolgrade.")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for all doors together")
    parser.add_argument("--inputs", type=int, help="inputs of each group of doors, in place of a time")
    parser.add_argument("--seed", type=int, help="seed of all inputs; drawn, and printed, by default")
    parser.add_argument("--door", action="append", choices=list(DOORS), help="a door; all by default")
    parser.add_argument("--crashes", type=Path, help="folder for the inputs with a fault")
    parser.add_argument("--number", type=int, help="try this input of the door and the seed only")
    parser.add_argument("--replay", type=Path, help="try the input in this file only")
    options = parser.parse_args()
    names = options.door or list(DOORS)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    fuzzer = Fuzzer(seed, options.crashes)
    if options.replay is not None or options.number is not None:
        if len(names) > 1:
            parser.error("name the door of the input with --door")
        if options.replay is None and options.seed is None:
            parser.error("name the seed of the input with --seed")
        data = fuzzer.input(names[0], options.number) if options.replay is None else options.replay.read_bytes()
        return _replay(names[0], data)
    print(f"seed {seed}")
    faults = list(kinds(fuzzer.run(names, seconds=options.seconds, inputs=options.inputs)))
    for name, kind in faults:
        print(f"FAULT at the door {name!r}: {kind}", file=sys.stderr)
    return 1 if faults else 0


def _replay(name: str, data: bytes) -> int:
    outcome = try_input(DOORS[name], data)
    if outcome.fault is not None:
        print(f"{outcome.kind}\n{outcome.fault}", file=sys.stderr)
        return 1
    print(f"{'refused' if outcome.is_refused else 'read'} in {outcome.seconds:.3f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
