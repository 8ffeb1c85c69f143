"""toolgrade's metrics as an assertion of promptfoo, run by promptfoo itself on a scripted model.

The variable `TOOLGRADE_PROMPTFOO` names the folder in which npm has installed it; `.ci/live-matrix promptfoo` does so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolgrade import ToolCorrectnessMetric
from toolgrade.testing import AskFor, FakeOpenAI

if "TOOLGRADE_PROMPTFOO" not in os.environ:
    pytest.skip("promptfoo is not installed: .ci/live-matrix promptfoo", allow_module_level=True)

MODULES = Path(os.environ["TOOLGRADE_PROMPTFOO"], "node_modules")
EXAMPLE = Path(__file__).parents[3] / "examples" / "runners" / "promptfoo"
NAME = ToolCorrectnessMetric(evaluation_params=["input_parameters"]).label
RIGHT, WRONG = AskFor("add", {"a": 1, "b": 2}, "c1"), AskFor("add", {"a": 20, "b": 4}, "c2")


def evaluated(config: Path, folder: Path, *replies: Any) -> list[Any]:
    """Return the results that promptfoo writes, one a test; the model gives these replies."""
    with FakeOpenAI(*replies) as server:
        environment = {
            **os.environ,
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": server.base_url,
            "PROMPTFOO_PYTHON": sys.executable,
            "PROMPTFOO_CONFIG_DIR": str(folder / "home"),
            "PROMPTFOO_DISABLE_TELEMETRY": "1",
            "PROMPTFOO_DISABLE_UPDATE": "1",
        }
        program = [str(MODULES / ".bin" / "node"), str(MODULES / "promptfoo" / "dist" / "src" / "entrypoint.js")]
        options = ["--config", str(config), "--output", str(folder / "out.json"), "--no-cache", "--no-table"]
        done = subprocess.run(
            [*program, "eval", *options, "--max-concurrency", "1"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode in (0, 100), done.stdout + done.stderr  # 100: a test failed
    results: list[Any] = json.loads((folder / "out.json").read_text(encoding="utf-8"))["results"]["results"]
    return sorted(results, key=lambda result: result["testIdx"])


def check(results: list[Any]) -> None:
    """The first test passes, the second fails with the score and the reason of the metric."""
    right, wrong = results
    assert (right["success"], right["score"], right["namedScores"]) == (True, 1, {NAME: 1})
    assert (wrong["success"], wrong["score"], wrong["namedScores"]) == (False, 0.5, {NAME: 0.5})
    assert "$.input_parameters.b expected 3, called with 4" in wrong["gradingResult"]["reason"]


def test_the_example_is_scored(tmp_path: Path) -> None:
    """The outputs of the Chat Completions API are calls."""
    check(evaluated(EXAMPLE / "promptfooconfig.yaml", tmp_path, [RIGHT], [WRONG]))


def test_outputs_of_the_responses_api_are_scored(tmp_path: Path) -> None:
    """They are texts with calls."""
    text = (EXAMPLE / "promptfooconfig.yaml").read_text(encoding="utf-8")
    path = f"file://{EXAMPLE / 'toolgrade_assert.py'}"
    (tmp_path / "promptfooconfig.yaml").write_text(
        text.replace("openai:chat:", "openai:responses:").replace("file://toolgrade_assert.py", path), encoding="utf-8"
    )

    check(evaluated(tmp_path / "promptfooconfig.yaml", tmp_path, [RIGHT], [WRONG]))


def test_a_test_without_expected_calls_fails(tmp_path: Path) -> None:
    """Nothing was measured, so there is no named score."""
    config = {
        "prompts": ["Go."],
        "providers": ["openai:chat:m-1"],
        "tests": [{"assert": [{"type": "python", "value": f"file://{EXAMPLE / 'toolgrade_assert.py'}"}]}],
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (result,) = evaluated(tmp_path / "config.json", tmp_path, "Done.")

    assert (result["success"], result["namedScores"]) == (False, {})
    assert result["gradingResult"]["reason"].startswith("Not measured: MissingExpectationError")
