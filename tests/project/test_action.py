"""The GitHub Action: its steps run with the variables of a runner, and no input is run as a script."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fake_github import TOKEN, FakeGitHub
from processes import COMMAND, ROOT, environment, write_program

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed here")
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")

RUNS = [
    {"id": "refund", "tools_called": [{"name": "refund"}]},
    {"id": "look", "tools_called": [{"name": "find"}]},
]
GOLDENS = [
    {"id": "refund", "input": "Refund it.", "expected_tools": [{"name": "refund"}]},
    {"id": "look", "input": "Where is it?", "expected_tools": [{"name": "find"}]},
]


class Outcome(NamedTuple):
    """What a use of the action did."""

    passed: bool
    log: str
    summary: str
    artifact: Path | None
    commands: list[str]
    """The lines of the log that GitHub obeys."""


class Runner:
    """Runs the scripts of the action in order, with real commands; steps that use other actions are left out."""

    def __init__(self, folder: Path, github: FakeGitHub) -> None:
        self.github, self.event = github, folder / "event.json"
        self.workspace, self.temp = folder / "workspace", folder / "temp"
        for place in (self.workspace, self.temp, folder / "bin"):
            place.mkdir()
        self.bin = folder / "bin"
        self.inherited = write_program(self.bin / "toolgrade", *COMMAND) + write_program(self.bin / "python")

    def write(self, name: str, *values: object) -> None:
        """Write a file of JSON Lines into the workspace."""
        path = self.workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")

    def use(self, *, base: str = "", **inputs: str) -> Outcome:
        """Use the action with these inputs; `base` is the base branch of a pull request."""
        values = {name: entry["default"] for name, entry in ACTION["inputs"].items()}
        values |= {name.replace("_", "-"): value for name, value in inputs.items()}
        outputs: dict[str, dict[str, str]] = {}
        summary = self.temp / "summary.md"
        summary.write_text("", encoding="utf-8")
        log, passed = "", True
        for step in STEPS:
            if "run" not in step or (step["id"] == "report" and not outputs["measure"].get("results")):
                continue
            code, text, outputs[step["id"]] = self._run(step, values, outputs, summary, base)
            log += text
            passed = passed and not code
            if code:
                break
        folder = outputs["prepare"].get("folder")
        return Outcome(
            passed=passed,
            log=log,
            summary=summary.read_text(encoding="utf-8"),
            artifact=None if folder is None else Path(folder),
            commands=[line for line in log.splitlines() if line.startswith("::")],
        )

    def _run(
        self,
        step: dict[str, Any],
        inputs: dict[str, str],
        outputs: dict[str, dict[str, str]],
        summary: Path,
        base: str,
    ) -> tuple[int, str, dict[str, str]]:
        """Run one script as `shell: bash` does, and return its exit code, its log and its outputs."""

        def value_of(match: re.Match[str]) -> str:
            kind, *names = match[1].split(".")
            if kind == "github":
                return {"token": TOKEN}[names[0]]
            return inputs[names[0]] if kind == "inputs" else outputs.get(names[0], {}).get(names[2], "")

        expression = re.compile(r"\$\{\{ ([\w.-]+) \}\}")
        settings = {name: expression.sub(value_of, text) for name, text in step["env"].items()}
        folder = self.workspace / expression.sub(value_of, step.get("working-directory", "."))
        target = self.temp / f"output-{step['id']}"
        target.write_text("", encoding="utf-8")
        variables = environment(
            **{**self.github.environment(self.event), "GITHUB_TOKEN": "", **settings},
            PATH=f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            GITHUB_OUTPUT=str(target),
            GITHUB_STEP_SUMMARY=str(summary),
            GITHUB_WORKSPACE=str(self.workspace),
            GITHUB_ACTION_PATH=str(ROOT),
            GITHUB_BASE_REF=base,
            RUNNER_TEMP=str(self.temp),
            PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
            PYTEST_ADDOPTS="-p toolgrade.pytest_plugin -p no:cacheprovider",
        )
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
            pass_fds=self.inherited,
        )
        pairs = [line.partition("=") for line in target.read_text(encoding="utf-8").splitlines()]
        return done.returncode, done.stdout + done.stderr, {name: value for name, _, value in pairs}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner whose workspace has two runs and their goldens."""
    with FakeGitHub() as github:
        runner = Runner(tmp_path, github)
        runner.write("runs.jsonl", *RUNS)
        runner.write("goldens.jsonl", *GOLDENS)
        yield runner


# What it does


def test_runs_that_pass(runner: Runner) -> None:
    """A summary, a report and results, and no annotation."""
    outcome = runner.use(files="runs.jsonl", goldens="goldens.jsonl")

    assert outcome.passed, outcome.log
    assert "`tool_correctness`" in outcome.summary
    assert outcome.commands == []
    assert outcome.artifact is not None
    assert {path.name for path in outcome.artifact.iterdir()} == {"report.html", "results.json", "summary.md"}


