"""Ray in particular: a cluster that runs already, one that does not, and no Ray at all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import PATHS, need
from processes import COMMAND, run_python
from scale_files import metrics, without_start, write_lines
from toolgrade.errors import ConfigurationError, MissingPackageError
from toolgrade.scale import score_files

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}


def test_missing_ray_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    write_lines(tmp_path / "a", 3)

    with pytest.raises(MissingPackageError, match=r"toolgrade\[ray\]"):
        score_files([tmp_path / "a"], metrics(), engine="ray")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}", "somewhere"])
def test_missing_cluster_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Ray itself would retry for minutes; the message names the setting."""
    need("ray")
    monkeypatch.setenv("RAY_ADDRESS", address.format(port=free_port()))
    write_lines(tmp_path / "a", 3)

    with pytest.raises(ConfigurationError, match="Ray cannot be reached at RAY_ADDRESS="):
        score_files([tmp_path / "a"], metrics(), engine="ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of this machine that asks for a token; it ends with these tests."""
    need("ray")
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("ray")),
        "start",
        "--head",
        "--block",
        f"--port={port}",
        "--num-cpus=2",
    ]
    command += [
        "--num-cpus=2",
        "--include-dashboard=false",
        "--disable-usage-stats",
        "--min-worker-port=0",
        "--max-worker-port=0",
    ]
    settings = {**os.environ, **TOKEN, "PYTHONPATH": PATHS}
    head = subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert head.stdout is not None
    lines: list[str] = []
    for line in head.stdout:
        lines.append(line)
        if "Ray runtime started" in line:
            break
    assert "Ray runtime started" in "".join(lines), "".join(lines)
    yield f"127.0.0.1:{port}"
    head.send_signal(signal.SIGTERM)
    head.communicate(timeout=60)


@pytest.mark.skipif(os.name != "posix", reason="Ray's clusters are of POSIX")
def test_cluster_is_used_and_keeps_running(tmp_path: Path, cluster: str) -> None:
    """`RAY_ADDRESS` is enough; only the result is printed, and the cluster stays up."""
    write_lines(tmp_path / "a", 60, 1)
    score_files([tmp_path / "a"], metrics(), results=tmp_path / "s", processes=1)
    settings = {"PYTHONPATH": PATHS, "RAY_ADDRESS": cluster, **TOKEN}
    chosen = ["--metric", "tool-correctness", "--metric", "tool-efficiency", "--params", "input", "--max-calls", "2"]

    for name in ("r", "t"):
        arguments = ["score", "a", "--results", name, "--engine", "ray", *chosen]
        done = run_python(["-W", "ignore", *COMMAND, *arguments], tmp_path, settings=settings)
        assert (done.code, done.err) == (1, "")
        assert done.out.startswith("60 cases of 1 file\n")
        assert without_start(tmp_path / name) == without_start(tmp_path / "s")


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
