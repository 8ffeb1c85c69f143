"""Mutation testing: the share of small changes of the code that the tests of a package notice.

`python .ci/mutants.py PACKAGE COUNT` changes COUNT random places of `src/toolgrade/PACKAGE`, one at a time, by mutmut,
runs the tests of that package on each change, and prints the changes that no test noticed, and the score. It runs in
a copy of the repository, `.ci-venvs/mutants-PACKAGE`, so that the sources stay as they are.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The tests of each package. Mutated functions are called through a wrapper, which takes a deeper stack and more time:
# tests of both are left out, as are tests in processes of their own and names that mutmut cannot pass on to pytest.
TESTS = {
    "matching": [
        "tests/matching",
        "tests/expect",
        "tests/metrics/test_plans.py",
        *(f"tests/laws/test_{name}_laws.py" for name in ("matching", "values", "plan")),
    ],
    "metrics": [
        "tests/metrics",
        *(f"tests/laws/test_{name}_laws.py" for name in ("metric", "call_metric", "calls_only", "calls_only_plan")),
    ],
    "capture": ["tests/capture"],
    "formats/messages": ["tests/formats"],
}
DESELECTED = (
    "not awkward and not stack and not memory and not process and not torn and not hang and not traces and not no_fault"
)

CONFIGURATION = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/toolgrade/{package}/*"]
also_copy = ["fuzz", "docs", "examples"]
pytest_add_cli_args = ["-p", "no:cacheprovider", "-k", "{deselected}"]
pytest_add_cli_args_test_selection = {tests}
do_not_mutate_patterns = ['raise \\w+']
use_git_change_detection = false
timeout_multiplier = 1.5
timeout_constant = 5.0
"""

OUTCOMES = {
    0: "survived",
    1: "killed",
    3: "killed",
    33: "not reached",
}  # by exit code; any other is a time limit or a crash


def copy_repository(target: Path, package: str) -> None:
    """Copy what the tests need, and add mutmut's options to the project file."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ("src", "tests", "fuzz", "docs", "examples"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    options = CONFIGURATION.format(package=package, deselected=DESELECTED, tests=json.dumps(TESTS[package]))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (target / "pyproject.toml").write_text(project + options, encoding="utf-8")


def mutmut(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mutmut in a folder. Its output is a progress bar, and is kept away from the terminal."""
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "mutants"}
    environment.pop("PYTHONPATH", None)
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)


def read_outcomes(folder: Path) -> dict[str, int | None]:
    """Exit code of the tests by mutant; None for a mutant that was not tried."""
    outcomes: dict[str, int | None] = {}
    for path in sorted((folder / "mutants" / "src").rglob("*.meta")):
        outcomes.update(json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"])
    return outcomes


def main(package: str, count: int) -> None:
    """Try random mutants of a package and print the score."""
    folder = ROOT / ".ci-venvs" / f"mutants-{package.replace('/', '-')}"
    copy_repository(folder, package)
    # Writes all mutants and times all tests, then finds no mutant of this name.
    listing = mutmut(folder, "run", "none")
    names = sorted(read_outcomes(folder))
    if not names or "nothing matches" not in listing.stderr:
        sys.exit(f"mutmut failed:\n{listing.stdout[-3000:]}{listing.stderr[-1000:]}")
    chosen = random.Random(0).sample(names, min(count, len(names)))
    run = mutmut(folder, "run", "--max-children", "1", *chosen)
    if run.returncode != 0:
        sys.exit(f"mutmut failed:\n{run.stdout[-3000:]}{run.stderr[-1000:]}")
    codes = read_outcomes(folder)
    tally = Counter(OUTCOMES.get(codes[name], "stopped") for name in chosen)
    for name in sorted(chosen):
        if codes[name] == 0:
            print(mutmut(folder, "show", name).stdout)
    noticed = tally["killed"] + tally["stopped"]
    score = f"{noticed} of {len(chosen)} changes noticed ({noticed / len(chosen):.0%})"
    print(f"{package}: {score}, of {len(names)} possible ones; {dict(tally)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
