"""Print how large the project is: code lines (without comments, docstrings and blank lines), files, words of docs."""

import ast
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """Count the lines that hold code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def show(name: str, folders: Iterable[Path]) -> None:
    """Print the code lines and files of these folders."""
    files = [path for folder in folders for path in folder.rglob("*.py")]
    lines = sum(code_lines(path.read_text(encoding="utf-8")) for path in files)
    print(f"{name:10} {lines:7,} code lines in {len(files)} files")


show("core", [ROOT / "src"])
show("adapters", ROOT.glob("adapters/*/src"))
show("tests", [ROOT / "tests", *ROOT.glob("adapters/*/tests")])
pages = sorted((ROOT / "docs").rglob("*.md"))
words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
print(f"{'docs':10} {words:7,} words in {len(pages)} pages")
interface = (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines()
names = {name for line in interface for name in line.partition(":")[2].split()}
print(f"{'public':10} {len(names):7,} names")