def test_failures_are_annotated_at_their_goldens(runner: Runner) -> None:
    """With the line of JSON Lines, and the file of an array; the step fails after everything is written."""
    runner.write("runs.jsonl", RUNS[0], {"id": "look", "tools_called": []})
    outcome = runner.use(files="runs.jsonl", goldens="goldens.jsonl", options="--threshold=1\n--limit=5")

    assert not outcome.passed
    assert outcome.commands == [
        "::error title=toolgrade%3A look,file=goldens.jsonl,line=2::tool_correctness: e1 find: not called"
    ]
    assert "look" in outcome.summary

    (runner.workspace / "goldens.json").write_text(json.dumps(GOLDENS), encoding="utf-8")
    (command,) = runner.use(files="runs.jsonl", goldens="goldens.json").commands
    assert ",file=goldens.json::" in command


def test_tests_are_measured_by_pytest(runner: Runner) -> None:
    """In a folder of the workspace; annotations are at the goldens, or at the test."""
    runner.write("my project/goldens.jsonl", *GOLDENS)
    (runner.workspace / "my project" / "test_agent.py").write_text(
        """
import pytest
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric


@pytest.mark.toolgrade_goldens("goldens.jsonl")
def test_goldens(toolgrade, golden):
    case = LLMTestCase(id=golden.id, tools_called=[ToolCall(name="find")], expected_tools=golden.expected_tools)
    toolgrade(case, [ToolCorrectnessMetric()])


def test_plain(toolgrade):
    toolgrade(LLMTestCase(tools_called=[], expected_tools=[ToolCall(name="a")]), [ToolCorrectnessMetric()])
""",
        encoding="utf-8",
    )
    outcome = runner.use(tests="test_agent.py\n", goldens="goldens.jsonl\n", working_directory="my project")

    assert not outcome.passed
    assert [command.partition("::tool")[0] for command in outcome.commands] == [
        "::error title=toolgrade%3A refund,file=my project/goldens.jsonl,line=1",
        "::error title=toolgrade%3A test_agent.py%3A%3Atest_plain,file=my project/test_agent.py,line=12",
    ]


def test_a_pull_request_is_compared_with_its_base(runner: Runner) -> None:
    """The results of the base branch come from the cache; a regression fails the step only if that is asked for."""
    options = {"files": "runs.jsonl", "goldens": "goldens.jsonl", "options": "--pass-rate=0.5"}
    assert runner.use(**options).passed
    runner.write("runs.jsonl", RUNS[0], {"id": "look", "tools_called": []})

    allowed = runner.use(**options, base="main")
    assert allowed.passed, allowed.log
    assert "## Compared with" in allowed.summary
    assert "- `look` 1 → 0" in allowed.summary
    refused = runner.use(**options, base="main", fail_on_regression="true")
    assert not refused.passed
    assert "failed: " in refused.log

    other = runner.use(**{**options, "options": "--metric=tool-correctness\n--strict"}, base="main")
    assert "Not compared with the earlier results: " in other.summary
    assert "look" in other.summary


def test_unreadable_results_of_the_base_branch_are_named(runner: Runner) -> None:
    """The report is written without them."""
    runner.use(files="runs.jsonl", goldens="goldens.jsonl")
    (runner.temp / "toolgrade-baseline-toolgrade" / "results.json").write_text("{}", encoding="utf-8")
    outcome = runner.use(files="runs.jsonl", goldens="goldens.jsonl", base="main")

    assert outcome.passed, outcome.log
    assert outcome.commands == [
        "::notice title=toolgrade::The results of the base branch cannot be read; the log says why."
    ]
    assert "`tool_correctness`" in outcome.summary
    assert len(runner.github.comments) == 1


def test_a_base_branch_without_results_is_named(runner: Runner) -> None:
    """Nothing is compared then; and only runs without a base branch store what later runs are compared with."""
    baseline = runner.temp / "toolgrade-baseline-toolgrade" / "results.json"
    outcome = runner.use(files="runs.jsonl", goldens="goldens.jsonl", base="main", fail_on_regression="true")

    assert outcome.passed
    assert outcome.commands == [
        "::notice title=toolgrade::The base branch has no results yet, so nothing was compared."
    ]
    assert not baseline.exists()
    runner.use(files="runs.jsonl", goldens="goldens.jsonl")
    assert baseline.is_file()


