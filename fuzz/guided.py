"""Coverage-guided fuzzing of one door with Atheris: `python -m fuzz.guided DOOR [options of libFuzzer]`.

Atheris chooses bytes by the code that they reach, and the bytes make the decisions of the door's writer. So an input
resembles valid data, as a random one does, and a small change of the bytes is a small change of the input.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["toolgrade"]):
    from fuzz.doors import DOORS
    from fuzz.run import try_input


class Decisions(random.Random):
    """Random numbers that are read from bytes, and zeros after their end."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = data
        self._next = 0

    def getrandbits(self, k: int, /) -> int:
        """Return a number of `k` bits."""
        length = (k + 7) // 8
        piece = self._data[self._next : self._next + length]
        self._next += length
        return int.from_bytes(piece, "big") >> max(0, len(piece) * 8 - k)

    def random(self) -> float:
        """Return a number from 0 to 1, without 1."""
        return self.getrandbits(16) / 2**16


def main() -> None:
    """Run a door until libFuzzer is stopped, or a fault is found: then its input is written and the command printed."""
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in DOORS:
        sys.exit(f"the first argument must be a door, got {name!r}; choose one of: {', '.join(DOORS)}")
    door = DOORS[name]

    def try_one(decisions: bytes) -> None:
        data = door.write(Decisions(decisions))
        outcome = try_input(door, data)
        if outcome.fault is not None:
            with tempfile.NamedTemporaryFile(prefix="fault-", suffix=".input", dir=Path.cwd(), delete=False) as file:
                file.write(data)
            print(f"{outcome.kind}\n{outcome.fault}\nReplay it: python -m fuzz --door '{name}' --replay {file.name}")
            raise RuntimeError(outcome.kind)

    atheris.Setup(sys.argv, try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
