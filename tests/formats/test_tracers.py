"""Each tracer in its own file: nothing else knows its name, or a prefix of its attributes."""

from __future__ import annotations

import re

import pytest

from processes import ROOT

SOURCES = ROOT / "src" / "toolgrade"
WORDS = {
    "google_adk": r"gcp\.vertex",  # sessions of the kit are a format of messages, too
    "haystack": r"\bhaystack\.",
    "langfuse": r"langfuse",
    "langsmith": r"langsmith",
    "litellm": r"litellm|raw_gen_ai_request",
    "llama_index": r"LLMChat(Start|End)Event",
    "logfire": r"logfire|pydantic_ai|model_request_parameters",
    "mlflow": r"mlflow",
    "openai_agents": r"span_data|mcp_data",
    "openinference": r"openinference|\"(in|out)put\.value|smolagents|beeai|llm\.(in|out)put_messages",
    "openllmetry": r"openllmetry|traceloop",
    "vercel": r"\bai\.(prompt|response|toolCall|operationId)",
}
LISTED = {"formats/__init__.py", "formats/traces/read.py", "formats/traces/tracers/__init__.py"}
"""Files that list what `read_traces` reads."""


def test_every_tracer_has_words() -> None:
    """So that a new tracer is checked, too."""
    files = (SOURCES / "formats" / "traces" / "tracers").glob("*.py")
    assert {path.stem for path in files} - {"__init__", "tracer"} == WORDS.keys()


@pytest.mark.parametrize("tracer", WORDS)
def test_a_tracer_is_known_in_its_file_only(tracer: str) -> None:
    """In the packages that read and record; the list of formats and the list of tracers may name it."""
    word = re.compile(WORDS[tracer], re.IGNORECASE)
    paths = [path for package in ("formats", "capture", "live") for path in (SOURCES / package).rglob("*.py")]
    named_in = {path.relative_to(SOURCES).as_posix() for path in paths if word.search(path.read_text("utf-8"))}

    assert named_in - LISTED == {f"formats/traces/tracers/{tracer}.py"}
