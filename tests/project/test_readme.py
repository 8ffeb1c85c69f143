"""README and docs pages: their code runs, prints the shown output, and their options exist."""

import asyncio
import importlib
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from processes import COMMAND, GOLDEN, ROOT, run_python
from readme_code import run_page
from toolgrade import Golden, LLMTestCase, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.cli.main import main
from toolgrade.formats.messages.read import FORMATS as MESSAGES
from toolgrade.formats.traces.read import TRACE_FORMATS
from toolgrade.linting.findings import LintKind

README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
SCORING = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
TRACES = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
JUDGE = (ROOT / "docs" / "judge.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
EXPECTATIONS = (ROOT / "docs" / "expectations.md").read_text(encoding="utf-8")
VALIDITY = (ROOT / "docs" / "validity.md").read_text(encoding="utf-8")
COMPARISON = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
COMING_FROM = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
REPORTS = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")


class Block(NamedTuple):
    """A block of code, and where it stands."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [
        Block(match[1], match[2], page[: match.start()].count("\n") + 1)
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ]


BLOCKS = blocks(GUIDE)
PROGRAMS = [
    pytest.param(block, after, id=f"{name} line {block.line}")
    for name, page in (
        ("README.md", README),
        ("docs/guide.md", GUIDE),
        ("docs/metrics.md", METRICS),
        ("docs/judge.md", JUDGE),
        ("docs/coming-from.md", COMING_FROM),
        ("docs/expectations.md", EXPECTATIONS),
        ("docs/live.md", (ROOT / "docs" / "live.md").read_text(encoding="utf-8")),
        ("docs/validity.md", VALIDITY),
        ("docs/comparison.md", COMPARISON),
        ("docs/reports.md", REPORTS),
        ("docs/replay.md", (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")),
        ("docs/settings.md", (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")),
        ("docs/extend.md", (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")),
    )
    for block, after in pairwise(blocks(page))
    if block.language == "python"
]


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_python_blocks_print_the_shown_output(tmp_path: Path, program: Block, output: Block) -> None:
    """As a program in an empty folder, with warnings as errors."""
    for package, module in {"pyarrow": "pyarrow", "deepeval": "deepeval", "mcp": "mcp.server.mcpserver"}.items():
        if re.search(rf"^(from|import) {package}", program.text, re.MULTILINE):
            pytest.importorskip(module, reason=f"{package} is not installed here")
    (tmp_path / "program.py").write_text(program.text, encoding="utf-8")
    done = run_python(["program.py"], tmp_path, frameworks="toolgrade.replay" in program.text)

    assert done.err == ""
    assert done == (0, output.text, "")
    assert output.language == ""


def test_redaction_page_runs() -> None:
    """Its code checks itself; the second program continues the first."""
    names: dict[str, object] = {}
    asyncio.run(run_page(ROOT / "docs" / "redaction.md", names))

    assert {"redactor", "without_mail"} <= names.keys()


def test_the_page_of_trials_resumes_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that resume an evaluation and read an interrupted one run as they stand."""
    monkeypatch.chdir(tmp_path)
    resumes = COMPARISON.partition("## Results files and resuming")[2].partition("\n## ")[0]
    resume, interrupted = re.findall(r"^```py\n(.*?)^```$", resumes, re.MULTILINE | re.DOTALL)

    async def agent(question: str, _: str) -> Run:
        if question == "stop":
            raise KeyboardInterrupt
        return Run(input=question, calls=[])

    names = {"evaluate": evaluate, "agent": agent, "metrics": [ToolCorrectnessMetric()]}
    names["goldens"] = [Golden(input="go", expected_tools=[])]
    exec(resume, names)  # noqa: S102 - a page of this repository
    exec(resume, names)  # noqa: S102
    (tmp_path / "results.jsonl").unlink()
    names["goldens"] = [Golden(input="go", expected_tools=[]), Golden(input="stop", expected_tools=[])]
    exec(interrupted, names)  # noqa: S102

    assert names["report"].interrupted  # type: ignore[attr-defined]


def test_frequent_questions_quote_warnings() -> None:
    """The texts of the table are in the code, so that a search for a warning finds its row."""
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/toolgrade/metrics").rglob("*.py"))
    texts = re.findall(r"^\| `([^`]+)` in a warning \|", page, re.MULTILINE)

    assert len(texts) == 2
    assert [text for text in texts if text not in code] == []


def test_report_excerpt_is_the_demonstrations() -> None:
    """Line by line, it is part of the demonstration's output."""
    (excerpt,) = [block.text for block in BLOCKS if "expected      " in block.text]

    assert excerpt in (GOLDEN / "example-plain_agent.txt").read_text(encoding="utf-8")


def options_of(*commands: str) -> dict[str, click.Parameter]:
    """The options of these commands."""
    context = click.Context(main)
    loaded = [main.get_command(context, name) for name in commands]  # the commands are placeholders until then
    params = [option for command in loaded if command is not None for option in command.params]
    return {name: option for option in params for name in option.opts if name.startswith("--")}


def test_options_of_the_command_exist() -> None:
    """Every option that the guide names, and every value it names for one."""
    options = options_of("score")
    named = re.findall(r"--(?!toolgrade-)[a-z][a-z-]+", GUIDE)  # those of pytest are tested in test_pytest_plugin.py
    (denominators,) = re.findall(r"--denominator ([a-z0-9\\|]+)`", GUIDE)
    choice = options["--denominator"].type

    assert set(named) <= options_of("approve", "score", "convert", "validate", "compare", "report").keys()
    assert {"--params", "--ordered", "--exact", "--denominator", "--threshold", "--pass-rate", "--json"} <= set(named)
    assert isinstance(choice, click.Choice)
    assert denominators.split("\\|") == list(choice.choices)


def test_the_page_of_comparison_names_everything(tmp_path: Path) -> None:
    """All options and allowed differences are in the tables; the commands run in order."""
    options = options_of("compare")
    kinds = options["--allow-different"].type
    commands = re.findall(r"^toolgrade (.*)$", COMPARISON, re.MULTILINE)
    table = "\n".join(line for line in COMPARISON.splitlines() if line.startswith("| `--"))
    for name in ("before.jsonl", "after.jsonl"):
        case = LLMTestCase(id="only", tools_called=[], expected_tools=[], tags=["refund"])
        (tmp_path / name).write_text(case.to_json(), encoding="utf-8")
    for name in ("main.json", "branch.json"):
        run_python([*COMMAND, "score", "after.jsonl", "--json", name], tmp_path)

    assert isinstance(kinds, click.Choice)
    assert set(re.findall(r"--[a-z][a-z-]+", table)) - {"--allow-different"} == options.keys() - {"--allow-different"}
    assert re.findall(r"^\| `([a-z]+)` \|", COMPARISON, re.MULTILINE) == list(kinds.choices)
    assert [run_python([*COMMAND, *command.split()], tmp_path).code for command in commands] == [0] * 4


def test_the_page_of_reports_names_everything(tmp_path: Path) -> None:
    """All options are in the table; the commands run and print what is shown."""
    table = "\n".join(line for line in REPORTS.splitlines() if line.startswith("| `-"))
    case = LLMTestCase(id="only", tools_called=[], expected_tools=[], tags=["refund"])
    (tmp_path / "runs.jsonl").write_text(case.to_json(), encoding="utf-8")
    run_python([*COMMAND, "score", "runs.jsonl", "--results", "monday.jsonl"], tmp_path)
    commands = re.findall(r"^toolgrade (.*)$", REPORTS, re.MULTILINE)
    (totals,) = [block.text for block in blocks(REPORTS) if "flaky:" in block.text]

    options = (options_of("report").keys() - {"--open"}) | {"--results"}
    assert set(re.findall(r"--[a-z][a-z-]+", table)) == options
    codes = [run_python([*COMMAND, *shlex.split(command.partition(" >>")[0])], tmp_path).code for command in commands]
    assert codes == [0] * 4
    assert totals in (GOLDEN / "terminal-trials.txt").read_text(encoding="utf-8")


def test_the_section_of_lint_names_everything() -> None:
    """All options and kinds of findings are in the tables, and no others."""
    section = EXPECTATIONS.partition("## Lint")[2]
    assert set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE)) == options_of("lint").keys()
    assert re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE) == [kind.value for kind in LintKind]


