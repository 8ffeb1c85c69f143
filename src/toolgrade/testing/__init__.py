"""Helpers for tests of agents and adapters: scripted models, a fake OpenAI endpoint, tool doubles, a sample prompt.

```python
from toolgrade.testing import AdapterContract, AskFor, Recorded, Scene, ScriptedModel

model = ScriptedModel([AskFor("add", {"a": 1}, "c1")], "three")
assert model.next_step().calls[0].name == "add"
assert model.next_step().text == "three"


class TestMyAdapter(AdapterContract):  # pytest collects the inherited tests
    async def arun(self, scene: Scene) -> Recorded: ...
```
"""

from toolgrade.testing.adapter_hooks import AgentTool, NotSupportedError, Recorded, Scene
from toolgrade.testing.contract import AdapterContract
from toolgrade.testing.fake_openai.batches import BatchPlan
from toolgrade.testing.fake_openai.http import ReceivedRequest
from toolgrade.testing.fake_openai.replies import HttpFault, Reply
from toolgrade.testing.fake_openai.server import FakeOpenAI
from toolgrade.testing.judge_contract import JudgeContract, sample_prompt
from toolgrade.testing.scripted_model import AskFor, HandOff, ScriptedModel, Step
from toolgrade.testing.tool_doubles import ToolDouble

__all__ = [
    "AdapterContract",
    "AgentTool",
    "AskFor",
    "BatchPlan",
    "FakeOpenAI",
    "HandOff",
    "HttpFault",
    "JudgeContract",
    "NotSupportedError",
    "ReceivedRequest",
    "Recorded",
    "Reply",
    "Scene",
    "ScriptedModel",
    "Step",
    "ToolDouble",
    "sample_prompt",
]
