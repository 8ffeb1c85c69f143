"""`toolgrade init`: what it writes runs at once, for each framework, and nothing is overwritten."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_runner import RUNNER
from processes import COMMAND, Finished, environment, run_pytest
from toolgrade.cli import init
from toolgrade.cli.main import main

NAMES = ("evals/test_agent.py", "evals/goldens.jsonl", "evals/tapes/agent.json", ".github/workflows/toolgrade.yml")
PLACEHOLDER = "git+https://replace-this.invalid/toolgrade"
INSTALLED = "git+https://git.example/toolgrade@a1b2"
PACKAGES = {
    "langchain": ("langchain", "toolgrade_langchain"),
    "llama-index": ("llama_index", "toolgrade_llama_index"),
    "openai-agents": ("agents", "toolgrade_openai_agents"),
    "python": (),
}


def gate(folder: Path, *arguments: str) -> Finished:
    """Run the gate as its user would: warnings of the frameworks are not errors."""
    return run_pytest(folder, "-W", "default", *arguments, frameworks=True, CI="true")


def contents(folder: Path) -> dict[str, str]:
    """Return all files of a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files}


def installed_by(workflow: str) -> list[str]:
    """Return the arguments of pip in a workflow."""
    (step,) = re.findall(r"- run: pip install (.*)", workflow)
    return shlex.split(step)


@pytest.mark.parametrize("framework", PACKAGES)
def test_the_gate_runs_at_once(tmp_path: Path, framework: str) -> None:
    """It passes without its tools; a copy with another expectation fails, so it measures what the agent does."""
    for package in PACKAGES[framework]:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed here")
    assert RUNNER.invoke(main, ["init", str(tmp_path), "--framework", framework]).exit_code == 0
    code = (tmp_path / "evals" / "test_agent.py").read_text(encoding="utf-8")
    code, tools = re.subn(r'return f"(Order|{amount})', r'raise AssertionError("it ran"); f"\1', code)
    assert tools == 2
    (tmp_path / "evals" / "test_agent.py").write_text(code, encoding="utf-8")
    changed = shutil.copytree(tmp_path / "evals", tmp_path / "changed")
    goldens = changed / "goldens.jsonl"
    goldens.write_text(goldens.read_text(encoding="utf-8").replace('"amount": 20', '"amount": 21'), encoding="utf-8")
    done = gate(tmp_path, "--import-mode=importlib", "evals", "changed")

    assert (done.code, done.err) == (1, ""), done.out
    assert "1 failed, 3 passed" in done.out
    assert re.search("^FAILED changed/", done.out, re.MULTILINE)
    assert "$.input_parameters.amount expected 21, called with 20" in done.out


