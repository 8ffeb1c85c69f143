"""Score cases with another library in its environment: `worker.py MODULE JOB ANSWER`.

The job is a JSON list of cases, the answer a JSON object: the version, and by the name of each scorer the score of each
case, or the error in its place. No connection to another machine can be made from here.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

LOCAL = ("127.0.0.1", "::1", "localhost")


def refuse_network(event: str, args: tuple[Any, ...]) -> None:
    """Raise if a socket is about to leave this machine, so that no data is sent."""
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in {"socket.connect", "socket.sendto"} and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if host not in (None, *LOCAL):
        message = f"{event} to {host!r}: nothing is sent from here"
        raise PermissionError(message)


def main(module: str, job: str, answer: str) -> None:
    """Score every case with every scorer of the module."""
    sys.addaudithook(refuse_network)
    peer = importlib.import_module(module)
    cases = json.loads(Path(job).read_text(encoding="utf-8"))
    scores: dict[str, list[float | str]] = {}
    for name, score in peer.scorers().items():
        scores[name] = []
        for case in cases:
            try:
                scores[name].append(score(case))
            except Exception as error:  # noqa: BLE001 - counted as not measured, and told
                scores[name].append(f"{type(error).__name__}: {error}"[:200])
    Path(answer).write_text(json.dumps({"version": peer.VERSION, "scores": scores}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
