"""Records what OpenAI Agents do with their tools, as runs that `toolgrade` scores.

```python
from toolgrade_openai_agents import record

with record() as recorder:
    result = await Runner.run(agent, "What is the weather in Paris?")
case = recorder.test_case(expected_tools=[ToolCall(name="weather", input_parameters={"city": "Paris"})])
```
"""

from toolgrade_openai_agents._agent import as_agent
from toolgrade_openai_agents._from_result import run_from_result
from toolgrade_openai_agents._judge import as_judge
from toolgrade_openai_agents._recorder import Recorder, record
from toolgrade_openai_agents._tools import available_tools

__all__ = [
    "Recorder",
    "as_agent",
    "as_judge",
    "available_tools",
    "record",
    "run_from_result",
]
