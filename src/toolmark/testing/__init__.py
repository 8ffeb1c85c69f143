"""Helpers for tests of agents and adapters: scripted models, a fake OpenAI endpoint, tool doubles, sample runs.

```python
from toolmark.testing import ADD, AdapterContract, AskFor, Recorded, Scene, ScriptedModel, sample_runs

model = ScriptedModel([AskFor("add", {"a": 1}, "c1")], "three")
assert model.next_step().calls[0].name == "add"
assert model.next_step().text == "three"
assert sample_runs()["parallel"].tools_called[0].name == "slow"


class TestMyAdapter(AdapterContract):  # pytest collects the inherited tests
    async def arun(self, scene: Scene) -> Recorded: ...
```
"""

from toolmark.testing.adapter_hooks import AgentTool, NotSupportedError, Recorded, Scene
from toolmark.testing.contract import AdapterContract
from toolmark.testing.fake_openai.batches import BatchPlan
from toolmark.testing.fake_openai.http import ReceivedRequest
from toolmark.testing.fake_openai.replies import HttpFault, Reply
from toolmark.testing.fake_openai.server import FakeOpenAI
from toolmark.testing.samples import VERDICT_SCHEMA, sample_prompt, sample_runs
from toolmark.testing.scripted_model import AskFor, HandOff, ScriptedModel, ScriptEndedError, Step
from toolmark.testing.tool_doubles import ADD, BOOM, ToolDouble, flaky_tool

__all__ = [
    "ADD",
    "BOOM",
    "VERDICT_SCHEMA",
    "AdapterContract",
    "AgentTool",
    "AskFor",
    "BatchPlan",
    "FakeOpenAI",
    "HandOff",
    "HttpFault",
    "NotSupportedError",
    "ReceivedRequest",
    "Recorded",
    "Reply",
    "Scene",
    "ScriptEndedError",
    "ScriptedModel",
    "Step",
    "ToolDouble",
    "flaky_tool",
    "sample_prompt",
    "sample_runs",
]
