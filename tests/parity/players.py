"""The three frameworks as players of scenes: the classes by which each adapter's own tests play them."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from processes import ROOT
from toolgrade.testing import AdapterContract, Recorded, Scene

FRAMEWORKS = {"LangChain": "langchain", "LlamaIndex": "llama-index", "OpenAI Agents": "openai-agents"}
"""The frameworks, by the folders of their adapters."""


def is_complete() -> bool:
    """Whether all frameworks are installed; the core is also tested without them."""
    return all(find_spec(package) for package in ("langgraph", "llama_index", "agents"))


@cache
def player(framework: str) -> AdapterContract:
    """Return what plays scenes on a framework."""
    tests = ROOT / "adapters" / FRAMEWORKS[framework] / "tests"
    contract: AdapterContract = _load(tests / "test_contract.py", FRAMEWORKS[framework]).TestContract()
    return contract


def _load(path: Path, name: str) -> ModuleType:
    """Import a file of an adapter's tests with its helpers."""
    spec = importlib.util.spec_from_file_location(f"parity_{name.replace('-', '_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pydantic looks up the annotations of a model there
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def play(framework: str, scene: Scene) -> Recorded:
    """Play one scene."""
    return asyncio.run(player(framework).arun(scene))
