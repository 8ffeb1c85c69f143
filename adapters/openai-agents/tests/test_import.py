"""The package imports on its own, defines its public names, and does not change the SDK."""

import subprocess
import sys

import toolgrade_openai_agents


def test_importing_changes_nothing() -> None:
    """After the import, the SDK's runner and its agents are as before."""
    code = (
        "from agents.run import get_default_agent_runner as runner; from agents.agent import AgentBase;"
        "before = runner(), AgentBase.get_all_tools; import toolgrade_openai_agents;"
        "print(before == (runner(), AgentBase.get_all_tools))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert done.stdout.split() == ["True"]


def test_public_names_are_sorted_and_exist() -> None:
    """Every public name exists, and the list is sorted."""
    assert toolgrade_openai_agents.__all__ == sorted(toolgrade_openai_agents.__all__)
    assert all(hasattr(toolgrade_openai_agents, name) for name in toolgrade_openai_agents.__all__)
