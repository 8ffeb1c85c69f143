"""The fuzzer finds planted faults, keeps their inputs, and names the command that tries one again."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest
from fuzz import run
from fuzz.__main__ import main
from fuzz.doors import DOORS, Door

from toolgrade.errors import InvalidDataError


def write(chance: random.Random) -> bytes:
    """Write one of two inputs."""
    return chance.choice((b"good", b"bad"))


def refuse(data: bytes) -> None:
    """Refuse one of the inputs with a documented error, and the other one with another."""
    raise InvalidDataError("refused") if data == b"good" else KeyError(data)


def call_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Call the command with arguments."""
    monkeypatch.setattr(sys, "argv", ["fuzz", *arguments])
    return main()


def test_a_fault_is_kept_and_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 1, the input is in the folder, and both printed commands lead to the same fault."""
    monkeypatch.setitem(DOORS, "planted", Door(write, refuse))
    crashes = tmp_path / "crashes"
    seeded = ("--door", "planted", "--seed", "7")

    assert call_main(monkeypatch, *seeded, "--seconds", "0.05", "--crashes", str(crashes)) == 1
    (path,) = crashes.iterdir()
    assert path.read_bytes() == b"bad"
    output = capsys.readouterr()
    assert output.out.startswith("seed 7\n")
    assert f"-m fuzz --door planted --replay {path}" in output.err
    assert call_main(monkeypatch, "--door", "planted", "--replay", str(path)) == 1

    assert call_main(monkeypatch, *seeded, "--seconds", "0.05") == 1
    number = re.search(r"--seed 7 --number (\d+)", capsys.readouterr().err)
    assert number is not None
    assert call_main(monkeypatch, *seeded, "--number", number[1]) == 1


def test_an_input_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a fault; the inputs before and after it are not disturbed."""

    def wait(data: bytes) -> None:
        while data == b"bad":
            pass

    monkeypatch.setattr(run, "HANGING", 0.1)
    assert [run.try_input(Door(write, wait), data).kind.partition(" ")[0] for data in (b"good", b"bad", b"good")] == [
        "",
        "HangError",
        "",
    ]


def test_a_documented_refusal_is_not_a_fault() -> None:
    """Errors of toolgrade are, any other is not."""
    line = refuse.__code__.co_firstlineno + 2
    outcome = run.try_input(Door(write, refuse), b"good")

    assert (outcome.is_refused, outcome.fault) == (True, None)
    assert run.try_input(Door(write, refuse), b"bad").kind == f"KeyError at test_fuzz.py:{line}: b_"
