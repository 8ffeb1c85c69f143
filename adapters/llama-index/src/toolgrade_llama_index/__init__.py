"""Records what LlamaIndex agents and workflows do with their tools, as runs that `toolgrade` scores.

```python
from toolgrade_llama_index import record

with record() as rec:
    await agent.run(user_msg="What is the weather in Paris?")
case = rec.test_case(expected_tools=[ToolCall(name="weather", input_parameters={"city": "Paris"})])
```
"""

from toolgrade_llama_index._agent import as_agent
from toolgrade_llama_index._from_events import runs_from_events
from toolgrade_llama_index._judge import as_judge
from toolgrade_llama_index._recorder import ToolCallRecorder, record
from toolgrade_llama_index._run_case import run_case
from toolgrade_llama_index._tools import available_tools
from toolgrade_llama_index._track import track

__all__ = [
    "ToolCallRecorder",
    "as_agent",
    "as_judge",
    "available_tools",
    "record",
    "run_case",
    "runs_from_events",
    "track",
]
