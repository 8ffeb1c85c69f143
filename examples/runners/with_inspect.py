"""Score an evaluation of Inspect AI: the numbered lines. The rest is a task whose model is scripted.

From a checkout of toolgrade: `pip install inspect-ai .`
"""

from inspect_ai import Task
from inspect_ai import eval as run_task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, tool

from toolgrade import ToolCorrectnessMetric  # 1
from toolgrade.compat.hosts.inspect import scorer  # 2


@tool
def add() -> Tool:
    """Return a tool that adds."""

    async def execute(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: One number.
            b: The other one.
        """
        return a + b

    return execute


EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 2}}]}  # 3

task = Task(
    dataset=[Sample(input="What is 1 + 2?", target="It is 3.", metadata=EXPECTED)],
    solver=[use_tools(add()), generate()],
    scorer=scorer(ToolCorrectnessMetric(evaluation_params=["input_parameters"])),  # 4
)

if __name__ == "__main__":
    replies = [
        ModelOutput.for_tool_call("mockllm", "add", {"a": 1, "b": 2}),
        ModelOutput.from_content("mockllm", "It is 3."),
    ]
    for reply in replies:
        reply.usage = ModelUsage()  # else Inspect counts tokens, by a file from the network
    (log,) = run_task(task, model=get_model("mockllm/model", custom_outputs=replies), display="none")
    for sample in log.samples:
        for name, score in sample.scores.items():
            print(f"{name}: {score.value:g}. {score.explanation}")
