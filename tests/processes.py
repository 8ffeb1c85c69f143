"""What tests of whole programs share: running one as its user would, and comparing what it prints with a golden file.

`TOOLGRADE_UPDATE_GOLDEN=1` writes the golden files anew; the difference is then to be read like any other change.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import toolgrade

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden"
COMMAND = ("-m", "toolgrade.cli")
FRAMEWORKS = (
    *("toolgrade_langchain._replay", "toolgrade_llama_index._replay", "toolgrade_openai_agents._replay"),
    *("langchain.agents", "llama_index.core.agent.workflow", "agents", "mcp"),
)
#: pytest loads the plugin of toolgrade and no other one that is installed here.
PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "toolgrade.pytest_plugin", "PYTEST_ADDOPTS": ""}

#: Begins a program that is going to be interrupted; shells have what they run in the background ignore that.
HEEDS_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"

#: Settings of the user and of the machine that would change the output of a program; pytest cuts no line where `CI` or
#: `BUILD_NUMBER` is set.
_PERSONAL = (
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM", "PYTHONWARNINGS"),
    *("CI", "BUILD_NUMBER"),
)


class Finished(NamedTuple):
    """A program that has ended."""

    code: int
    out: str
    err: str


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of a program that imports the tested toolgrade from any folder."""
    inherited = {name: value for name, value in os.environ.items() if name not in _PERSONAL}
    paths = [str(Path(toolgrade.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in paths if path),
        "PYTHONIOENCODING": "utf-8",
        **settings,
    }


def run_python(
    arguments: Sequence[str],
    folder: Path,
    *,
    stdin: bytes = b"",
    settings: dict[str, str] | None = None,
    frameworks: bool = False,
) -> Finished:
    """Runs Python in a folder, warnings being errors, and waits for its end; it has a pipe wherever it looks.

    Modules and scripts run in a fork of a process that has imported toolgrade, which takes a fraction of the time; with
    `frameworks`, it has imported those, too, as whatever opens a tape does. `-c` runs in an interpreter of its own.
    """
    settings = settings or {}
    if sys.platform == "linux" and arguments[0] != "-c":
        server = _fork_server(*FRAMEWORKS if frameworks else ())
        return _run_in_fork(server, arguments, folder, stdin, environment(**settings))
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        input=stdin,
        env=environment(**settings),
        capture_output=True,
        check=False,
        timeout=120,
    )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


@functools.cache
def _fork_server(*modules: str) -> socket.socket:
    """Start the server of this process with these modules; return its socket. It ends when the socket is closed."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        server = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "error",
                str(Path(__file__).with_name("fork_server.py")),
                str(far.fileno()),
                *modules,
            ],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[far.fileno()],
        )
    atexit.register(server.communicate)
    atexit.register(near.close)
    near.settimeout(120)
    return near


def _run_in_fork(
    server: socket.socket, arguments: Sequence[str], folder: Path, stdin: bytes, variables: dict[str, str]
) -> Finished:
    """Run a program in a fork of the server."""
    request = {"arguments": [*arguments], "folder": str(folder.resolve()), "environment": variables}
    pipes = [os.pipe() for _ in range(3)]
    (input_end, input_start), (output_end, output_start), (error_end, error_start) = pipes
    socket.send_fds(server, [json.dumps(request).encode()], [input_end, output_start, error_start])
    for descriptor in (input_end, output_start, error_start):
        os.close(descriptor)
    with ThreadPoolExecutor(2) as threads, os.fdopen(output_end, "rb") as output, os.fdopen(error_end, "rb") as error:
        texts = [threads.submit(stream.read) for stream in (output, error)]
        with contextlib.suppress(BrokenPipeError), os.fdopen(input_start, "wb") as data:
            data.write(stdin)
        code = int(server.recv(100))
        return Finished(code, *(text.result().decode() for text in texts))


def write_program(path: Path, *arguments: str) -> list[int]:
    """Write a program that runs Python with these and its own arguments; return the descriptors that it inherits."""
    command, descriptors = [sys.executable], []
    if sys.platform == "linux":
        descriptors = [_fork_server().fileno()]
        command += ["-IS", str(Path(__file__).with_name("fork_client.py")), str(descriptors[0])]
    path.write_text(f'#!/bin/sh\nexec {shlex.join([*command, *arguments])} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return descriptors


def run_pytest(folder: Path, *arguments: str, frameworks: bool = False, **settings: str) -> Finished:
    """Run pytest in a folder with the plugin of toolgrade alone, and without CI variables."""
    command = ["-m", "pytest", "-p", "no:cacheprovider", "--no-header", *arguments]
    return run_python(command, folder, settings={**PLUGINS, "CI": "", **settings}, frameworks=frameworks)


def toolgrade_score(*arguments: str, folder: Path, stdin: bytes = b"") -> Finished:
    """Runs `toolgrade score` in a folder."""
    return run_python([*COMMAND, "score", *arguments], folder, stdin=stdin)


def without_times(text: str) -> dict[str, Any]:
    """Return a JSON report without times and durations."""
    plain: dict[str, Any] = json.loads(text)
    assert plain.pop("about").keys() == {"toolgrade", "python", "started_at", "seconds"}
    return plain


def assert_golden(name: str, text: str) -> None:
    """Compares a text with the golden file of that name, in which it is DATE-TODAY and a scripted run takes 0.0 s."""
    path = GOLDEN / name
    for day in (datetime.now(timezone.utc), datetime.now(timezone.utc) - timedelta(minutes=10)):  # it may be midnight
        text = text.replace(day.date().isoformat(), "DATE-TODAY")
    text = re.sub(r"\btime \d\.\d s a case", "time 0.0 s a case", text)
    if os.environ.get("TOOLGRADE_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8")


def assert_section(path: Path, text: str, what: str = "") -> None:
    """Compares a text with the part of a page that tests write, which stands between two comments."""
    begin, end = f"<!-- {what}written by the tests -->\n", "\n<!-- to here -->"
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    written, _, after = rest.partition(end)
    if os.environ.get("TOOLGRADE_UPDATE_GOLDEN") == "1":
        path.write_text(before + begin + text + end + after, encoding="utf-8", newline="\n")
        written = text
    assert text == written
