"""Run of the program of docs/extend.md for one engine: it must print what `evaluate` says of the same cases."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow
import pyarrow.parquet

from toolgrade import ToolCorrectnessMetric, evaluate

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"
IMPORTS = {"ray": "import ray\n", "spark": "from pyspark", "duckdb": "import duckdb\n", "polars": "import polars\n"}
FILES = 4


def lines() -> list[str]:
    """Return cases of which some pass and some fail, and a line that is not a case."""
    look = {"name": "look"}
    cases = [{"tools_called": [look] * (number % 3), "expected_tools": [look] * 2} for number in range(400)]
    return [*map(json.dumps, cases), '{"tools_called": [7]}']


def program(engine: str) -> str:
    """Return the only program of the page that imports an engine."""
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (text,) = [block for block in blocks if IMPORTS[engine] in block]
    return str(text)


def main(engine: str) -> None:
    """Write the cases, run the program in their folder, and compare the last lines that it prints."""
    cases = lines()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases").mkdir()
        for part in range(FILES):
            table = pyarrow.table({"case": cases[part::FILES]})
            pyarrow.parquet.write_table(table, folder / "cases" / f"{part}.parquet")
        (folder / "cases.jsonl").write_text("\n".join(cases), encoding="utf-8")
        expected = str(evaluate(folder / "cases.jsonl", [ToolCorrectnessMetric()], processes=1, show_progress=False))
        (folder / "program.py").write_text(program(engine), encoding="utf-8")
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    verdict, *_, numbers = expected.splitlines()
    last_lines = done.stdout.splitlines()[-2:]
    # Totals know how many cases were not measured, and neither why nor what goes wrong most often.
    if done.returncode or last_lines[1:] != [numbers] or not verdict.startswith(last_lines[0].removesuffix(".")):
        sys.exit(f"exit status {done.returncode}, expected the last lines {expected!r}, got:\n{done.stdout}")
    print("\n".join(last_lines))


if __name__ == "__main__":
    main(sys.argv[1])
