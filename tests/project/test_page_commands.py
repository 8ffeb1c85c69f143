"""The commands of pages that no other test runs: each runs as it stands, in the order of its page.

They run in a folder with files of the names that the pages use. Not here: commands that start a browser or send
something; tests of these features run them.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from processes import COMMAND, PLUGINS, ROOT, Finished, run_python
from toolgrade import Golden, LLMTestCase, Run, ToolCall, ToolSpec, write_cases
from tracing import Script, ScriptedCall, Step, otlp

#: The pages, and what their readers did before.
PAGES = {
    "expectations": [],
    "formats": [],
    "guide": [
        "toolgrade score runs.jsonl --results results.jsonl",
        "toolgrade score runs.jsonl --json before.json",
        "toolgrade score runs.jsonl --json after.json",
    ],
    "live": [],
    "pytest": [],
    "traces": [],
}
SKIPPED = re.compile(r"--open")
GOLDENS = [
    Golden(id="refund", input="Refund it.", expected_tools=[ToolCall(name="refund")]),
    Golden(id="sum", input="Go.", expected_tools=[ToolCall(name="add")]),
    Golden(id="look", input="Where is it?", expected_tools=[ToolCall(name="find")]),
]
MESSAGES = [
    {"role": "user", "content": "Refund it."},
    {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "refund", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "ok"},
]


SKILL = ROOT / "skills" / "toolgrade" / "SKILL.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {"toolgrade": COMMAND, "python": ()}


def commands_of(page: str) -> list[str]:
    """Return the commands of the blocks of a page, without those that are skipped."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shell = [block for language, block in BLOCK.findall(text) if language in {"", "console"}]
    lines = [line.removeprefix("$ ") for block in shell for line in block.splitlines()]
    return [line for line in lines if line.startswith("toolgrade ") and not SKIPPED.search(line)]


def run_line(line: str, folder: Path) -> Finished:
    """Run a command, with its output written to a file if the line says so."""
    command, _, target = line.partition(" > ")
    program, *arguments = shlex.split(command, comments=True)
    opens_tapes = "pytest" in arguments
    done = run_python([*PROGRAMS[program], *arguments], folder, settings=PLUGINS, frameworks=opens_tapes)
    if target:
        (folder / target).write_text(done.out, encoding="utf-8")
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the pages name: cases that all pass, with labels, and a log, goldens, tools and a trace."""
    cases = []
    for golden in GOLDENS * 10:
        calls = list(golden.expected_tools or ())
        metadata = {"reward": len(cases) % 2, "task_id": golden.id}
        name = f"{golden.id} {len(cases)}"
        run = Run(input=golden.input, calls=calls)
        cases.append(LLMTestCase(name=name, input=golden.input, tools_called=calls, expected_tools=calls, run=run))
        cases[-1] = cases[-1].model_copy(update={"metadata": metadata})
    for name in ("runs.jsonl", "cases.jsonl", "monday.jsonl", "tuesday.jsonl"):
        write_cases(tmp_path / name, cases)
    write_cases(tmp_path / "goldens.jsonl", GOLDENS)
    (tmp_path / "tools.json").write_text('[{"name": "refund"}, {"name": "find"}, {"name": "add"}]', encoding="utf-8")
    add = ToolCall(name="add", execution={"status": "ok"})
    tools = [ToolSpec(name=name) for name in ("refund", "find", "add")]
    write_cases(tmp_path / "calls.jsonl", [LLMTestCase(id="session", tools_called=[add], available_tools=tools)])
    (tmp_path / "log.jsonl").write_text(json.dumps({"id": "refund", "messages": MESSAGES}), encoding="utf-8")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "log.jsonl").write_text(json.dumps({"id": "refund", "messages": MESSAGES}), encoding="utf-8")
    script = Script("Go.", [Step("boss", [ScriptedCall("add", "c1", {}, "3")]), Step("boss", [], "Done.")])
    (tmp_path / "trace.json").write_text(json.dumps(otlp(script)), encoding="utf-8")
    (tmp_path / "__toolgrade__").mkdir()
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, folder: Path) -> None:
    """Each ends with code 0, and with the files that the next ones read."""
    commands = commands_of(page)
    assert commands
    for line in PAGES[page] + commands:
        done = run_line(line, folder)
        assert (done.code, line) == (0, line), done.err


@pytest.mark.any_version
def test_the_skill_can_be_followed(tmp_path: Path) -> None:
    """In an empty folder: its files are written, its commands end with the codes and the finding that it names."""
    text = SKILL.read_text(encoding="utf-8")
    codes, printed = [], ""
    for block in BLOCK.finditer(text):
        name = re.search(r"`([\w.]+)`:\n\n$", text[: block.start()])
        if name is not None:
            (tmp_path / name[1]).write_text(block[2], encoding="utf-8")
        for line in [] if block[1] else block[2].splitlines():
            done = run_line(line, tmp_path)
            code = re.search(r"# exit code (\d)$", line)
            assert (done.code, line) == (int(code[1]) if code else 0, line), done.out + done.err
            codes.append(done.code)
            printed += done.out
    (finding,) = re.findall(r"finding of each case, here `([^`]+)`", text)

    assert sorted(codes) == [0] * (len(codes) - 2) + [1, 2]
    assert finding in printed
