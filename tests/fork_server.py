"""Process that runs Python programs in forks of itself, so that each finds toolgrade and its dependencies imported.

`python tests/fork_server.py FD` imports them and takes requests from the socket FD: JSON with `arguments`, `folder` and
`environment`, and the descriptors of standard input, output and error. It answers with the exit code. More arguments
are modules to import, too, if they are installed.
"""

import gc
import json
import os
import pkgutil
import runpy
import socket
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

LARGEST_REQUEST = 1 << 20


def serve(connection: socket.socket) -> dict[str, Any] | None:
    """Run requests one at a time. Returns None at the end, and in each fork the request that it is to run."""
    while True:
        message, streams, _, _ = socket.recv_fds(connection, LARGEST_REQUEST, 3)
        if not message:
            return None
        child = os.fork()
        if child == 0:
            for target, stream in enumerate(streams):
                os.dup2(stream, target)
                os.close(stream)
            request: dict[str, Any] = json.loads(message)
            return request
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def run(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run `[-W FILTER]... -m MODULE ...` or `[-W FILTER]... SCRIPT ...` as the interpreter does."""
    while arguments[0] == "-W":
        _, option, *arguments = arguments
        warnings.filterwarnings(*parse_warning_filter(option, escape=True))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.reconfigure(encoding=environment["PYTHONIOENCODING"])
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = folder
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))  # noqa: PTH100, PTH120 - as the interpreter does
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    import pytest  # noqa: F401
    from _pytest.config import parse_warning_filter

    import toolgrade

    for module in pkgutil.walk_packages(toolgrade.__path__, "toolgrade."):
        # pytest imports its plugins itself, as it rewrites their assertions.
        if module.name not in {"toolgrade.pytest_plugin", "toolgrade.cli.__main__"}:
            import_module(module.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sys.argv[2:]:
            with suppress(ImportError):
                import_module(name)
    gc.freeze()  # so that a fork does not look through all of this when it ends, which takes ten times as long
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        task = serve(requests)
    if task is not None:
        run(**task)
