"""For tests of agents without a model, and of adapters: scripted models and endpoints, known tools, finished runs.

```python
from toolmark.testing import ADD, AdapterContract, AskFor, Recorded, Scene, ScriptedModel, sample_runs

model = ScriptedModel([AskFor("add", {"a": 1}, "c1")], "three")
assert model.next_step().calls[0].name == "add"
assert model.next_step().text == "three"
assert sample_runs()["parallel"].tools_called[0].name == "slow"


class TestMyAdapter(AdapterContract):  # pytest finds the tests that it inherits
    async def arun(self, scene: Scene) -> Recorded: ...
```
"""

from toolmark.testing.adapter_hooks import AdapterHooks, Fault, NotSupportedError, PlantedFaultError, Recorded
from toolmark.testing.contract import AdapterContract, check_contract
from toolmark.testing.fake_openai.batches import BatchEnd, BatchPlan
from toolmark.testing.fake_openai.http import ReceivedRequest
from toolmark.testing.fake_openai.replies import HttpFault, Reply, ReplyLike
from toolmark.testing.fake_openai.server import FakeOpenAI
from toolmark.testing.judge_prompts import VERDICT_SCHEMA, sample_prompt
from toolmark.testing.samples import sample_runs
from toolmark.testing.scene import AgentTool, Scene
from toolmark.testing.scripted_model import AskFor, HandOff, ScriptedModel, ScriptEndedError, Step, StepLike
from toolmark.testing.tool_doubles import ADD, BOOM, FILL, SLOW, HangingTool, ToolDouble, flaky_tool

__all__ = [
    "ADD",
    "BOOM",
    "FILL",
    "SLOW",
    "VERDICT_SCHEMA",
    "AdapterContract",
    "AdapterHooks",
    "AgentTool",
    "AskFor",
    "BatchEnd",
    "BatchPlan",
    "FakeOpenAI",
    "Fault",
    "HandOff",
    "HangingTool",
    "HttpFault",
    "NotSupportedError",
    "PlantedFaultError",
    "ReceivedRequest",
    "Recorded",
    "Reply",
    "ReplyLike",
    "Scene",
    "ScriptEndedError",
    "ScriptedModel",
    "Step",
    "StepLike",
    "ToolDouble",
    "check_contract",
    "flaky_tool",
    "sample_prompt",
    "sample_runs",
]
