"""Records what LangChain and LangGraph agents do with their tools, as runs that `toolgrade` scores.

```python
from toolgrade_langchain import ToolCallRecorder

recorder = ToolCallRecorder()
agent.invoke({"messages": "What is the weather in Paris?"}, config={"callbacks": [recorder]})
case = recorder.test_case(expected_tools=[ToolCall(name="weather", input_parameters={"city": "Paris"})])
```
"""

from toolgrade_langchain._agent import as_agent
from toolgrade_langchain._from_messages import run_from_messages, run_from_state
from toolgrade_langchain._judge import as_judge
from toolgrade_langchain._recorder import ToolCallRecorder, record

__all__ = [
    "ToolCallRecorder",
    "as_agent",
    "as_judge",
    "record",
    "run_from_messages",
    "run_from_state",
]
