"""The package imports on its own, and brings no framework with it."""

import subprocess
import sys

FRAMEWORK = {"agents", "openai"}


def test_imports_without_its_framework() -> None:
    """Importing the adapter loads no module of OpenAI Agents."""
    code = "import sys, toolmark_openai_agents; print(*sorted({name.partition('.')[0] for name in sys.modules}))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    loaded = set(done.stdout.split())
    assert "toolmark_openai_agents" in loaded
    assert not loaded & FRAMEWORK