@pytest.mark.parametrize(
    ("page", "folder"),
    [
        (README, ROOT),
        ((ROOT / "SECURITY.md").read_text(encoding="utf-8"), ROOT),
        *((page, ROOT / "docs") for page in (GUIDE, SCORING, METRICS, VALIDITY, COMING_FROM, COMPARISON, REPORTS)),
    ],
    ids=[
        *("README", "SECURITY", "guide", "scoring", "metrics", "validity", "coming-from", "comparison"),
        "reports",
    ],
)
def test_links_are_valid(page: str, folder: Path) -> None:
    """Every relative link is a file of this repository."""
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page) if "://" not in link]

    assert links
    assert [link for link in links if not (folder / link).exists()] == []


def test_every_example_is_listed() -> None:
    """A newcomer finds all of them in the guide's table, and no other."""
    assert set(re.findall(r"\]\(\.\./examples/(\w+)\.py\)", GUIDE)) == {
        path.stem for path in (ROOT / "examples").glob("*.py")
    }


def test_names_for_newcomers_exist() -> None:
    """Whoever comes from another library finds the names of the table of imports."""
    imports = re.findall(r"\| `([\w.]+) import ([^`]+)` \|", COMING_FROM)

    assert [module for module, _ in imports] == ["evalsharp", "gllm_evals"]
    for module, names in imports:
        public = importlib.import_module(f"toolgrade.compat.{module}")
        assert [name for name in names.split(", ") if name not in public.__all__] == []
    row = next(line for line in COMING_FROM.splitlines() if line.startswith("| DeepEval"))
    modules = re.findall(r"`(?:deepeval)?\.(\w+)`", row)
    assert modules == ["test_case", "metrics", "dataset", "tracing", "evaluate", "models", "errors"]
    for module in modules:
        assert importlib.import_module(f"toolgrade.compat.deepeval.{module}").__all__


