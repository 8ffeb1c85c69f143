"""Programs of pages that need an agent, a model or another library: each runs as it stands, with these given to it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any

import pytest

from processes import COMMAND, ROOT, run_python
from readme_code import BLOCK
from toolgrade import LLMTestCase, Report, ToolCall, ToolCorrectnessMetric, evaluate

CALLED = {"tools_called": [{"name": "add", "args": {"a": 1, "b": 2}}]}
REPORTED: dict[str, Any] = {"ToolCorrectnessMetric": ToolCorrectnessMetric, "evaluate": evaluate}


def program(page: str, mark: str) -> str:
    """Return the only program of a page that has a text in it and is not run by the page's own test."""
    blocks = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    (text,) = [text for kind, text in blocks if kind == "py" and mark in text]
    return str(text)


def run(text: str, **names: Any) -> dict[str, Any]:
    """Run a program with these names, and return all names that it ends with."""
    exec(compile(text, "page", "exec"), names)  # noqa: S102 - our own
    return names


def test_a_test_passes_and_saves_a_golden() -> None:
    """The guide's test uses both fixtures; pytest's own run of them is that of the page on pytest."""
    calls: list[Any] = []
    names = run(
        program("guide", "def test_refund"),
        case=LLMTestCase(input="Refund it.", tools_called=[], expected_tools=[]),
        recorder=SimpleNamespace(last_run="run"),
        **REPORTED,
    )
    names["test_refund"](lambda case, metrics: calls.append(evaluate([case], metrics).passed), calls.append)

    assert calls == [True, "run"]


def test_an_instrumented_function_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program of the page on live recording, with spans of a tool and of the agent around it."""
    trace = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed here")
    from toolgrade.live.otel import as_agent, record_spans

    provider = trace.TracerProvider()
    golden = {"input": "What is 1 + 2?", "expected_tools": [{"name": "add"}]}
    (tmp_path / "goldens.jsonl").write_text(json.dumps(golden), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def answer(question: str) -> str:
        tracer = provider.get_tracer("agent")
        prompt = json.dumps([{"role": "user", "parts": [{"type": "text", "content": question}]}])
        about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": prompt}
        with tracer.start_as_current_span("invoke_agent", attributes=about):
            call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}
            with tracer.start_as_current_span("execute_tool add", attributes=call) as span:
                span.set_attribute("gen_ai.tool.call.arguments", '{"a": 1, "b": 2}')
                span.set_attribute("gen_ai.tool.call.result", "3")
        return "3"

    text = program("live", "record_spans()").replace("from toolgrade.live.otel import as_agent, record_spans\n", "")
    names = run(
        text,
        answer=answer,
        ToolCall=ToolCall,
        record_spans=lambda: record_spans(provider=provider),
        as_agent=lambda function: as_agent(function, provider=provider),
        **REPORTED,
    )

    assert [call.name for call in names["case"].tools_called] == ["add"]
    assert isinstance(names["report"], Report)
    assert names["report"].passed


def test_pydantic_evals_runs_the_metric() -> None:
    """In a data set of its own."""
    pytest.importorskip("pydantic_evals", reason="pydantic-evals is not installed here")
    # Its synchronous form leaves an event loop open, which this suite does not allow.
    text = program("extend", "pydantic_evals").replace("dataset.evaluate_sync(agent)", "")
    names = run(text, **REPORTED)
    report = asyncio.run(names["dataset"].evaluate(lambda _: CALLED, progress=False))

    assert report.cases[0].scores["tool_correctness"].value == 1


def test_promptfoo_calls_the_assertion() -> None:
    """With the output of a provider and the context of a test."""
    names = run(program("extend", "promptfoo"))
    output = json.dumps([{"type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}])

    metadata = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 2}}]}
    assert names["get_assert"](output, {"vars": {}, "test": {"metadata": metadata}})["pass"] is True


RECORDED = """

async def main() -> None:
    question = "Where is order 7?"
    agent = build_agent(question)
{block}
    print([call.name for call in recorder.last_run.tools_called])


asyncio.run(main())
"""


@pytest.mark.parametrize("framework", ["langchain", "llama-index", "openai-agents"])
def test_the_skill_records_an_agent(framework: str, tmp_path: Path) -> None:
    """The one that `toolgrade init` writes for the framework."""
    package = f"toolgrade_{framework.replace('-', '_')}"
    pytest.importorskip(package, reason=f"{package} is not installed here")
    text = (ROOT / "skills" / "toolgrade" / "SKILL.md").read_text(encoding="utf-8")
    (block,) = [block for _, block in BLOCK.findall(text) if f"from {package} import" in block]
    assert run_python([*COMMAND, "init", "--framework", framework], tmp_path).code == 0
    agent = (tmp_path / "evals" / "test_agent.py").read_text(encoding="utf-8")
    program = f"import asyncio\n{agent}{RECORDED.format(block=indent(block, '    '))}"
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = run_python(["-W", "ignore", "program.py"], tmp_path, frameworks=True)  # frameworks warn of themselves

    assert (done.code, done.out) == (0, "['find_order']\n"), done.err
