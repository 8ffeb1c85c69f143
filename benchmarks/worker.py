"""Times one library in its environment: `python worker.py peers.MODULE MODE CASES.json`.

Each line of the standard input names cases to go through once more; the answer is the processor time of one case in
seconds, the making of the library's objects included. What the library prints is discarded.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path

LEAST_SECONDS = 0.1
"""The shortest round: few and small cases are gone through again."""


def main() -> None:
    """Answer each line until there is no more."""
    module, mode, path = sys.argv[1:]
    cases = json.loads(Path(path).read_text(encoding="utf-8"))
    answers = os.dup(1)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        library = importlib.import_module(module)
        os.write(answers, f"{library.VERSION}\n".encode())
        score = library.scorer(mode)
        for line in sys.stdin:
            gc.collect()
            gc.freeze()  # the garbage collector stays on, but need not walk through what was there before
            count, start = 0, time.process_time()
            while time.process_time() - start < LEAST_SECONDS:
                for case in cases[line.strip()]:
                    score(case)
                count += len(cases[line.strip()])
            os.write(answers, f"{(time.process_time() - start) / count}\n".encode())


if __name__ == "__main__":
    main()