# docs/formats.md


def test_the_page_of_formats_is_true(tmp_path: Path) -> None:
    """Its program runs, its options exist with the values it names, and it names every format."""
    (program,) = [block.text for block in blocks(FORMATS) if block.language == "python"]
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    options = options_of("convert")
    units, formats = options["--as"].type, options["--from"].type

    assert run_python(["program.py"], tmp_path) == (0, "", "")
    assert set(re.findall(r"--[a-z][a-z-]+", FORMATS)) <= options_of("convert", "score").keys()
    assert isinstance(units, click.Choice)
    assert isinstance(formats, click.Choice)
    assert re.findall(r"^\| `--as (\w+)`", FORMATS, re.MULTILINE) == list(units.choices)
    named = re.findall(r"^\| [^|]+ \| `([a-z-]+)` \|", FORMATS, re.MULTILINE)[: len(MESSAGES)]
    assert (named, list(formats.choices)[1:]) == (list(MESSAGES), [*MESSAGES, *TRACE_FORMATS])


# docs/traces.md


def test_the_page_of_traces_is_true(tmp_path: Path) -> None:
    """Its program runs, its options exist, it names every form of traces, and its warnings are those of the code."""
    program = "".join(block.text for block in blocks(TRACES) if block.language == "python")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/toolgrade/formats").rglob("*.py"))
    warnings = re.findall(
        r"^\| (\w[^|`]+?) \| \w", TRACES.partition("| warning | meaning |")[2].partition("\n\n")[0], re.MULTILINE
    )

    assert run_python(["program.py"], tmp_path) == (0, "", "")
    assert set(re.findall(r"--[a-z][a-z-]+", TRACES)) <= options_of("convert", "score").keys()
    assert re.findall(r"^\| .* \| `([a-z][a-z-]+)` \|$", TRACES, re.MULTILINE) == list(TRACE_FORMATS)
    assert warnings
    assert [text for text in warnings if text.replace("the arguments are", "are") not in code] == []