def test_a_pull_request_has_one_comment(runner: Runner) -> None:
    """With the text of the summary; later runs update it, and no push posts any."""
    options = {"files": "runs.jsonl", "goldens": "goldens.jsonl"}
    runner.use(**options)
    assert runner.github.requests == []

    before = runner.use(**options, base="main")
    assert before.passed, before.log
    runner.write("runs.jsonl", RUNS[0], {"id": "look", "tools_called": []})
    after = runner.use(**options, base="main")
    assert before.summary != after.summary
    (body,) = runner.github.comments.values()
    assert after.summary in body

    runner.github.answers["GET"] = 403, {}, b""
    refused = runner.use(**options, base="main")
    assert (refused.passed, refused.summary) == (after.passed, after.summary)
    (warning,) = (line for line in refused.commands if line.startswith("::warning"))
    assert "No comment was posted: GitHub answered 403; give the job `permissions: pull-requests: write`" in warning

    runner.github.requests.clear()
    runner.use(**options, base="main", comment="false")
    assert runner.github.requests == []
    assert TOKEN not in before.log + after.log + refused.log


def test_what_cannot_be_measured_fails(runner: Runner) -> None:
    """A file that does not exist, with the error in the log and no results."""
    outcome = runner.use(files="nosuch.jsonl")

    assert not outcome.passed
    assert "cannot read nosuch.jsonl" in outcome.log
    assert outcome.summary == ""


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "name the recorded runs with files"),
        ({"files": "a", "tests": "b"}, "files and tests cannot be combined"),
        ({"files": "a", "name": "a b"}, "name must have letters"),
        ({"files": "a", "name": ""}, "name must have letters"),
        ({"files": "a", "name": "../x"}, "name must have letters"),
        ({"files": "a", "compare": "yes"}, "must be true or false"),
        ({"files": "a", "comment": "yes"}, "comment must be true or false"),
        ({"files": "a", "compare": "false", "fail_on_regression": "true"}, "fail-on-regression needs compare"),
    ],
)
def test_wrong_inputs_are_errors(runner: Runner, inputs: dict[str, str], message: str) -> None:
    """They are named before anything is measured."""
    outcome = runner.use(**inputs)

    assert not outcome.passed
    assert len(outcome.commands) == 1
    assert message in outcome.commands[0]


# Injection

HOSTILE = ['"; touch pwned; $(touch pwned) `touch pwned` "', "' && touch pwned | touch pwned '"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, HOSTILE[0]) for name in ("files", "tests", "goldens", "options", "name", "compare")),
        *((name, HOSTILE[1]) for name in ("options", "fail_on_regression", "comment")),
    ],
)
def test_no_input_is_run(runner: Runner, name: str, text: str) -> None:
    """It is a name of a file, a word of the command line, or an error."""
    inputs = {} if name == "tests" else {"files": "runs.jsonl", "goldens": "goldens.jsonl"}
    outcome = runner.use(**{**inputs, name: text})

    assert list(runner.temp.parent.rglob("pwned")) == []
    assert not outcome.passed


def test_recorded_texts_are_no_commands(runner: Runner) -> None:
    """Names of cases and of tools that look like workflow commands do not become any."""
    hostile = "x\n::error file=a::b\n::set-output name=c::d%0A::warning::e"
    runner.write("runs.jsonl", {"id": hostile, "tools_called": [{"name": hostile}]})
    runner.write("goldens.jsonl", {"id": hostile, "input": "q", "expected_tools": [{"name": f"y{hostile}"}]})
    outcome = runner.use(files="runs.jsonl", goldens="goldens.jsonl")

    assert len(outcome.commands) == 1
    assert re.fullmatch(
        r"::error title=[^:,]*%250A[^:,]*,file=goldens.jsonl,line=1::[^%]*(%25)?.*", outcome.commands[0]
    )


def test_scripts_have_no_expressions() -> None:
    """Whatever an input holds, it is not part of a script; its variables are inputs, outputs of steps, or the token."""
    scripts = [step for step in STEPS if "run" in step]

    assert len(scripts) >= 4
    for step in scripts:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        assert ("GITHUB_TOKEN" in step["env"]) is (step["id"] == "report")
        for value in step["env"].values():
            expression = r"\$\{\{ (inputs\.[\w-]+|steps\.\w+\.outputs\.\w+|github\.token) \}\}(/[\w.]+)?"
            assert re.fullmatch(expression, value)
            for name in re.findall(r"inputs\.([\w-]+)", value):
                assert name in ACTION["inputs"]


# The page


def test_the_page_has_all_inputs() -> None:
    """In its table; and the workflow that it shows is valid, pinned, and uses inputs that exist."""
    table = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    whole, step = (yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    job = whole["jobs"]["evals"]
    uses = [one["uses"] for one in job["steps"] if "uses" in one]

    assert table == list(ACTION["inputs"])
    assert whole["permissions"] == {}
    assert job["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", use) for use in uses[:-1])
    assert uses[-1] == step[0]["uses"] == "OWNER/toolgrade@COMMIT"
    assert {*job["steps"][-1]["with"], *step[0]["with"]} <= ACTION["inputs"].keys()
    assert set(ACTION["outputs"]) == {"passed", "results"}
