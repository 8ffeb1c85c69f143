"""Replay: recorded runs answer in place of the tools, so that an agent runs again and nothing is paid, sent or changed.

```python
from toolgrade import Golden, ToolCorrectnessMetric, evaluate
from toolgrade.replay import Fault, replay

with replay("runs.jsonl", faults=[Fault("pay", error="TimeoutError: no answer", times=1)]) as tape:
    report = evaluate(goldens="goldens.jsonl", agent=agent, metrics=[ToolCorrectnessMetric()])
print(tape)  # 14 replayed, 1 fault, 0 outside the recording
```
"""

from toolgrade.errors import ReplayError
from toolgrade.replay.faults import Fault
from toolgrade.replay.tape import Tape, replay

__all__ = ["Fault", "ReplayError", "Tape", "replay"]