# docs/scoring.md


def similarity(expected: dict[str, object], called: dict[str, object]) -> float:
    """The score of one call with these arguments."""
    case = LLMTestCase(
        expected_tools=[ToolCall(name="a", input_parameters=expected)],
        tools_called=[ToolCall(name="a", input_parameters=called)],
    )
    return float(ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case))


def test_the_example_of_a_similarity_is_true() -> None:
    """The two objects of the page have the similarity that it says, either way round."""
    pattern = r"Example: `(\{.+?\})` against\s+`(\{.+?\})` .*?: similarity (\d)/(\d)\."
    ((left, right, top, bottom),) = re.findall(pattern, SCORING, re.DOTALL)
    a, b = (ToolCall.from_json(f'{{"name": "a", "args": {text}}}').arguments for text in (left, right))

    assert similarity(a, b) == similarity(b, a) == int(top) / int(bottom)


def test_the_example_of_an_order_is_true() -> None:
    """The page's lists have the ordered score that it says, and the reason names the call that is out of order."""
    ((expected, called, top, bottom),) = re.findall(
        r"E = \[([\w, ]+)\], C = \[([\w, ]+)\] .*?ordered score (\d)/(\d)", SCORING
    )
    case = LLMTestCase(
        expected_tools=[ToolCall(name=name) for name in expected.split(", ")],
        tools_called=[ToolCall(name=name) for name in called.split(", ")],
    )
    result = ToolCorrectnessMetric(should_consider_ordering=True).measure(case)

    assert float(result) == int(top) / int(bottom)
    assert result.passed
    assert "Out of order: expected #3 'W' was called as #2." in str(result.reason)


@pytest.mark.parametrize(
    ("denominator", "score"), [("expected", 2 / 3), ("called", 2 / 4), ("longest", 2 / 4), ("f1", 4 / 7)]
)
def test_the_denominators_of_the_page_are_those_of_the_metric(denominator: str, score: float) -> None:
    """The table names each of them, and its formula holds for w = 2, m = 3, n = 4."""
    formulas = {"expected": "w / m", "called": "w / n", "longest": "w / max(m, n)", "f1": "2w / (m + n)"}
    case = LLMTestCase(
        expected_tools=[ToolCall(name=name) for name in "abc"], tools_called=[ToolCall(name=name) for name in "abxy"]
    )

    assert re.search(rf'^\| `"{denominator}"`.*\| {re.escape(formulas[denominator])} \|', SCORING, re.MULTILINE)
    assert float(ToolCorrectnessMetric(denominator=denominator).measure(case)) == score  # type: ignore[arg-type]


@pytest.mark.parametrize(("expected", "called", "score"), [("", "", 1), ("", "a", 0), ("a", "", 0)])
def test_the_edges_of_the_page_are_those_of_the_metric(expected: str, called: str, score: float) -> None:
    """Nothing expected and nothing called is perfect, exactly one of them is nothing."""
    case = LLMTestCase(
        expected_tools=[ToolCall(name=name) for name in expected], tools_called=[ToolCall(name=name) for name in called]
    )
    sides = " | ".join("`[]`" if not side else "some" for side in (expected, called))

    assert re.search(rf"^\| {re.escape(sides)} \| {score}\b", SCORING, re.MULTILINE)
    assert float(ToolCorrectnessMetric().measure(case)) == score