@pytest.mark.parametrize("framework", PACKAGES)
def test_what_it_writes(tmp_path: Path, framework: str) -> None:
    """Four files, and the command that runs them; the workflow installs what the gate imports."""
    folder = tmp_path / "my project"
    result = RUNNER.invoke(main, ["init", str(folder), "--framework", framework])
    files = contents(folder)

    assert sorted(files) == sorted(NAMES)
    assert [line for line in result.stdout.splitlines() if line.startswith("wrote ")] == [
        f"wrote {folder / name}" for name in NAMES
    ]
    assert f"  cd '{folder}' && python -m pytest evals\n" in result.stdout
    assert len([json.loads(line) for line in files["evals/goldens.jsonl"].splitlines()]) == 2
    imported = set(re.findall(r"^(?:from|import) (\w+)", files["evals/test_agent.py"], re.MULTILINE))
    packages = {argument.partition(" @ ")[0] for argument in installed_by(files[NAMES[-1]])}
    assert {package.replace("-", "_") for package in packages} >= {
        name for name in imported if name.startswith("toolgrade") or name in {"pytest", "langchain"}
    }


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """If one of the files exists, even as a link to nowhere, none is written."""
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "goldens.jsonl").symlink_to(tmp_path / "elsewhere")
    result = RUNNER.invoke(main, ["init", str(tmp_path), "--framework", "python"])

    assert result.exit_code == 2
    assert (
        "exists already and is not overwritten; move it, or name another FOLDER; nothing was written" in result.stderr
    )
    assert contents(tmp_path) == {}

    (tmp_path / "evals" / "goldens.jsonl").unlink()
    assert RUNNER.invoke(main, ["init", str(tmp_path), "--framework", "python"]).exit_code == 0
    before = contents(tmp_path)
    again = RUNNER.invoke(main, ["init", str(tmp_path), "--framework", "langchain"])
    assert again.exit_code == 2
    assert all(name in again.stderr for name in NAMES)
    assert "exist already and are not overwritten; move them, or name another FOLDER" in again.stderr
    assert contents(tmp_path) == before


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """In one line."""
    (tmp_path / "evals").write_text("a file", encoding="utf-8")
    result = RUNNER.invoke(main, ["init", str(tmp_path), "--framework", "python"])

    assert result.exit_code == 2
    assert re.fullmatch(r"error: cannot write .*test_agent.py: .*\n", result.stderr)


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        ({}, "plain Python functions"),
        ({"langchain": 1}, "plain Python functions"),  # without its adapter
        ({"langchain": 0, "toolgrade-langchain": 0}, "plain Python functions"),  # without `create_agent`
        ({"langchain": 1, "toolgrade-langchain": 0, "openai-agents": 0, "toolgrade-openai-agents": 0}, "langchain"),
        ({"llama-index-core": 0, "toolgrade-llama-index": 0}, "llama-index"),
        ({"openai-agents": 0, "toolgrade-openai-agents": 0}, "openai-agents"),
    ],
)
def test_the_framework_is_the_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: dict[str, int], chosen: str
) -> None:
    """With its adapter; what the gate still needs is in the command, and nothing of ours comes from an index."""
    monkeypatch.setattr(init, "_is_installed", installed.__contains__)
    monkeypatch.setattr(init, "_git_address", lambda: PLACEHOLDER)
    monkeypatch.setattr(init, "_major_version", lambda name: installed.get(name, -1))
    monkeypatch.chdir(tmp_path)
    result = RUNNER.invoke(main, ["init"])

    assert f"The gate is for {chosen}." in result.stdout
    assert f"  pip install 'toolgrade @ {PLACEHOLDER}' pytest\n  python -m pytest evals\n" in result.stdout


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        (None, PLACEHOLDER),
        ({"url": "file:///home/me/toolgrade", "dir_info": {"editable": True}}, PLACEHOLDER),
        ({"url": "https://git.example/toolgrade", "vcs_info": {"vcs": "git", "commit_id": "a1b2"}}, INSTALLED),
    ],
)
def test_toolgrade_comes_from_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, object] | None, address: str
) -> None:
    """From the commit that is installed here, adapters from their folder of it; else from an address pip refuses."""
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(init, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    result = RUNNER.invoke(main, ["init", str(tmp_path), "--framework", "openai-agents"])

    assert installed_by(contents(tmp_path)[NAMES[-1]]) == [
        f"toolgrade @ {address}",
        "pytest",
        f"toolgrade-openai-agents @ {address}#subdirectory=adapters/openai-agents",
        "openai-agents",
    ]
    assert address in result.stdout


def test_the_steps_of_the_workflow_run(tmp_path: Path) -> None:
    """After the installation, with the variables of a runner; the summary has the table of the report."""
    RUNNER.invoke(main, ["init", str(tmp_path), "--framework", "python"])
    text = (tmp_path / NAMES[-1]).read_text(encoding="utf-8")
    uses = re.findall(r"uses: (.*)", text)
    (report,) = re.findall(r"run: \|\n((?: {10}.*\n)+)", text)

    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v[\d.]+", use) for use in uses)
    assert "\npermissions: {}\n" in text
    assert "pytest evals --toolgrade-report=toolgrade.json" in text
    assert gate(tmp_path, "evals", "--toolgrade-report=toolgrade.json").code == 0
    summary = tmp_path / "step-summary.md"
    commands = report.replace("toolgrade report", f'"$PYTHON" {" ".join(COMMAND)} report')
    subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=tmp_path,
        env=environment(GITHUB_STEP_SUMMARY=str(summary), PYTHON=sys.executable),
        check=True,
    )
    assert "tool_correctness" in summary.read_text(encoding="utf-8")
    assert (tmp_path / "toolgrade.html").is_file()
