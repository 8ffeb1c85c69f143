"""The package imports on its own, and needs no more of the framework than its core."""

import subprocess
import sys

import toolgrade_langchain


def loaded_by(module: str) -> set[str]:
    """Return the packages that importing a module loads in a fresh interpreter."""
    code = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(done.stdout.split())


def test_imports_the_core_of_the_framework_only() -> None:
    """Importing the adapter loads `langchain_core`, and of LangChain and LangGraph no more than that loads itself."""
    loaded = loaded_by("toolgrade_langchain")

    assert "langchain_core" in loaded
    more = loaded & {"langchain", "langgraph"}
    assert not more or more <= loaded_by("langchain_core.prompt_values")  # which in 0.3 loads LangChain if it is there


def test_public_names_are_sorted_and_exist() -> None:
    """Every public name exists, and the list is sorted."""
    assert toolgrade_langchain.__all__ == sorted(toolgrade_langchain.__all__)
    assert all(hasattr(toolgrade_langchain, name) for name in toolgrade_langchain.__all__)
