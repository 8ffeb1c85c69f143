"""The package imports on its own, needs no more of the framework than its core, and listens to nothing by itself."""

import subprocess
import sys

import toolgrade_llama_index


def printed(code: str) -> list[str]:
    """Return the words that a program prints in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return done.stdout.split()


def test_imports_the_core_of_the_framework_only() -> None:
    """Importing the adapter loads `llama_index.core`, and no integration."""
    loaded = printed("import sys, toolgrade_llama_index; print(*sys.modules)")

    parts = {name.split(".")[1] for name in loaded if name.startswith("llama_index.")}
    assert parts == {"core"}


def test_importing_listens_to_nothing() -> None:
    """Handlers are registered only while a recorder is active."""
    code = (
        "from llama_index.core.instrumentation import get_dispatcher\n"
        "root = get_dispatcher()\n"
        "before = len(root.span_handlers), len(root.event_handlers)\n"
        "import toolgrade_llama_index\n"
        "recorder = toolgrade_llama_index.record()\n"
        "print((len(root.span_handlers), len(root.event_handlers)) == before)"
    )

    assert printed(code) == ["True"]


def test_public_names_are_sorted_and_exist() -> None:
    """Every public name exists, and the list is sorted."""
    assert toolgrade_llama_index.__all__ == sorted(toolgrade_llama_index.__all__)
    assert all(hasattr(toolgrade_llama_index, name) for name in toolgrade_llama_index.__all__)
