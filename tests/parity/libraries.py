"""Fields in which the runs of other libraries, which OpenTelemetry records, differ from those of the adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from parity.scenarios import SCENARIOS
from processes import ROOT
from toolgrade.testing import AgentTool, Scene

DIFFERENCES = ROOT / "tests" / "live" / "libraries" / "parity.json"
"""By library and scenario, the fields that differ; written by the tests of the libraries."""

_WORDS: Final = "the error has the library's wording"
_REFUSES: Final = "the library refuses the arguments itself and does not call the tool"
_READ: Final = "what is read from spans warns of arguments that are not JSON"
_CLIENT: Final = {
    "agent": "a client has no agent",
    "executed": "your program runs the tools, and no span shows it",
    "error": "the client sees the text that your program made of the exception",
    "calls": "no span shows a tool, so calls that an agent makes inside it stand beside it",
    "run.available_tools": "the tools of an agent inside a tool are offered to the run",
    "run.error": _WORDS,
    "run.warnings": _READ,
}
_FAILURE_IS_TEXT: Final = "a result of OpenAI's API does not say that the call failed"

REASONS: Final = {
    "Pydantic AI": {"error": _WORDS, "run.error": _WORDS, "run.warnings": _READ},
    "Strands": {
        "executed": "its span of a tool that does not exist is that of a tool that fails",
        "status": "its spans do not say that a tool does not exist, or that arguments are not JSON",
        "run.error": _WORDS,
    },
    "Agent Framework": {
        "executed": _REFUSES,
        "status": "its spans do not say that it refused the arguments",
        "output": "a refusal, and a tool that returns nothing, have a result of the library's own",
        "run.error": _WORDS,
        "run.warnings": _READ,
    },
    "smolagents": {
        "agent": "names of its agents are identifiers; the span of an agent whose model fails stays open",
        "executed": _REFUSES,
        "run.available_tools": "if the span of the agent stays open, `final_answer` is among the tools",
        "run.error": _WORDS,
        "run.warnings": "what is read from spans warns of arguments that are not JSON, and of open spans",
    },
    "OpenAI's client": {**_CLIENT, "status": _FAILURE_IS_TEXT, "output": _FAILURE_IS_TEXT},
    "Anthropic's client": _CLIENT,
    "Google ADK": {
        "agent": "names of its agents are identifiers",
        "error": "its span has the kind of the failure only",
        "executed": "its span of a tool that does not exist is that of a tool that fails",
        "input_parameters": "its spans leave out arguments that are null",
        "output": 'what a function returns is `{"result": ...}`',
        "status": "its spans do not say that a tool does not exist; its models write arguments as objects",
    },
}
"""By library and field, why it differs."""


def is_playable(scene: Scene) -> bool:
    """Whether a scene needs only tools and agents as tools, which all libraries have."""
    inner = [tool.scene for tool in scene.tools if isinstance(tool, AgentTool)]
    return not (scene.handoffs or scene.images or scene.is_structured) and all(map(is_playable, inner))


PLAYABLE: Final = [name for name, make in SCENARIOS.items() if is_playable(make())]


def _listed() -> Mapping[str, Mapping[str, list[str]]]:
    listed: Mapping[str, Mapping[str, list[str]]] = json.loads(DIFFERENCES.read_text(encoding="utf-8"))
    return listed


def differing_fields() -> dict[str, set[str]]:
    """Return the fields in which a library differs in some scenario."""
    return {name: {field for fields in scenarios.values() for field in fields} for name, scenarios in _listed().items()}


def table() -> str:
    """Return the table for the page, and the reasons below it."""
    listed = _listed()
    lines = [f"| scenario | {' | '.join(REASONS)} |", "|---" * (len(REASONS) + 1) + "|"]
    for scenario in PLAYABLE:
        cells = [", ".join(map(_short, listed[library].get(scenario, ()))) or "equal" for library in REASONS]
        lines.append(f"| {scenario} | {' | '.join(cells)} |")
    lines += ["", "| library | field | why it differs |", "|---|---|---|"]
    lines += [
        f"| {library} | {_short(field)} | {reason} |"
        for library, reasons in REASONS.items()
        for field, reason in reasons.items()
    ]
    return "\n".join(lines)


def _short(field: str) -> str:
    return f"`{field}`"
