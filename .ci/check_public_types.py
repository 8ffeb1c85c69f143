"""Checks that the type of every public name is fully known, by the report of `pyright --verifytypes` on standard input.

pyright counts each module without a leading underscore as public; here only the names in tests/public_api.txt are.
"""

import json
import sys
from pathlib import Path

LIST = Path(__file__).parents[1] / "tests" / "public_api.txt"


def main() -> int:
    """Print every public symbol whose type is not fully known; return the exit status."""
    public = {name for line in LIST.read_text(encoding="utf-8").splitlines() for name in line.partition(":")[2].split()}
    report = json.load(sys.stdin)["typeCompleteness"]
    modules = {module["name"] for module in report["modules"]}
    problems = 0
    for symbol in report["symbols"]:
        parts = symbol["name"].split(".")
        if parts[1] == "cli":  # commands, some of which have the name of a public function
            continue
        depth = max((size for size in range(len(parts)) if ".".join(parts[:size]) in modules), default=0)
        is_known = symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]
        if parts[depth] in public and not is_known:
            problems += 1
            sys.stderr.write(f"{symbol['name']}: its type is not fully known\n")
    sys.stdout.write(f"checked {len(public)} public names: {problems or 'no'} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
